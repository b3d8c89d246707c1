// Sending and receiving, on top of a transport's two sides (ump.hpp, fastforward.hpp).
//
// A sender side has:   bool can_send(count) noexcept;  Line& slot() noexcept;
//                      void publish(tag, size) noexcept;     makes slot() visible and moves on
//                      void prefetch(count) const noexcept;  fetches the next lines, which there is room for
// A receiver side has: bool can_recv(count = 1) const noexcept;  whether the next `count` messages are there
//                      const Line& slot() const noexcept;
//                      uint32 capacity() const;
//                      bool block_in_progress() const;       slot() begins some lines that are not full yet
//                      void release() noexcept;              gives slot() back and moves on
//                      void idle() noexcept;                 called before the receiver waits
// Both have:           Parking& own_parking(), Parking& peer_parking(), const void* watch()
//
// Ordering: what the sender did before a send is visible to the receiver after the matching
// receive. One thread per endpoint at a time.
#pragma once

#include <algorithm>

#include "base/wait.hpp"
#include "channel/line.hpp"
#include "channel/temporal_slipping.hpp"

namespace smelt::channel {

/// Lines that a message of `bytes` fills.
constexpr std::uint32_t lines_of(std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + line_payload - 1) / line_payload);
}

/// The parkings of the two ends of a channel.
struct ParkingPair {
  Parking sender;
  Parking receiver;
};

template <class Side>
class BasicSender : private Side {
 public:
  using Side::Side;

  /// Whether `count` lines could be sent now without waiting.
  bool can_send(std::uint32_t count = 1) noexcept { return Side::can_send(count); }

  /// Sends `size` <= line_payload bytes, with `tag` <= max_tag, if there is room.
  bool try_send(const void* data, std::size_t size, std::uint32_t tag = 0) noexcept {
    if (!Side::can_send(1)) return false;
    put(data, size, tag);
    return true;
  }

  /// The same, waiting for room. False: interrupted, nothing was sent.
  bool send(const void* data, std::size_t size, Waiter& waiter, std::uint32_t tag = 0) noexcept {
    if (!wait_for_room(waiter)) return false;
    put(data, size, tag);
    return true;
  }

  /// Announces that `bytes` are about to be sent in consecutive messages. Prefetches the lines of the first
  /// `most_expected` messages if there is room. Otherwise stores would fetch them one by one, and the receiver's
  /// adjacent-line prefetcher would take the second line of a pair back before it is written.
  void expect(std::size_t bytes) noexcept {
    if (bytes <= line_payload) return;
    const auto lines = std::min<std::size_t>(most_expected, lines_of(bytes));
    if (Side::can_send(static_cast<std::uint32_t>(lines))) Side::prefetch(static_cast<std::uint32_t>(lines));
  }
  static constexpr std::size_t most_expected = 16;

  /// Begins to fetch the line of the next message. Before a row of messages to several receivers: a store buffer gets
  /// the lines of stores one after the other, each of which takes as long as a message.
  void fetch() const noexcept { Side::prefetch(1); }

  /// A message without payload.
  bool notify(Waiter& waiter) noexcept { return send(nullptr, 0, waiter); }

  /// Waits until can_send(). False: interrupted.
  bool wait_for_room(Waiter& waiter) noexcept {
    if (Side::can_send(1)) [[likely]]
      return true;
    return waiter.wait([this] { return Side::can_send(1); }, &Side::own_parking());
  }

  /// Zero-copy send: the payload to fill once can_send() holds, then commit().
  std::byte* payload() noexcept { return Side::slot().payload; }
  void commit(std::size_t size, std::uint32_t tag = 0) noexcept {
    Side::publish(tag, size);
    unpark(Side::peer_parking());
  }

 private:
  void put(const void* data, std::size_t size, std::uint32_t tag) noexcept {
    copy_payload(Side::slot().payload, static_cast<const std::byte*>(data), size);
    commit(size, tag);
  }
};

