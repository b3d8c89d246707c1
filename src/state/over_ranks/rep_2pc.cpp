// rep_2pc: every client has a replica; an update is voted on by all, and there is no server.
//
//   issuer --vote_request, key, stamp--> all    each: lookups of the key wait; votes, after its own update if that one
//                                               is earlier
//   all votes: the issuer applies --commit, value--> all: apply, lookups go on --committed--> issuer: votes for those
//                                               that have waited
//
// Updates take turns in the order of (stamp, rank), where a stamp is larger than all that its rank has seen: the mutual
// exclusion of Ricart and Agrawala (1981). No request is refused, so nobody tries again, and every update has its turn:
// of the requests that others issue after they have seen it, none is earlier.
// Invariant: of two issuers, the one with the later turn gets the vote of the other one when all have applied that
// one's update. So replicas apply the same updates in the same order, and an operation that depends on the value is
// decided by its issuer.
// Linearizable: when the first replica applies an update, all others have voted, so their lookups of the key wait. A
// lookup waits for the updates that it finds, not for later ones: no replica applies those before the lookup begins.
//
// The text has no turns: a replica with a pending update votes against every issuer, which gives up and tries again a
// little later. Under load, the issuer that has won wins again, and others fail for seconds. Figure 3.11 is also wrong
// in two places, and the text around it right: line 20 lets a replica with a pending update vote for an issuer with a
// higher number (two issuers then commit, in different orders at different replicas), and line 26 ends the waiting for
// updates of other issuers. Source: [Shahmirzadi14] 3.4.2, figures 3.10 and 3.11.
#include <algorithm>
#include <vector>

#include "state/over_ranks/member.hpp"

namespace smelt::state::over_ranks {
namespace {

class Rep2pc final : public Member {
 public:
  Rep2pc(std::shared_ptr<Space> space, int rank, LocalTable table) : Member(std::move(space), rank, std::move(table)) {
    for (int other = 0; other < ranks(); ++other) pending_.push_back({false, false, 0, 0, key_buffer()});
  }

 private:
  /// The update of another rank.
  struct Pending {
    bool is_under_way, waits_for_vote;
    std::uint64_t number;  ///< of its rank's updates
    Word hash;
    Buffer key;
  };

  MapAnswer look_up(const GroupCall& call) noexcept override {
    step_now_and_then();
    if (under_way_ != 0) {
      await_pending([&](const Pending& it) { return it.hash == call.hash && it.key.bytes() == call.key; });
    }
    return {Status::ok, table_.get(call.key, call.hash, call.result), false};
  }

  /// An update that another rank may have seen before this call is pending here until it is applied here.
  void collect(map_detail::VisitBytes visit, void* context) noexcept override {
    if (!is_mutant(Mutant::rep_2pc_snapshot_does_not_wait)) {
      step();
      if (!await_pending([](const Pending&) { return true; })) return;
    }
    table_.for_each(visit, context);
  }

  /// Waits until the updates that `matches` names are over. False: the map has failed.
  template <class Matches>
  bool await_pending(Matches matches) noexcept {
    for (const Pending& it : pending_) {
      if (!it.is_under_way || !matches(it)) continue;
      const std::uint64_t number = it.number;
      if (!await([&] { return !it.is_under_way || it.number != number; })) return false;
    }
    return true;
  }

  MapAnswer update(const GroupCall& call) noexcept override {
    if (!await_turn(call)) return {};
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
    if (missing_ == 0) end_turn();
    await([this] { return missing_ == 0; });
    return answer;
  }

  /// Gets the votes of all others.
  bool await_turn(const GroupCall& call) noexcept {
    stamp_ = ++last_stamp_;
    Message request;
    request.kind = Kind::vote_request;
    request.client = rank_;
    request.stamp = stamp_;
    request.key = call.key;
    missing_ = ranks() - 1;
    send_to_all(request);
    return await([this] { return missing_ == 0; });
  }

  void end_turn() noexcept {
    stamp_ = no_update;
    for (int rank = 0; rank < ranks(); ++rank) {
      Pending& it = pending_[static_cast<std::size_t>(rank)];
      if (it.waits_for_vote) vote_for(rank);
      it.waits_for_vote = false;
    }
  }

  void vote_for(int issuer) noexcept {
    Message vote;
    vote.kind = Kind::vote;
    links_.post(issuer, vote);
  }

  void send_to_all(const Message& message) noexcept {
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank != rank_) links_.post(rank, message);
    }
  }

  void begin(int issuer, const Message& request) noexcept {
    Pending& it = pending_[static_cast<std::size_t>(issuer)];
    it.is_under_way = true;
    ++it.number;
    it.hash = table_.hash(request.key);
    it.key.assign(request.key);
    ++under_way_;
    last_stamp_ = std::max(last_stamp_, request.stamp);
    const bool own_is_first = stamp_ != no_update && std::pair(stamp_, rank_) < std::pair(request.stamp, issuer);
    it.waits_for_vote = own_is_first && !(is_mutant(Mutant::rep_2pc_votes_for_higher) && issuer > rank_);
    if (!it.waits_for_vote) vote_for(issuer);
  }

  void end(int issuer) noexcept {
    Pending& it = pending_[static_cast<std::size_t>(issuer)];
    under_way_ -= it.is_under_way ? 1 : 0;
    it.is_under_way = false;
  }

  void handle(int from, const Message& message) noexcept override {
    Message answer;
    switch (message.kind) {
      case Kind::vote_request: return begin(from, message);
      case Kind::vote: --missing_; break;
      case Kind::committed:
        // At once: others wait for their votes.
        if (--missing_ == 0) end_turn();
        break;
      case Kind::abort: end(from); break;
      default:  // commit
        if (table_.apply(message, table_.hash(message.key), {}).status != Status::ok) {
          fail("a replica has no memory for an update that others have");
        }
        end(from);
        for (int rank = 0; is_mutant(Mutant::rep_2pc_frees_others) && rank < ranks(); ++rank) end(rank);
        answer.kind = Kind::committed;
        links_.post(from, answer);
    }
  }

  static constexpr std::uint64_t no_update = 0;

  std::vector<Pending> pending_;  ///< of each rank
  int under_way_ = 0;             ///< how many of them
  std::uint64_t stamp_ = no_update;
  std::uint64_t last_stamp_ = 0;  ///< the latest one that this rank has seen
  int missing_ = 0;               ///< votes, or answers to the commit
  Buffer fresh_ = value_buffer();
};

}  // namespace

std::unique_ptr<Member> make_rep_2pc(std::shared_ptr<Space> space, int rank, LocalTable table) {
  return std::make_unique<Rep2pc>(std::move(space), rank, std::move(table));
}

}  // namespace smelt::state::over_ranks
