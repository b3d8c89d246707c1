#include "shims/mpi/pending/progress_hook.hpp"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/progress.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

// The awaited objects are guarded by their own locks; a thread that sees an old number is called again.
constinit std::atomic<int>& awaited = library_work.awaited;
constinit std::atomic<void (*)() noexcept> follower{nullptr};  // release in follow_library(), acquire in follow()
constinit std::atomic<bool> called{false};
constinit std::mutex set_up;
constinit bool tried = false, works = false;  // guarded by `set_up`
constinit std::atomic<bool> hooked{false};    // written under `set_up`

void follow() noexcept {
  if (const auto advance = follower.load(std::memory_order_acquire); advance != nullptr) advance();
  if (!called.load(std::memory_order_relaxed)) called.store(true, std::memory_order_relaxed);
}

// ---- Open MPI -----------------------------------------------------------------------------------

using Register = int(int (*)());
constinit Register* enter_progress = nullptr;  // null: another library
constinit Register* leave_progress = nullptr;

int after_progress() {
  if (awaited.load(std::memory_order_relaxed) != 0) follow();
  return 0;
}

// ---- MPICH --------------------------------------------------------------------------------------

using Progress = unsigned(void*);
constinit Progress* ucx_progress = nullptr;  // null: MPICH does not call it

// With MPI_THREAD_MULTIPLE all functions of MPICH hold one lock of it, which none may take twice, and so also call
// ucp_worker_progress() under it. There `advance` is called where the same thread next lets go of the lock, as it does
// at each turn of a wait and at the end of any function: by the pthread_mutex_unlock() that MPICH imports.
//
// Invariants
// - `advance` runs without the lock, at a point where MPICH allows any thread to take it, so any function of MPICH may
//   be called. So the holder of the lock never waits for a thread that holds a lock of the shim and waits for this one.
// - `advance` runs only after a turn of progress. Functions without progress do not call it at this level either, so
//   they may be called by a thread that holds a lock that `advance` takes.
constinit std::atomic<pthread_mutex_t*> library_lock{nullptr};     // once it is known; written before `follower`
constinit thread_local pthread_mutex_t* other_released = nullptr;  // the last one that was not the library_lock
constinit thread_local bool turned = false;                        // under the lock, since this thread has got it

int release(pthread_mutex_t* mutex) {
  const int code = pthread_mutex_unlock(mutex);
  if (mutex != library_lock.load(std::memory_order_relaxed)) {
    other_released = mutex;
  } else if (turned) {
    turned = false;
    follow();
  }
  return code;
}

/// Replaces libucp's function for MPICH only, as others may call it from threads that must not use MPI.
unsigned turn(void* worker) {
  const unsigned events = ucx_progress(worker);
  if (awaited.load(std::memory_order_relaxed) == 0) [[likely]]
    return events;
  if (follower.load(std::memory_order_acquire) == nullptr) return events;
  if (library_lock.load(std::memory_order_relaxed) != nullptr) {
    turned = true;
  } else {
    follow();
  }
  return events;
}

/// Makes the library call `function` instead of one that it imports. False: it does not import it, or the slot cannot
/// be written.
bool stand_in(const LoadedObject& library, const char* imported, void* function) noexcept {
  bool done = false;
  library.references([](void**) { return true; },
                     [&](const LoadedObject::SymbolReference& each) {
                       if (std::strcmp(each.name, imported) == 0) done = library.write(each.slot, function) || done;
                     });
  return done;
}

/// Finds the library's lock: the one that MPI_Grequest_complete() takes. False: none was seen, as in an MPICH with a
/// lock per channel, or one whose imports cannot be changed.
bool find_lock() noexcept {
  if (library_lock.load(std::memory_order_relaxed) != nullptr) return true;
  MPI_Request request;
  if (!start_empty_request(&request)) return false;
  other_released = nullptr;
  original.Grequest_complete(request);
  library_lock.store(other_released, std::memory_order_relaxed);
  original.Wait(&request, MPI_STATUS_IGNORE);
  return library_lock.load(std::memory_order_relaxed) != nullptr;
}

// ---- either -------------------------------------------------------------------------------------

bool hook() noexcept {
  if (follows_openmpi()) return enter_progress(after_progress) == 0;
  int level = MPI_THREAD_MULTIPLE;
  if (ucx_progress == nullptr || original.Query_thread(&level) != MPI_SUCCESS) return false;
  return level != MPI_THREAD_MULTIPLE || find_lock();
}

void unhook() noexcept {
  if (follows_openmpi()) leave_progress(after_progress);
}

/// For a rank with its own PU. Threads that wait in MPICH at the same time are likely to be more than there are PUs,
/// and its lock does not queue them.
int turns() noexcept { return library_lock.load(std::memory_order_relaxed) != nullptr ? 30 : 2000; }

/// Requires the lock on `set_up`.
void set_hooked(bool wanted) noexcept {
  if (hooked.load(std::memory_order_relaxed) == wanted) return;
  if (!wanted) unhook();
  hooked.store(wanted && hook(), std::memory_order_relaxed);
}

/// Whether the library calls `advance`. Requires the lock on `set_up`.
bool try_out(void (*advance)() noexcept) noexcept {
  set_hooked(true);
  if (!hooked.load(std::memory_order_relaxed)) return false;
  follower.store(advance, std::memory_order_release);
  prepare_progress();
  await_one_more();
  for (int i = 0; i < 1000 && !called.load(std::memory_order_relaxed); ++i) make_progress();
  await_one_less();
  set_hooked(false);
  return called.load(std::memory_order_relaxed);
}

}  // namespace

void prepare_following(const Library& library) noexcept {
  enter_progress = reinterpret_cast<Register*>(library.find_used("opal_progress_register"));
  leave_progress = reinterpret_cast<Register*>(library.find_used("opal_progress_unregister"));
  if (follows_openmpi()) return;
  // Done before the library's first call, so that the dynamic loader does not fill the slot afterwards.
  (void)stand_in(library.object, "pthread_mutex_unlock", reinterpret_cast<void*>(release));
  ucx_progress = reinterpret_cast<Progress*>(library.find_used("ucp_worker_progress"));
  if (ucx_progress != nullptr && !stand_in(library.object, "ucp_worker_progress", reinterpret_cast<void*>(turn))) {
    ucx_progress = nullptr;
  }
}

bool follows_openmpi() noexcept { return enter_progress != nullptr && leave_progress != nullptr; }

bool follow_library(void (*advance)() noexcept) noexcept {
  const std::lock_guard lock(set_up);
  if (!tried) works = try_out(advance);
  tried = true;
  return works;
}

int turns_in_vain() noexcept { return turns(); }

void stop_following() noexcept {
  const std::lock_guard lock(set_up);
  set_hooked(false);
  works = false;
  follower.store(nullptr, std::memory_order_release);
}

void await_one_more() noexcept {
  awaited.fetch_add(1, std::memory_order_relaxed);
  if (hooked.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(set_up);
  if (works) set_hooked(true);
}
void await_one_less() noexcept { awaited.fetch_sub(1, std::memory_order_relaxed); }
bool awaiting() noexcept { return awaited.load(std::memory_order_relaxed) != 0; }

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
