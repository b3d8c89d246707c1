// A PMPI tool: counts broadcasts and says at the end how many there were.
#include <mpi.h>

#include <cstdio>

static int broadcasts = 0;

extern "C" int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++broadcasts;
  return PMPI_Bcast(data, count, type, root, comm);
}

extern "C" int MPI_Finalize() {
  std::printf("tool: %d broadcasts\n", broadcasts);
  return PMPI_Finalize();
}
