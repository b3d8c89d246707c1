// Collectives against a straightforward reference, over rank counts, roots, sizes and trees.
#include "smelt/communicator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "machine/test_support.hpp"

namespace smelt {
namespace {

/// Two packages with SMT, enough PUs for `ranks` distinct ones; nobody is pinned to them.
Machine imaginary_machine(int ranks) {
  SynthSpec spec;
  spec.packages = 2;
  spec.smt = 2;
  spec.cores = std::max(2, (ranks + 3) / 4 * 2);
  spec.l3 = 2;
  spec.jitter = 0.2;
  return *synthesize_machine(spec);
}

Communicator make_communicator(int ranks, CommunicatorOptions options = {}) {
  const Machine machine = imaginary_machine(ranks);
  Group group = whole_machine(machine);
  group.pus.resize(static_cast<std::size_t>(ranks));
  options.pin = false;
  options.search_ms = 0;
  auto created = Communicator::create(machine, group, options);
  EXPECT_TRUE(created) << (created ? "" : created.error().message);
  return std::move(*created);
}

std::vector<std::uint8_t> pattern(std::size_t bytes, int seed) {
  std::vector<std::uint8_t> result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    result[i] = static_cast<std::uint8_t>(i * 31 + static_cast<std::size_t>(seed) * 97 + 5);
  }
  return result;
}

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, BroadcastFromEveryRootInEverySize) {
  auto comm = make_communicator(GetParam());
  const std::vector<std::size_t> sizes = {0, 1, 8, 55, 56, 57, 112, 895, 896, 897, 1791, 1792, 1793, 5000};
  const auto done = comm.run([&](Rank& rank) {
    for (int root = 0; root < rank.size(); ++root) {
      for (std::size_t bytes : sizes) {
        const auto expected = pattern(bytes, root);
        std::vector<std::uint8_t> data = rank.rank() == root ? expected : std::vector<std::uint8_t>(bytes, 0);
        ASSERT_EQ(rank.broadcast(data.data(), bytes, root), Status::ok);
        ASSERT_EQ(data, expected) << "root " << root << ", " << bytes << " bytes";
      }
    }
  });
  EXPECT_TRUE(done);
}

TEST_P(Ranks, ReduceToEveryRootInEverySize) {
  auto comm = make_communicator(GetParam());
  const auto done = comm.run([&](Rank& rank) {
    const int n = rank.size();
    for (int root = 0; root < n; ++root) {
      for (std::size_t count : {0, 1, 2, 7, 8, 111, 112, 113, 1000}) {
        std::vector<std::int64_t> mine(count);
        for (std::size_t i = 0; i < count; ++i) mine[i] = static_cast<std::int64_t>(i) + rank.rank() * 1000;
        std::vector<std::int64_t> result(count, -1);
        void* out = rank.rank() == root ? result.data() : nullptr;
        ASSERT_EQ(rank.reduce(mine.data(), out, count, sum<std::int64_t>(), root), Status::ok);
        for (std::size_t i = 0; i < count; ++i) {
          const std::int64_t expected =
              rank.rank() == root ? n * static_cast<std::int64_t>(i) + 1000 * (n * (n - 1) / 2) : -1;
          ASSERT_EQ(result[i], expected);
        }
      }
    }
  });
  EXPECT_TRUE(done);
}

TEST_P(Ranks, AllreduceGivesEveryRankTheSameBits) {
  auto comm = make_communicator(GetParam());
  const int n = GetParam();
  std::vector<std::vector<double>> results(static_cast<std::size_t>(n));
  const auto done = comm.run([&](Rank& rank) {
    for (std::size_t count : {1, 7, 200, 223, 224, 225, 500}) {
      std::vector<double> mine(count), total(count);
      for (std::size_t i = 0; i < count; ++i) mine[i] = 0.1 * rank.rank() + 1e-7 * static_cast<double>(i);
      ASSERT_EQ(rank.allreduce(mine.data(), total.data(), count, sum<double>()), Status::ok);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_NEAR(total[i], 0.1 * n * (n - 1) / 2 + n * 1e-7 * static_cast<double>(i), 1e-9);
      }
      // In place.
      ASSERT_EQ(rank.allreduce(mine.data(), mine.data(), count, sum<double>()), Status::ok);
      ASSERT_EQ(std::memcmp(mine.data(), total.data(), count * sizeof(double)), 0);
      results[static_cast<std::size_t>(rank.rank())] = total;
      ASSERT_EQ(rank.barrier(), Status::ok);
      ASSERT_EQ(std::memcmp(results[0].data(), total.data(), count * sizeof(double)), 0);
      ASSERT_EQ(rank.barrier(), Status::ok);
    }
  });
  EXPECT_TRUE(done);
}

