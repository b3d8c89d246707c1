// Tuning: measures which recipe is the fastest for which call on this machine, and checks whether a profile still
// holds.
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

/// The operations with more than one recipe.
const std::vector<Operation>& tunable_operations();

struct TuneProgress {
  std::string doing;      ///< "allreduce of 4096 bytes, loose"
  double fraction = 0.0;  ///< 0..1
  double eta_s = 0.0;     ///< upper bound of the seconds left
};

/// How steady the machine was. A round is unsteady if the times of a barrier before and after it differ by more than 20
/// %.
struct TuneCounts {
  int rounds = 0;    ///< rounds that count
  int retaken = 0;   ///< repetitions of unsteady rounds, at most three of each
  int unsteady = 0;  ///< rounds that count although all repetitions were unsteady
};

struct TuneOptions {
  double time_s = 60.0;                 ///< wall-clock limit
  bool processes = false;               ///< ranks are processes, forked by tune(); otherwise threads
  std::vector<Operation> operations{};  ///< empty: all
  std::vector<Sync> syncs{};            ///< empty: both
  std::size_t least_bytes = 8;          ///< of the vector, or of each block
  std::size_t most_bytes = 16u << 20;
  const Profile* incumbent = nullptr;                   ///< its recipes are kept if nothing is faster
  std::function<void(const TuneProgress&)> progress{};  ///< called between races
  std::function<bool()> interrupted{};                  ///< called often; true: finish with the results so far
  TuneCounts* counts = nullptr;                         ///< the counts of this run are added
  std::uint64_t seed = 1;                               ///< of the order within rounds
  double timeout_s = 20.0;                              ///< ends the run if a rank keeps the others waiting for longer
};

/// Races recipes against each other, by operation, synchronization and size: the best of the simulator, the best of
/// every algorithm, and the incumbents. If the winners of neighbouring sizes differ, finds the crossover by bisection.
/// One pinned thread or process per rank; doubles; root 0. Cells for which there is no time get the model's choice,
/// with measured_ns = 0. Every cell records the floor at which it was measured. Method: docs/explanation/tuning.md.
/// Requirements: a machine with costs, whose PUs in the group may be used and are otherwise idle. Processes: the caller
/// is rank 0 and forks the others, so it should have no other threads.
/// Cost: at most time_s; memory for the largest buffers, 2 GiB in all.
/// Errors: those of Communicator::create; timed_out if a rank or a recipe hangs, broken if a process dies. No error
/// leaves a process, segment or name behind.
Result<Profile> tune(const Machine& machine, const Group& group, const TuneOptions& options = {});

struct RevalidateOptions {
  double time_ms = 100.0;  ///< about how long it may take
  double threshold = 1.5;  ///< the profile does not hold if the median ratio to its times is larger
};

struct Revalidation {
  int cells = 0;             ///< cells checked; 0: no profile is in use, or it has none for this group
  double ratio = 1.0;        ///< measured now / in the profile, median over the cells
  double model_ratio = 1.0;  ///< model's choice now / profile's choice now, median over the cells where they differ
  bool holds = true;         ///< ratio <= threshold
  bool replanned = false;    ///< from now on the model decides
};

/// Measures a few cells of the profile that the communicator uses. If they are slower than in the profile, and the
/// model's choices are faster now than the profile's, the profile is discarded for this communicator. If the whole
/// machine has become slower, the profile's choices remain the best known. A collective call: all ranks make it in the
/// same order relative to others, with the same options; all get the same result. Uses memory for messages of 64 KiB.
/// Errors: a broken communicator.
Result<Revalidation> revalidate(Rank& rank, const RevalidateOptions& options = {});

}  // namespace smelt
