// Nonblocking collectives on communicators that no blocking one has settled: their ranks agree on smelt without
// waiting for each other, at the same call.
//
//   mpirun -n N unsettled only                sums by nonblocking collectives alone, until smelt has taken over
//   mpirun -n N unsettled alone FILE          the other ranks start when the first one has started all of its own
//   mpirun -n N unsettled mixed SEED NUMBER   communicators with calls of all kinds, freed at any stage of the
//   agreement
//   mpirun -n N unsettled fleeting            communicators that are gone before the agreement is of use
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "support.hpp"

namespace {

using shim_test::require;
using shim_test::size_of;
using shim_test::world_rank;

int sum_of_ranks(MPI_Comm comm) { return size_of(comm) * (size_of(comm) - 1) / 2; }

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

/// Operations of one communicator under way, and what comes out of them.
struct Batch {
  MPI_Comm comm;
  std::vector<MPI_Request> requests;
  std::vector<std::vector<int>> in, out;
  std::vector<int> expected;  ///< of each element

  explicit Batch(MPI_Comm on) : comm(on) {}

  void start(int what, int round, std::size_t length) {
    in.emplace_back(length, rank_in(comm) + round);
    out.emplace_back(length, -1);
    requests.push_back(MPI_REQUEST_NULL);
    const int count = static_cast<int>(length);
    if (what == 0) {
      MPI_Iallreduce(in.back().data(), out.back().data(), count, MPI_INT, MPI_SUM, comm, &requests.back());
      expected.push_back(sum_of_ranks(comm) + round * size_of(comm));
    } else {
      const int root = round % size_of(comm);
      if (rank_in(comm) == root) out.back().assign(length, round);
      MPI_Ibcast(out.back().data(), count, MPI_INT, root, comm, &requests.back());
      expected.push_back(round);
    }
  }

  void complete() {
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (const int each : out[i]) require(each == expected[i], "a result is wrong");
    }
    requests.clear(), in.clear(), out.clear(), expected.clear();
  }
};

/// Rounds enough for any rank to have heard of the others.
void check_only() {
  MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
  std::minstd_rand own(static_cast<unsigned>(world_rank() + 1));
  for (int round = 0; round < 400; ++round) {
    Batch first(comms[0]), second(comms[1]);
    first.start(0, round, 10);
    second.start(round % 2, round, round % 7 == 0 ? 5000 : 1);
    if (round % 3 == 0) second.start(0, round + 1, 1);
    if (own() % 8 == 0) usleep(own() % 1000);
    // Not in the same order on all ranks.
    (world_rank() % 2 == 0 ? first : second).complete();
    (world_rank() % 2 == 0 ? second : first).complete();
    if (round % 10 == 0) usleep(1000);
  }
  MPI_Comm_free(&comms[1]);
}

/// Nobody waits for the others in a start.
void check_alone(const char* path) {
  const int rounds = 200;
  struct stat unused;
  while (world_rank() != 0 && stat(path, &unused) != 0) usleep(1000);
  Batch batch(MPI_COMM_WORLD);
  for (int round = 0; round < rounds; ++round) batch.start(round % 3 == 0 ? 1 : 0, round, 1);
  if (world_rank() == 0) std::ofstream(path) << "all are started\n";
  batch.complete();
}

/// The same calls on all ranks, which are not in step.
void live(MPI_Comm comm, std::minstd_rand& common, std::minstd_rand& own) {
  const int calls = static_cast<int>(common() % 40);
  const bool quiet = common() % 2 == 0;  // nothing that waits
  std::vector<Batch> under_way;
  for (int i = 0; i < calls; ++i) {
    const auto kind = common() % 16;
    const auto length = common() % 4 == 0 ? std::size_t{3000} : std::size_t{2};
    if (kind == 0 && !quiet) {
      int sum = 1;
      MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm);
      require(sum == size_of(comm), "a blocking sum");
    } else if (kind == 1 && !quiet) {
      int one = 1, sum = 0;
      MPI_Request request;
      INIT(Allreduce)(&one, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      require(sum == size_of(comm), "a persistent sum");
      MPI_Request_free(&request);
    } else {
      under_way.emplace_back(comm);
      under_way.back().start(static_cast<int>(common() % 2), i, length);
    }
    if (own() % 4 == 0 && !under_way.empty()) under_way.back().complete();
    if (own() % 32 == 0) usleep(own() % 2000);
  }
  for (auto& each : under_way) each.complete();
}

void check_mixed(unsigned seed, int communicators) {
  std::minstd_rand common(seed), own(seed * 100 + static_cast<unsigned>(world_rank()));
  std::vector<MPI_Comm> kept;
  for (int i = 0; i < communicators; ++i) {
    MPI_Comm comm;
    if (common() % 3 == 0) {
      MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank(), &comm);
    } else {
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    live(comm, common, own);
    if (i % 25 == 0) {
      kept.push_back(comm);
    } else if (common() % 2 == 0) {
      MPI_Comm_disconnect(&comm);
    } else {
      MPI_Comm_free(&comm);
    }
  }
  for (auto& each : kept) live(each, common, own);  // and leaves them to MPI_Finalize
}

int open_files() {
  int number = 0;
  DIR* const all = opendir("/proc/self/fd");
  while (readdir(all) != nullptr) ++number;
  closedir(all);
  return number;
}

/// Nothing piles up.
void check_fleeting() {
  const int before = open_files();
  for (int i = 0; i < 1000; ++i) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int call = 0; call < 12; ++call) {
      Batch batch(comm);
      batch.start(0, call, 1);
      batch.complete();
    }
    MPI_Comm_free(&comm);
    require(open_files() < before + 64, "files pile up");
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::string mode = argc > 1 ? argv[1] : "only";
  if (mode == "only") check_only();
  if (mode == "alone") check_alone(argv[2]);
  if (mode == "mixed") check_mixed(static_cast<unsigned>(std::atoi(argv[2])), std::atoi(argv[3]));
  if (mode == "fleeting") check_fleeting();
  if (world_rank() == 0) std::printf("all right\n");
  MPI_Finalize();
}
