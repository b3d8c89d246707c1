// Ranks are threads that call as MPI's ranks do: each at its own pace, without waiting for the others except where
// `in_step` asks for it.
#include "shims/mpi/server_selection.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace smelt::shims::mpi {
namespace {

constexpr int bcast = 0, barrier = 2;
constexpr std::uint64_t first = 8;
constexpr std::size_t row = 64;         // calls by each in a row of a proof
constexpr std::size_t proof = 2 * row;  // by each: two rows suffice if the winner takes less time in both

/// The races of all ranks of a job, over one file.
class Job {
 public:
  explicit Job(int ranks) {
    const int fd = memfd_create("smelt-race-test", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(ServerSelection::bytes(ranks))), 0);
    for (int rank = 0; rank < ranks; ++rank) races_.push_back(ServerSelection::open(fd, 0, ranks, rank, first));
    close(fd);
    clocks_.resize(races_.size());
  }
  ServerSelection& race(int rank) { return *races_[static_cast<std::size_t>(rank)]; }
  std::uint64_t& clock(int rank) { return clocks_[static_cast<std::size_t>(rank)]; }
  int ranks() const { return static_cast<int>(races_.size()); }

 private:
  std::vector<std::unique_ptr<ServerSelection>> races_;
  std::vector<std::uint64_t> clocks_;  ///< of the ranks
};

struct Took {
  std::uint64_t smelt, library, at_rest = 1000;

  std::uint64_t by(Server server) const {
    return server == Server::smelt ? smelt : server == Server::library ? library : at_rest;
  }
};
using Times = std::function<Took(int call)>;

/// One call of a cell on a rank, as entry.cpp makes it. `time(server)`: how long it takes.
template <class Time>
Server call_by(Job& job, int rank, SelectionCell& cell, Time time) {
  const bool passes = cell.passes(), at_rest = cell.holder() == Server::smelt_at_rest;
  const Server server = !passes ? cell.come_to() : at_rest ? Server::smelt_at_rest : Server::smelt;
  const std::uint64_t begin = job.clock(rank);
  job.clock(rank) += time(server);
  if (!passes && cell.is_timed()) cell.spent(begin, job.clock(rank));
  return server;
}
Server call(Job& job, int rank, SelectionCell& cell, Took took) {
  return call_by(job, rank, cell, [&](Server server) { return took.by(server); });
}

/// Who serves the calls of one cell, on ranks that take turns call by call.
std::vector<Server> play(Job& job, int calls, const Times& times, int operation = bcast, std::size_t bytes = 1024) {
  std::vector<Server> served;
  for (int number = 1; number <= calls; ++number) {
    for (int rank = 0; rank < job.ranks(); ++rank) {
      const Server server = call(job, rank, job.race(rank).cell(operation, bytes), times(number));
      if (rank == 0) served.push_back(server);
      EXPECT_EQ(server, served.back()) << "call " << number << " on rank " << rank;
    }
  }
  return served;
}

std::size_t by(Server server, const std::vector<Server>& served, std::size_t from = 0) {
  return static_cast<std::size_t>(std::count(served.begin() + static_cast<std::ptrdiff_t>(from), served.end(), server));
}
std::size_t by_library(const std::vector<Server>& served, std::size_t from = 0) {
  return by(Server::library, served, from);
}

TEST(ServerSelection, TheLibraryServesCellsInWhichItIsFaster) {
  Job job(3);
  const auto served = play(job, 600, [](int) { return Took{100, 90}; });
  EXPECT_EQ(by_library(served), by_library(served, first - 1)) << "no race before its time";
  EXPECT_EQ(by_library(served, 100 + 2 * proof), 500U - 2 * proof - (3U + 2 * 9U))
      << "all but smelt's rows of the next race: a glance, two stages";
  EXPECT_EQ(by(Server::smelt, served), first - 1 + (3U + 6 * 5U) + proof + (3U + 2 * 9U));
  EXPECT_EQ(job.race(0).cell(bcast, 1024).holder(), Server::library);
}

