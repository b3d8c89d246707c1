// The MPI functions that are taken over: each becomes a TranslatedCall for smelt, or goes to the library. What the
// program's error handlers throw passes through them: this file is compiled without exceptions (CMakeLists.txt).
#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "shims/mpi/calls/global_call_info.hpp"
#include "shims/mpi/calls/translated_call.hpp"
#include "shims/mpi/calls/types.hpp"
#include "shims/mpi/counters.hpp"
#include "shims/mpi/has_memory.hpp"
#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/deferred_frees.hpp"
#include "shims/mpi/pending/nonblocking_operation.hpp"
#include "shims/mpi/pending/persistent.hpp"
#include "shims/mpi/pending/progress.hpp"
#include "shims/mpi/pending/progress_hook.hpp"
#include "shims/mpi/signatures.hpp"
#include "shims/mpi/team/async_rendezvous.hpp"
#include "shims/mpi/team/communicators.hpp"
#include "shims/mpi/team/inter_machine.hpp"
#include "shims/mpi/team/local_ranks.hpp"
#include "shims/mpi/team/team.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

using Way = CallCache::Way;

/// Runs a call that needs no translation. False: it needs one, or its cell must select the server.
[[gnu::always_inline]] inline bool run_known(MpiTeam& team, const CallSignature& like, Way way, int* status) noexcept {
  return team.call_cache.run(like, way, status);
}
[[gnu::always_inline]] inline bool run_known(MpiTeam& team, const UnevenSignature& like, Way way,
                                             int* status) noexcept {
  return team.call_cache.run(like, team.rank, team.size, way, status);
}
[[gnu::always_inline]] inline bool run_known(MpiTeam& team, BarrierSignature, Way way, int* status) noexcept {
  if (team.machines > 1) return false;
  if (way == Way::held && team.race && !team.race->cell(SMELT_BARRIER, 0).passes()) return false;
  *status = smelt_barrier(team.local);
  return true;
}

/// Has the caller's next call of this kind run at once.
template <class Like>
void learn(MpiTeam& team, const Like& like, SelectionCell* cell, const TranslatedCall& task) {
  if constexpr (std::is_same_v<Like, CallSignature>) {
    team.call_cache.learn(like, task, team.local, cell);
  } else if constexpr (std::is_same_v<Like, UnevenSignature>) {
    team.call_cache.learn(like, team.rank, team.size, task, team.local, cell);
  }
}

/// Tells the program. Returns true: the call is over.
bool out_of_memory(MPI_Comm comm, int* code) {
  original.Comm_call_errhandler(comm, MPI_ERR_NO_MEM);
  *code = MPI_ERR_NO_MEM;
  return true;
}

enum class Ran { well, in_vain, not_supported, out_of_memory };

/// Runs a complete translation. What is not supported has no effect.
template <class Like>
Ran perform(MpiTeam& team, const Like& like, SelectionCell* cell, TranslatedCall& task, int* code) noexcept {
  int status = SMELT_OK;
  const bool enough = has_memory_for([&] {
    *code = MPI_SUCCESS;
    if (team.machines > 1) {
      status = run_across(team, task, code);
    } else {
      status = smelt_run(team.local, &task.call);
      if (status == SMELT_OK) learn(team, like, cell, task);
    }
    if (status == SMELT_OK && *code == MPI_SUCCESS) *code = task.finish();
  });
  if (!enough) return Ran::out_of_memory;
  if (team.machines == 1 && (status == SMELT_INVALID_ARGUMENT || status == SMELT_NOT_SUPPORTED))
    return Ran::not_supported;
  return status == SMELT_OK ? Ran::well : Ran::in_vain;
}

