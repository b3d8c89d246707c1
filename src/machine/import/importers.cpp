// import_machine(): finds the importer of a format, by its name or by the content, and opens the file.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <streambuf>

#include "base/error.hpp"
#include "machine/fingerprint.hpp"
#include "machine/import/clusters.hpp"
#include "machine/import/importer.hpp"
#include "machine/limits.hpp"

namespace smelt {
namespace {

constexpr std::size_t beginning_bytes = 4096;

const Importer* const registered[] = {
#define IMPORTER(name) &formats::name,
#include "machine/import/registry.def"
#undef IMPORTER
};

std::string names() {
  std::string list;
  for (const auto* each : all_importers()) list += (list.empty() ? "" : ", ") + std::string(each->info.name);
  return list;
}

Result<void> check(const ImportOptions& options) {
  if (!(options.send_share >= 0.0 && options.send_share <= 1.0))
    return make_error(Status::invalid_argument, "send share: must be 0..1, is {}", options.send_share);
  if (!(options.ghz > 0.0 && options.ghz <= max_ghz))
    return make_error(Status::invalid_argument, "ghz: must be more than 0 and at most {}, is {}", max_ghz, options.ghz);
  return {};
}

Result<const Importer*> importer_of(const std::string& format) {
  for (const auto* each : registered) {
    if (each->info.name == format) return each;
  }
  return make_error(Status::invalid_argument, "{}: no such format; known are {}", format, names());
}

const Importer* importer_of_directories() {
  return *std::find_if(std::begin(registered), std::end(registered), [](auto* each) { return each->info.directory; });
}

/// What has been read of a file, and then the rest of it: a pipe cannot be read twice.
class Replayed final : public std::streambuf {
 public:
  Replayed(std::string beginning, std::streambuf& rest) : held_(std::move(beginning)), rest_(rest) { give(); }

 private:
  void give() { setg(held_.data(), held_.data(), held_.data() + held_.size()); }

  int_type underflow() override {
    held_.resize(beginning_bytes);
    const auto got = rest_.sgetn(held_.data(), static_cast<std::streamsize>(held_.size()));
    held_.resize(static_cast<std::size_t>(got));
    give();
    return held_.empty() ? traits_type::eof() : traits_type::to_int_type(held_.front());
  }

  std::string held_;
  std::streambuf& rest_;
};

const Importer* importer_of_content(const std::string& beginning) {
  return *std::find_if(std::begin(registered), std::end(registered), [&](auto* each) {
    return !each->info.directory && (each->recognizes == nullptr || each->recognizes(beginning));
  });
}

Result<Machine> import_file(const std::filesystem::path& path, const Importer* importer, const ImportOptions& options) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return make_error(errno == EACCES ? Status::permission_denied : Status::not_found, "{}: cannot open: {}",
                      path.string(), std::strerror(errno));
  }
  if (importer != nullptr) return importer->parse(file, path.string(), options);
  std::string beginning(beginning_bytes, '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<std::size_t>(file.gcount()));
  importer = importer_of_content(beginning);
  Replayed whole(std::move(beginning), *file.rdbuf());
  std::istream again(&whole);
  return importer->parse(again, path.string(), options);
}

Matrix scaled(const Matrix& table, double factor) {
  Matrix result(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (std::size_t j = 0; j < table.size(); ++j) result(i, j) = i == j ? 0.0 : factor * table(i, j);
  }
  return result;
}

Matrix symmetric(const Matrix& table) {
  Matrix result(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (std::size_t j = 0; j < table.size(); ++j) result(i, j) = i == j ? 0.0 : (table(i, j) + table(j, i)) / 2;
  }
  return result;
}

}  // namespace

const std::vector<const Importer*>& all_importers() {
  static const std::vector<const Importer*> all(std::begin(registered), std::end(registered));
  return all;
}

const std::vector<ImporterInfo>& importers() {
  static const std::vector<ImporterInfo> infos = [] {
    std::vector<ImporterInfo> list;
    for (const auto* each : registered) list.push_back(each->info);
    return list;
  }();
  return infos;
}

Result<Machine> import_machine(const std::filesystem::path& path, const ImportOptions& options) {
  if (auto good = check(options); !good) return good.error();
  const Importer* importer = nullptr;
  if (!options.format.empty()) {
    const auto named = importer_of(options.format);
    if (!named) return named.error();
    importer = *named;
  }
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(path, ignored);
  if (importer != nullptr && directory && !importer->info.directory) {
    return make_error(Status::invalid_argument, "{}: is a directory; {} data is one file", path.string(),
                      options.format);
  }
  if (importer != nullptr && importer->info.directory) return importer->read(path, options);
  if (directory) return importer_of_directories()->read(path, options);
  return import_file(path, importer, options);
}

Machine machine_of_latencies(const Matrix& latency_ns, const std::string& name, std::string_view method,
                             const std::vector<int>& os_indexes, double send_share) {
  Machine machine;
  machine.name = name;
  machine.method = method;
  for (const int os_index : os_indexes) machine.pus.push_back({.os_index = os_index});
  infer_topology(symmetric(latency_ns), machine);
  machine.send_ns = scaled(latency_ns, send_share);
  machine.recv_ns = scaled(latency_ns, 1.0 - send_share);
  machine.fingerprint = fingerprint_of(name, machine);
  return machine;
}

}  // namespace smelt
