#include "graph/run/compiler.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "graph/files/bytes.hpp"
#include "graph/files/output.hpp"
#include "smelt/settings.hpp"

extern char** environ;

namespace smelt::graph {
namespace {

/// The language allows sums in any order. INF and NIL must keep their meaning.
constexpr const char* flags[] = {"-std=c++20",
                                 "-O3",
                                 "-march=native",
                                 "-fPIC",
                                 "-shared",
                                 "-fwrapv",
                                 "-fno-math-errno",
                                 "-fno-trapping-math",
                                 "-fno-signed-zeros",
                                 "-fassociative-math",
                                 "-w"};

std::uint64_t hash(std::string_view text, std::uint64_t start = 0xcbf29ce484222325ull) {
  for (const char c : text) start = (start ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return start;
}

std::string read_text_file(const std::string& name, std::size_t most) {
  const auto file = File::open(name);
  if (!file) return {};
  std::string text(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const auto count = file->read(text.data() + size, most - size);
    if (!count || *count == 0) break;
    size += *count;
  }
  text.resize(size);
  return text;
}

/// The properties of the CPU on which -march=native depends.
std::string cpu_flags() {
  const std::string text = read_text_file("/proc/cpuinfo", 16u << 10);
  std::string found;
  for (const char* key : {"model name", "flags", "Features"}) {
    const auto at = text.find(key);
    if (at != std::string::npos) found += text.substr(at, text.find('\n', at) - at);
  }
  return found;
}

std::string find_in_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    const auto end = std::min(rest.find(':'), rest.size());
    const std::string file = std::string(rest.substr(0, end)) + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

/// A temporary directory for the compiler's files. Only who holds its lock creates or removes files in it. The lock
/// ends with the process, so that the next compilation removes what a killed one has left.
class WorkDirectory {
 public:
  WorkDirectory() {
    const char* setting = std::getenv("TMPDIR");
    const std::string parent = setting != nullptr && *setting != '\0' ? setting : "/tmp";
    remove_abandoned(parent);
    do {
      name_ = parent + "/" + prefix + "XXXXXX";
    } while (create() && was_removed());
  }
  ~WorkDirectory() {
    if (!name_.empty()) remove(lock_, name_);
    close_lock();
  }
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;
  bool exists() const { return !name_.empty(); }
  std::string path(const char* file) const { return name_ + "/" + file; }

 private:
  static constexpr const char* prefix = "smelt-compile-";

  bool create() {
    close_lock();
    const bool made = mkdtemp(name_.data()) != nullptr;
    if (made) lock_ = open(name_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0) {
      if (made) rmdir(name_.c_str());
      name_.clear();
      return false;
    }
    // Where this fails (some network file systems have no such locks), nobody else gets the lock either.
    while (flock(lock_, LOCK_EX) != 0 && errno == EINTR) continue;
    return true;
  }

  static void remove(int directory, const std::string& name) {
    for (const char* file : {"program.cpp", "program.so", "messages"}) unlinkat(directory, file, 0);
    rmdir(name.c_str());
  }

  static void remove_abandoned(const std::string& parent) {
    DIR* const entries = opendir(parent.c_str());
    if (entries == nullptr) return;
    while (const dirent* entry = readdir(entries)) {
      const std::string_view name = entry->d_name;
      if (!name.starts_with(prefix) || name.size() != std::strlen(prefix) + 6) continue;
      const int found = openat(dirfd(entries), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (found < 0) continue;
      struct stat status = {};
      const bool own = fstat(found, &status) == 0 && status.st_uid == geteuid();
      if (own && flock(found, LOCK_EX | LOCK_NB) == 0) remove(found, parent + "/" + entry->d_name);
      close(found);
    }
    closedir(entries);
  }

  /// Another process may have found the directory before it was locked.
  bool was_removed() const { return access(name_.c_str(), F_OK) != 0 && errno == ENOENT; }

  void close_lock() {
    if (lock_ >= 0) close(lock_);
    lock_ = -1;
  }

  std::string name_;
  int lock_ = -1;
};

/// Runs a command with its messages in a file; its exit status, -1 if it could not be started.
int run(const std::vector<std::string>& words, const std::string& messages) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/// The first error of a compiler's output, on one line.
std::string first_message(const std::string& text) {
  auto at = text.find("error:");
  if (at == std::string::npos) at = 0;
  std::string line = text.substr(at, std::min<std::size_t>(text.find('\n', at) - at, 300));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return line;
}

Result<void> write_whole(const std::string& name, const std::string& text) {
  auto file = OutputFile::create(name);
  if (!file) return file.error();
  file->write(text.data(), text.size());
  return file->finish();
}

/// Also across file systems.
Result<void> move_file(const std::string& from, const std::string& to) {
  const auto content = read_text_file(from, std::size_t{256} << 20);
  if (auto written = write_whole(to, content); !written) return written;
  chmod(to.c_str(), 0755);
  return {};
}

}  // namespace

Result<std::shared_ptr<Library>> Library::load(const std::string& file) {
  void* handle =
      dlopen(file.find('/') == std::string::npos ? ("./" + file).c_str() : file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return make_error(Status::io_error, "{}", dlerror());
  return std::shared_ptr<Library>(new Library(handle));
}

Library::~Library() { dlclose(handle_); }
void* Library::find(const std::string& name) const { return dlsym(handle_, name.c_str()); }

Result<Compiler> find_compiler(const std::string& wanted) {
  std::vector<std::string> names;
  if (!wanted.empty()) {
    names = {wanted};
  } else {
    const char* setting = std::getenv("CXX");
    if (setting != nullptr && *setting != '\0') names.emplace_back(setting);
    names.insert(names.end(), {"c++", "g++", "clang++"});
  }
  for (const auto& name : names) {
    const std::string path = find_in_path(name);
    struct stat status = {};
    if (path.empty() || stat(path.c_str(), &status) != 0) continue;
    return Compiler{path, fmt::format("{} {} {}", path, status.st_size, status.st_mtime)};
  }
  return make_error(Status::not_found, "no C++ compiler ({}); install one, such as g++, or name it by CXX",
                    fmt::join(names, ", "));
}

namespace {

/// Compiles in a directory; the library is then there as program.so.
Result<void> compile_in(const WorkDirectory& directory, const Compiler& compiler, const std::string& text) {
  if (!directory.exists())
    return make_error(Status::io_error, "no directory for temporary files: {}", std::strerror(errno));
  const std::string source = directory.path("program.cpp"), library = directory.path("program.so"),
                    messages = directory.path("messages");
  if (auto written = write_whole(source, text); !written) return written;
  std::vector<std::string> words = {compiler.path};
  words.insert(words.end(), std::begin(flags), std::end(flags));
  words.insert(words.end(), {"-o", library, source});
  int status = run(words, messages);
  std::string said = status > 0 ? read_text_file(messages, 1u << 20) : "";
  // Clang's own bound of nesting is lower than the language's; other compilers know no such flag.
  if (said.find("-fbracket-depth") != std::string::npos) {
    words.emplace_back("-fbracket-depth=100000");
    status = run(words, messages);
    said = read_text_file(messages, 1u << 20);
  }
  if (status < 0) return make_error(Status::io_error, "{} cannot be started", compiler.path);
  if (status != 0)
    return make_error(Status::not_supported, "{} does not take the program: {}", compiler.path, first_message(said));
  return {};
}

}  // namespace

Result<void> compile_library(const Compiler& compiler, const std::string& text, const std::string& file) {
  const WorkDirectory directory;
  if (auto compiled = compile_in(directory, compiler, text); !compiled) return compiled;
  return move_file(directory.path("program.so"), file);
}

Result<std::shared_ptr<Library>> load_once(const Compiler& compiler, const std::string& text) {
  const WorkDirectory directory;
  if (auto compiled = compile_in(directory, compiler, text); !compiled) return compiled.error();
  return Library::load(directory.path("program.so"));
}

std::string program_cache() {
  std::string directory = setting_value("SMELT_CACHE_DIR");
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  if (directory.empty() && !variable("XDG_CACHE_HOME").empty()) directory = variable("XDG_CACHE_HOME") + "/smelt";
  if (directory.empty() && !variable("HOME").empty()) directory = variable("HOME") + "/.cache/smelt";
  if (directory.empty()) return {};
  directory += "/graph";
  for (std::size_t at = directory.find('/', 1);; at = directory.find('/', at + 1)) {
    if (mkdir(directory.substr(0, at).c_str(), 0755) != 0 && errno != EEXIST) return {};
    if (at == std::string::npos) break;
  }
  return access(directory.c_str(), W_OK | X_OK) == 0 ? directory : "";
}

std::string cached_name(const Compiler& compiler, const std::string& text) {
  std::string all_flags;
  for (const char* flag : flags) all_flags += flag;
  const auto of = [&](std::uint64_t start) {
    return hash(cpu_flags(), hash(all_flags, hash(compiler.identity, hash(text, start))));
  };
  return fmt::format("{:016x}{:016x}.so", of(0xcbf29ce484222325ull), of(0x84222325cbf29ce4ull));
}

}  // namespace smelt::graph
