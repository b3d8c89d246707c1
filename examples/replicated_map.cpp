// A std::map that three processes share, and that survives when any of them is killed: here the one that leads.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <smelt/replicated_log.hpp>
#include <string>

using Map = std::map<int, int>;
struct Add {
  int key, value;
  int operator()(Map& map) const { return map[key] += value; }
};

constexpr int size = 3, rounds = 10000, victim = 0, last_round_of_victim = 5000;

int work(const std::string& name, int rank) {
  auto log = smelt::ReplicatedLog::create_shared(name, size, std::span(&rank, 1));
  if (!log) return 1;
  auto map = smelt::Replicated<Map, Add>::attach(*log, rank);
  for (int round = 0; map && round < rounds; ++round) {
    if (rank == victim && round == last_round_of_victim) raise(SIGKILL);
    if (!map->update(Add{rank, 1})) return 1;
  }
  auto mine = map->read([&](const Map& all) { return all.at(rank); });
  return mine && *mine == rounds ? 0 : 1;  // each update was done once
}

int main() {
  const std::string name = "replicated-map-" + std::to_string(getpid());
  int good = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (fork() == 0) return work(name, rank);
  }
  for (int status = 0; wait(&status) > 0;) good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  std::printf("one of %d processes was killed, %d have counted to %d\n", size, good, rounds);
  return good == size - 1 ? 0 : 1;
}
