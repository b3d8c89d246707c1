// The times of copies, estimated and out of measured numbers.
#include "machine/copy_costs.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "smelt/machine.hpp"

namespace smelt {
namespace {

Machine two_packages() {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 4;
  return *synthesize_machine(spec);
}

TEST(CopyEstimate, NeverFallsWithBytes) {
  const auto machine = two_packages();
  for (std::size_t to = 0; to < machine.size(); ++to) {
    double before = 0.0;
    for (double bytes = 0; bytes < 1 << 26; bytes = bytes * 1.7 + 1) {
      const double now = copy_ns(machine, 0, to, bytes);
      EXPECT_GE(now, before);
      before = now;
    }
  }
}

}  // namespace
}  // namespace smelt
