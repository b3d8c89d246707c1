// Compares the model with an independent evaluation of its equations, and with machines whose costs are simple numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "smelt/map_model.hpp"
#include "state/maps.hpp"
#include "state/model/messages.hpp"

namespace smelt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double none = std::numeric_limits<double>::infinity();

/// All costs and messages differ, so that a confusion of two of them is noticed.
MapPlatform odd_platform(MapBroadcast broadcast) {
  MapPlatform platform;
  platform.name = "odd";
  platform.send = 8, platform.send_word = 1;
  platform.receive = 3, platform.receive_word = 2;
  platform.interrupt = 20;
  platform.latency = 16;
  platform.broadcast = broadcast;
  platform.hash = 12;
  platform.select_power_of_two = 17, platform.select_other = 90;
  platform.cached_access = 11, platform.memory_access = 88, platform.cache_bytes = 65536;
  platform.line = 70;
  platform.replicas = 3;
  return platform;
}

MapLoad odd_load(double lookups, double access) {
  MapLoad load;
  load.lookups = lookups;
  load.access = access;
  load.messages = {.lookup = 2,
                   .value = 3,
                   .update = 5,
                   .acknowledge = 1,
                   .count = 4,
                   .number = 6,
                   .replicate = 7,
                   .replicated = 8,
                   .valid = 9,
                   .vote_request = 10,
                   .vote = 11,
                   .commit = 12,
                   .invalidate = 13,
                   .invalidated = 14};
  return load;
}

struct Row {
  std::string algorithm;
  MapBroadcast broadcast;
  int clients, servers;
  double lookups, access;
  struct {
    double lookup_ns, update_ns, overlapped_ns, clients_mops, servers_mops;
  } expected;
};

// Computed by a second transcription of the printed equations, with explicit sums.
const Row rows[] = {
    {"part_simple", MapBroadcast::sends, 7, 3, 0.9, 11, {182.000000, 174.000000, 0.000000, 38.631347, 102.040816}},
    {"part_simple", MapBroadcast::hardware, 12, 4, 0.75, 30, {128.000000, 101.000000, 0.000000, 98.969072, 81.632653}},
    {"part_simple", MapBroadcast::tree, 20, 2, 0.98, 5, {103.000000, 101.000000, 0.000000, 194.250194, 86.655113}},
    {"part_caching", MapBroadcast::sends, 7, 3, 0.9, 11, {102.187500, 713.562500, 32.287500, 53.419823, 106.737825}},
    {"part_caching",
     MapBroadcast::hardware,
     12,
     4,
     0.75,
     30,
     {124.600000, 452.800000, 49.200000, 76.214671, 72.926162}},
    {"part_caching", MapBroadcast::tree, 20, 2, 0.98, 5, {44.826087, 1612.681159, 21.588406, 366.335372, 119.536407}},
    {"rep_remote", MapBroadcast::sends, 7, 3, 0.9, 11, {197.000000, 575.000000, 28.800000, 33.980583, 120.000000}},
    {"rep_remote", MapBroadcast::hardware, 12, 4, 0.75, 30, {143.000000, 895.000000, 57.000000, 43.795620, 160.000000}},
    {"rep_remote", MapBroadcast::tree, 20, 2, 0.98, 5, {118.000000, 1201.000000, 15.960000, 161.681487, 80.000000}},
    {"rep_local", MapBroadcast::sends, 7, 3, 0.9, 11, {23.000000, 1133.000000, 5.700000, 54.559626, 1200.000000}},
    {"rep_local", MapBroadcast::hardware, 12, 4, 0.75, 30, {42.000000, 1748.000000, 14.250000, 26.417171, 640.000000}},
    {"rep_local", MapBroadcast::tree, 20, 2, 0.98, 5, {17.000000, 2968.000000, 1.140000, 267.094017, 4000.000000}},
    {"rep_2pc", MapBroadcast::sends, 7, 0, 0.9, 11, {23.000000, 1564.000000, 0.000000, 39.525692, none}},
    {"rep_2pc", MapBroadcast::hardware, 12, 0, 0.75, 30, {42.000000, 2597.000000, 0.000000, 17.627617, none}},
    {"rep_2pc", MapBroadcast::tree, 20, 0, 0.98, 5, {17.000000, 4517.000000, 0.000000, 186.915888, none}},
    {"rep_sc", MapBroadcast::sends, 7, 3, 0.9, 11, {23.000000, 564.000000, 4.600000, 96.551724, 1200.000000}},
    {"rep_sc", MapBroadcast::hardware, 12, 4, 0.75, 30, {42.000000, 865.000000, 6.750000, 49.792531, 640.000000}},
    {"rep_sc", MapBroadcast::tree, 20, 2, 0.98, 5, {17.000000, 1196.000000, 1.040000, 505.816894, 4000.000000}},
    {"shared", MapBroadcast::sends, 7, 0, 0.9, 11, {45.125000, 92.032787, 0.000000, 140.517727, 125514.403292}},
    {"shared", MapBroadcast::hardware, 12, 0, 0.75, 30, {71.333333, 111.111111, 0.000000, 147.641832, 40909.090909}},
    {"shared", MapBroadcast::tree, 20, 0, 0.98, 5, {34.898551, 86.931651, 0.000000, 556.495217, 667368.421053}},
    {"kv", MapBroadcast::sends, 7, 0, 0.9, 11, {93.000000, 343.333333, 12.219048, 66.153638, 185.185185}},
    {"kv", MapBroadcast::hardware, 12, 0, 0.75, 30, {112.000000, 415.833333, 28.479167, 75.244938, 68.965517}},
    {"kv", MapBroadcast::tree, 20, 0, 0.98, 5, {87.000000, 317.233333, 2.497667, 224.449258, 1041.666667}},
};

void expect_close(double actual, double expected) {
  if (expected == none) {
    EXPECT_EQ(actual, none);
  } else {
    EXPECT_NEAR(actual, expected, 2e-6 * std::max(1.0, expected));
  }
}

TEST(MapModel, EveryEquationGivesWhatAnotherTranscriptionGives) {
  for (const auto& row : rows) {
    SCOPED_TRACE(row.algorithm + " with " + std::to_string(row.clients) + " clients");
    const auto result = predict_map(odd_platform(row.broadcast), row.algorithm, odd_load(row.lookups, row.access),
                                    row.clients + row.servers, row.servers);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->algorithm, row.algorithm);
    EXPECT_EQ(result->clients, row.clients);
    EXPECT_EQ(result->servers, row.servers);
    expect_close(result->lookup_ns, row.expected.lookup_ns);
    expect_close(result->update_ns, row.expected.update_ns);
    expect_close(result->overlapped_ns, row.expected.overlapped_ns);
    expect_close(result->clients_per_s / 1e6, row.expected.clients_mops);
    expect_close(result->servers_per_s / 1e6, row.expected.servers_mops);
    EXPECT_EQ(result->per_s, std::min(result->clients_per_s, result->servers_per_s));
  }
}