/// Short calls like the one before them go a shorter way: whatever differs from that one must be noticed.
struct alignas(16) Wide {
  double low, high;
  Wide operator+(const Wide& other) const { return {low + other.low, high + other.high}; }
};

Reduction without_merge(Reduction op) {
  op.merge = nullptr;
  return op;
}

TEST_P(Ranks, ConsecutiveShortCallsMayDifferInAnything) {
  auto comm = make_communicator(GetParam());
  const auto done = comm.run([](Rank& rank) {
    const int n = rank.size(), r = rank.rank();
    const auto total = [n](double term) { return n * (n - 1) / 2.0 + n * term; };
    std::mt19937 random(7);  // the same on every rank
    for (int turn = 0; turn < 400; ++turn) {
      const int kind = static_cast<int>(random() % 8), root = static_cast<int>(random() % static_cast<unsigned>(n));
      const std::size_t count = 1 + random() % 8;  // up to a line and more than one
      const int times = 1 + static_cast<int>(random() % 3);
      for (int again = 0; again < times; ++again) {
        const double term = turn * 3 + again;
        std::vector<double> in(count, r + term), out(count, -1.0);
        const Reduction sums = kind == 1 ? without_merge(sum<double>()) : sum<double>();
        if (kind <= 1) {
          ASSERT_EQ(rank.allreduce(in.data(), out.data(), count, sums), Status::ok);
          ASSERT_EQ(out, std::vector<double>(count, total(term)));
          ASSERT_EQ(in, std::vector<double>(count, r + term));
        } else if (kind == 2) {
          ASSERT_EQ(rank.allreduce(in.data(), in.data(), count, sums), Status::ok);
          ASSERT_EQ(in, std::vector<double>(count, total(term)));
        } else if (kind == 3) {
          ASSERT_EQ(rank.run(Collective::allreduce(in.data(), out.data(), count, maximum<double>())), Status::ok);
          ASSERT_EQ(out, std::vector<double>(count, n - 1 + term));
        } else if (kind == 4) {
          ASSERT_EQ(rank.reduce(in.data(), r == root ? out.data() : nullptr, count, sums, root), Status::ok);
          ASSERT_EQ(out, std::vector<double>(count, r == root ? total(term) : -1.0));
        } else if (kind == 5) {
          ASSERT_EQ(rank.broadcast(in.data(), count * sizeof(double), root), Status::ok);
          ASSERT_EQ(in, std::vector<double>(count, root + term));
        } else if (kind == 6) {
          alignas(16) Wide mine[3], sum_of_all[3];
          for (auto& each : mine) each = {r + term, -term};
          ASSERT_EQ(rank.allreduce(mine, sum_of_all, 3, sum<Wide>()), Status::ok);
          for (const auto& each : sum_of_all) ASSERT_TRUE(each.low == total(term) && each.high == -n * term);
        } else {
          Request started = rank.start(Collective::allreduce(in.data(), out.data(), count, sums));
          std::vector<double> meanwhile(count, r - term), result(count);
          ASSERT_EQ(rank.allreduce(meanwhile.data(), result.data(), count, sums), Status::ok);
          ASSERT_EQ(started.wait(), Status::ok);
          ASSERT_EQ(out, std::vector<double>(count, total(term)));
          ASSERT_EQ(result, std::vector<double>(count, total(-term)));
        }
      }
    }
  });
  EXPECT_TRUE(done);
}

/// Their arguments are looked at as those of other calls are.
TEST_P(Ranks, ShortCallsAreRefusedLikeOthers) {
  auto comm = make_communicator(GetParam());
  const auto done = comm.run([](Rank& rank) {
    double in = 1.0, out = 0.0;
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_EQ(rank.allreduce(&in, &out, 1, sum<double>()), Status::ok);
      ASSERT_EQ(rank.reduce(&in, &out, 1, sum<double>(), 0), Status::ok);
      ASSERT_EQ(rank.broadcast(&in, sizeof in, 0), Status::ok);
    }
    EXPECT_EQ(rank.allreduce(nullptr, &out, 1, sum<double>()), Status::invalid_argument);
    EXPECT_EQ(rank.allreduce(&in, nullptr, 1, sum<double>()), Status::invalid_argument);
    EXPECT_EQ(rank.reduce(nullptr, &out, 1, sum<double>(), 0), Status::invalid_argument);
    if (rank.rank() == 0) {
      EXPECT_EQ(rank.reduce(&in, nullptr, 1, sum<double>(), 0), Status::invalid_argument);
    }
    EXPECT_EQ(rank.broadcast(nullptr, sizeof in, 0), Status::invalid_argument);
    EXPECT_EQ(rank.broadcast(&in, sizeof in, rank.size()), Status::invalid_argument);
    ASSERT_EQ(rank.allreduce(&in, &out, 1, sum<double>()), Status::ok);
    EXPECT_EQ(out, rank.size());
  });
  EXPECT_TRUE(done);
}