template <class Side>
class BasicReceiver : private Side {
 public:
  using Side::can_recv;
  using Side::Side;

  /// Copies the first `size` <= line_payload bytes of the next message's payload, if there is one.
  /// Bytes beyond what the sender gave are unspecified.
  bool try_recv(void* data, std::size_t size) noexcept {
    if (!poll()) return false;
    take(data, size);
    return true;
  }

  /// The same, but waits for a message, the first of `lines` that belong together. False: interrupted.
  bool recv(void* data, std::size_t size, Waiter& waiter, std::uint32_t lines = 1) noexcept {
    if (!wait_for_message(waiter, lines)) return false;
    take(data, size);
    return true;
  }

  /// The same for the continuation of a message, which is about to arrive: no temporal slipping.
  bool recv_rest(void* data, std::size_t size, Waiter& waiter) noexcept {
    if (!Side::can_recv()) [[unlikely]] {
      if (!wait_for_rest(waiter)) return false;
    }
    take(data, size);
    return true;
  }

  /// Waits until can_recv(). False: interrupted.
  bool wait_for_message(Waiter& waiter, std::uint32_t lines = 1) noexcept {
    if (!Side::can_recv()) [[unlikely]]
      return wait_long(waiter, lines);
    if (Side::block_in_progress()) [[unlikely]]
      slipping_.approach(gathered(lines));
    return true;
  }

  /// Zero-copy receive: the payload of the next message, nullptr if interrupted; stays valid and
  /// may be read until release().
  const std::byte* peek(Waiter& waiter) noexcept { return wait_for_message(waiter) ? Side::slot().payload : nullptr; }

  /// Whether a message is there. If not, acknowledges to the sender what has been received.
  bool poll() noexcept {
    if (Side::can_recv()) return true;
    Side::idle();
    return false;
  }

  /// Payload, size and tag of the next message; require can_recv().
  const std::byte* payload() const noexcept { return Side::slot().payload; }
  std::size_t size() const noexcept { return header().size(); }
  std::uint32_t tag() const noexcept { return header().tag(); }

  /// Fast path: receives the next message if it is there, is simple (tag 0, no temporal slipping) and fits `capacity`.
  /// `size`: its size.
  bool try_take(void* data, std::size_t capacity, std::size_t& size) noexcept {
    if (!Side::can_recv() || Side::block_in_progress()) return false;
    const Header next = header();
    if (next.tag() != 0 || next.size() > capacity) return false;
    size = next.size();
    take(data, size);
    return true;
  }

  /// Returns the slot of the next message to the sender.
  void release() noexcept { Side::release(); }

 private:
  // Relaxed: the acquire load in can_recv() has seen this value already.
  Header header() const noexcept { return {Side::slot().header.load(std::memory_order_relaxed)}; }

  /// Whether a batch of messages of `lines` is there.
  auto gathered(std::uint32_t lines) const noexcept {
    return [this, batch = TemporalSlipping::batch_of(lines)] {
      return batch <= Side::capacity() && Side::can_recv(batch);
    };
  }

  [[gnu::noinline]] bool wait_long(Waiter& waiter, std::uint32_t lines) noexcept {
    const auto ready = [this] { return Side::can_recv(); };
    Side::idle();
    if (slipping_.wait_shortly(ready, gathered(lines))) return true;
    return waiter.wait(ready, &Side::own_parking(), Side::watch());
  }

  [[gnu::noinline]] bool wait_for_rest(Waiter& waiter) noexcept {
    Side::idle();
    return waiter.wait([this] { return Side::can_recv(); }, &Side::own_parking(), Side::watch());
  }

  void take(void* data, std::size_t size) noexcept {
    copy_payload(static_cast<std::byte*>(data), Side::slot().payload, size);
    Side::release();
  }

  TemporalSlipping slipping_;
};

}  // namespace smelt::channel
