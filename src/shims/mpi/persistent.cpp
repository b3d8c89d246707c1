#include "shims/mpi/persistent.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shims/mpi/handles.hpp"
#include "shims/mpi/original.hpp"
#include "shims/mpi/team.hpp"

namespace smelt::shims::mpi {
namespace {

/// One persistent collective. MPI has a program use a request in one thread at a time.
class Persistent {
 public:
  Persistent(Entry& counted, Team& on, Description what) : entry(counted), team(on), describe(std::move(what)) {
    Task task;
    task.derived = &needed_.types;
    if (describe(task) != Task::Verdict::pass && task.by.user) needed_.op = task.by.op;
    need(needed_);
    team.retain();
  }
  Persistent(const Persistent&) = delete;
  Persistent& operator=(const Persistent&) = delete;
  ~Persistent() {
    team.release();
    need_no_more(needed_);
  }

  Entry& entry;
  Team& team;
  Description describe;
  MPI_Request flight = MPI_REQUEST_NULL;  ///< of smelt's, from its start to its completion

 private:
  Needed needed_;
};

constinit std::atomic<int> number{0};  // of persistent collectives
constinit std::mutex registry;
using All = std::unordered_map<std::uintptr_t, std::unique_ptr<Persistent>>;
All& all() {  // guarded by `registry`; never destroyed
  static All& made = *new All;
  return made;
}

/// Relaxed: a request goes from thread to thread by the program's own synchronization.
bool none() noexcept { return number.load(std::memory_order_relaxed) == 0; }

Persistent* find(MPI_Request request) noexcept {
  const std::lock_guard lock(registry);
  const auto found = all().find(number_of(request));
  return found != all().end() ? found->second.get() : nullptr;
}

/// Requests as the library knows them: in place of persistent collectives, what is under way for them.
class Seen {
 public:
  Seen(MPI_Request* theirs, int count) noexcept : theirs_(theirs), count_(theirs == nullptr || count < 0 ? 0 : count) {
    const auto n = static_cast<std::size_t>(count_);
    if (none()) return;
    if (n > here_.size()) far_.reset(new (std::nothrow) Pair[n]);
    Pair* const pairs = n > here_.size() ? far_.get() : here_.data();
    if (pairs == nullptr) lost();
    const std::lock_guard lock(registry);
    for (std::size_t i = 0; i < n; ++i) {
      const auto found = all().find(number_of(theirs[i]));
      pairs[i].of = found != all().end() && found->second->flight != MPI_REQUEST_NULL ? found->second.get() : nullptr;
      pairs[i].handle = theirs[i];
      if (pairs[i].of != nullptr) seen_ = pairs;
    }
    for (std::size_t i = 0; seen_ != nullptr && i < n; ++i) {
      if (pairs[i].of != nullptr) theirs[i] = pairs[i].of->flight;
    }
  }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
  /// What is complete is inactive again; the program keeps its handles.
  ~Seen() {
    for (std::size_t i = 0; seen_ != nullptr && i < static_cast<std::size_t>(count_); ++i) {
      if (seen_[i].of == nullptr) continue;
      seen_[i].of->flight = theirs_[i];
      theirs_[i] = seen_[i].handle;
    }
  }

 private:
  struct Pair {
    Persistent* of;
    MPI_Request handle;
  };

  [[noreturn]] static void lost() noexcept {
    PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    std::abort();
  }

  MPI_Request* theirs_;
  int count_;
  Pair* seen_ = nullptr;  ///< null: the library knows all of them
  std::array<Pair, 16> here_;
  std::unique_ptr<Pair[]> far_;
};

int start(MPI_Request* request) noexcept {
  Persistent* const persistent = none() || request == nullptr ? nullptr : find(*request);
  if (persistent == nullptr) return original.Start(request);
  if (persistent->flight != MPI_REQUEST_NULL) {
    PMPI_Comm_call_errhandler(persistent->team.blamed(), MPI_ERR_REQUEST);
    return MPI_ERR_REQUEST;
  }
  int code = MPI_SUCCESS;
  const char* const why = take_off(persistent->team, persistent->describe, &persistent->flight, &code);
  if (why == nullptr) {
    persistent->entry.took();
    return code;
  }
  persistent->entry.passed(why);
  return original.Start(request);
}

/// In the order of the array, in which collectives have to start.
int start_all(int count, MPI_Request* requests) noexcept {
  if (none() || count < 0 || requests == nullptr) return original.Startall(count, requests);
  for (int i = 0; i < count; ++i) {
    if (const int code = start(&requests[i]); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int free_request(MPI_Request* request) noexcept {
  if (none() || request == nullptr) return original.Request_free(request);
  std::unique_ptr<Persistent> freed;
  {
    const std::lock_guard lock(registry);
    if (const auto found = all().find(number_of(*request)); found != all().end()) {
      freed = std::move(found->second);
      all().erase(found);
      number.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  // MPI does not allow that; the operation comes to its end all the same.
  if (freed != nullptr && freed->flight != MPI_REQUEST_NULL) (void)original.Request_free(&freed->flight);
  return original.Request_free(request);
}

}  // namespace

int make_persistent(Entry& entry, Team& team, Description describe, MPI_Request* request) {
  auto made = std::make_unique<Persistent>(entry, team, std::move(describe));
  const std::lock_guard lock(registry);
  all()[number_of(*request)] = std::move(made);
  number.fetch_add(1, std::memory_order_relaxed);
  return MPI_SUCCESS;
}

namespace {

// What the shim does in place of the library's functions.

int serve_Start(MPI_Request* request) { return start(request); }
int serve_Startall(int count, MPI_Request* requests) { return start_all(count, requests); }
int serve_Request_free(MPI_Request* request) { return free_request(request); }
int serve_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  MPI_Request own = request;
  const Seen seen(&own, 1);
  return original.Request_get_status(own, flag, status);
}

#define SMELT_MPI_SERVE(name, parameters, arguments, number_of_requests, requests) \
  int serve_##name parameters {                                                    \
    if (none()) [[likely]]                                                         \
      return original.name arguments;                                              \
    const Seen seen(requests, number_of_requests);                                 \
    return original.name arguments;                                                \
  }
#define SMELT_MPI_SERVE_ONE(name, parameters, arguments) SMELT_MPI_SERVE(name, parameters, arguments, 1, request)
#define SMELT_MPI_SERVE_MANY(name, parameters, arguments) SMELT_MPI_SERVE(name, parameters, arguments, count, requests)
SMELT_MPI_COMPLETING_ONE(SMELT_MPI_SERVE_ONE)
SMELT_MPI_COMPLETING_MANY(SMELT_MPI_SERVE_MANY)

}  // namespace
}  // namespace smelt::shims::mpi

using namespace smelt::shims::mpi;

#define SMELT_MPI_EXPORT(name, parameters, arguments)                                                     \
  extern "C" [[gnu::visibility("default")]] int PMPI_##name parameters { return serve_##name arguments; } \
  extern "C" [[gnu::visibility("default")]] int MPI_##name parameters {                                   \
    return tool.name != nullptr ? tool.name arguments : serve_##name arguments;                           \
  }
SMELT_MPI_REQUESTS(SMELT_MPI_EXPORT)
