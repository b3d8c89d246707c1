// Rendezvous: processes of one user meet under a name, or over a memfd, and map one segment.
//
//   | head | membership | shared configuration | user region ... |        /dev/shm/smelt-<uid>-<name>, mode 0600
//
// The first process (the creator) makes a segment without a name, writes the head, joins with its ranks, and only then
// links the segment to the name. So the name never refers to a segment that is incomplete or whose creator is unknown.
// The creator then prepares the content while the others join.
//
//   preparing --> gathering --> complete         Each arrow is one compare-and-swap of `phase`,
//        \------------\-------> failed           so all participants see the same outcome.
//
//   complete    Every rank has joined. The first process that sees this removes the name, and no process returns
//               before the name is gone, so nothing is left behind whatever happens later.
//   failed      A member died, timed out, could not prepare, or two processes claimed one rank. A process that sees
//               this removes the name and reports why. A newcomer that finds all members dead does the same.
//   abandoned   A failure after which all try again: the rendezvous was begun too early, or its creator died among
//               survivors of a communicator.
//
// A name is removed only under a lock on its file and while it refers to that file (Segment::take_name). So two
// processes that find a stale segment cannot remove the new one.
//
// Nobody waits for dead processes. A rank belongs to its process from the moment it joins, and waiting processes check
// the members. A rank that arrives after a death has ended the rendezvous is told of it, however late it is:
//   Under a user's name, by a tombstone (tombstones.hpp). Invariant: a rank whose process was alive when a rendezvous
//   ended takes part in no later rendezvous of that name before it has been told.
//   Proof: A rank that joined reads the phase. For the others, the tombstone is written before the name is removed,
//   under the same lock. A rank first looks up the name. If it finds a rendezvous that has ended, it removes that and
//   looks again. Then it looks for tombstones. A creator looks once more after its own rendezvous has the name, when
//   every earlier end has its tombstone. If a rank joins while the rendezvous ends, it reads the phase. No rank is told
//   twice: a tombstone is not written again once it may have been read, since the name is gone by then.
//   Among ranks of a communicator (RendezvousOptions::stands, gone), by the communicator's registry: a death stays
//   recorded there, and every waiting rank checks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/segment.hpp"
#include "comm/group/membership.hpp"
#include "smelt/error.hpp"

namespace smelt::comm {

/// The content that the creator puts into the segment.
struct SegmentContent {
  std::string shared_config;   ///< opaque bytes that every process gets to read
  std::size_t user_bytes = 0;  ///< size of the zeroed user region
  /// Optional: called with the user region before any other process has mapped it.
  std::function<void(std::byte* user)> place{};
};

/// Called in one process, at most once per attempt. An error ends the rendezvous for all.
using Prepare = std::function<Result<SegmentContent>()>;

struct RendezvousOptions {
  double timeout_s = 60.0;  ///< for the whole rendezvous; > 0

  /// Whether this process knows that a rank will not come. If given, a death does not end the rendezvous: it is
  /// complete once every rank has joined, has died or is gone, and the dead are marked in its Membership. Either all
  /// processes give it or none. Used by survivors.
  std::function<bool(int rank)> gone = {};

  /// Whether the rendezvous can still succeed, as far as this process knows; called while it waits. An error ends the
  /// rendezvous for all. Eventually it must return an error in all processes or in none. Used within a communicator.
  std::function<Result<void>()> stands = {};

  /// Whether a rank that has not joined will not come, because it has left the parent communicator. If so, the
  /// rendezvous ends for all. Ordering: what the rank did before it left is visible to the caller.
  std::function<bool(int rank)> left = {};
};

/// A complete rendezvous. The ranks of this process are present in membership(); the owner of this object must call
/// leave() for them.
struct Rendezvous {
  Segment segment;
  int size = 0;
  std::size_t membership_offset = 0;
  std::size_t shared_config_offset = 0;
  std::size_t shared_config_bytes = 0;
  std::size_t user_offset = 0;  ///< page-aligned
  std::size_t user_bytes = 0;
  std::uint64_t id = 0;   ///< random, the same in all processes; names can be derived from it
  bool prepared = false;  ///< this process prepared the content
  std::string name;       ///< empty: over a descriptor

  Membership membership() const { return {segment.data() + membership_offset, size}; }
  std::string_view shared_config() const {
    return {reinterpret_cast<const char*>(segment.data() + shared_config_offset), shared_config_bytes};
  }
  std::byte* user() const { return segment.data() + user_offset; }
};

/// Waits for the processes that bring the other ranks of 0 to size-1. All succeed, or all fail. A process that arrives
/// after a death has ended the rendezvous gets that error, once. One that arrives after another failure begins a new
/// rendezvous.
/// Requirements: 1 <= size <= Membership::most_ranks, at least one rank, each brought once; `name`
/// of 1 to 200 bytes without '/'. Several threads of a process may each bring ranks.
/// Ordering: what any process did before its call is visible to all after theirs return.
/// Cost: polls, at most a millisecond apart, and a few dozen system calls.
/// Errors: invalid_argument (name, size, ranks; a segment made for another size; a rank taken),
/// permission_denied (symbolic link, owner or mode of what has the name), bad_format (something else
/// has the name), out_of_memory (/dev/shm is full), broken (a member died; the message names it), timed_out
/// (the message names the missing ranks), or what `prepare` or `stands` returned.
Result<Rendezvous> join_rendezvous(const std::string& name, int size, std::span<const int> ranks,
                                   const Prepare& prepare, const RendezvousOptions& options = {});

/// The same over a descriptor of shared memory that the processes inherited or were sent, such as a
/// memfd of any size. Good for one rendezvous; the caller keeps the descriptor.
Result<Rendezvous> join_rendezvous_fd(int fd, int size, std::span<const int> ranks, const Prepare& prepare,
                                      const RendezvousOptions& options = {});

/// A view of a complete rendezvous for a process that does not take part; empty if the segment is something else or is
/// not complete. `segment`: the whole segment.
std::optional<Rendezvous> inspect_rendezvous(Segment segment);

/// Removes the names in /dev/shm of this user's incomplete rendezvous whose processes were all killed. Returns how
/// many. join_rendezvous() does the same for its own name.
int remove_stale_rendezvous();

}  // namespace smelt::comm
