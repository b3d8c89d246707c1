// Tuning: finds out on this machine which recipe is the fastest for which call, and whether that still holds.
//
//   auto profile = smelt::tune(*machine, *group, {.time_s = 60});
//   smelt::save_profile(*profile, smelt::profile_path(machine->fingerprint));
//
// Communicators on the same machine use it from then on (CommunicatorOptions::profile).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "smelt/collective.hpp"
#include "smelt/communicator.hpp"
#include "smelt/error.hpp"
#include "smelt/machine.hpp"
#include "smelt/plan.hpp"
#include "smelt/profile.hpp"

namespace smelt {

/// Those for which there is more than one recipe.
const std::vector<Operation>& tunable_operations();

struct TuneProgress {
  std::string doing;      ///< "allreduce of 4096 bytes, loose"
  double fraction = 0.0;  ///< 0..1
  double eta_s = 0.0;     ///< at most that many seconds are left
};

/// How steady the machine was: rounds before and after which a barrier took more than 20 % longer or shorter.
struct TuneCounts {
  int rounds = 0;    ///< that count
  int retaken = 0;   ///< run again because of that, each three times at most
  int unsteady = 0;  ///< that count all the same, as it moved each time
};

struct TuneOptions {
  double time_s = 60.0;                 ///< wall-clock limit
  bool processes = false;               ///< the ranks are processes, forked by tune(); else threads
  std::vector<Operation> operations{};  ///< empty: all
  std::vector<Sync> syncs{};            ///< empty: both
  std::size_t least_bytes = 8;          ///< of the vector, or of each block
  std::size_t most_bytes = 16u << 20;
  const Profile* incumbent = nullptr;                   ///< its recipes are kept where nothing is faster
  std::function<void(const TuneProgress&)> progress{};  ///< called between races
  std::function<bool()> interrupted{};                  ///< asked often; true: finish with what there is
  TuneCounts* counts = nullptr;                         ///< what happened is added to it
  std::uint64_t seed = 1;                               ///< of the order within rounds
  double timeout_s = 20.0;  ///< a rank that keeps the others waiting for longer ends it
};

/// Races the recipes that the simulator likes best, the best of every algorithm, and the incumbents against each
/// other, by operation, synchronization and size; where the winners of neighbouring sizes differ, looks for the
/// crossover by bisection. One thread or process per rank, pinned, doubles, root 0. What there is no time for gets
/// the model's choice: such cells have measured_ns = 0. All cells have the floor at which they were made. How it
/// decides: docs/explanation/tuning.md.
/// Requirements: a machine with costs, on which the group's PUs may be used; otherwise idle. Processes: the caller is
/// rank 0 and forks the others, so it should have no other threads by then.
/// Cost: time_s at most; memory for the largest buffers, 2 GiB in all.
/// Errors: of Communicator::create; timed_out if a rank or a recipe hangs, broken if a process dies. No process,
/// segment or name is left behind by any of them.
Result<Profile> tune(const Machine& machine, const Group& group, const TuneOptions& options = {});

struct RevalidateOptions {
  double time_ms = 100.0;  ///< about how long it may take
  double threshold = 1.5;  ///< slower than the profile says by more than that, in the median: it does not hold
};

struct Revalidation {
  int cells = 0;             ///< looked at; 0: no profile is in use, or it has nothing for this group
  double ratio = 1.0;        ///< measured now / in the profile, median over the cells
  double model_ratio = 1.0;  ///< the model's choice now / the profile's now, median over those cells where they differ
  bool holds = true;         ///< ratio <= threshold
  bool replanned = false;    ///< from now on the model decides
};

/// Looks at a handful of cells of the profile that the communicator uses. Where the machine is slower than the
/// profile says and the model's choices are faster now than the profile's, the profile is given up for this
/// communicator; where the whole machine has become slower the profile's choices remain the best that is known.
/// A collective call: all ranks make it, in the same order with others, with the same options; all get the same
/// answer. Uses memory for messages of 64 KiB. Errors: a broken communicator.
Result<Revalidation> revalidate(Rank& rank, const RevalidateOptions& options = {});

}  // namespace smelt
