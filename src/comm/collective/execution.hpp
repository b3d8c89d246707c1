// Execution: a collective in progress, as a state machine. advance() does as much as it can without waiting. Blocking
// calls alternate between advance() and wait(); split-phase calls run advance() from start, test and wait.
//
// Invariants
// - A place of a stage is reused only after all ranks that read its former content have finished that chunk.
// - A rank's published buffers are read by others only between a tick of this operation and the tick that the
//   algorithm makes the owner wait for.
// - All ranks count epochs and stage chunks alike, because all choose the same schedule for the same call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/collective/eager_path.hpp"
#include "comm/collective/link.hpp"
#include "plan/schedule/schedule_internal.hpp"
#include "smelt/collective.hpp"
#include "smelt/schedule.hpp"

namespace smelt::comm {

class Endpoint;

/// Whether a buffer of an operation on blocks holds one block per rank.
bool holds_all(Operation operation, Buffer buffer) noexcept;

/// One rank's schedule for a recipe and a root.
struct CachedSchedule {
  Recipe recipe;
  Schedule schedule;
  EagerPath eager{};            ///< the same for short messages; may be empty
  std::optional<Route> tree{};  ///< of a recipe along a tree: the same for messages of a single line
};

class Execution {
 public:
  enum class Outcome { done, blocked, broken };

  /// Starts a call that has been checked. `prepared` and everything that the call points to must stay valid until its
  /// end. False: no memory for scratch space, and the communicator is broken.
  bool begin(Endpoint& endpoint, const Collective& call, const CachedSchedule& prepared) noexcept;

  Outcome advance() noexcept;

  /// After Outcome::blocked: waits until advance() can continue. False: interrupted.
  bool wait() noexcept;

 private:
  struct Extent {
    std::byte* data;
    std::size_t bytes;
  };
  /// Position of a transfer within the extents of an area.
  struct Cursor {
    int extent = 0;
    std::size_t offset = 0;
  };

  bool make_room() noexcept;

  std::size_t block_elements(Buffer buffer, int block) const noexcept;
  std::size_t block_offset(Buffer buffer, int block) const noexcept;
  std::size_t offset_at(Buffer buffer, int block, int owner) const noexcept;
  std::byte* published(Buffer buffer) const noexcept;
  std::byte* base_of(Buffer buffer, int owner) const noexcept;
  int extents(const Area& area) const noexcept;
  Extent locate(const Area& area, int extent, int owner) const noexcept;

  const std::vector<Move>& section() const noexcept;
  std::uint64_t tick_value(std::size_t chunk, int tick) const noexcept;
  std::size_t staged_at() const noexcept;
  void enter_chunk() noexcept;
  void start_move() noexcept;
  bool ready() const noexcept;

  Outcome advance_eager() noexcept;
  Outcome perform(const Move& move) noexcept;
  Outcome perform_messages(const Move& move) noexcept;
  int lender(const Area& area, int owner) const noexcept;
  Outcome perform_one_sided(const Move& move) noexcept;
  Outcome perform_shared(const Move& move) noexcept;
  Outcome perform_local(const Move& move) noexcept;
  Outcome perform_flush() noexcept;
  Outcome await(int source, std::uint64_t value) noexcept;
  Outcome reuse_stage() noexcept;

  bool is_direct(const Link& link, std::size_t bytes) const noexcept;
  bool push(Link& link, const Area& area, std::size_t most) noexcept;
  bool pull(Link& link, const Move& move, std::size_t most) noexcept;
  void take_line(Link& link, const Move& move, const Extent& extent) noexcept;
  void take_buffer(Link& link, const Move& move, const Extent& extent) noexcept;
  void transfer(pid_t process, std::byte* theirs, std::byte* mine, std::size_t bytes, bool write) noexcept;
  void transfer_by_detour(pid_t process, std::byte* theirs, std::byte* mine, std::size_t bytes, bool write) noexcept;
  void call_kernel(pid_t process, std::byte* theirs, std::byte* mine, std::size_t bytes, bool write) noexcept;
  void fetch(pid_t process, const std::byte* theirs, std::byte* to, std::size_t bytes) noexcept;
  void fold(std::byte* to, const std::byte* with, const std::byte* operand, std::size_t bytes,
            bool operand_first) noexcept;
  void fold_from(pid_t process, const std::byte* theirs, std::byte* to, const std::byte* with, std::size_t bytes,
                 bool theirs_first) noexcept;

  Endpoint* endpoint_ = nullptr;
  const CachedSchedule* prepared_ = nullptr;
  Collective call_;
  const EagerPath* eager_ = nullptr;  ///< that does it, if it is short enough for that
  EagerPath::PendingOperation pending_;
  plan::Chunking cutting_;
  std::uint64_t epoch_ = 0;                          ///< tick value of this operation's beginning
  std::size_t first_staged_ = 0, staged_bytes_ = 0;  ///< of the stages: where the first chunk lies, what each takes
  std::size_t chunk_ = 0;
  std::size_t elements_ = 0;            ///< of this chunk
  std::size_t stride_ = 0;              ///< bytes between the blocks of `work` and `stage`
  int section_ = 0;                     ///< 0 begin, 1 body, 2 end
  std::size_t at_ = 0;                  ///< move within the section
  bool stage_free_ = false;             ///< this chunk may be put into the stage
  std::size_t place_ = 0, reader_ = 0;  ///< of what lies there: next to be waited for

  // Of the move under way.
  Cursor sent_, received_;
  bool send_done_ = false, receive_done_ = false;
  std::size_t held_ = 0;          ///< received bytes that have not been combined yet
  std::size_t shared_bytes_ = 0;  ///< moved by this end of a transfer that both move

  // What advance() waits for: any of these.
  Link* wait_in_ = nullptr;
  std::uint32_t wait_lines_ = 1;  ///< of the message that wait_in_ is to bring
  Link* wait_out_ = nullptr;
  Link* wait_returned_ = nullptr;
  Tick* wait_tick_ = nullptr;
  std::uint64_t wait_value_ = 0;
};

}  // namespace smelt::comm
