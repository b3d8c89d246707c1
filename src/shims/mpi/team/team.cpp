#include "shims/mpi/team/team.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/nonblocking_operation.hpp"
#include "shims/mpi/team/communicators.hpp"
#include "shims/mpi/team/local_ranks.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

constinit std::atomic<std::uint32_t> team_generation{1};

namespace {

constinit std::mutex registry;
constinit int keyval = MPI_KEYVAL_INVALID;  // guarded by `registry`

constinit std::atomic<bool> finalizing{false};

using Teams = std::unordered_map<std::uintptr_t, MpiTeam*>;
Teams& teams() {  // guarded by `registry`; never destroyed, as other threads may call until the end of the process
  static Teams& all = *new Teams;
  return all;
}

using Clock = std::chrono::steady_clock;

// Number of communicators that were settled and freed too soon to gain by it, usually and early (settle_for_good());
// halved by each one that did gain. So programs that create and free communicators all the time do not pay for each.
constinit std::atomic<int> wasted[2] = {};
constexpr int most_wasted = 4;
constexpr int worth = 20;  // times what settling takes, which a communicator is in use at least
constinit std::atomic<Clock::rep> last_settling{0};

// What early settling has cost in vain. Who is not settled early never is; so it goes on once that is a small part of
// the time since it first was too much.
constinit std::atomic<Clock::rep> wasted_time{0};
constexpr int small_part = 100;  // one of so many

bool is_small(Clock::rep time) noexcept {
  static const auto since = Clock::now();
  return small_part * time < (Clock::now() - since).count();
}

/// Whether settling this communicator, usually or early, would probably be wasted, too. MPI_COMM_WORLD is never freed.
bool often_wasted(const MpiTeam& team, bool early) noexcept {
  if (team.comm == MPI_COMM_WORLD || wasted[early].load(std::memory_order_relaxed) < most_wasted) return false;
  return !early || !is_small(wasted_time.load(std::memory_order_relaxed));
}

/// Called when a communicator is freed; counts it if it was settled too early.
void look_back(const MpiTeam& team) noexcept {
  if (team.settling.count() == 0) return;
  const bool used = Clock::now() - team.settled_at > worth * team.settling;
  auto& count = wasted[team.early];
  const int before = count.load(std::memory_order_relaxed);
  count.store(used ? before / 2 : before + 1, std::memory_order_relaxed);
  if (!used && team.early) wasted_time.fetch_add(team.settling.count(), std::memory_order_relaxed);
}

int forget(MPI_Comm comm, int, void* value, void*) {
  {
    const std::lock_guard lock(registry);
    teams().erase(number_of(comm));
    team_generation.fetch_add(1, std::memory_order_release);
  }
  auto* const team = static_cast<MpiTeam*>(value);
  look_back(*team);
  team->agreement.reset();
  team->orphan();
  forget_pending(*team);
  team->release();
  return MPI_SUCCESS;
}

/// A number from the environment; `otherwise` without one, as for a text that is none, or with one below `least`.
int setting(const char* name, int least, int otherwise) noexcept {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  int number = least - 1;
  const auto [last, problem] = std::from_chars(text, text + std::strlen(text), number);
  return problem == std::errc() && *last == '\0' && number >= least ? number : otherwise;
}

/// Whether all processes of a communicator are of this one's MPI_COMM_WORLD. Throws std::bad_alloc.
bool within_world(MPI_Comm comm, int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size)), in_world(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  MPI_Group own = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  original.Comm_group(comm, &own);
  original.Comm_group(MPI_COMM_WORLD, &world);
  original.Group_translate_ranks(own, size, ranks.data(), world, in_world.data());
  original.Group_free(&own);
  original.Group_free(&world);
  return std::find(in_world.begin(), in_world.end(), MPI_UNDEFINED) == in_world.end();
}

/// What SMELT_MPI_RANKS says of ranks that may not have the shim.
enum class Promise { none, here, all };  // nothing; those elsewhere, and spawned ones, may lack it; none does

Promise promise() noexcept {
  const char* const ranks = std::getenv("SMELT_MPI_RANKS");
  if (ranks == nullptr || *ranks == '\0') return Promise::none;
  return std::strcmp(ranks, "all") == 0 ? Promise::all : Promise::here;
}