/// Sets of signed zeros: minimum and maximum must still agree in every bit between the ranks.
TEST_P(Ranks, AllreduceAgreesOnSignedZeros) {
  auto comm = make_communicator(GetParam());
  std::vector<double> results(static_cast<std::size_t>(GetParam()));
  const auto done = comm.run([&](Rank& rank) {
    const double mine = rank.rank() % 2 == 0 ? 0.0 : -0.0;
    double least = 1.0;
    for (int again = 0; again < 3; ++again) {
      ASSERT_EQ(rank.allreduce(&mine, &least, 1, minimum<double>()), Status::ok);
    }
    results[static_cast<std::size_t>(rank.rank())] = least;
  });
  EXPECT_TRUE(done);
  for (double each : results) EXPECT_EQ(std::memcmp(&each, &results[0], sizeof each), 0);
}

/// 2x2 matrices modulo a prime: associative, not commutative.
struct Matrix2 {
  std::uint32_t a, b, c, d;
  bool operator==(const Matrix2&) const = default;
};
Matrix2 multiply(Matrix2 x, Matrix2 y) {
  constexpr std::uint64_t p = 1'000'003;
  const auto dot = [](std::uint64_t i, std::uint64_t j, std::uint64_t k, std::uint64_t l) {
    return static_cast<std::uint32_t>((i * j + k * l) % p);
  };
  return {dot(x.a, y.a, x.b, y.c), dot(x.a, y.b, x.b, y.d), dot(x.c, y.a, x.d, y.c), dot(x.c, y.b, x.d, y.d)};
}
Reduction matrix_product() {
  return {sizeof(Matrix2),
          [](void* accumulator, const void* operand, std::size_t count, void*) {
            auto* to = static_cast<Matrix2*>(accumulator);
            const auto* from = static_cast<const Matrix2*>(operand);
            for (std::size_t i = 0; i < count; ++i) to[i] = multiply(to[i], from[i]);
          },
          nullptr, false};
}
Matrix2 matrix_of(int rank, std::size_t i) {
  const auto r = static_cast<std::uint32_t>(rank);
  return {r + 2, static_cast<std::uint32_t>(i) + 1, 3 * r + 1, 7};
}

TEST_P(Ranks, OperatorsThatDoNotCommuteCombineInRankOrder) {
  auto comm = make_communicator(GetParam());
  const auto done = comm.run([&](Rank& rank) {
    for (std::size_t count : {1, 3, 200}) {
      std::vector<Matrix2> mine(count), expected(count), result(count);
      for (std::size_t i = 0; i < count; ++i) {
        mine[i] = matrix_of(rank.rank(), i);
        expected[i] = matrix_of(0, i);
        for (int r = 1; r < rank.size(); ++r) expected[i] = multiply(expected[i], matrix_of(r, i));
      }
      ASSERT_EQ(rank.allreduce(mine.data(), result.data(), count, matrix_product()), Status::ok);
      ASSERT_EQ(result, expected);
      const int root = rank.size() - 1;
      std::fill(result.begin(), result.end(), Matrix2{});
      ASSERT_EQ(rank.reduce(mine.data(), rank.rank() == root ? result.data() : nullptr, count, matrix_product(), root),
                Status::ok);
      if (rank.rank() == root) {
        ASSERT_EQ(result, expected);
      }
    }
  });
  EXPECT_TRUE(done);
}

TEST_P(Ranks, TwoPhaseCommitNeedsEveryVote) {
  auto comm = make_communicator(GetParam());
  const auto done = comm.run([&](Rank& rank) {
    for (int root = 0; root < rank.size(); ++root) {
      // -1: nobody objects; else the rank that does.
      for (int objector = -1; objector < rank.size(); ++objector) {
        std::vector<std::uint8_t> proposal(100, 0);
        if (rank.rank() == root) proposal = pattern(100, objector);
        struct Voter {
          bool content_ok = false, yes = true;
          std::vector<std::uint8_t> expected;
        } voter{false, objector != rank.rank(), pattern(100, objector)};
        bool committed = objector >= 0;
        ASSERT_EQ(rank.two_phase_commit(
                      proposal.data(), proposal.size(),
                      [](const void* asked, void* self) {
                        auto* v = static_cast<Voter*>(self);
                        v->content_ok = std::memcmp(asked, v->expected.data(), v->expected.size()) == 0;
                        return v->yes;
                      },
                      &voter, &committed, root),
                  Status::ok);
        ASSERT_TRUE(voter.content_ok);
        ASSERT_EQ(committed, objector < 0);
      }
    }
  });
  EXPECT_TRUE(done);
}

