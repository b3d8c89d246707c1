// What the exporters share: races in the model between the algorithms that a runtime has.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "smelt/export.hpp"
#include "smelt/schedule.hpp"

namespace smelt::plan {

/// An algorithm of the runtime and the recipe that has its steps.
struct RuntimeAlgorithm {
  std::string name;
  int number = 0;               ///< the runtime's number for it
  std::string recipe;           ///< text form; of barriers: a topology
  bool exportable = true;       ///< false: only there to know what the default costs
  bool passes_messages = true;  ///< false: through shared memory, without what the runtime adds to messages
};

/// Which of them is best for which size?
struct SimulatedRace {
  Operation operation = Operation::broadcast;
  std::vector<RuntimeAlgorithm> contenders{};
  /// Index of the contender that the runtime takes by itself, or -1: none of them.
  std::function<int(std::size_t bytes)> default_of{};
  std::vector<std::size_t> boundaries{};  ///< sizes at which default_of changes
  bool has_default = true;                ///< false: there is none to compare with, the best wins
};

/// The contender `winner` from `from_bytes` on; -1: leave it to the runtime.
struct SizeRange {
  std::size_t from_bytes = 0;
  int winner = -1;
  int standard = -1;  ///< the default
  double predicted_ns = 0.0;
  double default_ns = 0.0;
};

/// A job that settings are written for.
struct ExportTarget {
  const Machine& machine;   ///< with the runtime's overhead in the costs of its messages
  const Machine& hardware;  ///< without
  const Group& group;
  const ExportOptions& options;
  bool crowded = false;  ///< ranks share a PU: the model is not asked

  int ranks() const { return group.size(); }
};

/// Sizes from 1 byte up; the first stretch starts at 0 and leaves empty messages to the runtime, the last
/// one what is longer than the longest asked about. Between powers
/// of two the point where the winner changes is found by bisection.
Result<std::vector<SizeRange>> run_race(const ExportTarget& job, const SimulatedRace& race);

/// The time of a recipe (of a barrier: of a topology).
Result<double> predict(const ExportTarget& job, Operation operation, const std::string& recipe, std::size_t bytes);

/// For RuntimeSettings.
void add_choices(RuntimeSettings& settings, const SimulatedRace& race, const std::vector<SizeRange>& ranges);
/// Whether any stretch is not left to the runtime.
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
