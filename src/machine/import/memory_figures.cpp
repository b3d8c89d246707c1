#include "machine/import/memory_figures.hpp"

#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "machine/limits.hpp"
#include "machine/text.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

Result<Machine> import_source(const fs::path& source, const Machine& machine) {
  if (machine.numa_nodes.empty()) {
    return make_error(Status::invalid_argument,
                      "{}: the machine '{}' has no NUMA nodes that its figures could belong to", source.string(),
                      machine.name);
  }
  std::error_code ignored;
  if (fs::is_directory(source, ignored)) return read_access_classes(source, machine);
  const auto content = read_small_file(source);
  if (!content) {
    if (!fs::exists(source, ignored)) {
      return make_error(Status::not_found, "{}: no such file or directory", source.string());
    }
    return make_error(Status::io_error, "{}: cannot read it (tables below /sys/firmware/acpi need root)",
                      source.string());
  }
  if (content->starts_with("HMAT")) return parse_hmat(*content, machine, source.string());
  std::istringstream text(*content);
  return parse_mlc(text, machine, source.string());
}

}  // namespace

MemoryFigures::MemoryFigures(const Machine& machine) : machine_(machine) {
  for (const auto matrix : {&MemoryCosts::latency_ns, &MemoryCosts::gather_ns, &MemoryCosts::read_gbs,
                            &MemoryCosts::write_gbs, &MemoryCosts::read_all_gbs, &MemoryCosts::write_all_gbs}) {
    costs_.*matrix = Matrix(nodes());
  }
  // Nobody tells what pages cost; a machine file has an entry for the smallest.
  costs_.page_bytes.assign(1, 4096.0);
  for (auto* of_pages : {&costs_.walk_ns, &costs_.gather_walk_ns, &costs_.reach_bytes, &costs_.touch_ns_per_mib}) {
    of_pages->assign(1, 0.0);
  }
}

int MemoryFigures::node(double os_index) const {
  for (std::size_t i = 0; i < machine_.numa_nodes.size(); ++i) {
    if (machine_.numa_nodes[i].os_index == os_index) return static_cast<int>(i);
  }
  return -1;
}

bool MemoryFigures::put_latency(std::size_t from, std::size_t to, double ns) {
  if (!(ns > 0.0 && ns <= max_cost_ns)) return false;
  costs_.latency_ns(from, to) = ns;
  return any_ = true;
}

bool MemoryFigures::put_bandwidth(Matrix& matrix, std::size_t from, std::size_t to, double gbs) {
  if (!(gbs > 0.0 && gbs <= max_gbs)) return false;
  matrix(from, to) = gbs;
  return any_ = true;
}

Machine MemoryFigures::finish() && {
  machine_.memory = std::move(costs_);
  return std::move(machine_);
}

Result<Machine> import_memory(const fs::path& source, const Machine& machine) {
  try {
    return import_source(source, machine);
  } catch (const std::exception& problem) {
    return make_error(Status::out_of_memory, "{}: cannot import: {}", source.string(), problem.what());
  }
}

}  // namespace smelt
