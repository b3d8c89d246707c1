// Copies of any length, as fast at every distance between the two places.
//
// C libraries leave copies of some 2 KiB and more to the CPU's string instruction. On AMD's Zen 3 that takes 20 to 40
// times as long where the target lies 1 to 31 bytes further in its page than the source, as what malloc returns for a
// large array, 16 bytes into a page, does to a stage, which begins with one. Loads and stores are as fast there as
// elsewhere. Whether this CPU is one of those is tried when it first matters; on others nothing changes.
//
// Lines that are not in the core's caches, because they lie in memory or in another core's L2 cache, come in as fast as
// they can be asked for at a time: the L2 cache has more requests in flight than the core, if it is told early which lines
// to get. Those that are about to be written are asked for, too: a store waits as long for its line as a load.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace smelt {
namespace copy_detail {

constexpr std::size_t shortest_bytes = 2048;    ///< no C library takes the string instruction for so few
constexpr std::size_t longest_bytes = 4 << 20;  ///< longer copies they write past the caches, without it

enum class Strings : unsigned char { unknown, fast, slow };

/// Relaxed: whoever finds it unknown finds out, and all come to the same. Tests set it.
inline std::atomic<Strings> strings{Strings::unknown};

/// Takes some 10 us.
Strings find_out() noexcept;

inline bool strings_are_slow() noexcept {
  const Strings known = strings.load(std::memory_order_relaxed);
  return (known == Strings::unknown ? find_out() : known) == Strings::slow;
}

void copy_backwards(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// Shorter copies gain nothing; how much others do docs/explanation/data-paths.md says.
constexpr std::size_t least_early_bytes = 2 << 10;
/// How early: of lengths that may come from an L2 cache a page, which is as far as that looks ahead itself.
constexpr std::size_t least_fetched_bytes = 64 << 10, most_fetched_bytes = 1 << 20;
constexpr std::size_t ahead_bytes = 1024, ahead_fetched_bytes = 4096;

/// Whether asking early has been seen to help on CPUs of this make.
inline bool asks_early() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

/// Asks for the lines of both so far ahead.
void copy_early(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t ahead) noexcept;

}  // namespace copy_detail

constexpr std::uintptr_t copy_page_bytes = 4096;

/// Whether the string instruction is slow at copying from there to there. The kernel copies by it, too.
inline bool is_slow_distance(const void* to, const void* from) noexcept {
  constexpr std::uintptr_t least = 32;
  const auto distance = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  return distance % copy_page_bytes - 1 < least - 1 && copy_detail::strings_are_slow();  // 0 is fast
}

/// The first place from `scratch` on, less than a page away, that lies as far into its page as `other`.
inline std::byte* in_step_with(const void* other, std::byte* scratch) noexcept {
  const auto distance = reinterpret_cast<std::uintptr_t>(other) - reinterpret_cast<std::uintptr_t>(scratch);
  return scratch + distance % copy_page_bytes;
}

/// memcpy, the size of one number spelt out; nothing for 0 bytes, whatever the pointers. The two must not overlap.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else if (bytes < copy_detail::least_early_bytes || bytes >= copy_detail::longest_bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  } else if (bytes > copy_detail::shortest_bytes && is_slow_distance(to, from)) {
    copy_detail::copy_backwards(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  } else if (copy_detail::asks_early()) {
    copy_detail::copy_early(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes,
                            copy_detail::ahead_bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

/// copy_bytes out of memory that another core has written last.
inline void fetch_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes >= copy_detail::least_fetched_bytes && bytes <= copy_detail::most_fetched_bytes &&
      copy_detail::asks_early()) {
    copy_detail::copy_early(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes,
                            copy_detail::ahead_fetched_bytes);
  } else {
    copy_bytes(to, from, bytes);
  }
}

}  // namespace smelt
