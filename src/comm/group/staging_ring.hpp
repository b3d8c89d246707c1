// StagingRing: a rank's record of how the stages are used. Each stage is a ring of places. Chunks take places one after
// the other, on all ranks alike, so that each rank knows where in a peer's stage a chunk lies.
//
//   | 8 KiB | 8 KiB | 8 KiB | 8 KiB | ...    a chunk takes 1, 2 or 4 places, beginning at a multiple of their number
//
// Short chunks go round the whole ring, too. A line that is filled again soon after it was read takes longer to come
// back from its reader's cache.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace smelt::comm {

class StagingRing {
 public:
  static constexpr std::size_t bytes = 256 * 1024;
  static constexpr std::size_t most_chunk_bytes = 32 * 1024;

  /// Who reads what a place holds, and the tick by which they are done.
  struct Use {
    const std::vector<int>* readers = nullptr;
    std::uint64_t value = 0;
  };

  /// Distance in bytes between the beginnings of successive chunks of that length.
  static std::size_t stride(std::size_t chunk_bytes) noexcept {
    return std::bit_ceil(std::max(chunk_bytes, place_bytes));
  }
  /// Takes places for `chunks` chunks. Returns the offset of the first one; the others follow round the ring.
  std::size_t take(std::size_t chunk_bytes, std::size_t chunks) noexcept {
    const std::size_t step = stride(chunk_bytes), first = (next_ + step - 1) / step * step;
    next_ = (first + chunks * step) % bytes;
    return first % bytes;
  }
  /// The places of a chunk at `offset` of the rank's own stage.
  std::span<Use> uses(std::size_t offset, std::size_t chunk_bytes) noexcept {
    return {uses_ + offset / place_bytes, stride(chunk_bytes) / place_bytes};
  }

 private:
  static constexpr std::size_t place_bytes = 8 * 1024;

  std::size_t next_ = 0;
  Use uses_[bytes / place_bytes];
};
static_assert(StagingRing::bytes % StagingRing::most_chunk_bytes == 0);

}  // namespace smelt::comm