/// What smelt's own implementations cost, by a second transcription of "As built" (docs/reference/map-model.md).
TEST(MapModel, AsBuiltGivesWhatAnotherTranscriptionGives) {
  const struct {
    std::string algorithm;
    int clients, servers;
    double lookups, access;
    struct {
      double lookup_ns, update_ns, overlapped_ns, clients_mops, servers_mops;
    } expected;
  } as_built[] = {
      {"part_simple", 7, 3, 0.9, 11, {266.000000, 294.000000, 0.000000, 26.041667, 36.630037}},
      {"part_simple", 2, 1, 0.5, 30, {212.000000, 240.000000, 0.000000, 8.849558, 8.888889}},
      {"part_simple", 20, 1, 0.98, 5, {187.000000, 215.000000, 0.000000, 106.632544, 13.590650}},
      {"part_caching", 7, 3, 0.9, 11, {165.875000, 949.000000, 36.112500, 33.641716, 48.528966}},
      {"part_caching", 2, 1, 0.5, 30, {200.000000, 486.666667, 17.833333, 6.144393, 9.433962}},
      {"part_caching", 20, 1, 0.98, 5, {90.057971, 2090.115942, 27.255362, 194.545398, 25.841342}},
      {"rep_remote", 7, 1, 0.9, 11, {183.000000, 1070.000000, 50.945455, 31.709426, 16.863406}},
      {"rep_remote", 2, 1, 0.5, 30, {202.000000, 418.000000, 30.666667, 7.159905, 16.949153}},
      {"rep_remote", 20, 1, 0.98, 5, {177.000000, 2747.000000, 31.744902, 101.700898, 18.953753}},
      {"rep_local", 7, 1, 0.9, 11, {32.000000, 1966.571429, 50.400000, 39.986943, 34.602076}},
      {"rep_local", 2, 1, 0.5, 30, {51.000000, 728.000000, 62.000000, 6.106870, 13.698630}},
      {"rep_local", 20, 1, 0.98, 5, {26.000000, 4958.500000, 13.050000, 179.211470, 124.378109}},
      {"rep_2pc", 7, 0, 0.9, 11, {32.000000, 3089.605359, 0.000000, 13.795719, 14.688544}},
      {"rep_2pc", 2, 0, 0.5, 30, {51.000000, 950.975072, 102.500000, 3.947838, 4.405407}},
      {"rep_2pc", 20, 0, 0.98, 5, {26.000000, 8333.471339, 0.000000, 57.929622, 58.056118}},
      {"rep_sc", 7, 1, 0.9, 11, {32.000000, 1070.000000, 11.400000, 56.270096, 69.930070}},
      {"rep_sc", 2, 1, 0.5, 30, {51.000000, 418.000000, 10.000000, 8.908686, 29.411765}},
      {"rep_sc", 20, 1, 0.98, 5, {26.000000, 2747.000000, 3.210000, 259.033804, 265.957447}},
      {"shared", 7, 0, 0.9, 11, {32.000000, 57.606557, 0.000000, 202.542453, 221014.492754}},
      {"shared", 2, 0, 0.5, 30, {43.666667, 75.333333, 0.000000, 33.613445, 46153.846154}},
      {"shared", 20, 0, 0.98, 5, {25.260870, 51.968454, 0.000000, 775.343420, 1251315.789474}},
      {"kv", 7, 0, 0.9, 11, {104.567805, 478.438748, 0.000000, 23.045065, 89.887640}},
      {"kv", 2, 0, 0.5, 30, {96.833333, 373.500000, 0.000000, 8.504607, 17.977528}},
      {"kv", 20, 0, 0.98, 5, {126.191277, 497.646953, 0.000000, 20.462945, 449.438202}},
  };
  MapPlatform platform = odd_platform(MapBroadcast::tree);
  platform.software_cycle = 0.5;
  for (const auto& row : as_built) {
    SCOPED_TRACE(row.algorithm + " with " + std::to_string(row.clients) + " clients");
    const auto result =
        predict_map(platform, row.algorithm, odd_load(row.lookups, row.access), row.clients + row.servers, row.servers);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->clients, row.clients);
    expect_close(result->lookup_ns, row.expected.lookup_ns);
    expect_close(result->update_ns, row.expected.update_ns);
    expect_close(result->overlapped_ns, row.expected.overlapped_ns);
    expect_close(result->clients_per_s / 1e6, row.expected.clients_mops);
    expect_close(result->servers_per_s / 1e6, row.expected.servers_mops);
  }
  for (const char* sequenced : {"rep_remote", "rep_local", "rep_sc"}) {
    EXPECT_EQ(predict_map(platform, sequenced, odd_load(0.5, 11), 40)->servers, 1) << "one sequencer";
  }
  // Sequential lookups of kv do not ask the log; one replica for each client where their number is not known.
  MapLoad load = odd_load(0.9, 11);
  const double linearizable = predict_map(platform, "kv", load, 2)->lookup_ns;
  load.consistency = Consistency::sequential;
  EXPECT_DOUBLE_EQ(predict_map(platform, "kv", load, 2)->lookup_ns, 12 + 9 + 11);
  EXPECT_NEAR(linearizable, 12 + 9 + 11 + 22.5 + 70 * 0.1 / 1.1, 1e-9);
  const double three = predict_map(platform, "kv", load, 3)->update_ns;
  platform.replicas = 0;
  EXPECT_DOUBLE_EQ(predict_map(platform, "kv", load, 3)->update_ns, three);
  platform.replicas = 1;
  EXPECT_DOUBLE_EQ(predict_map(platform, "kv", load, 1)->update_ns, 12 + 9 + 11 + 82.5);
}

/// For numbers that can be worked out by hand: a message is sent in no time, takes `way` and then 1 ns to be received.
MapPlatform plain_platform(double way) {
  MapPlatform platform;
  platform.latency = way;
  platform.line = way;
  platform.replicas = 1;
  // A call takes 0.36 more, an account of a copy 2, a look at the log 0.9, an append 3.3, a lookup that somebody waits
  // for 1, an update 2.
  platform.software_cycle = 0.02;
  return platform;
}

/// Half of the operations of two clients are updates. A lookup finds its line changed if the last update was the
/// other's: with 1/4 of all operations being such, 1/4 / (1/4 + 1/2) = 1/3. An update has its line unless the last
/// operations on it were the other's, up to an own update: (1/2) / (1/2 + 1/4) = 2/3. A half of each line is waited
/// for.
TEST(MapModel, LinesOfASharedTableMoveBetweenClients) {
  MapLoad load;
  load.lookups = 0.5;
  load.access = 0.0;
  const auto half = *predict_map(plain_platform(200), "shared", load, 2);
  EXPECT_NEAR(half.lookup_ns, 100 / 3.0, 1e-9);
  EXPECT_NEAR(half.update_ns, 200 / 3.0, 1e-9);
  load.lookups = 0.9;  // 1/20 of all operations are the other's updates: 1/11; (1/2) / (1/2 + 1/20) = 10/11
  const auto tenth = *predict_map(plain_platform(200), "shared", load, 2);
  EXPECT_NEAR(tenth.lookup_ns, 100 / 11.0, 1e-9);
  EXPECT_NEAR(tenth.update_ns, 1000 / 11.0, 1e-9);
  load.lookups = 0.0;  // each update takes the line if the one before was the other's
  EXPECT_NEAR(predict_map(plain_platform(200), "shared", load, 2)->update_ns, 50, 1e-9);
}