/// Serves a call by smelt. False, with the reason, if the library must serve it. `like`: the call's signature; `cell`:
/// its cell, or null.
template <class Like, class Describe>
bool serve(MpiTeam& team, const Like& like, SelectionCell* cell, Way way, Describe describe, int* code,
           const char** why) noexcept {
  if (int status = SMELT_OK; run_known(team, like, way, &status)) {
    *code = status == SMELT_OK ? MPI_SUCCESS : report_failure(team);
    return true;
  }
  TranslatedCall task;
  auto disposition = TranslatedCall::Disposition::done;
  if (!has_memory_for([&] { disposition = describe(task); })) return out_of_memory(team.comm, code);
  switch (disposition) {
    case TranslatedCall::Disposition::done: *code = MPI_SUCCESS; return true;
    case TranslatedCall::Disposition::pass: *why = task.why; return false;
    case TranslatedCall::Disposition::run: break;
  }
  if (team.machines > 1 && !spans_machines(team, task)) {
    *why = not_across;
    return false;
  }
  *why = "a combination that smelt does not have";
  task.call.at_rest = way == Way::at_rest ? 1 : 0;
  const Ran ran = perform(team, like, cell, task, code);
  if (ran == Ran::out_of_memory) return out_of_memory(team.comm, code);
  if (ran == Ran::in_vain) *code = report_failure(team);
  return ran != Ran::not_supported;
}

constexpr const char* firm_elsewhere = "the library has served such a reduction before";

/// Reports when a call began and ended to its cell, if that asks for it.
class ScopedCallTimer {
 public:
  explicit ScopedCallTimer(SelectionCell* cell) noexcept
      : cell_(cell != nullptr && cell->is_timed() ? cell : nullptr), start_(cell_ != nullptr ? cycles() : 0) {}
  ScopedCallTimer(const ScopedCallTimer&) = delete;
  ScopedCallTimer& operator=(const ScopedCallTimer&) = delete;
  ~ScopedCallTimer() {
    if (cell_ != nullptr) cell_->spent(start_, cycles());
  }

 private:
  SelectionCell* cell_;
  std::uint64_t start_;
};

/// Runs a call on a communicator whose ranks have agreed on smelt.
template <class Like, class Describe, class Library>
int run_ready(InterceptedFunction& entry, MpiTeam& team, const Like& like, Describe describe,
              Library library) noexcept {
  const GlobalCallInfo info = global_info_of(team, like);
  if (info.is_wrong) {
    entry.passed("arguments that the library reports");
    return library();
  }
  if (!info.alternates && team.firm) {
    entry.passed(firm_elsewhere);
    return library();
  }
  const Sample kind = team.sampling ? sample_kind(team.round++) : Sample::none;
  if (kind == Sample::original && info.alternates) {
    const Stopwatch watch(entry, kind);
    entry.passed("timed for comparison");
    return library();
  }
  const Server server = info.cell != nullptr ? info.cell->come_to() : Server::smelt;
  const ScopedCallTimer timer(info.cell);
  if (server == Server::library) {
    entry.passed(ServerSelection::why(*info.cell, info.bytes));
    return library();
  }
  const Stopwatch watch(entry, kind == Sample::ours ? kind : Sample::none);
  int code = MPI_SUCCESS;
  const char* why = "";
  const Way way = server == Server::smelt_at_rest ? Way::at_rest : Way::plain;
  if (serve(team, like, info.cell, way, describe, &code, &why)) {
    entry.took();
    let_library_on(team.calls_to_step);
    return code;
  }
  entry.passed(why);
  return library();
}

/// Whether a call is one of the first on its communicator, after which nothing changes for it.
template <class Like>
bool is_early(const MpiTeam& team, const Like& like) noexcept {
  if (team.settled || team.agreement || team.successes + 1 >= team.asks_at) return false;
  if constexpr (std::is_same_v<Like, BarrierSignature>) {
    return true;
  } else {
    const CallSignature& one = call_of(like);
    return !is_reduction(one.operation) || (one.op == team.alternating.op && one.in_type == team.alternating.type);
  }
}

/// Whether a collective of the library counts for the agreement, for which all ranks have to count the same. One that
/// has moved data may have succeeded on other ranks, whatever came of it here; one with wrong arguments has not begun,
/// and its rank calls it again.
bool has_begun(int code) noexcept {
  if (code == MPI_SUCCESS) return true;
  int error = MPI_SUCCESS;
  original.Error_class(code, &error);
  return error == MPI_ERR_TRUNCATE || error == MPI_ERR_OTHER;  // MPICH has both for lengths that differ
}

template <class Library>
int run_early(InterceptedFunction& entry, MpiTeam& team, Library library) noexcept {
  entry.passed(team.why);
  const int code = library();
  if (!has_begun(code)) return code;
  note_thread();
  ++team.successes;
  return code;
}

