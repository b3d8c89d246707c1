#include "shims/mpi/pending/nonblocking_operation.hpp"

#include <sched.h>

#include <array>
#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "shims/mpi/calls/blocks.hpp"
#include "shims/mpi/pending/progress.hpp"
#include "shims/mpi/pending/progress_hook.hpp"
#include "shims/mpi/team/inter_machine.hpp"
#include "shims/mpi/team/team.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

void set_empty(MPI_Status* status, int code) noexcept {
  original.Status_set_elements(status, MPI_BYTE, 0);
  original.Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_ANY_SOURCE;
  status->MPI_TAG = MPI_ANY_TAG;
  status->MPI_ERROR = code;
}

namespace {

void hand_over(MpiTeam& team) noexcept;

}  // namespace

/// An operation that was started, or can be. Owned by each of: the team while it is pending; the library while its
/// request for it exists; a persistent collective.
class NonblockingOperation {
 public:
  explicit NonblockingOperation(MpiTeam& on) : team(on) { team.retain(); }
  NonblockingOperation(const NonblockingOperation&) = delete;
  NonblockingOperation& operator=(const NonblockingOperation&) = delete;

  /// From a free list, as operations are too large for the allocator's fast path.
  static void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept;
  static void operator delete(void* memory) noexcept;
  static void operator delete(void* memory, const std::nothrow_t&) noexcept { operator delete(memory); }

  void own() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void disown() noexcept {
    // Release and acquire: the last owner sees what the other owners did.
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  /// Acquire pairs with the end of complete(), which publishes the results.
  bool over() const noexcept { return over_.load(std::memory_order_acquire); }
  void begin() noexcept { over_.store(false, std::memory_order_relaxed); }
  void complete(int status) noexcept;
  int code() const noexcept { return code_; }

  /// A request of the library that completes with this operation. Requires the lock, or that no other thread knows of
  /// it.
  int make_request(MPI_Request* request) noexcept;

  /// The three callbacks of a generalized request; `state` is a NonblockingOperation.
  static int query(void* state, MPI_Status* status);
  static int let_go(void* state);
  static int cancel(void*, int) { return MPI_ERR_REQUEST; }

  MpiTeam& team;
  std::optional<TranslatedCall> task;
  smelt_request* work = nullptr;                     ///< of one machine
  smelt_call started = {};                           ///< what `work` was made for
  std::vector<std::size_t> blocks;                   ///< its arrays
  std::unique_ptr<InterMachineCollective> crossing;  ///< of several machines
  NonblockingOperation* next = nullptr;              ///< in the team's queue
  bool prepared = false;                             ///< `work` is persistent
  bool holds = false;                                ///< retains handles of the program while it is pending

 private:
  ~NonblockingOperation() {
    if (prepared) smelt_request_free(work);
    // MPICH frees requests under its lock, and the end of such a team frees communicators of the library.
    if (team.machines > 1) {
      hand_over(team);
    } else {
      team.release();
    }
  }

  std::atomic<int> owners_{1};
  std::atomic<bool> over_{false};
  std::atomic<bool> let_go_{true};  ///< the library has no request for it, or has freed it
  MPI_Request request_ = MPI_REQUEST_NULL;
  int code_ = MPI_SUCCESS;
};

// ---- memory ---------------------------------------------------------------------------------

namespace {

/// Free memory for operations. Nothing is called while its lock is held.
class OperationFreeList {
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
    while (busy_.test_and_set(std::memory_order_acquire)) sched_yield();  // pairs with unlock()
  }
  void unlock() noexcept { busy_.clear(std::memory_order_release); }

  std::atomic_flag busy_ = {};
  std::size_t number_ = 0;
  std::array<void*, 16> kept_ = {};
};
constinit OperationFreeList spares;

}  // namespace

void* NonblockingOperation::operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  void* const kept = spares.take();
  return kept != nullptr ? kept : ::operator new(bytes, std::nothrow);
}

void NonblockingOperation::operator delete(void* memory) noexcept {
  if (!spares.give(memory)) ::operator delete(memory);
}

// ---- one operation --------------------------------------------------------------------------

void NonblockingOperation::complete(int status) noexcept {
  code_ = status == SMELT_OK ? task->finish() : MPI_ERR_OTHER;
  if (holds) release_handles();
  holds = false;
  // Freeing the request of a pending collective is an error of the program; MPICH forgets the request immediately.
  const bool awaited = !let_go_.load(std::memory_order_acquire);
  const MPI_Request request = request_;
  over_.store(true, std::memory_order_release);
  if (awaited) original.Grequest_complete(request);
}

