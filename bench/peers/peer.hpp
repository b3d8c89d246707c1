// What the peers' main functions share: arguments in, a team of ranks, exit status out.
#pragma once

#include <string>
#include <vector>

#include "harness/timing.hpp"
#include "harness/worker.hpp"

namespace smelt::bench {

/// Parses the worker's arguments and calls f(spec) -> exit status.
template <class F>
int run_peer(int argc, char** argv, F f) {
  prepare_worker_process();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  auto spec = parse_worker_arguments(arguments);
  return spec ? f(*spec) : fail_worker(spec.error().message);
}

/// Serves a team of threads; ops_of(rank) makes a rank's collectives.
template <class OpsOf>
int serve_thread_team(const WorkerSpec& spec, OpsOf ops_of) {
  auto control = Control::create(spec.threads);
  if (!control) return fail_worker(control.error().message);
  bool good = true;
  run_threads(spec, [&](int rank) {
    auto ops = ops_of(rank);
    const bool served = serve_collectives(Member{spec, *control, rank}, ops);
    if (rank == 0) good = served;
  });
  return good ? 0 : 1;
}

}  // namespace smelt::bench
