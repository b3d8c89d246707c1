// Whether a PU is idle: work that the library does in the program's place is free only there.
#pragma once

#include <cstdint>

namespace smelt::shims::memory {

/// Nanoseconds of a clock.
std::int64_t time_of(int clock) noexcept;

/// Used by the watching thread alone.
class SparePus {
 public:
  /// Whether the program leaves a PU idle that it may use, and the machine has one that is idle: by the processor time
  /// that the program has used since the last answer but one, its affinity, its cgroup's quota, and the threads that
  /// are ready to run at this moment. Cost: three system calls and a small file.
  bool any() noexcept;

 private:
  std::int64_t wall_ns_ = 0, used_ns_ = 0;
  bool program_leaves_one_ = true;  ///< by the last interval that was long enough
};

}  // namespace smelt::shims::memory
