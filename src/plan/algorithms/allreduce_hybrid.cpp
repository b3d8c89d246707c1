// Hybrid allreduce: shared memory inside a cache domain, channels between domains. The first rank of each
// domain combines its members' inputs; these leaders combine by recursive doubling; members copy the sum.
//
// Ticks: 1 = a member's input can be read, 2 = the leader's sum can be read.
//
// Source: [Kaestle16] 6.2, "Hybrids".
#include <algorithm>

#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

/// Recursive doubling among the leaders; those beyond a power of two hand in before and fetch after.
Area combine_among(Builder& b, const std::vector<int>& leaders, Area value) {
  const int n = static_cast<int>(leaders.size());
  const int self = static_cast<int>(std::find(leaders.begin(), leaders.end(), b.rank) - leaders.begin());
  const int power = largest_power_of_two(n);
  const auto leader = [&](int index) { return leaders[static_cast<std::size_t>(index)]; };
  const auto other = [](Area area) { return area == work() ? out() : work(); };
  if (self >= power) {
    b.send(leader(self - power), value);
    b.flush();
    b.recv(leader(self - power), out());
    return out();
  }
  if (self + power < n) {
    b.recv_combine(leader(self + power), value, other(value));
    value = other(value);
  }
  for (int distance = 1; distance < power; distance *= 2) {
    const int partner = leader(self ^ distance);
    b.exchange_combine(partner, value, partner, value, other(value), partner < b.rank);
    value = other(value);
  }
  if (self + power < n) b.send(leader(self + power), value);
  return value;
}

void build_allreduce_hybrid(Builder& b) {
  constexpr int readable = 1, summed = 2, ticks = 3;
  if (b.ranks == 1) return b.copy(in(), out());
  const auto& domains = b.request.domains;
  const int domain = domains[static_cast<std::size_t>(b.rank)];
  const int leader = static_cast<int>(std::find(domains.begin(), domains.end(), domain) - domains.begin());
  if (b.rank != leader) {
    b.use_stage(1, ticks, {leader});
    b.copy(in(), stage());
    b.post(readable);
    b.await(leader, summed);
    b.get(leader, stage(), out());
    return;
  }
  std::vector<int> others, leaders;
  std::vector<bool> seen(static_cast<std::size_t>(*std::max_element(domains.begin(), domains.end())) + 1, false);
  for (int rank = 0; rank < b.ranks; ++rank) {
    const auto theirs = static_cast<std::size_t>(domains[static_cast<std::size_t>(rank)]);
    if (static_cast<int>(theirs) == domain && rank != leader) others.push_back(rank);
    if (!seen[theirs]) leaders.push_back(rank);
    seen[theirs] = true;
  }
  b.use_stage(1, ticks, others);
  b.schedule.work_blocks = 1;
  Area value = in();
  for (int member : others) {
    b.await(member, readable);
    b.get_combine(member, stage(), value, work());
    value = work();
  }
  value = combine_among(b, leaders, value);
  if (!others.empty()) {
    b.copy(value, stage());
    b.post(summed);
  }
  b.copy(value, out());
}

}  // namespace

const Algorithm allreduce_hybrid = {{.name = "allreduce_hybrid",
                                     .operation = Operation::allreduce,
                                     .description = "shared memory inside a cache domain, channels between domains",
                                     .access = {Access::staged},
                                     .keeps_rank_order = false,
                                     .pipelined = true},
                                    build_allreduce_hybrid};

}  // namespace smelt::plan
