// Flat barrier: one shared counter, and one generation word that all ranks wait on.
//
// With more ranks than PUs the ranks run one after another, and a tree would only add context switches. Here each rank
// runs once per round: it increments the counter and yields its PU. The last one advances the generation and wakes all
// sleepers with one call.
//
//   line 0: arrived      counts ranks in this round, written by every rank
//   line 1: generation   read by waiters, written once a round by the last rank in
//   line 2: sleepers     ranks that may be asleep in the kernel on `generation`
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"
#include "base/wait.hpp"

namespace smelt::comm {

class FlatBarrier {
 public:
  /// Returns true once all `ranks` ranks have entered, false if the waiter was interrupted. Zeroed memory is a valid
  /// initial state.
  bool enter(std::uint32_t ranks, Waiter& waiter) noexcept;

 private:
  alignas(separation_bytes) std::atomic<std::uint32_t> arrived_{0};
  alignas(separation_bytes) std::atomic<std::uint32_t> generation_{0};
  alignas(separation_bytes) Parking parking_;
};

}  // namespace smelt::comm
