#include "shims/mpi/pending/persistent.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shims/mpi/dispatch.hpp"
#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/progress.hpp"
#include "shims/mpi/pending/progress_hook.hpp"
#include "shims/mpi/team/team.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

/// One persistent collective. MPI allows a request to be used by one thread at a time. An inactive one, whose handle
/// the library has perhaps never seen active, is completed like a null request.
struct PersistentRequest {
  PersistentRequest(InterceptedFunction& counted, MpiTeam& team, Description describe)
      : entry(counted), work(team, std::move(describe)) {}

  InterceptedFunction& entry;
  PersistentOperation work;
  bool active = false;                      ///< started through smelt and not completed yet
  bool is_library_s = false;                ///< the last start was the library's
  MPI_Request stand_in = MPI_REQUEST_NULL;  ///< of the library, for this start, once one was needed

  /// The library's view of it.
  MPI_Request substituted() noexcept {
    if (!active) return MPI_REQUEST_NULL;
    if (stand_in == MPI_REQUEST_NULL && work.make_request(&stand_in) != MPI_SUCCESS) {
      original.Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    }
    return stand_in;
  }
};

constinit std::atomic<int> number{0};  // of persistent collectives
constinit std::mutex registry;
using All = std::unordered_map<std::uintptr_t, std::unique_ptr<PersistentRequest>>;
All& all() {  // guarded by `registry`; never destroyed
  static All& made = *new All;
  return made;
}

/// Relaxed: programs synchronize when they pass a request between threads.
bool none() noexcept { return number.load(std::memory_order_relaxed) == 0; }

// Incremented whenever one is freed. Release in free_request(), acquire in find().
constinit std::atomic<std::uint32_t> generation{1};
struct LookupResult {
  MPI_Request request;
  std::uint32_t generation;
  PersistentRequest* persistent;
};
constinit thread_local LookupResult last_found = {};

PersistentRequest* find(MPI_Request request) noexcept {
  const auto now = generation.load(std::memory_order_acquire);
  if (last_found.request == request && last_found.generation == now) return last_found.persistent;
  const std::lock_guard lock(registry);
  const auto found = all().find(number_of(request));
  if (found == all().end()) return nullptr;
  last_found = {request, now, found->second.get()};
  return last_found.persistent;
}

/// The persistent collective of `request` that smelt completes; null for all other requests.
PersistentRequest* find_own(const MPI_Request* request) noexcept {
  PersistentRequest* const persistent = none() || request == nullptr ? nullptr : find(*request);
  return persistent != nullptr && !persistent->is_library_s ? persistent : nullptr;
}

[[noreturn]] void out_of_memory() noexcept {
  original.Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
  std::abort();
}

/// An array of requests as the library knows them: smelt's persistent collectives are replaced by requests of the
/// library's, inactive ones by null requests.
class SubstitutedRequests {
 public:
  SubstitutedRequests(MPI_Request* theirs, int count) noexcept
      : theirs_(theirs), count_(theirs == nullptr || count < 0 ? 0 : count) {
    const auto n = static_cast<std::size_t>(count_);
    if (none()) return;
    if (n > here_.size()) far_.reset(new (std::nothrow) Pair[n]);
    Pair* const pairs = n > here_.size() ? far_.get() : here_.data();
    if (pairs == nullptr) out_of_memory();
    for (std::size_t i = 0; i < n; ++i) {
      pairs[i] = {find_own(&theirs[i]), theirs[i]};
      if (pairs[i].of != nullptr) seen_ = pairs;
    }
    for (std::size_t i = 0; seen_ != nullptr && i < n; ++i) {
      if (pairs[i].of != nullptr) theirs[i] = pairs[i].of->substituted();
    }
  }
  SubstitutedRequests(const SubstitutedRequests&) = delete;
  SubstitutedRequests& operator=(const SubstitutedRequests&) = delete;
  /// Marks completed ones inactive, and restores the program's handles.
  ~SubstitutedRequests() {
    for (std::size_t i = 0; seen_ != nullptr && i < static_cast<std::size_t>(count_); ++i) {
      if (seen_[i].of == nullptr) continue;
      seen_[i].of->stand_in = theirs_[i];
      seen_[i].of->active = theirs_[i] != MPI_REQUEST_NULL;
      theirs_[i] = seen_[i].handle;
    }
  }

 private:
  struct Pair {
    PersistentRequest* of;
    MPI_Request handle;
  };

  MPI_Request* theirs_;
  int count_;
  Pair* seen_ = nullptr;  ///< null: no request was replaced
  std::array<Pair, 16> here_;
  std::unique_ptr<Pair[]> far_;
};

/// A copy of an array of requests that the program has declared constant.
class RequestsCopy {
 public:
  RequestsCopy(const MPI_Request* theirs, int count) noexcept {
    if (theirs == nullptr || count <= 0) return;
    copy_.reset(new (std::nothrow) MPI_Request[static_cast<std::size_t>(count)]);
    if (copy_ == nullptr) out_of_memory();
    std::copy_n(theirs, count, copy_.get());
  }
  MPI_Request* data() noexcept { return copy_.get(); }

 private:
  std::unique_ptr<MPI_Request[]> copy_;
};

int start(MPI_Request* request) {
  PersistentRequest* const persistent = none() || request == nullptr ? nullptr : find(*request);
  if (persistent == nullptr) return original.Start(request);
  if (persistent->active) {
    original.Comm_call_errhandler(persistent->work.team().blamed(), MPI_ERR_REQUEST);
    return MPI_ERR_REQUEST;
  }
  int code = MPI_SUCCESS;
  if (const char* const why = persistent->work.start(&code); why != nullptr) {
    persistent->entry.passed(why);
    persistent->is_library_s = true;
    return original.Start(request);
  }
  persistent->is_library_s = false;
  persistent->entry.took();
  persistent->active = code == MPI_SUCCESS;
  return code;
}

