// How long MPI collectives take: the same program with and without the shim, run in turns by mpi.py.
//
//   mpirun -n N shim_bench_mpi_LIBRARY OPERATION BYTES MICROSECONDS
//
// OPERATION: "bcast"; "ibcast" for the nonblocking one, waited for at once; "ibcast+work" for the same with computation
// between start and wait, for about as long as the data would take to be copied; "pbcast" for the persistent one,
// started and waited for. Blocks of different sizes are of BYTES or 8 bytes more.
// Each call is timed on every rank; a sample is a run of calls after a barrier, and takes as long as its slowest rank.
// From 16 KiB on a sample is one call, on data written just before.
// Prints the median in nanoseconds. BYTES: of the vector, or of the block that one rank has for another.
#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define INIT(name) MPIX_##name##_init
#else
#define INIT(name) MPI_##name##_init
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// One block per rank, one after the other: of all ranks alike (those that one rank gives to all others or gets from
/// them), or as this rank exchanges them with each.
struct Blocks {
  std::vector<int> counts, offsets, bytes;
  std::vector<MPI_Datatype> types;
};

struct Buffers {
  std::vector<double> in, out;
  int count;
  int own;  ///< elements of this rank's block among those of different sizes
  Blocks all, mine;
  MPI_Request request = MPI_REQUEST_NULL;
};

/// Blocks of `count` elements or one more, by turns; the first is larger if `larger`.
Blocks blocks_of(int count, int ranks, int larger) {
  Blocks blocks;
  for (int rank = 0, offset = 0; rank < ranks; offset += blocks.counts[static_cast<std::size_t>(rank++)]) {
    blocks.counts.push_back(count + (rank + larger) % 2);
    blocks.offsets.push_back(offset);
    blocks.bytes.push_back(offset * 8);
    blocks.types.push_back(MPI_DOUBLE);
  }
  return blocks;
}

/// An operation in its three forms; the last two leave a request.
struct Forms {
  const char* name;
  void (*block)(Buffers&);
  void (*start)(Buffers&);
  void (*prepare)(Buffers&);
};

// One row of the table: name, blocking form, nonblocking form, and the arguments that all forms begin with. Looked up
// once, so that the search is not timed.
#define FORM(call, ...)                                                  \
  [](Buffers& with) {                                                    \
    [[maybe_unused]] double* const in = with.in.data();                  \
    [[maybe_unused]] double* const out = with.out.data();                \
    [[maybe_unused]] const int n = with.count, own = with.own;           \
    [[maybe_unused]] const int* const counts = with.all.counts.data();   \
    [[maybe_unused]] const int* const offsets = with.all.offsets.data(); \
    [[maybe_unused]] const Blocks& mine = with.mine;                     \
    [[maybe_unused]] MPI_Request* const request = &with.request;         \
    const MPI_Comm world = MPI_COMM_WORLD;                               \
    call(__VA_ARGS__);                                                   \
  }
