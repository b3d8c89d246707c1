// The command as a worker of a benchmark, started by `smelt bench`.
#pragma once

#include <optional>

namespace smelt::cli {

/// Runs the worker of `smelt bench --worker ...` and returns its exit status; empty if the arguments are others.
std::optional<int> run_bench_worker(int argc, char** argv);

}  // namespace smelt::cli
