#include "plan/costs.hpp"

#include <algorithm>
#include <limits>

namespace smelt::plan {

namespace {

// Nothing is known about two ranks on a machine of one PU; any positive constant ranks the trees alike.
constexpr double lone_pu_ns = 10.0;

bool shares_pus(const Group& group) {
  std::vector<int> sorted = group.pus;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

// Tiles keep both the rows read and the columns written in cache when a matrix is turned around.
constexpr int tile = 32;

}  // namespace

RankCosts::RankCosts(const Machine& machine, const Group& group) : machine_(&machine), group_(&group) {
  if (!shares_pus(group)) return;
  double cheapest = std::numeric_limits<double>::infinity();
  shared_send_ = shared_recv_ = lone_pu_ns;
  for (const int a : group.pus) {
    for (const int b : group.pus) {
      if (a == b) continue;
      const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
      const double sum = machine.send_ns(i, j) + machine.recv_ns(i, j);
      if (sum >= cheapest) continue;
      cheapest = sum;
      shared_send_ = machine.send_ns(i, j);
      shared_recv_ = machine.recv_ns(i, j);
    }
  }
}

CostTable::CostTable(const DirectedCosts& costs) : size_(costs.size()) {
  const auto cells = static_cast<std::size_t>(size_) * static_cast<std::size_t>(size_);
  send_ = std::make_unique_for_overwrite<float[]>(cells);
  latency_ = std::make_unique_for_overwrite<float[]>(cells);
  for (int top = 0; top < size_; top += tile) {
    for (int left = 0; left < size_; left += tile) {
      for (int p = top; p < std::min(top + tile, size_); ++p) {
        for (int c = left; c < std::min(left + tile, size_); ++c) {
          send_[index(p, c)] = p == c ? 0.0F : static_cast<float>(costs.send(p, c));
          latency_[index(p, c)] = p == c ? 0.0F : static_cast<float>(costs.latency(p, c));
        }
      }
    }
  }
}

}  // namespace smelt::plan
