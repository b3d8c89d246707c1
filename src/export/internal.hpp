// Shared by the exporters: races, in the model, between the algorithms of a runtime.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "smelt/export.hpp"
#include "smelt/schedule.hpp"

namespace smelt::plan {

/// An algorithm of the runtime, and the recipe with its steps.
struct RuntimeAlgorithm {
  std::string name;
  int number = 0;               ///< the runtime's number for it
  std::string recipe;           ///< text form; of barriers: a topology
  bool exportable = true;       ///< false: only needed to predict the default
  bool passes_messages = true;  ///< false: through shared memory, without the runtime's overhead per message
};

/// A question: which of these algorithms is the best for which size?
struct SimulatedRace {
  Operation operation = Operation::broadcast;
  std::vector<RuntimeAlgorithm> contenders{};
  /// Index of the contender that the runtime chooses by itself; -1: none of them.
  std::function<int(std::size_t bytes)> default_of{};
  std::vector<std::size_t> boundaries{};  ///< sizes at which default_of changes
  bool has_default = true;                ///< false: there is nothing to compare with, and the best wins
};

/// The contender `winner` from `from_bytes` on; -1: the runtime decides.
struct SizeRange {
  std::size_t from_bytes = 0;
  int winner = -1;
  int standard = -1;  ///< the default
  double predicted_ns = 0.0;
  double default_ns = 0.0;
};

/// The program run that settings are written for.
struct ExportTarget {
  const Machine& machine;   ///< with the runtime's overhead in the costs of messages
  const Machine& hardware;  ///< without this overhead
  const Group& group;
  const ExportOptions& options;
  bool crowded = false;  ///< ranks share a PU; the model does not apply

  int ranks() const { return group.size(); }
};

/// Sizes from 1 byte up. The first range starts at 0 and leaves empty messages to the runtime. The last one leaves
/// messages to the runtime that are longer than the longest size of the race. Between powers of two, the size at which
/// the winner changes is found by bisection.
Result<std::vector<SizeRange>> run_race(const ExportTarget& job, const SimulatedRace& race);

/// The predicted time of a recipe (of a barrier: of a topology).
Result<double> predict(const ExportTarget& job, Operation operation, const std::string& recipe, std::size_t bytes);

/// Adds the ranges to the settings as explained choices.
void add_choices(RuntimeSettings& settings, const SimulatedRace& race, const std::vector<SizeRange>& ranges);
/// Whether any range is decided here.
bool decides(const std::vector<SizeRange>& ranges);
/// "4096", "64k", "2M".
std::string short_bytes(std::size_t bytes);
constexpr bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

Result<RuntimeSettings> export_openmpi(const ExportTarget& job);
Result<RuntimeSettings> export_mpich(const ExportTarget& job);
Result<RuntimeSettings> export_mpich_posix(const ExportTarget& job);
Result<RuntimeSettings> export_ucc(const ExportTarget& job);
Result<RuntimeSettings> export_libomp(const ExportTarget& job);
Result<RuntimeSettings> export_xhc(const ExportTarget& job);

}  // namespace smelt::plan
