// Levels found in latencies: against the rule spelt out (clusters.hpp), by greedy merging; and what the levels are
// called.
#include "machine/import/clusters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace smelt {
namespace {

/// PUs in nested blocks of consecutive numbers: pairs within a block of `sizes[k]` and none smaller take `ns[k]`, all
/// others the last one of `ns`.
Matrix nested(std::size_t pus, const std::vector<std::size_t>& sizes, const std::vector<double>& ns) {
  Matrix latency(pus);
  for (std::size_t i = 0; i < pus; ++i) {
    for (std::size_t j = 0; j < pus; ++j) {
      std::size_t level = 0;
      while (level < sizes.size() && i / sizes[level] != j / sizes[level]) ++level;
      if (i != j) latency(i, j) = ns[level];
    }
  }
  return latency;
}

Partition blocks_of(std::size_t pus, std::size_t size) {
  Partition blocks(pus);
  for (std::size_t i = 0; i < pus; ++i) blocks[i] = static_cast<int>(i / size);
  return blocks;
}

// ---- the rule, spelt out

struct Merged {
  double height;
  Partition blocks;  ///< after it
};

double average(const Matrix& latency, const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) {
  double sum = 0;
  for (const auto i : a) {
    for (const auto j : b) sum += latency(i, j);
  }
  return sum / static_cast<double>(a.size() * b.size());
}

Partition numbered(const std::vector<std::vector<std::size_t>>& clusters, std::size_t pus) {
  Partition any(pus), blocks(pus);
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    for (const auto i : clusters[c]) any[i] = static_cast<int>(c);
  }
  std::vector<int> number(clusters.size(), -1);
  int next = 0;
  for (std::size_t i = 0; i < pus; ++i) {
    int& own = number[static_cast<std::size_t>(any[i])];
    if (own < 0) own = next++;
    blocks[i] = own;
  }
  return blocks;
}

std::vector<Merged> merge_greedily(const Matrix& latency) {
  std::vector<std::vector<std::size_t>> clusters;
  for (std::size_t i = 0; i < latency.size(); ++i) clusters.push_back({i});
  std::vector<Merged> merges;
  while (clusters.size() > 1) {
    std::size_t first = 0, second = 1;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t a = 0; a < clusters.size(); ++a) {
      for (std::size_t b = a + 1; b < clusters.size(); ++b) {
        const double apart = average(latency, clusters[a], clusters[b]);
        if (apart < least) least = apart, first = a, second = b;
      }
    }
    clusters[first].insert(clusters[first].end(), clusters[second].begin(), clusters[second].end());
    clusters.erase(clusters.begin() + static_cast<std::ptrdiff_t>(second));
    merges.push_back({least, numbered(clusters, latency.size())});
  }
  return merges;
}

struct Cut {
  double gap, evenness;
  std::size_t merges, count;  ///< of blocks
  Partition blocks;
};

bool is_level(const Matrix& latency, const Cut& cut, double middle, const std::vector<std::size_t>& sizes) {
  const auto largest = static_cast<double>(*std::max_element(sizes.begin(), sizes.end()));
  if (largest > 4.0 * static_cast<double>(latency.size()) / static_cast<double>(sizes.size())) return false;
  double pairs[2] = {}, right[2] = {};  // between blocks, within
  for (std::size_t i = 0; i < latency.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool within = cut.blocks[i] == cut.blocks[j];
      ++pairs[within];
      right[within] += within ? latency(i, j) <= middle : latency(i, j) >= middle;
    }
  }
  return right[0] >= 0.95 * pairs[0] && right[1] >= 0.95 * pairs[1];
}

std::vector<Partition> levels_by_the_rule(const Matrix& latency) {
  if (latency.size() < 3) return {};
  const auto merges = merge_greedily(latency);
  std::vector<Cut> cuts;
  for (std::size_t k = 1; k < merges.size(); ++k) {
    const double gap = merges[k].height / std::max(merges[k - 1].height, 1e-9);
    if (gap >= 1.3) cuts.push_back({gap, 0, k, latency.size() - k, merges[k - 1].blocks});
  }
  std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) { return a.gap > b.gap; });
  if (cuts.size() > 16) cuts.resize(16);
  std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) { return a.merges < b.merges; });
  std::vector<Cut> kept;
  for (auto& cut : cuts) {
    std::vector<std::size_t> sizes(cut.count);
    for (const int block : cut.blocks) ++sizes[static_cast<std::size_t>(block)];
    const double middle = std::sqrt(merges[cut.merges - 1].height * merges[cut.merges].height);
    if (!is_level(latency, cut, middle, sizes)) continue;
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    cut.evenness = static_cast<double>(*least) / static_cast<double>(*most);
    const bool another = kept.empty() || static_cast<double>(kept.back().count) >= 1.5 * static_cast<double>(cut.count);
    if (another)
      kept.push_back(cut);
    else if (std::pair(cut.evenness, cut.gap) > std::pair(kept.back().evenness, kept.back().gap))
      kept.back() = cut;
  }
  std::vector<Partition> levels;
  for (auto& cut : kept) levels.push_back(cut.blocks);
  return levels;
}

