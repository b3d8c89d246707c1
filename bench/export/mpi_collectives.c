/* Times MPI collectives: one line per operation and size, "operation bytes median_ns". A call's time is the maximum
 * over the ranks, each of which starts it after a barrier; buffers are written before every call and results checked.
 *
 *   mpi_collectives CALLS BYTES...        bytes of the vector, or of each rank's block
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { operations = 5 };
static const char* const names[operations] = {"bcast", "allreduce", "reduce", "allgather", "alltoall"};

struct buffers {
  double* in;
  double* out;
  int rank, ranks;
};

static void call(int operation, const struct buffers* b, int count) {
  switch (operation) {
    case 0: MPI_Bcast(b->out, count, MPI_DOUBLE, 0, MPI_COMM_WORLD); break;
    case 1: MPI_Allreduce(b->in, b->out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
    case 2: MPI_Reduce(b->in, b->out, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); break;
    case 3: MPI_Allgather(b->in, count, MPI_DOUBLE, b->out, count, MPI_DOUBLE, MPI_COMM_WORLD); break;
    default: MPI_Alltoall(b->in, count, MPI_DOUBLE, b->out, count, MPI_DOUBLE, MPI_COMM_WORLD); break;
  }
}

/* Small whole numbers: sums are exact in any order. */
static double value(int rank, long index, int call) { return (double)((rank * 7 + index * 3 + call) % 11); }

static void fill(int operation, const struct buffers* b, long count, int number) {
  double* const target = operation == 0 ? b->out : b->in;
  const long length = operation == 4 ? count * b->ranks : count;
  const int rank = operation == 0 && b->rank != 0 ? -1 : b->rank;
  for (long i = 0; i < length; ++i) target[i] = rank < 0 ? -1.0 : value(rank, i, number);
}

static double expected(int operation, const struct buffers* b, long count, long i, int number) {
  double sum = 0.0;
  switch (operation) {
    case 0: return value(0, i, number);
    case 1:
    case 2:
      for (int rank = 0; rank < b->ranks; ++rank) sum += value(rank, i, number);
      return sum;
    case 3: return value((int)(i / count), i % count, number);
    default: return value((int)(i / count), b->rank * count + i % count, number);
  }
}

static void check(int operation, const struct buffers* b, long count, int number) {
  const long length = operation >= 3 ? count * b->ranks : count;
  if (operation == 2 && b->rank != 0) return;
  for (long i = 0; i < length; i += i + 1 < length ? (length - i - 1 < 97 ? length - i - 1 : 97) : 1) {
    if (b->out[i] == expected(operation, b, count, i, number)) continue;
    fprintf(stderr, "%s of %ld elements: element %ld is wrong on rank %d\n", names[operation], count, i, b->rank);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void time_operation(int operation, const struct buffers* b, long bytes, int calls) {
  const long count = bytes / (long)sizeof(double);
  const int warm_up = calls / 10 + 1;
  double* const times = malloc(sizeof(double) * (size_t)calls);
  for (int number = -warm_up; number < calls; ++number) {
    fill(operation, b, count, number + warm_up);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    call(operation, b, (int)count);
    double mine = MPI_Wtime() - start, slowest = 0.0;
    PMPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (number >= 0) times[number] = slowest;
    if (number < 0 || number == calls - 1) check(operation, b, count, number + warm_up);
  }
  if (b->rank == 0) {
    qsort(times, (size_t)calls, sizeof(double), by_value);
    printf("%s %ld %.0f\n", names[operation], bytes, times[calls / 2] * 1e9);
  }
  free(times);
}

int main(int argc, char** argv) {
  struct buffers b;
  long largest = 8;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
  const int calls = argc > 1 ? atoi(argv[1]) : 100;
  for (int i = 2; i < argc; ++i) largest = atol(argv[i]) > largest ? atol(argv[i]) : largest;
  b.in = malloc((size_t)largest * (size_t)b.ranks);
  b.out = malloc((size_t)largest * (size_t)b.ranks);
  memset(b.in, 0, (size_t)largest * (size_t)b.ranks);
  memset(b.out, 0, (size_t)largest * (size_t)b.ranks);
  for (int i = 2; i < argc; ++i) {
    const long bytes = atol(argv[i]);
    const long affordable = 64000000 / (bytes * b.ranks) + 9;
    for (int operation = 0; operation < operations; ++operation) {
      time_operation(operation, &b, bytes, affordable < calls ? (int)affordable : calls);
    }
  }
  free(b.in);
  free(b.out);
  MPI_Finalize();
  return 0;
}
