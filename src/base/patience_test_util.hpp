// How long a test waits before it says that something hangs.
#pragma once

#include <algorithm>
#include <chrono>

namespace smelt::test {

/// Counts the time between its questions, of each pause between two at most a tenth of a second: a virtual machine that
/// was suspended finds its clock half a minute later, in which nobody can have gone on.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Patience(Clock::duration limit) : left_(limit) {}

  bool is_over() {
    const auto now = Clock::now();
    left_ -= std::min<Clock::duration>(now - last_, std::chrono::milliseconds(100));
    last_ = now;
    return left_ < Clock::duration::zero();
  }

 private:
  Clock::duration left_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace smelt::test
