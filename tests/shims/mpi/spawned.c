/* Ranks that begin with MPI_Comm_spawn, and then add up numbers among themselves.

     spawned          prints for each rank the sum of what it got
     spawned child    what they spawn: it does nothing else

   Launchers of MPICH start both kinds of processes from one process of theirs. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  char* words[] = {"child", NULL};
  MPI_Comm other;
  int rank, total = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc > 1) {
    MPI_Comm_get_parent(&other);
    MPI_Barrier(other); /* so that it is still there when the others connect to it */
    MPI_Comm_disconnect(&other);
  } else {
    MPI_Comm_spawn(argv[0], words, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
    MPI_Barrier(other);
    MPI_Comm_disconnect(&other);
    for (int i = 0; i < 200; ++i) {
      int own = rank + i, sum;
      MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      total += sum;
    }
    printf("%d %d\n", rank, total);
  }
  MPI_Finalize();
  return 0;
}
