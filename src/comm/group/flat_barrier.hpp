// Flat barrier: one shared counter, one generation word that all wait on.
//
// With more ranks than PUs the ranks run one after the other anyway; a tree then only adds
// context switches. Here each rank is switched in once per round: it counts itself in and gives
// its PU away; the last one in opens the next generation and wakes all sleepers with one call.
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
  /// Returns true once all `ranks` ranks have entered, false if the waiter was interrupted. Zeroed memory is a
  /// barrier that nobody has entered yet.
  bool enter(std::uint32_t ranks, Waiter& waiter) noexcept;

 private:
  alignas(separation_bytes) std::atomic<std::uint32_t> arrived_{0};
  alignas(separation_bytes) std::atomic<std::uint32_t> generation_{0};
  alignas(separation_bytes) Parking parking_;
};

}  // namespace smelt::comm
