// Tombstones: records of failed rendezvous, for ranks that arrive afterwards (rendezvous.hpp).
//
// A tombstone is a file of a few hundred bytes in the directory "ended" beside the cached machine models. It is not in
// /dev/shm because it may stay for ranks that never come, and would occupy memory there.
//
//   ended/<place>-<user>-<rendezvous's id>-<name>      place: hash of the boot and the namespaces that define pids
//
//   Audience  The ranks that had not joined, in processes that were alive when the rendezvous ended. A process started
//             later belongs to a new attempt. The kernel reports start times with a resolution of 10 ms, and if no
//             member survived, the time of the death is known to a second only. In doubt a process counts as alive.
//   Life      The file is removed when the last rank of the audience has been told. After the creator's timeout, the
//             next process that looks for any tombstone removes it.
//   Told      Once per rank: the file has a bit for each rank, changed under a lock on the file.
//
// If writing a tombstone fails (for example without a writable directory), no harm is done: a late rank then waits
// until its own timeout.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "smelt/error.hpp"

namespace smelt::comm {

/// Nanoseconds since boot, on the clock that the kernel uses for start times of processes.
std::uint64_t boot_ns() noexcept;

struct Tombstone {
  std::string name;              ///< of the rendezvous
  std::uint64_t id = 0;          ///< distinguishes rendezvous of one name
  std::uint64_t ended_ns = 0;    ///< boot_ns(); an upper bound
  std::uint64_t expires_ns = 0;  ///< boot_ns() at which the rendezvous would have timed out
  Error error;                   ///< for the audience
};

/// Writes a tombstone for the ranks in `absent`. Does nothing if `absent` is empty, or if the tombstone has expired or
/// exists already. Requirement: at most one process at a time calls it for an id.
void record_tombstone(const Tombstone& tombstone, std::span<const int> absent);

/// The error of a failed rendezvous of that name that one of these ranks has not been told of, and marks it as told.
/// Removes expired tombstones. Cost: one system call if there is none.
std::optional<Error> consume_tombstone(const std::string& name, std::span<const int> ranks);

/// Marks a tombstone as told for ranks that learned of the failure in another way.
void acknowledge_tombstone(const std::string& name, std::uint64_t id, std::span<const int> ranks);

}  // namespace smelt::comm
