// Temporal slipping. A receiver that keeps up with its sender polls the slot that the sender is about to write, so each
// message moves the line back and forth. The authors of FastForward let the receiver fall behind deliberately, so that
// complete lines arrive.
//
// Rule: if messages repeatedly arrive right after the channel was found empty, or while the following lines are still
// being written, the receiver assumes a stream and pauses briefly. If less than a batch has arrived in that pause, it
// was no stream: the receiver polls immediately again, and requires more evidence for the next one. Two ranks that send
// to each other are at most two messages ahead, which is less than a batch.
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

  /// Called when there is a message, but the following lines are still being written.
  template <class Gathered>
  void approach(const Gathered& gathered) noexcept {
    if (streaming_) {
      keep_distance(gathered);
    } else {
      note_closeness();
    }
  }

  /// Lines of a batch of messages of `lines` lines.
  static constexpr std::uint32_t batch_of(std::uint32_t lines) noexcept { return std::max(least_batch, 3 * lines); }

 private:
  static constexpr std::uint32_t least_batch = 16;
  static constexpr std::uint32_t most_evidence = 1 << 16;
  static constexpr int short_polls = 8;
  static constexpr int looks = 16;  ///< half a microsecond

  void note_closeness() noexcept {
    if (++evidence_ >= evidence_needed_) streaming_ = true;
  }

  /// Pauses, and detects the end of a stream.
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
