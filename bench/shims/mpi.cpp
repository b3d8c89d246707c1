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
  MPI_Request persistent = MPI_REQUEST_NULL;
};

void call_blocking(const std::string& operation, Buffers& with, int count) {
  double* in = with.in.data();
  double* out = with.out.data();
  const MPI_Comm world = MPI_COMM_WORLD;
  if (operation == "barrier") MPI_Barrier(world);
  if (operation == "bcast") MPI_Bcast(in, count, MPI_DOUBLE, 0, world);
  if (operation == "reduce") MPI_Reduce(in, out, count, MPI_DOUBLE, MPI_SUM, 0, world);
  if (operation == "allreduce") MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, world);
  if (operation == "scan") MPI_Scan(in, out, count, MPI_DOUBLE, MPI_SUM, world);
  if (operation == "exscan") MPI_Exscan(in, out, count, MPI_DOUBLE, MPI_SUM, world);
  if (operation == "reduce_scatter_block") MPI_Reduce_scatter_block(in, out, count, MPI_DOUBLE, MPI_SUM, world);
  if (operation == "scatter") MPI_Scatter(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, world);
  if (operation == "gather") MPI_Gather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, world);
  if (operation == "allgather") MPI_Allgather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, world);
  if (operation == "alltoall") MPI_Alltoall(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, world);
}

/// The nonblocking ones, waited for at once.
void call_nonblocking(const std::string& operation, Buffers& with, int count) {
  double* in = with.in.data();
  double* out = with.out.data();
  const MPI_Comm world = MPI_COMM_WORLD;
  MPI_Request request = MPI_REQUEST_NULL;
  if (operation == "ibarrier") MPI_Ibarrier(world, &request);
  if (operation == "ibcast") MPI_Ibcast(in, count, MPI_DOUBLE, 0, world, &request);
  if (operation == "ireduce") MPI_Ireduce(in, out, count, MPI_DOUBLE, MPI_SUM, 0, world, &request);
  if (operation == "iallreduce") MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, world, &request);
  if (operation == "iscan") MPI_Iscan(in, out, count, MPI_DOUBLE, MPI_SUM, world, &request);
  if (operation == "iexscan") MPI_Iexscan(in, out, count, MPI_DOUBLE, MPI_SUM, world, &request);
  if (operation == "ireduce_scatter_block") {
    MPI_Ireduce_scatter_block(in, out, count, MPI_DOUBLE, MPI_SUM, world, &request);
  }
  if (operation == "iscatter") MPI_Iscatter(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, world, &request);
  if (operation == "igather") MPI_Igather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, world, &request);
  if (operation == "iallgather") MPI_Iallgather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, world, &request);
  if (operation == "ialltoall") MPI_Ialltoall(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, world, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// The persistent ones: the request that is started each time.
void prepare(const std::string& operation, Buffers& with, int count) {
  double* in = with.in.data();
  double* out = with.out.data();
  const MPI_Comm world = MPI_COMM_WORLD;
  const MPI_Info info = MPI_INFO_NULL;
  MPI_Request* request = &with.persistent;
  if (operation == "pbarrier") INIT(Barrier)(world, info, request);
  if (operation == "pbcast") INIT(Bcast)(in, count, MPI_DOUBLE, 0, world, info, request);
  if (operation == "preduce") INIT(Reduce)(in, out, count, MPI_DOUBLE, MPI_SUM, 0, world, info, request);
  if (operation == "pallreduce") INIT(Allreduce)(in, out, count, MPI_DOUBLE, MPI_SUM, world, info, request);
  if (operation == "pscan") INIT(Scan)(in, out, count, MPI_DOUBLE, MPI_SUM, world, info, request);
  if (operation == "pexscan") INIT(Exscan)(in, out, count, MPI_DOUBLE, MPI_SUM, world, info, request);
  if (operation == "preduce_scatter_block") {
    INIT(Reduce_scatter_block)(in, out, count, MPI_DOUBLE, MPI_SUM, world, info, request);
  }
  if (operation == "pscatter") {
    INIT(Scatter)(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, world, info, request);
  }
  if (operation == "pgather") INIT(Gather)(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, world, info, request);
  if (operation == "pallgather") INIT(Allgather)(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, world, info, request);
  if (operation == "palltoall") INIT(Alltoall)(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, world, info, request);
}

void call_persistent(const std::string&, Buffers& with, int) {
  MPI_Start(&with.persistent);
  MPI_Wait(&with.persistent, MPI_STATUS_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const std::string operation = argv[1];
  const auto call = operation[0] == 'i' ? &call_nonblocking : operation[0] == 'p' ? &call_persistent : &call_blocking;
  const int count = std::max(1, std::atoi(argv[2]) / 8);
  const double budget = std::atof(argv[3]) * 1e-6;
  Buffers buffers;
  buffers.in.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(size), 1.0);
  buffers.out = buffers.in;
  prepare(operation, buffers, count);
  // The shim begins by itself in between; nonblocking collectives alone do not let it.
  for (int i = 0; i < 80; ++i) {
    call(operation, buffers, count);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  // A sample is a run of calls, as long as a clock's reading does not show.
  double once = now();
  for (int i = 0; i < 8; ++i) call(operation, buffers, count);
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
    for (int i = 0; i < calls; ++i) call(operation, buffers, count);
    sample = (now() - start) / calls;
  }
  std::vector<double> slowest(taken.size());
  MPI_Reduce(taken.data(), slowest.data(), samples, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    std::nth_element(slowest.begin(), slowest.begin() + samples / 2, slowest.end());
    std::printf("%.1f\n", slowest[static_cast<std::size_t>(samples / 2)] * 1e9);
  }
  if (buffers.persistent != MPI_REQUEST_NULL) MPI_Request_free(&buffers.persistent);
  MPI_Finalize();
}
