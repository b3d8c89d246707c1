/* Times MPI collectives as Intel's MPI Benchmarks do, for any library that has mpicc; mpi_suite.py runs it with and
 * without smelt.
 *
 *   mpirun -n N mpi_suite [-n N] [-r BYTES] [-c CALLS] [-t MILLISECONDS] [-f] OPERATION BYTES...
 *
 * Method: calls back to back, each on other buffers than the one before: slots of a region of -r bytes (64 MiB; 0: the
 * same buffers always), each a multiple of a cache line further. The root moves on by one rank with each call (-f: it
 * is rank 0). A cell's time is the mean over its calls on the rank that took longest. As many calls as -t milliseconds
 * hold (60), but 1000 at least, or 40 MB in all where that is less (10 at least), and -c at most (10000). Before that a
 * quarter of the time is spent on calls that do not count, and results are checked once before and once after.
 * Reductions add floats, whose number is BYTES / 4; everything else moves bytes: of the vector, or for gather,
 * scatter, allgather and alltoall of the block of one rank.
 *
 * With -n it refuses to run with another number of ranks: each may be alone where the library is not the launcher's.
 * Prints a line per cell: operation, bytes, calls, microseconds, and the floor before and after: nanoseconds of one way
 * of a cache line between ranks 0 and 1, and of a piece of arithmetic on the slower of the two, 0 where it is not
 * known.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { line_bytes = 64, guard_lines = 2, most_ranks = 1024 };

static int rank, ranks;

static void fail(const char* what) {
  fprintf(stderr, "mpi_suite: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

/* ---- the floor ------------------------------------------------------------------------------------------------- */

enum { lines = 64, ways = 128, batches = 48, multiplications = 4096 };

struct lone_line {
  _Alignas(128) _Atomic uint64_t number;
};

struct shared {
  struct lone_line line[lines];
  _Alignas(128) double work_ns[2];
};

struct floor {
  double line_ns, work_ns;
};

static struct shared* meeting; /* null: the floor is not looked at */
static uint64_t probes;

/* Memory of ranks 0 and 1 without a name, as soon as both have it. */
static void open_meeting(void) {
  char name[64] = "";
  cpu_set_t allowed;
  const int pus = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  int mine = ranks >= 2 && (ranks <= pus || pus == 1), all = 0;
  if (rank == 0) snprintf(name, sizeof name, "/mpi_suite_%ld", (long)getpid());
  PMPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  int file = -1;
  if (rank == 0) file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
  if (rank == 0 && (file < 0 || ftruncate(file, sizeof *meeting) != 0)) mine = 0;
  PMPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) file = shm_open(name, O_RDWR, 0600);
  void* memory = MAP_FAILED;
  if (file >= 0) memory = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (rank <= 1 && memory == MAP_FAILED) mine = 0;
  PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0) shm_unlink(name);
  if (file >= 0) close(file);
  if (all && rank <= 1) meeting = memory;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  return values[count / 2];
}

/* A number goes back and forth on each line in turn. */
static double ping_pong(void) {
  double taken[batches];
  for (int batch = 0; batch < batches; ++batch) {
    _Atomic uint64_t* const number = &meeting->line[batch % lines].number;
    const uint64_t from = probes * ways;
    const double start = PMPI_Wtime();
    for (uint64_t way = from; way < from + ways; ++way) {
      if (way % 2 == (uint64_t)rank) {
        atomic_store_explicit(number, way + 1, memory_order_release);
        continue;
      }
      for (unsigned polls = 1; atomic_load_explicit(number, memory_order_acquire) != way + 1; ++polls) {
        if (polls % 65536 == 0) sched_yield();
      }
    }
    taken[batch] = (PMPI_Wtime() - start) * 1e9 / ways;
  }
  ++probes;
  return median(taken, batches);
}