int NonblockingOperation::make_request(MPI_Request* request) noexcept {
  const int code = original.Grequest_start(query, let_go, cancel, this, &request_);
  if (code != MPI_SUCCESS) return code;
  own();
  *request = request_;
  let_go_.store(false, std::memory_order_relaxed);
  return code;
}

int NonblockingOperation::query(void* state, MPI_Status* status) {
  auto* const self = static_cast<NonblockingOperation*>(state);
  const int code = self->code_;
  set_empty(status, code);
  if (code != MPI_SUCCESS) report_failure(self->team, code);
  return code;
}

int NonblockingOperation::let_go(void* state) {
  auto* const self = static_cast<NonblockingOperation*>(state);
  self->let_go_.store(true, std::memory_order_release);  // pairs with the load in complete()
  self->disown();
  return MPI_SUCCESS;
}

// ---- those of a team ------------------------------------------------------------------------

bool PendingOperations::try_lock() noexcept {
  return !busy.test_and_set(std::memory_order_acquire);
}  // pairs with unlock()
void PendingOperations::unlock() noexcept { busy.clear(std::memory_order_release); }
void PendingOperations::lock() noexcept {
  while (!try_lock()) sched_yield();
}

/// Holds the lock of a team.
class PendingOperationsLock {
 public:
  explicit PendingOperationsLock(PendingOperations& pending_operations) noexcept
      : pending_operations_(pending_operations) {
    pending_operations_.lock();
  }
  PendingOperationsLock(const PendingOperationsLock&) = delete;
  PendingOperationsLock& operator=(const PendingOperationsLock&) = delete;
  ~PendingOperationsLock() { pending_operations_.unlock(); }

 private:
  PendingOperations& pending_operations_;
};

