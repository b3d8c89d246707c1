// Stress of the replicated log's orders: plain memory that ranks hand to each other by appending, and commands that are
// copied as plain memory (SMELT_LOG_PLAIN_COPY).
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "smelt/machine.hpp"
#include "state/log/replica.hpp"
#include "stress.hpp"

/// Where records of the dead are kept. Nobody dies here.
std::filesystem::path smelt::cache_path(const std::string&) { return "/nowhere/0"; }

namespace {

using smelt::Entry;
using smelt::Status;

constexpr int ranks = 3, rounds = 6;  // in one of them the ranks may have run one after the other
constexpr std::uint64_t appends = 10'000;

std::uint64_t written[ranks][appends + 1];  ///< by its rank before it appends, read by whoever delivers

struct Reader {
  std::uint64_t sum = 0;
  static void apply(void* context, const Entry& entry) {
    std::uint64_t command[4];
    std::memcpy(command, entry.data, sizeof command);
    static_cast<Reader*>(context)->sum += written[entry.client][entry.request] + command[3];
  }
};

std::uint64_t stress(int round) {
  smelt::LogOptions options;
  options.entries = 64;
  options.requests = 4;
  options.evict_after_s = 1e9;
  options.leader = 0;
  const int own[] = {0, 1, 2};
  auto space = smelt::state::log::Space::create_shared(
      "ordering-" + std::to_string(getpid()) + "-" + std::to_string(round), ranks, own, options, 20.0);
  if (!space) return std::fprintf(stderr, "%s\n", space.error().message.c_str()), 1;
  Reader readers[ranks];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      smelt::state::log::Replica replica(*space, rank, {&readers[rank], &Reader::apply, nullptr, nullptr});
      for (std::uint64_t number = 1; number <= appends; ++number) {
        written[rank][number] = number;
        const std::uint64_t command[4] = {number, number, number, number};
        std::uint64_t request = 0;
        if (replica.start(command, sizeof command, &request) != Status::ok) return;
        if (replica.wait(request, nullptr) != Status::ok) return;
      }
      const auto all = [](void* context) {
        return static_cast<smelt::state::log::Replica*>(context)->delivered() == ranks * appends;
      };
      replica.serve(all, &replica);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& reader : readers) {
    if (reader.sum != ranks * appends * (appends + 1)) return std::fprintf(stderr, "wrong sum\n"), 1;
  }
  return 0;
}

}  // namespace

int main() {
  int started = 0;
  return smelt::stress::verdict(smelt::stress::repeated([&] {
    std::uint64_t failed = 0;
    for (int round = 0; round < rounds; ++round) failed += stress(started++);
    return failed;
  }));
}