static double arithmetic(void) {
  static uint64_t a = 1, b = 2, c = 3, d = 4; /* looked at by the caller of the next time */
  double taken[4 * batches];
  for (int batch = 0; batch < 4 * batches; ++batch) {
    const double start = PMPI_Wtime();
    for (int i = 0; i < 10 * multiplications / 4; ++i) {
      a = a * 6364136223846793005u + 1;
      b = b * 6364136223846793005u + 3;
      c = c * 6364136223846793005u + 5;
      d = d * 6364136223846793005u + 7;
    }
    taken[batch] = (PMPI_Wtime() - start) * 1e8;
  }
  return median(taken, 4 * batches) + (double)((a ^ b ^ c ^ d) == 1);
}

/* All ranks call it; the others wait meanwhile. */
static struct floor look_at_floor(void) {
  struct floor floor = {0, 0};
  PMPI_Barrier(MPI_COMM_WORLD);
  if (meeting != NULL) {
    floor.line_ns = ping_pong();
    meeting->work_ns[rank] = arithmetic();
  }
  PMPI_Barrier(MPI_COMM_WORLD);
  if (meeting != NULL && rank == 0) {
    floor.work_ns = meeting->work_ns[0] > meeting->work_ns[1] ? meeting->work_ns[0] : meeting->work_ns[1];
  }
  return floor;
}

/* ---- operations ------------------------------------------------------------------------------------------------ */

struct call {
  char *in, *out;
  int bytes, root;
  const int* counts; /* of floats, by rank: of reduce_scatter */
};

