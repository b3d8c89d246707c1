#include "graph/team/team.hpp"

#include <sched.h>
#include <signal.h>

#include <system_error>

#include "base/error.hpp"

namespace smelt::graph {
namespace {

/// Blocks signals, so that they are delivered to the program's threads.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

int usable_threads() noexcept {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) return std::max(1, CPU_COUNT(&mask));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

ThreadTeam::ThreadTeam(int threads) : wait_(make_wait_config(threads, usable_threads())), caller_(wait_) {
  begin_.scope = end_.scope = FutexScope::threads;
  enable_heavy_barrier(false);
}

Result<std::unique_ptr<ThreadTeam>> ThreadTeam::create(int threads) {
  if (threads < 0 || threads > max_size) {
    return make_error(Status::invalid_argument, "{} threads: must be 1 to {}, or 0 for one per PU", threads, max_size);
  }
  if (threads == 0) threads = std::min(usable_threads(), max_size);
  std::unique_ptr<ThreadTeam> team(new ThreadTeam(threads));
  const SignalsBlocked blocked;
  for (int thread = 1; thread < threads; ++thread) {
    try {
      team->workers_.emplace_back([team = team.get(), thread] { team->serve(thread); });
    } catch (const std::system_error& error) {
      return make_error(Status::io_error, "thread {} of {} cannot be started: {}", thread, threads, error.what());
    }
  }
  return team;
}

ThreadTeam::~ThreadTeam() {
  if (!workers_.empty()) run(nullptr, nullptr);
  for (auto& worker : workers_) worker.join();
}

void ThreadTeam::run(void (*work)(void*, int), void* context) noexcept {
  if (workers_.empty()) {
    if (work != nullptr) work(context, 0);
    return;
  }
  work_ = work;
  context_ = context;
  running_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);  // published by epoch_
  epoch_.store(epoch_.load(std::memory_order_relaxed) + 1, std::memory_order_release);     // pairs with serve()
  unpark(begin_);
  if (work == nullptr) return;
  work(context, 0);
  caller_.wait([this] { return running_.load(std::memory_order_acquire) == 0; }, &end_,
               &running_);  // pairs with serve()
}

void ThreadTeam::serve(int thread) noexcept {
  Waiter waiter(wait_);
  for (std::uint32_t seen = 0;;) {
    waiter.wait([&] { return epoch_.load(std::memory_order_acquire) != seen; }, &begin_, &epoch_);  // pairs with run()
    ++seen;
    if (work_ == nullptr) return;
    work_(context_, thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) unpark(end_);  // pairs with run()
  }
}

}  // namespace smelt::graph
