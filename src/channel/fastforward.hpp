// FastForward ([Smelt16] 4.1): a ring of cache-line slots that are empty or full. Sender and receiver poll the slots
// only, so that head and tail are never shared.
//
//   +0    parking of the sender
//   +128  parking of the receiver
//   +256  line 0 | line 1 | ... | line capacity-1      header 0: empty, else full
#pragma once

#include <cstddef>
#include <cstdint>

#include "channel/endpoint.hpp"
#include "channel/ordering.hpp"

namespace smelt::channel {

/// Bytes that a channel of `capacity` (a power of two, at most 2^20) messages occupies. The memory
/// is aligned to separation_bytes and zeroed.
constexpr std::size_t fastforward_bytes(std::uint32_t capacity) {
  const std::size_t bytes = sizeof(ParkingPair) + capacity * sizeof(Line);
  return (bytes + separation_bytes - 1) / separation_bytes * separation_bytes;
}

class FastForwardSide {
 public:
  FastForwardSide() = default;
  FastForwardSide(std::byte* memory, std::uint32_t capacity) noexcept
      : parking_(reinterpret_cast<ParkingPair*>(memory)),
        lines_(reinterpret_cast<Line*>(memory + sizeof(ParkingPair))),
        mask_(capacity - 1) {
    enable_heavy_barrier();
  }

 protected:
  /// The `count`-th of the next slots.
  Line& line(std::uint32_t count = 1) const noexcept { return lines_[(next_ + count - 1) & mask_]; }

  ParkingPair* parking_ = nullptr;
  Line* lines_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t next_ = 0;
};

class FastForwardSenderSide : public FastForwardSide {
 public:
  using FastForwardSide::FastForwardSide;

  /// Whether the next `count` slots are empty: they are if the last of them is.
  bool can_send(std::uint32_t count) noexcept {
    if (count > mask_ + 1) return false;
    // Pairs with the store in FastForwardReceiverSide::release(): the receiver has read the payload.
    return line(count).header.load(ordering::ff_reuse) == 0;
  }

  Line& slot() noexcept { return line(); }

  /// Prefetches the next lines, which are empty, for writing.
  void prefetch(std::uint32_t count) const noexcept {
    for (std::uint32_t i = 0; i < count; ++i) prefetch_to_write(&lines_[(next_ + i) & mask_]);
  }

  void publish(std::uint32_t tag, std::size_t size) noexcept {
    // Pairs with the load in FastForwardReceiverSide::can_recv(). Publishes the payload.
    line().header.store(Header::make(1, tag, size).word, ordering::ff_publish);
    ++next_;
  }

  Parking& own_parking() noexcept { return parking_->sender; }
  Parking& peer_parking() noexcept { return parking_->receiver; }
};

class FastForwardReceiverSide : public FastForwardSide {
 public:
  using FastForwardSide::FastForwardSide;

  bool can_recv(std::uint32_t count = 1) const noexcept {
    // Pairs with the store in FastForwardSenderSide::publish(). Acquires the payload, and everything sent before it.
    return line(count).header.load(ordering::ff_receive) != 0;
  }

  const Line& slot() const noexcept { return line(); }
  std::uint32_t capacity() const noexcept { return mask_ + 1; }
  static constexpr bool block_in_progress() noexcept { return false; }

  void release() noexcept {
    // Pairs with the load in FastForwardSenderSide::can_send(). The payload has been read.
    line().header.store(0, ordering::ff_empty);
    ++next_;
    unpark(parking_->sender);
  }

  void idle() noexcept {}

  Parking& own_parking() noexcept { return parking_->receiver; }
  Parking& peer_parking() noexcept { return parking_->sender; }
  const void* watch() const noexcept { return &line().header; }
};

/// Endpoints of a FastForward channel: (memory, capacity).
using FastForwardSender = BasicSender<FastForwardSenderSide>;
using FastForwardReceiver = BasicReceiver<FastForwardReceiverSide>;

}  // namespace smelt::channel
