// Pauses between looks at something that another process changes without waking this one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>

#include "base/clock.hpp"

namespace smelt {

/// Each pause is a quarter of the time that has passed, so that what is waited for is noticed that much too late at
/// most, and 20 us to `longest_ns`.
class PollingPause {
 public:
  /// 20 us or more, and less than a second.
  explicit PollingPause(std::uint64_t longest_ns) noexcept : longest_ns_(longest_ns) {}

  std::uint64_t next_ns() const noexcept {
    return std::clamp<std::uint64_t>((monotonic_ns() - begun_ns_) / 4, shortest_ns, longest_ns_);
  }
  void sleep() const noexcept {
    const timespec pause = {0, static_cast<long>(next_ns())};
    nanosleep(&pause, nullptr);
  }

 private:
  static constexpr std::uint64_t shortest_ns = 20'000;
  std::uint64_t longest_ns_;
  std::uint64_t begun_ns_ = monotonic_ns();
};

}  // namespace smelt
