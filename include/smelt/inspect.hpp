// The activity of running communicators over processes: which rank waits, for which one, and which is missing. For
// debugging a program that hangs, from outside of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/plan.hpp"

namespace smelt {

/// One rank of a running communicator.
struct RankActivity {
  enum class State {
    absent,    ///< no process has joined as this rank
    present,   ///< its process takes part
    left,      ///< has left, or its process ended normally
    dead,      ///< its process was killed, or its thread ended while attached
    finished,  ///< its process has ended, but no other rank has detected this yet
    stopped,   ///< its process is stopped, by a signal or a debugger
  };

  int rank = 0;
  int pu = 0;         ///< os_index of the PU that it was planned for
  pid_t process = 0;  ///< 0: absent
  pid_t thread = 0;   ///< kernel id of the last thread that joined or attached; 0: unknown
  State state = State::absent;
  bool attached = false;      ///< a thread is attached
  std::uint64_t calls = 0;    ///< collectives that it has entered
  Operation operation{};      ///< of the last one; meaningless while calls is 0
  bool waiting = false;       ///< in that call, for other ranks
  std::optional<int> peer{};  ///< the rank that it waits for; none: several, or not waiting
  double waiting_ns = 0.0;    ///< since its last progress
};

struct CommunicatorActivity {
  std::string name;      ///< empty: created over a descriptor
  std::uint64_t id = 0;  ///< random, the same for all ranks
  Status status = Status::ok;
  std::string failure;  ///< why it is broken
  std::vector<RankActivity> ranks;
};

/// The communicators over processes of this user, sorted by name, including subgroups and those of MPI programs under
/// smelt. Reads only; the ranks are not disturbed.
/// Requirements: /proc. Processes whose descriptors cannot be read (hidepid, other users) are skipped, and so are those
/// of other versions of smelt. Communicators of threads have no memory that other processes can find. Accuracy: waiting
/// ranks update a time stamp after their first spinning phase. Ranks that do so between two reads count as waiting; a
/// rank that is not scheduled meanwhile does not. Cost: some system calls per descriptor of each process, and 250 ms if
/// there is a communicator. Errors: io_error (/proc cannot be read).
Result<std::vector<CommunicatorActivity>> inspect_communicators();

/// The reasons why a communicator does not progress, a sentence each, the most likely cause first: ranks that died,
/// left or are stopped; different calls on different ranks; the rank that all others wait for, and its last call; ranks
/// that wait for each other. Empty if no rank waits.
std::vector<std::string> diagnose(const CommunicatorActivity& activity);

}  // namespace smelt
