// Importer of the kernel's access classes of memory.
//
//   node1/access1/initiators/node0            a link per initiator
//                            read_latency     ns
//                            read_bandwidth   MB/s
//                            write_bandwidth
//
// Class 1 has the nearest nodes with PUs, class 0 the nearest of any kind.
#include "base/error.hpp"
#include "machine/import/memory_figures.hpp"
#include "machine/text.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

constexpr double mb_per_gb = 1000.0;

/// The number of a directory "node3"; nothing for other names.
std::optional<double> node_number(const std::string& name) {
  if (!name.starts_with("node")) return std::nullopt;
  return parse_number(std::string_view(name).substr(4));
}

Result<double> value_of(const fs::path& file) {
  const auto text = read_small_file(file);
  if (!text) return 0.0;
  const auto value = parse_number(trimmed(*text));
  if (value && *value >= 0.0) return *value;
  return make_error(Status::bad_format, "{}: is no number of at least 0", file.string());
}

Result<void> read_target(const fs::path& initiators, std::size_t target, MemoryFigures& figures) {
  double values[3] = {};
  const char* const names[] = {"read_latency", "read_bandwidth", "write_bandwidth"};
  for (int i = 0; i < 3; ++i) {
    const auto value = value_of(initiators / names[i]);
    if (!value) return value.error();
    values[i] = *value;
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(initiators, ignored)) {
    const auto number = node_number(entry.path().filename());
    const int from = number ? figures.node(*number) : -1;
    if (from < 0) continue;
    const auto initiator = static_cast<std::size_t>(from);
    auto& costs = figures.costs();
    (void)figures.put_latency(initiator, target, values[0]);
    (void)figures.put_bandwidth(costs.read_all_gbs, initiator, target, values[1] / mb_per_gb);
    (void)figures.put_bandwidth(costs.write_all_gbs, initiator, target, values[2] / mb_per_gb);
  }
  return {};
}

}  // namespace

Result<Machine> read_access_classes(const fs::path& directory, const Machine& machine) {
  MemoryFigures figures(machine);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const auto number = node_number(entry.path().filename());
    const int target = number ? figures.node(*number) : -1;
    if (target < 0) continue;
    auto initiators = entry.path() / "access1/initiators";
    if (!fs::is_directory(initiators, ignored)) initiators = entry.path() / "access0/initiators";
    if (auto read = read_target(initiators, static_cast<std::size_t>(target), figures); !read) return read.error();
  }
  if (!figures.any()) {
    return make_error(Status::not_found,
                      "{}: no access classes of the machine's NUMA nodes (nodeN/access1/initiators/read_latency); the "
                      "firmware of many machines has none",
                      directory.string());
  }
  return std::move(figures).finish();
}

}  // namespace smelt
