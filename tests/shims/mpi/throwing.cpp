// An error handler that throws: its exceptions pass through the library and whatever stands before it, and the program
// goes on. Between them collectives whose results are checked, by smelt and, as the race decides, by the library.
#include <stdexcept>

#include "support.hpp"

using shim_test::require;

namespace {

void throw_error(MPI_Comm*, int* code, ...) { throw std::runtime_error("MPI error " + std::to_string(*code)); }

template <class Call>
bool throws(Call call) {
  try {
    (void)call();
  } catch (const std::runtime_error&) {
    return true;
  }
  return false;
}

void check_sum(int round) {
  int size = 0, sum = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int own = shim_test::world_rank() + round;
  MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  require(sum == size * (size - 1) / 2 + size * round, "a sum is wrong after an exception");
}

/// Each call of the same kind, wrong, that all ranks make.
void all_wrong_calls() {
  int data[4] = {};
  MPI_Request request = MPI_REQUEST_NULL;
  const MPI_Comm world = MPI_COMM_WORLD;
  require(throws([&] { return MPI_Bcast(data, 1, MPI_INT, 99, world); }), "MPI_Bcast did not throw");
  require(throws([&] { return MPI_Allreduce(data, data + 1, -1, MPI_INT, MPI_SUM, world); }), "MPI_Allreduce");
  require(throws([&] { return MPI_Reduce(data, data + 1, 1, MPI_INT, MPI_SUM, -7, world); }), "MPI_Reduce");
  require(throws([&] { return MPI_Gather(data, 1, MPI_INT, data + 1, 1, MPI_INT, 99, world); }), "MPI_Gather");
  require(throws([&] { return MPI_Allgather(data, 1, MPI_DATATYPE_NULL, data, 1, MPI_INT, world); }), "MPI_Allgather");
  require(throws([&] { return MPI_Ibcast(data, 1, MPI_INT, 99, world, &request); }), "MPI_Ibcast");
  require(throws([&] { return INIT(Bcast)(data, 1, MPI_INT, 99, world, MPI_INFO_NULL, &request); }), "MPI_Bcast_init");
  require(throws([&] { return MPI_Isend(data, 1, MPI_INT, 99, 0, world, &request); }), "MPI_Isend");
  require(throws([&] { return MPI_Barrier(MPI_COMM_NULL); }), "MPI_Barrier");
  MPI_Comm none = MPI_COMM_NULL;
  require(throws([&] { return MPI_Comm_free(&none); }), "MPI_Comm_free");
  MPI_Datatype no_type = MPI_DATATYPE_NULL;
  require(throws([&] { return MPI_Type_free(&no_type); }), "MPI_Type_free");
  MPI_Request no_request = MPI_REQUEST_NULL;
  require(throws([&] { return MPI_Start(&no_request); }), "MPI_Start");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(throw_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);  // of calls without a communicator
  for (int round = 0; round < 10; ++round) {
    check_sum(round);
    all_wrong_calls();
  }
  // Wrong calls among right ones of the same cell, at another place of the race each time.
  for (int round = 0; round < 3000; ++round) {
    int data = 0;
    if (round % 37 == 5) require(throws([&] { return MPI_Bcast(&data, 1, MPI_INT, 99, MPI_COMM_WORLD); }), "MPI_Bcast");
    check_sum(round);
  }
  MPI_Errhandler_free(&handler);
  MPI_Finalize();
  std::printf("thrown\n");
}