/// Each rank writes its round number before the barrier and reads everybody's after it.
void check_barrier(Communicator& comm, int rounds) {
  struct alignas(64) Cell {
    int round = 0;  // plain on purpose: the barrier alone must order it, and ThreadSanitizer checks
  };
  std::vector<Cell> cells(static_cast<std::size_t>(comm.size()));
  const auto done = comm.run([&](Rank& rank) {
    for (int round = 1; round <= rounds; ++round) {
      cells[static_cast<std::size_t>(rank.rank())].round = round;
      ASSERT_EQ(rank.barrier(), Status::ok);
      for (const Cell& cell : cells) ASSERT_EQ(cell.round, round);
      ASSERT_EQ(rank.barrier(), Status::ok);
    }
  });
  EXPECT_TRUE(done);
}

TEST_P(Ranks, BarrierOfEveryKindHoldsEveryRank) {
  for (const char* kind : {"", "tree", "dissemination", "flat"}) {
    SCOPED_TRACE(kind);
    CommunicatorOptions options;
    options.barrier = kind;
    auto comm = make_communicator(GetParam(), options);
    check_barrier(comm, 40);
  }
}

INSTANTIATE_TEST_SUITE_P(Communicator, Ranks, testing::Values(1, 2, 3, 4, 5, 7, 8, 13, 17));

TEST(Communicator, EveryTopologyRunsEveryOperation) {
  for (const auto& topology : topologies()) {
    if (topology.name == "optimal") continue;  // proved by its own tests; too slow for 9 ranks here
    SCOPED_TRACE(topology.name);
    CommunicatorOptions options;
    options.topology = topology.name;
    auto comm = make_communicator(9, options);
    const auto done = comm.run([](Rank& rank) {
      for (int root = 0; root < rank.size(); ++root) {
        std::int32_t value = rank.rank() == root ? 77 + root : 0;
        ASSERT_EQ(rank.broadcast(&value, sizeof value, root), Status::ok);
        ASSERT_EQ(value, 77 + root);
        std::int32_t total = 0;
        ASSERT_EQ(rank.reduce(&value, &total, 1, sum<std::int32_t>(), root), Status::ok);
        ASSERT_EQ(total, rank.rank() == root ? 9 * (77 + root) : 0);
        ASSERT_EQ(rank.allreduce(&value, &total, 1, maximum<std::int32_t>()), Status::ok);
        ASSERT_EQ(total, 77 + root);
      }
      ASSERT_EQ(rank.barrier(), Status::ok);
    });
    EXPECT_TRUE(done);
  }
}

TEST(Communicator, ManyMoreRanksThanPus) {
  const Machine machine = imaginary_machine(4);
  Group group;
  for (int rank = 0; rank < 64; ++rank) group.pus.push_back(rank % 2);
  for (const char* wait : {"auto", "yield", "sleep"}) {
    SCOPED_TRACE(wait);
    CommunicatorOptions options;
    options.pin = false;
    options.wait = wait;
    options.search_ms = 0;
    auto comm = Communicator::create(machine, group, options);
    ASSERT_TRUE(comm) << comm.error().message;
    check_barrier(*comm, 5);
    const auto done = comm->run([](Rank& rank) {
      const std::int64_t mine = rank.rank();
      std::int64_t total = 0;
      ASSERT_EQ(rank.allreduce(&mine, &total, 1, sum<std::int64_t>()), Status::ok);
      ASSERT_EQ(total, 64 * 63 / 2);
    });
    EXPECT_TRUE(done);
  }
}

TEST(Communicator, LongRandomSequencesOnSeveralCommunicatorsAtOnce) {
  auto first = make_communicator(5);
  auto second = make_communicator(5);
  const auto done = first.run([&](Rank& rank) {
    auto other = second.attach(rank.rank());
    ASSERT_TRUE(other);
    std::mt19937 random(7);  // the same sequence on every rank
    for (int call = 0; call < 300; ++call) {
      Rank& used = random() % 2 == 0 ? rank : *other;
      const int root = static_cast<int>(random() % 5);
      const std::size_t count = random() % 4 == 0 ? random() % 3000 : random() % 9;
      std::vector<std::uint32_t> data(count, static_cast<std::uint32_t>(call * 10 + used.rank()));
      switch (random() % 4) {
        case 0: ASSERT_EQ(used.barrier(), Status::ok); break;
        case 1:
          ASSERT_EQ(used.broadcast(data.data(), count * 4, root), Status::ok);
          for (auto each : data) ASSERT_EQ(each, static_cast<std::uint32_t>(call * 10 + root));
          break;
        case 2:
          ASSERT_EQ(used.reduce(data.data(), data.data(), count, sum<std::uint32_t>(), root), Status::ok);
          if (used.rank() == root) {
            for (auto each : data) ASSERT_EQ(each, static_cast<std::uint32_t>(call * 50 + 10));
          }
          break;
        default:
          ASSERT_EQ(used.allreduce(data.data(), data.data(), count, maximum<std::uint32_t>()), Status::ok);
          for (auto each : data) ASSERT_EQ(each, static_cast<std::uint32_t>(call * 10 + 4));
      }
    }
  });
  EXPECT_TRUE(done);
}

