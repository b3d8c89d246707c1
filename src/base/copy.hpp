// Copies of any length, equally fast for all offsets between source and target.
//
// C libraries use the CPU's string instruction for copies of about 2 KiB and more. On AMD Zen 3 that is many times
// slower if the target's offset in its page is 1 to 31 bytes larger than the source's. This is the case for copies from
// a stage, which starts at a page, to a large array from malloc, which starts 16 bytes into a page. Loads and stores
// are not affected. The first copy that this concerns tests the CPU; on other CPUs nothing changes.
//
// The throughput of lines that are in memory or in another core's L2 cache depends on the number of requests in flight.
// The L2 cache supports more of them than the core, if it gets prefetches early enough. Lines that are about to be
// written are prefetched as well, as stores wait for their lines like loads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace smelt {
namespace copy_detail {

constexpr std::size_t shortest_bytes = 2048;    ///< below, no C library uses the string instruction
constexpr std::size_t longest_bytes = 4 << 20;  ///< above, they use non-temporal stores

enum class Strings : unsigned char { unknown, fast, slow };

/// Relaxed: any thread that finds it unknown runs the test, and all get the same result. Tests set it.
inline std::atomic<Strings> strings{Strings::unknown};

/// Ticks of several copies by the string instruction.
using CopyTimes = std::array<std::uint64_t, 4>;

/// What times at a distance that may be slow, and at another, say of the CPU. Interrupts make some of them longer.
Strings judge(const CopyTimes& suspect, const CopyTimes& usual) noexcept;

/// Takes some 10 us.
Strings find_out() noexcept;

inline bool strings_are_slow() noexcept {
  const Strings known = strings.load(std::memory_order_relaxed);
  return (known == Strings::unknown ? find_out() : known) == Strings::slow;
}

void copy_backwards(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// Shorter copies gain nothing. See docs/explanation/data-paths.md for the gain of others.
constexpr std::size_t least_early_bytes = 2 << 10;
/// Prefetch distance: a page for lengths that may be in an L2 cache, which is how far that prefetches itself.
constexpr std::size_t least_fetched_bytes = 64 << 10, most_fetched_bytes = 1 << 20;
constexpr std::size_t ahead_bytes = 1024, ahead_fetched_bytes = 4096;

/// Whether early prefetches are known to help on CPUs of this vendor.
inline bool asks_early() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

/// Prefetches the lines of source and target at that distance.
void copy_early(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t ahead) noexcept;

enum class Way : unsigned char { library, backwards, early };

/// How copy_bytes() copies. `is_slow()`: as is_slow_distance(); called only where the C library may use the string
/// instruction.
template <class IsSlow>
constexpr Way way_to_copy(std::size_t bytes, IsSlow&& is_slow, bool early) noexcept {
  if (bytes < least_early_bytes || bytes >= longest_bytes) return Way::library;
  if (bytes > shortest_bytes && is_slow()) return Way::backwards;
  return early ? Way::early : Way::library;
}

/// Whether fetch_bytes() prefetches further ahead than copy_bytes().
constexpr bool fetches_early(std::size_t bytes, bool early) noexcept {
  return early && bytes >= least_fetched_bytes && bytes <= most_fetched_bytes;
}

}  // namespace copy_detail

constexpr std::uintptr_t copy_page_bytes = 4096;

/// Whether the string instruction is slow for this source and target. The kernel uses it, too.
inline bool is_slow_distance(const void* to, const void* from) noexcept {
  constexpr std::uintptr_t least = 32;
  const auto distance = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  return distance % copy_page_bytes - 1 < least - 1 && copy_detail::strings_are_slow();  // 0 is fast
}

/// The first address from `scratch` on that has the same offset in its page as `other`.
inline std::byte* in_step_with(const void* other, std::byte* scratch) noexcept {
  const auto distance = reinterpret_cast<std::uintptr_t>(other) - reinterpret_cast<std::uintptr_t>(scratch);
  return scratch + distance % copy_page_bytes;
}

/// memcpy, inlined for the size of one number. For 0 bytes the pointers may be null. The areas must not overlap.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
    return;
  }
  const auto is_slow = [&] { return is_slow_distance(to, from); };
  switch (copy_detail::way_to_copy(bytes, is_slow, copy_detail::asks_early())) {
    case copy_detail::Way::library:
      if (bytes > 0) std::memcpy(to, from, bytes);
      break;
    case copy_detail::Way::backwards:
      copy_detail::copy_backwards(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
      break;
    case copy_detail::Way::early:
      copy_detail::copy_early(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes,
                              copy_detail::ahead_bytes);
      break;
  }
}

/// copy_bytes from memory that another core has written last.
inline void fetch_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (copy_detail::fetches_early(bytes, copy_detail::asks_early())) {
    copy_detail::copy_early(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes,
                            copy_detail::ahead_fetched_bytes);
  } else {
    copy_bytes(to, from, bytes);
  }
}

}  // namespace smelt
