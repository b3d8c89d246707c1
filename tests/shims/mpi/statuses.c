/* The functions of MPI 4.1 that look at an array of requests, on persistent collectives: rank 0 starts last, and until
   then a collective is over on no rank. Needs smelt: MPICH 5.0 refuses persistent collectives there. */
#include <mpi.h>
#include <stdio.h>

#define CHECK(condition) \
  if (!(condition)) fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), MPI_Abort(MPI_COMM_WORLD, 1)

int main(int argc, char** argv) {
  enum { rounds = 100 };
  int rank, size, token = 0;
  MPI_Init(&argc, &argv);
  const MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  double in = 0, out = 0;
  for (int i = 0; i < 2; ++i) MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, comm);
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Allreduce_init(&in, &out, 1, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &requests[1]);
  const MPI_Request* const constant = requests;
  for (int round = 0; round < rounds; ++round) {
    int all = 1, any = 1, some = 1, index = 0, indices[2];
    in = rank + round;
    if (rank != 0) {
      MPI_Start(&requests[1]);
      MPI_Request_get_status_all(2, constant, &all, MPI_STATUSES_IGNORE);
      MPI_Request_get_status_any(2, constant, &index, &any, MPI_STATUS_IGNORE);
      MPI_Request_get_status_some(2, constant, &some, indices, MPI_STATUSES_IGNORE);
      CHECK(!all && !any && some == 0);
      MPI_Send(&token, 1, MPI_INT, 0, 0, comm);
    } else {
      for (int i = 1; i < size; ++i) MPI_Recv(&token, 1, MPI_INT, i, 0, comm, MPI_STATUS_IGNORE);
      MPI_Start(&requests[1]);
    }
    do MPI_Request_get_status_all(2, constant, &all, MPI_STATUSES_IGNORE);
    while (!all);
    MPI_Request_get_status_any(2, constant, &index, &any, MPI_STATUS_IGNORE);
    MPI_Request_get_status_some(2, constant, &some, indices, MPI_STATUSES_IGNORE);
    CHECK(any && index == 1 && some == 1 && indices[0] == 1);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    CHECK(out == size * (size - 1) / 2 + size * round);
  }
  MPI_Request_free(&requests[1]);
  if (rank == 0) printf("all right\n");
#else
  if (rank == 0) printf("all right: this MPI has no such functions\n");
#endif
  MPI_Finalize();
  return 0;
}