TEST(Communicator, SubgroupsNestAndOverlap) {
  auto comm = make_communicator(8);
  const auto done = comm.run([](Rank& rank) {
    const int me = rank.rank();
    const auto total_in = [](Rank& group, int value) {
      std::int32_t mine = value, total = 0;
      EXPECT_EQ(group.allreduce(&mine, &total, 1, sum<std::int32_t>()), Status::ok);
      return total;
    };
    const std::vector<int> parity = me % 2 == 0 ? std::vector<int>{6, 4, 2, 0} : std::vector<int>{1, 3, 5, 7};
    auto half = rank.subgroup(parity);
    ASSERT_TRUE(half) << half.error().message;
    EXPECT_EQ(half->size(), 4);
    EXPECT_EQ(parity[static_cast<std::size_t>(half->rank())], me);
    EXPECT_EQ(total_in(*half, me), me % 2 == 0 ? 12 : 16);
    // Nested: the first two of each half; overlapping: 2..5 of all.
    if (half->rank() < 2) {
      const std::vector<int> pair = {0, 1};
      auto nested = half->subgroup(pair);
      ASSERT_TRUE(nested);
      EXPECT_EQ(total_in(*nested, me), me % 2 == 0 ? 10 : 4);
    }
    if (me >= 2 && me <= 5) {
      const std::vector<int> middle = {2, 3, 4, 5};
      auto overlap = rank.subgroup(middle);
      ASSERT_TRUE(overlap);
      std::uint64_t message = me == 3 ? 99 : 0;
      EXPECT_EQ(overlap->broadcast(&message, sizeof message, 1), Status::ok);
      EXPECT_EQ(message, 99u);
    }
    // The same members again: a communicator of its own.
    auto again = rank.subgroup(parity);
    ASSERT_TRUE(again);
    EXPECT_EQ(total_in(*again, 1), 4);
    EXPECT_EQ(total_in(*half, 2), 8);
  });
  EXPECT_TRUE(done);
}

TEST(Communicator, PredictsWhatItRuns) {
  CommunicatorOptions trees;
  trees.barrier = "tree";  // also where six ranks share two PUs
  const auto comm = make_communicator(6, trees);
  EXPECT_DOUBLE_EQ(comm.predict(Operation::barrier, 0)->predicted_ns, comm.plan(Operation::barrier).predicted_ns);
  for (const std::size_t bytes : {8, 4096, 1 << 20}) {
    const auto predicted = comm.predict(Operation::allreduce, bytes);
    ASSERT_TRUE(predicted);
    const auto request = make_request(comm.machine(), comm.group(), predicted->recipe);
    ASSERT_TRUE(request);
    EXPECT_GT(predicted->predicted_ns, 0.0);
    const auto proposed = comm.predict(Operation::two_phase_commit, bytes);
    ASSERT_TRUE(proposed);
    EXPECT_GT(proposed->predicted_ns, comm.predict(Operation::broadcast, bytes)->predicted_ns);
  }
  CommunicatorOptions options;
  options.algorithm = "broadcast_tree+channels+tree=chain";
  const auto fixed = make_communicator(6, options);
  const auto chain = fixed.predict(Operation::broadcast, 8);
  ASSERT_TRUE(chain);
  EXPECT_EQ(to_string(chain->recipe), options.algorithm);
  const auto request = make_request(fixed.machine(), fixed.group(), chain->recipe);
  EXPECT_DOUBLE_EQ(chain->predicted_ns, simulate(fixed.machine(), fixed.group(), *request, 8)->total_ns);
}

// Ranks that share PUs share switches between calls; others do not.
TEST(Communicator, PredictsLoopsOfCalls) {
  const auto apart = make_communicator(6);
  CommunicatorOptions options;
  options.barrier = "flat";
  options.pin = false;
  const auto crowd = Communicator::create(imaginary_machine(2), Group{{0, 1, 0, 1, 0, 1}}, options);
  ASSERT_TRUE(crowd) << crowd.error().message;
  for (const auto operation : {Operation::broadcast, Operation::reduce, Operation::allreduce, Operation::barrier}) {
    const auto loop_ns = [&](const Communicator& comm, bool barriers) {
      return comm.predict_loop(operation, 8, barriers)->predicted_ns;
    };
    const auto once_ns = [&](const Communicator& comm) { return comm.predict(operation, 8)->predicted_ns; };
    const auto barrier_ns = [](const Communicator& comm) { return comm.predict(Operation::barrier, 0)->predicted_ns; };
    EXPECT_DOUBLE_EQ(loop_ns(apart, false), once_ns(apart)) << to_string(operation);
    EXPECT_DOUBLE_EQ(loop_ns(apart, true), once_ns(apart) + barrier_ns(apart)) << to_string(operation);
    EXPECT_LT(loop_ns(*crowd, false), once_ns(*crowd)) << to_string(operation);
    EXPECT_LT(loop_ns(*crowd, true), once_ns(*crowd) + barrier_ns(*crowd)) << to_string(operation);
    EXPECT_GT(loop_ns(*crowd, true), loop_ns(*crowd, false)) << to_string(operation);
  }
  const auto commit = crowd->predict_loop(Operation::two_phase_commit, 8, true);
  ASSERT_TRUE(commit);
  EXPECT_GT(commit->predicted_ns, crowd->predict_loop(Operation::allreduce, 1, false)->predicted_ns);
}

