#include "channel/holder.hpp"

#include <pthread.h>

#include <mutex>

#include "base/clock.hpp"
#include "base/process.hpp"

namespace smelt::channel {
namespace {

constexpr std::uint64_t probe_every_ns = 20'000'000;

}  // namespace

/// The ends of this process, which are made known to be anybody's when it forks.
struct Forks {
  std::mutex mutex;
  Held* first = nullptr;
  std::atomic<std::uint32_t> so_far{0};

  static Forks& all() {
    static Forks forks;
    return forks;
  }

  // Held during the fork, so that the child finds the list whole.
  static void before() {
    Forks& forks = all();
    forks.mutex.lock();
    const std::uint32_t known = forks.so_far.fetch_add(1, std::memory_order_relaxed);
    for (Held* end = forks.first; end != nullptr; end = end->next_) {
      if (end->forks_ == known) end->own_.process.store(0, std::memory_order_relaxed);
    }
  }
  static void after() { all().mutex.unlock(); }

 private:
  Forks() { pthread_atfork(before, after, after); }
};

std::atomic<std::uint32_t>& Held::forks_so_far() noexcept { return Forks::all().so_far; }

Held::Held(Holder& own, Holder& peer) : own_(own), peer_(peer) {
  Forks& forks = Forks::all();
  {
    const std::lock_guard lock(forks.mutex);
    next_ = forks.first;
    if (next_ != nullptr) next_->before_ = this;
    forks.first = this;
  }
  hold();
}

Held::~Held() {
  Forks& forks = Forks::all();
  const std::lock_guard lock(forks.mutex);
  (before_ != nullptr ? before_->next_ : forks.first) = next_;
  if (next_ != nullptr) next_->before_ = before_;
  // Pairs with sees_peer_gone(): who sees it sees all that this end has done.
  if (forks_ == forks.so_far.load(std::memory_order_relaxed)) own_.left.store(1, std::memory_order_release);
}

void Held::hold() noexcept {
  const auto self = ProcessId::self();
  Forks& forks = Forks::all();
  const std::lock_guard lock(forks.mutex);
  forks_ = forks.so_far.load(std::memory_order_relaxed);
  own_.namespaces.store(current_namespaces(), std::memory_order_relaxed);
  // Release: who finds the process finds its namespaces.
  own_.process.store(self ? self->packed() : 0, std::memory_order_release);
}

bool Held::sees_peer_gone() noexcept {
  if (peer_.left.load(std::memory_order_acquire) != 0) return true;
  const auto process = ProcessId::unpacked(peer_.process.load(std::memory_order_acquire));
  const auto now = monotonic_ns();
  if (process.pid == 0 || now < next_probe_ns_) return false;
  const std::uint64_t mine = current_namespaces();
  if (mine == 0 || mine != peer_.namespaces.load(std::memory_order_relaxed)) return false;
  const bool dead = life_of(process) == Life::dead;
  // Again at the next look if it is.
  next_probe_ns_ = now + (dead ? 0 : probe_every_ns);
  return dead && peer_.process.load(std::memory_order_acquire) == process.packed();
}

bool Held::peer_is_gone() noexcept {
  const bool before = seen_gone_;
  seen_gone_ = sees_peer_gone();
  return before && seen_gone_;
}

}  // namespace smelt::channel
