// Chooses placements greedily, arrays with most accesses per byte first, then changes single arrays until nothing
// improves. [Kaestle16] 4.5.2 uses the same order and takes the first placement that fits.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "memory/choice/costs.hpp"

namespace smelt {
namespace {

using memory::Platform;

constexpr double tie = 1.001;  ///< predictions within this factor are considered equal
constexpr double least_pages_per_node = 2;
constexpr std::uint64_t large_page_bytes = 1u << 30;
constexpr const char* names[] = {"best",        "first_touch", "single_node",      "interleaved",
                                 "partitioned", "replicated",  "writable_replicas"};

bool is_replicated(const PlacementCandidate& candidate) { return candidate.placement == Placement::replicated; }

class Chooser {
 public:
  Chooser(const Machine& machine, std::span<const ArrayUse> arrays, const PlacementOptions& options)
      : platform_(memory::platform_of(machine, options.threads)), arrays_(arrays), options_(options) {
    for (const auto& use : arrays) placed_.push_back(candidate(use, Placement::interleaved, best_page(use)));
    set_budget(machine);
  }

  void choose() {
    std::vector<std::size_t> order(arrays_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto density = [&](std::size_t x) {
      const auto& use = arrays_[x];
      return (use.sequential_bytes / 64 + use.random_accesses) / static_cast<double>(use.size_bytes);
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return density(a) > density(b); });
    for (std::size_t round = 0; round <= arrays_.size(); ++round) {
      bool changed = false;
      for (const std::size_t x : order) changed |= improve(x);
      if (!changed) return;
    }
  }

  double total_ns() const { return memory::phase_on(platform_, arrays_, placed_, platform_.homes.front()); }
  std::size_t nodes() const { return platform_.homes.size(); }

  PlacementChoice explain(std::size_t x) {
    PlacementChoice choice{.name = arrays_[x].name, .chosen = placed_[x]};
    choice.chosen.phase_ns = total_ns();
    for (auto& other : options_of(x, true)) {
      if (other.placement != placed_[x].placement || other.page_bytes != placed_[x].page_bytes)
        choice.others.push_back(other);
    }
    std::stable_sort(choice.others.begin(), choice.others.end(),
                     [](const auto& a, const auto& b) { return a.phase_ns < b.phase_ns; });
    choice.why = reason(x);
    return choice;
  }

 private:
  PlacementCandidate candidate(const ArrayUse& use, Placement placement, std::uint64_t page_bytes) const {
    const std::uint64_t copies = placement == Placement::replicated ? platform_.homes.size() : 1;
    return {placement, page_bytes, 0.0, use.size_bytes * copies};
  }

  std::uint64_t base_page() const {
    return platform_.costs.page_bytes.empty() ? 4096 : static_cast<std::uint64_t>(platform_.costs.page_bytes.front());
  }

  /// Huge pages if there are enough of them for each node. Small arrays stay on small pages, which have separate TLB
  /// entries.
  std::uint64_t best_page(const ArrayUse& use) const {
    std::uint64_t best = base_page();
    for (const double bytes : platform_.costs.page_bytes) {
      const auto page = static_cast<std::uint64_t>(bytes);
      const double pages = static_cast<double>(use.size_bytes) / bytes;
      const bool reserved = page >= large_page_bytes;
      if (reserved && !options_.reserved_pages) continue;
      if (pages < least_pages_per_node * static_cast<double>(platform_.homes.size())) continue;
      // Larger reserved pages must improve the prediction. Huge pages are at least cheaper to touch.
      if (reserved && memory::walk_ns(platform_.costs, page, use.size_bytes) >=
                          memory::walk_ns(platform_.costs, best, use.size_bytes)) {
        continue;
      }
      best = page;
    }
    return best;
  }

  /// Bytes of replicas for which every node has room beside one copy of everything, which is spread evenly.
  void set_budget(const Machine& machine) {
    double least = INFINITY, total = 0.0;
    for (const std::size_t node : platform_.homes) {
      if (node >= machine.numa_nodes.size() || machine.numa_nodes[node].memory_bytes == 0) continue;
      least = std::min(least, static_cast<double>(machine.numa_nodes[node].memory_bytes));
    }
    for (const auto& use : arrays_) total += static_cast<double>(use.size_bytes);
    budget_bytes_ = least * (1.0 - options_.reserve) - total / static_cast<double>(platform_.homes.size());
  }

  double with(std::size_t x, const PlacementCandidate& trial) {
    const auto kept = placed_[x];
    placed_[x] = trial;
    const double ns = total_ns();
    placed_[x] = kept;
    return ns;
  }

  /// In the order that decides ties. `all`: includes placements that do not fit or gain too little.
  std::vector<PlacementCandidate> options_of(std::size_t x, bool all) {
    const auto& use = arrays_[x];
    const auto page = best_page(use);
    std::vector<PlacementCandidate> options;
    const auto add = [&](Placement placement) {
      options.push_back(candidate(use, placement, page));
      options.back().phase_ns = with(x, options.back());
    };
    if (nodes() == 1) {
      add(Placement::single_node);
    } else {
      if (use.loop_index) add(Placement::partitioned);
      add(Placement::interleaved);
      add(Placement::single_node);
      if (fits(x) || all) add(Placement::replicated);
    }
    if (all && page != base_page()) {
      options.push_back(candidate(use, placed_[x].placement, base_page()));
      options.back().phase_ns = with(x, options.back());
    }
    return options;
  }

  bool fits(std::size_t x) const {
    const double own = is_replicated(placed_[x]) ? static_cast<double>(arrays_[x].size_bytes) : 0.0;
    return static_cast<double>(arrays_[x].size_bytes) <= budget_bytes_ + own;
  }

