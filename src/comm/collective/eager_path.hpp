// EagerPath: a schedule for short messages, run by blocking calls without what long ones need: chunks, extents, and a
// state from which to go on later.
//
//   move of the schedule   ->   step: the channels are known, addresses are base[buffer] + at * block bytes
//
// Messages of a few lines through channels, or one chunk through the stages. What goes over the wire, ticks and stages
// included, is what Execution makes of the same schedule: one rank may run the one, and its peer the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "channel/line.hpp"
#include "comm/collective/link.hpp"
#include "comm/group/shared_layout.hpp"
#include "smelt/collective.hpp"
#include "smelt/schedule.hpp"

namespace smelt::comm {

class Endpoint;

class EagerPath {
 public:
  /// Translates this rank's schedule; empty if it does more than send, receive, copy and combine.
  static EagerPath compile(Endpoint& endpoint, const Recipe& recipe, const Schedule& schedule, Operation operation);

  /// Whether that call is short enough.
  bool fits(const Endpoint& endpoint, const Collective& call) const noexcept {
    if (call.uneven) [[unlikely]]
      return fits_uneven(endpoint, call);
    const std::size_t bytes = call.count * call.element_bytes;
    if (steps_.empty() || bytes == 0 || bytes > most_bytes_) return false;
    if (ticks()) return !merges_ || call.reduction.merge != nullptr;
    return call.operation != Operation::alltoall || call.in != call.out;
  }

  /// Runs a call that fits. False: interrupted, the communicator is broken.
  bool run(Endpoint& endpoint, const Collective& call) const noexcept;

  class PendingOperation;
  /// The same in parts: begins it, then does what can be done without waiting. False: blocked, the course says by what.
  void begin(Endpoint& endpoint, const Collective& call, PendingOperation& pending) const noexcept;
  bool advance(Endpoint& endpoint, const Collective& call, PendingOperation& pending) const noexcept;

 private:
  static constexpr std::size_t most_lines = 16;  ///< of a message

  /// Blocks at .. at+count-1 of a buffer.
  struct BlockRange {
    Buffer buffer = Buffer::none;
    std::uint16_t at = 0, count = 1;
  };
  struct EagerStep {
    Move::Kind kind{};
    bool theirs_first = false;
    BlockRange from{}, with{}, to{};
    Link* out = nullptr;
    Link* in = nullptr;
    std::uint64_t tick = 0;             ///< of post and await
    const std::byte* stage = nullptr;   ///< of get: of the rank that is read
    int source = -1;
  };
  /// Where the buffers of a call begin.
  struct CallBuffers {
    std::byte* base[5];
    std::size_t bytes;        ///< of a vector or block; of different ones that of the longest that travels
    std::uint64_t epoch = 0;  ///< of ticks
    std::size_t staged = 0;   ///< where in the stages

    std::size_t length(const BlockRange& place) const { return place.count * bytes; }
    std::size_t length(const EagerStep& copy) const { return length(copy.to); }
    static bool is_empty(const BlockRange&) { return false; }
    std::byte* at(const BlockRange& place) const { return base[static_cast<int>(place.buffer)] + place.at * bytes; }
    const std::byte* theirs(const EagerStep& step) const { return step.stage + staged + step.from.at * bytes; }
  };
  /// The same for blocks that may differ. Apart, as the others are too short for the question.
  struct UnevenCallBuffers : CallBuffers {
    const Collective* uneven = nullptr;  ///< the call, if they do

    std::size_t length(const BlockRange& place) const {
      return uneven == nullptr ? CallBuffers::length(place) : uneven_length(place);
    }
    /// A stage has the room of the longest block for each.
    std::size_t length(const EagerStep& copy) const {
      return length(uneven != nullptr && copy.to.buffer == Buffer::stage ? copy.from : copy.to);
    }
    std::byte* at(const BlockRange& place) const {
      return uneven == nullptr ? CallBuffers::at(place) : base[static_cast<int>(place.buffer)] + uneven_offset(place);
    }
    /// Then there is no message.
    bool is_empty(const BlockRange& place) const { return uneven != nullptr && length(place) == 0; }
    std::size_t uneven_length(const BlockRange& place) const noexcept;
    std::size_t uneven_offset(const BlockRange& place) const noexcept;
  };
  bool fits_uneven(const Endpoint& endpoint, const Collective& call) const noexcept;
  bool ticks() const noexcept { return schedule_ != nullptr; }
  EagerStep compile_step(Endpoint& endpoint, const Move& move, Operation operation) const;
  static bool send(Endpoint& endpoint, Link& link, const std::byte* data, std::size_t bytes) noexcept;
  static bool receive(Endpoint& endpoint, Link& link, std::byte* data, std::size_t bytes) noexcept;
  static bool await(Endpoint& endpoint, int source, std::uint64_t value) noexcept;
  static bool wait_for_tick(Endpoint& endpoint, int source, std::uint64_t value) noexcept;
  static CallBuffers buffers_of(Endpoint& endpoint, const Collective& call) noexcept;
  static UnevenCallBuffers uneven_buffers_of(Endpoint& endpoint, const Collective& call) noexcept;
  template <class ACallBuffers>
  bool run_in(ACallBuffers buffers, Endpoint& endpoint, const Collective& call) const noexcept;
  bool run_uneven(Endpoint& endpoint, const Collective& call) const noexcept;
  void take_stage(Endpoint& endpoint, CallBuffers& buffers) const noexcept;
  std::span<StagingRing::Use> uses(Endpoint& endpoint, const CallBuffers& buffers) const noexcept;
  void note_use(Endpoint& endpoint, const CallBuffers& buffers) const noexcept;
  bool begin(Endpoint& endpoint, CallBuffers& buffers) const noexcept;
  bool stage_is_free(Endpoint& endpoint, PendingOperation& pending) const noexcept;
  static bool messages_moved(const EagerStep& step, PendingOperation& pending) noexcept;
  template <class ACallBuffers>
  static bool combine(Endpoint& endpoint, const Collective& call, const ACallBuffers& buffers,
                      const EagerStep& step) noexcept;
  template <class ACallBuffers>
  static bool perform(Endpoint& endpoint, const Collective& call, const ACallBuffers& buffers,
                      const EagerStep& step) noexcept;

  std::vector<EagerStep> steps_;
  std::size_t most_bytes_ = 0;          ///< of a vector or block
  const Schedule* schedule_ = nullptr;  ///< that is followed by ticks; nullptr: by messages alone
  bool fills_stage_ = false;
  std::size_t stage_blocks_ = 0;  ///< that a stage takes; 0: none is used
  bool one_by_one_ = true;   ///< no step moves several blocks
  bool sums_apart_ = false;  ///< working memory holds more than the own block
  bool merges_ = false;      ///< what others own is combined: the operator must not need a place to do so
};

/// How far a call has come that is done in parts, and what it waits for: one of the last three.
class EagerPath::PendingOperation {
 public:
  Link* in = nullptr;          ///< a message
  std::uint32_t in_lines = 1;  ///< of the message that `in` is to bring
  Link* out = nullptr;         ///< room for one
  const Tick* tick = nullptr;
  std::uint64_t tick_value = 0;

 private:
  friend class EagerPath;
  UnevenCallBuffers buffers_;
  std::size_t at_ = 0;                         ///< step
  std::size_t sent_ = 0, received_ = 0;        ///< bytes of its messages
  bool stage_free_ = true;
  std::size_t place_ = 0, reader_ = 0;  ///< of what lies in the stage: next to be waited for
  alignas(line_bytes) std::byte operand_[most_lines * channel::line_payload];
};

}  // namespace smelt::comm