/// Starts requests in the order of the array, as collectives must start in order.
int start_all(int count, MPI_Request* requests) {
  if (none() || count < 0 || requests == nullptr) return original.Startall(count, requests);
  for (int i = 0; i < count; ++i) {
    if (const int code = start(&requests[i]); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

/// Before a request is freed.
void forget(MPI_Request request) noexcept {
  std::unique_ptr<PersistentRequest> freed;
  {
    const std::lock_guard lock(registry);
    if (const auto found = all().find(number_of(request)); found != all().end()) {
      freed = std::move(found->second);
      all().erase(found);
      number.fetch_sub(1, std::memory_order_relaxed);
      generation.fetch_add(1, std::memory_order_release);
    }
  }
  // MPI does not allow freeing an active request; the operation finishes nevertheless.
  if (freed != nullptr && freed->stand_in != MPI_REQUEST_NULL) (void)original.Request_free(&freed->stand_in);
}

int free_request(MPI_Request* request) {
  if (none() || request == nullptr) return original.Request_free(request);
  forget(*request);
  return original.Request_free(request);
}

}  // namespace

int make_persistent(InterceptedFunction& entry, MpiTeam& team, Description describe, MPI_Request* request) {
  auto made = std::make_unique<PersistentRequest>(entry, team, std::move(describe));
  const std::lock_guard lock(registry);
  serve_requests(true);
  all()[number_of(*request)] = std::move(made);
  number.fetch_add(1, std::memory_order_relaxed);
  return MPI_SUCCESS;
}

// The shim's versions of the library's functions on requests. Programs may call them millions of times per second, so
// they are not intercepted until there is a persistent collective (serve_requests).

int serve_Start(MPI_Request* request) { return start(request); }
int serve_Startall(int count, MPI_Request* requests) { return start_all(count, requests); }
int serve_Request_free(MPI_Request* request) { return free_request(request); }
int serve_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  MPI_Request own = request;
  const SubstitutedRequests substituted(&own, 1);
  return original.Request_get_status(own, flag, status);
}

namespace {

/// Completes a request that was not replaced by a request of the library; an active one waits until it has finished.
int complete(PersistentRequest& persistent, MPI_Status* status) {
  const bool active = std::exchange(persistent.active, false);
  const int code = active ? persistent.work.wait() : MPI_SUCCESS;
  if (status != MPI_STATUS_IGNORE) set_empty(status, code);
  return code;
}

}  // namespace

int serve_Wait(MPI_Request* request, MPI_Status* status) {
  PersistentRequest* const persistent = find_own(request);
  if (persistent == nullptr) return original.Wait(request, status);
  if (persistent->stand_in == MPI_REQUEST_NULL) return complete(*persistent, status);
  const SubstitutedRequests substituted(request, 1);
  return original.Wait(request, status);
}

int serve_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  PersistentRequest* const persistent = find_own(request);
  if (persistent == nullptr) return original.Test(request, flag, status);
  if (persistent->stand_in == MPI_REQUEST_NULL) {
    *flag = !persistent->active || persistent->work.over() ? 1 : 0;
    if (*flag != 0) return complete(*persistent, status);
    make_progress();
    return MPI_SUCCESS;
  }
  const SubstitutedRequests substituted(request, 1);
  return original.Test(request, flag, status);
}

#define SMELT_MPI_SERVE(name, parameters, arguments)        \
  int serve_##name parameters {                             \
    if (none()) [[likely]]                                  \
      return original.name arguments;                       \
    const SubstitutedRequests substituted(requests, count); \
    return original.name arguments;                         \
  }
SMELT_MPI_COMPLETING_MANY(SMELT_MPI_SERVE)

#define SMELT_MPI_SERVE_LOOKING(name, parameters, arguments)   \
  int serve_##name parameters {                                \
    if (none()) return original.name arguments;                \
    RequestsCopy copy(requests, count);                        \
    requests = copy.data();                                    \
    const SubstitutedRequests substituted(copy.data(), count); \
    return original.name arguments;                            \
  }
SMELT_MPI_LOOKING_AT_MANY(SMELT_MPI_SERVE_LOOKING)

namespace {

constinit decltype(original.Waitall) library_waitall = nullptr;

/// Handles an array with null requests and incomplete collectives one by one.
int wait_for_all(int count, MPI_Request* requests, MPI_Status* statuses) {
  const bool mixed = awaiting() && requests != nullptr && count > 0 &&
                     std::find(requests, requests + count, MPI_REQUEST_NULL) != requests + count;
  if (!mixed) return library_waitall(count, requests, statuses);
  int code = MPI_SUCCESS;
  for (int i = 0; i < count; ++i) {
    MPI_Status* const status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
    const int error = original.Wait(&requests[i], status);
    if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = error;
    if (error != MPI_SUCCESS) code = MPI_ERR_IN_STATUS;
  }
  return code;
}

}  // namespace

void mend_waitall() noexcept { library_waitall = std::exchange(original.Waitall, wait_for_all); }

namespace {

constinit Direct* director = nullptr;

}  // namespace

void direct_by(Direct* direct) noexcept { director = direct; }

void serve_requests(bool here) noexcept {
#define SMELT_MPI_DIRECT(name, parameters, arguments) \
  if (original.name != nullptr) director(Function::name, reinterpret_cast<void*>(here ? serve_##name : original.name));
  SMELT_MPI_REQUESTS(SMELT_MPI_DIRECT)
#undef SMELT_MPI_DIRECT
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
