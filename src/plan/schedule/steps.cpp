// Step lists of every operation.
//
//   broadcast         receive from the parent, send to the children in order
//   reduce            combine from the children in reverse order, send to the parent
//   barrier           reduce, then broadcast; or dissemination
//   allreduce         reduce, then broadcast; or recursive doubling
//   two-phase commit  broadcast the proposal, reduce the votes, broadcast the decision; or broadcast the proposal,
//                     then an allreduce of the votes by recursive doubling
//
// Dissemination: in round k = 0, 1, .. rank i signals i + 2^k and waits for i - 2^k (mod n),
// ceil(log2 n) rounds. Two ranks: a single exchange.
//
// An allreduce must count every contribution once, which dissemination does for a power of two
// only. So `dissemination` is recursive doubling there: in round k rank i exchanges with i xor 2^k
// and combines. Of n = p + extra ranks (p the largest power of two) the last `extra` hand their
// value to rank i - p first and get the result from it last.
//
// Source: [Smelt16] 3.1 and 4, [Nishtala09] 2; recursive doubling as in MPI libraries.
#include "plan/schedule/steps.hpp"

#include <algorithm>

namespace smelt::plan {

namespace {

constexpr auto send = Step::Kind::send;
constexpr auto recv = Step::Kind::recv;
constexpr auto recv_combine = Step::Kind::recv_combine;

void append_broadcast(StepLists& steps, const Tree& tree, const std::vector<int>& parents) {
  for (int rank = 0; rank < tree.size(); ++rank) {
    if (parents[rank] >= 0) steps[rank].push_back({recv, parents[rank]});
    for (const int child : tree.children[rank]) steps[rank].push_back({send, child});
  }
}

void append_reduce(StepLists& steps, const Tree& tree, const std::vector<int>& parents) {
  for (int rank = 0; rank < tree.size(); ++rank) {
    const auto& children = tree.children[rank];
    for (auto it = children.rbegin(); it != children.rend(); ++it) steps[rank].push_back({recv_combine, *it});
    if (parents[rank] >= 0) steps[rank].push_back({send, parents[rank]});
  }
}

StepLists dissemination_barrier(int ranks) {
  StepLists steps(static_cast<std::size_t>(ranks));
  for (int distance = 1; distance < ranks; distance *= 2) {
    for (int rank = 0; rank < ranks; ++rank) {
      steps[rank].push_back({send, (rank + distance) % ranks});
      steps[rank].push_back({recv, (rank + ranks - distance) % ranks});
    }
  }
  return steps;
}

void append_recursive_doubling(StepLists& steps) {
  const int ranks = static_cast<int>(steps.size());
  int power = 1;
  while (power * 2 <= ranks) power *= 2;
  for (int rank = power; rank < ranks; ++rank) {
    steps[rank].push_back({send, rank - power});
    steps[rank - power].push_back({recv_combine, rank});
  }
  for (int distance = 1; distance < power; distance *= 2) {
    for (int rank = 0; rank < power; ++rank) {
      steps[rank].push_back({send, rank ^ distance});
      steps[rank].push_back({recv_combine, rank ^ distance});
    }
  }
  for (int rank = power; rank < ranks; ++rank) {
    steps[rank - power].push_back({send, rank});
    steps[rank].push_back({recv, rank - power});
  }
}

}  // namespace

bool reduces(Operation operation) noexcept { return operation != Operation::broadcast; }
bool broadcasts(Operation operation) noexcept { return operation != Operation::reduce; }

StepLists tree_steps(Operation operation, int ranks, const Tree* reduce_tree, const Tree* broadcast_tree) {
  StepLists steps(static_cast<std::size_t>(ranks));
  const std::vector<int> up = reduce_tree ? reduce_tree->parents() : std::vector<int>{};
  const std::vector<int> down = broadcast_tree ? broadcast_tree->parents() : std::vector<int>{};
  if (operation == Operation::two_phase_commit) append_broadcast(steps, *broadcast_tree, down);
  if (operation == Operation::two_phase_commit && reduce_tree == nullptr) {
    append_recursive_doubling(steps);
    return steps;
  }
  if (reduces(operation)) append_reduce(steps, *reduce_tree, up);
  if (broadcasts(operation)) append_broadcast(steps, *broadcast_tree, down);
  return steps;
}

StepLists dissemination_steps(Operation operation, int ranks) {
  if (operation == Operation::barrier) return dissemination_barrier(ranks);
  StepLists steps(static_cast<std::size_t>(ranks));
  append_recursive_doubling(steps);
  return steps;
}

}  // namespace smelt::plan
