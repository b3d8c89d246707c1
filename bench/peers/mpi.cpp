// Peers: Open MPI and MPICH. Ranks are processes; the collectives are the library's own. The
// stamps travel through memory that rank 0 shares.
#include <mpi.h>
#include <unistd.h>

#include <vector>

#include "peers/peer.hpp"

namespace {

using smelt::bench::Control;
using smelt::bench::Introduction;
using smelt::bench::Member;
using smelt::bench::WorkerSpec;

struct MpiOps {
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  void broadcast(void* data, std::size_t bytes) {
    MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  void reduce(const double* in, double* out, std::size_t count) {
    MPI_Reduce(in, out, static_cast<int>(count), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  }
  void allreduce(const double* in, double* out, std::size_t count) {
    MPI_Allreduce(in, out, static_cast<int>(count), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  void scatter(const void* in, void* out, std::size_t block) {
    const int bytes = static_cast<int>(block);
    MPI_Scatter(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  void gather(const void* in, void* out, std::size_t block) {
    const int bytes = static_cast<int>(block);
    MPI_Gather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  void allgather(const void* in, void* out, std::size_t block) {
    const int bytes = static_cast<int>(block);
    MPI_Allgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
  }
  void alltoall(const void* in, void* out, std::size_t block) {
    const int bytes = static_cast<int>(block);
    MPI_Alltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
  }
  void reduce_scatter(const double* in, double* out, std::size_t count) {
    MPI_Reduce_scatter_block(in, out, static_cast<int>(count), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  void scan(const double* in, double* out, std::size_t count) {
    MPI_Scan(in, out, static_cast<int>(count), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  void exscan(const double* in, double* out, std::size_t count) {
    MPI_Exscan(in, out, static_cast<int>(count), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  bool two_phase_commit(void* proposal, std::size_t bytes, bool vote) {
    broadcast(proposal, bytes);
    int mine = vote;
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all != 0;
  }
};

/// Rank 0's shared memory, opened by the others under the path that rank 0 sends them.
smelt::Result<Control> share_control(int rank, int ranks) {
  auto control = rank == 0 ? Control::create_shared(ranks) : Control::create(1);
  char path[128] = {};
  if (rank == 0 && control) control->path().copy(path, sizeof path - 1);
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank == 0) return control;
  return Control::open(path, ranks);
}

int serve(const WorkerSpec& spec) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != spec.threads) return rank == 0 ? smelt::bench::fail_worker("the launcher started another team") : 1;
  auto control = share_control(rank, ranks);
  if (!control) return smelt::bench::fail_worker(control.error().message);

  Introduction introduction;
  introduction.pids.resize(static_cast<std::size_t>(ranks));
  int pid = getpid();
  MPI_Gather(&pid, 1, MPI_INT, introduction.pids.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  MpiOps ops;
  return serve_collectives(Member{spec, *control, rank}, ops, introduction) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  smelt::bench::prepare_worker_process();
  MPI_Init(&argc, &argv);
  const int status = smelt::bench::run_peer(argc, argv, serve);
  MPI_Finalize();
  return status;
}
