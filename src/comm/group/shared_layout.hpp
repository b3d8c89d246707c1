// SharedLayout: the layout of a communicator's shared memory. It contains offsets only, since every process maps it at
// another address.
//
//   | Control | part of rank 0 | part of rank 1 | ...       each on pages of its own, on the rank's NUMA node
//
//   part of rank r:
//     Tick       written by r, polled by others: how far r has come, and where its buffers are
//     Parking    ranks that sleep until the tick changes
//     Progress   written by r: the collectives that it has entered
//     stage      a ring of chunks (staging_ring.hpp), filled by r, read by others
//     channels   0 -> r, 1 -> r, ...; each with a count of the sender's buffers that r has read
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/cacheline.hpp"
#include "base/segment.hpp"
#include "base/wait.hpp"
#include "channel/ump.hpp"
#include "comm/group/flat_barrier.hpp"
#include "comm/group/staging_ring.hpp"
#include "comm/ordering.hpp"
#include "smelt/plan.hpp"

namespace smelt::comm {

/// A rank's progress counter: epochs (collectives that use ticks), and ticks within an epoch. Never decreases.
///
///   value = epoch << 24 | ticks of the chunks before + tick within the chunk
struct alignas(separation_bytes) Tick {
  std::atomic<std::uint64_t> value{0};
  std::atomic<const std::byte*> in{nullptr};  ///< buffers of the current operation, addresses in the rank's process
  std::atomic<std::byte*> out{nullptr};
  alignas(separation_bytes) Parking parking;

  /// Pairs with reached() of other ranks. Publishes this rank's stage and buffers, and that its reads are done.
  void raise(std::uint64_t to) noexcept {
    value.store(to, ordering::tick_post);
    unpark(parking);
  }
  /// Pairs with raise() of the owner.
  bool reached(std::uint64_t wanted) const noexcept { return value.load(ordering::tick_await) >= wanted; }
};
inline constexpr int tick_bits = 24;

/// The number of collectives that a rank has entered, the kind of the last one, and what the rank waits for if it waits
/// for long. Other ranks read it for timeout reports, other processes for smelt/inspect.hpp. All accesses are relaxed,
/// but for `touches` and `gave_up` (docs/explanation/memory-ordering.md, "Leaving").
struct alignas(separation_bytes) Progress {
  std::atomic<std::uint64_t> position{0};  ///< calls << 8 | operation
  std::atomic<std::uint32_t> touches{0};   ///< 1: it reads or writes another rank's buffers (Endpoint::BufferAccess)
  std::atomic<std::uint32_t> peer{0};      ///< rank that is waited for + 1; 0: several
  std::atomic<std::uint64_t> waits_since_ns{0}, waits_at_ns{0};  ///< monotonic_ns(), of the last wait
  std::atomic<std::uint32_t> gave_up{0};  ///< 1: it was told that the communicator is broken, and takes part no more

  static std::uint64_t calls(std::uint64_t position) { return position >> 8; }
  static Operation operation(std::uint64_t position) { return static_cast<Operation>(position & 0xff); }
};

/// Per channel: how many buffers its receiver has read directly from the sender's memory, and the state of a transfer
/// that both ends carry out (work_sharing.hpp).
struct alignas(separation_bytes) DirectReads {
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint32_t> count{0};
  Parking parking;
};

/// State of the communicator as a whole. Initially zero, like everything in the shared memory, so that no process has
/// to initialize it.
struct ControlBlock {
  static constexpr std::size_t text_bytes = 512;

  alignas(separation_bytes) std::atomic<int> status{0};  ///< Status::ok while it works
  std::atomic<int> failing{0};                           ///< 1: a rank writes `failure`
  std::atomic<int> no_direct{0};                         ///< 1: some process may not read another's memory
  std::atomic<int> setup[2] = {};                        ///< ranks that have come to a point of the set-up
  std::atomic<std::uint64_t> calls_lost{0};              ///< see CommunicatorState::last_call()
  char failure[text_bytes] = {};                         ///< valid once status is not ok
  FlatBarrier flat_barrier;
  alignas(separation_bytes) std::atomic<std::uint64_t> wait_began{0};  ///< WaitConfig::wait_began, of all ranks
};

class SharedLayout {
 public:
  /// Slots of a channel: a burst of this many messages needs no acknowledgement.
  static constexpr std::uint32_t channel_lines(int ranks) { return ranks <= 64 ? 64 : 16; }

  /// Lines of a message that a rank may send before it receives anything. There is room for them beside the lines that
  /// the receiver has read and not acknowledged yet, which are less than half of a channel (channel/ump.hpp).
  static constexpr std::uint32_t most_lines_at_once(int ranks) { return channel_lines(ranks) / 2; }

  static std::size_t bytes(int ranks);

  SharedLayout() = default;
  /// A view of zeroed, page-aligned memory of bytes(ranks) bytes.
  SharedLayout(std::byte* memory, int ranks);

  ControlBlock& control() const { return *reinterpret_cast<ControlBlock*>(memory_); }
  Tick& tick(int rank) const { return *reinterpret_cast<Tick*>(part(rank)); }
  Progress& progress(int rank) const { return *reinterpret_cast<Progress*>(part(rank) + sizeof(Tick)); }
  std::byte* stage(int rank) const { return part(rank) + head_bytes; }
  std::byte* channel(int sender, int receiver) const;
  DirectReads& consumed(int sender, int receiver) const;

  /// The pages that belong on this rank's NUMA node.
  std::byte* part(int rank) const { return parts_ + static_cast<std::size_t>(rank) * part_bytes_; }
  std::size_t part_bytes() const { return part_bytes_; }

 private:
  static constexpr std::size_t head_bytes = sizeof(Tick) + sizeof(Progress);

  std::byte* memory_ = nullptr;
  std::byte* parts_ = nullptr;
  int ranks_ = 0;
  std::size_t channel_stride_ = 0, part_bytes_ = 0;
};

}  // namespace smelt::comm
