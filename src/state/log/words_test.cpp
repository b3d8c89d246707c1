// Words and places of the log, and the limits of its options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "smelt/replicated_log.hpp"
#include "state/log/layout.hpp"
#include "state/log/shape.hpp"

namespace smelt::state::log {
namespace {

using testing::HasSubstr;

/// make_shape() with some options, else those by default.
template <class Change>
Result<Shape> shape_with(int size, Change change, Faults usual_faults = Faults::crash, int usual_leader = 0) {
  LogOptions options;
  change(options);
  return make_shape(size, options, usual_faults, usual_leader);
}

TEST(LogWords, HaveTheirBits) {
  EXPECT_EQ((Configuration{3, 5}.word()), (3u << 10) + 5);
  EXPECT_EQ(Floor::word(3, 5), (3u << 24) + 5);
  EXPECT_EQ(Floor::index(Floor::word(1, 100), 100), 100u);
  EXPECT_EQ(Floor::index(Floor::word(1, 100), 100 + Floor::mask), 100u);
  EXPECT_EQ(Floor::index(Floor::word(1, (std::uint64_t{9} << 24) + 1), (std::uint64_t{9} << 24) + 2),
            (std::uint64_t{9} << 24) + 1);
  const std::uint64_t slot = decided_slot(7, 5, (std::uint64_t{3} << 16) + 9, 32);
  EXPECT_EQ(slot, (std::uint64_t{7} << 32) + (31u << 26) + (5u << 16) + 9);
  EXPECT_EQ(lap_of(slot), 7u);
  EXPECT_EQ(client_of(slot), 5);
  EXPECT_EQ(count_of(slot), 32u);
  EXPECT_FALSE(is_sealed(slot));
  EXPECT_EQ(count_of(decided_slot(7, 1023, 1, 1)), 1u);
  EXPECT_EQ(client_of(decided_slot(7, 1022, 1, 1)), 1022);
  const std::uint64_t sealed = sealed_slot(7, most_epoch);
  EXPECT_EQ(sealed, (std::uint64_t{7} << 32) + (std::uint64_t{1} << 31) + most_epoch);
  EXPECT_TRUE(is_sealed(sealed));
  EXPECT_EQ(lap_of(sealed), 7u);
  const Progress progress{5, Standing::granted, 9};
  EXPECT_EQ(progress.word(), (std::uint64_t{5} << 50) + (std::uint64_t{3} << 48) + 9);
  EXPECT_EQ(Progress::of(progress.word()).standing, Standing::granted);
  EXPECT_EQ(progress.with(Standing::out, 4).generation, 5u);
  EXPECT_EQ(progress.with(Standing::out, 4, 2).generation, 7u);
  EXPECT_EQ(progress.with(Standing::out, 4).index, 4u);
  EXPECT_EQ((Progress{0x3fff, Standing::live, 0}.with(Standing::live, 0, 1).generation), 0u);
  EXPECT_EQ(stamp_of(3, 65535), (3u << 16) + 65535);
  EXPECT_EQ(request_of(stamp_of(most_requests - 1, 65535)), most_requests - 1);
  EXPECT_EQ(bytes_of(stamp_of(most_requests - 1, 65535)), 65535u);
}

TEST(LogLayout, GivesEveryRankPlacesOfItsOwn) {
  for (const std::uint32_t command_bytes : {1u, 56u, 57u, 64u, 1000u, 65535u}) {
    for (const std::uint32_t entries : {64u, 1024u}) {
      Shape shape;
      shape.ranks = 3, shape.entries = entries, shape.requests = 8, shape.command_bytes = command_bytes;
      std::vector<std::uint64_t> memory(Layout::bytes(shape) / 8 + 512);
      auto* const begin =
          reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 4095) / 4096 * 4096);
      const Layout layout(begin, shape);
      const std::size_t cell = command_bytes <= 56 ? 64 : (8 + command_bytes + 7) / 8 * 8;
      EXPECT_EQ(layout.cell_bytes(), cell);
      const auto place = [&](const void* at) {
        return static_cast<std::size_t>(static_cast<const std::byte*>(at) - begin);
      };
      EXPECT_GE(place(&layout.slot(0)), sizeof(Head));
      EXPECT_EQ(place(&layout.slot(entries - 1)), place(&layout.slot(0)) + 8 * (entries - 1));
      EXPECT_EQ(&layout.slot(entries + 5), &layout.slot(5));
      std::size_t end = place(&layout.slot(entries - 1)) + 8;
      for (int rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(place(layout.part_begin(rank)) % 4096, 0u);
        EXPECT_GE(place(layout.part_begin(rank)), end);
        EXPECT_LT(place(layout.part_begin(rank)), end + 4096);
        EXPECT_EQ(place(&layout.part(rank)), place(layout.part_begin(rank)));
        EXPECT_GE(place(layout.cell(rank, 0)), place(&layout.part(rank)) + sizeof(Part));
        EXPECT_EQ(place(layout.cell(rank, 0)) % 64, 0u);
        EXPECT_EQ(place(layout.cell(rank, 7)), place(layout.cell(rank, 0)) + 7 * cell);
        EXPECT_EQ(layout.cell(rank, 8), layout.cell(rank, 0));
        end = place(layout.cell(rank, 7)) + cell;
        EXPECT_LE(end, place(layout.part_begin(rank)) + layout.part_bytes());
      }
      EXPECT_GE(Layout::bytes(shape), end);
      EXPECT_LT(Layout::bytes(shape), end + 4096);
      EXPECT_EQ(layout.lap(0), 1u);
      EXPECT_EQ(layout.lap(entries - 1), 1u);
      EXPECT_EQ(layout.lap(entries), 2u);
      EXPECT_EQ(layout.lap(layout.most_index()), 0xffffffffu);
      EXPECT_EQ(layout.lap(layout.most_index() - 1), 0xfffffffeu);
    }
  }
}

