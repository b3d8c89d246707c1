// What a rank does around an operation, and in which order, with a kernel that writes it down.
#include "harness/timing.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace smelt::bench {
namespace {

struct NotingKernel {
  void prepare(std::uint64_t, Effort) { note('p'); }
  void operate(std::uint64_t) { note('o'); }
  std::uint64_t read() const { return note('r'); }
  bool starts() const { return true; }
  void settle() { note('s'); }
  bool check(std::uint64_t) const { return note('c') != 0; }
  bool check_fully(std::uint64_t) const { return note('C') != 0; }
  std::uint64_t note(char what) const {
    notes += what;
    return 1;
  }
  std::string& notes;
};

std::string notes_of(Phase::Kind kind, const std::string& method, std::uint32_t warm_up = 0) {
  WorkerSpec spec;
  spec.operation = "broadcast";
  spec.threads = 1;
  spec.method = method;
  spec.pus = {0};
  auto control = *Control::create(1);
  std::string notes;
  NotingKernel kernel{notes};
  Runner<NotingKernel> runner(Member{spec, control, 0}, kernel);
  Phase phase{};
  phase.kind = kind;
  phase.samples = 2;
  phase.per_sample = 1;
  phase.warm_up = warm_up;
  EXPECT_TRUE(runner.execute(phase));
  return notes;
}

TEST(Timing, AnOperationEndsWhenItsResultHasBeenRead) {
  EXPECT_EQ(notes_of(Phase::Kind::loop, "back-to-back"), "porcporcporc");  // the first warms up
  EXPECT_EQ(notes_of(Phase::Kind::loop, "window"), "porcsporcsporcs");
  EXPECT_EQ(notes_of(Phase::Kind::empty_loop, "back-to-back"), "prcprc");
  EXPECT_EQ(notes_of(Phase::Kind::window, "window"), "porrcporrc");  // the second reading is taken off
  EXPECT_EQ(notes_of(Phase::Kind::empty_window, "window"), "");
  EXPECT_EQ(notes_of(Phase::Kind::verify, "window"), "poCpoC");
}

TEST(Timing, WindowsBeginWithWarmBuffers) {
  EXPECT_EQ(notes_of(Phase::Kind::window, "window", 2),
            "porcsporcs"
            "porrcporrc");
  EXPECT_EQ(notes_of(Phase::Kind::empty_window, "window", 2), "");
}

/// The phases of a worker whose first call takes 50 ms and each further one a microsecond.
std::vector<Phase> phases_of_a_slow_start(const std::string& requests) {
  WorkerSpec spec;
  spec.operation = "broadcast";
  spec.threads = 1;
  spec.method = "window";
  spec.pus = {0};
  auto control = *Control::create(1);
  std::vector<Phase> phases;
  double first_ns = 50e6;
  std::istringstream input(requests);
  auto* const terminal = std::cin.rdbuf(input.rdbuf());
  testing::internal::CaptureStdout();
  coordinate(Member{spec, control, 0}, {}, [&](const Phase& phase) {
    phases.push_back(phase);
    std::uint64_t* const stamps = control.stamps(0);
    const bool loop = phase.kind == Phase::Kind::loop;
    stamps[0] = 1;
    for (std::uint32_t s = loop ? 1 : 0; s <= phase.samples; ++s) {
      const double span_ns = 1000.0 * phase.per_sample + (loop ? std::exchange(first_ns, 0) : 0);
      stamps[s] = (loop ? stamps[s - 1] : 0) + static_cast<std::uint64_t>(span_ns * ticks_per_ns());
    }
    return true;
  });
  testing::internal::GetCapturedStdout();
  std::cin.rdbuf(terminal);
  return phases;
}

TEST(Timing, TheTimeOfOneCallIsNotThatOfTheFirstOne) {
  const auto phases = phases_of_a_slow_start("round 10000\nquit\n");
  ASSERT_FALSE(phases.empty());
  EXPECT_EQ(phases.back().kind, Phase::Kind::window);
  // 10 ms: with the 50 ms of the first call there would be the two windows that there are in any case.
  EXPECT_EQ(phases.back().samples, Control::max_samples);
}

/// Puts nothing anywhere.
struct IdleOps {
  void barrier() {}
  void broadcast(void*, std::size_t) {}
  void gather(const void*, void*, std::size_t) {}
  void reduce(const double*, double*, std::size_t) {}
  void exscan(const double*, double*, std::size_t) {}
};

class Kernels : public testing::Test {
 protected:
  Kernels() {
    spec.threads = 2;
    spec.bytes = 1000;
  }
  Member member(int rank) { return {spec, control, rank}; }
  WorkerSpec spec;
  Control control = *Control::create(2);
  IdleOps ops;
};

TEST_F(Kernels, ReadEachLineOfTheResult) {
  BroadcastKernel<IdleOps> receiver(member(1), ops);
  receiver.message.fill(1);
  std::uint64_t sum = 0, word = 0;
  for (std::size_t line = 0; line < 1000; line += line_bytes) {
    std::memcpy(&word, receiver.message.data() + line, sizeof word);
    sum += word;
  }
  EXPECT_EQ(receiver.read(), sum);
  receiver.message.data()[8 * line_bytes] ^= std::byte{1};
  EXPECT_NE(receiver.read(), sum);
  MoveKernel<IdleOps, Move::gather> root(member(0), ops);
  root.out.fill(1, 1);  // the block of rank 1
  EXPECT_NE(root.read(), 0u);
}

TEST_F(Kernels, ReadNothingWithoutAResult) {
  BroadcastKernel<IdleOps> root(member(0), ops);
  root.message.fill(1);
  EXPECT_EQ(root.read(), 0u);
  MoveKernel<IdleOps, Move::gather> leaf(member(1), ops);
  EXPECT_EQ(leaf.read(), 0u);
  SumKernel<IdleOps, Sum::reduce> summand(member(1), ops);
  SumKernel<IdleOps, Sum::exscan> first(member(0), ops);
  summand.out[0] = first.out[0] = 1.0;
  EXPECT_EQ(summand.read(), 0u);
  EXPECT_EQ(first.read(), 0u);
}

}  // namespace
}  // namespace smelt::bench