namespace {

/// Whether two calls are equal. Calls with a context, which points into a translation, are equal to no other.
bool alike(const smelt_call& a, const smelt_call& b, int ranks) noexcept {
  return a.operation == b.operation && a.in == b.in && a.out == b.out && a.count == b.count && a.root == b.root &&
         a.type == b.type && a.op == b.op && a.element_bytes == b.element_bytes && a.context == nullptr &&
         b.context == nullptr && same_blocks(a, b, ranks);
}

/// Requires the lock. Keeps a finished request for an equal call, or frees it.
void rest(NonblockingOperation& operation) noexcept {
  PendingOperations& pending_operations = operation.team.pending_operations;
  smelt_request* work = std::exchange(operation.work, nullptr);
  if (operation.started.context == nullptr) {
    auto& place = pending_operations.idle_requests[pending_operations.next_idle++ % PendingOperations::most_idle];
    place.call = operation.started;
    std::swap(place.blocks, operation.blocks);
    std::swap(place.work, work);
  }
  smelt_request_free(work);
}

/// Requires the lock. Starts the call of an operation, by an idle request if there is one for it.
int start_alone(NonblockingOperation& operation) noexcept {
  MpiTeam& team = operation.team;
  const smelt_call& call = operation.task->call;
  for (auto& each : team.pending_operations.idle_requests) {
    if (each.work == nullptr || !alike(each.call, call, team.size)) continue;
    operation.work = std::exchange(each.work, nullptr);
    operation.started = each.call;
    std::swap(operation.blocks, each.blocks);
    const int status = smelt_request_start(operation.work);
    if (status != SMELT_OK) smelt_request_free(std::exchange(operation.work, nullptr));
    return status;
  }
  try {
    operation.started = call;
    keep_blocks(operation.started, team.size, operation.blocks);
  } catch (const std::bad_alloc&) {
    return SMELT_OUT_OF_MEMORY;
  }
  return smelt_start(team.local, &operation.started, &operation.work);
}

/// Requires the lock. Starts an operation. Across machines, it begins when it is the first of its team.
int start_work(NonblockingOperation& operation) noexcept {
  MpiTeam& team = operation.team;
  if (team.machines == 1) return start_alone(operation);
  if (!spans_machines(team, *operation.task)) return SMELT_NOT_SUPPORTED;
  try {
    operation.crossing = std::make_unique<InterMachineCollective>(team, *operation.task);
  } catch (const std::bad_alloc&) {
    return SMELT_OUT_OF_MEMORY;
  }
  return operation.crossing->prepare();
}

/// Requires the lock. Whether the first operation of a team has finished, and if so its status.
bool over_now(NonblockingOperation& operation, int* status) noexcept {
  int over = 0;
  if (operation.crossing) {
    over = operation.crossing->advance() ? 1 : 0;
    *status = operation.crossing->code() == MPI_SUCCESS ? SMELT_OK : SMELT_BROKEN;
  } else {
    *status = smelt_request_test(operation.work, &over);
  }
  return over != 0;
}

/// Requires the lock. Releases the request of a finished operation.
void put_away(NonblockingOperation& operation) noexcept {
  operation.crossing.reset();
  if (operation.prepared || operation.team.machines > 1) return;
  rest(operation);
}

/// Requires the lock. Completes the first operation, whose status is known.
void complete_first(PendingOperations& pending_operations, int status) noexcept {
  NonblockingOperation* const first = pending_operations.first;
  pending_operations.first = first->next;
  if (pending_operations.first == nullptr) pending_operations.last = nullptr;
  put_away(*first);
  // Pairs with the load in any(): a thread that sees none has the team's `local` to itself.
  pending_operations.count.store(pending_operations.count.load(std::memory_order_relaxed) - 1,
                                 std::memory_order_release);
  first->complete(status);
  await_one_less();  // now its request is complete
  first->disown();
}

/// Requires the lock. Completes all finished operations. Returns whether there was one.
bool complete_finished(PendingOperations& pending_operations) noexcept {
  bool any = false;
  while (pending_operations.first != nullptr) {
    int status = SMELT_OK;
    if (!over_now(*pending_operations.first, &status)) break;
    complete_first(pending_operations, status);
    any = true;
  }
  return any;
}

/// Yields, since waits in the libraries may not do so, and awaited ranks or threads may share the PU.
void be_patient(bool completed) noexcept {
  constinit thread_local int tries = 0;
  tries = completed ? 0 : tries + 1;
  if (tries <= turns_in_vain()) return;
  tries = turns_in_vain();
  sched_yield();
}

// The list of teams with pending operations, which it keeps alive. `listing` guards `listed` and `next` of their
// PendingOperations. Nothing is called while it is held.
constinit std::atomic_flag listing = {};
constinit MpiTeam* first_listed = nullptr;
constinit MpiTeam* last_listed = nullptr;

class TeamListLock {
 public:
  TeamListLock() noexcept {
    while (listing.test_and_set(std::memory_order_acquire)) sched_yield();  // pairs with the destructor
  }
  TeamListLock(const TeamListLock&) = delete;
  TeamListLock& operator=(const TeamListLock&) = delete;
  ~TeamListLock() { listing.clear(std::memory_order_release); }
};

/// These three require a TeamListLock.
void push(MpiTeam& team) noexcept {
  team.pending_operations.next = nullptr;
  (last_listed != nullptr ? last_listed->pending_operations.next : first_listed) = &team;
  last_listed = &team;
}
MpiTeam* pop() noexcept {
  MpiTeam* const team = first_listed;
  first_listed = team->pending_operations.next;
  if (first_listed == nullptr) last_listed = nullptr;
  return team;
}
bool remove(MpiTeam& team) noexcept {
  bool found = false;
  MpiTeam* const end = last_listed;
  for (bool more = first_listed != nullptr; more;) {
    MpiTeam* const each = pop();
    more = each != end;
    if (each == &team) {
      found = true;
    } else {
      push(*each);
    }
  }
  return found;
}

void list(MpiTeam& team) noexcept {
  const TeamListLock lock;
  if (team.pending_operations.listed) return;
  team.pending_operations.listed = true;
  team.retain();
  push(team);
}

/// Passes the ownership of a team to the list, which releases it where communicators may be freed: in advance().
void hand_over(MpiTeam& team) noexcept {
  const TeamListLock lock;
  if (team.pending_operations.listed) {
    team.release();  // not the last owner, as the list owns it as well
  } else {
    team.pending_operations.listed = true;
    push(team);
  }
}

/// Some teams of the list, in turn. The caller must release those with pending operations.
struct TeamBatch {
  static constexpr std::size_t most = 8;
  std::array<MpiTeam*, most> in_flight, idle;
  std::size_t flying = 0, resting = 0;

