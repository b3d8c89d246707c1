// Jobs in which some ranks may not have the preload library.
//
//   mpirun -n N mixed sums     sums of all ranks; the driver takes the preload library from one of them, or does not
//   mpirun -n N mixed spawn    sums with a spawned process that does not have it
#include <string>

#include "support.hpp"

namespace {

using shim_test::require;

void sum_up(MPI_Comm comm) {
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int i = 0; i < 200; ++i) {
    const int own = rank + i;
    int sum = 0, first = rank == 0 ? i : -1;
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, comm);
    require(sum == size * i + size * (size - 1) / 2, "a sum");
    MPI_Bcast(&first, 1, MPI_INT, 0, comm);
    require(first == i, "a broadcast");
  }
}

void sum_up_with(MPI_Comm others, bool high) {
  MPI_Comm all = MPI_COMM_NULL;
  MPI_Intercomm_merge(others, high ? 1 : 0, &all);
  sum_up(all);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&others);
}

}  // namespace

int main(int argc, char** argv) {
  std::string program = argv[0], child = "child", unset = "-u", preload = "LD_PRELOAD";
  MPI_Init(&argc, &argv);
  const std::string mode = argc > 1 ? argv[1] : "";
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (mode == "child") {
    MPI_Comm parent = MPI_COMM_NULL;
    MPI_Comm_get_parent(&parent);
    sum_up_with(parent, true);
  } else {
    sum_up(MPI_COMM_WORLD);
    MPI_Comm copy = MPI_COMM_NULL, spawned = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    sum_up(copy);
    MPI_Comm_free(&copy);
    if (mode == "spawn") {
      char* words[] = {unset.data(), preload.data(), program.data(), child.data(), nullptr};
      MPI_Comm_spawn("env", words, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &spawned, MPI_ERRCODES_IGNORE);
      sum_up_with(spawned, false);
    }
    if (rank == 0) std::printf("all right\n");
  }
  MPI_Finalize();
}
