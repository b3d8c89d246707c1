// WorkSharing: who moves what of a transfer that both its ends take part in. Each end takes the next part of what is
// left until nothing is; neither waits for the other to begin.
//
// The word that they share says how much is taken of which transfer: 24 bits of its number, above 40 bits of pages.
//
// Invariants
// - Both ends count the transfers of their direction alike, and none ends before all of it is taken: the number in the
//   word is that of this transfer, or of the one before, of which nothing is left.
// - Parts are disjoint, since each is taken by an exchange of the word. Who has taken one knows that the other end is
//   still in this transfer, which does not end there before that part is moved; so what the other end has published
//   of it still holds. What the parts contain is ordered by the ticks that both ends wait for.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace smelt::comm {

struct WorkShare {
  std::size_t begin = 0, bytes = 0;
};

class WorkSharing {
 public:
  static constexpr std::size_t page_bytes = 4096;
  /// Each part is a system call, and the last one of each end may end later than the other's by as long as it takes.
  static constexpr std::size_t least_bytes = 32 * 1024;
  /// 1 / share of what is left; with 4 the calls cost more than an even end gains.
  static constexpr std::size_t share = 2;

  WorkSharing() = default;
  explicit WorkSharing(std::atomic<std::uint64_t>& taken) : taken_(&taken) {}

  /// The next part of `bytes` bytes; an empty one if there is none left.
  WorkShare take(std::size_t bytes) noexcept {
    std::uint64_t seen = taken_->load(std::memory_order_relaxed);
    for (;;) {
      const std::size_t begin = seen >> page_bits == number_ ? (seen & most_pages) * page_bytes : 0;
      if (begin >= bytes) return {};
      const std::size_t left = bytes - begin, pages = (left / share + page_bytes - 1) / page_bytes;
      const std::size_t part = std::min(left, std::max(least_bytes, pages * page_bytes));
      const std::uint64_t end = (begin + part + page_bytes - 1) / page_bytes;
      // Relaxed: see the second invariant.
      if (taken_->compare_exchange_weak(seen, number_ << page_bits | end, std::memory_order_relaxed)) {
        return {begin, part};
      }
    }
  }

  /// This end is done with the transfer.
  void next() noexcept { number_ = (number_ + 1) & most_number; }

 private:
  static constexpr int page_bits = 40;
  static constexpr std::uint64_t most_pages = (std::uint64_t{1} << page_bits) - 1;
  static constexpr std::uint64_t most_number = (std::uint64_t{1} << (64 - page_bits)) - 1;

  std::atomic<std::uint64_t>* taken_ = nullptr;
  std::uint64_t number_ = 1;
};

}  // namespace smelt::comm
