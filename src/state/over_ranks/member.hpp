// Common base of all algorithms: a rank that waits serves the others.
//
// Invariants:
//   1. A member's state is used only by its thread. Ranks share nothing but channels.
//   2. The handling of a message may send, but never waits.
//   3. A client has at most one pending operation, or one batch of part_simple.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "state/over_ranks/links.hpp"
#include "state/over_ranks/local_table.hpp"
#include "state/over_ranks/mutants.hpp"
#include "state/over_ranks/space.hpp"

namespace smelt::state::over_ranks {

class Member : public map_detail::GroupMember {
 public:
  Member(std::shared_ptr<Space> space, int rank, LocalTable table);
  ~Member() override;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  MapAnswer call(const GroupCall& call) noexcept final;
  void run(std::span<const GroupCall> calls, std::span<MapAnswer> answers) noexcept override;
  Status progress() noexcept final;
  Status serve(bool (*stop)(void* context), void* context) noexcept override;
  Status finish() noexcept final;
  Status status() const noexcept final { return status_; }
  const std::string& failure() const noexcept final { return failure_; }
  void for_each_here(map_detail::VisitBytes visit, void* context) const final { table_.for_each(visit, context); }
  Status snapshot(map_detail::VisitBytes visit, void* context) noexcept final;

 protected:
  virtual MapAnswer look_up(const GroupCall& call) noexcept = 0;
  virtual MapAnswer update(const GroupCall& call) noexcept = 0;
  virtual void handle(int from, const Message& message) noexcept = 0;
  /// Visits all cells at one moment, if the map does not fail meanwhile.
  virtual void collect(map_detail::VisitBytes visit, void* context) noexcept = 0;
  /// Besides handling messages. Returns whether there was something to do.
  virtual bool work() noexcept { return false; }
  /// Called when all have finished: sends what others wait for, and returns whether everything has arrived here.
  virtual void close() noexcept {}
  virtual bool is_closed() noexcept { return true; }
  /// A rank on which this one depends and that has left; otherwise -1.
  virtual int missing() noexcept;

  const Shape& shape() const noexcept { return layout_.head().shape; }
  int ranks() const noexcept { return static_cast<int>(shape().ranks); }
  comm::Membership& members() noexcept { return space_->members(); }
  bool may_call() noexcept;
  Status fail(const std::string& why) noexcept;

  /// Returns whether there was something to do.
  bool step() noexcept {
    const bool sent = links_.flush();
    // After a failure, an answer may be one to a call that has ended. Messages are still taken: others wait for room.
    const bool handled = links_.poll([this](int from, const Message& message) {
      if (status_ == Status::ok) handle(from, message);
    });
    return work() || handled || sent;
  }
  /// Called by local lookups, because others may wait for this rank.
  void step_now_and_then() noexcept {
    if ((++lookups_ & 7) == 0) step();
  }

  /// Steps until `done()`. False: the map has failed.
  template <class Done>
  bool await(Done done) noexcept {
    for (;;) {
      // A new wait for each event, so that a replica stays awake for a while after it has worked.
      const auto ready = [&] { return step() || done() || status_ != Status::ok; };
      if (!waiter_.wait(ready, &layout_.part(rank_).bell)) look_around(done);
      if (status_ != Status::ok) return false;
      if (done()) return true;
    }
  }

  bool strings() const noexcept { return shape().strings != 0; }
  Buffer value_buffer() const { return {shape().geometry.value_words, strings()}; }
  Buffer key_buffer() const { return {shape().geometry.key_words, strings()}; }

  /// Visits all cells of another rank, which gets a message of kind `list` and answers it by send_cells(). False: the
  /// map has failed.
  bool collect_from(int rank, map_detail::VisitBytes visit, void* context) noexcept;
  void send_cells(int to) noexcept;
  /// The answers to `list`.
  void take_cell(const Message& message) noexcept;

  std::shared_ptr<Space> space_;
  const Layout& layout_;
  const int rank_;
  Links links_;
  LocalTable table_;
  Status status_ = Status::ok;
  std::string failure_;

 private:
  bool needs_attention() noexcept;
  /// Checks for deaths. Messages from dead ranks are still valid.
  template <class Done>
  void look_around(Done& done) noexcept {
    space_->look_for_deaths();
    const int rank = missing();
    if (rank < 0) return;
    step();
    if (!done()) report_missing(rank);
  }
  void report_missing(int rank) noexcept;
  void ring_all() noexcept;

  Waiter waiter_;
  comm::ThreadExitGuard guard_;
  map_detail::VisitBytes visit_ = nullptr;  ///< while cells of another rank are being collected
  void* visit_context_ = nullptr;
  std::uint32_t lookups_ = 0;
};

/// The member of the space's algorithm.
Result<std::unique_ptr<Member>> make_member(std::shared_ptr<Space> space, int rank, LocalTable table);

// One file each.
std::unique_ptr<Member> make_part_simple(std::shared_ptr<Space> space, int rank, LocalTable table);
Result<std::unique_ptr<Member>> make_part_caching(std::shared_ptr<Space> space, int rank, LocalTable table);
std::unique_ptr<Member> make_sequenced(std::shared_ptr<Space> space, int rank, LocalTable table);
std::unique_ptr<Member> make_rep_2pc(std::shared_ptr<Space> space, int rank, LocalTable table);
Result<std::unique_ptr<Member>> make_kv(std::shared_ptr<Space> space, int rank, LocalTable table);

/// The server of a key, by bits of the hash that the tables hardly use.
inline std::uint32_t server_of(Word hash, std::uint32_t servers) noexcept {
  return static_cast<std::uint32_t>((hash >> 16 & 0xffffffff) * servers >> 32);
}

}  // namespace smelt::state::over_ranks
