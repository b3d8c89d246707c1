// Does a profile still hold? A few cells, small and middle sizes, measured as the tuner measures them: the profile's
// recipe and the model's in turn. The verdict is rank 0's and is sent to all.
//
//   ratio        median over the cells of  profile's recipe now / what the profile says
//   model_ratio  median of                 model's recipe now / profile's recipe now
//
//   ratio <= threshold                      the profile holds
//   else, model_ratio >= 1                  it does not, but nothing better is known: kept
//   else                                    given up, the model decides
#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "comm/collective/communicator_state.hpp"
#include "comm/collective/profile_lookup.hpp"
#include "smelt/tune.hpp"
#include "tune/algorithm_race.hpp"
#include "tune/tuner_team.hpp"

namespace smelt::comm {
namespace {

constexpr std::size_t most_bytes = 65536;
constexpr std::size_t most_cells = 6;
constexpr int samples_per_turn = 12, most_turns = 5;

double median(std::vector<double> values, double otherwise) {
  return values.empty() ? otherwise : median_of(std::move(values));
}

/// Measured cells of this group, spread over operations and sizes.
std::vector<ProfileCell> cells_to_check(const CommunicatorState& state) {
  const auto& profile = state.selector->config().profile;
  std::vector<ProfileCell> all, some;
  if (!profile) return some;
  const auto shape = shape_of(state.machine, state.group, state.selector->config().reach.processes);
  for (const auto& cell : profile->cells) {
    const bool fits = cell.shape == shape && cell.from_bytes <= most_bytes && cell.from_bytes % 8 == 0;
    if (fits && cell.measured_ns > 0.0) all.push_back(cell);
  }
  const auto count = std::min(all.size(), most_cells);
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[(2 * i + 1) * all.size() / (2 * count)]);
  return some;
}

class Revalidator {
 public:
  Revalidator(TunerTeam& team, CommunicatorState& state, const RevalidateOptions& options)
      : team_(team), state_(state), options_(options) {}

  Status run(Revalidation& verdict) {
    const auto cells = cells_to_check(state_);
    const double share_ns = options_.time_ms * 1e6 / static_cast<double>(std::max<std::size_t>(1, cells.size()));
    for (const auto& cell : cells) {
      if (const Status status = look_at(cell, share_ns); status != Status::ok) return status;
    }
    verdict.cells = static_cast<int>(ratios_.size());
    verdict.ratio = median(ratios_, 1.0);
    verdict.model_ratio = median(model_ratios_, 1.0);
    verdict.holds = verdict.ratio <= options_.threshold;
    verdict.replanned = !verdict.holds && verdict.model_ratio < 1.0;
    return Status::ok;
  }

 private:
  Status look_at(const ProfileCell& cell, double share_ns) {
    const TunerCall call{cell.operation, cell.sync, cell.from_bytes};
    const auto ranked = state_.selector->ranked(cell.operation, cell.from_bytes);
    const bool rival = ranked && !ranked->empty() && !(ranked->front().recipe == cell.recipe);
    std::vector<double> own, between;
    const auto start = monotonic_ns();
    for (int turn = 0; turn < most_turns; ++turn) {
      if (turn > 0 && static_cast<double>(monotonic_ns() - start) > share_ns) break;
      double mine = 0.0, theirs = 0.0;
      if (const Status status = time(call, cell.recipe, cell.measured_ns, mine); status != Status::ok) return status;
      if (mine > 0.0) own.push_back(mine);
      if (!rival) continue;
      const Status status = time(call, ranked->front().recipe, cell.measured_ns, theirs);
      if (status != Status::ok) return status;
      if (mine > 0.0 && theirs > 0.0) between.push_back(theirs / mine);
    }
    if (!own.empty()) ratios_.push_back(median(own, 0.0) / cell.measured_ns);
    if (!between.empty()) model_ratios_.push_back(median(between, 1.0));
    return Status::ok;
  }

  Status time(const TunerCall& call, const Recipe& recipe, double expected_ns, double& result_ns) {
    const int per_sample = team_.uses_windows(call) ? 1 : static_cast<int>(std::clamp(10e3 / expected_ns, 1.0, 200.0));
    return team_.typical(call, recipe, samples_per_turn, per_sample, {options_.time_ms * 1e-3}, result_ns);
  }

  TunerTeam& team_;
  CommunicatorState& state_;
  const RevalidateOptions& options_;
  std::vector<double> ratios_, model_ratios_;
};

Status revalidate(Endpoint& endpoint, const RevalidateOptions& options, Revalidation& verdict) {
  CommunicatorState& state = endpoint.state();
  TunerTeam team({&endpoint}, state.parallelism < state.group.size());
  Status status = Status::ok;
  if (endpoint.rank() == 0) {
    status = Revalidator(team, state, options).run(verdict);
    if (status == Status::ok) status = team.dismiss();
  } else {
    status = team.serve();
  }
  if (status == Status::ok) status = team.share(&verdict, sizeof verdict);
  if (status == Status::ok) status = endpoint.barrier();
  if (status != Status::ok || !verdict.replanned) return status;
  // One rank of each process tells its recipe selector while the others wait.
  const auto mine =
      std::find_if(state.endpoints.begin(), state.endpoints.end(), [](const auto& each) { return each != nullptr; });
  if (mine->get() == &endpoint) state.selector->forget_profile();
  return endpoint.barrier();
}

}  // namespace

Result<void> revalidate_new(Communicator& communicator) {
  return communicator.run([](Rank& rank) { (void)smelt::revalidate(rank); });
}

}  // namespace smelt::comm

namespace smelt {

Result<Revalidation> revalidate(Rank& rank, const RevalidateOptions& options) {
  Revalidation verdict;
  const Status status = comm::revalidate(comm::TunerAccess::endpoint(rank), options, verdict);
  if (status != Status::ok) return Error{status, "revalidate: " + rank.failure()};
  return verdict;
}

}  // namespace smelt
