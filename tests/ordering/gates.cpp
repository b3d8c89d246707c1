// The flat barrier and gates: FLAT_* and GATE_* in comm/ordering.hpp.
#include <vector>

#include "comm/flat_barrier.hpp"
#include "comm/gate.hpp"
#include "stress.hpp"

namespace {

using namespace smelt;
using namespace smelt::stress;

std::uint64_t stress_barrier() {
  comm::FlatBarrier barrier;
  return take_turns([&](Waiter& waiter, int) { barrier.enter(2, waiter); });
}

std::uint64_t stress_gate() {
  comm::Gate gate(2);
  return take_turns([&](Waiter& waiter, int) { gate.pass(gate.arrive(), waiter); });
}

std::uint64_t stress_gate_at_once() {
  comm::Gate gate(2);
  return take_turns([&](Waiter& waiter, int) {
    if (!gate.complete()) gate.pass(gate.arrive(), waiter);
  });
}

/// By turns the last one through a gate and the other one free it, while who is left is still on the way out.
std::uint64_t stress_gate_end() {
  std::vector<std::unique_ptr<comm::Gate>> gates(messages);
  for (auto& gate : gates) gate = std::make_unique<comm::Gate>(2);
  std::uint64_t wrong = 0;
  const auto play = [&](std::uint64_t* refused) {
    Waiter waiter;
    bool last_frees = false;
    for (auto& gate : gates) {
      const auto ticket = gate->arrive();
      gate->pass(ticket, waiter);
      last_frees = !last_frees;
      if (ticket.last != last_frees) continue;
      *refused += !gate->drain(waiter);
      gate.reset();
    }
  };
  std::uint64_t others = 0;
  std::thread other(play, &others);
  play(&wrong);
  other.join();
  return wrong + others;
}

}  // namespace

int main() { return verdict(stress_barrier() + stress_gate() + stress_gate_at_once() + stress_gate_end()); }