// Others have read the inputs of the call before, which are dearer to write then.
TEST(Communicator, PredictsThatLoopsWriteTheirInputs) {
  Machine machine = test::with_copies(imaginary_machine(4));
  machine.change_ns_per_kib = 10.0;
  CommunicatorOptions options;
  options.pin = false;
  options.profile = "none";
  options.algorithm = "alltoall_flat+direct";
  const auto comm = Communicator::create(machine, Group{{0, 1, 2, 3}}, options);
  ASSERT_TRUE(comm) << comm.error().message;
  const double once_ns = comm->predict(Operation::alltoall, 4096)->predicted_ns;
  EXPECT_NEAR(comm->predict_loop(Operation::alltoall, 4096, false)->predicted_ns, once_ns + 3 * 4 * 10.0, 1e-6);
}

TEST(Communicator, SubsetIsIndependent) {
  auto comm = make_communicator(6);
  const std::vector<int> chosen = {5, 1, 3};
  auto part = comm.subset(chosen);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->group().pus, (std::vector<int>{5, 1, 3}));
  check_barrier(*part, 10);
  const std::vector<int> outside = {0, 6};
  const auto refused = comm.subset(outside);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "subset: rank 6 is not in 0..5");
}

/// Of every communicator of some ranks that can be made of one of four ranks with these options; the last rank leaves.
void expect_parts(const CommunicatorOptions& options) {
  auto comm = make_communicator(4, options);
  const std::vector<int> chosen = {0, 1, 2};
  auto subset = comm.subset(chosen);
  ASSERT_TRUE(subset) << subset.error().message;
  check_barrier(*subset, 10);
  EXPECT_TRUE(comm.run([&](Rank& rank) {
    if (rank.rank() == 3) return;
    auto part = rank.subgroup(chosen);
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_EQ(part->barrier(), Status::ok);
    EXPECT_EQ(rank.barrier(), Status::broken);
    auto survivors = rank.shrink();
    ASSERT_TRUE(survivors) << survivors.error().message;
    int one = 1, all = 0;
    EXPECT_EQ(survivors->allreduce(&one, &all, 1, sum<int>()), Status::ok);
    EXPECT_EQ(all, 3);
  }));
}

TEST(Communicator, PartsKeepTheOptionsThatFitThem) {
  CommunicatorOptions options;
  options.late_ns = {0, 0, 1000, 3000};
  expect_parts(options);
  options.late_ns.clear();
  options.algorithm = "allgather_recursive_doubling";  // for powers of two
  expect_parts(options);
}

TEST(Communicator, RanksAttachOnceAndCanComeBack) {
  auto comm = make_communicator(2);
  std::thread other([&] {
    for (int round = 0; round < 3; ++round) {
      auto rank = comm.attach(1);
      ASSERT_TRUE(rank);
      ASSERT_EQ(rank->barrier(), Status::ok);
    }
  });
  for (int round = 0; round < 3; ++round) {
    auto rank = comm.attach(0);
    ASSERT_TRUE(rank);
    const auto twice = comm.attach(0);
    ASSERT_FALSE(twice);
    EXPECT_EQ(twice.error().message, "attach: rank 0 is attached already");
    ASSERT_EQ(rank->barrier(), Status::ok);
  }
  other.join();
  EXPECT_FALSE(comm.attach(2));
  EXPECT_FALSE(comm.attach(-1));
}

TEST(Communicator, BadArgumentsAreRefusedAndHarmless) {
  auto comm = make_communicator(1);
  auto rank = comm.attach(0);
  ASSERT_TRUE(rank);
  double value = 3, result = 0;
  EXPECT_EQ(rank->broadcast(&value, 8, 1), Status::invalid_argument);
  EXPECT_EQ(rank->broadcast(nullptr, 8, 0), Status::invalid_argument);
  EXPECT_EQ(rank->reduce(&value, nullptr, 1, sum<double>()), Status::invalid_argument);
  EXPECT_EQ(rank->reduce(&value, &result, 1, Reduction{}), Status::invalid_argument);
  EXPECT_EQ(rank->allreduce(&value, nullptr, 1, sum<double>()), Status::invalid_argument);
  EXPECT_EQ(rank->allreduce(&value, &result, 1, sum<double>()), Status::ok);
  EXPECT_EQ(result, 3);
  EXPECT_EQ(rank->broadcast(nullptr, 0, 0), Status::ok);
}

