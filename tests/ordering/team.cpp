// Teams: TEAM_* in comm/ordering.hpp.
#include <vector>

#include "comm/fork_join/fork_join_team.hpp"
#include "stress.hpp"

namespace {

using namespace smelt;
using namespace smelt::stress;

std::uint64_t stress_team() {
  comm::ForkJoinTeam team(2, 2, WaitConfig{});
  return take_turns([&](Waiter&, int me) { team.barrier(me); });
}

/// Runs body(member) on the members of a team of three, the smallest that uses all its forms.
template <class Body>
std::uint64_t on_three(const Body& body) {
  std::uint64_t wrong[3] = {};
  std::vector<std::thread> others;
  for (int member = 1; member < 3; ++member) others.emplace_back([&, member] { wrong[member] = body(member); });
  wrong[0] = body(0);
  for (auto& other : others) other.join();
  return wrong[0] + wrong[1] + wrong[2];
}

/// Each member writes a number of its own, all read all of them, a barrier between the turns.
std::uint64_t stress_team_barrier(int parallelism) {
  comm::ForkJoinTeam team(3, parallelism, WaitConfig{});
  std::uint64_t numbers[3] = {};
  return on_three([&](int me) {
    std::uint64_t wrong = 0;
    for (std::uint64_t turn = 0; turn < messages / 4; ++turn) {
      numbers[me] = turn;
      team.barrier(me);
      for (const auto number : numbers) wrong += number != turn;
      team.barrier(me);
    }
    return wrong;
  });
}

/// Member 0 hands a number out with each region and collects what the others made of it.
std::uint64_t stress_team_regions(int parallelism) {
  comm::ForkJoinTeam team(3, parallelism, WaitConfig{});
  struct Region {
    std::uint64_t number = 0, answers[3] = {};
  } region;
  return on_three([&](int me) {
    std::uint64_t wrong = 0;
    if (me != 0) {
      for (auto work = team.receive(me); work.function != nullptr; work = team.receive(me)) {
        auto& given = *static_cast<Region*>(work.data);
        given.answers[me] = given.number;
      }
      return wrong;
    }
    for (std::uint64_t turn = 1; turn <= messages / 4; ++turn) {
      region.number = turn;
      team.fork({[](void*) {}, &region});
      team.join();
      wrong += (region.answers[1] != turn) + (region.answers[2] != turn);
    }
    team.fork({});
    return wrong;
  });
}

/// By turns each member writes a number and calls a barrier off, which sends the others to read it.
std::uint64_t stress_team_off() {
  struct Trial {
    comm::ForkJoinTeam team{3, 3, WaitConfig{}};
    std::uint64_t number = 0;
  };
  std::vector<std::unique_ptr<Trial>> trials(messages / 10);
  for (auto& trial : trials) trial = std::make_unique<Trial>();
  return on_three([&](int me) {
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      auto& [team, number] = *trials[i];
      if (i % 3 == static_cast<std::size_t>(me)) {
        number = i;
        team.call_off(me);
      }
      wrong += team.barrier(me);
      wrong += number != i;
    }
    return wrong;
  });
}

}  // namespace

int main() {
  return verdict(repeated([] {
    std::uint64_t wrong = stress_team();
    for (const int parallelism : {3, 1}) wrong += stress_team_barrier(parallelism) + stress_team_regions(parallelism);
    return wrong + stress_team_off();
  }));
}