TEST(ServerSelection, AMuchSlowerLibraryIsTriedOnce) {
  Job job(2);
  const auto served = play(job, 120, [](int) { return Took{100, 300}; });
  EXPECT_EQ(by_library(served), 3U);
  EXPECT_EQ(job.race(1).cell(bcast, 1024).holder(), Server::smelt);
}

TEST(ServerSelection, SmeltKeepsCellsWithEqualTimes) {
  Job job(2);
  std::size_t bytes = 64;
  struct {
    std::uint64_t library;
    std::size_t stages;
  } const cases[] = {{95, 6}, {100, 2}, {125, 2}};
  for (const auto& each : cases) {
    const auto served = play(
        job, 100,
        [&](int) {
          return Took{100, each.library};
        },
        bcast, bytes *= 2);
    EXPECT_EQ(by_library(served), 3U + each.stages * 5U) << "a glance and the stages, " << each.library;
    EXPECT_EQ(job.race(0).cell(bcast, bytes).holder(), Server::smelt);
  }
}

/// Two stages fail; the four after them count with these.
TEST(ServerSelection, AfterTwoFailuresAllStagesTogetherDecide) {
  for (const std::uint64_t later : {80, 94, 95}) {
    Job job(2);
    const auto served = play(job, 100, [&](int number) { return Took{100, number < 36 ? 98 : later}; });
    const Server winner = later == 80 ? Server::library : Server::smelt;
    const Server loser = winner == Server::smelt ? Server::library : Server::smelt;
    EXPECT_EQ(served.back(), winner) << later;
    EXPECT_EQ(by(loser, served, first - 1), 3U + 6 * 5U) << "a glance and six stages, " << later;
  }
}

TEST(ServerSelection, AMuchFasterLibraryWinsSoon) {
  Job job(2);
  const auto served = play(job, 400, [](int) { return Took{100, 50}; });
  EXPECT_EQ(by(Server::smelt, served), first - 1 + 3 + 2 * 5 + proof)
      << "until the race, and its rows of a glance, two stages and the proof";
  EXPECT_EQ(by(Server::smelt, served, 300), 0U) << "until the next race";
}

/// A library whose ranks run ahead: a call costs little until its buffers are full. From then on every 16th call waits
/// until 16 of them are empty. They all are after a call of smelt.
class RunsAhead {
 public:
  RunsAhead(int buffers, std::uint64_t ahead, std::uint64_t wait) : buffers_(buffers), ahead_(ahead), wait_(wait) {}
  std::uint64_t serve(Server server) {
    used_ = server == Server::library ? used_ + 1 : 0;
    if (used_ == 0) return smelt;
    return used_ > buffers_ && used_ % 16 == 5 ? wait_ : ahead_;
  }

  static constexpr std::uint64_t smelt = 100;

 private:
  int buffers_, used_ = 0;
  std::uint64_t ahead_, wait_;
};

/// Who serves the calls of a cell; `time(server)` is called for each of them.
std::vector<Server> play_by_server(Job& job, int calls, const std::function<std::uint64_t(Server)>& time) {
  std::vector<Server> served;
  for (int number = 1; number <= calls; ++number) {
    std::uint64_t took = 0;
    for (int rank = 0; rank < job.ranks(); ++rank) {
      const Server server = call_by(job, rank, job.race(rank).cell(bcast, 1024), [&](Server by) {
        if (rank == 0) took = time(by);
        return took;
      });
      if (rank == 0) served.push_back(server);
      EXPECT_EQ(server, served.back()) << "call " << number << " on rank " << rank;
    }
  }
  return served;
}

TEST(ServerSelection, ALibraryThatIsFastOnlyWhileItRunsAheadLosesTheProof) {
  for (const int buffers : {20, 32, 36}) {
    Job job(3);
    RunsAhead library(buffers, 30, 16 * 2 * RunsAhead::smelt);
    const auto served =
        play_by_server(job, 10 * static_cast<int>(proof), [&](Server server) { return library.serve(server); });
    EXPECT_EQ(served.back(), Server::smelt) << buffers << " buffers";
    EXPECT_GE(by_library(served), proof) << "it has won the contest";
    EXPECT_EQ(job.race(0).cell(bcast, 1024).holder(), Server::smelt);
  }
}

