// Checks that the model confirms the statements of [Shahmirzadi14] 3.5 about the six maps: one test per statement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "smelt/map_model.hpp"

namespace smelt {
namespace {

using testing::ElementsAre;

const std::vector<std::string_view> linearizable_maps = {"part_simple", "part_caching", "rep_remote", "rep_local",
                                                         "rep_2pc"};
const std::vector<std::string_view> replicated_maps = {"rep_remote", "rep_local", "rep_2pc"};

/// The loads of 3.5: o_pre and o_op in cycles.
MapLoad load(double lookups, double hash, double access) {
  MapLoad result;
  result.lookups = lookups;
  result.hash = hash;
  result.access = access;
  return result;
}

/// Most operations per second, in millions, with the best number of servers.
double mops(const MapPlatform& platform, std::string_view algorithm, const MapLoad& what, int cores) {
  const auto prediction = predict_map(platform, algorithm, what, cores);
  EXPECT_TRUE(prediction) << algorithm;
  return prediction ? prediction->per_s / 1e6 : 0.0;
}

std::string fastest(const MapPlatform& platform, const MapLoad& what, int cores,
                    const std::vector<std::string_view>& among = linearizable_maps) {
  std::string best;
  double most = 0.0;
  for (const auto algorithm : among) {
    const double rate = mops(platform, algorithm, what, cores);
    if (rate > most) most = rate, best = algorithm;
  }
  return best;
}

/// The share of lookups from which `algorithm` is the fastest; 2 if it never is.
double threshold(const MapPlatform& platform, std::string_view algorithm, int cores,
                 const std::vector<std::string_view>& among) {
  MapLoad any = load(0, 12, 11);
  any.consistency = Consistency::sequential;
  const auto ranges = best_ranges(platform, any, cores, among);
  EXPECT_TRUE(ranges);
  for (const auto& range : *ranges) {
    if (range.algorithm == algorithm) return range.from_lookups;
  }
  return 2.0;
}

std::vector<std::string_view> with_rep_sc() {
  auto names = linearizable_maps;
  names.push_back("rep_sc");
  return names;
}

// Figure 3.19a: "the optimal configuration in this case is with 2 servers", "hiccups [...] correspond to cases where
// the number of servers is 2^x".
TEST(Statements, TwoServersAreBestOn36CoresOfATileGx) {
  const MapLoad setting = load(0.9, 156, 0);
  const auto best = predict_map(tile_gx(), "part_simple", setting, 36);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->servers, 2);
  EXPECT_EQ(best->clients, 34);
  EXPECT_NEAR(best->per_s / 1e6, 177, 1);
  const auto with = [&](int servers) {
    return predict_map(tile_gx(), "part_simple", setting, 36, servers)->per_s / 1e6;
  };
  EXPECT_NEAR(with(3), 130, 1);
  EXPECT_NEAR(with(4), 167, 1);
  for (const int power : {2, 4, 8, 16, 32}) {
    EXPECT_GT(with(power), with(power + 1)) << power;
    EXPECT_TRUE(power == 2 || with(power) > with(power - 1)) << power;
  }
}

// Figure 3.19b: "PART_SIMPLE always outperforms the other solutions".
// By the formulas, this holds for 7 cores and more. With fewer clients, copies are hit more often, and PART_CACHING is
// faster.
TEST(Statements, PartSimpleIsAlwaysBestOnATileGxWithALongHash) {
  const MapLoad setting = load(0.9, 156, 0);
  for (int cores = 7; cores <= 36; ++cores) {
    EXPECT_EQ(fastest(tile_gx(), setting, cores), "part_simple") << cores;
  }
  EXPECT_NEAR(mops(tile_gx(), "part_caching", setting, 36), 130, 3);
  EXPECT_NEAR(mops(tile_gx(), "rep_remote", setting, 36), 57, 1);
  EXPECT_NEAR(mops(tile_gx(), "rep_local", setting, 36), 33, 1);
  EXPECT_NEAR(mops(tile_gx(), "rep_2pc", setting, 36), 32, 1);
  EXPECT_NEAR(mops(tile_gx(), "rep_sc", setting, 36), 59, 1);
}

// Figures 3.20a to c: "if the ratio of lookups is not very high, then partitioning approaches outperforms replication
// at scale on all platforms".
TEST(Statements, PartitioningWinsAtScaleWith90PercentLookups) {
  for (const auto& platform : {tile_gx(), intermediate_platform(), ideal_platform()}) {
    EXPECT_EQ(fastest(platform, load(0.9, 12, 11), 128), "part_simple") << platform.name;
    EXPECT_NEAR(mops(platform, "part_simple", load(0.9, 12, 11), 128), 1194, 2) << platform.name;
  }
}

// Figure 3.20d: "on the TILE-Gx processor, partitioning outperforms replication even if the ratio of lookups is very
// high".
TEST(Statements, PartitioningWinsOnATileGxWith99PercentLookups) {
  const MapLoad setting = load(0.99, 12, 11);
  for (const int cores : {16, 32, 64, 96, 128}) {
    const double partitioned =
        std::max(mops(tile_gx(), "part_simple", setting, cores), mops(tile_gx(), "part_caching", setting, cores));
    for (const auto algorithm : replicated_maps) EXPECT_GT(partitioned, mops(tile_gx(), algorithm, setting, cores));
  }
  EXPECT_NEAR(mops(tile_gx(), "part_simple", setting, 128), 1188, 2);
  EXPECT_NEAR(mops(tile_gx(), "part_caching", setting, 128), 930, 10);
  EXPECT_NEAR(mops(tile_gx(), "rep_local", setting, 128), 342, 1);
}

// Figure 3.20f: "REP_LOCAL provides the best performance for 128 cores with 99% of lookups, but the minimum ratio of
// lookups for REP_LOCAL to be the most efficient in this case is actually 98%".
TEST(Statements, RepLocalIsBestOnTheIdealPlatformFrom98PercentLookups) {
  const MapLoad setting = load(0.99, 12, 11);
  EXPECT_EQ(fastest(ideal_platform(), setting, 128), "rep_local");
  EXPECT_NEAR(mops(ideal_platform(), "rep_local", setting, 128), 1930, 2);
  EXPECT_NEAR(mops(ideal_platform(), "part_caching", setting, 128), 1619, 15);
  EXPECT_NEAR(mops(ideal_platform(), "part_simple", setting, 128), 1188, 2);
  EXPECT_NEAR(threshold(ideal_platform(), "rep_local", 128, linearizable_maps), 0.98, 0.015);
}

// "However its throughput reaches a plateau if the total number of cores increases indefinitely".
TEST(Statements, RepLocalReachesAPlateau) {
  const MapLoad setting = load(0.99, 12, 11);
  const double at_1024 = mops(ideal_platform(), "rep_local", setting, 1024);
  const double at_4096 = mops(ideal_platform(), "rep_local", setting, 4096);
  EXPECT_LT(at_4096, at_1024 * 1.05);
  EXPECT_GT(at_4096, at_1024 * 0.95);
}

// "Replication can outperform partitioning on TILE-Gx only if the lookups are less than 0.1% of the total number of
// operations": updates are meant; lookups alone are what replicas are good at.
TEST(Statements, ReplicationWinsOnATileGxOnlyBelowOneUpdateInAThousand) {
  const auto from = [](int cores) {
    double least = 2.0;
    for (const auto algorithm : replicated_maps) {
      least = std::min(least, threshold(tile_gx(), algorithm, cores, linearizable_maps));
    }
    return least;
  };
  EXPECT_NEAR(from(16), 1 - 0.00076, 5e-5);
  EXPECT_NEAR(from(36), 1 - 0.00012, 2e-5);
  EXPECT_NEAR(from(64), 1 - 0.00003, 2e-5);
  for (const int cores : {16, 36, 64}) {
    EXPECT_GT(from(cores), 0.999) << cores;
    EXPECT_EQ(fastest(tile_gx(), load(0.0005, 12, 11), cores), "part_simple") << "few lookups, " << cores << " cores";
  }
}

// "the effect of having broadcast in hardware is much less than providing efficient asynchronous receives".
TEST(Statements, CheapInterruptsMatterMoreThanABroadcastInHardware) {
  const MapLoad setting = load(0.99, 12, 11);
  for (const auto algorithm : {"rep_local", "rep_2pc", "rep_sc"}) {
    const double tile = mops(tile_gx(), algorithm, setting, 128);
    const double middle = mops(intermediate_platform(), algorithm, setting, 128);
    const double ideal = mops(ideal_platform(), algorithm, setting, 128);
    EXPECT_GT(middle / tile, 2.0 * ideal / middle) << algorithm;
  }
  EXPECT_NEAR(mops(intermediate_platform(), "rep_local", setting, 128), 1415, 2);
}

// "throughput of PART_SIMPLE has plateaus": the number of servers stays a power of two.
TEST(Statements, PartSimpleHasPlateaus) {
  const auto at = [](int cores) { return *predict_map(ideal_platform(), "part_simple", load(0.9, 12, 11), cores); };
  EXPECT_EQ(at(40).servers, 8);
  EXPECT_EQ(at(44).servers, 8);
  EXPECT_DOUBLE_EQ(at(40).per_s, at(44).per_s);
  EXPECT_GT(at(64).per_s, at(44).per_s * 1.3);
}

// Figure 3.21a: "the maximum throughput of all algorithms decreases but [...] their relative performance does not
// change".
TEST(Statements, ALongHashSlowsAllDownAlike) {
  for (const auto algorithm : linearizable_maps) {
    EXPECT_LT(mops(ideal_platform(), algorithm, load(0.99, 156, 11), 128),
              mops(ideal_platform(), algorithm, load(0.99, 12, 11), 128))
        << algorithm;
  }
  EXPECT_EQ(fastest(ideal_platform(), load(0.99, 156, 11), 128), "rep_local");
  EXPECT_NEAR(mops(ideal_platform(), "rep_local", load(0.99, 156, 11), 128), 684, 1);
  EXPECT_NEAR(mops(ideal_platform(), "part_caching", load(0.99, 156, 11), 128), 610, 10);
  EXPECT_NEAR(mops(ideal_platform(), "part_simple", load(0.99, 156, 11), 128), 558, 10);
}

// Figure 3.21b: "PART_CACHING is now the most efficient algorithm. This is due to the fact that replicated maps are not
// able to leverage the locality if map replicas are not cached." It is where a client's copies are in its cache.
TEST(Statements, PartCachingIsBestWhereTablesAreInMemory) {
  EXPECT_EQ(fastest(ideal_platform(), load(0.99, 156, 88), 128), "part_caching");
  EXPECT_NEAR(mops(ideal_platform(), "rep_local", load(0.99, 156, 88), 128), 386, 3);

  MapPlatform without_locality = ideal_platform();
  without_locality.cached_access = 88;
  EXPECT_EQ(fastest(without_locality, load(0.99, 156, 88), 128), "rep_local") << "the formulas to the letter";
  EXPECT_NEAR(mops(without_locality, "part_caching", load(0.99, 156, 88), 128), 329, 5);
}

// Figure 3.22: where 4 clients issue 80 % of the operations on a key, "the performance of PART_CACHING is greatly
// improved. In Figure 3.22(b), PART_CACHING even outperforms REP_LOCAL".
TEST(Statements, AFewClientsPerKeyMakePartCachingFaster) {
  const auto few = [](double lookups) {
    MapLoad result = load(lookups, 12, 11);
    result.hot_clients = 4;
    result.hot_share = 0.8;
    return result;
  };
  EXPECT_NEAR(mops(tile_gx(), "part_caching", load(0.9, 12, 11), 128), 567, 10);
  EXPECT_NEAR(mops(tile_gx(), "part_caching", few(0.9), 128), 924, 15);
  EXPECT_EQ(fastest(ideal_platform(), few(0.99), 128), "part_caching");
  EXPECT_NEAR(mops(ideal_platform(), "part_caching", few(0.99), 128), 2758, 30);
  EXPECT_NEAR(mops(ideal_platform(), "rep_local", few(0.99), 128), 1930, 2);
}

// Figure 3.23: "with 90 percent of lookups operations REP_SC still cannot beat partitioning solutions at scale,
// although it outperforms other replication solutions [...] with 99 percent of lookups REP_SC outperforms all other
// solutions significantly". "The threshold [...] at all scales, is around 95%".
TEST(Statements, RepScWinsFrom95PercentLookups) {
  EXPECT_EQ(fastest(ideal_platform(), load(0.9, 12, 11), 128, with_rep_sc()), "part_simple");
  for (const auto algorithm : replicated_maps) {
    EXPECT_GT(mops(ideal_platform(), "rep_sc", load(0.9, 12, 11), 128),
              mops(ideal_platform(), algorithm, load(0.9, 12, 11), 128))
        << algorithm;
  }
  EXPECT_EQ(fastest(ideal_platform(), load(0.99, 12, 11), 128, with_rep_sc()), "rep_sc");
  EXPECT_NEAR(threshold(ideal_platform(), "rep_sc", 32, with_rep_sc()), 0.873, 0.015);
  EXPECT_NEAR(threshold(ideal_platform(), "rep_sc", 64, with_rep_sc()), 0.935, 0.015);
  EXPECT_NEAR(threshold(ideal_platform(), "rep_sc", 128, with_rep_sc()), 0.968, 0.015);
}

// Figure 3.24: "Considering all three use cases, the performance improvement is at most 20 percent".
TEST(Statements, ColocationGainsAtMost20Percent) {
  double most = 0.0;
  for (const auto& [hash, access] : {std::pair{12.0, 11.0}, {156.0, 11.0}, {156.0, 88.0}}) {
    for (const int cores : {16, 32, 64, 128}) {
      const MapLoad setting = load(0.99, hash, access);
      const auto together = colocated(ideal_platform(), setting, cores);
      ASSERT_TRUE(together);
      const double gain = together->per_s / 1e6 / mops(ideal_platform(), "part_simple", setting, cores);
      EXPECT_GE(gain, 1.0) << hash << " " << access << " " << cores;
      EXPECT_LE(gain, 1.2) << hash << " " << access << " " << cores;
      most = std::max(most, gain);
    }
  }
  EXPECT_GT(most, 1.05) << "it is worth something for short operations";
}

// "This strategy does not make sense on the TILE-Gx".
TEST(Statements, ColocationLosesOnATileGx) {
  for (const int cores : {16, 36, 128}) {
    const MapLoad setting = load(0.9, 12, 11);
    EXPECT_LT(colocated(tile_gx(), setting, cores)->per_s / 1e6, mops(tile_gx(), "part_simple", setting, cores));
  }
}

// (3.60): "in case that the clients are the bottleneck, the throughput of the system remains as before"; "Clearly the
// uniform distribution leads to the highest server throughput".
TEST(Statements, SkewedKeysHitServersAlone) {
  MapLoad setting = load(0.9, 12, 11);
  setting.keys = 1000;
  MapLoad skewed = setting;
  skewed.skew = 0.99;
  const auto at = [](std::string_view algorithm, const MapLoad& what, int servers) {
    return *predict_map(ideal_platform(), algorithm, what, 64, servers);
  };
  EXPECT_LT(at("part_simple", skewed, 16).servers_per_s, at("part_simple", setting, 16).servers_per_s * 0.5);
  EXPECT_DOUBLE_EQ(at("part_simple", skewed, 16).clients_per_s, at("part_simple", setting, 16).clients_per_s);
  EXPECT_EQ(at("rep_sc", skewed, 1).per_s, at("rep_sc", setting, 1).per_s) << "one server has all keys";
  EXPECT_EQ(mops(ideal_platform(), "rep_2pc", skewed, 64), mops(ideal_platform(), "rep_2pc", setting, 64));
}

}  // namespace
}  // namespace smelt
