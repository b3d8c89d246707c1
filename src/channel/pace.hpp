// Keeping a distance in a stream. A receiver that keeps up with its sender looks at the very slot
// that the sender is about to write: each message then moves the line back and forth. FastForward's
// authors call the cure temporal slipping: fall behind on purpose, and whole lines arrive at once.
//
// Rule: if, time and again, the next message comes right after the channel was found empty, or the
// lines behind it are still being filled, this is a stream, and the receiver then looks away for a moment. If
// less than a batch has gathered meanwhile, it was none: look at once again, and believe the next
// stream later.
#pragma once

#include <cstdint>

#include "base/wait.hpp"

namespace smelt::channel {

class Pace {
 public:
  /// Called when the channel is empty and `position` messages have been received. True: ready() holds.
  template <class Ready>
  bool wait_shortly(std::uint32_t position, const Ready& ready) noexcept {
    if (keep_distance(position)) return ready();
    for (int i = 0; i < short_polls; ++i) {
      wait_detail::look_away();
      if (!ready()) continue;
      note_closeness();
      return true;
    }
    evidence_ = 0;
    return false;
  }

  /// Called when there is a message, but the lines behind it are still being filled.
  void approach(std::uint32_t position) noexcept {
    if (!keep_distance(position)) note_closeness();
  }

 private:
  static constexpr std::uint32_t least_batch = 16;
  static constexpr std::uint32_t most_evidence = 1 << 16;
  static constexpr int short_polls = 8;
  static constexpr int pauses = 32;

  void note_closeness() noexcept {
    if (++evidence_ < evidence_needed_) return;
    streaming_ = true;
    last_position_ -= least_batch;  // the first time is on trust
  }

  /// Looks away if this is a stream, and finds out if it is not any more.
  bool keep_distance(std::uint32_t position) noexcept {
    const std::uint32_t batch = position - last_position_;
    last_position_ = position;
    if (!streaming_) return false;
    if (batch >= least_batch) {
      for (int i = 0; i < pauses; ++i) wait_detail::relax();
      return true;
    }
    streaming_ = false;
    evidence_ = 0;
    if (evidence_needed_ < most_evidence) evidence_needed_ *= 4;
    return false;
  }

  bool streaming_ = false;
  std::uint32_t last_position_ = 0;
  std::uint32_t evidence_ = 0;
  std::uint32_t evidence_needed_ = 16;
};

}  // namespace smelt::channel