TEST(ServerSelection, ALibraryThatRunsAheadAndIsFasterAllTheSameWinsTheProof) {
  Job job(3);
  RunsAhead library(20, 30, 16 * RunsAhead::smelt / 2);
  const auto served = play_by_server(job, 400, [&](Server server) { return library.serve(server); });
  EXPECT_EQ(by(Server::smelt, served, 300), 0U);
}

/// If one row of a proof is interrupted, the two others decide.
TEST(ServerSelection, OneBadRowDoesNotDecideAProof) {
  for (const bool in_library : {true, false}) {
    Job job(2);
    std::size_t in_turn = 0;  // calls by the same server
    Server last = Server::smelt;
    bool interrupted = false;
    const auto served = play_by_server(job, 500, [&](Server server) -> std::uint64_t {
      in_turn = server == last ? in_turn + 1 : 1;
      last = server;
      // No contest has as many calls in a row.
      const bool now = !interrupted && in_turn == row - 5 && (server == Server::library) == in_library;
      interrupted = interrupted || now;
      return (server == Server::library ? 50U : 100U) + (now ? 100000U : 0U);
    });
    EXPECT_TRUE(interrupted);
    EXPECT_EQ(served.back(), Server::library);
    const std::size_t rows = in_library ? 3 : 2, next_race = in_library ? 0 : 3;
    EXPECT_EQ(by(Server::smelt, served), first - 1 + 3 + 2 * 5 + rows * row + next_race)
        << "an interrupted row of the library is made up for by one more";
  }
}

/// As outside of contests: of a row of smelt, only the calls are looked at that begin or end its time.
TEST(ServerSelection, CallsOfARowOfSmeltPass) {
  Job job(1);
  SelectionCell& cell = job.race(0).cell(bcast, 1024);
  std::size_t passed = 0, looked_at = 0, timed = 0;
  for (int number = 1; number <= 300; ++number) {
    const std::size_t before = cell.proven_holder() != cell.holder() ? 1 : 0;  // in the proof
    const bool passes = cell.passes();
    const Server server = passes ? Server::smelt : cell.come_to();
    const std::size_t smelt = server == Server::smelt ? before : 0;
    passed += passes ? smelt : 0;
    looked_at += passes ? 0 : smelt;
    timed += !passes && cell.is_timed() ? before : 0;
    const std::uint64_t begin = job.clock(0);
    job.clock(0) += server == Server::smelt ? 100 : 50;
    if (!passes && cell.is_timed()) cell.spent(begin, job.clock(0));
  }
  EXPECT_EQ(passed, proof - 2 * 3);
  EXPECT_EQ(looked_at, 2U * 3) << "the first call, the first timed one and the last one of two rows";
  EXPECT_EQ(timed, 2U * 4) << "two calls of each row";
}

/// The program computes for long between its calls.
TEST(ServerSelection, RowsMayTakeMinutes) {
  Job job(2);
  const auto served = play(job, 400, [](int) { return Took{std::uint64_t{1} << 30, std::uint64_t{1} << 29}; });
  EXPECT_EQ(served.back(), Server::library);
}

/// Until the proof has ended, other cells begin with the previous holder, and reports don't name the library faster.
TEST(ServerSelection, AWinnerIsNotBelievedBeforeTheProof) {
  Job job(2);
  EXPECT_EQ(play(job, 100, [](int) { return Took{100, 50}; }).back(), Server::smelt) << "the first row of the proof";
  EXPECT_EQ(job.race(0).cell(bcast, 1024).holder(), Server::library);
  EXPECT_STREQ(ServerSelection::why(job.race(0).cell(bcast, 1024), 1024), "timed in a race with smelt");
  EXPECT_EQ(play(
                job, 1,
                [](int) {
                  return Took{100, 50};
                },
                bcast, 2048)[0],
            Server::smelt);
}