/// Why ranks of a communicator may not have the shim, which would not take part in an agreement; null if all have.
const char* why_not_all(MPI_Comm comm, int size) {
  static const Promise promised = promise();
  if (promised == Promise::all) return nullptr;
  static const bool world_is_here = [] {
    int world = 0;
    original.Comm_size(MPI_COMM_WORLD, &world);
    return local_ranks() == world;
  }();
  if (promised == Promise::here && (!world_is_here || !within_world(comm, size)))
    return "ranks elsewhere may lack smelt: start `smelt run` in each, not around the launcher";
  if (world_is_here && !all_local_ranks_joined())
    return "not all ranks have smelt: preload it in all of them or in none";
  return nullptr;
}

/// Why the library serves a communicator from the beginning; null if smelt may.
const char* why_not(MPI_Comm comm, int between, int size) {
  if (!is_world_there()) return "a session outside of MPI_Init and MPI_Finalize";
  if (between != 0) return "an intercommunicator";
  if (size == 1) return "a communicator of one rank";
  return why_not_all(comm, size);
}

MpiTeam* make_team(MPI_Comm comm) {
  int between = 0;
  if (original.Comm_test_inter(comm, &between) != MPI_SUCCESS) return nullptr;
  int rank = 0, size = 0;
  original.Comm_rank(comm, &rank);
  original.Comm_size(comm, &size);
  const char* const why = why_not(comm, between, size);
  auto* team = new (std::nothrow) MpiTeam;
  if (team == nullptr) return nullptr;
  team->comm = comm;
  team->rank = rank;
  team->size = size;
  team->asks_at = calls_before();
  team->known_since = Clock::now();
  if (why != nullptr) {
    team->settled = true;
    team->why = why;
  }
  const std::lock_guard lock(registry);
  if (keyval == MPI_KEYVAL_INVALID) {
    original.Comm_create_keyval(copy_nothing, forget, &keyval, nullptr);
    note_own_keyval(keyval);
  }
  teams()[number_of(comm)] = team;
  return team;
}

}  // namespace

namespace {
constexpr int usual_calls_before = 64;
/// 0: not set.
int calls_before_as_set() noexcept {
  static const int calls = setting("SMELT_MPI_AFTER", 1, 0);
  return calls;
}
}  // namespace

int calls_before() noexcept {
  const int calls = calls_before_as_set();
  return calls != 0 ? calls : usual_calls_before;
}

int calls_before_race() noexcept {
  static const int calls = setting("SMELT_MPI_RACE", 0, 32);
  return calls;
}

const char* why_early() noexcept { return enabled() ? "one of the first calls on its communicator" : "SMELT_MPI=0"; }

void MpiTeam::detach() noexcept {
  call_cache.forget();
  for (auto& each : pending_operations.idle_requests) smelt_request_free(std::exchange(each.work, nullptr));
  smelt_rank_free(std::exchange(local, nullptr));
  smelt_communicator_free(std::exchange(communicator, nullptr));
}

void MpiTeam::disconnect() noexcept {
  if (leaders != MPI_COMM_NULL) original.Comm_free(&leaders);
  if (neighbours != MPI_COMM_NULL) original.Comm_free(&neighbours);
}

