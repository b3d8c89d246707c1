// Inference of nested clusters from gaps in latencies.
//
// Rule. Average-linkage clustering merges the two nearest clusters again and again. The merge heights h_1 <= h_2 <= ...
// are the latencies at which clusters become one. A level of the machine shows as a gap: all merges inside its blocks
// happen below the gap, all merges of blocks above it. A cut between h_k and h_(k+1) is a level if
//   - the gap is wide: h_(k+1) >= min_gap * h_k;
//   - it is clear: at least clear_share of the pairs within blocks are below the middle of the gap (its geometric mean),
//     and at least clear_share of the pairs between blocks are above it;
//   - the blocks are alike: none is larger than max_imbalance times the average block.
// Two cuts whose numbers of blocks are within min_growth are the same level, seen twice because a noisy pair joins
// late. The one with the more equal blocks stays; if they are equal, the one with the wider gap.
//
//   height                     Two packages of 2 cores of 2 PUs:
//    140  +-------+-------+     <- gap: packages
//     45  +---+---+   +---+---+
//                               <- gap: cores
//      8  +-+   +-+   +-+   +-+
//         0 4   1 5   2 6   3 7
//
// Names. SMT siblings communicate through their L1. So a finest level of at most max_smt PUs per block and a median
// latency under smt_ns is `core`. The finest level after that is the shared cache, `l3`. If it holds at most two cores
// per block and there is a coarser level, it is `l2` and the next one `l3`. The coarsest level is `package` if its
// blocks are more than a cluster of cores around an L3: medians of at least package_inner_ns within blocks and of
// package_outer_ns between them. A level between `l3` and `package` is `numa_node`. So is a coarsest level that is no
// package (the L3 caches of a chip built of dies): there is no memory in these tables, and planners take a NUMA node
// for PUs that are close together. Without such a level a NUMA node is a package.
//
// Clustering by nearest-neighbour chains: follow nearest neighbours until two point at each other, and merge these two.
// Average linkage is reducible, so this finds the same merges as the greedy order does, in O(n^2) (F. Murtagh, "A
// survey of recent advances in hierarchical clustering algorithms", 1983).
#include "machine/import/clusters.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace smelt {
namespace {

constexpr double min_gap = 1.3;
constexpr double clear_share = 0.95;
constexpr double max_imbalance = 4.0;
constexpr double min_growth = 1.5;
constexpr std::size_t max_cuts = 16;  ///< the widest gaps; a machine has fewer levels
constexpr int max_smt = 4;
constexpr double smt_ns = 14.0;
constexpr double package_inner_ns = 30.0;
constexpr double package_outer_ns = 110.0;

struct Merge {
  double height;
  int first, second;  ///< a member of either cluster
};

/// Average linkage by nearest-neighbour chains.
class Linkage {
 public:
  explicit Linkage(const Matrix& latency) : distance_(latency), size_(latency.size(), 1), active_(latency.size()) {
    std::iota(active_.begin(), active_.end(), 0);
  }

  /// All n - 1 merges by height.
  std::vector<Merge> run() {
    std::vector<Merge> merges;
    std::vector<int> chain;
    while (active_.size() > 1) {
      if (chain.empty()) chain.push_back(active_.front());
      const int last = chain.back();
      const int before = chain.size() > 1 ? chain[chain.size() - 2] : -1;
      const int nearest = nearest_to(last, before);
      if (nearest != before) {
        chain.push_back(nearest);
        continue;
      }
      chain.resize(chain.size() - 2);
      merges.push_back({at(last, before), last, before});
      merge(last, before);
    }
    std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) { return a.height < b.height; });
    return merges;
  }

 private:
  double& at(int a, int b) { return distance_(static_cast<std::size_t>(a), static_cast<std::size_t>(b)); }

  /// `preferred` wins among equals, so that chains of equal distances end.
  int nearest_to(int cluster, int preferred) {
    int best = preferred;
    double best_distance = preferred < 0 ? std::numeric_limits<double>::infinity() : at(cluster, preferred);
    for (const int other : active_) {
      if (other == cluster || at(cluster, other) >= best_distance) continue;
      best = other;
      best_distance = at(cluster, other);
    }
    return best;
  }

  /// `from` becomes part of `into`.
  void merge(int into, int from) {
    active_.erase(std::find(active_.begin(), active_.end(), from));
    const double a = size_[static_cast<std::size_t>(into)];
    const double b = size_[static_cast<std::size_t>(from)];
    for (const int other : active_) {
      if (other != into) at(into, other) = at(other, into) = (a * at(into, other) + b * at(from, other)) / (a + b);
    }
    size_[static_cast<std::size_t>(into)] += size_[static_cast<std::size_t>(from)];
  }

  Matrix distance_;
  std::vector<int> size_;
  std::vector<int> active_;
};

/// The blocks after the first `count` merges.
Partition blocks_after(const std::vector<Merge>& merges, std::size_t count, std::size_t pus) {
  std::vector<int> parent(pus);
  std::iota(parent.begin(), parent.end(), 0);
  const auto find = [&](int x) {
    while (parent[static_cast<std::size_t>(x)] != x) {
      auto& up = parent[static_cast<std::size_t>(x)];
      up = parent[static_cast<std::size_t>(up)];
      x = up;
    }
    return x;
  };
  for (std::size_t i = 0; i < count; ++i) {
    parent[static_cast<std::size_t>(find(merges[i].second))] = find(merges[i].first);
  }
  std::vector<int> number(pus, -1);
  Partition blocks(pus);
  int next = 0;
  for (std::size_t i = 0; i < pus; ++i) {
    auto& id = number[static_cast<std::size_t>(find(static_cast<int>(i)))];
    if (id < 0) id = next++;
    blocks[i] = id;
  }
  return blocks;
}