/// A client alone: half of its operations are updates, which drop its own copy. Every second lookup follows one, and
/// asks the server; nobody else has a copy.
TEST(MapModel, OnlyOthersCopiesAreInvalidated) {
  MapLoad load;
  load.lookups = 0.5;
  load.access = 0.0;
  const auto alone = *predict_map(plain_platform(100), "part_caching", load, 2, 1);
  const double trip = 2 * 100 + 2 * 1;
  EXPECT_NEAR(alone.lookup_ns, 0.36 + (trip + 1 + 2) / 2, 1e-9);
  EXPECT_NEAR(alone.update_ns, 0.36 + trip + 2 + 2, 1e-9);
}

/// Two clients, all operations updates. A message takes 49 + 1 ns. A turn is the other's vote, the change at the issuer
/// (2), the commit, the change at the other client (2), and the answer: 154 ns. The next request is there before. A
/// client spends 6 ns on messages and the change of the other's update, of which it loses 2 for the change alone, since
/// it waits meanwhile.
TEST(MapModel, UpdatesTakeTurns) {
  MapLoad load;
  load.lookups = 0.0;
  load.access = 0.0;
  const double turn = 3 * 50 + 2 * 2, alone = 0.36 + 4 * 50 + 2 * 2 + 6;
  const auto both = *predict_map(plain_platform(49), "rep_2pc", load, 2);
  EXPECT_NEAR(both.update_ns, alone, 1e-9);
  EXPECT_NEAR(both.servers_per_s / 1e9, 1 / turn, 1e-9);
  // The one has its turn for that share of its time when the other wants one.
  EXPECT_NEAR(both.per_s / 1e9, 2 / (alone + turn * turn / alone - both.overlapped_ns), 1e-9);
  // With 200 clients, somebody is always before.
  const auto many = *predict_map(plain_platform(49), "rep_2pc", load, 200);
  EXPECT_NEAR(many.per_s / many.servers_per_s, 1.0, 0.2);
  EXPECT_LE(many.per_s, many.servers_per_s);
}

/// Two clients, 3/4 lookups of 0.36 ns. A client that looks up notices messages at its next update, after 4 lookups at
/// most: b, the share of its time with lookups, makes both rounds wait for b / (b + 1) of these. A turn has one of
/// them.
TEST(MapModel, VotesWaitForThoseWhoLookUp) {
  MapLoad load;
  load.lookups = 0.75;
  load.access = 0.0;
  const double at_once = 0.36 + 4 * 50 + 2 * 2 + 6, busy = 3 * 0.36 / (3 * 0.36 + at_once);
  const double unnoticed = 2 * 4 * 0.36 * busy / (busy + 1);
  const auto both = *predict_map(plain_platform(49), "rep_2pc", load, 2);
  EXPECT_NEAR(both.update_ns, at_once + unnoticed, 1e-9);
  EXPECT_NEAR(both.servers_per_s / 1e9, 4 / (3 * 50 + 2 * 2 + unnoticed / 2), 1e-9);
}

/// A client and a server. The server executes an operation before it answers: 1 ns for a lookup, 2 for an update, and
/// 7 for the access.
TEST(MapModel, AnswersFollowTheOperation) {
  MapLoad load;
  load.lookups = 0.5;
  load.access = 7.0;
  const auto alone = *predict_map(plain_platform(49), "part_simple", load, 2, 1);
  EXPECT_NEAR(alone.lookup_ns, 0.36 + 2 * 50 + 7 + 1, 1e-9);
  EXPECT_NEAR(alone.update_ns, 0.36 + 2 * 50 + 7 + 2, 1e-9);
  EXPECT_NEAR(alone.servers_per_s / 1e9, 1 / (1 + 7 + 1.5), 1e-9);
}

/// Two clients, one replica. A lookup of the rank with the replica takes 0.36 + 0.9 ns, one of the other 2 * 49 + 2 *
/// 1 more, and half of the 8 lookups after which the former looks for messages. To serve it takes a line, 49, to
/// receive its message, 1, and to look up, 0.9: 0.479 of the time of the rank with the replica.
TEST(MapModel, AReplicaServesThoseWithoutOne) {
  MapLoad load;
  load.lookups = 1.0;
  load.access = 0.0;
  const auto two = *predict_map(plain_platform(49), "kv", load, 2);
  const double near = 1.26, far = 100 + near, serving = 49 + 1 + 0.9, arrival = far + 4 * near;
  EXPECT_NEAR(two.per_s / 1e9, (1 - serving / arrival) / near + 1 / arrival, 1e-9);
  EXPECT_NEAR(two.lookup_ns, 2 / (1 / near + 1 / far), 1e-9) << "without those of others";
  // One of 200 clients serves each of the 199 others once between two lookups of its own, and they wait for it.
  EXPECT_NEAR(predict_map(plain_platform(49), "kv", load, 200)->per_s / 1e9, 200 / (near + 199 * serving), 1e-9);
  // Of three operations, one is an update: it looks for messages each time, so they wait for one and a half.
  load.lookups = 2 / 3.0;
  const double both = 0.36 + (2 * 0.9 + 3.3) / 3, waiting = 100 + both + 1.5 * both;
  EXPECT_NEAR(predict_map(plain_platform(49), "kv", load, 2)->per_s / 1e9,
              (1 - (49 + 1 + both - 0.36) / waiting) / both + 1 / waiting, 1e-9);
  // Two others would take 103.4 of 105.2 ns: no more than each of them once between two own operations.
  EXPECT_NEAR(predict_map(plain_platform(49), "kv", load, 3)->per_s / 1e9, 3 / (both + 2 * (49 + 1 + both - 0.36)),
              1e-9);
  // Each client has a replica: nobody serves.
  MapPlatform platform = plain_platform(49);
  platform.replicas = 2;
  load.lookups = 1.0;
  EXPECT_NEAR(predict_map(platform, "kv", load, 2)->per_s / 1e9, 2 / near, 1e-9);
}

TEST(MapModel, LongWaysLeaveTimeForAllInterrupts) {
  MapPlatform platform = odd_platform(MapBroadcast::sends);
  platform.latency = 2000;
  const struct {
    const char* algorithm;
    int servers;
    double overlapped_ns, clients_mops;
  } known[] = {
      {"rep_remote", 2, 9.600000, 0.732601},    {"rep_local", 2, 21.000000, 3.561254},
      {"rep_2pc", 0, 27.200000, 3.507951},      {"rep_sc", 2, 9.600000, 6.947661},
      {"part_caching", 2, 18.450000, 1.704909},
  };
  for (const auto& each : known) {
    const auto result = *predict_map(platform, each.algorithm, odd_load(0.9, 11), 3 + each.servers, each.servers);
    EXPECT_NEAR(result.overlapped_ns, each.overlapped_ns, 1e-5) << each.algorithm;
    EXPECT_NEAR(result.clients_per_s / 1e6, each.clients_mops, 1e-5) << each.algorithm;
  }
}

