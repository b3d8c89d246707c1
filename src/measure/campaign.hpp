// MeasurementCampaign: decides which pairs to time, how often, and when to stop, and makes a model of it.
//
//   all pairs, if the budget allows a minimum for each:
//     sweep over the pairs again and again; a pair drops out when it is known to the precision
//   else by class (pair_classes.hpp):
//     a representative and two further pairs of each class; split what is not homogeneous;
//     with time left, more pairs of each class, and so on
//
// No threads and no clock of its own: both are the PairTimer's.
#pragma once

#include <span>
#include <vector>

#include "measure/pair_timer.hpp"
#include "smelt/machine.hpp"
#include "smelt/measure.hpp"

namespace smelt::measure {

/// `topology` with its cost matrices, send_burst_ns and method filled in, in at most about
/// options.budget_s of the timer's clock. Errors: timed_out if not one pair could be timed
/// within the budget; the timer's own.
Result<Machine> run_campaign(const Machine& topology, PairTimer& timer, const MeasureOptions& options);

/// Costs of the k-th send from times of bursts: the differences of the non-decreasing sequence
/// that is nearest to the times (pool adjacent violators), so that none is negative.
std::vector<double> burst_costs(std::span<const double> totals_ns);

}  // namespace smelt::measure