TEST(LogShape, HasLimits) {
  const auto good = [](auto change) { EXPECT_TRUE(shape_with(3, change)); };
  const auto bad = [](const std::string& says, auto change) {
    const auto shape = shape_with(3, change);
    ASSERT_FALSE(shape) << says;
    EXPECT_EQ(shape.error().status, Status::invalid_argument);
    EXPECT_THAT(shape.error().message, HasSubstr(says));
  };
  for (const std::uint32_t entries : {64u, 128u, 1u << 20}) good([=](LogOptions& o) { o.entries = entries; });
  for (const std::uint32_t entries : {0u, 32u, 96u, (1u << 20) + 1, 1u << 21}) {
    bad("entries is " + std::to_string(entries) + "; it must be a power of 2 from 64 to 2^20",
        [=](LogOptions& o) { o.entries = entries; });
  }
  for (const std::uint32_t requests : {2u, 4u, 1u << 16}) good([=](LogOptions& o) { o.requests = requests; });
  for (const std::uint32_t requests : {0u, 1u, 3u, 1u << 17}) {
    bad("requests is " + std::to_string(requests) + "; it must be a power of 2 from 2 to 2^16",
        [=](LogOptions& o) { o.requests = requests; });
  }
  for (const std::uint32_t bytes : {1u, 65535u}) good([=](LogOptions& o) { o.command_bytes = bytes; });
  for (const std::uint32_t bytes : {0u, 65536u}) {
    bad("command_bytes is " + std::to_string(bytes), [=](LogOptions& o) { o.command_bytes = bytes; });
  }
  for (const double seconds : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    bad("suspect_after_s is", [=](LogOptions& o) { o.suspect_after_s = seconds; });
    bad("evict_after_s is", [=](LogOptions& o) { o.evict_after_s = seconds; });
  }
  good([](LogOptions& o) { o.suspect_after_s = o.evict_after_s = 1e-9; });
  bad("survives nothing", [](LogOptions& o) { o.algorithm = "broadcast", o.keep = true; });
  bad("survives nothing", [](LogOptions& o) { o.algorithm = "broadcast", o.faults = Faults::stop; });
  good([](LogOptions& o) { o.algorithm = "broadcast", o.faults = Faults::none; });
  bad("rank 3 is not in 0 to 2", [](LogOptions& o) { o.replicas = {0, 3}; });
  bad("rank -1 is not in 0 to 2", [](LogOptions& o) { o.replicas = {-1}; });
  bad("rank 3 is no replica", [](LogOptions& o) { o.leader = 3; });
  bad("rank -1 is no replica", [](LogOptions& o) { o.leader = -1; });
  bad("rank 1 is no replica", [](LogOptions& o) { o.replicas = {0, 2}, o.leader = 1; });
  for (const int size : {1, nobody}) EXPECT_TRUE(shape_with(size, [](LogOptions&) {}));
  for (const int size : {0, -1, nobody + 1}) {
    EXPECT_THAT(shape_with(size, [](LogOptions&) {}).error().message, HasSubstr("it must be 1 to 1023"));
  }
}

