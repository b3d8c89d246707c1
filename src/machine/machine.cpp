// Small members of the Machine value.
#include "smelt/machine.hpp"

#include <algorithm>
#include <cmath>

namespace smelt {

int Machine::index_of(int os_index) const noexcept {
  for (std::size_t i = 0; i < pus.size(); ++i) {
    if (pus[i].os_index == os_index) return static_cast<int>(i);
  }
  return -1;
}

int Allowance::parallelism() const noexcept {
  const double pu_count = static_cast<double>(pus.size());
  const double limit = cpu_quota > 0.0 ? std::min(pu_count, std::ceil(cpu_quota)) : pu_count;
  return std::max(1, static_cast<int>(limit));
}

}  // namespace smelt
