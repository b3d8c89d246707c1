#include "shims/mpi/team/communicators.hpp"

#include <atomic>
#include <mutex>

#include "shims/mpi/original.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

constinit std::mutex set_up;
constinit std::atomic<bool> has_own{false};
MPI_Comm own = MPI_COMM_NULL;
constexpr int own_tag =
    24087;  // another thread may make a group's communicator out of the same one, by a tag of its own

}  // namespace

Copy::Copy(MPI_Comm comm) noexcept {
  MPI_Group all = MPI_GROUP_NULL;
  if (original.Comm_group(comm, &all) != MPI_SUCCESS) return;
  if (original.Comm_create_group(comm, all, own_tag, &comm_) != MPI_SUCCESS) comm_ = MPI_COMM_NULL;
  original.Group_free(&all);
}

Copy::~Copy() {
  if (comm_ != MPI_COMM_NULL) original.Comm_free(&comm_);
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
