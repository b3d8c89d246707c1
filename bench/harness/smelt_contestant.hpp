// smelt's own contestants, on its public interface alone, and the floor.
#pragma once

#include <string>
#include <vector>

#include "harness/worker.hpp"
#include "smelt/error.hpp"

namespace smelt::bench {

/// os_index of the PU of each of `threads` ranks: the order that smelt's default group has
/// (distinct cores, then SMT siblings, then round again), used for all contestants alike.
Result<std::vector<int>> team_pus(int threads);

/// A worker process: `smelt bench --worker ARGUMENTS...`. Its name decides: "floor", "smelt",
/// "smelt/binary", ... Returns the exit status; talks to the parent on stdin and stdout.
int run_smelt_worker(const std::vector<std::string>& arguments);

}  // namespace smelt::bench
