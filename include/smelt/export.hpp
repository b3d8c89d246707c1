// Export: tuning files for other runtimes, derived from the model of their algorithms.
// Pure functions: no threads, no clock, no files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt {

enum class Runtime {
  openmpi,      ///< Open MPI 4.1, coll/tuned: a dynamic rules file
  mpich,        ///< MPICH 4.0: a selection file for message-passing algorithms
  mpich_posix,  ///< MPICH 4.0 built with its shared-memory device: a selection file for that device
  ucc,          ///< UCC, TL/UCP: environment variables
  libomp,       ///< LLVM's OpenMP runtime: environment variables
  xhc,          ///< Open MPI 5, coll/xhc: environment variables
};

/// "openmpi", "mpich", "mpich-posix", "ucc", "libomp", "xhc".
const char* to_string(Runtime runtime) noexcept;
Result<Runtime> parse_runtime(std::string_view name);
const std::vector<Runtime>& runtimes();

struct ExportOptions {
  /// Least predicted gain over the runtime's default for choosing an algorithm, as a fraction of the default's time.
  /// 0 <= margin < 1.
  double margin = 0.2;
  /// Software overhead of the runtime per send and per receive, in addition to the hardware's costs. Finite, >= 0.
  double message_overhead_ns = 150.0;
  /// Larger sizes are left to the runtime: the model does not cover its change from copies through a buffer to a
  /// handshake with a copy by the kernel.
  std::size_t largest_bytes = 2048;
};

/// One decision: from `from_bytes` (of the vector, or of each rank's block) up to the next choice of the same
/// operation.
struct ExportedChoice {
  Operation operation = Operation::broadcast;
  std::size_t from_bytes = 0;
  std::string algorithm{};          ///< the runtime's name; empty: the default stays
  std::string default_algorithm{};  ///< empty: unknown, or not in the model
  double predicted_ns = 0.0;        ///< of the algorithm at from_bytes; 0 if the default stays
  double default_ns = 0.0;          ///< 0 if unknown
};

struct RuntimeSettings {
  std::string text{};                     ///< the file, or lines NAME=VALUE for an environment
  std::string usage{};                    ///< instructions for users, in lines
  std::vector<ExportedChoice> choices{};  ///< by operation and size; empty where sizes do not matter
};

/// Settings of a runtime for a job in which rank r runs on the PU of rank r of the group. Jobs of other sizes keep the
/// defaults if the runtime can distinguish them. The default stays if the predicted gain is below `margin`, if the
/// model does not cover the default, or if ranks share a PU.
/// Errors: a machine without costs, fewer than two ranks, options out of range, a group that does not fit.
/// Cost: some thousand simulations; milliseconds for 16 ranks, seconds for some hundred.
Result<RuntimeSettings> export_settings(const Machine& machine, const Group& group, Runtime runtime,
                                        const ExportOptions& options = {});

}  // namespace smelt
