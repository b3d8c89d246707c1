#include "shims/mpi/pending/deferred_frees.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "shims/mpi/calls/operators.hpp"
#include "shims/mpi/calls/types.hpp"
#include "shims/mpi/original.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

constinit std::atomic<int> holders{0};
constinit std::atomic<int> needs{0};  ///< persistent collectives with handles of the program's
constinit std::mutex waiting;

using Counts = std::unordered_map<std::uintptr_t, int>;  ///< by handle
/// All guarded by `waiting`; never destroyed.
struct DeferredFrees {
  std::vector<MPI_Datatype> types;
  std::vector<MPI_Op> ops;
  Counts needed_types, needed_ops;
};
DeferredFrees& deferred() {
  static DeferredFrees& all = *new DeferredFrees;
  return all;
}
constinit std::atomic<bool> anything_held{false};

/// Acquire pairs with the release of the last holder, which has finished with the handles.
bool somebody_holds() noexcept { return holders.load(std::memory_order_acquire) != 0; }

void less(Counts& counts, std::uintptr_t handle) noexcept {
  if (const auto found = counts.find(handle); found != counts.end() && --found->second == 0) counts.erase(found);
}

/// Frees `handle` now or later. `ordinary`: the library would accept the free.
template <class Handle>
int free_or_hold(Handle* handle, Handle none, bool ordinary, std::vector<Handle> DeferredFrees::*list,
                 Counts DeferredFrees::*needed, int (*library)(Handle*)) {
  free_held();
  if (!ordinary) return library(handle);
  try {
    const std::lock_guard lock(waiting);
    const bool hold = somebody_holds() || (deferred().*needed).contains(number_of(*handle));
    if (hold) {
      (deferred().*list).push_back(*handle);
      anything_held.store(true, std::memory_order_relaxed);
      *handle = none;
      return MPI_SUCCESS;
    }
  } catch (const std::bad_alloc&) {  // leaked
    *handle = none;
    return MPI_SUCCESS;
  }
  return library(handle);
}

/// Whether MPI_Type_free and MPI_Op_free may have to defer.
bool concerned() noexcept {
  return holders.load(std::memory_order_relaxed) != 0 || needs.load(std::memory_order_relaxed) != 0;
}

/// Moves the handles that are not needed any more from one list to the other.
template <class Handle>
void part(std::vector<Handle>& from, const Counts& needed, std::vector<Handle>& to) {
  const auto kept =
      std::partition(from.begin(), from.end(), [&](Handle each) { return needed.contains(number_of(each)); });
  to.assign(kept, from.end());
  from.erase(kept, from.end());
}

}  // namespace

void hold_handles() noexcept { holders.fetch_add(1, std::memory_order_relaxed); }
void release_handles() noexcept { holders.fetch_sub(1, std::memory_order_release); }

void retain_handles(const RetainedHandles& handles) {
  if (handles.types.empty() && handles.op == MPI_OP_NULL) return;
  const std::lock_guard lock(waiting);
  for (const auto type : handles.types) ++deferred().needed_types[number_of(type)];
  if (handles.op != MPI_OP_NULL) ++deferred().needed_ops[number_of(handles.op)];
  needs.fetch_add(1, std::memory_order_relaxed);
}

void release_handles(const RetainedHandles& handles) noexcept {
  if (handles.types.empty() && handles.op == MPI_OP_NULL) return;
  {
    const std::lock_guard lock(waiting);
    for (const auto type : handles.types) less(deferred().needed_types, number_of(type));
    if (handles.op != MPI_OP_NULL) less(deferred().needed_ops, number_of(handles.op));
    needs.fetch_sub(1, std::memory_order_relaxed);
  }
  free_held();
}

void free_held() noexcept {
  if (!anything_held.load(std::memory_order_relaxed) || somebody_holds()) return;
  std::vector<MPI_Datatype> types;
  std::vector<MPI_Op> ops;
  try {
    const std::lock_guard lock(waiting);
    if (somebody_holds()) return;
    part(deferred().types, deferred().needed_types, types);
    part(deferred().ops, deferred().needed_ops, ops);
    anything_held.store(!deferred().types.empty() || !deferred().ops.empty(), std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {  // retried by the next call
  }
  for (auto& type : types) original.Type_free(&type);
  for (auto& op : ops) original.Op_free(&op);
}

int serve_Type_free(MPI_Datatype* type) {
  const Type* const known = concerned() && type != nullptr ? type_of(*type) : nullptr;
  const bool ordinary = known != nullptr && !known->predefined;
  return free_or_hold(type, MPI_DATATYPE_NULL, ordinary, &DeferredFrees::types, &DeferredFrees::needed_types,
                      original.Type_free);
}

int serve_Op_free(MPI_Op* op) {
  const bool ordinary = concerned() && op != nullptr && *op != MPI_OP_NULL && !is_predefined(*op);
  return free_or_hold(op, MPI_OP_NULL, ordinary, &DeferredFrees::ops, &DeferredFrees::needed_ops, original.Op_free);
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