template <class Library>
int run_before(InterceptedFunction& entry, MPI_Comm comm, const MpiTeam* team, Library library) noexcept {
  entry.passed(team != nullptr ? team->why : why_early());
  const int code = library();
  if (has_begun(code) && (team == nullptr || !team->settled)) note_success(comm);
  return code;
}

/// Runs any blocking collective.
template <class Like, class Describe, class Library>
int run(InterceptedFunction& entry, MPI_Comm comm, const Like& like, Describe describe, Library library) noexcept {
  MpiTeam* team = find_team(comm);
  if (team != nullptr && is_early(*team, like)) return run_early(entry, *team, library);
  if (team == nullptr || (!team->ready && !turns_ready(*team))) {
    if (MpiTeam* const firm = team_of_firm(comm, like); firm != nullptr) settle_for_good(*(team = firm));
    if (team == nullptr || !team->ready) return run_before(entry, comm, team, library);
  }
  if (team->pending_operations.any()) complete_all(*team);
  return run_ready(
      entry, *team, like, [&](TranslatedCall& task) { return describe(task, *team); }, library);
}

enum class AtOnce { done, library, unknown };

/// Fast path of blocking collectives: runs a call that is in the cache, as most calls are, or leaves it to the library,
/// on a communicator that is the library's for good. Unknown: neither, and there was no effect.
template <class Like>
[[gnu::always_inline]] inline AtOnce run_at_once(InterceptedFunction& entry, MPI_Comm comm, const Like& like,
                                                 int* code) noexcept {
  MpiTeam* const team = find_team(comm);
  if (team == nullptr) return AtOnce::unknown;
  if (!team->ready) {
    if (!team->settled) return AtOnce::unknown;
    entry.passed(team->why);
    return AtOnce::library;
  }
  int status = SMELT_OK;
  if (team->sampling || team->pending_operations.any() || !run_known(*team, like, Way::held, &status))
    return AtOnce::unknown;
  entry.took();
  let_library_on(team->calls_to_step);
  *code = status == SMELT_OK ? MPI_SUCCESS : report_failure(*team);
  return AtOnce::done;
}

/// Why the library serves a call that must not wait for other ranks; null if smelt may.
template <class Like>
const char* why_firm(MPI_Comm comm, MpiTeam* team, const Like& like) noexcept {
  if (team != nullptr && team->ready && !team->firm) return nullptr;
  MpiTeam* const firm = team_of_firm(comm, like);
  if (firm == nullptr) return nullptr;
  firm->firm = true;
  return firm_elsewhere;
}

/// Runs any nonblocking collective.
template <class Like, class Describe, class Library>
int start(InterceptedFunction& entry, MPI_Comm comm, MPI_Request* request, const Like& like, Describe describe,
          Library library) noexcept {
  MpiTeam* const team = find_team(comm);
  if (team != nullptr && !team->ready) (void)turns_ready(*team);
  const char* const firm = why_firm(comm, team, like);
  const char* why = why_not_nonblocking(team, request);
  if (why == nullptr) why = firm;
  if (why == nullptr) {
    int code = MPI_SUCCESS;
    why = take_off(
        *team, [&](TranslatedCall& task) { return describe(task, *team); }, request, &code);
    if (why == nullptr) {
      entry.took();
      let_library_on(team->calls_to_step);
      return code;
    }
  }
  entry.passed(why);
  const int code = library();
  if (code != MPI_SUCCESS) return code;
  note_long_message();
  if (team == nullptr || !team->settled) note_success(comm, false);
  return code;
}

/// Initializes any persistent collective. `describe(team)` returns the function that translates each start.
template <class Like, class Describe, class Library>
int prepare(InterceptedFunction& entry, MPI_Comm comm, MPI_Request* request, const Like& like, Describe describe,
            Library library) noexcept {
  const int code = library();
  if (code != MPI_SUCCESS) return code;
  // MPI allows this call to wait for the other ranks.
  if (const MpiTeam* const known = find_team(comm); known == nullptr || !known->settled) settle_soon(comm);
  MpiTeam* const team = find_team(comm);
  const char* why = why_not_nonblocking(team, request);
  if (const char* const firm = why_firm(comm, team, like); why == nullptr) why = firm;
  if (why != nullptr) {
    entry.passed(why);
    return code;
  }
  int made = MPI_SUCCESS;
  if (!has_memory_for([&] { made = make_persistent(entry, *team, describe(*team), request); }))
    (void)out_of_memory(comm, &made);
  return made;
}

