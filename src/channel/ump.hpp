// UMP ([Smelt16] 4.1, after URPC and Barrelfish's UMP): a ring of cache-line slots that only the sender writes, and a
// separate line in which the receiver acknowledges from time to time.
//
//   +0    acknowledged            written by the receiver, read by the sender when the ring looks full
//   +128  parking of the sender
//   +256  parking of the receiver
//   +384  line 0 | line 1 | ... | line capacity-1         written by the sender alone
//
// Message n (from 0) goes into line n mod capacity with the stamp 2n+1. The receiver recognizes a new message by its
// stamp, which differs from that of the line's former message and from zeroed memory, also after the counters have
// wrapped. Cursors are private to the endpoints.
#pragma once

#include <cstddef>
#include <cstdint>

#include "channel/endpoint.hpp"
#include "channel/ordering.hpp"

namespace smelt::channel {

struct UmpControl {
  alignas(separation_bytes) std::atomic<std::uint32_t> acknowledged;  ///< messages given back, mod 2^32
  ParkingPair parking;
};

/// Bytes that a channel of `capacity` (a power of two, at most 2^24) messages occupies. The memory
/// is aligned to separation_bytes and zeroed.
template <class Slot = Line>
constexpr std::size_t ump_bytes(std::uint32_t capacity) {
  const std::size_t bytes = sizeof(UmpControl) + capacity * sizeof(Slot);
  return (bytes + separation_bytes - 1) / separation_bytes * separation_bytes;
}

template <class Slot>
class UmpSide {
 public:
  UmpSide() = default;
  /// An end of the channel in `memory`. `first`: number of the next message, 0 in zeroed memory.
  UmpSide(std::byte* memory, std::uint32_t capacity, std::uint32_t first = 0) noexcept
      : control_(reinterpret_cast<UmpControl*>(memory)),
        slots_(reinterpret_cast<Slot*>(memory + sizeof(UmpControl))),
        mask_(capacity - 1),
        next_(first) {
    enable_heavy_barrier();
  }

 protected:
  Slot& slot() const noexcept { return slots_[next_ & mask_]; }
  std::uint32_t capacity() const noexcept { return mask_ + 1; }
  static constexpr std::uint32_t stamp(std::uint32_t message) noexcept { return 2 * message + 1; }

  UmpControl* control_ = nullptr;
  Slot* slots_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t next_ = 0;  ///< number of the next message to send or receive
};

template <class Slot>
class UmpSenderSide : public UmpSide<Slot> {
  using Base = UmpSide<Slot>;
  using Base::capacity, Base::control_, Base::mask_, Base::next_, Base::slots_, Base::stamp;

 public:
  using Base::slot;

  UmpSenderSide() = default;
  UmpSenderSide(std::byte* memory, std::uint32_t capacity, std::uint32_t first = 0) noexcept
      : Base(memory, capacity, first), acknowledged_(first) {}

  /// Whether the ring has room for `count` messages, as far as the receiver has acknowledged.
  bool can_send(std::uint32_t count) noexcept {
    if (next_ - acknowledged_ + count <= capacity()) [[likely]]
      return true;
    // Partner: the store in UmpReceiverSide::acknowledge(). The receiver has read the lines given back.
    acknowledged_ = control_->acknowledged.load(ordering::ump_reuse);
    return next_ - acknowledged_ + count <= capacity();
  }

  void publish(std::uint32_t tag, std::size_t size) noexcept {
    // Partner: the load in UmpReceiverSide::can_recv(). Publishes the line's payload.
    slot().header.store(Header::make(stamp(next_), tag, size).word, ordering::ump_publish);
    ++next_;
  }

  /// Begins to take the next lines from the receiver, which has them from the last time around; there is room.
  void prefetch(std::uint32_t count) const noexcept {
    for (std::uint32_t i = 0; i < count; ++i) prefetch_to_write(&slots_[(next_ + i) & mask_]);
  }

  Parking& own_parking() noexcept { return control_->parking.sender; }
  Parking& peer_parking() noexcept { return control_->parking.receiver; }

 private:
  std::uint32_t acknowledged_ = 0;  ///< last value seen
};

template <class Slot>
class UmpReceiverSide : public UmpSide<Slot> {
  using Base = UmpSide<Slot>;
  using Base::control_, Base::mask_, Base::next_, Base::slots_, Base::stamp;

 public:
  using Base::capacity, Base::slot;

  UmpReceiverSide() = default;
  UmpReceiverSide(std::byte* memory, std::uint32_t capacity, std::uint32_t first = 0) noexcept
      : Base(memory, capacity, first), batch_mask_(capacity > 2 ? capacity / 2 - 1 : 0), acknowledged_(first) {}

  bool can_recv(std::uint32_t count = 1) const noexcept {
    const std::uint32_t last = next_ + count - 1;
    // Partner: the store in UmpSenderSide::publish(). Its payload is there, and what was sent before it.
    return Header{slots_[last & mask_].header.load(ordering::ump_receive)}.stamp() == stamp(last);
  }

  bool block_in_progress() const noexcept {
    constexpr std::uint32_t block = 8 * (line_bytes / sizeof(Slot));
    if (next_ % block != 0 || mask_ < 4 * block) return false;
    const std::uint32_t last = next_ + block - 1;
    // Relaxed: a hint, the payload is not looked at.
    return Header{slots_[last & mask_].header.load(std::memory_order_relaxed)}.stamp() != stamp(last);
  }

  void release() noexcept {
    ++next_;
    if ((next_ & batch_mask_) == 0) acknowledge();
  }

  /// The receiver has nothing to do: an idle channel has room for `capacity` messages.
  void idle() noexcept {
    if (acknowledged_ != next_) acknowledge();
  }

  Parking& own_parking() noexcept { return control_->parking.receiver; }
  Parking& peer_parking() noexcept { return control_->parking.sender; }
  const void* watch() const noexcept { return &slot().header; }

 private:
  void acknowledge() noexcept {
    acknowledged_ = next_;
    // Partner: the load in UmpSenderSide::can_send(). The lines before next_ have been read.
    control_->acknowledged.store(next_, ordering::ump_acknowledge);
    unpark(control_->parking.sender);
  }

  std::uint32_t batch_mask_ = 0;    ///< acknowledge when the low bits of next_ are 0
  std::uint32_t acknowledged_ = 0;  ///< last value stored
};

/// Endpoints of a UMP channel: UmpSender(memory, capacity), UmpReceiver(memory, capacity).
using UmpSender = BasicSender<UmpSenderSide<Line>>;
using UmpReceiver = BasicReceiver<UmpReceiverSide<Line>>;

/// The same with slots of 16 bytes, for streams of messages of up to 8 bytes.
using CellSender = BasicSender<UmpSenderSide<Cell>>;
using CellReceiver = BasicReceiver<UmpReceiverSide<Cell>>;

}  // namespace smelt::channel
