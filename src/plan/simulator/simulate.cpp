// The event-based simulator ([Kaestle16] 5.3.1). Every rank executes its steps in order; all start
// at 0. Per message from i to j:
//
//   i  |==send_ns==|
//      .            ~~propagation_ns~~
//   j  .  (polls)                     |==recv_ns==|
//
// A receive starts when the rank gets there or the message does, whichever is later. Messages of
// one ordered pair of ranks are taken in the order in which they were sent.
//
// Rows of sends and of receives, where the machine knows gaps. The lines of a row of sends leave the sender one after
// the other, although it is blocked for less; the misses of a row of receives overlap, so that messages that are there
// are taken faster than one at a time:
//
//   the next send starts    send_gap_ns after the start of the last; with other steps between them, or later
//   the next receive ends   max(end of the last receive + recv_gap_ns, message there + recv_ns)
//
// A swap: where a rank's send to a peer is directly followed by a receive from that peer and the
// peer's steps there mirror them, both are busy from the moment the later one starts for
// exchange_ns, if the machine has that measured: two messages under way at once on one pair of
// lines cost less than the sum of their parts. Without it they are two ordinary messages.
//
// arrival_ns is the time at which a rank has what the operation gives it: it holds the message
// (broadcast), has handed on its part or has the result (reduce), or has left the barrier. What it
// still forwards afterwards is in the timeline; the last arrival is also the end of all steps.
//
// Completion message ([Smelt16] 5.1): after a broadcast or a two-phase commit one leaf notifies the
// root, after a reduce the root notifies one leaf; the slowest choice of leaf counts. This is how operations are timed
// without a common clock, again and again. In reductions no rank but that leaf waits for the root, so that the parts of
// all others are there in time: where messages that wait cost less (gaps), the path from the leaf alone counts.
#include "plan/simulator/simulate.hpp"

#include <algorithm>
#include <queue>

#include "base/error.hpp"
#include "plan/trees/tree.hpp"

namespace smelt::plan {

namespace {

constexpr double never = -1.0;

struct MessageKey {
  int sender, receiver, ordinal;  // the ordinal-th from sender to receiver
  int rank;                       // whose step this is
  int step;
  bool operator<(const MessageKey& other) const {
    if (sender != other.sender) return sender < other.sender;
    if (receiver != other.receiver) return receiver < other.receiver;
    return ordinal < other.ordinal;
  }
  bool same(const MessageKey& other) const {
    return sender == other.sender && receiver == other.receiver && ordinal == other.ordinal;
  }
};

class StepSimulator {
 public:
  StepSimulator(const RankCosts& ranks, const SimulationInput& run) : ranks_(ranks), run_(run), steps_(*run.steps) {}

  Result<Simulation> run() {
    if (auto linked = link(); !linked) return linked.error();
    const auto n = static_cast<std::size_t>(ranks_.size());
    next_.assign(n, 0);
    now_.assign(n, 0.0);
    next_send_.assign(n, 0.0);
    receiving_.assign(n, false);
    sending_.assign(n, false);
    result_.arrival_ns.assign(n, 0.0);
    for (int rank = 0; rank < ranks_.size(); ++rank) ready_.emplace(0.0, rank);
    while (!ready_.empty()) {
      const int rank = ready_.top().second;
      ready_.pop();
      advance(rank);
    }
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      if (next_[rank] == static_cast<int>(steps_[rank].size())) continue;
      return make_error(Status::invalid_argument, "plan deadlocks: rank {} waits for rank {} in step {}", rank,
                        steps_[rank][next_[rank]].peer, next_[rank]);
    }
    finish();
    return std::move(result_);
  }

