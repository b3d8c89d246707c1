// Communication behind computation: while the sum of one block is on its way, the next block is computed.
// Two persistent requests take turns, each with buffers of its own.
#include <cstdio>
#include <optional>
#include <smelt/communicator.hpp>
#include <vector>

namespace {

constexpr int blocks = 50;
constexpr std::size_t block_size = 20'000, slice_size = 1'000;

/// This rank's part of a block. Asks after the sum that is under way now and then: that moves it along.
void compute(std::vector<double>& part, int rank, int block, smelt::Request* under_way) {
  for (std::size_t begin = 0; begin < block_size; begin += slice_size) {
    for (std::size_t i = begin; i < begin + slice_size; ++i) part[i] = (rank + 1.0) * static_cast<double>(i) + block;
    bool done = false;
    if (under_way != nullptr) under_way->test(&done);
  }
}

bool is_sum(const std::vector<double>& sum, int size, int block) {
  const double factors = size * (size + 1) / 2.0;
  for (std::size_t i = 0; i < block_size; ++i) {
    if (sum[i] != factors * static_cast<double>(i) + static_cast<double>(size) * block) return false;
  }
  return true;
}

/// Number of blocks whose sum is right.
int work(smelt::Rank& rank) {
  std::vector<double> part[2], sum[2];
  std::optional<smelt::Request> requests[2];
  for (int k = 0; k < 2; ++k) {
    part[k].resize(block_size);
    sum[k].resize(block_size);
    requests[k] =
        rank.prepare(smelt::Collective::allreduce(part[k].data(), sum[k].data(), block_size, smelt::sum<double>()));
  }
  int right = 0;
  for (int block = 0; block <= blocks; ++block) {
    const int now = block % 2, before = 1 - now;
    if (block < blocks) {
      compute(part[now], rank.rank(), block, block > 0 ? &*requests[before] : nullptr);
      requests[now]->start();
    }
    if (block == 0) continue;
    if (requests[before]->wait() == smelt::Status::ok && is_sum(sum[before], rank.size(), block - 1)) ++right;
  }
  return right;
}

}  // namespace

int main() {
  auto communicator = smelt::Communicator::create();
  if (!communicator) {
    std::fprintf(stderr, "%s\n", communicator.error().message.c_str());
    return 1;
  }
  std::vector<int> right(static_cast<std::size_t>(communicator->size()));
  auto ran = communicator->run([&](smelt::Rank& rank) { right[static_cast<std::size_t>(rank.rank())] = work(rank); });
  if (!ran) {
    std::fprintf(stderr, "%s\n", ran.error().message.c_str());
    return 1;
  }
  std::printf("%d ranks: %d of %d sums, computed while the one before was under way, are right\n", communicator->size(),
              right[0], blocks);
  for (const int each : right) {
    if (each != blocks) return 1;
  }
  return 0;
}
