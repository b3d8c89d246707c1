// The dot product of two vectors: each rank multiplies its slice, an allreduce adds up the parts.
#include <cstdio>
#include <numeric>
#include <smelt/communicator.hpp>
#include <vector>

int main() {
  const std::size_t n = 1'000'000;
  std::vector<double> x(n, 0.5), y(n, 4.0);

  auto communicator = smelt::Communicator::create();  // one rank per core that this process may use
  if (!communicator) {
    std::fprintf(stderr, "%s\n", communicator.error().message.c_str());
    return 1;
  }
  std::vector<double> results(static_cast<std::size_t>(communicator->size()));
  auto ran = communicator->run([&](smelt::Rank& rank) {
    const auto me = static_cast<std::size_t>(rank.rank()), size = static_cast<std::size_t>(rank.size());
    const auto begin = static_cast<std::ptrdiff_t>(n * me / size),
               end = static_cast<std::ptrdiff_t>(n * (me + 1) / size);
    const double part = std::inner_product(x.begin() + begin, x.begin() + end, y.begin() + begin, 0.0);
    rank.allreduce(&part, &results[me], 1, smelt::sum<double>());  // the same bits on every rank
  });
  if (!ran) {
    std::fprintf(stderr, "%s\n", ran.error().message.c_str());
    return 1;
  }
  std::printf("%d ranks: x . y = %.1f\n", communicator->size(), results[0]);
  for (const double result : results) {
    if (result != 2.0 * n) return 1;
  }
  return 0;
}