TEST(ServerSelection, TheFasterModeOfSmeltIsUsed) {
  for (const bool at_rest : {true, false}) {
    for (const std::uint64_t library : {50U, 500U}) {
      Job job(3);
      const auto times = [&](int) { return at_rest ? Took{200, library, 100} : Took{100, library, 200}; };
      const auto served = play(job, 120, times, bcast, 1 << 20);
      const Server ours = at_rest ? Server::smelt_at_rest : Server::smelt;
      EXPECT_EQ(served.back(), library == 50 ? Server::library : ours);
      EXPECT_EQ(served[first / 4 - 2], Server::smelt) << "before the first contest";
      EXPECT_TRUE(at_rest || by(Server::smelt_at_rest, served) == 3) << "a glance";
    }
  }
}

TEST(ServerSelection, ShortMessagesHaveOneMode) {
  Job job(2);
  const auto served = play(
      job, 500,
      [](int) {
        return Took{100, 90, 10};
      },
      bcast, ServerSelection::least_of_two_ways - 1);
  EXPECT_EQ(by(Server::smelt_at_rest, served), 0U);
}

TEST(ServerSelection, AFasterModeIsFoundWhileTheLibraryServes) {
  Job job(2);
  const auto served = play(
      job, 6000,
      [](int number) {
        return number < 100 ? Took{200, 100, 300} : Took{200, 100, 50};
      },
      bcast, 1 << 16);
  EXPECT_EQ(served[150], Server::library);
  EXPECT_EQ(served.back(), Server::smelt_at_rest);
}

TEST(ServerSelection, OneBadStageDoesNotDecide) {
  Job job(2);
  // Somebody is interrupted in the library's calls 20 to 23.
  const auto served = play(job, 120, [](int number) { return Took{100, number >= 20 && number < 24 ? 1000U : 80U}; });
  EXPECT_EQ(job.race(0).cell(bcast, 1024).holder(), Server::library);
}

/// Whoever is interrupted in every fourth call, and for how long, the other calls decide.
TEST(ServerSelection, SlowCallsNowAndThenDoNotDecide) {
  for (const std::uint64_t library : {70, 130}) {
    for (const bool in_library : {true, false}) {
      Job job(2);
      play(job, 100, [&](int number) {
        const std::uint64_t pause = number % 4 == 0 ? 100000 : 0;
        return in_library ? Took{100, library + pause} : Took{100 + pause, library};
      });
      EXPECT_EQ(job.race(0).cell(bcast, 1024).holder(), library < 100 ? Server::library : Server::smelt);
    }
  }
}

/// A rank that is fast because the others wait for it does not decide.
TEST(ServerSelection, TheTimeOfACallIsThatOfAllRanks) {
  Job job(2);
  for (int number = 0; number < 100; ++number) {
    call(job, 0, job.race(0).cell(bcast, 8), {100, 10});
    call(job, 1, job.race(1).cell(bcast, 8), {100, 200});
  }
  EXPECT_EQ(job.race(0).cell(bcast, 8).holder(), Server::smelt);
}

TEST(ServerSelection, IsAskedAgainAfterManyCalls) {
  Job job(2);
  const auto served = play(job, 40 * static_cast<int>(first) + 4 * static_cast<int>(proof), [](int number) {
    return number < 350 ? Took{100, 50} : Took{50, 100};
  });
  EXPECT_EQ(served[340], Server::library);
  EXPECT_EQ(served.back(), Server::smelt);
}

TEST(ServerSelection, CellsAreIndependent) {
  Job job(2);
  const auto faster = [](int) { return Took{100, 50}; };
  play(job, 100 + 2 * static_cast<int>(proof), faster, bcast, 4096);
  EXPECT_EQ(job.race(0).cell(bcast, 4097).holder(), Server::library);
  EXPECT_EQ(job.race(0).cell(bcast, 8191).holder(), Server::library);
  EXPECT_EQ(job.race(0).cell(bcast, 4095).holder(), Server::smelt);
  EXPECT_EQ(job.race(0).cell(bcast, 8192).holder(), Server::smelt);
  EXPECT_EQ(job.race(0).cell(barrier, 0).holder(), Server::smelt);
  EXPECT_EQ(&job.race(0).cell(bcast, std::size_t{1} << 40), &job.race(0).cell(bcast, std::size_t{1} << 50));
}

