#include "shims/mpi/follow.hpp"

#include <dlfcn.h>
#include <link.h>
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "shims/mpi/progress.hpp"
#include "shims/next.hpp"

namespace smelt::shims::mpi {
namespace {

// What has to be seen of the things awaited is guarded by their own locks: who sees an old number comes again.
constinit std::atomic<int> awaited{0};
constinit std::atomic<void (*)() noexcept> follower{nullptr};  // release in follow_library(), acquire in follow()
constinit std::atomic<bool> called{false};
constinit std::mutex set_up;
constinit bool tried = false, works = false;  // guarded by `set_up`
constinit std::atomic<bool> hooked{false};    // written under `set_up`

void follow() noexcept {
  if (const auto advance = follower.load(std::memory_order_acquire); advance != nullptr) advance();
  if (!called.load(std::memory_order_relaxed)) called.store(true, std::memory_order_relaxed);
}

#ifdef OPEN_MPI

int after_progress() {
  if (awaited.load(std::memory_order_relaxed) != 0) follow();
  return 0;
}

using Register = int(int (*)());

bool hook() noexcept {
  auto* enter = reinterpret_cast<Register*>(dlsym(RTLD_DEFAULT, "opal_progress_register"));
  return enter != nullptr && dlsym(RTLD_DEFAULT, "opal_progress_unregister") != nullptr && enter(after_progress) == 0;
}

void unhook() noexcept { reinterpret_cast<Register*>(dlsym(RTLD_DEFAULT, "opal_progress_unregister"))(after_progress); }

#else

struct Range {
  std::uintptr_t begin = 0, end = 0;
};
constinit Range library;  // of MPICH's code; written before `follower`

/// Where the code lies that contains `address`.
Range range_of(std::uintptr_t address) noexcept {
  struct Search {
    std::uintptr_t address;
    Range found;
  } search{address, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* context) {
        auto& search = *static_cast<Search*>(context);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto begin = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
          const auto end = begin + object->dlpi_phdr[i].p_memsz;
          if (object->dlpi_phdr[i].p_type == PT_LOAD && search.address >= begin && search.address < end) {
            search.found = {begin, end};
          }
        }
        return 0;
      },
      &search);
  return search.found;
}

/// With MPI_THREAD_MULTIPLE the library calls ucp_worker_progress() under a lock that its functions take, too.
bool hook() noexcept {
  int level = MPI_THREAD_MULTIPLE;
  if (PMPI_Query_thread(&level) != MPI_SUCCESS || level == MPI_THREAD_MULTIPLE) return false;
  if (library.end == 0) library = range_of(reinterpret_cast<std::uintptr_t>(dlsym(RTLD_NEXT, "PMPI_Test")));
  return library.end != 0;
}

void unhook() noexcept {}

#endif

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
  for (int i = 0; i < 1000 && !called.load(std::memory_order_relaxed); ++i) make_progress(nullptr);
  await_one_less();
  set_hooked(false);
  return called.load(std::memory_order_relaxed);
}

}  // namespace

bool follow_library(void (*advance)() noexcept) noexcept {
  const std::lock_guard lock(set_up);
  if (!tried) works = try_out(advance);
  tried = true;
  return works;
}

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

}  // namespace smelt::shims::mpi

#ifdef MPICH

/// In front of libucp's. Only MPICH's own calls count: others may come from threads that may not use MPI.
extern "C" [[gnu::visibility("default")]] unsigned ucp_worker_progress(void* worker) {
  using namespace smelt::shims::mpi;
  static auto* const progress = smelt::shims::next_definition<unsigned(void*)>("ucp_worker_progress");
  const unsigned events = progress(worker);
  if (awaited.load(std::memory_order_relaxed) == 0) [[likely]]
    return events;
  const auto caller = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  if (follower.load(std::memory_order_acquire) != nullptr && caller >= library.begin && caller < library.end) follow();
  return events;
}

#endif
