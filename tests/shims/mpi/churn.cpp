// Communicators that are freed soon, and one that is used for seconds after them.
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "support.hpp"

namespace {

void check_sums(MPI_Comm comm, int calls) {
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int call = 0; call < calls; ++call) {
    const int own = rank + call;
    int sum = 0;
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, comm);
    shim_test::require(sum == size * (size - 1) / 2 + size * call, "a sum is wrong");
  }
}

enum class Call { allreduce, reduce, reduce_scatter };

/// The largest of floating-point numbers, which one side serves for the whole life of a communicator.
void check_maximum(MPI_Comm comm, Call call) {
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const std::vector<double> own(static_cast<std::size_t>(size), rank);
  double most = -1.0;
  if (call == Call::allreduce) MPI_Allreduce(own.data(), &most, 1, MPI_DOUBLE, MPI_MAX, comm);
  if (call == Call::reduce) MPI_Reduce(own.data(), &most, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
  if (call == Call::reduce_scatter) MPI_Reduce_scatter_block(own.data(), &most, 1, MPI_DOUBLE, MPI_MAX, comm);
  const bool gets_none = call == Call::reduce && rank != 0;
  shim_test::require(most == (gets_none ? -1.0 : size - 1), "a maximum is wrong");
}

/// "maxima" COMMUNICATORS SECONDS: the same where the first call decides. Then MPI_COMM_WORLD (MPI_Reduce) and, some
/// seconds later, another communicator (MPI_Reduce_scatter_block).
void free_after_a_maximum(int communicators, int seconds) {
  const auto use = [](Call call) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    check_maximum(comm, call);
    MPI_Comm_free(&comm);
  };
  for (int i = 0; i < communicators; ++i) use(Call::allreduce);
  check_maximum(MPI_COMM_WORLD, Call::reduce);
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  use(Call::reduce_scatter);
}

}  // namespace

// COMMUNICATORS CALLS SECONDS, or "maxima" COMMUNICATORS SECONDS
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (std::strcmp(argv[1], "maxima") == 0) {
    free_after_a_maximum(std::atoi(argv[2]), std::atoi(argv[3]));
    MPI_Finalize();
    return 0;
  }
  for (int i = 0; i < std::atoi(argv[1]); ++i) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    check_sums(comm, std::atoi(argv[2]));
    MPI_Comm_free(&comm);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[3]));
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int goes_on = 1; goes_on != 0;) {
    check_sums(comm, 100);
    goes_on = std::chrono::steady_clock::now() < end ? 1 : 0;
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, comm);
  }
  MPI_Comm_free(&comm);
  MPI_Finalize();
}