#define ROW(text, name, iname, ...)                                               \
  {                                                                               \
    text, FORM(MPI_##name, __VA_ARGS__), FORM(MPI_##iname, __VA_ARGS__, request), \
        FORM(INIT(name), __VA_ARGS__, MPI_INFO_NULL, request)                     \
  }

const Forms operations[] = {
    ROW("barrier", Barrier, Ibarrier, world),
    ROW("bcast", Bcast, Ibcast, in, n, MPI_DOUBLE, 0, world),
    ROW("reduce", Reduce, Ireduce, in, out, n, MPI_DOUBLE, MPI_SUM, 0, world),
    ROW("allreduce", Allreduce, Iallreduce, in, out, n, MPI_DOUBLE, MPI_SUM, world),
    ROW("scan", Scan, Iscan, in, out, n, MPI_DOUBLE, MPI_SUM, world),
    ROW("exscan", Exscan, Iexscan, in, out, n, MPI_DOUBLE, MPI_SUM, world),
    ROW("reduce_scatter_block", Reduce_scatter_block, Ireduce_scatter_block, in, out, n, MPI_DOUBLE, MPI_SUM, world),
    ROW("scatter", Scatter, Iscatter, in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, world),
    ROW("gather", Gather, Igather, in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, world),
    ROW("allgather", Allgather, Iallgather, in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, world),
    ROW("alltoall", Alltoall, Ialltoall, in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, world),
    ROW("reduce_scatter", Reduce_scatter, Ireduce_scatter, in, out, counts, MPI_DOUBLE, MPI_SUM, world),
    ROW("scatterv", Scatterv, Iscatterv, in, counts, offsets, MPI_DOUBLE, out, own, MPI_DOUBLE, 0, world),
    ROW("gatherv", Gatherv, Igatherv, in, own, MPI_DOUBLE, out, counts, offsets, MPI_DOUBLE, 0, world),
    ROW("allgatherv", Allgatherv, Iallgatherv, in, own, MPI_DOUBLE, out, counts, offsets, MPI_DOUBLE, world),
    ROW("alltoallv", Alltoallv, Ialltoallv, in, mine.counts.data(), mine.offsets.data(), MPI_DOUBLE, out,
        mine.counts.data(), mine.offsets.data(), MPI_DOUBLE, world),
    ROW("alltoallw", Alltoallw, Ialltoallw, in, mine.counts.data(), mine.bytes.data(), mine.types.data(), out,
        mine.counts.data(), mine.bytes.data(), mine.types.data(), world),
};

/// "bcast", "ibcast", "pbcast"; null if there is none of that name.
const Forms* find(const std::string& word) {
  for (const Forms& each : operations) {
    if (word == each.name || word == std::string("i") + each.name || word == std::string("p") + each.name) return &each;
  }
  return nullptr;
}

/// Computes for so long.
void work(double seconds) {
  for (const double end = now() + seconds; now() < end;) {}
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const std::string argument = argv[1], word = argument.substr(0, argument.find('+'));
  const bool works = word != argument;
  const Forms* const forms = find(word);
  if (forms == nullptr) MPI_Abort(MPI_COMM_WORLD, 2);
  const bool blocking = word == forms->name, persistent = !blocking && word[0] == 'p';
  const int count = std::max(1, std::atoi(argv[2]) / 8);
  const double budget = std::atof(argv[3]) * 1e-6;
  const double work_s = works ? 1e-6 + 8.0 * count / 4e9 : 0.0;
  Buffers buffers{.in = std::vector<double>(static_cast<std::size_t>(count + 1) * static_cast<std::size_t>(size), 1.0),
                  .out = {},
                  .count = count,
                  .own = count + rank % 2,
                  .all = blocks_of(count, size, 0),
                  .mine = blocks_of(count, size, rank)};
  buffers.out = buffers.in;
  if (persistent) forms->prepare(buffers);
  const auto call = [&] {
    if (blocking) return forms->block(buffers);
    if (persistent) {
      MPI_Start(&buffers.request);
    } else {
      forms->start(buffers);
    }
    if (works) work(work_s);
    MPI_Wait(&buffers.request, MPI_STATUS_IGNORE);
  };
  // The shim begins by itself in between; nonblocking collectives alone do not let it.
  for (int i = 0; i < 80; ++i) {
    call();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  // A sample is a run of calls, as long as a clock's reading does not show.
  double once = now();
  for (int i = 0; i < 8; ++i) call();
  once = (now() - once) / 8;
  const bool fresh = count >= 2048;
  int calls = fresh ? 1 : std::clamp(static_cast<int>(50e-6 / once), 1, 200);
  int samples = std::clamp(static_cast<int>(budget / (once * calls)), 5, 2000);
  MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(&samples, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<double> taken(static_cast<std::size_t>(samples));
  for (auto& sample : taken) {
    for (auto& number : buffers.in) {
      number += 1.0;
      if (!fresh) break;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = now();
    for (int i = 0; i < calls; ++i) call();
    sample = (now() - start) / calls;
  }
  std::vector<double> slowest(taken.size());
  MPI_Reduce(taken.data(), slowest.data(), samples, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    std::nth_element(slowest.begin(), slowest.begin() + samples / 2, slowest.end());
    std::printf("%.1f\n", slowest[static_cast<std::size_t>(samples / 2)] * 1e9);
  }
  if (persistent) MPI_Request_free(&buffers.request);
  MPI_Finalize();
}