TEST(MapModel, CyclesBecomeTime) {
  MapPlatform platform = odd_platform(MapBroadcast::sends);
  const auto before = *predict_map(platform, "rep_remote", odd_load(0.9, 11), 10, 3);
  platform.cycle_ns = 0.5;
  const auto after = *predict_map(platform, "rep_remote", odd_load(0.9, 11), 10, 3);
  EXPECT_DOUBLE_EQ(after.lookup_ns, before.lookup_ns / 2);
  EXPECT_DOUBLE_EQ(after.update_ns, before.update_ns / 2);
  EXPECT_DOUBLE_EQ(after.overlapped_ns, before.overlapped_ns / 2);
  EXPECT_DOUBLE_EQ(after.clients_per_s, before.clients_per_s * 2);
  EXPECT_DOUBLE_EQ(after.servers_per_s, before.servers_per_s * 2);
}

TEST(MapModel, SkewMakesOneServerAndOneLineTheBottleneck) {
  MapLoad load = odd_load(0.9, 11);
  load.skew = 0.99;
  const MapPlatform platform = odd_platform(MapBroadcast::sends);
  EXPECT_NEAR(predict_map(platform, "part_simple", load, 10, 3)->servers_per_s / 1e6, 81.064086, 1e-4);
  EXPECT_NEAR(predict_map(platform, "shared", load, 7)->servers_per_s / 1e6, 970.094951, 1e-2);
  load.skew = 1.0;
  load.keys = 50;
  EXPECT_NEAR(predict_map(platform, "part_simple", load, 10, 3)->servers_per_s / 1e6, 70.639803, 1e-5);
}

TEST(MapModel, AFewClientsMayUseAKeyMoreThanOthers) {
  MapLoad load = odd_load(0.75, 30);
  load.hot_clients = 4;
  load.hot_share = 0.8;
  const MapPlatform platform = odd_platform(MapBroadcast::hardware);
  const auto caching = *predict_map(platform, "part_caching", load, 16, 4);
  EXPECT_NEAR(caching.lookup_ns, 110.127907, 1e-6);
  EXPECT_NEAR(caching.update_ns, 424.767442, 1e-6);
  EXPECT_NEAR(caching.clients_per_s / 1e6, 81.857661, 1e-6);
  EXPECT_NEAR(caching.servers_per_s / 1e6, 80.585652, 1e-6);
  const auto shared = *predict_map(platform, "shared", load, 12);
  EXPECT_NEAR(shared.lookup_ns, 65.255814, 1e-6);
  EXPECT_NEAR(shared.update_ns, 110.066692, 1e-6);

  load.hot_share = 1.0;  // the others never use it, as if they did not exist
  const auto alone = *predict_map(platform, "shared", load, 12);
  load.hot_clients = 0;
  EXPECT_DOUBLE_EQ(alone.lookup_ns, predict_map(platform, "shared", load, 4)->lookup_ns);
  load.hot_clients = 20;  // more than there are: all
  EXPECT_DOUBLE_EQ(predict_map(platform, "shared", load, 12)->lookup_ns,
                   predict_map(platform, "shared", odd_load(0.75, 30), 12)->lookup_ns);
  load.hot_clients = 4;
  load.hot_share = 0.0;
  EXPECT_DOUBLE_EQ(predict_map(platform, "shared", load, 12)->lookup_ns,
                   predict_map(platform, "shared", odd_load(0.75, 30), 8)->lookup_ns);
}

TEST(MapModel, LookupsAloneAreNoDivisionByZero) {
  for (const auto& algorithm : map_algorithms()) {
    MapLoad load = odd_load(1.0, 11);
    load.consistency = algorithm.consistency;
    const auto all = predict_map(odd_platform(MapBroadcast::sends), algorithm.name, load, 8);
    load.lookups = 1.0 - 1e-9;
    const auto nearly = predict_map(odd_platform(MapBroadcast::sends), algorithm.name, load, 8);
    ASSERT_TRUE(all && nearly);
    EXPECT_TRUE(std::isfinite(all->per_s)) << algorithm.name;
    EXPECT_NEAR(all->per_s, nearly->per_s, all->per_s * 1e-5) << algorithm.name;
  }
}

TEST(MapModel, AReplicaAloneHasNobodyToWaitFor) {
  for (const auto broadcast : {MapBroadcast::sends, MapBroadcast::tree, MapBroadcast::hardware}) {
    const auto alone = *predict_map(odd_platform(broadcast), "rep_2pc", odd_load(0.5, 11), 1);
    EXPECT_DOUBLE_EQ(alone.update_ns, 12 + 11);
    EXPECT_EQ(alone.servers_per_s, none);
    const auto shared = *predict_map(odd_platform(broadcast), "shared", odd_load(0.5, 11), 1);
    EXPECT_DOUBLE_EQ(shared.update_ns, 12 + 11 + 11);
    EXPECT_EQ(shared.servers_per_s, none);
    EXPECT_DOUBLE_EQ(predict_map(odd_platform(broadcast), "part_caching", odd_load(0.5, 11), 2, 1)->clients, 1);
  }
}

TEST(MapModel, KvReadsMayBeStaleOrAskTheAcceptor) {
  MapLoad load = odd_load(0.9, 11);
  MapPlatform platform = odd_platform(MapBroadcast::sends);
  EXPECT_DOUBLE_EQ(predict_map(platform, "kv", load, 7)->lookup_ns, 12 + 11 + 70);
  platform.line.reset();  // then by message: count, number and an interrupt
  EXPECT_DOUBLE_EQ(predict_map(platform, "kv", load, 7)->lookup_ns, 12 + 11 + (12 + 11) + (14 + 15) + 32 + 20);
  load.consistency = Consistency::sequential;
  EXPECT_DOUBLE_EQ(predict_map(platform, "kv", load, 7)->lookup_ns, 12 + 11);
  platform.replicas = 0;
  const double one_each = predict_map(platform, "kv", load, 7)->update_ns;
  platform.replicas = 7;
  EXPECT_DOUBLE_EQ(predict_map(platform, "kv", load, 7)->update_ns, one_each);
  platform.replicas = 100;
  EXPECT_DOUBLE_EQ(predict_map(platform, "kv", load, 7)->update_ns, one_each);
  platform.replicas = 2;
  EXPECT_LT(predict_map(platform, "kv", load, 7)->update_ns, one_each);
}

