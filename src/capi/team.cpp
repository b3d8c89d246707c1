// The C interface, teams. No communicator behind it: programs that use nothing else pay for nothing else.
#include <new>

#include "comm/fork_join/fork_join_team.hpp"
#include "smelt/smelt.h"

struct smelt_team {
  smelt::comm::ForkJoinTeam value;
};

namespace {

static_assert(smelt::comm::most_words == SMELT_TEAM_WORDS);

// A team that has been idle for so long may as well go back to the kernel now and then.
constexpr std::uint64_t longest_sleep_ns = 1'000'000'000;

smelt::WaitConfig wait_config(int size, int parallelism, double awake_s) {
  smelt::WaitConfig config = smelt::make_wait_config(size, parallelism, awake_s < 0 ? "yield" : "auto");
  config.longest_sleep_ns = longest_sleep_ns;
  config.awake_ns = awake_s > 0 ? static_cast<std::uint64_t>(awake_s * 1e9) + 1 : 0;
  return config;
}

}  // namespace

int smelt_team_create(int size, int parallelism, double awake_s, smelt_team** team) {
  if (team == nullptr || size < 2 || size > smelt::comm::ForkJoinTeam::max_size || parallelism < 1)
    return SMELT_INVALID_ARGUMENT;
  try {
    *team = new smelt_team{smelt::comm::ForkJoinTeam(size, parallelism, wait_config(size, parallelism, awake_s))};
    return SMELT_OK;
  } catch (const std::bad_alloc&) {
    return SMELT_OUT_OF_MEMORY;
  }
}

void smelt_team_free(smelt_team* team) { delete team; }

void smelt_team_reset(smelt_team* team) { team->value.reset(); }

int smelt_team_barrier(smelt_team* team, int member) { return team->value.barrier(member) ? 1 : 0; }

void smelt_team_call_off(smelt_team* team, int member) { team->value.call_off(member); }

int smelt_team_called_off(const smelt_team* team) { return team->value.called_off() ? 1 : 0; }

void smelt_team_leave(smelt_team* team, int member) { team->value.leave(member); }

int smelt_team_left(const smelt_team* team) { return team->value.left(); }

int smelt_team_claim(smelt_team* team, int member) { return team->value.claim(member) ? 1 : 0; }

void** smelt_team_handed(smelt_team* team) { return &team->value.handed(); }

void smelt_team_fork(smelt_team* team, smelt_work work) { team->value.fork({work.function, work.data}); }

void smelt_team_fork_copied(smelt_team* team, smelt_work work, int words) {
  team->value.fork({work.function, work.data}, static_cast<std::size_t>(words));
}

int smelt_team_join(smelt_team* team) { return team->value.join() ? 1 : 0; }

smelt_work smelt_team_receive(smelt_team* team, int member) {
  const auto work = team->value.receive(member);
  return {work.function, work.data};
}