  TeamBatch() noexcept {
    const TeamListLock lock;
    MpiTeam* const end = last_listed;
    for (bool more = first_listed != nullptr; more && flying < most && resting < most;) {
      MpiTeam* const team = pop();
      more = team != end;
      // A start increments the count before it lists the team, so either it sees that the team was removed, or this
      // thread sees the count.
      if (team->pending_operations.any()) {
        team->retain();
        push(*team);
        in_flight[flying++] = team;
      } else {
        team->pending_operations.listed = false;
        idle[resting++] = team;
      }
    }
  }
  TeamBatch(const TeamBatch&) = delete;
  TeamBatch& operator=(const TeamBatch&) = delete;
  ~TeamBatch() {
    for (std::size_t i = 0; i < flying; ++i) in_flight[i]->release();
    for (std::size_t i = 0; i < resting; ++i) idle[i]->release();
  }
};

int no_memory(const MpiTeam& team) noexcept {
  original.Comm_call_errhandler(team.blamed(), MPI_ERR_NO_MEM);
  return MPI_ERR_NO_MEM;
}

/// A complete request of the kind that is cheapest for the library, without callbacks.
int start_nothing(MPI_Request* request) noexcept {
  return original.Irecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, request);
}

/// Requires the lock. Whether an operation that was just started has finished already.
bool over_at_once(NonblockingOperation& operation, int* status) noexcept {
  return operation.team.pending_operations.first == nullptr && over_now(operation, status);
}

/// Requires the lock. Adds a started, unfinished operation to its team.
void enqueue(NonblockingOperation& operation) noexcept {
  PendingOperations& pending_operations = operation.team.pending_operations;
  operation.own();
  operation.holds = operation.task->keeps_handles();
  if (operation.holds) hold_handles();
  operation.next = nullptr;
  (pending_operations.last != nullptr ? pending_operations.last->next : pending_operations.first) = &operation;
  pending_operations.last = &operation;
  pending_operations.count.store(pending_operations.count.load(std::memory_order_relaxed) + 1,
                                 std::memory_order_relaxed);
  await_one_more();
}

/// Requires the lock. Makes a request for a started operation.
int launch(NonblockingOperation& operation, MPI_Request* request) noexcept {
  int status = SMELT_OK;
  if (over_at_once(operation, &status)) {
    put_away(operation);
    operation.complete(status);
    *request = MPI_REQUEST_NULL;
    if (operation.code() == MPI_SUCCESS) return start_nothing(request);
    return report_failure(operation.team, operation.code());
  }
  const int code = operation.make_request(request);
  enqueue(operation);
  complete_finished(operation.team.pending_operations);
  return code;
}

/// Whether smelt does not support a call.
bool refused(int status) noexcept { return status == SMELT_INVALID_ARGUMENT || status == SMELT_NOT_SUPPORTED; }
const char* why_refused(const MpiTeam& team) noexcept {
  return team.machines > 1 ? not_across : "a combination that smelt does not have";
}

/// Translates the operation's call. Throws nothing: without memory it sets *code and returns `done`.
TranslatedCall::Disposition fill_in(NonblockingOperation& operation, const Description& describe, int* code) noexcept {
  try {
    return describe(operation.task.emplace());
  } catch (const std::bad_alloc&) {
    *code = no_memory(operation.team);
    return TranslatedCall::Disposition::done;
  }
}

}  // namespace

// ---- what others call -----------------------------------------------------------------------

const char* why_not_nonblocking(const MpiTeam* team, const MPI_Request* request) noexcept {
  if (team == nullptr) return why_early();
  if (!team->ready) return team->why;
  if (!team->followed) return "a nonblocking collective, and a library whose progress cannot be followed";
  return request == nullptr ? "arguments that the library reports" : nullptr;
}

const char* take_off(MpiTeam& team, const Description& describe, MPI_Request* request, int* code) noexcept {
  auto* const operation = new (std::nothrow) NonblockingOperation(team);
  if (operation == nullptr) {
    *code = no_memory(team);
    return nullptr;
  }
  const char* why = nullptr;
  switch (fill_in(*operation, describe, code)) {
    case TranslatedCall::Disposition::pass: why = operation->task->why; break;
    case TranslatedCall::Disposition::done:
      if (*code == MPI_SUCCESS) *code = start_nothing(request);
      break;
    case TranslatedCall::Disposition::run: {
      const PendingOperationsLock lock(team.pending_operations);
      const int status = start_work(*operation);
      if (status == SMELT_OK) {
        *code = launch(*operation, request);
      } else if (refused(status)) {
        why = why_refused(team);
      } else {
        *code = no_memory(team);
      }
    }
  }
  operation->disown();
  if (team.pending_operations.any()) list(team);
  return why;
}

// ---- again and again ------------------------------------------------------------------------

