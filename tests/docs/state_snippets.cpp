// What the pages on shared state show in C++, as a program.
#include <unistd.h>

#include <cstdio>
#include <map>
#include <smelt/map.hpp>
#include <smelt/map_group.hpp>
#include <smelt/replicated_log.hpp>
#include <span>
#include <string>

#include "expect.hpp"

namespace {

void count_hits() {
  const std::uint64_t page = 7;
  auto hits = smelt::Map<std::uint64_t, std::uint64_t>::create_shared("hits", {.capacity = 100'000});
  if (!hits) std::puts(hits.error().message.c_str());
  hits->fetch_add(page, 1);
  if (const auto count = hits->get(page)) std::printf("%lu\n", *count);
  expect(hits->get(page).has_value(), "the page has been hit");
}

struct Quote {
  double bid, ask;
};

void keep_prices() {
  using Id = std::uint64_t;
  auto prices = smelt::Map<Id, Quote>::create_shared("prices", {.keep = true});
  // later, in another process:
  auto again = smelt::Map<Id, Quote>::open("prices");
  expect(prices && again, "a kept map can be opened");
  expect(bool(smelt::remove_map("prices")), "a kept map can be removed");
}

void keep_names() {
  auto names = smelt::StringMap::create_shared("names");
  names->put("user 17", "Ada");
  expect(names->get("user 17") == "Ada", "a name is found");
}

struct Add {
  int key, value;
  int operator()(std::map<int, int>& map) const { return map[key] += value; }
};

void agree() {
  const int rank = 0;
  auto log = smelt::ReplicatedLog::create_shared("counts", 1, std::span(&rank, 1));  // in each process
  auto map = smelt::Replicated<std::map<int, int>, Add>::attach(*log, rank);
  int sum = *map->update(Add{1, 5});                                // on all replicas, once
  int now = *map->read([](const auto& all) { return all.at(1); });  // sees every update that has returned
  expect(sum == 5 && now == 5, "an update is seen by reads");
}

void keep_sums() {
  const int rank = 0, size = 1;
  for (int life = 1; life <= 2; ++life) {
    smelt::LogOptions options;
    options.keep = true;
    auto log = smelt::ReplicatedLog::create_shared("sums", size, std::span(&rank, 1), options);  // in each process
    auto sums = smelt::Replicated<std::map<int, int>, Add>::attach(*log, rank);                  // as it was at the end
    expect(*sums->update(Add{1, 5}) == 5 * life, "a kept log goes on where it ended");
  }
  expect(bool(smelt::remove_log("sums")), "a kept log can be removed");
}

void share_among_ranks() {
  auto communicator = smelt::Communicator::create(2);
  auto map = smelt::MapGroup<int, double>::create(*communicator, {.algorithm = "part_simple"});
  auto ran = communicator->run([&](smelt::Rank& rank) {
    auto mine = map->attach(rank.rank());
    mine->put(rank.rank(), 0.5);
    mine->finish();  // serves the others until they have finished, too
  });
  expect(ran && map->algorithm() == "part_simple", "the algorithm is the one that was asked for");
}

}  // namespace

int main() {
  share_among_ranks();
  count_hits();
  keep_prices();
  keep_names();
  agree();
  keep_sums();
  return failures;
}
