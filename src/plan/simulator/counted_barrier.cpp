#include "plan/simulator/counted_barrier.hpp"

#include <algorithm>
#include <vector>

#include "plan/schedule/lowering.hpp"
#include "plan/trees/costs.hpp"

namespace smelt::plan {

double counted_barrier_ns(const Machine& machine, const Group& group, bool processes) {
  if (group.size() < 2) return 0.0;
  const RankCosts costs(machine, group);
  std::vector<int> ranks_on(machine.size(), 0);
  for (const int pu : group.pus) ++ranks_on[static_cast<std::size_t>(pu)];
  const int most = *std::max_element(ranks_on.begin(), ranks_on.end());
  const double switch_ns = most > 1 ? known_switch_ns(machine, processes) : 0.0;
  // The counter's line goes from PU to PU, the generation's from the PU that opens the barrier to all others.
  double line_ns = 0.0;
  for (int rank = 1; rank < group.size(); ++rank) line_ns = std::max(line_ns, costs.message(0, rank));
  const bool one_pu = ranks_on[static_cast<std::size_t>(group.pus[0])] == group.size();
  const auto pus = std::count_if(ranks_on.begin(), ranks_on.end(), [](int ranks) { return ranks > 0; });
  if (one_pu) return most * switch_ns;
  if (!machine.counter_ns) return most * switch_ns + static_cast<double>(pus) * line_ns;
  return most * switch_ns + static_cast<double>(pus) * *machine.counter_ns + line_ns +
         costs.fan_out(0, group.size() - 1, static_cast<int>(pus) - 1);
}

}  // namespace smelt::plan