TEST(MapModel, TablesThatDoNotFitIntoACacheCostMore) {
  MapPlatform platform = odd_platform(MapBroadcast::sends);
  MapLoad load = odd_load(1.0, 0);
  load.access.reset();
  const auto access = [&](double keys, const char* algorithm, int cores) {
    load.keys = keys;
    return predict_map(platform, algorithm, load, cores)->lookup_ns - platform.hash;
  };
  EXPECT_DOUBLE_EQ(access(1024, "rep_2pc", 4), 11);  // 64 bytes each: just fits
  EXPECT_DOUBLE_EQ(access(2048, "rep_2pc", 4), (11 + 88) / 2.0);
  EXPECT_NEAR(access(1e9, "rep_2pc", 4), 88, 0.1);
  load.keys = 4096;
  const auto with = [&](int servers) {
    return predict_map(platform, "part_simple", load, 8, servers)->lookup_ns - platform.hash -
           platform.select_power_of_two - 74;
  };
  EXPECT_DOUBLE_EQ(with(2) - with(4), (11 + 88) / 2.0 - 11) << "servers have a part of the keys each";
  load.bytes_per_key = 16;
  EXPECT_DOUBLE_EQ(with(2), with(4));

  load.bytes_per_key = 64;  // copies: all keys, as nobody writes
  load.keys = 2048;
  EXPECT_DOUBLE_EQ(predict_map(platform, "part_caching", load, 8, 2)->lookup_ns, 12 + (11 + 88) / 2.0);
  load.access = 40;
  EXPECT_DOUBLE_EQ(predict_map(platform, "part_caching", load, 8, 2)->lookup_ns, 12 + 11);
}

// ---- messages -------------------------------------------------------------------------------

TEST(MapMessages, ATreeIsTheFastestIfAllMessagesCostTheSame) {
  const MapPlatform platform = odd_platform(MapBroadcast::tree);
  const state::MessageCosts on(platform);
  const double send = 8 + 2, arrival = 16 + 3 + 4 + 20;  // of two words
  EXPECT_DOUBLE_EQ(on.spread(2, 0), 0);
  EXPECT_DOUBLE_EQ(on.spread(2, 1), send + arrival);
  // The root sends every 10 from 0 on; whoever has it (from 53 on) too. At time t they know it:
  //   53 63 73 83 93 103 (first receiver's first: 53 + 53 = 106, root's sixth: 113)
  EXPECT_DOUBLE_EQ(on.spread(2, 6), 103);
  EXPECT_DOUBLE_EQ(on.spread(2, 7), 106);
  EXPECT_DOUBLE_EQ(on.spread(2, 8), 113);
  EXPECT_DOUBLE_EQ(on.root_sends(2, 1), send);
  EXPECT_DOUBLE_EQ(on.root_sends(2, 6), 6 * send);
  EXPECT_DOUBLE_EQ(on.root_sends(2, 7), 6 * send) << "the seventh gets it from the first";
  EXPECT_DOUBLE_EQ(on.root_sends(2, 8), 7 * send);
  EXPECT_DOUBLE_EQ(on.broadcast_round_trip(2, 2, 7), 2 * 106);
}

TEST(MapMessages, SendsOneAfterTheOtherOrByHardware) {
  const MapPlatform one_by_one = odd_platform(MapBroadcast::sends), by_hardware = odd_platform(MapBroadcast::hardware);
  const state::MessageCosts sends(one_by_one), hardware(by_hardware);
  EXPECT_DOUBLE_EQ(sends.broadcast(2, 5), 50);
  EXPECT_DOUBLE_EQ(hardware.broadcast(2, 5), 10);
  EXPECT_DOUBLE_EQ(hardware.broadcast(2, 0), 0);
  EXPECT_DOUBLE_EQ(sends.spread(2, 5), 50 + 43);
  EXPECT_DOUBLE_EQ(sends.spread(2, 0), 0);
  EXPECT_DOUBLE_EQ(sends.root_sends(2, 5), 50);
  EXPECT_DOUBLE_EQ(hardware.root_sends(2, 5), 10);
  EXPECT_DOUBLE_EQ(sends.multicast(2, 2.5), 25);
  EXPECT_DOUBLE_EQ(hardware.multicast(2, 2.5), 10);
  EXPECT_DOUBLE_EQ(hardware.multicast(2, 0), 0);
  EXPECT_DOUBLE_EQ(sends.multicast_round_trip(2, 1, 0), 0);
  EXPECT_DOUBLE_EQ(sends.broadcast_round_trip(2, 1, 0), 0);
  EXPECT_DOUBLE_EQ(sends.multicast_round_trip(2, 1, 2), 20 + 27 + 9 + 5 + 32);
  EXPECT_DOUBLE_EQ(sends.broadcast_round_trip(2, 1, 2), 20 + 27 + 9 + 5 + 32);
  EXPECT_DOUBLE_EQ(sends.interrupting_round_trip(2, 1), 10 + 7 + 9 + 5 + 32 + 20);
}

// ---- skew -----------------------------------------------------------------------------------

TEST(MapSkew, TheHottestKey) {
  const struct {
    double keys, skew, share;
  } known[] = {{1, 0, 1},
               {10, 0, 0.1},
               {10, 0.5, 0.19916359657},
               {1000, 0.99, 0.12938362698},
               {65, 0.99, 0.20630353030},
               {1000, 1, 0.13359213049},
               {1e5, 1.2, 0.19640257491},
               {1e5, 0, 1e-5}};
  for (const auto& each : known) {
    EXPECT_NEAR(hottest_key_share(each.keys, each.skew), each.share, each.share * 1e-4)
        << each.keys << " " << each.skew;
  }
}

TEST(MapSkew, UnevenServersServeLikeFewerEvenOnes) {
  EXPECT_DOUBLE_EQ(effective_servers(std::vector{1.0, 1.0, 1.0}), 3);
  EXPECT_DOUBLE_EQ(effective_servers(std::vector{0.5, 0.25, 0.25}), 2);
  EXPECT_DOUBLE_EQ(effective_servers(std::vector{0.25, 1.0, 0.0}), 1.25) << "in any order and scale";
}

// ---- choice ---------------------------------------------------------------------------------

std::vector<std::string> names(const std::vector<MapPrediction>& ranking) {
  std::vector<std::string> result;
  for (const auto& each : ranking) result.push_back(each.algorithm);
  return result;
}

TEST(MapChoice, KeepsThePromisesThatTheLoadRequires) {
  const MapPlatform platform = odd_platform(MapBroadcast::sends);
  MapLoad load = odd_load(0.9, 11);
  load.consistency = Consistency::sequential;
  const auto all = *rank_maps(platform, load, 8);
  EXPECT_EQ(all.size(), 8u);
  EXPECT_TRUE(std::ranges::is_sorted(all, [](const auto& a, const auto& b) { return a.per_s > b.per_s; }));
  load.consistency = Consistency::linearizable;
  EXPECT_THAT(names(*rank_maps(platform, load, 8)), testing::Not(testing::Contains("rep_sc")));
  load.faults = Faults::crash;
  EXPECT_THAT(names(*rank_maps(platform, load, 8)), testing::UnorderedElementsAre("shared", "kv"));
  load.faults = Faults::stop;
  EXPECT_THAT(names(*rank_maps(platform, load, 8)), ElementsAre("kv"));
  MapPlatform distributed = platform;
  distributed.line.reset();
  EXPECT_THAT(names(*rank_maps(distributed, load, 8)), ElementsAre("kv"));
  load.faults = Faults::none;
  EXPECT_THAT(names(*rank_maps(platform, load, 1)), testing::UnorderedElementsAre("rep_2pc", "shared", "kv"));
  EXPECT_EQ(rank_maps(platform, load, 2)->size(), 7u) << "two cores are enough for a server";
  EXPECT_EQ(best_map(platform, load, 8)->algorithm, rank_maps(platform, load, 8)->front().algorithm);
}