/// Copies of arrays with an element per rank.
class ArrayCopies {
 public:
  explicit ArrayCopies(int size) : size_(static_cast<std::size_t>(size)) {}

  /// Replaces each array by its copy, which lives as long as this object or a copy of it. Throws std::bad_alloc.
  template <class... AlignedElements>
  void keep(const AlignedElements*&... arrays) {
    (keep_one(arrays), ...);
  }

 private:
  template <class Element>
  void keep_one(const Element*& array) {
    if (array == nullptr) return;
    const std::shared_ptr<Element[]> copy(new Element[size_]);
    std::copy_n(array, size_, copy.get());
    copies_.push_back(copy);
    array = copy.get();
  }

  std::size_t size_;
  std::vector<std::shared_ptr<void>> copies_;
};

}  // namespace

#define SMELT_MPI_DEFINE(function, parameters, arguments, Name, translation)                                      \
  [[gnu::noinline]] static int serve_unknown_##function parameters {                                              \
    return run(                                                                                                   \
        entry_##function, comm, SMELT_MPI_SIGNATURE_##Name,                                                       \
        [&]([[maybe_unused]] TranslatedCall& task, [[maybe_unused]] const MpiTeam& team) { return translation; }, \
        [&] { return original.function arguments; });                                                             \
  }                                                                                                               \
  int serve_##function parameters {                                                                               \
    int code = MPI_SUCCESS;                                                                                       \
    const AtOnce answer = run_at_once(entry_##function, comm, SMELT_MPI_SIGNATURE_##Name, &code);                 \
    if (answer == AtOnce::done) return code;                                                                      \
    if (answer == AtOnce::library) return original.function arguments;                                            \
    return serve_unknown_##function arguments;                                                                    \
  }
SMELT_MPI_BLOCKING(SMELT_MPI_DEFINE)

#define SMELT_MPI_DEFINE_START(function, parameters, arguments, Name, translation)                                \
  int serve_##function parameters {                                                                               \
    return start(                                                                                                 \
        entry_##function, comm, request, SMELT_MPI_SIGNATURE_##Name,                                              \
        [&]([[maybe_unused]] TranslatedCall& task, [[maybe_unused]] const MpiTeam& team) { return translation; }, \
        [&] { return original.function arguments; });                                                             \
  }
SMELT_MPI_NONBLOCKING(SMELT_MPI_DEFINE_START)

// The report counts starts. `function`: a member of `original`; `keep`: copies the arrays that each start reads.
#define SMELT_MPI_DEFINE_INIT(function, parameters, arguments, Name, translation, keep) \
  int serve_##function parameters {                                                     \
    return prepare(                                                                     \
        entry_##function, comm, request, SMELT_MPI_SIGNATURE_##Name,                    \
        [=](const MpiTeam& team) mutable -> Description {                               \
          [[maybe_unused]] ArrayCopies kept(team.size);                                 \
          keep;                                                                         \
          return [=, &team](TranslatedCall& task) {                                     \
            (void)team, (void)kept;                                                     \
            return translation;                                                         \
          };                                                                            \
        },                                                                              \
        [&] { return original.function arguments; });                                   \
  }
SMELT_MPI_PERSISTENT(SMELT_MPI_DEFINE_INIT)
#define SMELT_MPI_DEFINE_OLD_INIT(name, ...) SMELT_MPI_DEFINE_INIT(X_##name, __VA_ARGS__)
SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_DEFINE_OLD_INIT)

int serve_Init(int* argc, char*** argv) {
  join_local_ranks();
  const int code = original.Init(argc, argv);
  if (code == MPI_SUCCESS) prepare_for_threads();
  return code;
}

int serve_Init_thread(int* argc, char*** argv, int required, int* provided) {
  join_local_ranks();
  const int code = original.Init_thread(argc, argv, required, provided);
  if (code == MPI_SUCCESS) prepare_for_threads();
  return code;
}

int serve_Finalize() {
  stop_following();
  free_held();
  release_teams();
  finish_rendezvous();
  release_progress();
  release_types();
  release_own_communicator();
  note_end_of_world();
  leave_local_ranks();
  return original.Finalize();
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
