// Calls that are raced, and those that must not be.
//
//   mpirun -n N race long 250  250 broadcasts of 64 KiB; the driver makes smelt slow
//   mpirun -n N race bits      reductions whose results depend on the order of combination: equal operands give equal
//                              bits in every call
//   mpirun -n N race ibits     the same, the first ones nonblocking
//   mpirun -n N race latebits  the same after collectives that anybody may serve, and an empty sum
//   mpirun -n N race threads   each thread has a communicator of its own (MPI_THREAD_MULTIPLE)
//   mpirun -n N race settling  a communicator's first calls while another thread creates one
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"

namespace {

using shim_test::require;

int rank, size;

/// Many calls of a few cells.
void several(MPI_Comm comm, int rounds) {
  std::vector<int> data(20000), all(data.size() * static_cast<std::size_t>(size));
  for (int round = 0; round < rounds; ++round) {
    const int root = round % size;
    MPI_Barrier(comm);
    for (const int count : {1, 500, 20000}) {
      if (rank == root) data.assign(data.size(), round);
      MPI_Bcast(data.data(), count, MPI_INT, root, comm);
      require(data[0] == round && data[static_cast<std::size_t>(count) - 1] == round, "a broadcast");
      MPI_Allgather(&rank, 1, MPI_INT, all.data(), 1, MPI_INT, comm);
      for (int each = 0; each < size; ++each) require(all[static_cast<std::size_t>(each)] == each, "an allgather");
    }
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    require(sum == size, "an allreduce");
    std::vector<int> counts(static_cast<std::size_t>(size)), offsets(counts.size());
    for (std::size_t each = 0; each < counts.size(); ++each) {
      counts[each] = 1 + static_cast<int>(each);
      offsets[each] = each == 0 ? 0 : offsets[each - 1] + counts[each - 1];
    }
    std::vector<int> own(static_cast<std::size_t>(rank) + 1, rank);
    MPI_Gatherv(own.data(), rank + 1, MPI_INT, all.data(), counts.data(), offsets.data(), MPI_INT, root, comm);
    for (int each = 0; rank == root && each < size; ++each) {
      require(all[static_cast<std::size_t>(offsets[static_cast<std::size_t>(each)] + each)] == each, "a gatherv");
    }
  }
}

/// Numbers whose sum and product are another one in each order and grouping.
double awkward(int of, int at) { return std::ldexp(1.0 / (3 + of) + at * 1e-3, 7 * ((of * 5 + at) % 11) - 40); }

/// One kind of reduction of such numbers.
struct Reduction {
  const char* name;
  MPI_Datatype type;
  MPI_Op op;
  std::size_t bytes;
};

void add(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<double*>(inout)[i] += static_cast<double*>(in)[i];
}

void bits(int rounds, int nonblocking) {
  constexpr std::size_t numbers = 24;
  std::vector<double> in(numbers), out(numbers);
  MPI_Op own = MPI_OP_NULL;
  MPI_Op_create(add, 1, &own);
  const std::vector<Reduction> all = {{"sum", MPI_DOUBLE, MPI_SUM, sizeof(double)},
                                      {"product", MPI_DOUBLE, MPI_PROD, sizeof(double)},
                                      {"float sum", MPI_FLOAT, MPI_SUM, sizeof(float)},
                                      {"complex sum", MPI_C_DOUBLE_COMPLEX, MPI_SUM, 2 * sizeof(double)},
                                      {"own sum", MPI_DOUBLE, own, sizeof(double)}};
  std::vector<std::vector<double>> first(all.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t kind = 0; kind < all.size(); ++kind) {
      for (std::size_t i = 0; i < numbers; ++i) in[i] = awkward(rank, static_cast<int>(i));
      if (all[kind].type == MPI_FLOAT) {
        for (std::size_t i = 0; i < numbers; ++i) {
          const auto narrow = static_cast<float>(in[i]);
          std::memcpy(reinterpret_cast<char*>(in.data()) + i * sizeof narrow, &narrow, sizeof narrow);
        }
      }
      const auto count = static_cast<int>(all[kind].type == MPI_C_DOUBLE_COMPLEX ? numbers / 2 : numbers);
      out.assign(numbers, 0);
      if (round < nonblocking) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Iallreduce(in.data(), out.data(), count, all[kind].type, all[kind].op, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        MPI_Allreduce(in.data(), out.data(), count, all[kind].type, all[kind].op, MPI_COMM_WORLD);
      }
      MPI_Barrier(MPI_COMM_WORLD);
      if (round == 0) first[kind] = out;
      require(round == 0 || std::memcmp(out.data(), first[kind].data(), numbers * sizeof(double)) == 0,
              std::string(all[kind].name) + ": other bits in round " + std::to_string(round));
    }
  }
  MPI_Op_free(&own);
}

void others_before() {
  int from_first = rank, sum = 0;
  double none[2] = {};
  MPI_Bcast(&from_first, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(none, none + 1, 0, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  require(from_first == 0 && sum == size * (size - 1) / 2, "the collectives before");
}

void long_ones(int rounds) {
  std::vector<int> data(1 << 14);
  for (int round = 0; round < rounds; ++round) {
    const int root = round % size;
    if (rank == root) data.assign(data.size(), round);
    MPI_Bcast(data.data(), static_cast<int>(data.size()), MPI_INT, root, MPI_COMM_WORLD);
    require(data[0] == round && data.back() == round, "a broadcast");
  }
}

void threads(int rounds) {
  std::vector<MPI_Comm> comms(2);
  for (auto& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> each;
  for (const MPI_Comm comm : comms) each.emplace_back([=] { several(comm, rounds); });
  for (auto& thread : each) thread.join();
  for (auto& comm : comms) MPI_Comm_free(&comm);
}

/// A communicator that gets to smelt in one thread while another thread creates one, which the other ranks take part in
/// only after they have heard of the first thread.
void settling() {
  MPI_Comm comm, side, created;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_dup(MPI_COMM_WORLD, &side);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (int i = 0; i < 100; ++i) {
      int sum = 0;
      MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, comm);
      require(sum == i * size, "a sum in a thread");
    }
    for (int to = 1; rank == 0 && to < size; ++to) MPI_Send(nullptr, 0, MPI_INT, to, 0, side);
  });
  if (rank != 0) MPI_Recv(nullptr, 0, MPI_INT, 0, 0, side, MPI_STATUS_IGNORE);
  MPI_Comm_dup(MPI_COMM_WORLD, &created);
  other.join();
  for (MPI_Comm* each : {&comm, &side, &created}) MPI_Comm_free(each);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  int level = MPI_THREAD_SINGLE;
  const bool several = mode == "threads" || mode == "settling";
  MPI_Init_thread(&argc, &argv, several ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 400;
  if (mode == "long") long_ones(rounds);
  if (mode == "latebits") others_before();
  if (mode == "bits" || mode == "latebits") bits(rounds, 0);
  if (mode == "ibits") bits(rounds, rounds / 2);
  if (mode == "threads") threads(level == MPI_THREAD_MULTIPLE ? rounds : 1);
  if (mode == "settling" && level == MPI_THREAD_MULTIPLE) settling();
  if (rank == 0) std::printf("all right\n");
  MPI_Finalize();
}