std::vector<int> block_sizes(const Partition& blocks) {
  std::vector<int> sizes(static_cast<std::size_t>(*std::max_element(blocks.begin(), blocks.end())) + 1);
  for (const int block : blocks) ++sizes[static_cast<std::size_t>(block)];
  return sizes;
}

bool is_clear(const Matrix& latency, const Partition& blocks, double middle) {
  double within = 0, within_below = 0, between = 0, between_above = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (blocks[i] == blocks[j]) {
        ++within;
        within_below += latency(i, j) <= middle;
      } else {
        ++between;
        between_above += latency(i, j) >= middle;
      }
    }
  }
  return within_below >= clear_share * within && between_above >= clear_share * between;
}

struct Level {
  Partition blocks;
  double gap;
  double block_count;
  double evenness;  ///< smallest block / largest block
};

/// Finest first, before levels seen twice are removed.
std::vector<Level> wide_and_clear_cuts(const Matrix& latency, const std::vector<Merge>& merges) {
  std::vector<std::pair<double, std::size_t>> gaps;  // width, number of merges below
  for (std::size_t k = 0; k + 1 < merges.size(); ++k) {
    const double gap = merges[k + 1].height / std::max(merges[k].height, 1e-9);
    if (gap >= min_gap) gaps.emplace_back(gap, k + 1);
  }
  std::sort(gaps.rbegin(), gaps.rend());
  if (gaps.size() > max_cuts) gaps.resize(max_cuts);
  std::sort(gaps.begin(), gaps.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<Level> levels;
  for (const auto& [gap, count] : gaps) {
    auto blocks = blocks_after(merges, count, latency.size());
    const auto sizes = block_sizes(blocks);
    const auto [smallest, largest] = std::minmax_element(sizes.begin(), sizes.end());
    const double average = static_cast<double>(blocks.size()) / static_cast<double>(sizes.size());
    const double middle = std::sqrt(merges[count - 1].height) * std::sqrt(merges[count].height);
    if (*largest > max_imbalance * average || !is_clear(latency, blocks, middle)) continue;
    levels.push_back({std::move(blocks), gap, static_cast<double>(sizes.size()),
                      static_cast<double>(*smallest) / static_cast<double>(*largest)});
  }
  return levels;
}

double median_of_pairs(const Matrix& latency, const Partition& blocks, bool within) {
  std::vector<double> values;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if ((blocks[i] == blocks[j]) == within) values.push_back(latency(i, j));
    }
  }
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool are_smt_siblings(const Matrix& latency_ns, const Partition& blocks) {
  const auto sizes = block_sizes(blocks);
  return *std::max_element(sizes.begin(), sizes.end()) <= max_smt && median_of_pairs(latency_ns, blocks, true) < smt_ns;
}

bool are_packages(const Matrix& latency_ns, const Partition& blocks) {
  return median_of_pairs(latency_ns, blocks, true) >= package_inner_ns &&
         median_of_pairs(latency_ns, blocks, false) >= package_outer_ns;
}

/// At most two cores in each block.
bool are_pairs(const Partition& blocks, const Partition& cores) {
  std::set<std::pair<int, int>> members;
  for (std::size_t i = 0; i < blocks.size(); ++i) members.emplace(blocks[i], cores[i]);
  std::vector<int> count(block_sizes(blocks).size());
  for (const auto& [block, core] : members) ++count[static_cast<std::size_t>(block)];
  return *std::max_element(count.begin(), count.end()) <= 2;
}

void assign(Machine& machine, int Pu::*id, const Partition& blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) machine.pus[i].*id = blocks[i];
}

}  // namespace

std::vector<Partition> find_levels(const Matrix& latency) {
  if (latency.size() < 3) return {};
  const auto merges = Linkage(latency).run();
  std::vector<Level> kept;
  for (auto& level : wide_and_clear_cuts(latency, merges)) {
    if (kept.empty() || kept.back().block_count >= min_growth * level.block_count) {
      kept.push_back(std::move(level));
    } else if (std::pair(level.evenness, level.gap) > std::pair(kept.back().evenness, kept.back().gap)) {
      kept.back() = std::move(level);
    }
  }
  std::vector<Partition> levels;
  for (auto& level : kept) levels.push_back(std::move(level.blocks));
  return levels;
}

void infer_topology(const Matrix& latency_ns, Machine& machine) {
  const auto n = machine.size();
  auto levels = find_levels(latency_ns);
  const auto take_finest = [&] {
    auto blocks = std::move(levels.front());
    levels.erase(levels.begin());
    return blocks;
  };
  const Partition together(n, 0);
  Partition core(n);
  std::iota(core.begin(), core.end(), 0);
  // Two PUs have no gap between latencies. Only the latency itself shows what they are.
  if (n == 2 && are_smt_siblings(latency_ns, together)) core = together;
  if (!levels.empty() && are_smt_siblings(latency_ns, levels.front())) core = take_finest();
  Partition l2 = core, l3 = together, numa_node = together, package = together;
  if (!levels.empty() && are_pairs(levels.front(), core)) l2 = levels.size() > 1 ? take_finest() : levels.front();
  if (!levels.empty()) l3 = levels.front();
  if (!levels.empty() && are_packages(latency_ns, levels.back())) {
    numa_node = package = levels.back();
    if (levels.size() > 2) numa_node = levels[levels.size() - 2];
  } else if (!levels.empty() && levels.back() != l2) {
    numa_node = levels.back();
  }
  assign(machine, &Pu::core, core);
  assign(machine, &Pu::l2, l2);
  assign(machine, &Pu::l3, l3);
  assign(machine, &Pu::numa_node, numa_node);
  assign(machine, &Pu::package, package);
}

}  // namespace smelt
