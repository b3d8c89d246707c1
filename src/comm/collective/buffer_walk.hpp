// BufferWalk: fetches the buffers of calls to come for a program that walks through an array, call by call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/cacheline.hpp"

namespace smelt::comm {

/// Of the buffers that a rank's calls read, or of those that they write.
class BufferWalk {
 public:
  /// Notes the buffer of a call. If it is as far from the last one as that from the one before, fetches the beginning
  /// of one that comes at that rate: the next one, or the fourth if they are short, as memory takes as long as several
  /// calls. Best called where the rank waits anyway, any number of times in a call. Null: the call has none. Cost: a
  /// load for the same buffer again, else up to 16 fetches, without waiting.
  [[gnu::always_inline]] void pass(const void* buffer) noexcept {
    pass(buffer, [](std::uintptr_t line) { __builtin_prefetch(reinterpret_cast<const void*>(line)); });
  }
  /// The same with another function that fetches the line of an address.
  template <class Fetch>
  [[gnu::always_inline]] void pass(const void* buffer, Fetch fetch) noexcept {
    const auto now = reinterpret_cast<std::uintptr_t>(buffer);
    if (now != last_ && now != 0) go_on(now, fetch);
  }

 private:
  static constexpr std::uintptr_t most_lines = 16;  // more take longer to fetch than a rank waits

  static std::uintptr_t calls_ahead(std::uintptr_t apart) noexcept { return apart <= 256 ? 4 : apart <= 512 ? 2 : 1; }

  template <class Fetch>
  [[gnu::noinline]] void go_on(std::uintptr_t now, Fetch fetch) noexcept {
    const std::uintptr_t stride = last_ == 0 ? 0 : now - last_;
    if (stride == stride_ && stride != 0) {
      const std::uintptr_t apart = static_cast<std::intptr_t>(stride) < 0 ? 0 - stride : stride;
      const std::uintptr_t next = now + calls_ahead(apart) * stride;
      for (std::uintptr_t at = 0; at < std::min(apart, most_lines * line_bytes); at += line_bytes) fetch(next + at);
    }
    last_ = now;
    stride_ = stride;
  }

  std::uintptr_t last_ = 0, stride_ = 0;
};

}  // namespace smelt::comm
