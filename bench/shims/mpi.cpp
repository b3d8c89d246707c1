// How long MPI collectives take: the same program with and without the shim, run in turns by mpi.py.
//
//   mpirun -n N shim_bench_mpi_LIBRARY OPERATION BYTES MICROSECONDS
//
// OPERATION: "bcast"; "ibcast" for the nonblocking one, waited for at once; "pbcast" for the persistent one, started
// and waited for.
// Each call is timed on every rank; a sample is a run of calls after a barrier, and takes as long as its slowest rank.
// From 16 KiB on a sample is one call, on data written just before.
// Prints the median in nanoseconds. BYTES: of the vector, or of the block that one rank has for another.
#include <mpi.h>
#ifdef OPEN_MPI
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

struct Buffers {
  std::vector<double> in, out;
  int count;
  MPI_Request request = MPI_REQUEST_NULL;
};

/// An operation in its three forms; the last two leave a request.
struct Forms {
  const char* name;
  void (*block)(Buffers&);
  void (*start)(Buffers&);
  void (*prepare)(Buffers&);
};

// One row of the table: name, blocking form, nonblocking form, and what all forms begin with. Found once, so that no
// search is part of what is timed.
#define FORM(call, ...)                                          \
  [](Buffers& with) {                                            \
    [[maybe_unused]] double* const in = with.in.data();          \
    [[maybe_unused]] double* const out = with.out.data();        \
    [[maybe_unused]] const int n = with.count;                   \
    [[maybe_unused]] MPI_Request* const request = &with.request; \
    const MPI_Comm world = MPI_COMM_WORLD;                       \
    call(__VA_ARGS__);                                           \
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
};

/// "bcast", "ibcast", "pbcast"; null if there is none of that name.
const Forms* find(const std::string& word) {
  for (const Forms& each : operations) {
    if (word == each.name || word == std::string("i") + each.name || word == std::string("p") + each.name) return &each;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const std::string word = argv[1];
  const Forms* const forms = find(word);
  if (forms == nullptr) MPI_Abort(MPI_COMM_WORLD, 2);
  const bool blocking = word == forms->name, persistent = !blocking && word[0] == 'p';
  const int count = std::max(1, std::atoi(argv[2]) / 8);
  const double budget = std::atof(argv[3]) * 1e-6;
  Buffers buffers{.in = std::vector<double>(static_cast<std::size_t>(count) * static_cast<std::size_t>(size), 1.0),
                  .out = {},
                  .count = count};
  buffers.out = buffers.in;
  if (persistent) forms->prepare(buffers);
  const auto call = [&] {
    if (blocking) return forms->block(buffers);
    if (persistent) {
      MPI_Start(&buffers.request);
    } else {
      forms->start(buffers);
    }
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
