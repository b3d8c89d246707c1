// Keeping a distance in a stream. A receiver that keeps up with its sender looks at the very slot
// that the sender is about to write: each message then moves the line back and forth. FastForward's
// authors call the cure temporal slipping: fall behind on purpose, and whole lines arrive at once.
//
// Rule: if, time and again, the next message comes right after the channel was found empty, or the
// lines behind it are still being filled, this is a stream, and the receiver then looks away for a moment. If
// less than a batch has gathered in that moment, it was none: look at once again, and believe the next
// stream later. Two ranks that send to each other are up to two messages ahead; a batch is more than that.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/wait.hpp"

namespace smelt::channel {

class TemporalSlipping {
 public:
  /// Called when the channel is empty. `gathered`: whether a batch is there. True: ready() holds.
  template <class Ready, class Gathered>
  bool wait_shortly(const Ready& ready, const Gathered& gathered) noexcept {
    if (streaming_) return keep_distance(gathered) || ready();
    for (int i = 0; i < short_polls; ++i) {
      wait_detail::pause_between_polls();
      if (!ready()) continue;
      note_closeness();
      return true;
    }
    evidence_ = 0;
    return false;
  }

  /// Called when there is a message, but the lines behind it are still being filled.
  template <class Gathered>
  void approach(const Gathered& gathered) noexcept {
    if (streaming_) {
      keep_distance(gathered);
    } else {
      note_closeness();
    }
  }

  /// Lines that make a batch where a message has `lines`.
  static constexpr std::uint32_t batch_of(std::uint32_t lines) noexcept { return std::max(least_batch, 3 * lines); }

 private:
  static constexpr std::uint32_t least_batch = 16;
  static constexpr std::uint32_t most_evidence = 1 << 16;
  static constexpr int short_polls = 8;
  static constexpr int looks = 16;  ///< half a microsecond

  void note_closeness() noexcept {
    if (++evidence_ >= evidence_needed_) streaming_ = true;
  }

  /// Looks away, and finds out if this is no stream any more.
  template <class Gathered>
  bool keep_distance(const Gathered& gathered) noexcept {
    for (int i = 0; i < looks; ++i) wait_detail::pause_between_polls();
    if (gathered()) return true;
    streaming_ = false;
    evidence_ = 0;
    if (evidence_needed_ < most_evidence) evidence_needed_ *= 4;
    return false;
  }

  bool streaming_ = false;
  std::uint32_t evidence_ = 0;
  std::uint32_t evidence_needed_ = 16;
};

}  // namespace smelt::channel