TEST(LogShape, HasWhatWasAskedForOrIsUsual) {
  const auto usual = *shape_with(
      130, [](LogOptions&) {}, Faults::crash, 129);
  EXPECT_EQ(usual.ranks, 130u);
  EXPECT_EQ(usual.leader, 129u);
  EXPECT_EQ(usual.faults, static_cast<std::uint32_t>(Faults::crash));
  EXPECT_EQ(usual.fixed, 0u);
  EXPECT_EQ(usual.majority, 0u);
  for (int rank = 0; rank < 130; ++rank) EXPECT_TRUE(usual.is_replica(rank));
  EXPECT_FALSE(usual.is_replica(130));
  const auto some = *shape_with(
      130,
      [](LogOptions& o) {
        o.replicas = {1, 63, 64, 129};
      },
      Faults::crash, 65);
  for (int rank = 0; rank < 130; ++rank) {
    EXPECT_EQ(some.is_replica(rank), rank == 1 || rank == 63 || rank == 64 || rank == 129) << rank;
  }
  EXPECT_EQ(some.leader, 129u) << "the next replica";
  const auto first = *shape_with(
      130,
      [](LogOptions& o) {
        o.replicas = {1, 63};
      },
      Faults::crash, 64);
  EXPECT_EQ(first.leader, 1u) << "after the last comes the first";
  const auto fixed = *shape_with(3, [](LogOptions& o) { o.algorithm = "broadcast"; });
  EXPECT_EQ(fixed.fixed, 1u);
  EXPECT_EQ(fixed.faults, static_cast<std::uint32_t>(Faults::none));
  const auto stop = *shape_with(3, [](LogOptions& o) { o.faults = Faults::stop, o.suspect_after_s = 2; });
  EXPECT_EQ(stop.faults, static_cast<std::uint32_t>(Faults::stop));
  EXPECT_EQ(stop.suspect_after_s, 2.0);
  EXPECT_EQ(stop.evict_after_s, LogOptions{}.evict_after_s);
  for (const auto& [replicas, majority] : {std::pair{3, 2u}, {4, 3u}, {5, 3u}, {6, 4u}}) {
    const auto agreed = *shape_with(replicas, [](LogOptions& o) { o.configuration = "paxos"; });
    EXPECT_EQ(agreed.majority, majority) << replicas;
  }
}

TEST(LogShape, IsWrittenForAllProcesses) {
  LogOptions options;
  options.entries = 64;
  options.replicas = {0, 2};
  options.leader = 2;
  const Shape shape = *make_shape(3, options, Faults::crash, 0);
  std::vector<std::uint64_t> memory(Layout::bytes(shape) / 8 + 512);
  auto* const begin =
      reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 4095) / 4096 * 4096);
  prepare(begin, shape, FutexScope::processes);
  const Layout layout(begin);
  EXPECT_EQ(layout.head().shape.leader, 2u);
  EXPECT_EQ(layout.head().bell.scope, FutexScope::processes);
  EXPECT_EQ(layout.head().configuration.load(), (Configuration{1, 2}.word()));
  EXPECT_EQ(layout.head().floor.load(), Floor::word(1, 0));
  for (int rank = 0; rank < 3; ++rank) {
    const auto standing = rank == 1 ? Standing::out : Standing::live;
    EXPECT_EQ(layout.part(rank).progress.load(), (Progress{0, standing, 0}.word())) << rank;
  }
}

}  // namespace
}  // namespace smelt::state::log