PersistentOperation::PersistentOperation(MpiTeam& team, Description describe)
    : team_(team), describe_(std::move(describe)) {
  operation_ = new (std::nothrow) NonblockingOperation(team);
  if (operation_ == nullptr) throw std::bad_alloc();
  auto& task = operation_->task.emplace();
  task.derived = &needed_.types;
  verdict_ = describe_(task);
  if (task.by.user) needed_.op = task.by.op;
  // Nothing is packed and nothing can change, so every start is the same call.
  const bool same = needed_.types.empty() && needed_.op == MPI_OP_NULL;
  if (verdict_ == TranslatedCall::Disposition::run && same && team.machines == 1) {
    const PendingOperationsLock lock(team.pending_operations);
    operation_->prepared = smelt_prepare(team.local, &task.call, &operation_->work) == SMELT_OK;
  }
  retain_handles(needed_);
}

PersistentOperation::~PersistentOperation() {
  operation_->disown();
  release_handles(needed_);
}

/// Requires the lock.
int PersistentOperation::start_work() noexcept {
  if (operation_->prepared) return smelt_request_start(operation_->work);
  return mpi::start_work(*operation_);
}

const char* PersistentOperation::start(int* code) noexcept {
  *code = MPI_SUCCESS;
  if (verdict_ == TranslatedCall::Disposition::pass) return operation_->task->why;
  NonblockingOperation& operation = *operation_;
  operation.begin();
  if (verdict_ == TranslatedCall::Disposition::run && !operation.prepared &&
      fill_in(operation, describe_, code) != verdict_) {
    return nullptr;
  }
  if (verdict_ == TranslatedCall::Disposition::done) {
    operation.complete(SMELT_OK);
    return nullptr;
  }
  {
    const PendingOperationsLock lock(team_.pending_operations);
    if (const int started = start_work(); started != SMELT_OK) {
      if (refused(started)) return why_refused(team_);
      *code = no_memory(team_);
      return nullptr;
    }
    int status = SMELT_OK;
    if (over_at_once(operation, &status)) {
      put_away(operation);
      operation.complete(status);
      return nullptr;
    }
    enqueue(operation);
  }
  list(team_);
  return nullptr;
}

bool PersistentOperation::over() noexcept {
  if (operation_->over()) return true;
  PendingOperations& pending_operations = team_.pending_operations;
  if (pending_operations.try_lock()) {
    complete_finished(pending_operations);
    pending_operations.unlock();
  }
  return operation_->over();
}

int PersistentOperation::wait() {
  for (unsigned tries = 1; !over(); ++tries) {
    if (tries % 64 == 0) make_progress();
    if (tries > 4000) sched_yield();
  }
  return operation_->code() != MPI_SUCCESS ? report_failure(team_, operation_->code()) : MPI_SUCCESS;
}

int PersistentOperation::make_request(MPI_Request* request) noexcept {
  const PendingOperationsLock lock(team_.pending_operations);
  if (operation_->over() && operation_->code() == MPI_SUCCESS) return start_nothing(request);
  const int code = operation_->make_request(request);
  return code == MPI_SUCCESS && operation_->over() ? original.Grequest_complete(*request) : code;
}

// ---- all of a team, or of all teams ---------------------------------------------------------

/// Requires the lock. Waits for the first operation of its team.
static int wait_for(NonblockingOperation& operation) noexcept {
  if (!operation.crossing) return smelt_request_wait(operation.work);
  int status = SMELT_OK;
  for (int tries = 1; !over_now(operation, &status); ++tries) {
    make_progress();
    if (tries > 4000) sched_yield();
  }
  return status;
}

void complete_all(MpiTeam& team) noexcept {
  const PendingOperationsLock lock(team.pending_operations);
  while (team.pending_operations.first != nullptr)
    complete_first(team.pending_operations, wait_for(*team.pending_operations.first));
}

void advance_pending() noexcept {
  const TeamBatch batch;
  bool completed = false;
  for (std::size_t i = 0; i < batch.flying; ++i) {
    PendingOperations& pending_operations = batch.in_flight[i]->pending_operations;
    if (!pending_operations.try_lock()) continue;  // held by another thread, or by this one further up the stack
    completed = complete_finished(pending_operations) || completed;
    pending_operations.unlock();
  }
  be_patient(completed);
}

void forget_pending(MpiTeam& team) noexcept {
  bool kept = false;
  {
    const TeamListLock lock;
    if (!team.pending_operations.listed || team.pending_operations.any()) return;
    team.pending_operations.listed = false;
    kept = remove(team);
  }
  if (kept) team.release();
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
