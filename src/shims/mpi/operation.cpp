#include "shims/mpi/operation.hpp"

#include <sched.h>

#include <array>
#include <atomic>
#include <memory>
#include <new>

#include "shims/mpi/follow.hpp"
#include "shims/mpi/handles.hpp"
#include "shims/mpi/team.hpp"

namespace smelt::shims::mpi {

/// One that has been started. Owned by the team until it has landed, and by the library's request until that is freed.
class Operation {
 public:
  explicit Operation(Team& on) : team(on) { team.retain(); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Out of a few that are kept: they are too large for what the allocator does quickly.
  static void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept;
  static void operator delete(void* memory) noexcept;
  static void operator delete(void* memory, const std::nothrow_t&) noexcept { operator delete(memory); }

  void land(int status) noexcept;
  /// Of one that was never started.
  void discard() noexcept { delete this; }
  void disown() noexcept {
    // Release and acquire: who deletes sees what the other owner did.
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  /// The library's three questions about a generalized request; `state` is an Operation, or null for one that was over
  /// before it began.
  static int query(void* state, MPI_Status* status);
  static int let_go(void* state);
  static int cancel(void*, int) { return MPI_ERR_REQUEST; }

  Team& team;
  Task task;
  smelt_request* work = nullptr;
  MPI_Request handle = MPI_REQUEST_NULL;
  Operation* next = nullptr;  ///< in the team's queue
  bool holds = false;         ///< handles of the program

 private:
  ~Operation() { team.release(); }

  std::atomic<int> owners_{2};
  std::atomic<bool> let_go_{false};
  int code_ = MPI_SUCCESS;  ///< published to query() by the request's completion
};

// ---- memory ---------------------------------------------------------------------------------

namespace {

/// Memory for operations that is not in use. Nothing is called while it is held.
class Spares {
 public:
  void* take() noexcept {
    lock();
    void* const memory = number_ > 0 ? kept_[--number_] : nullptr;
    unlock();
    return memory;
  }
  bool give(void* memory) noexcept {
    lock();
    const bool room = number_ < kept_.size();
    if (room) kept_[number_++] = memory;
    unlock();
    return room;
  }

 private:
  void lock() noexcept {
    while (busy_.test_and_set(std::memory_order_acquire)) {  // pairs with unlock()
    }
  }
  void unlock() noexcept { busy_.clear(std::memory_order_release); }

  std::atomic_flag busy_ = {};
  std::size_t number_ = 0;
  std::array<void*, 16> kept_ = {};
};
constinit Spares spares;

}  // namespace

void* Operation::operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  void* const kept = spares.take();
  return kept != nullptr ? kept : ::operator new(bytes, std::nothrow);
}

void Operation::operator delete(void* memory) noexcept {
  if (!spares.give(memory)) ::operator delete(memory);
}

// ---- one operation --------------------------------------------------------------------------

void Operation::land(int status) noexcept {
  code_ = status == SMELT_OK ? task.finish() : MPI_ERR_OTHER;
  if (holds) release_handles();
  // A program that frees the request of a collective under way errs; MPICH forgets it at once.
  if (!let_go_.load(std::memory_order_acquire)) PMPI_Grequest_complete(handle);
  disown();
}

int Operation::query(void* state, MPI_Status* status) {
  const auto* self = static_cast<Operation*>(state);
  const int code = self != nullptr ? self->code_ : MPI_SUCCESS;
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_ANY_SOURCE;
  status->MPI_TAG = MPI_ANY_TAG;
  status->MPI_ERROR = code;
  if (code != MPI_SUCCESS) report_failure(self->team, code);
  return code;
}

int Operation::let_go(void* state) {
  if (state == nullptr) return MPI_SUCCESS;
  auto* self = static_cast<Operation*>(state);
  self->let_go_.store(true, std::memory_order_release);  // pairs with the load in land()
  self->disown();
  return MPI_SUCCESS;
}

// ---- those of a team ------------------------------------------------------------------------

bool Flights::try_lock() noexcept { return !busy.test_and_set(std::memory_order_acquire); }  // pairs with unlock()
void Flights::unlock() noexcept { busy.clear(std::memory_order_release); }
void Flights::lock() noexcept {
  while (!try_lock()) sched_yield();
}

/// The lock of a team that a thread has to have.
class Hold {
 public:
  explicit Hold(Flights& flights) noexcept : flights_(flights) { flights_.lock(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { flights_.unlock(); }

 private:
  Flights& flights_;
};

namespace {

/// Of the first one, whose end is known. Requires the lock.
void land_first(Flights& flights, int status) noexcept {
  Operation* const first = flights.first;
  flights.first = first->next;
  if (flights.first == nullptr) flights.last = nullptr;
  smelt_request_free(first->work);
  // Pairs with the load in any(): who sees none has the team's `local` to itself.
  flights.count.store(flights.count.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  await_one_less();
  first->land(status);
}

/// Requires the lock. Whether there was any.
bool land_what_is_over(Flights& flights) noexcept {
  bool any = false;
  while (flights.first != nullptr) {
    int over = 0;
    const int status = smelt_request_test(flights.first->work, &over);
    if (over == 0) break;
    land_first(flights, status);
    any = true;
  }
  return any;
}

/// The libraries' own waits may not let others run; where ranks share PUs those may be the ones waited for.
void be_patient(bool landed) noexcept {
  constexpr int fruitless = 2000;
  constinit thread_local int tries = 0;
  tries = landed ? 0 : tries + 1;
  if (tries <= fruitless) return;
  tries = fruitless;
  sched_yield();
}

// Teams with flights, each of which it keeps alive; `listed` and `next` of their Flights are guarded by `listing`.
// Nothing is called while it is held.
constinit std::atomic_flag listing = {};
constinit Team* first_listed = nullptr;
constinit Team* last_listed = nullptr;

class Listing {
 public:
  Listing() noexcept {
    while (listing.test_and_set(std::memory_order_acquire)) {  // pairs with the destructor
    }
  }
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;
  ~Listing() { listing.clear(std::memory_order_release); }
};

/// These three require a Listing.
void push(Team& team) noexcept {
  team.flights.next = nullptr;
  (last_listed != nullptr ? last_listed->flights.next : first_listed) = &team;
  last_listed = &team;
}
Team* pop() noexcept {
  Team* const team = first_listed;
  first_listed = team->flights.next;
  if (first_listed == nullptr) last_listed = nullptr;
  return team;
}
bool remove(Team& team) noexcept {
  bool found = false;
  Team* const end = last_listed;
  for (bool more = first_listed != nullptr; more;) {
    Team* const each = pop();
    more = each != end;
    if (each == &team) {
      found = true;
    } else {
      push(*each);
    }
  }
  return found;
}

void list(Team& team) noexcept {
  const Listing held;
  if (team.flights.listed) return;
  team.flights.listed = true;
  team.retain();
  push(team);
}

/// Some teams of the list, in turns: those in flight, which are the caller's to release.
struct Batch {
  static constexpr std::size_t most = 8;
  std::array<Team*, most> in_flight, idle;
  std::size_t flying = 0, resting = 0;

  Batch() noexcept {
    const Listing held;
    Team* const end = last_listed;
    for (bool more = first_listed != nullptr; more && flying < most && resting < most;) {
      Team* const team = pop();
      more = team != end;
      // A start counts before it lists: it sees that the team has left, or this sees the count.
      if (team->flights.any()) {
        team->retain();
        push(*team);
        in_flight[flying++] = team;
      } else {
        team->flights.listed = false;
        idle[resting++] = team;
      }
    }
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() {
    for (std::size_t i = 0; i < flying; ++i) in_flight[i]->release();
    for (std::size_t i = 0; i < resting; ++i) idle[i]->release();
  }
};

int no_memory(const Team& team) noexcept {
  PMPI_Comm_call_errhandler(team.blamed(), MPI_ERR_NO_MEM);
  return MPI_ERR_NO_MEM;
}

/// A request that is complete.
int start_nothing(MPI_Request* request) noexcept {
  const int code = PMPI_Grequest_start(Operation::query, Operation::let_go, Operation::cancel, nullptr, request);
  return code == MPI_SUCCESS ? PMPI_Grequest_complete(*request) : code;
}

/// Of one that was over as soon as it had been started.
int end_at_once(Operation& operation, MPI_Request* request) noexcept {
  smelt_request_free(operation.work);
  const int code = operation.task.finish();
  operation.discard();
  return code == MPI_SUCCESS ? start_nothing(request) : code;
}

/// Requires the lock. False: smelt does not do this; nothing has happened. True: the operation is no longer the
/// caller's.
bool launch(Team& team, Operation& operation, MPI_Request* request, int* code) noexcept {
  Flights& flights = team.flights;
  const int started = smelt_start(team.local, &operation.task.call, &operation.work);
  if (started == SMELT_INVALID_ARGUMENT || started == SMELT_NOT_SUPPORTED) return false;
  if (started != SMELT_OK) {
    operation.discard();
    *code = no_memory(team);
    return true;
  }
  int over = 0;
  if (flights.first == nullptr) {
    const int status = smelt_request_test(operation.work, &over);
    if (over != 0 && status == SMELT_OK) {
      *code = end_at_once(operation, request);
      return true;
    }
  }
  *code = PMPI_Grequest_start(Operation::query, Operation::let_go, Operation::cancel, &operation, &operation.handle);
  if (*code != MPI_SUCCESS) Operation::let_go(&operation);
  operation.holds = operation.task.keeps_handles();
  if (operation.holds) hold_handles();
  *request = operation.handle;
  (flights.last != nullptr ? flights.last->next : flights.first) = &operation;
  flights.last = &operation;
  flights.count.store(flights.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  await_one_more();
  land_what_is_over(flights);
  return true;
}

}  // namespace

// ---- what others call -----------------------------------------------------------------------

const char* why_not_nonblocking(const Team* team, const MPI_Request* request) noexcept {
  if (team == nullptr) return "one of the first calls on its communicator";
  if (!team->ready) return team->why;
  if (team->machines > 1) return "a nonblocking collective between machines";
  if (!team->followed) return "a nonblocking collective, and a library whose progress cannot be followed";
  return request == nullptr ? "arguments that the library reports" : nullptr;
}

const char* take_off(Team& team, const Description& describe, MPI_Request* request, int* code) noexcept {
  auto* const operation = new (std::nothrow) Operation(team);
  if (operation == nullptr) {
    *code = no_memory(team);
    return nullptr;
  }
  try {
    const auto verdict = describe(operation->task);
    const char* const why = verdict == Task::Verdict::pass ? operation->task.why : nullptr;
    if (verdict != Task::Verdict::run) {
      operation->discard();
      if (why == nullptr) *code = start_nothing(request);
      return why;
    }
  } catch (const std::bad_alloc&) {
    operation->discard();
    *code = no_memory(team);
    return nullptr;
  }
  {
    const Hold held(team.flights);
    if (!launch(team, *operation, request, code)) {
      operation->discard();
      return "a combination that smelt does not have";
    }
  }
  if (team.flights.any()) list(team);
  return nullptr;
}

void land_all(Team& team) noexcept {
  const Hold held(team.flights);
  while (team.flights.first != nullptr) land_first(team.flights, smelt_request_wait(team.flights.first->work));
}

void advance_flights() noexcept {
  const Batch batch;
  bool landed = false;
  for (std::size_t i = 0; i < batch.flying; ++i) {
    Flights& flights = batch.in_flight[i]->flights;
    if (!flights.try_lock()) continue;  // somebody else is at it, or this thread below
    landed = land_what_is_over(flights) || landed;
    flights.unlock();
  }
  be_patient(landed);
}

void forget_flights(Team& team) noexcept {
  bool kept = false;
  {
    const Listing held;
    if (!team.flights.listed || team.flights.any()) return;
    team.flights.listed = false;
    kept = remove(team);
  }
  if (kept) team.release();
}

}  // namespace smelt::shims::mpi
