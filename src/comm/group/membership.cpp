#include "comm/group/membership.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace smelt::comm {
namespace {

constexpr int state_bits = 2;
static_assert(state_bits + ProcessId::packed_bits == 64);
constexpr std::uint64_t state_mask = (1u << state_bits) - 1;

constexpr std::uint64_t poll_interval_ns = 1'000'000;
constexpr std::uint64_t probe_interval_ns = 20'000'000;
constexpr std::uint64_t search_interval_ns = 100'000'000;

std::uint64_t pack(const ProcessId& process) { return process.packed() << state_bits; }

ProcessId unpack(std::uint64_t word) { return ProcessId::unpacked(word >> state_bits); }

std::uint64_t id_of(std::uint64_t word) { return word & ~state_mask; }
MemberState state_of(std::uint64_t word) { return static_cast<MemberState>(word & state_mask); }
std::uint64_t with_state(std::uint64_t id, MemberState state) { return id | static_cast<std::uint64_t>(state); }

pid_t thread_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// While it lives, system calls of this thread are no cancellation points.
class CancellationOff {
 public:
  CancellationOff() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  CancellationOff(const CancellationOff&) = delete;
  ~CancellationOff() { pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace

// ---- Membership

std::size_t Membership::bytes(int ranks) noexcept {
  const std::size_t ballot_bytes = (static_cast<std::size_t>(ranks) + 63) / 64 * sizeof(std::uint64_t);
  const std::size_t own_lines = (ballot_bytes + separation_bytes - 1) / separation_bytes * separation_bytes;
  return sizeof(Head) + static_cast<std::size_t>(ranks) * (sizeof(Record) + own_lines);
}

Membership::Membership(std::byte* memory, int ranks) noexcept : memory_(memory), ranks_(ranks) {}

std::uint64_t* Membership::proposal(int rank) const noexcept {
  const auto count = static_cast<std::size_t>(ranks_);
  const std::size_t stride = (bytes(ranks_) - sizeof(Head)) / count - sizeof(Record);
  std::byte* first = memory_ + sizeof(Head) + count * sizeof(Record);
  return reinterpret_cast<std::uint64_t*>(first + static_cast<std::size_t>(rank) * stride);
}

Result<void> Membership::join(int rank) {
  if (rank < 0 || rank >= ranks_) {
    return make_error(Status::invalid_argument, "rank {} is not in 0 to {}", rank, ranks_ - 1);
  }
  const auto self = ProcessId::self();
  if (!self) return self.error();
  const std::uint64_t mine = current_namespaces();
  std::uint64_t theirs = 0;
  if (mine != 0 && !head().namespaces.compare_exchange_strong(theirs, mine, std::memory_order_relaxed) &&
      theirs != mine) {
    return make_error(Status::not_supported,
                      "rank {} is in another PID or time namespace than the ranks before it: they could not see "
                      "each other's death; run all ranks in one",
                      rank);
  }
  enable_heavy_barrier();
  // Acquire: pairs with the release of whoever took the rank, if somebody did.
  std::uint64_t word = 0;
  if (!record(rank).word.compare_exchange_strong(word, with_state(pack(*self), MemberState::present),
                                                 std::memory_order_acq_rel, std::memory_order_acquire)) {
    const char* fate = state_of(word) == MemberState::present ? "taken" : "used up";
    return make_error(Status::invalid_argument, "rank {} is {} by process {}; give every rank to one process only",
                      rank, fate, unpack(word).pid);
  }
  record(rank).thread.store(static_cast<std::uint32_t>(thread_id()), std::memory_order_relaxed);
  head().joins.fetch_add(1, std::memory_order_release);  // find_processes() acquires: the word is there
  return {};
}

bool Membership::same_namespaces() const noexcept {
  const std::uint64_t theirs = head().namespaces.load(std::memory_order_relaxed);
  const std::uint64_t mine = current_namespaces();
  return theirs == 0 || mine == 0 || theirs == mine;
}

void Membership::leave(int rank) noexcept {
  if (rank < 0 || rank >= ranks_) return;
  const auto self = ProcessId::self();
  if (!self) return;
  std::uint64_t expected = with_state(pack(*self), MemberState::present);
  // Release: who sees that the rank has left (state()) sees everything that it did before.
  record(rank).word.compare_exchange_strong(expected, with_state(pack(*self), MemberState::left),
                                            std::memory_order_acq_rel, std::memory_order_relaxed);
}

bool Membership::mine(int rank) const noexcept {
  const auto self = ProcessId::self();
  return self && id_of(record(rank).word.load(std::memory_order_relaxed)) == pack(*self);
}

void Membership::mark_ended(int rank) noexcept {
  const std::uint32_t came_and_went = attendance(rank);
  if (came_and_went == 0 || came_and_went % 2 != 0) {
    mark_dead(rank);
    return;
  }
  std::uint64_t word = record(rank).word.load(std::memory_order_acquire);
  if (state_of(word) != MemberState::present) return;
  record(rank).word.compare_exchange_strong(word, with_state(id_of(word), MemberState::left), std::memory_order_acq_rel,
                                            std::memory_order_relaxed);
}

bool Membership::mark_dead(int rank) noexcept {
  std::uint64_t word = record(rank).word.load(std::memory_order_acquire);
  // Fails if the rank was just left, or marked by somebody else.
  const bool marked = state_of(word) == MemberState::present &&
                      record(rank).word.compare_exchange_strong(word, with_state(id_of(word), MemberState::dead),
                                                                std::memory_order_acq_rel, std::memory_order_acquire);
  // Also when somebody else marked it: that one may have been killed before it said so.
  if (marked || state_of(word) == MemberState::dead) note_death(rank);
  return marked;
}

bool Membership::mark_absent_dead(int rank) noexcept {
  std::uint64_t word = 0;
  const bool marked = record(rank).word.compare_exchange_strong(word, with_state(0, MemberState::dead),
                                                                std::memory_order_acq_rel, std::memory_order_relaxed);
  if (marked || state_of(word) == MemberState::dead) note_death(rank);
  return marked;
}

void Membership::note_death(int rank) noexcept {
  std::uint32_t none = 0;
  // Pairs with first_dead(): who learns of the death sees the rank's record.
  head().first_dead.compare_exchange_strong(none, static_cast<std::uint32_t>(rank) + 1, std::memory_order_release,
                                            std::memory_order_relaxed);
}

std::uint32_t Membership::attach(int rank) noexcept {
  // Relaxed: who looks for departures is not interested in what went before.
  return record(rank).attendance.fetch_add(1, std::memory_order_relaxed) + 1;
}

void Membership::detach(int rank) noexcept {
  if (!mine(rank) || record(rank).attendance.load(std::memory_order_relaxed) % 2 == 0) return;
  // Pairs with attendance(): who sees the departure sees what the rank has published.
  record(rank).attendance.fetch_add(1, std::memory_order_release);
}

std::uint32_t Membership::attendance(int rank) const noexcept {
  return record(rank).attendance.load(std::memory_order_acquire);  // pairs with detach()
}

std::uint32_t Membership::departure(int rank, std::uint32_t own) const noexcept {
  const std::uint32_t theirs = attendance(rank);
  if (theirs % 2 == 0 && theirs > own) return theirs;
  return state(rank) == MemberState::left ? for_good : 0;
}

MemberState Membership::state(int rank) const noexcept {
  // Pairs with the compare-and-swaps of join, leave and mark_dead.
  return state_of(record(rank).word.load(std::memory_order_acquire));
}

ProcessId Membership::process(int rank) const noexcept {
  return unpack(record(rank).word.load(std::memory_order_acquire));
}

pid_t Membership::thread(int rank) const noexcept {
  return static_cast<pid_t>(record(rank).thread.load(std::memory_order_relaxed));
}

int Membership::first_dead() const noexcept {
  // Pairs with note_death().
  return static_cast<int>(head().first_dead.load(std::memory_order_acquire)) - 1;
}

std::vector<int> Membership::survivors() const {
  std::vector<int> present_ranks;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (present(rank)) present_ranks.push_back(rank);
  }
  return present_ranks;
}

// ---- Agreement

bool Membership::settled(int rank, std::uint32_t own) const noexcept {
  // Pairs with the store in agree_on_survivors(); publishes nothing but itself.
  return record(rank).arrived.load(std::memory_order_acquire) != 0 || !present(rank) || departure(rank, own) != 0;
}

void Membership::propose(int rank) noexcept {
  std::uint64_t* own = proposal(rank);
  for (int other = 0; other < ranks_; ++other) {
    if (record(other).arrived.load(std::memory_order_acquire) != 0 && present(other)) {
      own[other / 64] |= std::uint64_t{1} << (other % 64);
    }
  }
  std::uint32_t undecided = 0;
  // Release: publishes the proposal to whoever acquires the decision. See the proof in the header.
  head().decision.compare_exchange_strong(undecided, static_cast<std::uint32_t>(rank) + 1, std::memory_order_release,
                                          std::memory_order_relaxed);
  unpark(head().parking);
}

Result<std::vector<int>> Membership::agree_on_survivors(int rank, FailureDetector& detector, double timeout_s,
                                                        const WaitConfig& config) {
  if (rank < 0 || rank >= ranks_ || !present(rank)) {
    return make_error(Status::invalid_argument, "rank {} is not a present rank: it cannot survive", rank);
  }
  record(rank).arrived.store(1, std::memory_order_release);  // pairs with settled() and propose()
  unpark(head().parking);

  const bool limited = timeout_s > 0.0 && timeout_s < 1e9;
  const std::uint64_t deadline_ns = limited ? monotonic_ns() + static_cast<std::uint64_t>(timeout_s * 1e9) : ~0ull;
  const std::uint32_t own = attendance(rank);
  int first_open = 0;  // all ranks before this one are settled, and stay so
  const auto decided = [&] { return head().decision.load(std::memory_order_acquire); };  // pairs with propose()
  const auto ready = [&] {
    while (first_open < ranks_ && settled(first_open, own)) ++first_open;
    return first_open == ranks_ || decided() != 0;
  };
  struct Agreement {
    FailureDetector& detector;
    decltype(ready)& is_ready;
    std::uint64_t deadline_ns;
  } looking{detector, ready, deadline_ns};
  Waiter waiter(config);
  waiter.set_interrupt(
      [](void* context) {
        auto& me = *static_cast<Agreement*>(context);
        me.detector.check();
        return me.is_ready() || monotonic_ns() >= me.deadline_ns;
      },
      &looking);
  waiter.wait(ready, &head().parking);

  if (decided() == 0) propose(rank);
  const std::uint64_t* set = proposal(static_cast<int>(decided()) - 1);
  std::vector<int> members;
  for (int other = 0; other < ranks_; ++other) {
    if ((set[other / 64] >> (other % 64) & 1) != 0) members.push_back(other);
  }
  if (std::binary_search(members.begin(), members.end(), rank)) return members;
  return make_error(Status::timed_out,
                    "rank {} came when the {} other survivors had agreed to go on without it; allow a longer timeout",
                    rank, members.size());
}

// ---- FailureDetector

FailureDetector::FailureDetector(const Membership& members, Method method)
    : members_(members),
      processes_(static_cast<std::size_t>(members.ranks())),
      process_of_(static_cast<std::size_t>(members.ranks()), -1) {
  if (const auto self = ProcessId::self()) own_id_ = pack(*self);
  if (method == Method::automatic) epoll_ = epoll_create1(EPOLL_CLOEXEC);
}

FailureDetector::~FailureDetector() {
  for (auto& process : processes_) close_pidfd(process);
  if (epoll_ >= 0) ::close(epoll_);
}

bool FailureDetector::check() noexcept {
  const std::uint64_t now = monotonic_ns();
  // Acquire and release on busy_: what one thread did in poll() is seen by the next one there.
  if (now >= next_poll_ns_.load(std::memory_order_relaxed) && !busy_.exchange(true, std::memory_order_acquire)) {
    const CancellationOff off;  // else a cancelled thread could leave busy_ set
    poll(now);
    next_poll_ns_.store(now + poll_interval_ns, std::memory_order_relaxed);
    busy_.store(false, std::memory_order_release);
  }
  return members_.first_dead() >= 0;
}

void FailureDetector::poll(std::uint64_t now_ns) noexcept {
  const std::uint32_t joins = members_.head().joins.load(std::memory_order_acquire);  // pairs with join()
  // Now and then in any case: a process may have been killed before it counted its join.
  if (!searched_ || joins != seen_joins_ || now_ns >= next_search_ns_) {
    searched_ = true;
    seen_joins_ = joins;
    next_search_ns_ = now_ns + search_interval_ns;
    find_processes();
  }
  if (epoll_ >= 0) {
    epoll_event events[16];
    const long count = syscall(SYS_epoll_pwait, epoll_, events, 16, 0, nullptr, 0);
    for (long i = 0; i < count; ++i) lost(static_cast<int>(events[i].data.u32));
  }
  if (probed_ > 0 && now_ns >= next_probe_ns_) {
    next_probe_ns_ = now_ns + probe_interval_ns;
    probe_all();
  }
}

void FailureDetector::find_processes() noexcept {
  for (auto& process : processes_) process.used = false;
  for (int rank = 0; rank < members_.ranks(); ++rank) {
    const std::uint64_t word = members_.record(rank).word.load(std::memory_order_acquire);
    const bool here = state_of(word) == MemberState::present || state_of(word) == MemberState::dead;
    int& entry = process_of_[static_cast<std::size_t>(rank)];
    if (!here || id_of(word) == 0 || id_of(word) == own_id_) {
      entry = -1;
      continue;
    }
    if (entry < 0 || processes_[static_cast<std::size_t>(entry)].id != id_of(word)) entry = entry_for(id_of(word));
    processes_[static_cast<std::size_t>(entry)].used = true;
  }
  for (auto& process : processes_) {
    if (process.id == 0 || process.used) continue;
    if (process.pidfd < 0 && !process.dead) --probed_;
    close_pidfd(process);
    process = Process{};
  }
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    // A rank that joined after its process was seen to die cannot be; one that was marked late can.
    if (processes_[i].dead && processes_[i].used) lost(static_cast<int>(i));
  }
}

// The entry of a process, made if it has none. There are as many entries as ranks, and a rank is
// only ever taken once: there is always one to be had.
int FailureDetector::entry_for(std::uint64_t id) noexcept {
  int free = -1;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].id == id) return static_cast<int>(i);
    if (processes_[i].id == 0 && free < 0) free = static_cast<int>(i);
  }
  processes_[static_cast<std::size_t>(free)] = Process{.id = id};
  open(free);
  return free;
}

