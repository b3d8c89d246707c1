// Sources: /sys/devices/system/node for the nodes, /proc/self/status for the cpuset, and the cgroups for the limits.
#include "machine/topology/numa.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "machine/text.hpp"
#include "machine/topology/allowance.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

/// The number of KiB in the line that contains `key`, in bytes: "Node 0 MemFree:  123 kB", "MemFree:   123 kB".
std::uint64_t kib_line(std::string_view text, std::string_view key) {
  for (const auto line : split(text, '\n')) {
    const auto at = line.find(key);
    if (at == std::string_view::npos) continue;
    auto rest = trimmed(line.substr(at + key.size()));
    rest = rest.substr(0, rest.find(' '));
    const auto value = parse_number(rest);
    return value ? static_cast<std::uint64_t>(*value) * 1024 : 0;
  }
  return 0;
}

void read_sizes(NodeMemory& node, std::string_view text) {
  node.total_bytes = kib_line(text, "MemTotal:");
  node.free_bytes = kib_line(text, "MemFree:");
  node.cached_bytes = kib_line(text, "Inactive(file):") + kib_line(text, "Active(file):");
  node.cached_bytes = std::min(node.cached_bytes, node.total_bytes - std::min(node.total_bytes, node.free_bytes));
}

std::vector<int> ids_in(const fs::path& file) {
  const auto text = read_small_file(file);
  const auto list = text ? parse_id_list(*text) : std::nullopt;
  return list ? *list : std::vector<int>{};
}

std::vector<int> distances_in(const fs::path& file) {
  std::vector<int> distances;
  const auto text = read_small_file(file);
  if (!text) return distances;
  for (const auto word : split(trimmed(*text), ' ')) {
    if (const auto value = parse_number(word)) distances.push_back(static_cast<int>(*value));
  }
  return distances;
}

/// The cpuset's memory nodes; nothing if the kernel does not list them.
std::optional<std::vector<int>> allowed_nodes(const fs::path& root) {
  const auto status = read_small_file(root / "proc/self/status");
  if (!status) return std::nullopt;
  constexpr std::string_view key = "Mems_allowed_list:";
  const auto at = status->find(key);
  if (at == std::string::npos) return std::nullopt;
  const auto line = std::string_view(*status).substr(at + key.size());
  return parse_id_list(trimmed(line.substr(0, line.find('\n'))));
}

}  // namespace

int MemoryView::index_of(int os_index) const noexcept {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].os_index == os_index) return static_cast<int>(i);
  }
  return -1;
}

std::vector<int> MemoryView::usable_nodes() const {
  std::vector<int> usable;
  for (const auto& node : nodes) {
    if (node.usable()) usable.push_back(node.os_index);
  }
  return usable;
}

std::vector<int> MemoryView::home_nodes() const {
  std::vector<int> homes;
  for (const auto& node : nodes) {
    if (node.usable() && !node.pus.empty()) homes.push_back(node.os_index);
  }
  return homes.empty() ? usable_nodes() : homes;
}

int MemoryView::node_of_pu(int pu) const noexcept {
  for (const auto& node : nodes) {
    if (std::find(node.pus.begin(), node.pus.end(), pu) != node.pus.end()) return node.os_index;
  }
  return nodes.front().os_index;
}

std::uint64_t MemoryView::available_bytes(int os_index) const noexcept {
  const int index = index_of(os_index);
  if (index < 0) return 0;
  const auto& node = nodes[static_cast<std::size_t>(index)];
  return std::min(node.free_bytes + node.cached_bytes, limit_bytes);
}

MemoryView read_memory_view(const fs::path& root) {
  MemoryView view;
  const auto directory = root / "sys/devices/system/node";
  for (const int id : ids_in(directory / "online")) {
    const auto here = directory / ("node" + std::to_string(id));
    NodeMemory node{.os_index = id, .pus = ids_in(here / "cpulist"), .distances = distances_in(here / "distance")};
    if (const auto text = read_small_file(here / "meminfo")) read_sizes(node, *text);
    view.nodes.push_back(std::move(node));
  }
  if (view.nodes.empty()) {
    NodeMemory whole{.pus = ids_in(root / "sys/devices/system/cpu/online"), .distances = {10}};
    if (const auto text = read_small_file(root / "proc/meminfo")) read_sizes(whole, *text);
    view.nodes.push_back(std::move(whole));
  }
  if (const auto allowed = allowed_nodes(root)) {
    for (auto& node : view.nodes) node.allowed = std::binary_search(allowed->begin(), allowed->end(), node.os_index);
  }
  view.limit_bytes = read_memory_limit(root);
  return view;
}

int current_numa_node() noexcept {
  unsigned cpu = 0, node = 0;
  return getcpu(&cpu, &node) == 0 ? static_cast<int>(node) : 0;
}

}  // namespace smelt
