#include "shims/mpi/handles.hpp"

#include <mpi.h>

#include <atomic>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "shims/mpi/operators.hpp"
#include "shims/mpi/original.hpp"
#include "shims/mpi/types.hpp"

namespace smelt::shims::mpi {
namespace {

constinit std::atomic<int> holders{0};
constinit std::mutex waiting;
struct Held {
  std::vector<MPI_Datatype> types;
  std::vector<MPI_Op> ops;
};
Held& held() {  // guarded by `waiting`; never destroyed
  static Held& all = *new Held;
  return all;
}
constinit std::atomic<bool> anything_held{false};

/// Frees `handle` now or later. `ordinary`: that the library would not complain.
template <class Handle>
int free_or_hold(Handle* handle, Handle none, bool ordinary, std::vector<Handle> Held::*list,
                 int (*library)(Handle*)) noexcept {
  // Acquire pairs with the release of the last holder: its work with the handles is over.
  if (holders.load(std::memory_order_acquire) == 0) {
    free_held();
    return library(handle);
  }
  if (!ordinary) return library(handle);
  try {
    const std::lock_guard lock(waiting);
    (held().*list).push_back(*handle);
    anything_held.store(true, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {  // it is lost
  }
  *handle = none;
  return MPI_SUCCESS;
}

}  // namespace

void hold_handles() noexcept { holders.fetch_add(1, std::memory_order_relaxed); }
void release_handles() noexcept { holders.fetch_sub(1, std::memory_order_release); }

void free_held() noexcept {
  if (!anything_held.load(std::memory_order_relaxed)) return;
  Held now;
  {
    const std::lock_guard lock(waiting);
    if (holders.load(std::memory_order_acquire) != 0) return;
    std::swap(now, held());
    anything_held.store(false, std::memory_order_relaxed);
  }
  for (auto& type : now.types) original.Type_free(&type);
  for (auto& op : now.ops) original.Op_free(&op);
}

namespace {

int free_type(MPI_Datatype* type) noexcept {
  const Type* const known = holders.load(std::memory_order_relaxed) != 0 && type != nullptr ? type_of(*type) : nullptr;
  const bool ordinary = known != nullptr && !known->predefined;
  return free_or_hold(type, MPI_DATATYPE_NULL, ordinary, &Held::types, original.Type_free);
}

int free_op(MPI_Op* op) noexcept {
  const bool ordinary = op != nullptr && *op != MPI_OP_NULL && !is_predefined(*op);
  return free_or_hold(op, MPI_OP_NULL, ordinary, &Held::ops, original.Op_free);
}

}  // namespace
}  // namespace smelt::shims::mpi

using namespace smelt::shims::mpi;

extern "C" {
[[gnu::visibility("default")]] int PMPI_Type_free(MPI_Datatype* type) { return free_type(type); }
[[gnu::visibility("default")]] int MPI_Type_free(MPI_Datatype* type) {
  return tool.Type_free != nullptr ? tool.Type_free(type) : free_type(type);
}
[[gnu::visibility("default")]] int PMPI_Op_free(MPI_Op* op) { return free_op(op); }
[[gnu::visibility("default")]] int MPI_Op_free(MPI_Op* op) {
  return tool.Op_free != nullptr ? tool.Op_free(op) : free_op(op);
}
}