void FailureDetector::open(int entry) noexcept {
  Process& process = processes_[static_cast<std::size_t>(entry)];
  const ProcessId id = unpack(process.id);
  if (epoll_ >= 0) process.pidfd = static_cast<int>(syscall(SYS_pidfd_open, id.pid, 0));
  // Looked at after the pidfd was opened: if the process lives now, it lived then, and is the one
  // that the pidfd means.
  const Liveness life = liveness_of(id);
  if (life == Liveness::dead) {
    close_pidfd(process);
    process.dead = true;
    return;  // find_processes() marks its ranks once they are all known
  }
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u32 = static_cast<std::uint32_t>(entry);
  if (process.pidfd >= 0 &&
      (life == Liveness::unknown || epoll_ctl(epoll_, EPOLL_CTL_ADD, process.pidfd, &event) != 0)) {
    ::close(process.pidfd);
    process.pidfd = -1;
  }
  if (process.pidfd < 0) ++probed_;
}

void FailureDetector::close_pidfd(Process& process) noexcept {
  if (process.pidfd < 0) return;
  // Closing is not enough where a forked child still holds the descriptor. In such a child the
  // epoll instance is the parent's too, and stays as it is.
  if (static_cast<pid_t>(getpid()) == unpack(own_id_).pid) epoll_ctl(epoll_, EPOLL_CTL_DEL, process.pidfd, nullptr);
  ::close(process.pidfd);
  process.pidfd = -1;
}

