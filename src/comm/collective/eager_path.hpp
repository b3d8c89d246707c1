// EagerPath: a schedule compiled for short messages. It omits what long messages need (chunks, extents, resumable
// state), and serves blocking calls.
//
//   move of the schedule   ->   step: the channels are resolved, addresses are base[buffer] + at * block bytes
//
// A message is a few lines through channels, or one chunk through the stages. Messages, ticks and stages are the same
// as those of Execution for the same schedule, so one rank may use this path while its peer uses Execution.
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
  /// Compiles this rank's schedule; empty if it contains more than sends, receives, copies and combinations.
  static EagerPath compile(Endpoint& endpoint, const Recipe& recipe, const Schedule& schedule, Operation operation);

  /// Whether the call is short enough.
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
  /// The same without waiting: begin() starts the call, advance() does as much as it can. False: blocked; `pending`
  /// says by what.
  void begin(Endpoint& endpoint, const Collective& call, PendingOperation& pending) const noexcept;
  bool advance(Endpoint& endpoint, const Collective& call, PendingOperation& pending) const noexcept;

 private:
  static constexpr std::size_t most_lines = 32;  ///< of a message

  /// Blocks at .. at+count-1 of a buffer.
  struct BlockRange {
    Buffer buffer = Buffer::none;
    std::uint16_t at = 0, count = 1;
  };
  struct EagerStep {
    Move::Kind kind{};
    bool theirs_first = false;
    BlockRange from{}, with{}, to{};  ///< await: those of the next step, if that reads a stage
    Link* out = nullptr;
    Link* in = nullptr;
    std::uint16_t row = 0;             ///< of the first of several sends in a row: how many
    std::uint64_t tick = 0;            ///< post and await
    const std::byte* stage = nullptr;  ///< get: the stage of the rank that is read
    int source = -1;
  };
  /// Addresses of the buffers of a call.
  struct CallBuffers {
    std::byte* base[5];
    std::size_t bytes;        ///< of a vector or block; of blocks of different sizes, the longest that is sent
    std::uint64_t epoch = 0;  ///< of ticks
    std::size_t staged = 0;   ///< offset in the stages

    std::size_t length(const BlockRange& place) const { return place.count * bytes; }
    std::size_t length(const EagerStep& copy) const { return length(copy.to); }
    static bool is_empty(const BlockRange&) { return false; }
    std::byte* at(const BlockRange& place) const { return base[static_cast<int>(place.buffer)] + place.at * bytes; }
    const std::byte* theirs(const EagerStep& step) const { return step.stage + staged + step.from.at * bytes; }
  };
  /// The same for blocks whose sizes may differ. A type of its own, so that other calls do not pay for the test.
  struct UnevenCallBuffers : CallBuffers {
    const Collective* uneven = nullptr;  ///< the call, if they do

    std::size_t length(const BlockRange& place) const {
      return uneven == nullptr ? CallBuffers::length(place) : uneven_length(place);
    }
    /// In a stage every block has the space of the longest one.
    std::size_t length(const EagerStep& copy) const {
      return length(uneven != nullptr && copy.to.buffer == Buffer::stage ? copy.from : copy.to);
    }
    std::byte* at(const BlockRange& place) const {
      return uneven == nullptr ? CallBuffers::at(place) : base[static_cast<int>(place.buffer)] + uneven_offset(place);
    }
    /// An empty block is not sent.
    bool is_empty(const BlockRange& place) const { return uneven != nullptr && length(place) == 0; }
    std::size_t uneven_length(const BlockRange& place) const noexcept;
    std::size_t uneven_offset(const BlockRange& place) const noexcept;
  };
  bool fits_uneven(const Endpoint& endpoint, const Collective& call) const noexcept;
  bool ticks() const noexcept { return schedule_ != nullptr; }
  EagerStep compile_step(Endpoint& endpoint, const Move& move, Operation operation) const;
  void note_fetches() noexcept;
  void note_rows() noexcept;
  template <class ACallBuffers>
  static void fetch_row(const ACallBuffers& buffers, std::span<const EagerStep> row) noexcept;
  template <class ACallBuffers>
  static void fetch_buffers(const ACallBuffers& buffers, const EagerStep& step) noexcept;
  template <class ACallBuffers>
  static bool fetch_and_wait(Endpoint& endpoint, const ACallBuffers& buffers, const EagerStep& step) noexcept;
  static bool send(Endpoint& endpoint, Link& link, const std::byte* data, std::size_t bytes) noexcept;
  static const std::byte* await_line(Endpoint& endpoint, Link& link) noexcept;
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
  const Schedule* schedule_ = nullptr;  ///< of a path that uses ticks; nullptr: messages only
  bool fills_stage_ = false;
  std::size_t stage_blocks_ = 0;  ///< blocks in a stage; 0: no stage is used
  bool receives_ = false;         ///< messages
  bool one_by_one_ = true;        ///< no step moves several blocks
  bool sums_apart_ = false;       ///< working memory holds more than the rank's own block
  bool merges_ = false;           ///< combines operands in other ranks' memory, which needs Reduction::merge
};

/// The progress of a call that is run by begin() and advance(), and what it waits for: `in`, `out` or `tick`.
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
  std::size_t at_ = 0;                   ///< step
  std::size_t sent_ = 0, received_ = 0;  ///< bytes of its messages
  bool stage_free_ = true;
  std::size_t place_ = 0, reader_ = 0;  ///< of what lies in the stage: next to be waited for
  alignas(line_bytes) std::byte operand_[most_lines * channel::line_payload];
};

}  // namespace smelt::comm
