// What the page on placed arrays shows in C++, as a program.
#include <cstdint>
#include <cstdio>
#include <smelt/array.hpp>
#include <smelt/communicator.hpp>
#include <span>
#include <vector>

#include "expect.hpp"

namespace {

constexpr std::size_t n = 10'000;
void allocate() {
  smelt::ArrayOptions options;
  options.placement = smelt::Placement::interleaved;
  auto array = smelt::Array<double>::create(n, options);
  if (!array) std::puts(array.error().message.c_str());
  double* values = array->data();
  values[n - 1] = 1.0;

  std::vector<std::uint32_t> rows(1000);  // which elements
  std::vector<double> found(rows.size());
  rows[7] = n - 1;
  array->take(std::span<const std::uint32_t>(rows), std::span<double>(found));  // found[i] = local()[rows[i]]
  expect(found[7] == 1.0, "what was taken is what lies there");
}

void loop() {
  auto comm = smelt::Communicator::create();
  auto x = smelt::Array<double>::create(n, *comm, {.placement = smelt::Placement::partitioned});
  auto ran = comm->run([&](smelt::Rank& rank) {
    const std::span<double> local = x->local();                  // once per thread
    smelt::parallel_for(rank, *x, [&](smelt::IndexRange part) {  // the rank's own part, on its node
      for (std::size_t i = part.first; i < part.last; ++i) local[i] *= 2;
    });
  });
  expect(bool(ran), "all ranks came to an end");
}

void choose() {
  const std::vector<double> source(n, 2.0);
  smelt::ArrayOptions options;  // placement and page size: the model's choice, from what is known about the accesses
  options.hints = {.access = smelt::AccessPattern::random, .read_only = true};
  auto table = smelt::Array<double>::create(n, options);
  table->copy_from(source);
  const std::span<const double> near = table->local();  // plain memory, on the thread's NUMA node
  expect(near[n - 1] == 2.0, "the array holds what was copied");
}

/// Called by each process, or each rank of one.
void replicate(smelt::Rank& rank) {
  auto table = smelt::Array<int>::create_shared(rank, "table", n, {.placement = smelt::Placement::replicated});
  expect(bool(table), "the table is there");
}

void containers() {
  smelt::Allocator<double> allocator({.placement = smelt::Placement::interleaved});
  std::vector<double, smelt::Allocator<double>> values(n, 0.0, allocator);
  expect(values.size() == n, "a vector of placed memory");
}

void shared() {
  const int mine[] = {0};
  auto comm = smelt::Communicator::create_shared("docs-table", 1, mine);
  auto rank = comm->attach(0);
  replicate(*rank);
}

}  // namespace

int main() {
  allocate();
  choose();
  loop();
  shared();
  containers();
  return failures;
}
