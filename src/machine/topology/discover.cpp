// Discovery through hwloc. HWLOC_SYNTHETIC and HWLOC_XMLFILE replace the hardware, so that machines can be tested that
// are not at hand.
//
// All PUs that are online are listed, also those that a cpuset or an affinity mask forbids to this process: the model
// belongs to the machine, the Allowance to the process.
//
//   PU                  Machine::pus, ascending by os_index
//   core, package       the ancestor of that type; without one, the PU itself and package 0
//   L3                  the ancestor; without one, PUs share what they share below: L2, else core
//   NUMA node           the smallest one around the PU; of equals the first, which is the default
//                       memory rather than the high-bandwidth one
#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <set>

#include "base/error.hpp"
#include "machine/fingerprint.hpp"
#include "machine/limits.hpp"
#include "machine/text.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

Result<Topology> load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return make_error(Status::out_of_memory, "hwloc cannot be initialized");
  Topology topology(raw);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0) {
    return make_error(
        Status::io_error,
        "hwloc cannot read the topology; are HWLOC_SYNTHETIC, HWLOC_XMLFILE or HWLOC_COMPONENTS set wrongly?");
  }
  return topology;
}

/// Numbers objects 0, 1, ... in the order in which they are first asked for.
class Numbering {
 public:
  int operator()(hwloc_obj_t object) { return ids_.emplace(object, static_cast<int>(ids_.size())).first->second; }

 private:
  std::map<hwloc_obj_t, int> ids_;
};

struct Numberings {
  Numbering core, package, l2, l3;
};

std::vector<hwloc_obj_t> numa_objects(hwloc_topology_t topology) {
  std::vector<hwloc_obj_t> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) nodes.push_back(node);
  return nodes;
}

int nearest_numa_node(const std::vector<hwloc_obj_t>& nodes, hwloc_obj_t pu) {
  int best = 0;
  int best_size = -1;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (hwloc_bitmap_isset(nodes[i]->cpuset, pu->os_index) == 0) continue;
    const int size = hwloc_bitmap_weight(nodes[i]->cpuset);
    if (best_size < 0 || size < best_size) {
      best = static_cast<int>(i);
      best_size = size;
    }
  }
  return best;
}

/// hwloc's class of each PU, by os_index; empty if the kernel provides none.
std::map<unsigned, int> efficiency_classes(hwloc_topology_t topology) {
  std::map<unsigned, int> classes;
  const int count = hwloc_cpukinds_get_nr(topology, 0);
  Bitmap members(hwloc_bitmap_alloc());
  if (!members) throw std::bad_alloc();
  for (int kind = 0; kind < count; ++kind) {
    int efficiency = -1;
    if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(kind), members.get(), &efficiency, nullptr, nullptr,
                                0) != 0) {
      continue;
    }
    int pu = -1;
    while ((pu = hwloc_bitmap_next(members.get(), pu)) >= 0)
      classes[static_cast<unsigned>(pu)] = std::max(efficiency, 0);
  }
  return classes;
}

hwloc_obj_t ancestor_or(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_obj_t object, hwloc_obj_t otherwise) {
  hwloc_obj_t found = hwloc_get_ancestor_obj_by_type(topology, type, object);
  return found != nullptr ? found : otherwise;
}

void list_pus(hwloc_topology_t topology, const std::vector<hwloc_obj_t>& nodes, Machine& machine) {
  std::vector<hwloc_obj_t> objects;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, object)) != nullptr) objects.push_back(object);
  const auto classes = efficiency_classes(topology);
  const auto root = hwloc_get_root_obj(topology);
  Numberings number;
  // Numbered in hwloc's order, in which neighbours are close; listed by os_index.
  for (const auto pu : objects) {
    const auto core = ancestor_or(topology, HWLOC_OBJ_CORE, pu, pu);
    const auto l2 = ancestor_or(topology, HWLOC_OBJ_L2CACHE, pu, core);
    const auto l3 = ancestor_or(topology, HWLOC_OBJ_L3CACHE, pu, l2);
    const auto kind = classes.find(pu->os_index);
    machine.pus.push_back({.os_index = static_cast<int>(pu->os_index),
                           .core = number.core(core),
                           .package = number.package(ancestor_or(topology, HWLOC_OBJ_PACKAGE, pu, root)),
                           .numa_node = nearest_numa_node(nodes, pu),
                           .l2 = number.l2(l2),
                           .l3 = number.l3(l3),
                           .efficiency_class = kind == classes.end() ? 0 : kind->second});
  }
  std::sort(machine.pus.begin(), machine.pus.end(), [](const Pu& a, const Pu& b) { return a.os_index < b.os_index; });
}

void list_memory(hwloc_topology_t topology, const std::vector<hwloc_obj_t>& nodes, Machine& machine) {
  std::set<std::uint64_t> page_sizes;
  for (const auto node : nodes) {
    const auto& memory = node->attr->numanode;
    machine.numa_nodes.push_back({.os_index = static_cast<int>(node->os_index), .memory_bytes = memory.local_memory});
    for (unsigned i = 0; i < memory.page_types_len; ++i) page_sizes.insert(memory.page_types[i].size);
  }
  if (hwloc_topology_is_thissystem(topology) != 0) page_sizes.insert(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  page_sizes.erase(0);
  machine.page_sizes_bytes.assign(page_sizes.begin(), page_sizes.end());
}

std::string cpu_model(hwloc_topology_t topology) {
  hwloc_obj_t holders[] = {hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), hwloc_get_root_obj(topology)};
  for (const auto holder : holders) {
    if (holder == nullptr) continue;
    for (const auto* key : {"CPUModel", "CPUImplementer", "CPUVendor"}) {
      const char* value = hwloc_obj_get_info_by_name(holder, key);
      if (value == nullptr || trimmed(value).empty()) continue;
      const char* part = hwloc_obj_get_info_by_name(holder, "CPUPart");
      const bool has_model = std::string_view(key) == "CPUModel" || part == nullptr;
      return std::string(trimmed(value)) + (has_model ? "" : fmt::format(" part {}", part));
    }
  }
  return "unknown CPU";
}

}  // namespace

Result<Machine> discover_machine() {
  try {
    auto topology = load_topology();
    if (!topology) return topology.error();
    const auto raw = topology->get();
    const auto nodes = numa_objects(raw);
    Machine machine;
    list_pus(raw, nodes, machine);
    if (machine.pus.empty() || machine.pus.size() > max_pus || machine.pus.back().os_index > max_id) {
      return make_error(Status::not_supported,
                        "this machine has {} PUs, with ids up to {}; 1..{} PUs with ids up to {} are supported",
                        machine.pus.size(), machine.pus.empty() ? 0 : machine.pus.back().os_index, max_pus, max_id);
    }
    list_memory(raw, nodes, machine);
    const auto model = cpu_model(raw);
    machine.name = fmt::format("{}, {}", model, shape_of(machine));
    machine.fingerprint = fingerprint_of(model, machine);
    machine.method = "discovered";
    return machine;
  } catch (const std::exception& problem) {
    return make_error(Status::out_of_memory, "cannot discover this machine: {}", problem.what());
  }
}

}  // namespace smelt
