/* Every collective, some rounds of each: prints the number of ranks, the library's version, and for each rank and
   collective the sum of what the rank got. The same with smelt and without, whatever the library. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { rounds = 30, count = 5, most = 8 };

static int rank, size;
static double in[most * count], out[most * count];
static int counts[most], offsets[most], byte_offsets[most];
static MPI_Datatype types[most];

static void fill(int round) {
  for (int i = 0; i < most * count; ++i) in[i] = 1000 * rank + 10 * round + i, out[i] = -1;
}

static double sum(void) {
  double all = 0;
  for (int i = 0; i < most * count; ++i) all += out[i] * (i + 1);
  return all;
}

#define EACH(X)                                                                                         \
  X(Barrier, (comm))                                                                                    \
  X(Bcast, (rank == root ? in : out, count, MPI_DOUBLE, root, comm))                                    \
  X(Reduce, (in, out, count, MPI_DOUBLE, MPI_SUM, root, comm))                                          \
  X(Allreduce, (in, out, count, MPI_DOUBLE, MPI_SUM, comm))                                             \
  X(Scan, (in, out, count, MPI_DOUBLE, MPI_SUM, comm))                                                  \
  X(Exscan, (in, out, count, MPI_DOUBLE, MPI_SUM, comm))                                                \
  X(Reduce_scatter_block, (in, out, count, MPI_DOUBLE, MPI_MAX, comm))                                  \
  X(Reduce_scatter, (in, out, counts, MPI_DOUBLE, MPI_SUM, comm))                                       \
  X(Scatter, (in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, root, comm))                               \
  X(Gather, (in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, root, comm))                                \
  X(Allgather, (in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, comm))                                   \
  X(Alltoall, (in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, comm))                                    \
  X(Scatterv, (in, counts, offsets, MPI_DOUBLE, out, counts[rank], MPI_DOUBLE, root, comm))             \
  X(Gatherv, (in, counts[rank], MPI_DOUBLE, out, counts, offsets, MPI_DOUBLE, root, comm))              \
  X(Allgatherv, (in, counts[rank], MPI_DOUBLE, out, counts, offsets, MPI_DOUBLE, comm))                 \
  X(Alltoallv, (in, counts_of_all, offsets, MPI_DOUBLE, out, counts_of_all, offsets, MPI_DOUBLE, comm)) \
  X(Alltoallw, (in, counts_of_all, byte_offsets, types, out, counts_of_all, byte_offsets, types, comm))

/* A nonblocking collective has one argument more; the macro cuts the parenthesis open. */
#define OPEN_BRACKET(...) __VA_ARGS__,
#define RUN(name, arguments)                                                                     \
  {                                                                                              \
    double blocking = 0, nonblocking = 0;                                                        \
    for (int round = 0; round < rounds; ++round) {                                               \
      MPI_Request request;                                                                       \
      const int root = round % size;                                                             \
      fill(round);                                                                               \
      if (MPI_##name arguments != MPI_SUCCESS) MPI_Abort(comm, 1);                               \
      blocking += sum();                                                                         \
      fill(round + rounds);                                                                      \
      if (MPI_I##name##_AS(OPEN_BRACKET arguments & request) != MPI_SUCCESS) MPI_Abort(comm, 1); \
      MPI_Wait(&request, MPI_STATUS_IGNORE);                                                     \
      nonblocking += sum();                                                                      \
      (void)root;                                                                                \
    }                                                                                            \
    printf("%d " #name " %.17g %.17g\n", rank, blocking, nonblocking);                           \
  }
#define MPI_IBarrier_AS(...) MPI_Ibarrier(__VA_ARGS__)
#define MPI_IBcast_AS(...) MPI_Ibcast(__VA_ARGS__)
#define MPI_IReduce_AS(...) MPI_Ireduce(__VA_ARGS__)
#define MPI_IAllreduce_AS(...) MPI_Iallreduce(__VA_ARGS__)
#define MPI_IScan_AS(...) MPI_Iscan(__VA_ARGS__)
#define MPI_IExscan_AS(...) MPI_Iexscan(__VA_ARGS__)
#define MPI_IReduce_scatter_block_AS(...) MPI_Ireduce_scatter_block(__VA_ARGS__)
#define MPI_IReduce_scatter_AS(...) MPI_Ireduce_scatter(__VA_ARGS__)
#define MPI_IScatter_AS(...) MPI_Iscatter(__VA_ARGS__)
#define MPI_IGather_AS(...) MPI_Igather(__VA_ARGS__)
#define MPI_IAllgather_AS(...) MPI_Iallgather(__VA_ARGS__)
#define MPI_IAlltoall_AS(...) MPI_Ialltoall(__VA_ARGS__)
#define MPI_IScatterv_AS(...) MPI_Iscatterv(__VA_ARGS__)
#define MPI_IGatherv_AS(...) MPI_Igatherv(__VA_ARGS__)
#define MPI_IAllgatherv_AS(...) MPI_Iallgatherv(__VA_ARGS__)
#define MPI_IAlltoallv_AS(...) MPI_Ialltoallv(__VA_ARGS__)
#define MPI_IAlltoallw_AS(...) MPI_Ialltoallw(__VA_ARGS__)

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const MPI_Comm comm = MPI_COMM_WORLD;
  int counts_of_all[most];
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (size > most) MPI_Abort(comm, 1);
  for (int i = 0; i < most; ++i) {
    counts[i] = 1 + i % count;
    counts_of_all[i] = 2;
    offsets[i] = i * count;
    byte_offsets[i] = (int)sizeof(double) * i * count;
    types[i] = MPI_DOUBLE;
  }
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, "\n")] = '\0';
  printf("%d size %d version %s\n", rank, size, version);
  EACH(RUN)
  MPI_Finalize();
  return 0;
}
