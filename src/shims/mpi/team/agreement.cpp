#include "shims/mpi/team/agreement.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/nonblocking_operation.hpp"
#include "shims/mpi/pending/progress_hook.hpp"
#include "shims/mpi/switch_point.hpp"
#include "shims/mpi/team/file_size.hpp"
#include "shims/mpi/team/team.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

/// In memory shared by all ranks, initially zero. Followed by the RankInfo of each rank and, on separate pages, by the
/// memory of the ServerSelection.
struct SharedAgreement {
  std::atomic<int> opened;  ///< ranks that have opened it, or `called_off`
  std::atomic<int> able;    ///< ranks that have smelt's communicator
  std::atomic<int> mute;    ///< those of them without SMELT_VERBOSE=1
  SwitchPoint ours;         ///< the first call that smelt serves

  static constexpr int called_off = -1;
  /// A multiple of every page size.
  static std::size_t bytes(int size) {
    constexpr std::size_t page = 64 * 1024;
    return (sizeof(SharedAgreement) + static_cast<std::size_t>(size) * sizeof(RankInfo) + page - 1) / page * page;
  }
  RankInfo* infos() { return reinterpret_cast<RankInfo*>(this + 1); }
};
static_assert(std::atomic<int>::is_always_lock_free);

namespace {

/// Rendezvous whose communicators were freed before they gained by it; halved by each one that did gain.
constinit std::atomic<int> wasted{0};
constexpr int most_rendezvous = 4;  ///< concurrent rendezvous

/// Calls before a rendezvous. More if earlier ones did not pay: some programs create and free communicators all the
/// time.
int patience() noexcept {
  const int before = wasted.load(std::memory_order_relaxed);
  return before == 0 ? 0 : 16 << std::min(before, 12);
}

}  // namespace

Agreement::Agreement(MpiTeam& team) noexcept : team_(team), first_(team.successes) {
  team.why = "a nonblocking call before all ranks are known to share a machine";
  if (team.rank == 0) {
    allow_reading();
    shared_file_ = Descriptor(create_memory(offer_.shared));
    memory_ = Descriptor(create_memory(offer_.memory));
    offer_.machine = own_rank_info().machine;
    offer_.before_race = calls_before_race();
    const auto bytes = SharedAgreement::bytes(team.size) + ServerSelection::bytes(team.size);
    if (!leaves_room(memory_.get()) || !set_size(shared_file_.get(), bytes)) {
      shared_file_ = Descriptor();
      memory_ = Descriptor();
      offer_.shared.fd = -1;
    }
  }
  if (original.Ibcast(&offer_, sizeof offer_, MPI_BYTE, 0, team.comm, &request_) != MPI_SUCCESS) step_ = Step::lost;
}

Agreement::~Agreement() {
  if (request_ != MPI_REQUEST_NULL) original.Wait(&request_, MPI_STATUS_IGNORE);
  if (shared_ != nullptr) {
    // Ranks that have seen that all have opened it rely on this rank's joining the rendezvous.
    int seen = shared_->opened.load(std::memory_order_acquire);
    while (seen >= 0 && seen < team_.size &&
           !shared_->opened.compare_exchange_weak(seen, SharedAgreement::called_off)) {}
    if (step_ == Step::opened && seen == team_.size) rendezvous();
    if (step_ == Step::rendezvous || local_ != nullptr) wasted.fetch_add(1, std::memory_order_relaxed);
    munmap(shared_, SharedAgreement::bytes(team_.size));
  }
  smelt_rank_free(local_);
  smelt_communicator_free(communicator_);
}

/// Step 2. False: not possible on this rank.
bool Agreement::open(int call) noexcept {
  const RankInfo info = own_rank_info();
  if (!enabled()) team_.why = "SMELT_MPI=0";
  if (!enabled() || info.machine != offer_.machine || !knows_machine()) return false;
  if (!follow_library(advance_pending)) {
    team_.why = "a nonblocking collective, and a library whose progress cannot be followed";
    return false;
  }
  if (team_.rank != 0) {
    allow_reading();
    shared_file_ = Descriptor(open_memory(offer_.shared));
    memory_ = Descriptor(open_memory(offer_.memory));
  }
  if (offer_.shared.fd < 0 || shared_file_.get() < 0 || !leaves_room(memory_.get())) return false;
  const std::size_t bytes = SharedAgreement::bytes(team_.size);
  void* const shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared_file_.get(), 0);
  if (shared == MAP_FAILED) return false;
  shared_ = static_cast<SharedAgreement*>(shared);
  std::memcpy(&shared_->infos()[team_.rank], &info, sizeof info);
  (void)decided(call - 1);  // the library served all earlier calls
  int seen = shared_->opened.load(std::memory_order_relaxed);
  // Release: a rank that sees all of them (acquire in advance() and rendezvous()) sees their RankInfo.
  while (seen >= 0 && !shared_->opened.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) {}
  return seen >= 0;
}

/// Step 3. If memory or threads are missing here, the others notice by the timeout of the rendezvous.
void Agreement::rendezvous() noexcept {
  try {
    const std::vector<RankInfo> infos(shared_->infos(), shared_->infos() + team_.size);
    rendezvous_ = AsyncRendezvous::begin(memory_.get(), team_.size, team_.rank, places_of(infos));
    step_ = Step::rendezvous;
  } catch (const std::exception&) {
    step_ = Step::lost;
  }
}

/// Step 4. False: this rank has no communicator.
bool Agreement::become_able() noexcept {
  if (!rendezvous_->take(&communicator_, &local_)) return false;
  rendezvous_.reset();
  try {
    const auto before = static_cast<std::uint64_t>(offer_.before_race);
    if (before != 0) {
      race_ =
          ServerSelection::open(shared_file_.get(), SharedAgreement::bytes(team_.size), team_.size, team_.rank, before);
      if (!race_) return false;
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!verbose()) shared_->mute.fetch_add(1, std::memory_order_relaxed);
  shared_->able.fetch_add(1, std::memory_order_release);  // pairs with decided()
  return true;
}

void Agreement::advance(int call) noexcept {
  if (step_ == Step::asked) {
    int there = 0;
    if (original.Test(&request_, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS) step_ = Step::lost;
    if (there == 0 || call < first_ + patience() || rendezvous_in_progress() >= most_rendezvous) return;
    step_ = open(call) ? Step::opened : Step::lost;
  }
  if (rendezvous_in_progress() < most_rendezvous && step_ == Step::opened &&
      shared_->opened.load(std::memory_order_acquire) == team_.size)
    rendezvous();
  if (step_ == Step::rendezvous && rendezvous_->over()) step_ = become_able() ? Step::able : Step::lost;
}

/// Records that this rank has reached `call`. Returns whether smelt serves it.
bool Agreement::decided(int call) noexcept {
  // Acquire pairs with become_able().
  return shared_->ours.has_come(static_cast<std::uint64_t>(call),
                                [&] { return shared_->able.load(std::memory_order_acquire) == team_.size; });
}

/// Moves the results into the team.
void Agreement::win() noexcept {
  wasted.store(wasted.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
  team_.communicator = std::exchange(communicator_, nullptr);
  team_.local = std::exchange(local_, nullptr);
  team_.race = std::move(race_);
  team_.local_rank = team_.rank;
  team_.local_size = team_.size;
  team_.sampling = shared_->mute.load(std::memory_order_relaxed) == 0;
  team_.followed = true;
  team_.settled = team_.ready = true;
}

bool Agreement::ours(int call) noexcept {
  advance(call);
  if (shared_ == nullptr || !decided(call)) return false;
  win();
  return true;
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