  /// Gives array x the best placement while the others stay the same. Returns whether it has changed.
  bool improve(std::size_t x) {
    const auto options = options_of(x, false);
    double least = INFINITY, least_of_one = INFINITY;
    for (const auto& option : options) {
      least = std::min(least, option.phase_ns);
      if (!is_replicated(option)) least_of_one = std::min(least_of_one, option.phase_ns);
    }
    std::optional<PlacementCandidate> best;
    const bool gains_enough = arrays_[x].read_only || least * options_.written_gain <= least_of_one;
    const double limit = (gains_enough ? least : least_of_one) * tie;
    for (const auto& option : options) {
      if (option.phase_ns > limit || (is_replicated(option) && !gains_enough)) continue;
      // Fewer bytes win ties, then the order of the options.
      if (!best || option.total_bytes < best->total_bytes) best = option;
    }
    if (best->placement == placed_[x].placement) return false;
    const double bytes = static_cast<double>(arrays_[x].size_bytes);
    budget_bytes_ += is_replicated(placed_[x]) ? bytes : 0.0;
    budget_bytes_ -= is_replicated(*best) ? bytes : 0.0;
    placed_[x] = *best;
    return true;
  }

  std::string reason(std::size_t x) const {
    const auto& use = arrays_[x];
    if (nodes() == 1) {
      return placed_[x].page_bytes > base_page() ? "one NUMA node: only the size of pages is to be chosen"
                                                 : "one NUMA node, and too small for huge pages";
    }
    switch (placed_[x].placement) {
      case Placement::partitioned:
        return "only accessed by the index of the loop: every thread finds its part on its node";
      case Placement::replicated:
        return use.read_only ? "read-only, and a copy fits into every node: all reads are near"
                             : "near reads gain more than passing on what is written costs";
      case Placement::single_node: return "spreading it over the nodes gains nothing";
      default: break;
    }
    if (!fits(x) && use.read_only) return "copies do not fit into every node: all nodes share the load";
    if (use.read_only) return "copies gain too little: all nodes share the load";
    return "written, and not by the index of the loop alone: replicas gain too little, all nodes share the load";
  }

  Platform platform_;
  std::span<const ArrayUse> arrays_;
  PlacementOptions options_;
  std::vector<PlacementCandidate> placed_;
  double budget_bytes_ = 0.0;
};

}  // namespace

const char* to_string(Placement placement) noexcept {
  const auto index = static_cast<std::size_t>(placement);
  return index < std::size(names) ? names[index] : "?";
}

Result<Placement> parse_placement(std::string_view name) {
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (name == names[i]) return static_cast<Placement>(i);
  }
  return make_error(Status::invalid_argument, "'{}' is no placement (one of {})", shown(name), fmt::join(names, ", "));
}

ArrayUse use_of(std::string name, std::uint64_t elements, std::uint64_t element_bytes, const AccessHints& hints) {
  ArrayUse use{.name = std::move(name),
               .size_bytes = elements * element_bytes,
               .loop_index = hints.loop_index,
               .read_only = hints.read_only,
               .phases = hints.phases};
  const double count = static_cast<double>(elements), bytes = static_cast<double>(use.size_bytes);
  const double accesses = hints.reads_per_element + hints.writes_per_element;
  constexpr std::size_t line = 64;
  const bool in_order = hints.loop_index || hints.access == AccessPattern::sequential ||
                        (hints.access == AccessPattern::strided && hints.stride_bytes < line);
  if (in_order) {
    // Strided accesses also move the bytes in between.
    const double stretch = hints.access == AccessPattern::strided && hints.stride_bytes > element_bytes
                               ? static_cast<double>(hints.stride_bytes) / static_cast<double>(element_bytes)
                               : 1.0;
    use.sequential_bytes = accesses * bytes * stretch;
  } else if (hints.access == AccessPattern::strided) {
    use.sequential_bytes = accesses * count * line;  // prefetchers recognize a stride
  } else {
    use.random_accesses = accesses * count;
  }
  use.written_bytes = hints.writes_per_element * bytes;
  return use;
}

Result<PlacementPlan> choose_placements(const Machine& machine, std::span<const ArrayUse> arrays,
                                        const PlacementOptions& options) {
  for (const auto& use : arrays) {
    const bool sane =
        use.sequential_bytes >= 0 && use.random_accesses >= 0 && use.written_bytes >= 0 && use.phases >= 0;
    if (use.size_bytes > 0 && sane) continue;
    return make_error(Status::invalid_argument, "array '{}': its size must be above 0, and counts must be 0 or more",
                      shown(use.name));
  }
  Chooser chooser(machine, arrays, options);
  chooser.choose();
  PlacementPlan plan{.phase_ns = chooser.total_ns(), .estimated = !machine.memory};
  for (std::size_t x = 0; x < arrays.size(); ++x) plan.arrays.push_back(chooser.explain(x));
  return plan;
}

Placement decide_by_tree(const ArrayUse& use, bool replicas_fit) noexcept {
  if (use.loop_index) return Placement::partitioned;
  return use.read_only && replicas_fit ? Placement::replicated : Placement::interleaved;
}

std::uint64_t page_by_tree(const Machine& machine) noexcept {
  constexpr std::uint64_t huge = 2u << 20;
  const auto& sizes = machine.page_sizes_bytes;
  return std::find(sizes.begin(), sizes.end(), huge) != sizes.end() || sizes.empty() ? huge : sizes.front();
}

}  // namespace smelt
