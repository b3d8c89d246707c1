// The command in its other role: a contestant of a benchmark, started by `smelt bench`.
#pragma once

#include <optional>

namespace smelt::cli {

/// Runs the worker that `smelt bench --worker ...` names and returns its exit status; nothing if
/// that is not what the arguments say.
std::optional<int> run_bench_worker(int argc, char** argv);

}  // namespace smelt::cli