void FailureDetector::probe_all() noexcept {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const Process& process = processes_[i];
    if (process.id == 0 || process.dead || process.pidfd >= 0) continue;
    if (liveness_of(unpack(process.id)) == Liveness::dead) lost(static_cast<int>(i));
  }
}

// Marks every rank of a dead process; also those that joined unnoticed since the last search.
void FailureDetector::lost(int entry) noexcept {
  Process& process = processes_[static_cast<std::size_t>(entry)];
  if (process.id == 0) return;
  if (process.pidfd < 0 && !process.dead) --probed_;
  process.dead = true;
  close_pidfd(process);
  for (int rank = 0; rank < members_.ranks(); ++rank) {
    if (id_of(members_.record(rank).word.load(std::memory_order_acquire)) == process.id) members_.mark_ended(rank);
  }
}

// ---- ThreadExitGuard

struct ThreadExitGuard::ThreadBinding {
  std::mutex mutex;  // orders the end of the thread against release()
  bool bound = true;
  Membership members;
  int rank;
  pid_t pid;
  std::weak_ptr<const void> memory;

  ThreadBinding(const Membership& view, int bound_rank, std::weak_ptr<const void> owner)
      : members(view), rank(bound_rank), pid(getpid()), memory(std::move(owner)) {}
};

