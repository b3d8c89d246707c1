// Layout of the log in shared memory. Contains offsets only. Everything is zero initially, except for data that
// prepare() writes.
//
//   | Head | slots, 8 bytes each | part of rank 0 | part of rank 1 | ...       each part on separate pages
//
//   part of rank r:   progress | outgoing snapshot | cells: requests of r, each | stamp | command ... |
//
// Words, high bits to low:
//
//   configuration  epoch 31 | leader 10                         who leads. By CAS
//   floor          epoch 40 | index 24, its low bits            entries below it are not needed any more. By CAS
//   slot[i mod N]  lap 32 | sealed 1 | epoch 31                 nothing is decided here; whose place it is to decide
//                  lap 32 | 0 | count - 1, 5 | client 10 | request 16, its low bits
//                                                               decided. By CAS; lap = i / N + 1
//   progress[r]    generation 14 | state 2 | index 48           live: the next entry that r delivers. By CAS
//   stamp          request 48 | bytes 16                        r alone, after the command
//
// A command stays where its client wrote it, and a slot says whose next requests it decides, 1 to 32 of them: what a
// slot decides fits in one word, so that no process can die, or be stopped, in the middle of deciding. Entries are
// numbered by the users of the log; slots are what the log counts by. A slot has as many entries as requests.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/cacheline.hpp"
#include "base/wait.hpp"

namespace smelt::state::log {

using Word = std::atomic<std::uint64_t>;

/// Constants that prepare() writes for all processes.
struct Shape {
  std::uint32_t ranks = 0, entries = 0, requests = 0, command_bytes = 0;
  std::uint32_t leader = 0;
  std::uint32_t faults = 0;
  std::uint32_t fixed = 0;     ///< 1: the leader never changes
  std::uint32_t majority = 0;  ///< replicas that agree to a change of the leader; 0: configuration "cas"
  double suspect_after_s = 0, evict_after_s = 0;
  std::uint64_t replicas[16] = {};  ///< bit r: rank r has a replica

  bool is_replica(int rank) const noexcept {
    return (replicas[static_cast<std::size_t>(rank) / 64] >> (rank % 64) & 1) != 0;
  }
};

// ---- configuration

inline constexpr std::uint64_t most_epoch = (std::uint64_t{1} << 31) - 1;
inline constexpr int nobody = 1023;

struct Configuration {
  std::uint64_t epoch = 0;
  int leader = nobody;

  std::uint64_t word() const noexcept { return epoch << 10 | static_cast<std::uint64_t>(leader); }
  static Configuration of(std::uint64_t word) noexcept { return {word >> 10, static_cast<int>(word & 1023)}; }
};

// ---- floor

struct Floor {
  static constexpr int bits = 24;
  static constexpr std::uint64_t mask = (std::uint64_t{1} << bits) - 1;

  static std::uint64_t word(std::uint64_t epoch, std::uint64_t index) noexcept {
    return epoch << bits | (index & mask);
  }
  static std::uint64_t epoch(std::uint64_t word) noexcept { return word >> bits; }
  /// `known`: an index that exceeds the floor by at most 2^24 - 1, such as any that a live replica has learned. What an
  /// evicted one has learned may be below the floor.
  static std::uint64_t index(std::uint64_t word, std::uint64_t known) noexcept {
    return known - ((known - word) & mask);
  }
};

// ---- slots

inline constexpr std::uint64_t slot_sealed = std::uint64_t{1} << 31;
inline constexpr int request_bits = 16, client_bits = 10;
inline constexpr std::uint64_t request_mask = (std::uint64_t{1} << request_bits) - 1;
inline constexpr unsigned most_in_a_slot = 32;

inline std::uint64_t lap_of(std::uint64_t slot) noexcept { return slot >> 32; }
inline bool is_sealed(std::uint64_t slot) noexcept { return (slot & slot_sealed) != 0; }
inline std::uint64_t seal_epoch(std::uint64_t slot) noexcept { return slot & (slot_sealed - 1); }
inline int client_of(std::uint64_t slot) noexcept { return static_cast<int>(slot >> request_bits & 1023); }
inline unsigned count_of(std::uint64_t slot) noexcept {
  return static_cast<unsigned>(slot >> (request_bits + client_bits) & (most_in_a_slot - 1)) + 1;
}
inline std::uint64_t sealed_slot(std::uint64_t lap, std::uint64_t epoch) noexcept {
  return lap << 32 | slot_sealed | epoch;
}
/// `count` requests of a client, from `request` on.
inline std::uint64_t decided_slot(std::uint64_t lap, int client, std::uint64_t request, unsigned count) noexcept {
  return lap << 32 | std::uint64_t{count - 1} << (request_bits + client_bits) |
         static_cast<std::uint64_t>(client) << request_bits | (request & request_mask);
}

// ---- progress

enum class Standing : std::uint8_t {
  live,
  out,      ///< ended, evicted, or without a replica: no process waits for it
  joining,  ///< index: the epoch of the leader that it asks
  granted,  ///< entries from its index on are kept for it
};

struct Progress {
  std::uint64_t generation = 0;
  Standing standing = Standing::live;
  std::uint64_t index = 0;

