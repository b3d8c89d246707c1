// Measuring: times the real channels between the PUs of this machine and fills in the model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/machine.hpp"

namespace smelt {

struct MeasureProgress {
  std::string phase;
  double fraction = 0.0;  ///< 0..1 of the whole measurement
  double eta_s = 0.0;     ///< estimated seconds left
};

/// What a measurement did not get, such as "memory: copies".
struct Unmeasured {
  std::string what;
  Error why;  ///< timed_out: a larger budget helps
};

struct MeasureOptions {
  double budget_s = 30.0;                                ///< wall-clock limit of the whole measurement
  bool quick = false;                                    ///< a tenth of the repetitions, wider confidence intervals
  std::function<void(const MeasureProgress&)> progress;  ///< called on the measuring thread, a few times a second
  std::vector<Unmeasured>* left_out = nullptr;           ///< gets what the model lacks
};

/// Discovers this machine and measures every ordered pair of PUs that the process may use, or,
/// where all pairs do not fit the budget, representatives of each class of pairs.
/// Method: [Kaestle16] 2.4.2.2. Run it on an otherwise idle machine.
Result<Machine> measure_machine(const MeasureOptions& options = {});

/// load_cached_machine(), or measure_machine() and save the result to the cache.
Result<Machine> measured_machine(const MeasureOptions& options = {});

}  // namespace smelt
