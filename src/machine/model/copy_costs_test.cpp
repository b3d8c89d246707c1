// The times of copies: estimated from latencies, and taken from measured numbers.
#include "machine/model/copy_costs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "machine/test_support.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

using test::with_copies;

Machine two_packages(int cores = 4) {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = cores;
  auto machine = synthesize_machine(spec);
  EXPECT_TRUE(machine);
  return *machine;
}

using CopyTime = double (*)(const Machine&, std::size_t, std::size_t, double, int) noexcept;
constexpr CopyTime all_times[] = {copy_ns, process_copy_ns, combine_ns};

void expect_monotonic(const Machine& machine) {
  for (const auto time : all_times) {
    for (std::size_t to = 0; to < machine.size(); ++to) {
      for (const int copiers : {1, 2, 3, 7, 8, 100}) {
        double before = 0.0;
        for (double bytes = 0; bytes < 1ull << 31; bytes = bytes * 1.3 + 1) {
          const double now = time(machine, 0, to, bytes, copiers);
          ASSERT_GE(now, before) << bytes;
          ASSERT_GE(now, time(machine, 0, to, bytes, 1)) << bytes;
          ASSERT_TRUE(std::isfinite(now));
          before = now;
        }
        EXPECT_GT(before, 0.0);
      }
    }
  }
}

TEST(CopyTimes, NeverFallWithBytesOrCopiers) {
  expect_monotonic(two_packages());
  expect_monotonic(with_copies(two_packages()));
}

TEST(CopyTimes, NothingCostsNothing) {
  for (const auto& machine : {two_packages(), with_copies(two_packages())}) {
    for (const auto time : all_times) {
      EXPECT_EQ(time(machine, 0, 1, 0.0, 1), 0.0);
      EXPECT_EQ(time(machine, 1, 1, 0.0, 8), 0.0);
    }
  }
}

TEST(CopyTimes, AreAtLeastTheCopy) {
  for (const auto& machine : {two_packages(), with_copies(two_packages())}) {
    for (double bytes : {1.0, 64.0, 4096.0, 1e6, 1e9}) {
      EXPECT_GT(process_copy_ns(machine, 0, 1, bytes), copy_ns(machine, 0, 1, bytes));
      EXPECT_GE(combine_ns(machine, 0, 1, bytes), copy_ns(machine, 0, 1, bytes));
    }
  }
}

TEST(CopyEstimate, ANearPairIsNotSlowerThanAFarOne) {
  const auto machine = two_packages();  // PUs 0..3 and 4..7
  for (double bytes = 1; bytes < 1 << 28; bytes *= 2) {
    const double own = copy_ns(machine, 0, 0, bytes), near = copy_ns(machine, 1, 0, bytes);
    EXPECT_LE(own, near);
    EXPECT_LT(near, copy_ns(machine, 4, 0, bytes));
  }
}

TEST(CopyEstimate, HidesLatencyBehindLinesInFlight) {
  const auto machine = two_packages();
  const double latency = machine.send_ns(4, 0) + machine.recv_ns(4, 0);
  // One line: about the latency. Many: far less than a latency each, but not more than 16 at once.
  EXPECT_NEAR(copy_ns(machine, 4, 0, 64), latency, 0.2 * latency);
  const double lines = 4096;
  EXPECT_LT(copy_ns(machine, 4, 0, 64 * lines), lines * latency / 8);
  EXPECT_GT(copy_ns(machine, 4, 0, 64 * lines), lines * latency / 16);
}

// docs/reference/model.md, "Copies", in numbers: 12 lines at a time, 2 ns for an own line, 6.4 for one out of memory, 4
// copiers for a NUMA node's memory.
TEST(CopyEstimate, IsThatOfTheEquations) {
  auto machine = two_packages(8);
  machine.propagation_ns = Matrix(machine.size(), 24.0);
  for (const std::size_t from : {0, 1, 8}) {
    const double latency = from == 0 ? 0 : machine.send_ns(from, 0) + machine.recv_ns(from, 0) + 24;
    for (const double bytes : {1.0, 64.0, 4096.0, estimated_cache_bytes, 2 * estimated_cache_bytes, 1e9}) {
      for (const int copiers : {1, 8, 9, 16}) {
        const double line = std::max(2.0, latency / 12), cached = std::min(bytes, estimated_cache_bytes);
        const double memory = (bytes - cached) / 64 * std::max(6.4, line) * std::max(1.0, copiers / 8.0);
        const double copied = latency + cached / 64 * line + memory;
        EXPECT_NEAR(copy_ns(machine, from, 0, bytes, copiers), copied, 1e-9 * copied);
        EXPECT_NEAR(combine_ns(machine, from, 0, bytes, copiers), copied + bytes / 64, 1e-9 * copied);
        EXPECT_NEAR(process_copy_ns(machine, from, 0, bytes, copiers), copied + 800 + bytes / 1024 * 50, 1e-9 * copied);
      }
    }
  }
  machine.numa_nodes.clear();  // counts as one
  EXPECT_GT(copy_ns(machine, 0, 0, 1e9, 5), copy_ns(machine, 0, 0, 1e9, 4));
}