 private:
  // Finds for every step the step at its other end: partner_[offset_[rank] + step].
  Result<void> link() {
    const int n = ranks_.size();
    if (static_cast<int>(steps_.size()) != n) {
      return make_error(Status::invalid_argument, "plan has steps for {} ranks, its group has {}", steps_.size(), n);
    }
    std::vector<MessageKey> sends, recvs;
    offset_.assign(static_cast<std::size_t>(n) + 1, 0);
    for (int rank = 0; rank < n; ++rank) {
      offset_[rank + 1] = offset_[rank] + static_cast<int>(steps_[rank].size());
      for (int i = 0; i < static_cast<int>(steps_[rank].size()); ++i) {
        const Step& step = steps_[rank][i];
        if (step.peer < 0 || step.peer >= n || step.peer == rank) {
          return make_error(Status::invalid_argument, "step {} of rank {} names rank {}: not another rank of the group",
                            i, rank, step.peer);
        }
        if (step.kind == Step::Kind::send) sends.push_back({rank, step.peer, i, rank, i});
        if (step.kind != Step::Kind::send) recvs.push_back({step.peer, rank, i, rank, i});
      }
    }
    number(sends);
    number(recvs);
    partner_.assign(static_cast<std::size_t>(offset_[n]), -1);
    for (std::size_t i = 0; i < std::max(sends.size(), recvs.size()); ++i) {
      if (i >= sends.size() || i >= recvs.size() || !sends[i].same(recvs[i])) {
        const bool no_send = i >= sends.size() || (i < recvs.size() && recvs[i] < sends[i]);
        const MessageKey& odd = no_send ? recvs[i] : sends[i];
        return make_error(Status::invalid_argument, "plan deadlocks: step {} of rank {} has no counterpart at rank {}",
                          odd.step, odd.rank, steps_[odd.rank][odd.step].peer);
      }
      partner_[offset_[sends[i].rank] + sends[i].step] = recvs[i].step;
      partner_[offset_[recvs[i].rank] + recvs[i].step] = sends[i].step;
    }
    there_.assign(partner_.size(), never);
    return {};
  }

  // Sorts by pair and turns step numbers into ordinals within the pair.
  static void number(std::vector<MessageKey>& messages) {
    std::sort(messages.begin(), messages.end());
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const bool first =
          i == 0 || messages[i - 1].sender != messages[i].sender || messages[i - 1].receiver != messages[i].receiver;
      messages[i].ordinal = first ? 0 : messages[i - 1].ordinal + 1;
    }
  }

  // Runs a rank until it is done or must wait; who waits is put back by its peer's progress.
  void advance(int rank) {
    while (next_[rank] < static_cast<int>(steps_[rank].size())) {
      const Step& step = steps_[rank][next_[rank]];
      if (is_swap(rank, next_[rank])) {
        if (!swap(rank, step.peer)) return;
      } else if (step.kind == Step::Kind::send) {
        send(rank, step.peer);
      } else if (!receive(rank, step)) {
        return;
      }
    }
  }

  void send(int rank, int peer) {
    const double start = sending_[rank] ? next_send_[rank] : std::max(now_[rank], next_send_[rank]);
    const int at_peer = partner_[offset_[rank] + next_[rank]];
    now_[rank] = start + ranks_.send(rank, peer);
    next_send_[rank] = start + ranks_.send_gap(rank, peer);
    sending_[rank] = true;
    receiving_[rank] = false;
    there_[offset_[peer] + at_peer] = now_[rank] + ranks_.propagation(rank, peer);
    record(rank, Step::Kind::send, peer, start, now_[rank]);
    ++next_[rank];
    if (next_[peer] == at_peer) ready_.emplace(now_[rank], peer);
  }

  bool receive(int rank, const Step& step) {
    const double there = there_[offset_[rank] + next_[rank]];
    if (there == never) return false;
    const double start = std::max(now_[rank], there);
    const double recv = ranks_.recv(step.peer, rank);
    now_[rank] =
        receiving_[rank] ? std::max(now_[rank] + ranks_.recv_gap(step.peer, rank), there + recv) : start + recv;
    receiving_[rank] = true;
    sending_[rank] = false;
    result_.arrival_ns[rank] = now_[rank];
    record(rank, step.kind, step.peer, start, now_[rank]);
    ++next_[rank];
    return true;
  }

  // Steps i (send) and i + 1 (receive) of a rank mirror the peer's.
  bool is_swap(int rank, int i) const {
    if (!ranks_.has_exchange() || i + 1 >= static_cast<int>(steps_[rank].size())) return false;
    const Step &out = steps_[rank][i], &in = steps_[rank][i + 1];
    if (out.kind != Step::Kind::send || in.kind == Step::Kind::send || in.peer != out.peer) return false;
    return partner_[offset_[rank] + i] == partner_[offset_[rank] + i + 1] + 1;
  }