TEST(Communicator, SizesBeyondMemoryAreRefused) {
  auto comm = make_communicator(2);
  ASSERT_TRUE(comm.run([](Rank& rank) {
    constexpr std::size_t wraps_to_one = (std::size_t{1} << 61) + 1, most = std::size_t{1} << 47;
    double in[2] = {1, 2}, out[4] = {};
    EXPECT_EQ(rank.allreduce(in, out, wraps_to_one, sum<double>()), Status::invalid_argument);
    EXPECT_EQ(rank.reduce(in, out, most / 8 + 1, sum<double>()), Status::invalid_argument);
    EXPECT_EQ(rank.broadcast(out, SIZE_MAX, 0), Status::invalid_argument);
    EXPECT_EQ(rank.run(Collective::allgather(in, out, most / 2 + 1)), Status::invalid_argument);
    const std::size_t huge[] = {1, most + 1}, usual[] = {1, 1}, offsets[] = {0, 1};
    EXPECT_EQ(rank.run(Collective::alltoallv(in, {huge, offsets}, out, {usual, offsets})), Status::invalid_argument);
    EXPECT_EQ(rank.run(Collective::alltoallv(in, {usual, offsets}, out, {huge, offsets})), Status::invalid_argument);
    EXPECT_EQ(rank.run(Collective::allgatherv(in, SIZE_MAX, out, {usual, offsets})), Status::invalid_argument);
    auto ignored = Collective::alltoallv(in, {usual, offsets}, out, {usual, offsets});
    ignored.count = SIZE_MAX;
    EXPECT_EQ(rank.run(ignored), Status::ok);
    EXPECT_EQ(rank.allreduce(in, out, 2, sum<double>()), Status::ok);
    EXPECT_EQ(out[1], 4);
  }));
}

TEST(Communicator, SetupErrorsSayWhatToDo) {
  const Machine machine = imaginary_machine(4);
  Machine bare = machine;
  bare.send_ns = Matrix();
  EXPECT_EQ(Communicator::create(bare, whole_machine(machine)).error().status, Status::invalid_argument);
  EXPECT_EQ(Communicator::create(machine, Group{}).error().message, "communicator: the group is empty");
  EXPECT_FALSE(Communicator::create(machine, Group{{0, 99}}));
  CommunicatorOptions options;
  options.topology = "nonsense";
  EXPECT_FALSE(Communicator::create(machine, Group{{0, 1}}, options));
  options = {};
  options.barrier = "nonsense";
  EXPECT_FALSE(Communicator::create(machine, Group{{0, 1}}, options));
  options = {};
  options.wait = "nonsense";
  EXPECT_EQ(Communicator::create(machine, Group{{0, 1}}, options).error().message,
            "communicator: wait mode 'nonsense': must be spin, yield, sleep or auto");
  options = {};
  setenv("SMELT_WAIT", "nonsense", 1);
  EXPECT_EQ(Communicator::create(machine, Group{{0, 1}}, options).error().message,
            "communicator: SMELT_WAIT='nonsense': must be spin, yield, sleep or auto");
  unsetenv("SMELT_WAIT");
  options.timeout_s = std::nan("");
  EXPECT_EQ(Communicator::create(machine, Group{{0, 1}}, options).error().message,
            "communicator: timeout_s: not a number");
}

