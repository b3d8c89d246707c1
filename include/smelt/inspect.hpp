// What the ranks of a running communicator over processes do now: who waits, for whom, and who is missing. For
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
    absent,    ///< nobody has joined as this rank
    present,   ///< its process takes part
    left,      ///< gave the rank up, or ended in order
    dead,      ///< its process was killed, or its thread ended while it had the rank
    finished,  ///< its process ended, which no other rank has noticed yet
    stopped,   ///< its process is stopped, by a signal or a debugger
  };

  int rank = 0;
  int pu = 0;         ///< os_index of the PU that it was planned for
  pid_t process = 0;  ///< 0: absent
  pid_t thread = 0;   ///< kernel's id of the thread that joined or attached last; 0: not known
  State state = State::absent;
  bool attached = false;      ///< a thread has the rank now
  std::uint64_t calls = 0;    ///< collectives that it has entered
  Operation operation{};      ///< of the last one; meaningless while calls is 0
  bool waiting = false;       ///< in that call, for other ranks
  std::optional<int> peer{};  ///< the rank that it waits for; none: several, or not waiting
  double waiting_ns = 0.0;    ///< since its last progress
};

struct CommunicatorActivity {
  std::string name;      ///< empty: it was made over a descriptor
  std::uint64_t id = 0;  ///< random, the same for all ranks
  Status status = Status::ok;
  std::string failure;  ///< why it is broken
  std::vector<RankActivity> ranks;
};

/// The communicators over processes that processes of this user hold, subgroups and those of MPI programs under smelt
/// included, by name. Looks only: the ranks do not notice.
/// Requirements: /proc; processes whose descriptors may not be looked at (hidepid, other users') are passed over, as
/// are those of another version of smelt. Communicators of threads have no memory that others could find. Accuracy:
/// waiting ranks say so again and again once they have left their first spinning phase. Those that did between two
/// looks count as waiting; one that is kept from running all the time does not. Cost: some system calls for each
/// descriptor of each process, and 250 ms if there is a communicator. Errors: io_error (/proc cannot be read).
Result<std::vector<CommunicatorActivity>> inspect_communicators();

/// What stands in the way of a communicator, a sentence each, most likely cause first: ranks that died, left or are
/// stopped; calls that differ from rank to rank; the rank that all others wait for, and what it did last; ranks that
/// wait for each other. Nothing while nobody waits.
std::vector<std::string> diagnose(const CommunicatorActivity& activity);

}  // namespace smelt
