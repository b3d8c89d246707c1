// The parent's side of a benchmark: starts every contestant as a process of its own and gives
// each its turn, round after round, so that all of them see the same minutes of the machine.
//
//   round 1:   smelt   pthread   floor    gomp  ...     one turn: about 20 ms
//   round 2:   gomp    floor     smelt    pthread ...   order shuffled in every round
//
// Times differ from start to start, by where a process' memory lies and by the phases of the machine. So all
// contestants may be started several times, one contest after another; what counts is the median of the starts'
// medians, and of two contestants the median of their ratios in each start, with an interval and a verdict by the rule
// of base/comparison.hpp. The floor is looked at before and after each start: one in which it moved is held again,
// three times at most, unless it timed the floor alone. After the starts that are asked for, those go on whose verdict
// is open, the reference with them.
//
// Between turns all ranks of a worker sleep: rank 0 in read(), the others on a futex.
// A contestant that does not answer in time, dies or answers nonsense is killed and left out;
// the rest goes on. No worker outlives the parent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/comparison.hpp"
#include "smelt/error.hpp"
#include "smelt/floor.hpp"

namespace smelt::bench {

/// The contestant whose median is the unit of floor_ratio: half a bare cache-line ping-pong.
inline constexpr const char* floor_name = "floor";

/// The contestant that channels are held against: a bare ping-pong of two flags.
inline constexpr const char* flag_name = "flag";

struct Contestant {
  std::string name;
  std::vector<std::string> argv;         ///< program (a path, or looked up in PATH) and its arguments
  std::vector<std::string> environment;  ///< NAME=value, added to the parent's environment
};

struct ContestProgress {
  std::string contestant;  ///< whose turn it is
  double fraction = 0.0;   ///< 0..1 of the whole contest
  double eta_s = 0.0;      ///< estimated seconds left
};

struct ContestOptions {
  double budget_s = 12.0;  ///< sets the number of rounds; starting the workers comes on top
  int starts = 1;          ///< of every contestant
  int most_starts = 1;     ///< of those whose verdict is open; at least `starts`, and all share the budget
  std::string reference;   ///< whom the others are compared with; empty or not there: nobody is
  VerdictRules rules;      ///< of the verdicts
  std::function<Result<Floor>()> probe;  ///< what the floor is now; empty: nobody looks
  double turn_ms = 20.0;                 ///< what a worker is asked to measure for in one turn
  double start_limit_s = 60.0;           ///< for a worker to start, verify itself and calibrate
  double turn_limit_s = 20.0;            ///< for one turn
  std::uint64_t seed = 1;                ///< of the shuffling
  std::function<void(const ContestProgress&)> progress;
};

/// A start whose median is below this timed nothing. No operation is that fast, and tables show tenths.
inline constexpr double least_timed_ns = 0.05;

struct ContestResult {
  std::string name;
  /// Of the starts' medians: of one operation, maximum over ranks; for channels of one round trip. Nothing: not timed,
  /// as what is subtracted from the samples left less than `least_timed_ns` in every start.
  std::optional<double> median_ns;
  std::vector<std::optional<double>> starts_ns;  ///< the median of each; nothing: not timed, no sample, or sat it out
  double p99_ns = 0.0;  ///< this and the spread: of all starts' samples; neither says anything if not timed
  double spread = 0.0;  ///< interquartile range / median
  std::size_t samples = 0;
  std::optional<double> floor_ratio;        ///< median_ns / median_ns of the floor, if that ran
  std::optional<Finding> compared;          ///< times as long as the reference; the verdict is on the reference
  std::optional<double> predicted_ns;       ///< what the contestant's own model says
  std::string recipe;                       ///< what the contestant chose, by its own name; empty if it does not tell
  std::optional<double> message_ns;         ///< channels: time per message of a one-way stream
  std::optional<double> throughput_mmsg_s;  ///< channels: the same as million messages per second
  std::string method;                       ///< "loop", "loop+barrier" or "window"
};

struct LeftOut {
  std::string name;
  std::string reason;  ///< one line
};

struct ContestOutcome {
  std::vector<ContestResult> results;  ///< in the order of the contestants
  std::vector<LeftOut> left_out;
  std::string reference;      ///< whom the others were compared with; empty: nobody
  int starts = 0;             ///< that count
  int retaken = 0;            ///< starts that were held again because the floor moved
  int unsteady = 0;           ///< starts that count although it moved each time
  std::vector<Floor> floors;  ///< of each start that counts: when it began
};

/// Runs the contest. Contestants that fail are in left_out. Must be called from a thread that
/// outlives the call (workers die with it). SIGINT, SIGTERM and SIGHUP end the workers and are then
/// delivered to this process as if they had not been caught. Errors: no contestant at all.
Result<ContestOutcome> run_contest(const ContestOptions& options, const std::vector<Contestant>& contestants);

}  // namespace smelt::bench
