// Histories of a map: what each client asked and when, and what it was told. For tests.
//
//   client 0   |---- put k 1 ----|        |- get k: 1 -|
//   client 1        |- get k: ? --------------------------- ...     no answer: it may take effect at any time, or never
//   ticks      ──────────────────────────────────────────►
//
// A history is linearizable if each operation can be given a moment between its stamps such that the answers are those
// of operations one after the other. So the stamps must enclose the operation: all that it reads comes after `begin`,
// and all that it wrote is visible to everybody before `end`.
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
  std::uint64_t argument = 0;  ///< put, insert: the value; compare_exchange: the new one; fetch_add: what is added
  std::uint64_t expected = 0;  ///< compare_exchange
  std::uint64_t result =
      0;  ///< get: the value; fetch_add: the value before, 0 for none; compare_exchange: what was there
  std::int32_t client = 0;
  Kind kind = Kind::get;
  bool done =
      false;  ///< get, erase: there was such a key; insert: there was none; compare_exchange: exchanged; else true
};

/// Records what one client does; used by its thread alone. The events are the caller's, zero at first, so that a
/// client's death loses nothing. Cost: a fence and a look at the clock at each end; no allocation.
class ClientHistory {
 public:
  ClientHistory(int client, std::span<Event> events) noexcept : client_(client), events_(events) {}

  bool full() const noexcept { return used_ == events_.size(); }
  std::span<const Event> events() const noexcept { return events_.first(used_); }

  /// Call it right before the operation. Requires !full().
  void begin(Event::Kind kind, std::uint64_t key, std::uint64_t argument = 0, std::uint64_t expected = 0) noexcept {
    Event& event = events_[used_++];
    event.client = client_;
    event.kind = kind;
    event.key = key;
    event.argument = argument;
    event.expected = expected;
    // Whoever reads the history of a client that died knows an event by its stamp; pairs with load_event().
    std::atomic_ref(event.begin).store(ticks(), std::memory_order_release);
    wait_for_clock();
  }

  /// Call it right after. Not called at all where the outcome is not known.
  void end(bool done, std::uint64_t result = 0) noexcept {
    Event& event = events_[used_ - 1];
    event.done = done;
    event.result = result;
    publish_stores();
    std::atomic_ref(event.end).store(ticks(), std::memory_order_release);
  }

 private:
  /// Nothing after this is done before the clock has been read.
  static void wait_for_clock() noexcept {
#if defined(__x86_64__)
    _mm_lfence();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }

  /// Everybody sees what this thread has written.
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

/// Whether the event was begun, and if so a copy of it as it stands: another process's history, perhaps of a dead one.
inline bool load_event(const Event& event, Event* copy) noexcept {
  auto& shared = const_cast<Event&>(event);
  if (std::atomic_ref(shared.begin).load(std::memory_order_acquire) == 0) return false;
  const std::uint64_t end = std::atomic_ref(shared.end).load(std::memory_order_acquire);
  *copy = event;
  copy->end = end;
  return true;
}

}  // namespace smelt::state
