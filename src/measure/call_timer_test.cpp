// Uses real communicators on the machine that the tests run on. Checks plausibility, not timings.
#include "measure/call_timer.hpp"

#include <gtest/gtest.h>

#include "machine/topology/affinity.hpp"
#include "measure/timing_thread.hpp"

namespace smelt::measure {
namespace {

/// A machine of the PUs that this process may use, with arbitrary costs.
Machine usable() {
  Machine machine = *discover_machine();
  const auto allowed = this_thread_affinity();
  std::erase_if(machine.pus, [&](const Pu& pu) {
    return std::find(allowed->begin(), allowed->end(), pu.os_index) == allowed->end();
  });
  const auto n = machine.size();
  machine.send_ns = machine.recv_ns = Matrix(n, 10.0);
  machine.exchange_ns = Matrix(n, 15.0);
  return machine;
}

TEST(CallTimer, TimesCallsAndRestoresTheAffinity) {
  const auto before = this_thread_affinity();
  const Machine machine = usable();
  const auto calls = time_calls(machine, true, monotonic_s() + 30.0);
  ASSERT_EQ(calls.has_value(), machine.size() > 1);
  EXPECT_GE(calls.value_or(CallCosts{}).call_ns, 0.0);
  EXPECT_GE(calls.value_or(CallCosts{}).barrier_ns, 0.0);
  EXPECT_EQ(*this_thread_affinity(), *before);
}

TEST(CallTimer, ReturnsNothingWithoutTimePeersOrExchanges) {
  Machine machine = usable();
  EXPECT_FALSE(time_calls(machine, true, monotonic_s() - 1.0));
  machine.exchange_ns.reset();
  EXPECT_FALSE(time_calls(machine, true, monotonic_s() + 30.0));
  machine = usable();
  machine.pus.resize(1);
  machine.send_ns = machine.recv_ns = Matrix(1);
  machine.exchange_ns = Matrix(1);
  EXPECT_FALSE(time_calls(machine, true, monotonic_s() + 30.0));
}

}  // namespace
}  // namespace smelt::measure