TEST(Communicator, AnExceptionInOneRankFreesTheOthers) {
  auto comm = make_communicator(4);
  std::atomic<int> freed{0};
  const auto done = comm.run([&](Rank& rank) {
    if (rank.rank() == 2) throw std::runtime_error("no more");
    if (rank.barrier() == Status::broken) ++freed;
    if (rank.barrier() == Status::broken && !rank.failure().empty()) ++freed;
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "run: rank 2 threw: no more");
  EXPECT_EQ(freed, 6);
}

TEST(Communicator, ARunWithinARunIsRefusedAndHarmless) {
  auto comm = make_communicator(3);
  const auto refused = [&](int rank) {
    const auto inner = comm.run([](Rank&) { ADD_FAILURE() << "has run"; });
    ASSERT_FALSE(inner);
    EXPECT_EQ(inner.error().status, Status::invalid_argument);
    EXPECT_EQ(inner.error().message,
              "run: rank " + std::to_string(rank) +
                  " is attached already, by another run() or by attach(); wait until it has left");
  };
  const auto ran = comm.run([&](Rank& rank) {
    ASSERT_EQ(rank.barrier(), Status::ok);
    if (rank.rank() == 1) refused(0);
    ASSERT_EQ(rank.barrier(), Status::ok) << rank.failure();
  });
  EXPECT_TRUE(ran) << ran.error().message;
  {
    const auto attached = comm.attach(2);
    ASSERT_TRUE(attached);
    refused(2);
  }
  EXPECT_TRUE(comm.run([](Rank& rank) { ASSERT_EQ(rank.barrier(), Status::ok) << rank.failure(); }));
}

struct Big {
  std::uint64_t words[500];
};

const Reduction add_big{sizeof(Big),
                        [](void* accumulator, const void* operand, std::size_t count, void*) {
                          auto* to = static_cast<Big*>(accumulator);
                          const auto* from = static_cast<const Big*>(operand);
                          for (std::size_t i = 0; i < count; ++i) {
                            for (std::size_t w = 0; w < 500; ++w) to[i].words[w] += from[i].words[w];
                          }
                        },
                        nullptr, true};

// Also by an exchange, in which partners both send before they receive: more than fits into a channel.
TEST(Communicator, ElementsLongerThanAChannel) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const char* algorithm : {"", "allreduce_recursive_doubling"}) {
      CommunicatorOptions options;
      options.algorithm = algorithm;
      options.timeout_s = 60;
      auto comm = make_communicator(ranks, options);
      const auto expected = static_cast<std::uint64_t>(ranks * (ranks + 1) / 2);
      EXPECT_TRUE(comm.run([&](Rank& rank) {
        std::vector<Big> mine(3), total(3);
        for (auto& big : mine) std::fill(std::begin(big.words), std::end(big.words), rank.rank() + 1);
        for (int turn = 0; turn < 3; ++turn) {
          ASSERT_EQ(rank.allreduce(mine.data(), total.data(), 3, add_big), Status::ok) << rank.failure();
          for (const auto& big : total) {
            for (auto word : big.words) ASSERT_EQ(word, expected);
          }
        }
      })) << ranks;
    }
  }
}

struct alignas(64) Aligned {
  double numbers[8];
};

/// Counts operands at addresses that no such element can have in `context`.
void add_aligned(void* accumulator, const void* operand, std::size_t count, void* context) {
  const auto misplaced = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % alignof(Aligned) != 0; };
  *static_cast<std::atomic<int>*>(context) += misplaced(accumulator) || misplaced(operand);
  for (std::size_t i = 0; i < count * 8; ++i) {
    double a, b;
    std::memcpy(&a, static_cast<std::byte*>(accumulator) + i * sizeof a, sizeof a);
    std::memcpy(&b, static_cast<const std::byte*>(operand) + i * sizeof b, sizeof b);
    a += b;
    std::memcpy(static_cast<std::byte*>(accumulator) + i * sizeof a, &a, sizeof a);
  }
}

TEST(Communicator, OperandsAreAlignedAfterElementsOfAnyLength) {
  struct Odd {
    char bytes[4001];
  };
  std::atomic<int> misplaced{0};
  for (const int ranks : {2, 3, 4}) {
    for (const bool commutative : {true, false}) {
      auto comm = make_communicator(ranks);
      EXPECT_TRUE(comm.run([&](Rank& rank) {
        std::vector<Odd> odd(2), odd_out(2);
        const Reduction none{sizeof(Odd), [](void*, const void*, std::size_t, void*) {}, nullptr, commutative};
        ASSERT_EQ(rank.allreduce(odd.data(), odd_out.data(), 1, none), Status::ok);
        const Reduction add{sizeof(Aligned), add_aligned, &misplaced, commutative};
        for (const std::size_t count : {1, 9, 300, 5000}) {
          std::vector<Aligned> in(count, Aligned{{1, 1, 1, 1, 1, 1, 1, 1}}), out(count);
          ASSERT_EQ(rank.allreduce(in.data(), out.data(), count, add), Status::ok);
          ASSERT_EQ(rank.reduce(in.data(), out.data(), count, add, ranks - 1), Status::ok);
          ASSERT_EQ(rank.run(Collective::scan(in.data(), out.data(), count, add)), Status::ok);
          ASSERT_EQ(out[count - 1].numbers[7], rank.rank() + 1);
        }
      }));
    }
  }
  EXPECT_EQ(misplaced, 0);
}

TEST(Communicator, DefaultGroupRunsOnThisMachine) {
  auto comm = Communicator::create();
  ASSERT_TRUE(comm) << comm.error().message;
  check_barrier(*comm, 20);
  auto more = Communicator::create(comm->size() * 4);
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_EQ(more->size(), comm->size() * 4);
  check_barrier(*more, 20);
}

}  // namespace
}  // namespace smelt
