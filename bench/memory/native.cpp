// Programs for programs.py that know nothing of smelt: memory_programs NAME MIB. Each prints a checksum.
//
//   gather   random reads of one array, by all PUs
//   join     a hash join: a table of the size is built from keys in random order, then probed
//   pages    an array that is allocated, filled, read once and given back, ten times
//   sparse   a large zeroed table of which one line in every 2 MiB is used
//   sort     std::sort of random numbers
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}

/// The sum of part(t) over a thread per PU.
template <class Part>
std::uint64_t by_all(const Part& part) {
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::uint64_t> sums(threads);
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) all.emplace_back([&, t] { sums[t] = part(t, threads); });
  std::uint64_t sum = 0;
  for (unsigned t = 0; t < threads; ++t) {
    all[t].join();
    sum += sums[t];
  }
  return sum;
}

std::uint64_t gather(std::size_t bytes) {
  std::vector<std::uint64_t> data(bytes / 8);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = i * 3;
  return by_all([&](unsigned t, unsigned threads) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = t; i < 60'000'000; i += threads) sum += data[mix(i) % data.size()];
    return sum;
  });
}

std::uint64_t join(std::size_t bytes) {
  struct Slot {
    std::uint64_t key, value;
  };
  const std::size_t slots = bytes / sizeof(Slot), keys = slots / 2;
  const std::unique_ptr<Slot[]> table(new Slot[slots]());
  for (std::uint64_t k = 1; k <= keys; ++k) {
    std::size_t at = mix(k) % slots;
    while (table[at].key != 0) at = at + 1 == slots ? 0 : at + 1;
    table[at] = {k, k * 7};
  }
  return by_all([&](unsigned t, unsigned threads) {
    std::uint64_t sum = 0;
    for (std::uint64_t k = t + 1; k <= 2 * keys; k += threads) {
      std::size_t at = mix(k) % slots;
      while (table[at].key != 0 && table[at].key != k) at = at + 1 == slots ? 0 : at + 1;
      if (table[at].key == k) sum += table[at].value;
    }
    return sum;
  });
}

std::uint64_t pages(std::size_t bytes) {
  std::uint64_t sum = 0;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::uint64_t> data(bytes / 8, static_cast<std::uint64_t>(round));
    for (const auto value : data) sum += value;
  }
  return sum;
}

std::uint64_t sparse(std::size_t bytes) {
  auto* const table = static_cast<unsigned char*>(std::calloc(bytes, 1));
  if (table == nullptr) return 0;
  constexpr std::size_t stride = 2 << 20;
  const std::size_t count = bytes / stride;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < 60000 * count; ++i) sum += ++table[mix(i) % count * stride];
  std::free(table);
  return sum;
}

std::uint64_t sort(std::size_t bytes) {
  std::vector<std::uint64_t> data(bytes / 8);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = mix(i);
  std::sort(data.begin(), data.end());
  return data[data.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const std::size_t bytes = (argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 512) << 20;
  std::uint64_t (*const programs[])(std::size_t) = {gather, join, pages, sparse, sort};
  const char* const names[] = {"gather", "join", "pages", "sparse", "sort"};
  for (int i = 0; i < 5; ++i) {
    if (name != names[i]) continue;
    std::printf("%llu\n", static_cast<unsigned long long>(programs[i](bytes)));
    return 0;
  }
  std::fprintf(stderr, "memory_programs gather|join|pages|sparse|sort [MIB]\n");
  return 2;
}
