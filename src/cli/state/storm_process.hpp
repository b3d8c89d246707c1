// The processes that `smelt storm` starts, and kills in the end.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include "cli/command.hpp"

namespace smelt::cli {

/// Runs body(), which returns an exit code, in a process that dies with this one.
template <class Body>
pid_t start_storm_process(const Body& body) {
  const pid_t parent = getpid(), child = fork();
  if (child < 0) fail("cannot start a process");
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(exit_failure);  // the parent died before prctl()
  _exit(body());
}

}  // namespace smelt::cli
