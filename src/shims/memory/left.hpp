// What a look at the limits of memory still says some time later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace smelt::shims::memory {

/// A look takes a dozen system calls, which is too much for every allocation and for every block that is looked at.
/// Threads may note and ask at once.
class LeftLater {
 public:
  /// What all processes together can use up at most: 256 GB per second. Machines clear pages at a fraction of that.
  static constexpr std::uint64_t most_bytes_per_ns = 256;
  static constexpr std::int64_t longest_ns = 100'000'000;  ///< after which it says nothing: limits change, too

  /// So much was left at that moment of a monotonic clock.
  void note(std::size_t bytes, std::int64_t now_ns) noexcept {
    // One word: a bound that falls by itself as the clock advances. It wraps around.
    left_at_zero_.store(std::min<std::uint64_t>(bytes, most_left) + used_by(now_ns), std::memory_order_relaxed);
    noted_ns_.store(now_ns, std::memory_order_relaxed);
  }

  /// At least so much is left now; 0: unknown.
  std::size_t at_least(std::int64_t now_ns) const noexcept {
    if (now_ns - noted_ns_.load(std::memory_order_relaxed) > longest_ns) return 0;
    const auto left = static_cast<std::int64_t>(left_at_zero_.load(std::memory_order_relaxed) - used_by(now_ns));
    return static_cast<std::size_t>(std::max<std::int64_t>(left, 0));
  }

 private:
  static constexpr std::uint64_t most_left = std::uint64_t{1} << 50;

  static std::uint64_t used_by(std::int64_t now_ns) noexcept {
    return most_bytes_per_ns * static_cast<std::uint64_t>(now_ns);
  }

  std::atomic<std::uint64_t> left_at_zero_{0};
  std::atomic<std::int64_t> noted_ns_{-2 * longest_ns};
};

}  // namespace smelt::shims::memory
