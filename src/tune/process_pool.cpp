#include "tune/process_pool.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace smelt::comm {
namespace {

/// Runs in the child, without the parent's signal handlers and stream buffers.
[[noreturn]] void be_rank(int rank, pid_t parent, const std::function<int(int)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before prctl()
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  int status = 1;
  try {
    status = work(rank);
  } catch (...) {}
  _exit(status);
}

bool has_ended(pid_t child) noexcept {
  const pid_t ended = waitpid(child, nullptr, WNOHANG);
  return ended == child || (ended < 0 && errno == ECHILD);
}

}  // namespace

Result<RendezvousMemory> RendezvousMemory::create() {
  const int fd = memfd_create("smelt-tune", MFD_CLOEXEC);
  if (fd < 0) return make_error(Status::io_error, "tune: cannot make memory to meet over: {}", std::strerror(errno));
  return RendezvousMemory(fd);
}

RendezvousMemory::~RendezvousMemory() {
  if (fd_ >= 0) close(fd_);
}

Result<ProcessPool> ProcessPool::fork(int ranks, const std::function<int(int)>& work) {
  ProcessPool pool;
  pool.children_.reserve(static_cast<std::size_t>(ranks));
  const pid_t parent = getpid();
  for (int rank = 1; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) be_rank(rank, parent, work);
    if (child < 0) {
      return make_error(Status::io_error, "cannot start a process for rank {}: {}", rank, std::strerror(errno));
    }
    pool.children_.push_back(child);
  }
  return pool;
}

void ProcessPool::end(double patience_s) noexcept {
  const auto give_up = monotonic_ns() + static_cast<std::uint64_t>(patience_s * 1e9);
  for (;;) {
    std::erase_if(children_, has_ended);
    if (children_.empty() || monotonic_ns() >= give_up) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const pid_t child : children_) kill(child, SIGKILL);
  for (const pid_t child : children_) {
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
  }
  children_.clear();
}

}  // namespace smelt::comm