void MpiTeam::release() noexcept {
  // Release and acquire: the last owner sees what the other owners did.
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

MpiTeam::~MpiTeam() {
  detach();
  // At the end of the program, ranks may free their teams in different orders.
  if (!finalizing.load(std::memory_order_relaxed)) disconnect();
}

MpiTeam* look_up_team(MPI_Comm comm) noexcept {
  const auto now = team_generation.load(std::memory_order_acquire);
  const std::lock_guard lock(registry);
  const auto found = teams().find(number_of(comm));
  if (found == teams().end()) return nullptr;
  place_of(comm) = {number_of(comm), now, found->second};
  return found->second;
}

namespace {

/// Communicators that this thread is freeing, of which the program's delete callbacks may call collectives. A team made
/// then would outlive its communicator. By thread, as another one may get the same handle for a new communicator.
class FreedCommunicator {
 public:
  explicit FreedCommunicator(MPI_Comm comm) noexcept : comm_(comm), outer_(std::exchange(innermost, this)) {}
  FreedCommunicator(const FreedCommunicator&) = delete;
  FreedCommunicator& operator=(const FreedCommunicator&) = delete;
  ~FreedCommunicator() { innermost = outer_; }

  static bool is_among(MPI_Comm comm) noexcept {
    for (const auto* each = innermost; each != nullptr; each = each->outer_) {
      if (each->comm_ == comm) return true;
    }
    return false;
  }

 private:
  static constinit thread_local const FreedCommunicator* innermost;

  MPI_Comm comm_;
  const FreedCommunicator* outer_;
};

constinit thread_local const FreedCommunicator* FreedCommunicator::innermost = nullptr;

}  // namespace

MpiTeam* need_team(MPI_Comm comm) noexcept {
  if (MpiTeam* const team = find_team(comm); team != nullptr) return team;
  if (FreedCommunicator::is_among(comm)) return nullptr;
  try {
    MpiTeam* const team = make_team(comm);
    // Outside of the registry's lock, as a tool may access attributes.
    return team != nullptr && original.Comm_set_attr(comm, keyval, team) == MPI_SUCCESS ? team : nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool turns_ready(MpiTeam& team) noexcept {
  if (!team.agreement || !team.agreement->ours(team.successes + 1)) return false;
  team.agreement.reset();
  return true;
}

namespace {

/// Asks all ranks, with a collective of the library.
bool all_ranks(const MpiTeam& team, bool willing) noexcept {
  int own = willing ? 1 : 0, all = 0;
  original.Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, team.comm);
  return all != 0;
}

/// Whether a communicator will pay for settling: they usually do; where they often did not, one that has been in use
/// for long will go on for as long.
bool pays(const MpiTeam& team) noexcept {
  return !often_wasted(team, false) ||
         Clock::now() - team.known_since > worth * Clock::duration(last_settling.load(std::memory_order_relaxed));
}

void settle_now(MpiTeam& team) noexcept {
  const auto start = Clock::now();
  settle(team);
  team.settled = true;
  team.settled_at = Clock::now();
  team.settling = team.settled_at - start;
  last_settling.store(team.settling.count(), std::memory_order_relaxed);
}

/// All ranks come here with the same number of calls behind them.
void settle_if_it_pays(MpiTeam& team) noexcept {
  if (calls_before_as_set() != 0 || all_ranks(team, pays(team))) return settle_now(team);
  team.asks_at = std::max(team.asks_at, 2 * team.successes);
}

}  // namespace

void note_success(MPI_Comm comm, bool blocking) noexcept {
  note_thread();
  MpiTeam* const team = need_team(comm);
  if (team == nullptr || team->settled || ++team->successes < team->asks_at) return;
  if (blocking) return settle_if_it_pays(*team);
  if (!team->agreement) team->agreement.emplace(*team);
}

void settle_for_good(MpiTeam& team) noexcept {
  note_thread();
  if (team.settled || team.firm) return;
  team.firm = !all_ranks(team, !often_wasted(team, true));
  if (team.firm) return;
  team.early = true;
  settle_now(team);
}

void settle_soon(MPI_Comm comm) noexcept {
  note_thread();
  MpiTeam* const team = need_team(comm);
  if (team != nullptr && !team->settled) settle_if_it_pays(*team);
}

void release_teams() noexcept {
  finalizing.store(true, std::memory_order_relaxed);
  for (;;) {
    MPI_Comm comm = MPI_COMM_NULL;
    {
      const std::lock_guard lock(registry);
      if (teams().empty()) break;
      comm = teams().begin()->second->comm;
    }
    original.Comm_delete_attr(comm, keyval);  // calls forget()
  }
  if (keyval != MPI_KEYVAL_INVALID) original.Comm_free_keyval(&keyval);
}

int report_failure(MpiTeam& team, int code) {
  original.Comm_call_errhandler(team.blamed(), code);
  return code;
}

namespace {

/// MPI_Comm_free or _disconnect. The team goes first, on all ranks: the program's delete callbacks may be called before
/// the shim's on some of them, and may call collectives, which the library then serves on all. So does an agreement,
/// whose pending collective would keep the communicator alive or crash Open MPI 4.1.
int free_comm(MPI_Comm* comm, int (*library)(MPI_Comm*)) {
  const bool goes = comm != nullptr && *comm != MPI_COMM_NULL && *comm != MPI_COMM_WORLD && *comm != MPI_COMM_SELF;
  if (!goes) return library(comm);
  if (find_team(*comm) != nullptr) original.Comm_delete_attr(*comm, keyval);  // calls forget()
  const FreedCommunicator freed(*comm);
  return library(comm);
}

}  // namespace

int serve_Comm_free(MPI_Comm* comm) { return free_comm(comm, original.Comm_free); }
int serve_Comm_disconnect(MPI_Comm* comm) { return free_comm(comm, original.Comm_disconnect); }

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
