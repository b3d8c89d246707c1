// For tests of maps over ranks: each algorithm with several numbers of ranks and servers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "smelt/map_group.hpp"

namespace smelt::test {

inline Communicator communicator(int ranks) {
  CommunicatorOptions options;
  options.pin = false;
  options.search_ms = 1;
  options.profile = "none";
  return *Communicator::create(ranks, options);
}

struct Setting {
  std::string algorithm;
  int ranks;
  int servers;
  bool colocate;
};

inline std::ostream& operator<<(std::ostream& out, const Setting& setting) {
  return out << setting.algorithm << " of " << setting.ranks << ", " << setting.servers << " servers"
             << (setting.colocate ? "" : " apart");
}

inline std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const auto& algorithm : map_algorithms()) {
    for (const int ranks : {1, 2, 3, 5}) {
      all.push_back({algorithm.name, ranks, 0, true});
      if (algorithm.needs_servers && ranks > 1) all.push_back({algorithm.name, ranks, 1, false});
      if (ranks == 5 && algorithm.name.starts_with("part_")) all.push_back({algorithm.name, ranks, 2, false});
      if (ranks == 5 && algorithm.name == "kv") all.push_back({algorithm.name, ranks, 2, true});
      if (ranks == 3 && algorithm.name == "kv") all.push_back({algorithm.name, ranks, 3, true});
    }
  }
  return all;
}

inline MapOptions options_of(const Setting& setting) {
  MapOptions options;
  options.algorithm = setting.algorithm;
  options.servers = setting.servers;
  options.colocate = setting.colocate;
  if (setting.algorithm == "rep_sc") options.consistency = Consistency::sequential;
  return options;
}

/// Runs f(rank) on a thread per client rank while the others serve. All ranks finish.
template <class Group, class F>
void on_all(const Setting& setting, Group& group, F f) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto mine = group.attach(rank);
      ASSERT_TRUE(mine) << mine.error().message;
      const bool serves = std::ranges::count(group.servers(), rank) != 0;
      if (!serves || !group.servers_are_dedicated()) f(*mine);
      EXPECT_EQ(mine->finish(), Status::ok) << mine->failure();
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace smelt::test
