// Histories of a map: each client's calls, their times and answers. For tests.
//
//   client 0   |---- put k 1 ----|        |- get k: 1 -|
//   client 1        |- get k: ? --------------------------- ...     no answer: may take effect at any later time, or never
//   ticks      ──────────────────────────────────────────►
//
// A history is linearizable if there is a moment between the stamps of each operation such that the answers are those
// of a sequential execution in the order of these moments. The stamps must therefore enclose the operation: it reads
// only after `begin`, and its writes are visible to all before `end`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace smelt::state {

/// One operation. Plain data, which may lie in shared memory and outlive its client.
struct Event {
  enum class Kind : std::uint8_t { get, put, erase, insert, compare_exchange, fetch_add };

  /// As `result` of a compare_exchange: there was no such key.
  static constexpr std::uint64_t absent = ~std::uint64_t{0};

  std::uint64_t begin = 0;  ///< ticks; 0: not used
  std::uint64_t end = 0;    ///< ticks; 0: no answer
  std::uint64_t key = 0;
  std::uint64_t argument = 0;  ///< put, insert: the value; compare_exchange: the new value; fetch_add: the summand
  std::uint64_t expected = 0;  ///< compare_exchange
  std::uint64_t result = 0;    ///< get: the value; fetch_add: the former value or 0; compare_exchange: the former value
  std::int32_t client = 0;
  Kind kind = Kind::get;
  bool done = false;  ///< get, erase: the key existed; insert: it did not; compare_exchange: exchanged; otherwise true
};

/// Records the operations of one client; used only by its thread. The caller owns the events, which must be zero
/// initially, so that nothing is lost when a client dies. Cost per end: a fence and a reading of the clock; no
/// allocation.
class ClientHistory {
 public:
  ClientHistory(int client, std::span<Event> events) noexcept : client_(client), events_(events) {}

  bool full() const noexcept { return used_ == events_.size(); }
  std::span<const Event> events() const noexcept { return events_.first(used_); }

  /// Must be called right before the operation. Requires !full().
  void begin(Event::Kind kind, std::uint64_t key, std::uint64_t argument = 0, std::uint64_t expected = 0) noexcept {
    Event& event = events_[used_++];
    event.client = client_;
    event.kind = kind;
    event.key = key;
    event.argument = argument;
    event.expected = expected;
    // Publishes the event to readers of a dead client's history; pairs with load_event().
    std::atomic_ref(event.begin).store(ticks(), std::memory_order_release);
    wait_for_clock();
  }

  /// Must be called right after the operation, unless its outcome is unknown.
  void end(bool done, std::uint64_t result = 0) noexcept {
    Event& event = events_[used_ - 1];
    event.done = done;
    event.result = result;
    publish_stores();
    std::atomic_ref(event.end).store(ticks(), std::memory_order_release);
  }

 private:
  /// Later operations of this thread are not executed before the clock has been read.
  static void wait_for_clock() noexcept {
#if defined(__x86_64__)
    _mm_lfence();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }

  /// Earlier writes of this thread are visible to all threads.
  static void publish_stores() noexcept {
#if defined(__x86_64__)
    _mm_mfence();
#elif defined(__aarch64__)
    asm volatile("dmb ish" ::: "memory");
#endif
  }

  int client_;
  std::span<Event> events_;
  std::size_t used_ = 0;
};

/// A copy of an event of another process, which may be dead; empty if the event has not begun.
inline bool load_event(const Event& event, Event* copy) noexcept {
  auto& shared = const_cast<Event&>(event);
  if (std::atomic_ref(shared.begin).load(std::memory_order_acquire) == 0) return false;
  const std::uint64_t end = std::atomic_ref(shared.end).load(std::memory_order_acquire);
  *copy = event;
  copy->end = end;
  return true;
}

}  // namespace smelt::state
