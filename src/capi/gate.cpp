// The C interface, gates. No handle and no communicator behind it: programs that use nothing else pay for
// nothing else.
#include "comm/fork_join/gate.hpp"

#include <sched.h>

#include <new>

#include "machine/topology/allowance.hpp"
#include "smelt/smelt.h"

namespace {

using smelt::Waiter;
using smelt::comm::Gate;

static_assert(sizeof(Gate) == sizeof(smelt_gate) && alignof(Gate) <= alignof(smelt_gate));

int allowed_pus() noexcept {
  cpu_set_t mask;
  // Masks of more than 1024 PUs do not fit: far more than threads at most gates.
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : CPU_SETSIZE;
}

// Asked when the library is loaded, before the program pins its threads: a thread's own mask says nothing about
// the others.
const int pus_at_start = allowed_pus();

/// How many threads of this process can run at a time, at most `pus_at_start`.
int parallelism() noexcept {
  static const int value = [] {
    double quota = 0.0;
    try {
      quota = smelt::read_cgroup_limits("/").cpu_quota;
    } catch (...) {  // no limit known
    }
    return quota > 0.0 && quota < pus_at_start ? static_cast<int>(quota) : pus_at_start;
  }();
  return value < 1 ? 1 : value;
}

/// The calling thread's, which learns over all gates whether there are PUs enough.
Waiter& waiter_for(const Gate& gate) noexcept {
  const auto make = [](int threads) {
    auto config = smelt::make_wait_config(threads, 1);
    config.longest_sleep_ns = smelt::no_timeout;  // who opens a gate wakes; nothing else is to be looked for
    return Waiter(config);
  };
  struct Waiters {
    Waiter alone, sharing;
  };
  thread_local Waiters own{make(1), make(2)};
  return gate.count() > static_cast<std::uint32_t>(parallelism()) ? own.sharing : own.alone;
}

Gate& gate_of(smelt_gate* gate) noexcept { return *std::launder(reinterpret_cast<Gate*>(gate)); }

}  // namespace

int smelt_gate_init(smelt_gate* gate, unsigned count) {
  if (gate == nullptr || count == 0 || count > Gate::most) return SMELT_INVALID_ARGUMENT;
  new (gate) Gate(count);
  return SMELT_OK;
}

int smelt_gate_init_private(smelt_gate* gate, unsigned count) {
  if (gate == nullptr || count == 0 || count > Gate::most) return SMELT_INVALID_ARGUMENT;
  new (gate) Gate(count, smelt::Among::threads);
  return SMELT_OK;
}

smelt_gate_ticket smelt_gate_arrive(smelt_gate* gate) {
  const auto ticket = gate_of(gate).arrive();
  return {ticket.round, ticket.last ? 1u : 0u};
}

int smelt_gate_pass(smelt_gate* gate, smelt_gate_ticket ticket) {
  Gate& own = gate_of(gate);
  if (!own.pass({ticket.round, ticket.last != 0}, waiter_for(own))) return SMELT_BROKEN;
  return ticket.last != 0 ? int{SMELT_GATE_LAST} : int{SMELT_OK};
}

void smelt_gate_leave(smelt_gate* gate) {
  Gate& own = gate_of(gate);
  own.leave(waiter_for(own));
}

int smelt_gate_wait(smelt_gate* gate) {
  if (gate_of(gate).complete()) return SMELT_GATE_LAST;
  return smelt_gate_pass(gate, smelt_gate_arrive(gate));
}

int smelt_gate_destroy(smelt_gate* gate) {
  Gate& own = gate_of(gate);
  return own.drain(waiter_for(own)) ? SMELT_OK : SMELT_INVALID_ARGUMENT;
}
