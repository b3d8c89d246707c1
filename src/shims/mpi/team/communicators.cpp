#include "shims/mpi/team/communicators.hpp"

#include <array>
#include <atomic>
#include <mutex>

#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/progress_hook.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

constinit std::mutex set_up;
constinit std::atomic<bool> has_own{false};
MPI_Comm own = MPI_COMM_NULL;
constexpr int own_tag =
    24087;  // another thread may make a group's communicator out of the same one, by a tag of its own

/// Open MPI's first keyval that is not predefined; Open MPI 5 has one predefined keyval more. -1: not known.
int first_keyval() noexcept {
#ifdef SMELT_MPI_OPENMPI_HANDLES
  return original.Bcast_init != nullptr ? 13 : 12;
#else
  return -1;
#endif
}

constexpr std::size_t most_own_keyvals = 2;                              // of communicators and of types
constinit std::array<std::atomic<int>, most_own_keyvals> own_keyvals{};  // 0: none, as that is a predefined one

bool is_own(int keyval) noexcept {
  for (const auto& own_one : own_keyvals) {
    if (own_one.load(std::memory_order_relaxed) == keyval) return true;
  }
  return false;
}

enum class World { unknown, there, gone };
constinit std::atomic<World> world{World::unknown};

constinit std::atomic<const char*> first_thread{nullptr};  // an address in its storage; may be another's after its end
constinit std::atomic<bool> several_threads{false};

int delete_nothing(MPI_Comm, int, void*, void*) { return MPI_SUCCESS; }

/// Whether the program may have keyvals: Open MPI gives a new one the lowest free number. A program that has freed as
/// many as are tried here, and kept later ones, is taken for one that has none.
bool may_have_keyvals() noexcept {
  std::array<int, 32> tried;
  bool others = false;
  int expected = first_keyval();
  for (int& keyval : tried) {
    keyval = MPI_KEYVAL_INVALID;
    original.Comm_create_keyval(copy_nothing, delete_nothing, &keyval, nullptr);
    while (is_own(expected)) ++expected;
    others = others || keyval != expected;
    ++expected;
  }
  for (int& keyval : tried) {
    if (keyval != MPI_KEYVAL_INVALID) original.Comm_free_keyval(&keyval);
  }
  return others;
}

/// Whether a communicator may have attributes on some rank. Collective.
bool may_have_attributes(MPI_Comm comm) noexcept {
  if (!follows_openmpi()) return false;  // only there does it matter
  const int own_answer = may_have_keyvals() ? 1 : 0;
  int answer = 1;
  original.Allreduce(&own_answer, &answer, 1, MPI_INT, MPI_BOR, comm);
  return answer != 0;
}

}  // namespace

void note_own_keyval(int keyval) noexcept {
  for (auto& own_one : own_keyvals) {
    int none = 0;
    if (own_one.compare_exchange_strong(none, keyval, std::memory_order_relaxed)) return;
  }
}

Copy::Copy(MPI_Comm comm) noexcept {
  MPI_Group all = MPI_GROUP_NULL;
  if (original.Comm_group(comm, &all) != MPI_SUCCESS) return;
  const int code = may_have_attributes(comm) ? original.Comm_create(comm, all, &comm_)
                                             : original.Comm_create_group(comm, all, own_tag, &comm_);
  if (code != MPI_SUCCESS) comm_ = MPI_COMM_NULL;
  original.Group_free(&all);
}

Copy::~Copy() {
  if (comm_ != MPI_COMM_NULL) original.Comm_free(&comm_);
}

bool is_world_there() noexcept {
  const World known = world.load(std::memory_order_relaxed);
  if (known != World::unknown) return known == World::there;
  int initialized = 0, finalized = 0;
  original.Initialized(&initialized);
  original.Finalized(&finalized);
  if (initialized == 0 || finalized != 0) return false;
  World expected = World::unknown;
  world.compare_exchange_strong(expected, World::there, std::memory_order_relaxed);
  return true;
}

void note_end_of_world() noexcept { world.store(World::gone, std::memory_order_relaxed); }

void note_thread() noexcept {
  static thread_local const char here = 0;
  const char* first = nullptr;
  if (first_thread.load(std::memory_order_relaxed) == &here) return;
  if (first_thread.compare_exchange_strong(first, &here, std::memory_order_relaxed)) return;
  several_threads.store(true, std::memory_order_relaxed);
}

bool may_create_communicators() noexcept {
  return !follows_openmpi() || !several_threads.load(std::memory_order_relaxed);
}

void prepare_for_threads() noexcept {
  note_thread();
  int level = 0;
  if (follows_openmpi() && original.Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE)
    (void)own_communicator();
}

MPI_Comm own_communicator() noexcept {
  if (has_own.load(std::memory_order_acquire)) return own;
  const std::lock_guard lock(set_up);
  if (!has_own.load(std::memory_order_relaxed)) {
    own = Copy(MPI_COMM_SELF).take();
    if (own == MPI_COMM_NULL) return MPI_COMM_SELF;
    original.Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    has_own.store(true, std::memory_order_release);  // pairs with the load above: `own` is there
  }
  return own;
}

void release_own_communicator() noexcept {
  const std::lock_guard lock(set_up);
  if (has_own.exchange(false)) original.Comm_free(&own);
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
