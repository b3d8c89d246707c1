// What part_simple and part_caching share: the owner of a key, and snapshots of keys that several servers own.
//
//   snapshot: for each server, in the order of their numbers: --list--> freezes, sends all its cells; then, to all:
//             --unfreeze-->
//
// A frozen server executes no update: requests for one wait, lookups do not. A server is frozen for one rank at a time;
// others wait for their turn.
// Linearizable: after the last server has frozen and before the first one is told to go on, no update takes effect, and
// the cells are those of that time.
// No deadlock: all ranks freeze servers in the same order, and a rank that waits handles the messages of others.
#pragma once

#include <deque>

#include "state/over_ranks/member.hpp"

namespace smelt::state::over_ranks {

class Partitioned : public Member {
 public:
  using Member::Member;

 protected:
  int owner_of(Word hash) const noexcept { return shape().server(server_of(hash, shape().servers)); }
  bool is_frozen() const noexcept { return frozen_for_ != nobody && !goes_on(); }

  /// Executes a request for an update that has waited.
  virtual void accept(int from, const Message& request) noexcept = 0;
  /// Called when updates may go on, before those that have waited.
  virtual void thaw() noexcept {}

  /// Whether the message has been dealt with here.
  bool is_handled(int from, const Message& message) noexcept {
    switch (message.kind) {
      case Kind::list:
        if (frozen_for_ == nobody) {
          freeze_for(from);
        } else {
          next_.push_back(from);
        }
        return true;
      case Kind::unfreeze: unfreeze(); return true;
      case Kind::cell:
      case Kind::listed: take_cell(message); return true;
      case Kind::request:
        if (!is_frozen() || message.operation == Operation::get) return false;
        keep(message);
        return true;
      default: return false;
    }
  }

  void collect(map_detail::VisitBytes visit, void* context) noexcept final {
    for (std::uint32_t i = 0; i < shape().servers; ++i) {
      const int server = shape().server(i);
      if (server != rank_) {
        if (!collect_from(server, visit, context)) return;
        continue;
      }
      if (!await([this] { return frozen_for_ == nobody; })) return;
      frozen_for_ = rank_;
      table_.for_each(visit, context);
    }
    Message go_on;
    go_on.kind = Kind::unfreeze;
    for (std::uint32_t i = 0; i < shape().servers; ++i) links_.post(shape().server(i), go_on);
    await([this] { return frozen_for_ != rank_; });
  }

 private:
  static constexpr int nobody = -1;
  static bool goes_on() noexcept { return is_mutant(Mutant::part_snapshot_does_not_freeze); }

  void keep(const Message& request) noexcept {
    const std::size_t words = links_.coding().encode(request, kept_);
    waiting_.push(kept_.data(), words);
  }

  void freeze_for(int rank) noexcept {
    frozen_for_ = rank;
    send_cells(rank);
  }

  void unfreeze() noexcept {
    frozen_for_ = nobody;
    thaw();
    while (!waiting_.empty()) {
      std::size_t words = 0;
      const Word* request = waiting_.front(&words);
      kept_.assign(request, request + words);
      waiting_.pop();
      const Message message = links_.coding().decode(kept_.data());
      accept(message.client, message);
    }
    if (next_.empty()) return;
    const int rank = next_.front();
    next_.pop_front();
    freeze_for(rank);
  }

  int frozen_for_ = nobody;
  std::deque<int> next_;  ///< ranks that wait for their turn
  MessageQueue waiting_;  ///< requests for updates
  std::vector<Word> kept_;
};

}  // namespace smelt::state::over_ranks
