// Broadcasts a hundred times.
#include "support.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  for (int i = 0; i < 100; ++i) {
    int data = shim_test::world_rank() == 0 ? i : -1;
    MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
    shim_test::require(data == i, "a broadcast");
  }
  MPI_Finalize();
}