// The bonds of one thread. Destroyed when it ends, with its other thread_local objects.
class ThreadExitGuard::ThreadBindings {
 public:
  ~ThreadBindings() {
    for (const auto& binding : bindings_) end(*binding);
  }

  void add(std::shared_ptr<ThreadBinding> binding) {
    // Those that only this list still knows are of guards that are gone.
    bindings_.erase(
        std::remove_if(bindings_.begin(), bindings_.end(), [](const auto& old) { return old.use_count() == 1; }),
        bindings_.end());
    bindings_.push_back(std::move(binding));
  }

 private:
  void end(ThreadBinding& binding) const noexcept {
    // In a forked child the rank is still its parent's, and the mutex may be held for ever.
    if (binding.pid != getpid()) return;
    // Dropped after the lock: the last owner of the memory may own the guard as well.
    const std::shared_ptr<const void> memory = binding.memory.lock();
    const std::lock_guard lock(binding.mutex);
    // The end of the first thread is the end of the process by exit(3), which finishes what it has begun.
    const bool exits = thread_id() == binding.pid;
    if (binding.bound && memory != nullptr) {
      exits ? binding.members.detach(binding.rank) : (void)binding.members.mark_dead(binding.rank);
    }
    binding.bound = false;
  }

  std::vector<std::shared_ptr<ThreadBinding>> bindings_;
};

ThreadExitGuard::ThreadBindings& ThreadExitGuard::bindings_of_this_thread() {
  thread_local ThreadBindings bindings;
  return bindings;
}

ThreadExitGuard::ThreadExitGuard(const Membership& members, int rank, std::weak_ptr<const void> memory) {
  ThreadBindings& bindings = bindings_of_this_thread();
  binding_ = std::make_shared<ThreadBinding>(members, rank, std::move(memory));
  members.record(rank).thread.store(static_cast<std::uint32_t>(thread_id()), std::memory_order_relaxed);
  bindings.add(binding_);
}

ThreadExitGuard& ThreadExitGuard::operator=(ThreadExitGuard&& other) noexcept {
  if (this != &other) {
    release();
    binding_ = std::move(other.binding_);
  }
  return *this;
}

void ThreadExitGuard::release() noexcept {
  if (binding_ == nullptr) return;
  // In a forked child it has no effect any more, and another thread of the parent may have had the mutex.
  if (binding_->pid == getpid()) {
    const std::lock_guard lock(binding_->mutex);
    binding_->bound = false;
  }
  binding_.reset();
}

}  // namespace smelt::comm
