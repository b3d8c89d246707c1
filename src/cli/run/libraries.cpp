#include "cli/run/libraries.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

namespace smelt::cli {
namespace {

constexpr const char* cache_file = "/etc/ld.so.cache";
constexpr const char* system_directories =
#if defined(__x86_64__)
    "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:"
#elif defined(__aarch64__)
    "/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu:"
#endif
    "/lib64:/usr/lib64:/lib:/usr/lib";

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

/// The directory of a file, links followed; empty if there is no such file.
std::string directory_of(const std::string& file) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(file.c_str(), nullptr), std::free);
  if (real == nullptr) return {};
  const std::string path = real.get();
  return path.substr(0, path.rfind('/'));
}

std::uint32_t number_at(const std::string& text, std::size_t offset) {
  std::uint32_t value = 0;
  if (offset + sizeof value <= text.size()) std::memcpy(&value, text.data() + offset, sizeof value);
  return value;
}

std::string text_at(const std::string& text, std::size_t offset) {
  if (offset >= text.size()) return {};
  const auto bytes = std::string_view(text).substr(offset, PATH_MAX);
  return std::string(bytes.substr(0, bytes.find('\0')));
}

bool has_text_at(const std::string& text, std::size_t offset, const std::string& expected) {
  if (offset > text.size() || text.size() - offset <= expected.size()) return false;
  return text[offset + expected.size()] == '\0' && text.compare(offset, expected.size(), expected) == 0;
}

}  // namespace

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t from = 0;;) {
    const auto to = text.find(separator, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string::npos) return parts;
    from = to + 1;
  }
}

std::string read_text(const std::string& file, std::size_t most) {
  std::string text;
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  for (std::size_t room = 64 << 10;; room *= 2) {
    const std::size_t size = text.size(), more = std::min(room, most - size);
    text.resize(size + more);
    const ssize_t got = read(fd, text.data() + size, more);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0 || text.size() == most) break;
  }
  close(fd);
  return text;
}

std::vector<std::string> directories_of(const std::string& list, const std::string& file) {
  std::vector<std::string> directories;
  if (list.empty()) return directories;
  const std::string origin = list.find("ORIGIN") != std::string::npos ? directory_of(file) : std::string();
  for (std::string& directory : split(list, ':')) {
    if (directory.empty()) continue;
    replace_all(directory, "${ORIGIN}", origin);
    replace_all(directory, "$ORIGIN", origin);
    directories.push_back(std::move(directory));
  }
  return directories;
}

LibrarySearch::LibrarySearch(const std::string& file, const Elf& program, AsksFor asks_for) : asks_for_(asks_for) {
  if (program.runpath.empty()) rpath_of_program_ = directories_of(program.rpath, file);
  const char* path = std::getenv("LD_LIBRARY_PATH");
  if (path != nullptr) environment_ = directories_of(path, file);
}

LibrarySearch::Found LibrarySearch::load(const std::string& file) const {
  auto elf = read_elf(file, asks_for_);
  return elf && elf->loadable ? Found({file, *std::move(elf)}) : std::nullopt;
}

LibrarySearch::Found LibrarySearch::first_with(const Directories& directories, const std::string& name) const {
  for (const auto& directory : directories) {
    if (auto found = load(directory + "/" + name)) return found;
  }
  return std::nullopt;
}

LibrarySearch::Found LibrarySearch::find(const std::string& name, const std::string& by, const Elf& needing) {
  if (name.find('/') != std::string::npos) {
    const auto places = directories_of(name, by);
    return places.empty() ? std::nullopt : load(places.front());
  }
  if (needing.runpath.empty()) {
    if (auto found = first_with(directories_of(needing.rpath, by), name)) return found;
    if (auto found = first_with(rpath_of_program_, name)) return found;
  }
  if (auto found = first_with(environment_, name)) return found;
  if (auto found = first_with(directories_of(needing.runpath, by), name)) return found;
  if (auto found = find_in_cache(name)) return found;
  return first_with(directories_of(system_directories, by), name);
}

std::string file_in_cache(const std::string& cache, const std::string& name,
                          const std::function<bool(const std::string& file)>& accepts) {
  constexpr std::size_t header = 48, entry = 24;
  const std::size_t start = cache.find("glibc-ld.so.cache1.1");
  if (start == std::string::npos) return {};
  const std::size_t count = number_at(cache, start + 20);
  for (std::size_t i = 0; i < count && start + header + (i + 1) * entry <= cache.size(); ++i) {
    const std::size_t at = start + header + i * entry;
    if (!has_text_at(cache, start + number_at(cache, at + 4), name)) continue;
    if (auto file = text_at(cache, start + number_at(cache, at + 8)); accepts(file)) return file;
  }
  return {};
}

LibrarySearch::Found LibrarySearch::find_in_cache(const std::string& name) {
  if (!cache_read_) {
    cache_read_ = true;
    cache_ = read_text(cache_file);
  }
  Found found;
  file_in_cache(cache_, name, [&](const std::string& file) { return (found = load(file)).has_value(); });
  return found;
}

}  // namespace smelt::cli
