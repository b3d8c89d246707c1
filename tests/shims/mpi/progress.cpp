// What a program without nonblocking collectives pays for the shim in each turn of Open MPI's progress: nothing, as
// after its blocking collectives have gone over to smelt the library calls no more functions there than before.
//
//   mpirun -n N progress
#include <dlfcn.h>

#include <atomic>

#include "support.hpp"

namespace {

using shim_test::require;

std::atomic<int> registered{0};

using Register = int(int (*)());
int forward(const char* name, int (*callback)()) {
  return reinterpret_cast<Register*>(dlsym(RTLD_NEXT, name))(callback);
}

}  // namespace

// In front of the library's: the executable comes first.
extern "C" {
[[gnu::visibility("default")]] int opal_progress_register(int (*callback)()) {
  ++registered;
  return forward("opal_progress_register", callback);
}
[[gnu::visibility("default")]] int opal_progress_unregister(int (*callback)()) {
  --registered;
  return forward("opal_progress_unregister", callback);
}
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int sum = 0;
  const int one = 1;
  PLAIN(Barrier)(MPI_COMM_WORLD);  // with what the library sets up for its first messages
  const int before = registered;
  require(before > 0, "the library's own functions were not seen");
  for (int i = 0; i < 100; ++i) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  require(registered == before, std::to_string(registered - before) + " more functions after blocking collectives");
  MPI_Request request = MPI_REQUEST_NULL;
  int largest = 0, done = 0;
  const int rank = shim_test::world_rank();
  if (rank == 0) MPI_Recv(nullptr, 0, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Iallreduce(&rank, &largest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
  if (rank == 1) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  require(rank != 1 || registered > before, "nothing moves a nonblocking collective along");
  if (rank == 1) MPI_Send(nullptr, 0, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Finalize();
  if (rank == 0) std::puts("all right");
}