TEST(MapChoice, ChoosesTheBestNumberOfServers) {
  const MapPlatform platform = odd_platform(MapBroadcast::sends);
  const MapLoad load = odd_load(0.8, 40);
  for (const auto* algorithm : {"part_simple", "part_caching", "rep_remote"}) {
    const auto best = *predict_map(platform, algorithm, load, 16);
    double most = 0.0;
    for (int servers = 1; servers < 16; ++servers) {
      most = std::max(most, predict_map(platform, algorithm, load, 16, servers)->per_s);
    }
    EXPECT_EQ(best.per_s, most) << algorithm;
    EXPECT_EQ(best.clients + best.servers, 16);
  }
  EXPECT_EQ(predict_map(platform, "rep_2pc", load, 16, 5)->clients, 16) << "needs no servers";
}

TEST(MapChoice, RangesAreWhereTheFastestChanges) {
  const MapPlatform platform = ideal_platform();
  MapLoad load;
  load.consistency = Consistency::sequential;
  const auto ranges = *best_ranges(platform, load, 32);
  ASSERT_GE(ranges.size(), 2u);
  EXPECT_EQ(ranges.front().from_lookups, 0.0);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (i > 0) {
      EXPECT_GT(ranges[i].from_lookups, ranges[i - 1].from_lookups);
      EXPECT_NE(ranges[i].algorithm, ranges[i - 1].algorithm);
      load.lookups = ranges[i].from_lookups - 2e-6;
      EXPECT_EQ(best_map(platform, load, 32)->algorithm, ranges[i - 1].algorithm);
    }
    load.lookups = ranges[i].from_lookups + 1e-6;
    EXPECT_EQ(best_map(platform, load, 32)->algorithm, ranges[i].algorithm);
  }
  const std::vector<std::string_view> two = {"rep_sc", "part_simple"};
  const auto between = *best_ranges(platform, load, 32, two);
  ASSERT_EQ(between.size(), 2u);
  EXPECT_EQ(between[0].algorithm, "part_simple");
  EXPECT_EQ(between[1].algorithm, "rep_sc");
}

/// An algorithm that is the fastest in two ranges, with another between them.
TEST(MapChoice, RangesMayReturnToAnAlgorithm) {
  MapLoad load;
  const auto names = [&](const MapPlatform& platform) {
    const auto ranges = *best_ranges(platform, load, 16);
    std::vector<std::string> found;
    for (const auto& range : ranges) found.push_back(range.algorithm);
    return found;
  };
  load.skew = 0.99, load.keys = 1e6;
  EXPECT_THAT(names(tile_gx()), ElementsAre("part_simple", "part_caching", "rep_2pc", "part_caching", "rep_2pc"));
  load.skew = 0.0, load.keys = 1e4;
  EXPECT_THAT(names(intermediate_platform()),
              ElementsAre("part_simple", "part_caching", "part_simple", "rep_local", "rep_2pc"));
}

TEST(MapChoice, ColocatedServersAreClientsToo) {
  const MapPlatform platform = odd_platform(MapBroadcast::sends);
  const MapLoad load = odd_load(1.0, 11);
  // T^c = 12 + 17 + (10 + 7) + (11 + 9) + 32 + 11 + 20 = 129; T^s = 7 + 11 + 11 + 20 = 49; idle = 69 - 10 - 9 + 20
  // = 70.
  const double idle = 70, client = 129, server = 49, overlapped = server * idle / (client + server);
  const auto all = *colocated(platform, load, 4, 4);
  EXPECT_DOUBLE_EQ(all.lookup_ns, client);
  EXPECT_DOUBLE_EQ(all.overlapped_ns, overlapped);
  EXPECT_DOUBLE_EQ(all.per_s, 1e9 * 4 / (client + server - overlapped));
  const auto half = *colocated(platform, load, 4, 2);
  const double from_clients = 2 / client, serving = from_clients * server / 2;
  EXPECT_NEAR(half.per_s, 1e9 * (from_clients + (1 - serving) * 2 / (client + server - overlapped)), 1.0);
  const auto one = *colocated(platform, load, 16, 1);  // fifteen clients are too many for it
  EXPECT_NEAR(one.per_s, 1e9 / server, 1.0);
  EXPECT_EQ(one.servers_per_s, none);
  EXPECT_EQ(one.clients, 16);
  EXPECT_EQ(one.servers, 1);
  EXPECT_EQ(one.algorithm, "part_simple");
  double most = 0.0;
  for (int servers = 1; servers <= 16; ++servers) most = std::max(most, colocated(platform, load, 16, servers)->per_s);
  EXPECT_EQ(colocated(platform, load, 16)->per_s, most);
  const MapLoad updates = odd_load(0.0, 11);  // 12 + 17 + (13 + 13) + (9 + 5) + 32 + 20
  EXPECT_DOUBLE_EQ(colocated(platform, updates, 4, 4)->update_ns, 121);
}

// ---- machines -------------------------------------------------------------------------------

TEST(MapPlatforms, OfTheText) {
  const MapPlatform tile = tile_gx();
  EXPECT_EQ(tile.name, "tile-gx");
  EXPECT_NEAR(1e3 / tile.cycle_ns, 1200, 1e-9) << "MHz";
  const state::MessageCosts on(tile);
  EXPECT_EQ(on.send(3), 11);
  EXPECT_EQ(on.receive(3), 6);
  EXPECT_EQ(on.interrupted(3), 144);
  EXPECT_EQ(on.round_trip(3, 3), 2 * (11 + 6 + 16));
  EXPECT_EQ(on.interrupting_round_trip(3, 3), 2 * (11 + 16) + 144 + 6);
  EXPECT_EQ(tile.hash, 12);
  EXPECT_EQ(tile.cached_access, 11);
  EXPECT_EQ(tile.memory_access, 88);
  EXPECT_EQ(tile.cache_bytes, 262144);
  EXPECT_FALSE(tile.line);
  EXPECT_EQ(tile.replicas, 0);
  EXPECT_EQ(intermediate_platform().name, "intermediate");
  EXPECT_EQ(intermediate_platform().interrupt, 4);
  EXPECT_EQ(intermediate_platform().broadcast, MapBroadcast::sends);
  EXPECT_EQ(ideal_platform().name, "ideal");
  EXPECT_EQ(ideal_platform().interrupt, 4);
  EXPECT_EQ(ideal_platform().broadcast, MapBroadcast::hardware);
}

/// Two NUMA nodes with two PUs each; costs that tell the pairs apart.
Machine small_machine() {
  Machine machine;
  machine.name = "small";
  for (int i = 0; i < 4; ++i) {
    machine.pus.push_back({.os_index = i, .core = i, .package = i / 2, .numa_node = i / 2, .l2 = i, .l3 = i / 2});
  }
  machine.send_ns = machine.recv_ns = Matrix(4);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      if (i == j) continue;
      machine.send_ns(i, j) = i / 2 == j / 2 ? 10 : 20;
      machine.recv_ns(i, j) = i / 2 == j / 2 ? 30 : 60;
    }
  }
  return machine;
}