TEST(CopyEstimate, WorksWithoutAnyCosts) {
  auto machine = two_packages();
  machine.send_ns = machine.recv_ns = Matrix();
  EXPECT_GT(copy_ns(machine, 0, 1, 4096), 0.0);
  EXPECT_LT(copy_ns(machine, 0, 1, 4096), copy_ns(machine, 0, 1, 8192));
}

TEST(CopyEstimate, ManyCopiersShareTheMemory) {
  const auto machine = two_packages(32);
  EXPECT_EQ(copy_ns(machine, 0, 1, 4096, 64), copy_ns(machine, 0, 1, 4096, 1));
  EXPECT_GT(copy_ns(machine, 0, 1, 1 << 28, 64), 2.0 * copy_ns(machine, 0, 1, 1 << 28, 1));
}

TEST(MeasuredCopy, PassesThroughWhatWasMeasured) {
  const auto machine = with_copies(two_packages());
  const auto& copy = *machine.copy;
  for (std::size_t from : {0, 3, 5}) {
    const double start = copy.startup_ns(from, 3);
    const auto expect = [&](double bytes, const Matrix& rate) {
      EXPECT_NEAR(copy_ns(machine, from, 3, bytes), start + bytes / 1024 * rate(from, 3), 1e-6 * bytes) << bytes;
    };
    expect(copy.chunk_bytes, copy.chunk_ns_per_kib);
    expect(copy.cached_bytes, copy.cached_ns_per_kib);
    expect(copy.shared_bytes, copy.shared_ns_per_kib);
    expect(copy.memory_bytes, copy.memory_ns_per_kib);
    expect(16 * copy.memory_bytes, copy.memory_ns_per_kib);
  }
}

// Between two sizes that were measured the line is straight, and each part slows down by its own contention.
TEST(MeasuredCopy, IsABrokenLine) {
  auto machine = with_copies(two_packages());
  auto& copy = *machine.copy;
  copy.cached_contention = {1, 1.5, 1.5, 1.5};
  copy.shared_contention = {1, 2, 2, 2};
  copy.memory_contention = {1, 3, 3, 3};
  const double sizes[] = {
      0, copy.chunk_bytes, copy.cached_bytes, copy.shared_bytes, copy.memory_bytes, 2 * copy.memory_bytes};
  const auto time = [&](double bytes, int copiers = 1) { return copy_ns(machine, 5, 3, bytes, copiers); };
  const double start = copy.startup_ns(5, 3), slower[] = {1.5, 1.5, 2, 3, 3};
  double crowded = start;
  for (int part = 0; part < 5; ++part) {
    const double low = sizes[part] == 0 ? start : time(sizes[part]), high = time(sizes[part + 1]);
    for (const double share : {0.25, 0.5, 0.9}) {
      const double bytes = sizes[part] + share * (sizes[part + 1] - sizes[part]);
      EXPECT_NEAR(time(bytes), low + share * (high - low), 1e-6 * high) << bytes;
      EXPECT_NEAR(time(bytes, 2), crowded + share * (high - low) * slower[part], 1e-6 * high) << bytes;
    }
    crowded += (high - low) * slower[part];
  }
  EXPECT_NEAR(time(2 * copy.memory_bytes) - time(copy.memory_bytes),
              copy.memory_bytes / 1024 * copy.memory_ns_per_kib(5, 3), 1);
}

TEST(MeasuredCopy, ChunksOutOfOtherCachesHaveTheirOwnContention) {
  auto machine = with_copies(two_packages());
  machine.copy->cached_contention = {1, 1.5, 1.5, 1.5};
  const double chunk = machine.copy->chunk_bytes, cached = machine.copy->cached_bytes;
  const double before = copy_ns(machine, 5, 3, cached, 2), own = copy_ns(machine, 3, 3, chunk);
  const double of_chunk = copy_ns(machine, 5, 3, chunk) - machine.copy->startup_ns(5, 3);
  machine.chunk_contention = {1, 2, 2, 2};
  EXPECT_NEAR(copy_ns(machine, 5, 3, cached, 2), before + 0.5 * of_chunk, 1e-6);
  EXPECT_NEAR(copy_ns(machine, 3, 3, chunk, 2), own, 1e-9) << "its own data";
  EXPECT_NEAR(copy_ns(machine, 5, 3, chunk, 1), of_chunk + machine.copy->startup_ns(5, 3), 1e-9);
  machine.chunk_contention = {1, 0.5, 0.5, 0.5};
  EXPECT_NEAR(copy_ns(machine, 5, 3, chunk, 2), copy_ns(machine, 5, 3, chunk), 1e-9) << "never faster";
}

