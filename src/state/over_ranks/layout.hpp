// Layout of the shared memory of a map over ranks: which ranks communicate, and the places of their channels.
//
//   | Head | parents, 4 bytes each | part of rank 0 | part of rank 1 | ...        each part on separate pages
//
//   part of rank r:   | Part | channel from rank a | channel from rank b | ...    from ranks from which r receives
//
// Every process computes the same places from the shape and the tree.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/cacheline.hpp"
#include "base/wait.hpp"
#include "channel/ump.hpp"
#include "smelt/map_table.hpp"

namespace smelt::state::over_ranks {

/// In the order of map_algorithms().
enum class Algorithm : std::uint32_t { part_simple, part_caching, rep_remote, rep_local, rep_2pc, rep_sc, shared, kv };

struct Shape {
  std::uint32_t ranks = 0;
  std::uint32_t servers = 0;    ///< of part_*; 1, the sequencer, of rep_remote, rep_local, rep_sc; replicas of kv
  std::uint32_t dedicated = 0;  ///< 1: servers issue no operations
  Algorithm algorithm = Algorithm::part_simple;
  std::uint32_t channel_lines = 0;
  std::uint32_t sequential = 0;  ///< kv: lookups may be stale
  std::uint32_t strings = 0;     ///< keys and values are strings; `geometry` is that of references to them
  map_detail::Geometry geometry;

  bool operator==(const Shape&) const = default;

  bool partitioned() const noexcept {
    return algorithm == Algorithm::part_simple || algorithm == Algorithm::part_caching;
  }
  bool sequenced() const noexcept {
    return algorithm == Algorithm::rep_remote || algorithm == Algorithm::rep_local || algorithm == Algorithm::rep_sc;
  }
  /// Servers are spread evenly over the ranks, and so over the machine.
  int server(std::uint32_t index) const noexcept { return static_cast<int>(std::uint64_t{index} * ranks / servers); }
  bool serves(int rank) const noexcept {
    if (servers == 0) return false;
    const auto index = (static_cast<std::uint64_t>(rank) * servers + ranks - 1) / ranks;
    return index < servers && server(static_cast<std::uint32_t>(index)) == rank;
  }
  /// For kv: the replica that a rank uses, which is the last one not above it.
  int replica_of(int rank) const noexcept {
    while (!serves(rank)) --rank;
    return rank;
  }
};

struct Head {
  Shape shape;
};

struct alignas(separation_bytes) Part {
  Parking bell;  ///< signalled by senders to the rank
  std::atomic<std::uint32_t> attached, finished;
  std::atomic<std::uint64_t> last;  ///< set by the sequencer when all have finished: the last update + 1
};

constexpr std::size_t up(std::size_t bytes, std::size_t unit) noexcept { return (bytes + unit - 1) / unit * unit; }

class Layout {
 public:
  Layout() = default;
  /// `parents`: of the tree of a sequenced map, -1 for the root; else unused.
  Layout(std::byte* memory, const Shape& shape, std::vector<int> parents)
      : memory_(memory), ranks_(static_cast<int>(shape.ranks)), parents_(std::move(parents)) {
    const std::size_t count = shape.ranks;
    channels_.assign(count * count, 0);
    parts_.assign(count, 0);
    std::size_t at = up(sizeof(Head) + count * sizeof(std::int32_t), page_bytes);
    for (int to = 0; to < ranks_; ++to) {
      parts_[static_cast<std::size_t>(to)] = at;
      at += up(sizeof(Part), separation_bytes);
      for (int from = 0; from < ranks_; ++from) {
        if (!are_linked(shape, from, to)) continue;
        channels_[index(from, to)] = at;
        at += channel::ump_bytes(shape.channel_lines);
      }
      at = up(at, page_bytes);
    }
    bytes_ = at;
  }

  std::size_t bytes() const noexcept { return bytes_; }
  Head& head() const noexcept { return *reinterpret_cast<Head*>(memory_); }
  std::int32_t* parents_in_memory() const noexcept { return reinterpret_cast<std::int32_t*>(memory_ + sizeof(Head)); }
  const std::vector<int>& parents() const noexcept { return parents_; }
  Part& part(int rank) const noexcept {
    return *reinterpret_cast<Part*>(memory_ + parts_[static_cast<std::size_t>(rank)]);
  }
  std::byte* part_begin(int rank) const noexcept { return memory_ + parts_[static_cast<std::size_t>(rank)]; }
  std::size_t part_bytes(int rank) const noexcept {
    const auto next = static_cast<std::size_t>(rank) + 1;
    return (next < parts_.size() ? parts_[next] : bytes_) - parts_[next - 1];
  }
  /// Null if these ranks do not communicate.
  std::byte* channel(int from, int to) const noexcept {
    const std::size_t at = channels_[index(from, to)];
    return at == 0 ? nullptr : memory_ + at;
  }

 private:
  static constexpr std::size_t page_bytes = 4096;

  std::size_t index(int from, int to) const noexcept {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(to);
  }
  bool are_linked(const Shape& shape, int a, int b) const noexcept {
    if (a == b) return false;
    if (shape.algorithm == Algorithm::rep_2pc) return true;
    if (shape.partitioned()) return shape.serves(a) || shape.serves(b);
    if (shape.algorithm == Algorithm::kv) {
      return (shape.serves(a) && shape.replica_of(b) == a) || (shape.serves(b) && shape.replica_of(a) == b);
    }
    const auto parent = [this](int rank) { return parents_[static_cast<std::size_t>(rank)]; };
    return shape.serves(a) || shape.serves(b) || parent(a) == b || parent(b) == a;
  }

  std::byte* memory_ = nullptr;
  int ranks_ = 0;
  std::vector<int> parents_;
  std::vector<std::size_t> channels_, parts_;
  std::size_t bytes_ = 0;
};

}  // namespace smelt::state::over_ranks
