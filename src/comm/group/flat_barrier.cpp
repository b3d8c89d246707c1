#include "comm/group/flat_barrier.hpp"

#include "comm/ordering.hpp"

namespace smelt::comm {

bool FlatBarrier::enter(std::uint32_t ranks, Waiter& waiter) noexcept {
  const auto generation = generation_.load(std::memory_order_relaxed);
  // The release half publishes what this rank did before; the acquire half of the last rank's
  // increment takes up all of it (the increments form one release sequence).
  if (arrived_.fetch_add(1, ordering::flat_arrive) + 1 == ranks) {
    // No rank accesses arrived_ again before it sees the new generation.
    arrived_.store(0, std::memory_order_relaxed);
    // Pairs with the acquire below: publishes everything that every rank did before entering.
    generation_.store(generation + 1, ordering::flat_open);
    unpark(parking_);
    return true;
  }
  return waiter.wait([&] { return generation_.load(ordering::flat_pass) != generation; }, &parking_);
}

}  // namespace smelt::comm
