// Communicators that are freed soon, and one that is used for seconds after them.
#include <chrono>

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

}  // namespace

// COMMUNICATORS CALLS SECONDS
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
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
