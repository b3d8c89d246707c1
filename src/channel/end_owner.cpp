#include "channel/end_owner.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

#include "base/clock.hpp"
#include "base/process.hpp"

namespace smelt::channel {
namespace {

constexpr std::uint64_t probe_every_ns = 20'000'000;

struct flock lock_of(End end, short type) noexcept {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(end);
  lock.l_len = 1;
  return lock;
}

/// The next number, odd or even.
void change(std::atomic<std::uint32_t>& shared, bool odd) noexcept {
  auto number = shared.load(std::memory_order_relaxed);
  // Release: publishes what was stored or locked before. Pairs with sees_peer_dead().
  while (!shared.compare_exchange_weak(number, (number / 2 + 1) * 2 + (odd ? 1 : 0), std::memory_order_release,
                                       std::memory_order_relaxed)) {}
}

}  // namespace

/// The channels of this process, whose ends are shared when it forks.
struct ForkRegistry {
  std::mutex mutex;  // guards the list, and whose ends are claimed
  ChannelEnds* first = nullptr;

  static ForkRegistry& all() {
    static ForkRegistry forks;
    return forks;
  }

  // Held during the fork, so that the child finds the list consistent.
  static void before() {
    ForkRegistry& forks = all();
    forks.mutex.lock();
    for (ChannelEnds* ends = forks.first; ends != nullptr; ends = ends->next_) ends->share();
  }
  static void after() { all().mutex.unlock(); }

 private:
  ForkRegistry() { pthread_atfork(before, after, after); }
};

// ---- ChannelEnds

ChannelEnds::ChannelEnds() {
  ForkRegistry& forks = ForkRegistry::all();
  const std::lock_guard lock(forks.mutex);
  next_ = forks.first;
  if (next_ != nullptr) next_->before_ = this;
  forks.first = this;
}

ChannelEnds::~ChannelEnds() {
  ForkRegistry& forks = ForkRegistry::all();
  const std::lock_guard lock(forks.mutex);
  (before_ != nullptr ? before_->next_ : forks.first) = next_;
  if (next_ != nullptr) next_->before_ = before_;
  if (made_here_) close(fd_);
}

void ChannelEnds::share() noexcept {
  // Also if no end was taken yet: other processes may share one that is taken later.
  if (fd_ < 0) {
    fd_ = memfd_create("smelt-ends", MFD_CLOEXEC);
    made_here_ = fd_ >= 0;
  }
  for (OwnedEnd* held : held_) {
    if (held != nullptr) held->share();
  }
}

int ChannelEnds::lock(End end) const noexcept {
  if (fd_ < 0) return -1;
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd_);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct flock lock = lock_of(end, F_RDLCK);  // a shared lock: others may hold it since another fork
  if (file < 0 || fcntl(file, F_OFD_SETLK, &lock) == 0) return file;
  close(file);
  return -1;
}

bool ChannelEnds::is_locked(End end) const noexcept {
  struct flock lock = lock_of(end, F_WRLCK);
  return fd_ < 0 || fcntl(fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

// ---- OwnedEnd

OwnedEnd::OwnedEnd(End end, ChannelEnds& ends, EndOwner& own, EndOwner& peer)
    : own_(own), peer_(peer), ends_(ends), end_(end) {
  {
    const std::lock_guard lock(ForkRegistry::all().mutex);
    ends_.held_[static_cast<int>(end)] = this;
  }
  hold();
}

OwnedEnd::~OwnedEnd() {
  const std::lock_guard lock(ForkRegistry::all().mutex);
  ends_.held_[static_cast<int>(end_)] = nullptr;
  // Pairs with sees_peer_gone(): publishes everything that this end has done.
  if (claimed_.load(std::memory_order_relaxed)) own_.left.store(1, std::memory_order_release);
  unlock();
}

void OwnedEnd::hold() noexcept {
  const auto self = ProcessId::self();
  const std::lock_guard lock(ForkRegistry::all().mutex);
  claimed_.store(true, std::memory_order_relaxed);
  own_.namespaces.store(current_namespaces(), std::memory_order_relaxed);
  own_.process.store(self ? self->packed() : 0, std::memory_order_relaxed);
  change(own_.shared, false);
  unlock();
}

/// Requirement: the caller holds the mutex.
void OwnedEnd::share() noexcept {
  // An end that is shared already has its lock, which the next child inherits as well.
  if (!claimed_.load(std::memory_order_relaxed)) return;
  claimed_.store(false, std::memory_order_relaxed);
  lock_ = ends_.lock(end_);
  own_.process.store(0, std::memory_order_relaxed);
  // Without a lock the owner of the end is unknown.
  change(own_.shared, lock_ >= 0);
}

void OwnedEnd::unlock() noexcept {
  if (lock_ >= 0) close(lock_);
  lock_ = -1;
}

/// Whether, according to the kernel, no process has the other end any more.
bool OwnedEnd::sees_peer_dead() const noexcept {
  // Pairs with change(). The acquires below order the second read of the number after them.
  const auto shared = peer_.shared.load(std::memory_order_acquire);
  bool dead = false;
  if (shared % 2 != 0) {
    dead = !ends_.is_locked(end_ == End::sender ? End::receiver : End::sender);
  } else {
    const auto process = ProcessId::unpacked(peer_.process.load(std::memory_order_acquire));
    const std::uint64_t mine = current_namespaces();
    dead = process.pid != 0 && mine != 0 && mine == peer_.namespaces.load(std::memory_order_relaxed) &&
           liveness_of(process) == Liveness::dead;
  }
  // Otherwise it was claimed or shared meanwhile.
  return dead && peer_.shared.load(std::memory_order_acquire) == shared;
}

bool OwnedEnd::sees_peer_gone() noexcept {
  if (peer_.left.load(std::memory_order_acquire) != 0) return true;
  const auto now = monotonic_ns();
  if (now < next_probe_ns_) return false;
  const bool dead = sees_peer_dead();
  next_probe_ns_ = now + (dead ? 0 : probe_every_ns);
  return dead;
}

bool OwnedEnd::peer_is_gone() noexcept {
  claim();  // there may have been a fork since the caller began to wait
  const bool before = seen_gone_;
  seen_gone_ = sees_peer_gone();
  return before && seen_gone_;
}

}  // namespace smelt::channel
