// rep_2pc: every client has a replica; an update is voted on by all, and there is no server.
//
//   issuer: waits for its own flag and takes it
//   issuer --vote_request, key--> all    each: flag is free -> takes it for the issuer, votes for; else votes against
//   all for:       issuer --commit, value--> all: apply, free the flag --committed--> issuer: applies, frees its flag
//   some against:  issuer --abort--> all: free the flag if it is this issuer's; the issuer tries again a little later
//
// Invariant: of two issuers, at most one has all flags. That one has seen all former updates applied everywhere, since
// a flag is freed after its update has been applied. So replicas apply the same updates in the same order, and an
// operation that depends on the value is decided by its issuer.
// Linearizable: a lookup of a flagged key waits. When the first replica applies an update, all others have the flag, so
// the former value is no longer read.
//
// Figure 3.11 is wrong in two places, and the text around it right: line 20 lets a replica with a pending update vote
// for an issuer with a higher number (two issuers then commit, in different orders at different replicas), and line 26
// frees flags that are another issuer's. Here a pending update means a vote against every issuer, and the numbers of
// the issuers only order their next attempts. Source: [Shahmirzadi14] 3.4.2, figures 3.10 and 3.11.
#include <algorithm>

#include "base/clock.hpp"
#include "state/over_ranks/member.hpp"

namespace smelt::state::over_ranks {
namespace {

class Rep2pc final : public Member {
 public:
  Rep2pc(std::shared_ptr<Space> space, int rank, LocalTable table) : Member(std::move(space), rank, std::move(table)) {}

 private:
  static constexpr int free_flag = -1;
  static constexpr std::uint64_t first_pause_ns = 200;
  static constexpr std::uint64_t short_pause_ns = first_pause_ns << 10;
  static constexpr int most_doublings = 30;

  MapAnswer look_up(const GroupCall& call) noexcept override {
    step_now_and_then();
    if (is_pending(call)) await([&] { return !is_pending(call); });
    return {Status::ok, table_.get(call.key, call.hash, call.result), false};
  }

  bool is_pending(const GroupCall& call) const noexcept {
    return flag_ != free_flag && flag_hash_ == call.hash && flag_key_.bytes() == call.key;
  }

  /// An update that another rank may have seen before this call has the flag here until it is applied here.
  void collect(map_detail::VisitBytes visit, void* context) noexcept override {
    if (!is_mutant(Mutant::rep_2pc_snapshot_does_not_wait)) {
      step();
      const std::uint64_t before = flags_taken_;
      if (!await([&] { return flag_ == free_flag || flags_taken_ != before; })) return;
    }
    table_.for_each(visit, context);
  }

  MapAnswer update(const GroupCall& call) noexcept override {
    for (int attempt = 0; !win(call, attempt); ++attempt) {
      if (status_ != Status::ok) return {};
      // Ranks with low numbers retry first. The delay grows with the number of failures, until an attempt fits between
      // those of two ranks: attempts with long keys, or of more ranks than PUs, take milliseconds.
      const std::uint64_t most_ns = std::max(short_pause_ns, attempt_ns_);
      const std::uint64_t pause_ns = std::min(first_pause_ns << std::min(attempt, most_doublings), most_ns);
      const std::uint64_t until = monotonic_ns() + pause_ns * static_cast<std::uint64_t>(rank_ + 1);
      await([&] { return monotonic_ns() >= until; });
    }
    const MapAnswer answer = table_.apply(message_of(Kind::commit, call, rank_), call.hash, call.result);
    Message result;
    result.kind = answer.changed ? Kind::commit : Kind::abort;
    result.client = rank_;
    result.operation = call.operation == Operation::erase ? Operation::erase : Operation::put;
    result.key = call.key;
    if (answer.changed && result.operation == Operation::put) {
      table_.get(call.key, call.hash, fresh_.target());
      result.value = fresh_.bytes();
    }
    send_to_all(result);
    missing_ = answer.changed ? ranks() - 1 : 0;
    if (missing_ == 0) flag_ = free_flag;
    await([this] { return missing_ == 0; });
    return answer;
  }

  /// Takes all flags. False: another issuer has one.
  bool win(const GroupCall& call, int attempt) noexcept {
    const bool waits = !is_mutant(Mutant::rep_2pc_votes_for_higher);
    if (waits && !await([this] { return flag_ == free_flag; })) return false;
    take_flag(rank_, call.key, call.hash);
    const std::uint64_t begun = attempt == 0 ? 0 : monotonic_ns();  // mostly there is no second one
    Message request;
    request.kind = Kind::vote_request;
    request.client = rank_;
    request.key = call.key;
    missing_ = ranks() - 1;
    against_ = false;
    send_to_all(request);
    if (!await([this] { return missing_ == 0; })) return false;
    if (attempt != 0) attempt_ns_ = monotonic_ns() - begun;
    if (!against_) return true;
    request.kind = Kind::abort;
    request.key = {};
    send_to_all(request);
    flag_ = free_flag;
    return false;
  }

  void send_to_all(const Message& message) noexcept {
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank != rank_) links_.post(rank, message);
    }
  }

  void take_flag(int issuer, Bytes key, Word hash) noexcept {
    flag_ = issuer;
    flag_hash_ = hash;
    flag_key_.assign(key);
    ++flags_taken_;
  }

  void handle(int from, const Message& message) noexcept override {
    Message answer;
    switch (message.kind) {
      case Kind::vote_request:
        answer.kind = Kind::vote;
        if (flag_ == free_flag) {
          take_flag(from, message.key, table_.hash(message.key));
        } else if (!is_mutant(Mutant::rep_2pc_votes_for_higher) || flag_ > from) {
          answer.flags = Message::conflict;
        }
        return links_.post(from, answer);
      case Kind::vote:
        against_ |= (message.flags & Message::conflict) != 0;
        --missing_;
        break;
      case Kind::committed:
        // At once: the next message may be the request of a rank that has waited for this update.
        if (--missing_ == 0) flag_ = free_flag;
        break;
      case Kind::abort:
        if (flag_ == from || is_mutant(Mutant::rep_2pc_frees_others)) flag_ = free_flag;
        break;
      default:  // commit
        if (table_.apply(message, table_.hash(message.key), {}).status != Status::ok) {
          fail("a replica has no memory for an update that others have");
        }
        flag_ = free_flag;
        answer.kind = Kind::committed;
        links_.post(from, answer);
    }
  }

  int flag_ = free_flag;  ///< the issuer of the pending update
  Word flag_hash_ = 0;    ///< hash of its key
  Buffer flag_key_ = key_buffer();
  std::uint64_t flags_taken_ = 0;
  Buffer fresh_ = value_buffer();
  int missing_ = 0;               ///< answers
  std::uint64_t attempt_ns_ = 0;  ///< time of the last vote after a failure
  bool against_ = false;
};

}  // namespace

std::unique_ptr<Member> make_rep_2pc(std::shared_ptr<Space> space, int rank, LocalTable table) {
  return std::make_unique<Rep2pc>(std::move(space), rank, std::move(table));
}

}  // namespace smelt::state::over_ranks
