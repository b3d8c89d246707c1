// Tombstones: how rendezvous ended, for the ranks that had not come to them yet (rendezvous.hpp).
//
// A tombstone is a file of a few hundred bytes in the directory "ended" beside the cached machine models, not in
// /dev/shm: it may wait for ranks that never come, and then costs no memory and no name there.
//
//   ended/<place>-<user>-<rendezvous's id>-<name>      place: the boot and the namespaces that give pids a meaning
//
//   Audience  the ranks that had not come, in processes that lived when the rendezvous ended. Who was started later
//             belongs to a new try. The kernel tells starting times to a hundredth of a second, and where nobody has
//             survived, the time of the death is known to a second only: in doubt a process lived.
//   Life      until the last rank of the audience has been told, or until the rendezvous would have been over anyway by
//             its creator's timeout: then whoever looks for tombstones next, of whatever rendezvous, removes the file.
//   Told      once per rank: a bit for each, set under a lock on the file.
//
// All of this is to nobody's harm if it fails (no directory to write to, say): who comes late then waits as if the
// dead rank were late, too, until its time is over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "smelt/error.hpp"

namespace smelt::comm {

/// Nanoseconds since boot, the clock of processes' starting times.
std::uint64_t boot_ns() noexcept;

struct Tombstone {
  std::string name;              ///< of the rendezvous
  std::uint64_t id = 0;          ///< tells rendezvous of one name apart
  std::uint64_t ended_ns = 0;    ///< boot_ns(), at the latest
  std::uint64_t expires_ns = 0;  ///< boot_ns() when it would have been over
  Error error;                   ///< what the audience is told
};

/// Writes a tombstone down for the ranks of `absent`; nothing if there are none, if it has expired, or if it is there
/// already. Called by one process at a time for an id.
void record_tombstone(const Tombstone& tombstone, std::span<const int> absent);

/// The tombstone of a rendezvous of that name that one of these ranks of this process has not been told of. From now on
/// it counts as told. Removes what has expired. Cost: one system call where no rendezvous has ended lately.
std::optional<Error> consume_tombstone(const std::string& name, std::span<const int> ranks);

/// These ranks have learnt of it in another way.
void acknowledge_tombstone(const std::string& name, std::uint64_t id, std::span<const int> ranks);

}  // namespace smelt::comm