static void barrier(const struct call* with) {
  (void)with;
  MPI_Barrier(MPI_COMM_WORLD);
}
static void bcast(const struct call* with) {
  MPI_Bcast(rank == with->root ? with->in : with->out, with->bytes, MPI_BYTE, with->root, MPI_COMM_WORLD);
}
static void reduce(const struct call* with) {
  MPI_Reduce(with->in, with->out, with->bytes / 4, MPI_FLOAT, MPI_SUM, with->root, MPI_COMM_WORLD);
}
static void allreduce(const struct call* with) {
  MPI_Allreduce(with->in, with->out, with->bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void reduce_scatter(const struct call* with) {
  MPI_Reduce_scatter(with->in, with->out, with->counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void allgather(const struct call* with) {
  MPI_Allgather(with->in, with->bytes, MPI_BYTE, with->out, with->bytes, MPI_BYTE, MPI_COMM_WORLD);
}
static void gather(const struct call* with) {
  MPI_Gather(with->in, with->bytes, MPI_BYTE, with->out, with->bytes, MPI_BYTE, with->root, MPI_COMM_WORLD);
}
static void scatter(const struct call* with) {
  MPI_Scatter(with->in, with->bytes, MPI_BYTE, with->out, with->bytes, MPI_BYTE, with->root, MPI_COMM_WORLD);
}
static void alltoall(const struct call* with) {
  MPI_Alltoall(with->in, with->bytes, MPI_BYTE, with->out, with->bytes, MPI_BYTE, MPI_COMM_WORLD);
}

struct operation {
  const char* name;
  void (*run)(const struct call*);
  int blocks_in, blocks_out; /* whether a buffer has a block for each rank */
  int sums;
};

static const struct operation operations[] = {
    {"barrier", barrier, 0, 0, 0},
    {"bcast", bcast, 0, 0, 0},
    {"reduce", reduce, 0, 0, 1},
    {"allreduce", allreduce, 0, 0, 1},
    {"reduce_scatter", reduce_scatter, 0, 0, 1},
    {"allgather", allgather, 0, 1, 0},
    {"gather", gather, 0, 1, 0},
    {"scatter", scatter, 1, 0, 0},
    {"alltoall", alltoall, 1, 1, 0},
};

/* Slots that calls go through in turn. */
struct slots {
  char* memory;
  size_t stride, count;
};

static struct slots make_slots(size_t bytes, size_t region) {
  struct slots slots;
  slots.stride = ((bytes + line_bytes - 1) / line_bytes + guard_lines) * line_bytes;
  slots.count = region / slots.stride;
  if (slots.count < 2) slots.count = region == 0 ? 1 : 2;
  if (posix_memalign((void**)&slots.memory, 4096, slots.stride * slots.count) != 0) fail("not enough memory");
  memset(slots.memory, 0, slots.stride * slots.count);
  return slots;
}

static char* slot(const struct slots* slots, long number) {
  return slots->memory + (size_t)number % slots->count * slots->stride;
}

/* ---- checking -------------------------------------------------------------------------------------------------- */

/* Of block `block` that `from` gives. */
static unsigned char byte_of(int from, int block, long i) {
  return (unsigned char)(from * 31 + block * 7 + i % 13 + 1);
}
static float number_of(int from, long i) { return (float)(from + 1 + i % 17); }

static void fill(const struct operation* operation, char* in, int bytes) {
  if (operation->sums) {
    for (long i = 0; i < bytes / 4; ++i) ((float*)in)[i] = number_of(rank, i);
    return;
  }
  for (int block = 0; block < (operation->blocks_in ? ranks : 1); ++block) {
    for (long i = 0; i < bytes; ++i) in[(long)block * bytes + i] = (char)byte_of(rank, block, i);
  }
}

static int sums_right(const float* out, long first, long count) {
  for (long i = 0; i < count; ++i) {
    float sum = 0;
    for (int from = 0; from < ranks; ++from) sum += number_of(from, first + i);
    if (out[i] != sum) return 0;
  }
  return 1;
}

static int bytes_right(const char* out, int from, int block, int bytes) {
  for (long i = 0; i < bytes; ++i) {
    if ((unsigned char)out[i] != byte_of(from, block, i)) return 0;
  }
  return 1;
}

static int is_right(const struct operation* operation, const struct call* with) {
  const int root = with->root == rank;
  int right = 1;
  if (operation->run == bcast) return bytes_right(root ? with->in : with->out, with->root, 0, with->bytes);
  if (operation->run == reduce) return !root || sums_right((float*)with->out, 0, with->bytes / 4);
  if (operation->run == allreduce) return sums_right((float*)with->out, 0, with->bytes / 4);
  if (operation->run == reduce_scatter) {
    long first = 0;
    for (int before = 0; before < rank; ++before) first += with->counts[before];
    return sums_right((float*)with->out, first, with->counts[rank]);
  }
  if (operation->run == scatter) return bytes_right(with->out, with->root, rank, with->bytes);
  if (operation->run == gather && !root) return 1;
  for (int from = 0; operation->blocks_out && from < ranks; ++from) {
    const int block = operation->blocks_in ? rank : 0;
    right &= bytes_right(with->out + (long)from * with->bytes, from, block, with->bytes);
  }
  return right;
}

static void check(const struct operation* operation, struct call with) {
  fill(operation, with.in, with.bytes);
  operation->run(&with);
  if (!is_right(operation, &with)) fail("wrong result");
}

/* ---- timing ---------------------------------------------------------------------------------------------------- */

struct cell {
  const struct operation* operation;
  struct slots in, out;
  struct call call;
  int fixed_root;
  long number; /* of calls so far */
};

static void call_next(struct cell* cell) {
  cell->call.in = slot(&cell->in, cell->number);
  cell->call.out = slot(&cell->out, cell->number);
  cell->call.root = cell->fixed_root ? 0 : (int)(cell->number % ranks);
  ++cell->number;
  cell->operation->run(&cell->call);
}

/* Seconds of one call on the rank that takes longest, the least of several runs of calls, after calls for so long. */
static double warm_up(struct cell* cell, double seconds) {
  double least = 0, spent = 0;
  for (long calls = 8; spent < seconds; calls *= 2) {
    PMPI_Barrier(MPI_COMM_WORLD);
    const double start = PMPI_Wtime();
    for (long i = 0; i < calls; ++i) {
      call_next(cell);
      if (i % 4 == 0) MPI_Barrier(MPI_COMM_WORLD);
    }
    const double mine = PMPI_Wtime() - start;
    double longest = 0;
    PMPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (least == 0 || longest / (double)calls < least) least = longest / (double)calls;
    spent += longest;
  }
  return least;
}

/* As many as the time holds, but what Intel's suite takes at least: 1000, or 40 MB in all; 10 of the largest. */
static long calls_for(const struct cell* cell, double once, double seconds, long most) {
  const long fitting = (long)(seconds / once), volume = 40000000 / (cell->call.bytes + 1);
  const long fewest = volume > 1000 ? 1000 : volume < 10 ? 10 : volume;
  const long calls = fitting > fewest ? fitting : fewest;
  return calls < most ? calls : most;
}

static void time_cell(struct cell* cell, double seconds, long most_calls) {
  check(cell->operation, (struct call){cell->in.memory, cell->out.memory, cell->call.bytes, 0, cell->call.counts});
  const double once = warm_up(cell, seconds / 4);
  const long calls = calls_for(cell, once, seconds, most_calls);
  const struct floor before = look_at_floor();
  PMPI_Barrier(MPI_COMM_WORLD);
  PMPI_Barrier(MPI_COMM_WORLD);
  const double start = PMPI_Wtime();
  for (long i = 0; i < calls; ++i) call_next(cell);
  double mean = (PMPI_Wtime() - start) / (double)calls, longest = 0;
  PMPI_Reduce(&mean, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  const struct floor after = look_at_floor();
  check(cell->operation,
        (struct call){cell->in.memory, cell->out.memory, cell->call.bytes, ranks - 1, cell->call.counts});
  if (rank != 0) return;
  printf("%s %d %ld %.4f %.2f %.2f %.2f %.2f\n", cell->operation->name, cell->call.bytes, calls, longest * 1e6,
         before.line_ns, before.work_ns, after.line_ns, after.work_ns);
  fflush(stdout);
}

static void time_size(const struct operation* operation, int bytes, size_t region, int fixed_root, double seconds,
                      long most_calls) {
  static int counts[most_ranks];
  for (int each = 0; each < ranks; ++each) counts[each] = bytes / 4 / ranks + (each < bytes / 4 % ranks);
  const size_t in = (size_t)bytes * (size_t)(operation->blocks_in ? ranks : 1);
  const size_t out = (size_t)bytes * (size_t)(operation->blocks_out ? ranks : 1);
  struct cell cell = {
      operation, make_slots(in, region), make_slots(out, region), {NULL, NULL, bytes, 0, counts}, fixed_root, 0};
  time_cell(&cell, seconds, most_calls);
  free(cell.in.memory);
  free(cell.out.memory);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  size_t region = (size_t)64 << 20;
  long most_calls = 10000;
  double seconds = 0.06;
  int fixed_root = 0;
  for (int option; (option = getopt(argc, argv, "+n:r:c:t:f")) != -1;) {
    if (option == 'n' && atoi(optarg) != ranks) fail("another number of ranks than was started");
    if (option == 'r') region = (size_t)atol(optarg);
    if (option == 'c') most_calls = atol(optarg);
    if (option == 't') seconds = atof(optarg) / 1000;
    if (option == 'f') fixed_root = 1;
    if (option == '?') fail("usage: mpi_suite [-n N] [-r BYTES] [-c CALLS] [-t MILLISECONDS] [-f] OPERATION BYTES...");
  }
  if (argc - optind < 2 || ranks > most_ranks)
    fail("usage: mpi_suite [OPTIONS] OPERATION BYTES..., 1024 ranks at most");
  const struct operation* operation = NULL;
  for (size_t i = 0; i < sizeof operations / sizeof *operations; ++i) {
    if (strcmp(operations[i].name, argv[optind]) == 0) operation = &operations[i];
  }
  if (operation == NULL) fail("no such operation");
  open_meeting();
  for (int i = optind + 1; i < argc; ++i) {
    const long bytes = atol(argv[i]);
    if (bytes < 0 || bytes > (1 << 30) || (operation->sums && bytes % 4 != 0)) fail("no such size");
    time_size(operation, (int)bytes, region, fixed_root, seconds, most_calls);
  }
  MPI_Finalize();
  return 0;
}