  // The later of the two moves both on; the earlier waits.
  bool swap(int rank, int peer) {
    const int at_peer = partner_[offset_[rank] + next_[rank] + 1];
    if (next_[peer] != at_peer) return false;
    const double start = std::max(now_[rank], now_[peer]);
    const double end = start + ranks_.exchange(rank, peer);
    const std::pair<int, int> sides[] = {{rank, peer}, {peer, rank}};
    for (const auto& [self, other] : sides) {
      const double sent = std::min(end, now_[self] + ranks_.send(self, other));
      record(self, Step::Kind::send, other, now_[self], sent);
      record(self, steps_[self][next_[self] + 1].kind, other, sent, end);
      now_[self] = next_send_[self] = result_.arrival_ns[self] = end;
      receiving_[self] = sending_[self] = false;
      next_[self] += 2;
    }
    ready_.emplace(end, peer);
    return true;
  }

  void record(int rank, Step::Kind kind, int peer, double start, double end) {
    if (run_.timeline) result_.timeline.push_back({rank, kind, peer, start, end});
  }

  void finish() {
    if (run_.operation == Operation::reduce) result_.arrival_ns = now_;
    result_.total_ns = *std::max_element(result_.arrival_ns.begin(), result_.arrival_ns.end());
    result_.completion_ns = completion();
    std::stable_sort(result_.timeline.begin(), result_.timeline.end(),
                     [](const TimelineEvent& a, const TimelineEvent& b) { return a.start_ns < b.start_ns; });
  }

  double completion() const {
    double slowest = result_.total_ns;
    if (!run_.leaves_of) return slowest;
    const int root = run_.leaves_of->root;
    if (run_.operation == Operation::reduce && ranks_.has_gaps(Direction::reduce)) return slowest_path();
    for (int leaf = 0; leaf < ranks_.size(); ++leaf) {
      if (leaf == root || !run_.leaves_of->children[leaf].empty()) continue;
      if (run_.operation == Operation::reduce) {
        slowest = std::max(slowest, now_[root] + ranks_.message(root, leaf));
      } else {
        const double there = now_[leaf] + ranks_.send(leaf, root) + ranks_.propagation(leaf, root);
        slowest = std::max(slowest, std::max(there, now_[root]) + ranks_.recv(leaf, root));
      }
    }
    return slowest;
  }

  // Of a reduction whose other parts wait: from each leaf to the root, past the messages taken after its own, and back.
  double slowest_path() const {
    const Tree& tree = *run_.leaves_of;
    std::vector<double> to_root(static_cast<std::size_t>(tree.size()), 0.0);
    double slowest = 0.0;
    for (const int parent : top_down(tree)) {
      double taken_after = 0.0;  // the last of the children is received first
      for (const int child : tree.children[parent]) {
        to_root[child] = ranks_.message(child, parent) + taken_after + to_root[parent];
        taken_after += ranks_.recv_gap(child, parent);
        if (!tree.children[child].empty()) continue;
        slowest = std::max(slowest, to_root[child] + ranks_.message(tree.root, child));
      }
    }
    return slowest;
  }

  const RankCosts& ranks_;
  const SimulationInput& run_;
  const StepLists& steps_;
  std::vector<int> offset_, partner_, next_;
  std::vector<double> there_;  // per receiving step: when its message can be taken up
  std::vector<double> now_;
  std::vector<double> next_send_;          // when the next send may start
  std::vector<bool> sending_, receiving_;  // the last step was a send, or a receive
  using Event = std::pair<double, int>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> ready_;
  Simulation result_;
};

}  // namespace

Result<Simulation> simulate_steps(const RankCosts& ranks, const SimulationInput& run) {
  return StepSimulator(ranks, run).run();
}

void add_call(double call_ns, std::vector<double>& arrival_ns) noexcept {
  for (double& each : arrival_ns) {
    if (each > 0.0) each += call_ns;
  }
}

const Tree* completion_tree(const Plan& plan) noexcept {
  switch (plan.operation) {
    case Operation::broadcast:
    case Operation::two_phase_commit: return plan.broadcast_tree ? &*plan.broadcast_tree : nullptr;
    case Operation::reduce: return plan.reduce_tree ? &*plan.reduce_tree : nullptr;
    default: return nullptr;
  }
}

}  // namespace smelt::plan