Matrix shuffled(const Matrix& latency, std::mt19937& random) {
  std::vector<std::size_t> order(latency.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  Matrix result(latency.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = 0; j < order.size(); ++j) result(i, j) = latency(order[i], order[j]);
  }
  return result;
}

/// A nest of up to four levels whose latencies are a little to far apart, noisy, with pairs that were disturbed.
Matrix some_machine(std::mt19937& random) {
  const auto real = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  std::vector<std::size_t> sizes;
  std::vector<double> ns{real(3, 30)};
  std::size_t pus = 1;
  for (unsigned level = random() % 4; level != 0; --level) {
    pus *= 2 + random() % 3;
    sizes.push_back(pus);
    ns.push_back(ns.back() * real(1.05, 3));
  }
  pus = std::min<std::size_t>(36, pus * (2 + random() % 4) + random() % 3);
  Matrix latency = nested(pus, sizes, ns);
  const double noise = real(0, 0.3), disturbed = random() % 3 == 0 ? 0.06 : 0.0;
  for (std::size_t i = 0; i < pus; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      latency(i, j) *= 1 + real(-noise, noise);
      if (real(0, 1) < disturbed) latency(i, j) *= real(0.3, 4);
      latency(j, i) = latency(i, j);
    }
  }
  return shuffled(latency, random);
}

TEST(Levels, AreThoseOfTheRule) {
  std::mt19937 random(11);
  std::size_t found[5] = {};
  for (int trial = 0; trial < 600; ++trial) {
    const Matrix latency = some_machine(random);
    const auto levels = find_levels(latency);
    ASSERT_EQ(levels, levels_by_the_rule(latency)) << "trial " << trial << ", " << latency.size() << " PUs";
    ++found[std::min<std::size_t>(levels.size(), 4)];
  }
  for (const std::size_t count : {0, 1, 2, 3}) EXPECT_GE(found[count], 20u) << count << " levels";
}

TEST(Levels, NeedAGapOfThreeTenths) {
  EXPECT_EQ(find_levels(nested(8, {4}, {10, 13.001})), (std::vector<Partition>{blocks_of(8, 4)}));
  EXPECT_TRUE(find_levels(nested(8, {4}, {10, 12.999})).empty());
  EXPECT_TRUE(find_levels(nested(2, {1}, {10, 100})).empty());
  EXPECT_EQ(find_levels(nested(3, {2}, {10, 100})), (std::vector<Partition>{{0, 0, 1}}));
}

void disturb(Matrix& latency, std::size_t a, std::size_t b, double ns) { latency(a, b) = latency(b, a) = ns; }

// Blocks of five have 20 pairs within; four PUs and five have 20 pairs between. One pair of 20 may be wrong.
TEST(Levels, AreClearIfNineteenPairsOfTwentyAre) {
  Matrix within = nested(10, {5}, {10, 100}), between = nested(9, {4}, {10, 100});
  for (std::size_t i = 4; i < 8; ++i) disturb(between, i, 8, 10);  // the last two blocks are one
  const Partition four_and_five{0, 0, 0, 0, 1, 1, 1, 1, 1};
  disturb(within, 0, 1, 60);
  disturb(between, 0, 4, 20);
  EXPECT_EQ(find_levels(within), (std::vector<Partition>{blocks_of(10, 5)}));
  EXPECT_EQ(find_levels(between), (std::vector<Partition>{four_and_five}));
  disturb(within, 5, 6, 60);
  disturb(between, 1, 5, 20);
  EXPECT_TRUE(find_levels(within).empty());
  EXPECT_TRUE(find_levels(between).empty());
}

// Merging a hundred levels of one PU more each would be 98 cuts; the widest sixteen are looked at.
TEST(Levels, AreFoundAmongTheWidestGaps) {
  const std::size_t pus = 100;
  Matrix chain(pus);
  for (std::size_t i = 0; i < pus; ++i) {
    for (std::size_t j = 0; j < i; ++j) chain(i, j) = chain(j, i) = std::pow(1.31, static_cast<double>(i));
  }
  EXPECT_EQ(find_levels(chain), levels_by_the_rule(chain));
}

// ---- what they are called

