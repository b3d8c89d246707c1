// Placements and page sizes of arrays: a cost function over placements, computed from the machine's costs of memory and
// a description of a program's arrays ([Kaestle16] ch. 4, tables 3.2 and 3.3). Formulas:
// docs/reference/memory-model.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/machine.hpp"

namespace smelt {

enum class Placement {
  best,               ///< chosen by choose_placements()
  first_touch,        ///< each page where a thread first writes to it; not touched by smelt
  single_node,        ///< one NUMA node
  interleaved,        ///< page by page in turns
  partitioned,        ///< a part per rank (or as cuts say), on the rank's node
  replicated,         ///< a copy per node, all the same
  writable_replicas,  ///< a copy per node that its threads write, brought together by sync() or publish()
};

/// "best", "first_touch", ... Never null.
const char* to_string(Placement placement) noexcept;
/// The placement of that name. Errors: invalid_argument, with the names there are.
Result<Placement> parse_placement(std::string_view name);

enum class AccessPattern { unknown, sequential, strided, random };

/// How an array is used, as far as the program knows. Counts are of one phase and of all threads together.
struct AccessHints {
  AccessPattern access = AccessPattern::unknown;  ///< unknown is treated as random
  bool loop_index = false;  ///< only element i in iteration i of parallel loops with a static schedule
  bool read_only = false;   ///< once it was filled, by copy_from(), fill() or publish(): it may be replicated
  double reads_per_element = 1.0;
  double writes_per_element = 0.0;  ///< after it was filled
  double phases = 1.0;              ///< how often the phase runs in the life of the array
  std::size_t stride_bytes = 0;     ///< of strided access; from 64 on every access takes a line of its own
};

/// One array in the cost function. Bytes and accesses of one phase, all threads together.
struct ArrayUse {
  std::string name;
  std::uint64_t size_bytes = 0;
  double sequential_bytes = 0.0;  ///< read or written in order
  double random_accesses = 0.0;   ///< of 64 bytes each
  double written_bytes = 0.0;     ///< which replicas have to pass on to each other
  bool loop_index = false;
  bool read_only = false;
  double phases = 1.0;
};

/// The use that hints describe.
ArrayUse use_of(std::string name, std::uint64_t elements, std::uint64_t element_bytes, const AccessHints& hints);

struct PlacementOptions {
  int threads = 0;              ///< of the phase, dealt to the NUMA nodes in order; 0: one per core
  double reserve = 0.2;         ///< share of each node's memory that replicas leave free
  double written_gain = 1.3;    ///< a written array gets replicas only for a predicted gain of at least this
  bool reserved_pages = false;  ///< 1 GiB pages may be chosen (they have to be reserved)
};

/// A placement of one array, with the others as they were chosen.
struct PlacementCandidate {
  Placement placement = Placement::interleaved;
  std::uint64_t page_bytes = 4096;
  double phase_ns = 0.0;          ///< predicted time of the phase, all arrays together
  std::uint64_t total_bytes = 0;  ///< with all copies
};

struct PlacementChoice {
  std::string name;
  PlacementCandidate chosen;
  std::vector<PlacementCandidate> others{};  ///< fastest first
  std::string why{};                         ///< one sentence
};

struct PlacementPlan {
  double phase_ns = 0.0;   ///< with all arrays as chosen
  bool estimated = false;  ///< the machine's memory has not been measured: figures stand in for it
  std::vector<PlacementChoice> arrays{};
};

/// The placements and page sizes with the least predicted time per phase: greedily, most accesses per byte first, then
/// improved by single changes until none helps. Ties go to fewer bytes, then partitioned, interleaved, single node.
/// Replicas have to fit into every node. Cost: O(arrays^2), microseconds each. Errors: invalid_argument (a size of 0).
/// Source: [Kaestle16] 4.5.
Result<PlacementPlan> choose_placements(const Machine& machine, std::span<const ArrayUse> arrays,
                                        const PlacementOptions& options = {});

/// Predicted time of one phase, nanoseconds, for arrays placed as `placed` says, in the order of `arrays`.
/// `home`: NUMA node (index) of single_node. Requirements: as many as arrays; no `best`.
double phase_ns(const Machine& machine, std::span<const ArrayUse> arrays, std::span<const PlacementCandidate> placed,
                int threads = 0, int home = 0);

/// The thesis's decision tree (figure 4.4): only accessed by the index of a loop: partitioned; read-only and
/// `replicas_fit`: replicated; else interleaved.
Placement decide_by_tree(const ArrayUse& use, bool replicas_fit) noexcept;

/// The thesis's choice of pages (figure 4.5): 2 MiB where there are some.
std::uint64_t page_by_tree(const Machine& machine) noexcept;

/// What memory costs on this machine: measured, else estimated from its topology.
MemoryCosts memory_costs(const Machine& machine);

}  // namespace smelt
