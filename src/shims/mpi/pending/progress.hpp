// Keeping the library going while a rank waits in smelt, or calls one collective of smelt after another, as the library
// does in its own ones: messages under way, one-sided access to its memory.
#pragma once

#include <atomic>

#include "shims/mpi/abi.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

/// A generalized request that is over once MPI_Grequest_complete() has been called. False: there is none.
bool start_empty_request(MPI_Request* request) noexcept;

/// To be called before the first make_progress(), by any thread.
void prepare_progress() noexcept;

/// Lets the library do what it can without waiting. Any thread, any time.
void make_progress() noexcept;

/// The same, of a rank that waits in smelt: a smelt_options::poll.
int poll_library(void*) noexcept;

/// Before MPI is finalized.
void release_progress() noexcept;

/// What the library may have under way. A step of its progress takes 15 to 40 ns, so collectives take one only where it
/// is likely to be of use; what is not noted gets on at every steps_apart-th call. Where a step takes longer, fewer are
/// taken (step_pace.hpp).
struct LibraryWork {
  std::atomic<int> steps{0};    ///< that the latest long messages may need
  std::atomic<int> awaited{0};  ///< operations of smelt's that it calls on (progress_hook.hpp)
  std::atomic<int> lasting{0};  ///< windows, and persistent requests of messages that have been made
};
extern constinit LibraryWork library_work;
inline constexpr int steps_apart = 16;

/// After a message has been started whose data the library may not have moved yet: a pipeline of some pieces.
inline void note_long_message() noexcept {
  constexpr int pieces = 64;
  library_work.steps.store(pieces, std::memory_order_relaxed);
}

/// A step of the library's progress if it is due, and counts it. `likely`: it may be of use.
void take_step(bool likely) noexcept;

/// After a collective of smelt, of which `left` are to come before a step is taken in any case.
[[gnu::always_inline]] inline void let_library_on(int& left) noexcept {
  const auto now = [](const std::atomic<int>& number) { return number.load(std::memory_order_relaxed); };
  const bool busy = (now(library_work.steps) | now(library_work.awaited) | now(library_work.lasting)) != 0;
  if (!busy && --left > 0) [[likely]]
    return;
  left = steps_apart;
  take_step(busy);
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