TEST(MeasuredCopy, CombiningTakesAMultipleOfACopy) {
  auto machine = with_copies(two_packages());
  machine.copy->cached_contention = {1, 1.5, 1.5, 1.5};
  const double before = combine_ns(machine, 3, 3, 1e5), cached = machine.copy->cached_bytes;
  machine.combine_share = {1.0, 2.0, 4.0};
  const auto share = [&](double bytes) { return combine_ns(machine, 5, 3, bytes) / copy_ns(machine, 5, 3, bytes); };
  EXPECT_NEAR(share(64), 1.0, 1e-9);
  EXPECT_NEAR(share(4096), 1.0, 1e-9);
  EXPECT_NEAR(share(16384), 1.5, 1e-9) << "half-way from 4 KiB to 64 KiB";
  EXPECT_NEAR(share(65536), 2.0, 1e-9);
  EXPECT_NEAR(share(cached), 4.0, 1e-9);
  EXPECT_NEAR(combine_ns(machine, 5, 3, 2 * cached) - combine_ns(machine, 5, 3, cached),
              copy_ns(machine, 5, 3, 2 * cached) - copy_ns(machine, 5, 3, cached), 1e-6);
  // Others slow down the copy, but not the loop that waits; which is never faster than the copy.
  EXPECT_NEAR(combine_ns(machine, 5, 3, 65536, 2), combine_ns(machine, 5, 3, 65536), 1e-6);
  EXPECT_NEAR(combine_ns(machine, 5, 3, 4096, 2), copy_ns(machine, 5, 3, 4096, 2), 1e-9);
  EXPECT_NEAR(combine_ns(machine, 3, 3, 1e5), before, 1e-9) << "its own data";
}

TEST(MeasuredCopy, NoisyNumbersStillDoNotFall) {
  auto machine = with_copies(two_packages());
  // Memory so much faster than the caches that the measured times fall with the size.
  for (std::size_t i = 0; i < machine.size(); ++i) {
    for (std::size_t j = 0; j < machine.size(); ++j) {
      machine.copy->cached_ns_per_kib(i, j) = 1.0;
      machine.copy->shared_ns_per_kib(i, j) = 0.001;
      machine.copy->memory_ns_per_kib(i, j) = 0.0005;
    }
  }
  expect_monotonic(machine);
}

TEST(MeasuredCopy, ContentionIsInterpolated) {
  auto machine = with_copies(two_packages(3));  // 6 PUs: 1, 2, 4, 6 copiers
  machine.copy->cached_contention = {1, 2, 4, 7};
  const double bytes = machine.copy->cached_bytes, start = machine.copy->startup_ns(0, 1);
  const double alone = copy_ns(machine, 0, 1, bytes) - start;
  const std::pair<int, double> factors[] = {{0, 1}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5.5}, {6, 7}, {99, 7}};
  for (const auto& [copiers, factor] : factors) {
    EXPECT_NEAR(copy_ns(machine, 0, 1, bytes, copiers) - start, factor * alone, 1e-6) << copiers;
  }
}

TEST(MeasuredCopy, LevelsOfContention) {
  const std::pair<std::size_t, std::size_t> levels[] = {{1, 1}, {2, 2}, {3, 3}, {4, 3}, {5, 4}, {8, 4}, {9, 5}};
  for (const auto& [pus, count] : levels) EXPECT_EQ(contention_levels(pus), count) << pus;
  // Every number of copiers on every small machine has a factor.
  for (int cores = 1; cores < 9; ++cores) {
    const auto machine = with_copies(two_packages(cores));
    for (int copiers = 1; copiers <= 2 * cores; ++copiers) {
      EXPECT_GE(copy_ns(machine, 0, 1, 1e6, copiers), copy_ns(machine, 0, 1, 1e6, copiers - 1));
    }
  }
}

TEST(MeasuredCopy, ForbiddenProcessCopiesNeverEnd) {
  auto machine = with_copies(two_packages());
  machine.copy->process.reset();
  EXPECT_EQ(process_copy_ns(machine, 0, 1, 8), std::numeric_limits<double>::infinity());
  EXPECT_EQ(process_copy_ns(machine, 0, 1, 0), 0.0);
}

TEST(MeasuredCopy, AddingOwnDataTakesWhatAddingTakes) {
  const auto machine = with_copies(two_packages());
  const auto& copy = *machine.copy;
  const double bytes = copy.cached_bytes;
  EXPECT_NEAR(combine_ns(machine, 2, 2, bytes), copy.startup_ns(2, 2) + bytes / 1024 * copy.add_ns_per_kib, 1e-6);
  // Of others' data: what adding takes more than copying own data.
  const double more = bytes / 1024 * (copy.add_ns_per_kib - copy.cached_ns_per_kib(3, 3));
  EXPECT_NEAR(combine_ns(machine, 2, 3, bytes), copy_ns(machine, 2, 3, bytes) + more, 1e-6);
}

TEST(MeasuredCopy, OutOfAnotherProcessCostsACallAndItsPages) {
  const auto machine = with_copies(two_packages());
  for (const double bytes : {8.0, 1024.0, 1e7}) {
    EXPECT_NEAR(process_copy_ns(machine, 2, 3, bytes, 3),
                machine.copy->process->call_ns + bytes / 1024 * machine.copy->process->ns_per_kib +
                    copy_ns(machine, 2, 3, bytes, 3),
                1e-6);
  }
}

}  // namespace
}  // namespace smelt