TEST(ServerSelection, ACellBeginsWithTheHolderOfTheNextSmallerOne) {
  Job job(3);
  play(
      job, 100 + 2 * static_cast<int>(proof),
      [](int) {
        return Took{100, 50};
      },
      bcast, 4096);
  const auto next = play(
      job, 100,
      [](int) {
        return Took{100, 95, 300};
      },
      bcast, 8192);
  EXPECT_EQ(next[0], Server::library);
  EXPECT_EQ(by(Server::smelt_at_rest, next), 3U) << "a glance";
  EXPECT_EQ(by(Server::smelt, next), 3U + 2 * 5U) << "a glance and two stages";
  EXPECT_EQ(play(
                job, 100,
                [](int) {
                  return Took{100, 200};
                },
                bcast, 16384)
                .back(),
            Server::smelt);
  EXPECT_EQ(play(
                job, 1,
                [](int) {
                  return Took{100, 200};
                },
                bcast, 1 << 20)[0],
            Server::smelt)
      << "no neighbour";
  EXPECT_EQ(play(
                job, 1,
                [](int) {
                  return Took{100, 200};
                },
                barrier, 16384)[0],
            Server::smelt);
}

TEST(ServerSelection, AHolderIsTakenOverAcrossUnusedSizesUpToThreePowersOfTwoAway) {
  const auto library_is_faster = [](int) { return Took{100, 50}; };
  for (const int apart : {1, 2, 3, 4}) {
    Job job(2);
    EXPECT_EQ(play(job, 100 + 2 * static_cast<int>(proof), library_is_faster, bcast, 4096).back(), Server::library);
    EXPECT_EQ(play(job, 1, library_is_faster, bcast, std::size_t{4096} << apart)[0],
              apart <= 3 ? Server::library : Server::smelt)
        << apart;
  }
}

TEST(ServerSelection, LargeCellsAreDecidedSooner) {
  for (const std::size_t bytes : {ServerSelection::least_large - 1, ServerSelection::least_large}) {
    Job job(2);
    const auto served = play(
        job, 30,
        [](int) {
          return Took{100, 50, 300};
        },
        bcast, bytes);
    EXPECT_EQ(by(Server::smelt_at_rest, served), 3U) << "a glance";
    const auto first_of = [&](Server server) {
      return std::find(served.begin(), served.end(), server) - served.begin();
    };
    const bool large = bytes == ServerSelection::least_large;
    EXPECT_EQ(first_of(Server::smelt_at_rest), large ? 3 : 4);
    EXPECT_EQ(first_of(Server::library), large ? 10 : 12);
    EXPECT_EQ(served.back() == Server::library, bytes == ServerSelection::least_large);
    EXPECT_EQ(by(Server::smelt, served), large ? 10U : 19U);
  }
}

TEST(ServerSelection, APassedCallCanBeUncounted) {
  Job job(1);
  SelectionCell& cell = job.race(0).cell(bcast, 8);
  cell.come_to();  // the first call of a cell is never passed
  for (std::uint64_t i = 0; i < 10 * first; ++i) {
    ASSERT_TRUE(cell.passes());
    cell.take_back();
  }
}

TEST(ServerSelection, ReportsWhyTheLibraryServes) {
  Job job(1);
  EXPECT_STREQ(ServerSelection::why(job.race(0).cell(bcast, 8), 8), "timed in a race with smelt");
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{65537}, std::size_t{1} << 40}) {
    play(
        job, 100 + 2 * static_cast<int>(proof),
        [](int) {
          return Took{100, 50};
        },
        bcast, bytes);
  }
  const auto why = [&](std::size_t bytes) {
    return std::string(ServerSelection::why(job.race(0).cell(bcast, bytes), bytes));
  };
  EXPECT_EQ(why(0), "the library is faster here");
  EXPECT_EQ(why(100000), "the library is faster here from 64 KiB on, below 128 KiB");
  EXPECT_EQ(why(std::size_t{1} << 40), "the library is faster here from 4 GiB on");
}

