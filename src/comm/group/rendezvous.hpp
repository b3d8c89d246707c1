// Rendezvous: processes of one user meet under a name, or over a memfd, and map one segment.
//
//   | head | membership | shared configuration | user region ... |        /dev/shm/smelt-<uid>-<name>, mode 0600
//
// The first to come makes a segment without a name, writes the head, takes its ranks, and only then
// links it to the name: there is no moment at which the name means something half-made or something
// whose maker is not known. It goes on to prepare the content; the others take their ranks at once.
//
//   preparing --> gathering --> complete         each arrow is one compare-and-swap of `phase`,
//        \------------\-------> failed           so all who take part see the same end
//
//   complete    every rank has joined. Whoever sees it first removes the name, and nobody returns
//               before it is gone: whatever happens later leaves nothing behind.
//   failed      a member died, gave up after its timeout, could not prepare, or two processes
//               claimed one rank. Whoever sees it removes the name and says why. So does a newcomer that
//               finds nobody of it alive: then it has ended by a death.
//   abandoned   (a kind of failure) begun too early, or its creator died among survivors: all try again.
//
// A name is only removed under a lock on its file and while it means that very file
// (Segment::take_name), so of two processes that find a stale segment none removes the fresh one.
//
// Nobody waits for the dead. A rank is a process's from the moment it has joined; the others look at it while they
// wait. A rank that comes when a death has ended the rendezvous learns of it, too, however late it is:
//   Under a user's name, by a tombstone (tombstones.hpp). Invariant: a rank whose process lived when the rendezvous
//   ended takes part in no later one of that name before it has been told.
//   Proof: Who joined reads the phase. For the others the tombstone is written before the name is removed, under the
//   same lock. A rank first looks at the name, where it may find the ended rendezvous: it buries that itself and looks
//   again. Then it looks for tombstones. If it founds, it looks once more when its own rendezvous has the name: what
//   ended before, ended in writing. If it joins and the rendezvous ends around that moment, it reads the phase. Nobody
//   can be told twice: a tombstone is not written again once somebody may have read it, for the name is gone by then.
//   Where the ranks are those of a communicator (RendezvousOptions::stands, gone), by the registry of that: there a
//   death is never forgotten, and each rank that waits looks at it.
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

/// What the process that comes first puts into the segment.
struct SegmentContent {
  std::string shared_config;   ///< opaque bytes that every process gets to read
  std::size_t user_bytes = 0;  ///< size of the zeroed user region
  /// Optional: called with the user region before any other process has mapped it.
  std::function<void(std::byte* user)> place{};
};

/// Called in one process of a rendezvous, at most once per attempt; its error ends the rendezvous for all.
using Prepare = std::function<Result<SegmentContent>()>;

struct RendezvousOptions {
  double timeout_s = 60.0;  ///< for the whole rendezvous; > 0

  /// Ranks that will not come (any more), as this process knows. With it a death does not end the
  /// rendezvous: it is complete once every rank has joined, died or gone, and the dead are marked so in
  /// its Membership. All processes must give it or none. For survivors who meet anew.
  std::function<bool(int rank)> gone = {};

  /// Whether the rendezvous can still come about, as this process knows; looked at while it waits. An error ends
  /// the rendezvous for all. Sooner or later it must be an error for all or for none. For the ranks of a communicator.
  std::function<Result<void>()> stands = {};

  /// Whether that rank will come no more, unless it has joined already: it has left the communicator whose part is
  /// made. Ends the rendezvous for all. Whoever knows it sees all that the rank did before.
  std::function<bool(int rank)> left = {};
};

/// A rendezvous that is complete. The ranks of this process are present in membership(); whoever owns
/// the rendezvous leaves them.
struct Rendezvous {
  Segment segment;
  int size = 0;
  std::size_t membership_offset = 0;
  std::size_t shared_config_offset = 0;
  std::size_t shared_config_bytes = 0;
  std::size_t user_offset = 0;  ///< page-aligned
  std::size_t user_bytes = 0;
  std::uint64_t id = 0;   ///< random, the same in all processes: for names derived from the rendezvous
  bool prepared = false;  ///< this process prepared the content
  std::string name;       ///< under which it met; empty: over a descriptor

  Membership membership() const { return {segment.data() + membership_offset, size}; }
  std::string_view shared_config() const {
    return {reinterpret_cast<const char*>(segment.data() + shared_config_offset), shared_config_bytes};
  }
  std::byte* user() const { return segment.data() + user_offset; }
};

/// Meets the processes that bring the other ranks of 0 to size-1. All return, or all fail. Those that come after a
/// death has ended it are told so, once; those that come after another failure begin a new rendezvous.
/// Requirements: 1 <= size <= Membership::most_ranks, at least one rank, each brought once; `name`
/// of 1 to 200 bytes without '/'. Several threads of a process may each bring ranks.
/// Ordering: what was done before any process called is visible to all once they return.
/// Cost: polls, at most a millisecond apart, and a few dozen system calls.
/// Errors: invalid_argument (name, size, ranks; a segment made for another size; a rank taken),
/// permission_denied (symbolic link, owner or mode of what has the name), bad_format (something else
/// has the name), out_of_memory (/dev/shm is full), broken (a member died; names it), timed_out
/// (names the ranks that have not come), or what `prepare` or `stands` returned.
Result<Rendezvous> join_rendezvous(const std::string& name, int size, std::span<const int> ranks,
                                   const Prepare& prepare, const RendezvousOptions& options = {});

/// The same over a descriptor of shared memory that the processes inherited or were sent, such as a
/// memfd of any size. Good for one rendezvous; the caller keeps the descriptor.
Result<Rendezvous> join_rendezvous_fd(int fd, int size, std::span<const int> ranks, const Prepare& prepare,
                                      const RendezvousOptions& options = {});

/// What a complete rendezvous is about, for one who only looks at its memory; nothing if that is something else, or is
/// not complete. `segment`: all of it.
std::optional<Rendezvous> inspect_rendezvous(Segment segment);

/// Removes the names that rendezvous of this user left in /dev/shm when all their processes were
/// killed before they were complete. Returns how many. join_rendezvous() does the same for its own name.
int remove_stale_rendezvous();

}  // namespace smelt::comm
