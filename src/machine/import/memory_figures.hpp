// Importers of what memory costs, into the memory part of a machine whose NUMA nodes are known: firmware's tables and
// the output of other people's tools.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <string_view>

#include "smelt/machine.hpp"

namespace smelt {

/// The part of a machine's memory costs that an importer fills. What it does not is 0: not known.
class MemoryFigures {
 public:
  explicit MemoryFigures(const Machine& machine);

  /// Index of the NUMA node with this os_index; -1 if the machine has none.
  int node(double os_index) const;
  std::size_t nodes() const { return machine_.numa_nodes.size(); }
  MemoryCosts& costs() { return costs_; }

  /// Puts a latency in ns or a bandwidth in GB/s into a cell. Whether it is a sane one.
  bool put_latency(std::size_t from, std::size_t to, double ns);
  bool put_bandwidth(Matrix& matrix, std::size_t from, std::size_t to, double gbs);
  /// Whether anything was put.
  bool any() const { return any_; }

  /// The machine with them.
  Machine finish() &&;

 private:
  Machine machine_;
  MemoryCosts costs_;
  bool any_ = false;
};

/// ACPI's Heterogeneous Memory Attribute Table as the kernel shows it (/sys/firmware/acpi/tables/HMAT), revisions 1
/// and 2. Proximity domains are NUMA nodes of the same number; if those do not fit, the nodes in their order. Of a
/// pair's read and access latency the read one counts. Source: ACPI 6.5, 5.2.28. `origin` stands for the file in
/// errors.
Result<Machine> parse_hmat(std::string_view table, const Machine& machine, const std::string& origin);

/// The text that Intel's Memory Latency Checker prints: its matrices of idle latencies and of bandwidths between nodes.
Result<Machine> parse_mlc(std::istream& text, const Machine& machine, const std::string& origin);

/// A directory such as /sys/devices/system/node: access classes, by which the kernel tells what HMAT says of the
/// nearest initiators (Documentation/admin-guide/mm/numaperf.rst).
Result<Machine> read_access_classes(const std::filesystem::path& directory, const Machine& machine);

}  // namespace smelt