/// Ranks that may be far ahead of each other, as the roots of broadcasts are. The times decide which rank is ahead.
/// Each part of the calls has two sizes; the smaller one is the larger one of the part before.
void stress(int ranks, int calls, unsigned seed, int most_ahead, int parts = 1) {
  Job job(ranks);
  std::vector<std::vector<Server>> served(static_cast<std::size_t>(ranks));
  std::vector<std::atomic<int>> at(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::mt19937 random(seed + static_cast<unsigned>(rank));
      std::mt19937 size(seed);  // the same on all ranks
      auto& own = served[static_cast<std::size_t>(rank)];
      for (int number = 0; number < calls; ++number) {
        // The others are no further behind than that.
        for (const auto& each : at) {
          while (each.load(std::memory_order_relaxed) < number - most_ahead) std::this_thread::yield();
        }
        const int part = parts * number / calls;
        SelectionCell& cell = job.race(rank).cell(bcast, (std::size_t{4096} << part) << size() % 2);
        own.push_back(call(job, rank, cell, {90 + random() % 20, 70 + random() % 40, 80 + random() % 40}));
        at[static_cast<std::size_t>(rank)].store(number + 1, std::memory_order_relaxed);
        if (random() % 16 == 0) std::this_thread::yield();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::size_t library = by_library(served[0]);
  EXPECT_GT(library, 0U);
  for (int rank = 1; rank < ranks; ++rank)
    EXPECT_EQ(served[static_cast<std::size_t>(rank)], served[0]) << "seed " << seed;
}

TEST(ServerSelection, RanksNeverDisagree) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    stress(2, 3000, seed, 1 << 20);
    stress(3, 3000, seed, 1);
    stress(5, 1500, seed, 7);
    stress(2, 3000, seed, 1 << 20, 8);
    stress(3, 3000, seed, 10, 8);
  }
}

// An exception ended it on one rank.
TEST(ServerSelection, ACallThatIsNotReportedHoldsNothingUp) {
  for (int lost = 1; lost < 400; ++lost) {
    Job job(2);
    for (int number = 1; number <= 400; ++number) {
      Server served[2];
      for (int rank = 0; rank < 2; ++rank) {
        SelectionCell& cell = job.race(rank).cell(barrier, 0);
        if (rank == 1 && number == lost) {
          served[rank] = cell.passes() ? Server::smelt : cell.come_to();
        } else {
          served[rank] = call(job, rank, cell, Took{100, 50});
        }
      }
      ASSERT_EQ(served[0], served[1]) << "call " << number << ", not reported: call " << lost;
    }
    EXPECT_EQ(job.race(0).cell(barrier, 0).holder(), Server::library) << lost;
  }
}

TEST(SwitchPoint, NamesTheFirstCallThatNoRankHasReached) {
  SwitchPoint switch_point;
  const auto never = [] { return false; };
  const auto now = [] { return true; };
  EXPECT_FALSE(switch_point.has_come(5, never));
  EXPECT_FALSE(switch_point.has_come(9, never));
  EXPECT_FALSE(switch_point.has_come(6, now));  // names 10
  EXPECT_FALSE(switch_point.has_come(9, never));
  EXPECT_TRUE(switch_point.has_come(10, never));
  EXPECT_TRUE(switch_point.has_come(11, never));
  // Used again for calls from 20 on.
  EXPECT_FALSE(switch_point.has_come(20, never, 20));
  EXPECT_TRUE(switch_point.has_come(21, now, 20));
  EXPECT_FALSE(switch_point.has_come(20, now, 20));
}

}  // namespace
}  // namespace smelt::shims::mpi
