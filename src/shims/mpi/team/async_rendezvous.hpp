// AsyncRendezvous: the ranks of a machine create a smelt communicator over memory that their first rank provides.
//
// The memory is an unnamed file, which the others open under /proc/<pid>/fd, so that nothing is left behind however
// they end. Each rank waits for the others in a thread of its own. Meanwhile the program's thread continues or
// progresses the library, which a rank that has not arrived yet may be waiting for.
#pragma once

#include <sched.h>
#include <smelt/smelt.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

/// What a rank publishes to ranks that may be on the same machine.
struct RankInfo {
  std::uint64_t machine;  ///< names the start of its kernel, the host, the namespace of its pid, and SMELT_MPI_MACHINE
  cpu_set_t cpus;         ///< its affinity mask
};
RankInfo own_rank_info() noexcept;

/// Identifies memory of the first rank of a machine, so that the others can open it.
struct MemoryHandle {
  int pid = 0;
  int fd = -1;
  char name[48] = {};
};
/// Creates an unnamed file and fills in its handle. -1: failed.
int create_memory(MemoryHandle& handle) noexcept;
/// Opens the memory of a handle. -1: not accessible from this process.
int open_memory(const MemoryHandle& handle) noexcept;

/// Whether `fd` is valid, and the process gets what a rendezvous needs: further descriptors, memory, a thread. Asked
/// before all ranks agree on one, as those that have a rank without these would wait for it until the timeout.
bool leaves_room(int fd) noexcept;

/// Whether smelt can discover the machine: hwloc is loaded on demand, and may not be installed.
bool knows_machine() noexcept;

/// Where Yama restricts ptrace: neighbours read this process's long messages.
void allow_reading() noexcept;

/// Where ranks are that have been bound: for each a PU that it may use, shared as little as possible. Empty where
/// all may run on the same PUs: then smelt spreads them.
std::vector<int> places_of(const std::vector<RankInfo>& infos);

class AsyncRendezvous {
 public:
  /// `fd`: memory that all of the `size` ranks have opened; the caller's. Throws std::system_error or std::bad_alloc.
  /// Who drops a rendezvous that is not over leaves it to its thread; the others get their communicator all the same.
  static std::shared_ptr<AsyncRendezvous> begin(int fd, int size, int rank, std::vector<int> places);

  AsyncRendezvous(int fd, int size, int rank, std::vector<int> places);
  AsyncRendezvous(const AsyncRendezvous&) = delete;
  AsyncRendezvous& operator=(const AsyncRendezvous&) = delete;
  ~AsyncRendezvous() { smelt_communicator_free(communicator_); }

  bool over() const noexcept { return over_.load(std::memory_order_acquire); }  // pairs with the end of rendezvous()
  /// Of one that is over: the communicator and the calling thread's rank, which are the caller's; false if it failed.
  bool take(smelt_communicator** communicator, smelt_rank** rank) noexcept;

 private:
  void rendezvous() noexcept;

  Descriptor fd_;
  int size_, rank_;
  std::vector<int> places_;
  smelt_communicator* communicator_ = nullptr;
  std::atomic<bool> over_{false};
};

int rendezvous_in_progress() noexcept;

/// Waits for the meetings that nobody waits for; before MPI is finalized.
void finish_rendezvous() noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
