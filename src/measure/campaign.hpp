// MeasurementCampaign: decides which pairs to time, how often, and when to stop, and turns the samples into a model.
//
//   all pairs, if the budget allows a minimum for each:
//     sweep over the pairs repeatedly; a pair drops out once its costs are precise enough
//   else by class (pair_classes.hpp):
//     a representative and two further pairs of each class; split what is not homogeneous;
//     with time left, more pairs of each class, and so on
//
// Uses neither threads nor a clock itself. The PairTimer has both.
#pragma once

#include <span>
#include <vector>

#include "measure/pair_timer.hpp"
#include "smelt/machine.hpp"
#include "smelt/measure.hpp"

namespace smelt::measure {

/// Returns `topology` with cost matrices, send_burst_ns and method filled in. Takes about options.budget_s at most, by
/// the timer's clock. Errors: timed_out if no pair could be timed within the budget; errors of the timer.
Result<Machine> run_campaign(const Machine& topology, PairTimer& timer, const MeasureOptions& options);

/// The cost of the k-th send, from the times of bursts: differences of the non-decreasing sequence that is nearest to
/// the times (pool adjacent violators), so that no cost is negative.
std::vector<double> burst_costs(std::span<const double> totals_ns);

}  // namespace smelt::measure