struct Called {
  Partition core, l2, l3, numa_node, package;
};

Called call(const Matrix& latency) {
  Machine machine;
  machine.pus.resize(latency.size());
  infer_topology(latency, machine);
  Called result;
  for (const Pu& pu : machine.pus) {
    result.core.push_back(pu.core);
    result.l2.push_back(pu.l2);
    result.l3.push_back(pu.l3);
    result.numa_node.push_back(pu.numa_node);
    result.package.push_back(pu.package);
  }
  return result;
}

/// Sizes of the blocks of each kind.
void expect_called(const Matrix& latency, std::size_t core, std::size_t l2, std::size_t l3, std::size_t numa_node,
                   std::size_t package, const char* what) {
  const auto n = latency.size();
  const Called called = call(latency);
  EXPECT_EQ(called.core, blocks_of(n, core)) << what << ": core";
  EXPECT_EQ(called.l2, blocks_of(n, l2)) << what << ": l2";
  EXPECT_EQ(called.l3, blocks_of(n, l3)) << what << ": l3";
  EXPECT_EQ(called.numa_node, blocks_of(n, numa_node)) << what << ": NUMA node";
  EXPECT_EQ(called.package, blocks_of(n, package)) << what << ": package";
}

TEST(Names, OfLevels) {
  expect_called(nested(8, {}, {50}), 1, 1, 8, 8, 8, "no level");
  // Siblings.
  expect_called(nested(8, {2}, {13.9, 40}), 2, 2, 8, 8, 8, "siblings");
  expect_called(nested(8, {4}, {13.9, 40}), 4, 4, 8, 8, 8, "four siblings");
  expect_called(nested(10, {5}, {13.9, 40}), 1, 1, 5, 5, 10, "five are too many for a core");
  expect_called(nested(16, {4}, {14, 40}), 1, 1, 4, 4, 16, "too slow for siblings");
  expect_called(nested(2, {}, {13.9}), 2, 2, 2, 2, 2, "two siblings alone");
  expect_called(nested(2, {}, {14}), 1, 1, 2, 2, 2, "two cores alone");
  // Pairs of cores around an L2: with a level above they are that alone, else they are what is shared, too.
  expect_called(nested(8, {2}, {20, 60}), 1, 2, 2, 8, 8, "pairs");
  expect_called(nested(9, {3}, {20, 60}), 1, 1, 3, 3, 9, "three are no pair");
  expect_called(nested(16, {2, 8}, {20, 40, 80}), 1, 2, 8, 8, 16, "pairs under an L3");
  expect_called(nested(16, {2, 4, 8}, {8, 20, 40, 80}), 2, 4, 8, 8, 16, "pairs of cores of two");
  // Packages.
  expect_called(nested(16, {8}, {30, 110}), 1, 1, 8, 8, 8, "packages");
  expect_called(nested(16, {8}, {29.9, 110}), 1, 1, 8, 8, 16, "too near within for packages");
  expect_called(nested(16, {8}, {30, 109.9}), 1, 1, 8, 8, 16, "too near between for packages");
  expect_called(nested(64, {8, 32}, {30, 60, 200}), 1, 1, 8, 32, 32, "L3s in packages");
  expect_called(nested(64, {4, 16, 32}, {30, 60, 90, 200}), 1, 1, 4, 16, 32, "NUMA nodes in packages");
  expect_called(nested(64, {2, 8, 16, 32}, {8, 30, 60, 90, 200}), 2, 2, 8, 16, 32, "all of it");
  expect_called(nested(16, {2}, {40, 200}), 1, 2, 2, 2, 2, "packages of two cores");
}

// Neither the least nor the greatest latency within and between blocks decides.
TEST(Names, GoByMedians) {
  const auto with = [](std::size_t i, std::size_t j, double ns, Matrix latency) {
    latency(i, j) = latency(j, i) = ns;
    return latency;
  };
  expect_called(with(0, 1, 29, nested(8, {4}, {32, 120})), 1, 1, 4, 4, 4, "packages with a pair that is nearer");
  expect_called(with(0, 4, 105, nested(8, {4}, {32, 120})), 1, 1, 4, 4, 4, "packages with cores that are nearer");
  expect_called(with(0, 1, 32, nested(8, {4}, {28, 120})), 1, 1, 4, 4, 8, "no packages for one pair");
  expect_called(with(0, 4, 120, nested(8, {4}, {32, 105})), 1, 1, 4, 4, 8, "no packages for two cores");
  expect_called(with(0, 1, 15, nested(12, {3}, {13, 60})), 3, 3, 12, 12, 12, "cores with a slower pair");
}

}  // namespace
}  // namespace smelt
