// The flat barrier and counted barriers: FLAT_* and COUNTED_* in comm/ordering.hpp.
#include <vector>

#include "comm/fork_join/counted_barrier.hpp"
#include "comm/group/flat_barrier.hpp"
#include "stress.hpp"

namespace {

using namespace smelt;
using namespace smelt::stress;

std::uint64_t stress_barrier() {
  comm::FlatBarrier barrier;
  return take_turns([&](Waiter& waiter, int) { barrier.enter(2, waiter); });
}

std::uint64_t stress_counted_barrier() {
  comm::CountedBarrier barrier(2);
  return take_turns([&](Waiter& waiter, int) { barrier.pass(barrier.arrive(), waiter); });
}

std::uint64_t stress_counted_barrier_at_once() {
  comm::CountedBarrier barrier(2);
  return take_turns([&](Waiter& waiter, int) {
    if (!barrier.complete()) barrier.pass(barrier.arrive(), waiter);
  });
}

/// The last thread through a barrier and the other thread free it in turn, while the remaining thread is still leaving.
std::uint64_t stress_counted_barrier_end() {
  std::vector<std::unique_ptr<comm::CountedBarrier>> barriers(messages);
  for (auto& barrier : barriers) barrier = std::make_unique<comm::CountedBarrier>(2);
  std::uint64_t wrong = 0;
  const auto play = [&](std::uint64_t* refused) {
    Waiter waiter;
    bool last_frees = false;
    for (auto& barrier : barriers) {
      const auto ticket = barrier->arrive();
      barrier->pass(ticket, waiter);
      last_frees = !last_frees;
      if (ticket.last != last_frees) continue;
      *refused += !barrier->drain(waiter);
      barrier.reset();
    }
  };
  std::uint64_t others = 0;
  std::thread other(play, &others);
  play(&wrong);
  other.join();
  return wrong + others;
}

}  // namespace

int main() {
  return verdict(repeated([] {
    return stress_barrier() + stress_counted_barrier() + stress_counted_barrier_at_once() +
           stress_counted_barrier_end();
  }));
}