TEST(MapPlatforms, OfAMachine) {
  Machine machine = small_machine();
  const auto near = platform_of(machine, {{0, 1}});
  ASSERT_TRUE(near);
  EXPECT_EQ(near->name, "small");
  EXPECT_EQ(near->cycle_ns, 1.0);
  EXPECT_DOUBLE_EQ(near->send, 10);
  EXPECT_DOUBLE_EQ(near->receive, 30);
  EXPECT_EQ(near->send_word, 0.0);
  EXPECT_EQ(near->receive_word, 0.0);
  EXPECT_DOUBLE_EQ(near->latency, 0);
  EXPECT_EQ(near->replicas, 1);
  EXPECT_EQ(near->broadcast, MapBroadcast::tree);
  EXPECT_DOUBLE_EQ(*near->line, std::max(copy_ns(machine, 0, 1, 64), 40.0)) << "not less than a message";
  EXPECT_DOUBLE_EQ(near->cached_access, copy_ns(machine, 0, 0, 64));
  EXPECT_DOUBLE_EQ(near->memory_access, copy_ns(machine, 0, 0, 64 << 20) / (1 << 20) * 12);
  EXPECT_EQ(near->cache_bytes, 1 << 20);
  EXPECT_DOUBLE_EQ(near->hash, 4);
  EXPECT_DOUBLE_EQ(near->select_other, 4.0 / 3);
  EXPECT_EQ(near->select_other, near->select_power_of_two);

  const auto all = platform_of(machine, whole_machine(machine));
  EXPECT_DOUBLE_EQ(all->send, (4 * 10 + 8 * 20) / 12.0);
  EXPECT_DOUBLE_EQ(all->receive, (4 * 30 + 8 * 60) / 12.0);
  EXPECT_EQ(all->replicas, 2);
  const auto crowded = platform_of(machine, {{0, 0, 1}});
  EXPECT_DOUBLE_EQ(crowded->send, 10) << "ranks of one PU are no pair";

  machine.propagation_ns = Matrix(4, 5.0);
  EXPECT_DOUBLE_EQ(platform_of(machine, {{0, 1}})->latency, 5);
  machine.rtt_ns = Matrix(4, 2 * (10 + 30 + 7.0));
  EXPECT_DOUBLE_EQ(platform_of(machine, {{0, 1}})->latency, 7) << "the longer one";
  machine.rtt_ns = Matrix(4, 2 * 1000.0);
  EXPECT_DOUBLE_EQ(*platform_of(machine, {{0, 1}})->line, 1000);
  machine.rtt_ns = Matrix(4, 10.0);
  EXPECT_DOUBLE_EQ(platform_of(machine, {{0, 1}})->latency, 5) << "of a lone message";
  EXPECT_DOUBLE_EQ(*platform_of(machine, {{0, 1}})->line, std::max(copy_ns(machine, 0, 1, 64), 45.0));
  machine.propagation_ns.reset();
  EXPECT_DOUBLE_EQ(platform_of(machine, {{0, 1}})->latency, 0) << "not negative";
  machine.tsc_ghz = 2.0;
  EXPECT_DOUBLE_EQ(platform_of(machine, {{0, 1}})->hash, 6);
  machine.copy.emplace();
  machine.copy->chunk_bytes = 1024, machine.copy->cached_bytes = 4096, machine.copy->shared_bytes = 65536;
  machine.copy->memory_bytes = 1 << 20;
  for (auto* matrix : {&machine.copy->startup_ns, &machine.copy->chunk_ns_per_kib, &machine.copy->cached_ns_per_kib,
                       &machine.copy->shared_ns_per_kib, &machine.copy->memory_ns_per_kib}) {
    *matrix = Matrix(4, 16.0);
  }
  const auto measured = platform_of(machine, {{0, 1}});
  EXPECT_EQ(measured->cache_bytes, 65536) << "the one that cores share";
  EXPECT_DOUBLE_EQ(measured->cached_access, 17) << "a line's start-up and its bytes";
  EXPECT_DOUBLE_EQ(measured->memory_access, 17) << "memory is never faster than a cache";
}

TEST(MapPlatforms, OfAMachineOneRankPerNumaNodeReplicates) {
  const Machine machine = *synthesize_machine({.packages = 4, .cores = 4});
  const auto platform = *platform_of(machine, whole_machine(machine));
  EXPECT_EQ(platform.replicas, 4);
  for (const auto& algorithm : map_algorithms()) {
    const auto predicted = predict_map(platform, algorithm.name, {}, 16);
    ASSERT_TRUE(predicted) << algorithm.name;
    EXPECT_GT(predicted->per_s, 0);
  }
  EXPECT_EQ(best_map(platform, {}, 16)->algorithm, "shared") << "a blocking message costs more than a line";
}

/// Nothing becomes cheaper because a part of it costs more.
TEST(MapPlatforms, ADearerMachineIsNotFaster) {
  const Machine machine = *synthesize_machine({.packages = 2, .cores = 4});
  const auto platform = *platform_of(machine, whole_machine(machine));
  ASSERT_GT(platform.software_cycle, 0.0);
  constexpr double MapPlatform::*costs[] = {
      &MapPlatform::send,          &MapPlatform::send_word,     &MapPlatform::receive, &MapPlatform::receive_word,
      &MapPlatform::interrupt,     &MapPlatform::latency,       &MapPlatform::hash,    &MapPlatform::cached_access,
      &MapPlatform::memory_access, &MapPlatform::software_cycle};
  for (const auto& algorithm : map_algorithms()) {
    for (const int cores : {2, 3, 8}) {
      for (const double lookups : {0.5, 0.9}) {
        MapLoad load;
        load.lookups = lookups;
        const auto before = predict_map(platform, algorithm.name, load, cores);
        ASSERT_TRUE(before) << algorithm.name << ": " << before.error().message;
        for (std::size_t i = 0; i < std::size(costs); ++i) {
          SCOPED_TRACE(algorithm.name + ", cores " + std::to_string(cores) + ", cost " + std::to_string(i));
          MapPlatform dearer = platform;
          dearer.*costs[i] = 1.5 * dearer.*costs[i] + 10.0;
          const auto after = predict_map(dearer, algorithm.name, load, cores, before->servers);
          ASSERT_TRUE(after) << after.error().message;
          EXPECT_GE(after->lookup_ns, before->lookup_ns * (1 - 1e-9));
          EXPECT_GE(after->update_ns, before->update_ns * (1 - 1e-9));
          EXPECT_LE(after->servers_per_s, before->servers_per_s * (1 + 1e-9));
        }
      }
    }
  }
}

// ---- errors ---------------------------------------------------------------------------------

template <class T>
void expect_error(const Result<T>& result, const std::string& says, Status status = Status::invalid_argument) {
  ASSERT_FALSE(result) << "should say: " << says;
  EXPECT_EQ(result.error().status, status);
  EXPECT_THAT(result.error().message, HasSubstr(says));
}