  static constexpr int index_bits = 48;
  static constexpr std::uint64_t index_mask = (std::uint64_t{1} << index_bits) - 1;
  std::uint64_t word() const noexcept {
    return generation << (index_bits + 2) | static_cast<std::uint64_t>(standing) << index_bits | index;
  }
  static Progress of(std::uint64_t word) noexcept {
    return {word >> (index_bits + 2), static_cast<Standing>(word >> index_bits & 3), word & index_mask};
  }
  Progress with(Standing next, std::uint64_t at, std::uint64_t more_generations = 0) const noexcept {
    return {(generation + more_generations) & 0x3fff, next, at};
  }
};

// ---- stamps

inline constexpr int length_bits = 16;
inline std::uint64_t stamp_of(std::uint64_t request, std::size_t bytes) noexcept {
  return request << length_bits | bytes;
}
inline std::uint64_t request_of(std::uint64_t stamp) noexcept { return stamp >> length_bits; }
inline std::size_t bytes_of(std::uint64_t stamp) noexcept { return stamp & ((1u << length_bits) - 1); }
inline constexpr std::uint64_t most_requests = std::uint64_t{1} << 47;

// ---- structures

struct Head {
  Shape shape;
  alignas(separation_bytes) Word configuration;
  Word contested;  ///< configuration "paxos": the last epoch that a replica has asked to end. Only grows
  Word wanted;     ///< counts requests for a snapshot; a change means that a replica waits for one
  alignas(separation_bytes) Word floor;
  alignas(separation_bytes) Word pressed;  ///< a client waits until the floor is at least this
  Word looked;                             ///< number of the leader's attempts to raise the floor: a sign of life
  alignas(separation_bytes) Parking bell;  ///< signalled by every change for which a process may wait
};

/// A snapshot that its owner sends in chunks.
///   header  0: nothing | owner writes: receiver + 1, 10 | its generation 14 | chunk 32 | full 1
/// The receiver acknowledges by a CAS that clears the full bit. Its success proves that the copy is valid.
struct Outgoing {
  static constexpr std::size_t chunk_bytes = 1 << 14;

  Word header;
  Word total_bytes;
  Word index;  ///< the first entry that the snapshot does not contain
  Word data[chunk_bytes / 8];
};

struct alignas(separation_bytes) Part {
  Word progress;
  std::atomic<std::uint32_t> returns;  ///< 1: the replica can return by a snapshot
  std::atomic<std::uint32_t> attached;
  /// generation 14 of the owner that asks | server + 1: who sends it a snapshot
  alignas(separation_bytes) Word claim;
  Word consent;  ///< configuration "paxos": epochs up to this one may end, as far as the owner is concerned. Only grows
  alignas(separation_bytes) Outgoing outgoing;
};

constexpr std::size_t up(std::size_t bytes, std::size_t unit) noexcept { return (bytes + unit - 1) / unit * unit; }

/// A view of the memory.
class Layout {
 public:
  Layout() = default;
  Layout(std::byte* memory, const Shape& shape) noexcept
      : memory_(memory),
        slots_(reinterpret_cast<Word*>(memory + head_bytes)),
        parts_(memory + head_bytes + slots_bytes(shape)),
        part_bytes_(part_bytes(shape)),
        cell_bytes_(cell_bytes(shape)),
        slot_mask_(shape.entries - 1),
        lap_shift_(std::countr_zero(shape.entries)),
        cell_mask_(shape.requests - 1) {}

  /// Reads the shape from the memory.
  explicit Layout(std::byte* memory) noexcept : Layout(memory, reinterpret_cast<const Head*>(memory)->shape) {}

  static std::size_t bytes(const Shape& shape) noexcept {
    return head_bytes + slots_bytes(shape) + shape.ranks * part_bytes(shape);
  }

  Head& head() const noexcept { return *reinterpret_cast<Head*>(memory_); }
  Word& slot(std::uint64_t index) const noexcept { return slots_[index & slot_mask_]; }
  std::uint64_t lap(std::uint64_t index) const noexcept { return (index >> lap_shift_) + 1; }
  std::uint64_t most_index() const noexcept { return ((std::uint64_t{1} << 32) - 2) << lap_shift_; }
  std::byte* part_begin(int rank) const noexcept { return parts_ + static_cast<std::size_t>(rank) * part_bytes_; }
  std::size_t part_bytes() const noexcept { return part_bytes_; }
  std::size_t cell_bytes() const noexcept { return cell_bytes_; }
  Part& part(int rank) const noexcept { return *reinterpret_cast<Part*>(part_begin(rank)); }
  std::byte* cells(int rank) const noexcept { return part_begin(rank) + cells_offset; }
  /// A cell: its stamp, then the command in words.
  Word* cell(int rank, std::uint64_t request) const noexcept { return cell_in(cells(rank), request); }
  Word* cell_in(std::byte* cells, std::uint64_t request) const noexcept {
    return reinterpret_cast<Word*>(cells + (request & cell_mask_) * cell_bytes_);
  }

 private:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr std::size_t head_bytes = up(sizeof(Head), page_bytes);
  static constexpr std::size_t cells_offset = up(sizeof(Part), separation_bytes);
  static std::size_t slots_bytes(const Shape& shape) noexcept {
    return up(shape.entries * sizeof(std::uint64_t), page_bytes);
  }
  /// A line each, or two lines for several cells one after the other: as few lines as possible in a stream of them.
  static std::size_t cell_bytes(const Shape& shape) noexcept {
    const std::size_t bytes = sizeof(std::uint64_t) + shape.command_bytes;
    return up(bytes, bytes <= line_bytes ? line_bytes : 8);
  }
  static std::size_t part_bytes(const Shape& shape) noexcept {
    return up(cells_offset + shape.requests * cell_bytes(shape), page_bytes);
  }

  std::byte* memory_ = nullptr;
  Word* slots_ = nullptr;
  std::byte* parts_ = nullptr;
  std::size_t part_bytes_ = 0, cell_bytes_ = 0;
  std::uint64_t slot_mask_ = 0;
  int lap_shift_ = 0;
  std::uint64_t cell_mask_ = 0;
};

}  // namespace smelt::state::log