TEST(MapErrors, NamesAndCores) {
  const MapPlatform platform = odd_platform(MapBroadcast::sends);
  expect_error(predict_map(platform, "part_smiple", {}, 8), "part_smiple: no such algorithm");
  expect_error(predict_map(platform, "part_simple", {}, 0), "cores: from 1 to 4096");
  expect_error(predict_map(platform, "rep_2pc", {}, 4097), "cores: from 1 to 4096");
  EXPECT_TRUE(predict_map(platform, "shared", {}, 4096));
  expect_error(predict_map(platform, "part_simple", {}, 1), "it takes two");
  expect_error(predict_map(platform, "part_simple", {}, 8, 0), "servers: from 1 to 7");
  expect_error(predict_map(platform, "part_simple", {}, 8, 8), "servers: from 1 to 7");
  EXPECT_TRUE(predict_map(platform, "part_simple", {}, 8, 7));
  EXPECT_TRUE(predict_map(platform, "part_simple", {}, 8, 1));
  expect_error(predict_map(tile_gx(), "shared", {}, 8), "'tile-gx' has no shared memory", Status::not_supported);
  for (const int cores : {0, 4097}) {
    expect_error(rank_maps(platform, {}, cores), "cores");
    expect_error(best_map(platform, {}, cores), "cores");
    expect_error(best_ranges(platform, {}, cores), "cores");
    expect_error(colocated(platform, {}, cores), "cores");
  }
  expect_error(colocated(platform, {}, 8, 0), "servers: from 1 to 8");
  expect_error(colocated(platform, {}, 8, 9), "servers: from 1 to 8");
  const std::vector<std::string_view> nobody = {"nobody"};
  expect_error(best_ranges(platform, {}, 8, nobody), "no algorithm");
  MapLoad demanding;
  demanding.faults = Faults::stop;
  EXPECT_TRUE(rank_maps(tile_gx(), demanding, 1));
  demanding.faults = static_cast<Faults>(3);
  expect_error(rank_maps(tile_gx(), demanding, 8), "no algorithm");
}

TEST(MapErrors, NumbersOutOfRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto with = [](auto change) {
    MapLoad load;
    change(load);
    return load;
  };
  const struct {
    MapLoad load;
    std::string says;
  } mistakes[] = {
      {with([](MapLoad& load) { load.lookups = 1.01; }), "lookups"},
      {with([](MapLoad& load) { load.lookups = -0.01; }), "lookups"},
      {with([&](MapLoad& load) { load.lookups = nan; }), "lookups"},
      {with([](MapLoad& load) { load.keys = 0.5; }), "keys"},
      {with([](MapLoad& load) { load.keys = none; }), "keys"},
      {with([](MapLoad& load) { load.bytes_per_key = -1; }), "bytes_per_key"},
      {with([](MapLoad& load) { load.bytes_per_key = none; }), "bytes_per_key"},
      {with([](MapLoad& load) { load.skew = -0.1; }), "skew"},
      {with([](MapLoad& load) { load.skew = 10.5; }), "skew"},
      {with([](MapLoad& load) { load.hot_clients = -1; }), "hot_clients"},
      {with([](MapLoad& load) { load.hot_share = 1.5; }), "hot_share"},
      {with([](MapLoad& load) { load.hash = -1.0; }), "hash"},
      {with([&](MapLoad& load) { load.access = nan; }), "access"},
      {with([](MapLoad& load) { load.messages.commit = -1; }), "messages"},
      {with([](MapLoad& load) { load.messages.lookup = 100000; }), "messages"},
  };
  const MapPlatform platform = odd_platform(MapBroadcast::sends);
  for (const auto& mistake : mistakes) {
    expect_error(predict_map(platform, "shared", mistake.load, 4), mistake.says);
    expect_error(rank_maps(platform, mistake.load, 4), mistake.says);
    expect_error(best_ranges(platform, mistake.load, 4), mistake.says);
    expect_error(colocated(platform, mistake.load, 4), mistake.says);
  }
  MapLoad edge;
  edge.keys = 1, edge.bytes_per_key = 0, edge.skew = 10, edge.hot_share = 1, edge.hash = 0, edge.access = 1;
  for (const double lookups : {0.0, 1.0}) {
    edge.lookups = lookups;
    EXPECT_TRUE(predict_map(platform, "shared", edge, 4));
  }
}

TEST(MapErrors, MachinesWithoutCosts) {
  Machine machine = small_machine();
  expect_error(platform_of(machine, {{2}}), "two ranks on different PUs");
  expect_error(platform_of(machine, {{2, 2}}), "two ranks on different PUs");
  expect_error(platform_of(machine, {}), "two ranks on different PUs");
  expect_error(platform_of(machine, {{0, 4}}), "PU 4 is not in the machine");
  expect_error(platform_of(machine, {{0, -1}}), "PU -1 is not in the machine");
  machine.send_ns = machine.recv_ns = Matrix();
  expect_error(platform_of(machine, {{0, 1}}), "smelt measure");
}

// ---- registry -------------------------------------------------------------------------------

TEST(MapRegistry, FactsOfEightAlgorithms) {
  std::vector<std::string> all;
  for (const auto& each : map_algorithms()) {
    all.push_back(each.name);
    EXPECT_FALSE(each.description.empty());
    ASSERT_NE(find_map_algorithm(each.name), nullptr);
    EXPECT_EQ(find_map_algorithm(each.name)->description, each.description);
    EXPECT_NE(state::find_map(each.name)->costs, nullptr);
    EXPECT_EQ(each.consistency == Consistency::sequential, each.name == "rep_sc") << each.name;
  }
  EXPECT_THAT(
      all, ElementsAre("part_simple", "part_caching", "rep_remote", "rep_local", "rep_2pc", "rep_sc", "shared", "kv"));
  const auto those = [&](auto fact) {
    std::vector<std::string> result;
    for (const auto& each : map_algorithms()) {
      if (fact(each)) result.push_back(each.name);
    }
    return result;
  };
  EXPECT_THAT(those([](const auto& each) { return each.needs_servers; }),
              ElementsAre("part_simple", "part_caching", "rep_remote", "rep_local", "rep_sc"));
  EXPECT_THAT(those([](const auto& each) { return each.waits_for_everyone; }),
              ElementsAre("part_caching", "rep_local", "rep_2pc"));
  EXPECT_THAT(those([](const auto& each) { return each.survives == Faults::stop; }), ElementsAre("kv"));
  EXPECT_THAT(those([](const auto& each) { return each.survives == Faults::crash; }), ElementsAre("shared"));
  EXPECT_EQ(find_map_algorithm("redis"), nullptr);
}

TEST(MapRegistry, Words) {
  EXPECT_STREQ(to_string(Consistency::linearizable), "linearizable");
  EXPECT_STREQ(to_string(Consistency::sequential), "sequential");
  EXPECT_STREQ(to_string(Faults::none), "none");
  EXPECT_STREQ(to_string(Faults::crash), "crash");
  EXPECT_STREQ(to_string(Faults::stop), "stop");
}

}  // namespace
}  // namespace smelt
