// Properties beside the results that programs may rely on: progress, threads, errors, short-lived communicators.
//
//   mpirun -n N behaviour              all checks
//   mpirun -n N behaviour spin         collectives for ever; the driver kills a rank
//   mpirun -n N behaviour abort        the last rank aborts while the others wait
//   mpirun -n 2 behaviour early        rank 1 ends by MPI_Finalize while rank 0 waits for it in a collective
//   mpirun -n 2 behaviour behind WAY   long messages, or a nonblocking collective, behind short collectives
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "support.hpp"

namespace {

using shim_test::fail;
using shim_test::require;
using shim_test::world_rank;

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// A long message that is on its way while its sender waits in a collective.
void check_progress() {
  std::vector<char> data(4 << 20, 'x');
  const int rank = world_rank(), bytes = static_cast<int>(data.size());
  for (int round = 0; round < 5; ++round) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0) MPI_Isend(data.data(), bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
    if (rank == 1) {
      usleep(2000);
      MPI_Recv(data.data(), bytes, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    double sum = 1.0;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    require(sum == world_size(), "a sum after point-to-point messages");
  }
}

void sum_on(MPI_Comm comm, int rounds) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  for (int i = 0; i < rounds; ++i) {
    long mine = i, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm);
    require(sum == static_cast<long>(i) * size, "a sum in a thread");
  }
}

/// Long messages, or a nonblocking collective ("operation"), one of whose ranks calls nothing but blocking collectives,
/// in which it hardly waits. `way`: how its message is started. Prints by how many collectives the messages got
/// through.
void check_behind(const std::string& way) {
  constexpr long most = 2'000'000;
  std::vector<char> data(1 << 20, 'x');
  const int rank = world_rank(), bytes = static_cast<int>(data.size());
  const bool receives = way == "matched" || way == "window";  // the one that only calls collectives
  const bool sends = !receives && way != "operation";
  MPI_Win window = MPI_WIN_NULL;
  void* memory = nullptr;
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  sum_on(other, 200);
  std::vector<char> result(data.size());
  if (way == "window") MPI_Win_allocate(1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  long calls = 0;
  for (int round = 0; round < 10; ++round) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    if (way == "operation")
      MPI_Iallreduce(data.data(), result.data(), bytes, MPI_SIGNED_CHAR, MPI_MAX, other, &request);
    if (rank == 1 && receives) MPI_Isend(data.data(), bytes, MPI_CHAR, 0, 7, MPI_COMM_WORLD, &request);
    if (rank == 1 && sends) MPI_Irecv(data.data(), bytes, MPI_CHAR, 0, 7, MPI_COMM_WORLD, &request);
    if (rank == 0 && receives) {
      MPI_Mprobe(1, 7, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
      MPI_Imrecv(data.data(), bytes, MPI_CHAR, &message, &request);
    } else if (rank == 0 && way == "again") {
      MPI_Send_init(data.data(), bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
      MPI_Start(&request);
    } else if (rank == 0 && sends) {
      MPI_Isend(data.data(), bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
    }
    int there = 0, done = 0;
    for (; done == 0; ++calls) {
      if (rank == 1) MPI_Test(&request, &there, MPI_STATUS_IGNORE);
      MPI_Allreduce(&there, &done, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      require(calls < most, "a long message does not get on while a rank of it calls collectives");
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0 && way == "again") MPI_Request_free(&request);
  }
  if (window != MPI_WIN_NULL) MPI_Win_free(&window);
  MPI_Comm_free(&other);
  if (rank == 0) std::printf("behind %ld collectives\n", calls);
}

/// A lock on the memory of a rank that waits in a collective.
void check_one_sided() {
  const int rank = world_rank();
  int* memory = nullptr;
  MPI_Win window;
  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  *memory = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) {
    usleep(1000);
    const int one = 1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_unlock(0, window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
  int seen = -1;
  MPI_Get(&seen, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
  MPI_Win_unlock(0, window);
  require(seen == world_size() - 1, "one-sided sum");
  MPI_Win_free(&window);
}

/// Threads that use a communicator each, and one communicator by one thread after the other.
void check_threads() {
  int provided = 0;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) return;
  MPI_Comm comm[2];
  for (auto& each : comm) MPI_Comm_dup(MPI_COMM_WORLD, &each);
  std::thread first(sum_on, comm[0], 200), second(sum_on, comm[1], 200);
  first.join();
  second.join();
  for (int turn = 0; turn < 3; ++turn) std::thread(sum_on, comm[0], 20).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  sum_on(comm[0], 20);
  for (auto& each : comm) MPI_Comm_free(&each);
}

/// MPI_IN_PLACE where a result goes. Open MPI tells some of these errors to the handler of MPI_COMM_WORLD.
void check_results_in_place(MPI_Comm comm) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int in = 0;
  void* const place = MPI_IN_PLACE;
  require(MPI_Allreduce(&in, place, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS, "a sum into MPI_IN_PLACE");
  require(MPI_Allreduce(place, place, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS, "a sum in place of itself");
  require(MPI_Scan(&in, place, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS, "a scan into MPI_IN_PLACE");
  require(MPI_Allgather(&in, 1, MPI_INT, place, 1, MPI_INT, comm) != MPI_SUCCESS, "an allgather into MPI_IN_PLACE");
  require(MPI_Alltoall(&in, 1, MPI_INT, place, 1, MPI_INT, comm) != MPI_SUCCESS, "an alltoall into MPI_IN_PLACE");
#ifdef OPEN_MPI  // MPICH does not look
  require(MPI_Bcast(place, 1, MPI_INT, 0, comm) != MPI_SUCCESS, "a broadcast of MPI_IN_PLACE");
#endif
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/// Arguments that are wrong on one rank alone, which then goes on as if nothing had been.
void check_errors() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  sum_on(comm, 3);
  int value = 0;
  const auto is_error = [](int code, int wanted) {
    int error_class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
    return error_class == wanted;
  };
  if (world_rank() == 0) {
    require(is_error(MPI_Bcast(&value, 1, MPI_INT, 1000, comm), MPI_ERR_ROOT), "a root that is not there");
    require(is_error(MPI_Bcast(&value, -1, MPI_INT, 0, comm), MPI_ERR_COUNT), "a negative count");
    require(is_error(MPI_Bcast(&value, 1, MPI_DATATYPE_NULL, 0, comm), MPI_ERR_TYPE), "no datatype");
    require(MPI_Allreduce(&value, &value, 1, MPI_INT, MPI_OP_NULL, comm) != MPI_SUCCESS, "no operator");
    check_results_in_place(comm);
  }
  float in = 0, out = 0;
  require(MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_BAND, comm) != MPI_SUCCESS, "bits of numbers");
  sum_on(comm, 3);
  MPI_Comm_free(&comm);
}

int copied = 0, deleted = 0;

int copy_attribute(MPI_Comm, int, void*, void* value, void* copy, int* flag) {
  ++copied;
  std::memcpy(copy, &value, sizeof value);
  *flag = 1;
  return MPI_SUCCESS;
}

int delete_attribute(MPI_Comm, int, void*, void*) {
  ++deleted;
  return MPI_SUCCESS;
}

/// Attributes that copies get are copied and deleted by the program's calls alone. Before anything else: the shim has
/// no communicator of its own yet. The last rank has no keyvals; of those of the others one that was made in between is
/// gone.
void check_attributes() {
  int keyvals[4] = {};
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const bool sets = world_rank() != world_size() - 1;
  for (int& each : keyvals) MPI_Comm_create_keyval(copy_attribute, delete_attribute, &each, nullptr);
  MPI_Comm_free_keyval(&keyvals[1]);
  if (sets) {
    MPI_Comm_set_attr(MPI_COMM_SELF, keyvals[2], nullptr);
    MPI_Comm_set_attr(comm, keyvals[3], nullptr);
  } else {
    for (const int i : {0, 2, 3}) MPI_Comm_free_keyval(&keyvals[i]);
  }
  sum_on(comm, 5);
  require(copied == 0 && deleted == 0, "attributes were copied");
  if (sets) MPI_Comm_delete_attr(MPI_COMM_SELF, keyvals[2]);
  MPI_Comm_free(&comm);
  require(copied == 0 && deleted == (sets ? 2 : 0), "other attributes were deleted");
  for (const int i : {0, 2, 3}) {
    if (sets) MPI_Comm_free_keyval(&keyvals[i]);
  }
}

void check_coming_and_going() {
  for (int i = 0; i < 40; ++i) {
    MPI_Comm dup, part;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    sum_on(dup, 3);
    MPI_Comm_split(dup, world_rank() % 2, 0, &part);
    sum_on(part, 2);
    if (i % 2 == 0) MPI_Comm_disconnect(&part);
    MPI_Comm_free(&dup);
    if (i % 2 != 0) MPI_Comm_free(&part);
  }
}

/// Data whose places are told by the type alone.
void check_absolute_addresses() {
  long front = 0, back = 0;
  const int lengths[] = {1, 1};
  const MPI_Datatype longs[] = {MPI_LONG, MPI_LONG};
  MPI_Aint places[2];
  MPI_Get_address(&front, &places[0]);
  MPI_Get_address(&back, &places[1]);
  MPI_Datatype both;
  MPI_Type_create_struct(2, lengths, places, longs, &both);
  MPI_Type_commit(&both);
  for (int round = 0; round < 5; ++round) {
    const bool root = world_rank() == round % world_size();
    front = root ? round : -1;
    back = root ? -round : -1;
    MPI_Bcast(MPI_BOTTOM, 1, both, round % world_size(), MPI_COMM_WORLD);
    require(front == round && back == -round, "a broadcast from and to absolute addresses");
    front = world_rank();
    back = round;
    std::vector<long> all(static_cast<std::size_t>(2 * world_size()), -1);
    MPI_Allgather(MPI_BOTTOM, 1, both, all.data(), 2, MPI_LONG, MPI_COMM_WORLD);
    for (int rank = 0; rank < world_size(); ++rank) {
      const auto* theirs = &all[static_cast<std::size_t>(2 * rank)];
      require(theirs[0] == rank && theirs[1] == round, "an allgather from absolute addresses");
    }
  }
  MPI_Type_free(&both);
}

/// Calls on a new communicator, where smelt cannot serve one of the ranks: the others do not wait for it.
void call_without_waiting(const char* lacks) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const auto begun = std::chrono::steady_clock::now();
  sum_on(comm, 5);
  const auto waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  require(waited < 30, lacks);
  MPI_Comm_free(&comm);
}

/// A rank that can open two more files, with low numbers.
void check_few_descriptors() {
  rlimit most{};
  getrlimit(RLIMIT_NOFILE, &most);
  std::vector<int> opened;
  if (world_rank() == world_size() - 1) {
    const rlimit few{256, most.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    for (int file = dup(1); file >= 0; file = dup(1)) opened.push_back(file);
    for (const int i : {0, 1}) close(opened.at(static_cast<std::size_t>(i)));
    opened.erase(opened.begin(), opened.begin() + 2);
  }
  call_without_waiting("ranks waited for one without descriptors");
  for (const int file : opened) close(file);
  setrlimit(RLIMIT_NOFILE, &most);
}

/// The resource of a rank ends at `end` while the ranks agree on a new communicator.
void check_limit(int rank, decltype(RLIMIT_AS) resource, rlim_t end, const char* lacks) {
  rlimit most{};
  getrlimit(resource, &most);
  const rlimit little{end, most.rlim_max};
  if (world_rank() == rank) setrlimit(resource, &little);
  call_without_waiting(lacks);
  setrlimit(resource, &most);
}

/// Memory that the kernel counts for this process.
rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

/// Called first, as threads that have ended leave memory for later ones.
void check_limits() {
  for (const int rank : {world_size() - 1, 0}) {
    check_limit(rank, RLIMIT_AS, address_space() + (9 << 20), "ranks waited for one without memory");
    for (const rlim_t end : {0, 100'000}) check_limit(rank, RLIMIT_FSIZE, end, "ranks waited for one without files");
  }
}

/// Nonblocking ones of the library among blocking ones.
void check_nonblocking() {
  for (int i = 0; i < 50; ++i) {
    int data = world_rank() == 0 ? i : -1, sum = 0;
    const int one = 1;
    MPI_Request requests[2];
    MPI_Ibcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    require(data == i && sum == world_size(), "a nonblocking collective");
  }
}

void check_intercommunicator() {
  if (world_size() < 2) return;
  MPI_Comm half, across;
  const int color = world_rank() % 2;
  MPI_Comm_split(MPI_COMM_WORLD, color, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 3, &across);
  int theirs = 0, mine = color + 1, count = 0;
  MPI_Comm_remote_size(across, &count);
  for (int i = 0; i < 5; ++i) {
    MPI_Allreduce(&mine, &theirs, 1, MPI_INT, MPI_SUM, across);
    require(theirs == (2 - color) * count, "an intercommunicator");
  }
  MPI_Comm_free(&across);
  MPI_Comm_free(&half);
}

/// Sums until the program is killed.
void spin() {
  for (int i = 0;; ++i) {
    if (world_rank() == 0 && i % 1000 == 0) std::printf("round %d of %d\n", i, getpid()), std::fflush(stdout);
    long sum = 1;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  }
}

void abort_late() {
  sum_on(MPI_COMM_WORLD, 100);
  if (world_rank() == world_size() - 1) {
    usleep(100'000);
    MPI_Abort(MPI_COMM_WORLD, 42);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  fail("passed a barrier that one rank never came to");
}

/// One collective in one of the ways in which it can be called.
struct Manner {
  const char* name;
  int count;
  int (*sum)(const std::vector<long>& in, std::vector<long>& out, MPI_Comm comm);
};
const Manner manners[] = {
    {"blocking", 1,
     [](const auto& in, auto& out, MPI_Comm comm) {
       return MPI_Allreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_LONG, MPI_SUM, comm);
     }},
    {"blocking, long", 100'000,
     [](const auto& in, auto& out, MPI_Comm comm) {
       return MPI_Allreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_LONG, MPI_SUM, comm);
     }},
    {"barrier", 1, [](const auto&, auto&, MPI_Comm comm) { return MPI_Barrier(comm); }},
    {"nonblocking", 1,
     [](const auto& in, auto& out, MPI_Comm comm) {
       MPI_Request request = MPI_REQUEST_NULL;
       const int code =
           MPI_Iallreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_LONG, MPI_SUM, comm, &request);
       return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
     }},
    {"nonblocking, tested", 100'000,
     [](const auto& in, auto& out, MPI_Comm comm) {
       MPI_Request request = MPI_REQUEST_NULL;
       int code = MPI_Iallreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_LONG, MPI_SUM, comm, &request);
       for (int done = 0; done == 0 && code == MPI_SUCCESS;) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
       return code;
     }},
    {"persistent", 1,
     [](const auto& in, auto& out, MPI_Comm comm) {
       MPI_Request request = MPI_REQUEST_NULL;
       int code = INIT(Allreduce)(in.data(), out.data(), static_cast<int>(in.size()), MPI_LONG, MPI_SUM, comm,
                                  MPI_INFO_NULL, &request);
       if (code == MPI_SUCCESS) code = MPI_Start(&request);
       if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
       if (code == MPI_SUCCESS) MPI_Request_free(&request);
       return code;
     }},
};

/// A program that is wrong: with the libraries it waits for ever.
void end_early() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // of what goes wrong with a request
  std::vector<MPI_Comm> comms;
  for (const Manner& manner : manners) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const std::vector<long> in(static_cast<std::size_t>(manner.count), 1);
    std::vector<long> out(in.size());
    sum_on(comm, 100);
    for (int i = 0; i < 20; ++i) require(manner.sum(in, out, comm) == MPI_SUCCESS, manner.name);
    comms.push_back(comm);
  }
  if (world_rank() == 1) return;
  for (std::size_t i = 0; i < comms.size(); ++i) {
    const Manner& manner = manners[i];
    const std::vector<long> in(static_cast<std::size_t>(manner.count), 1);
    std::vector<long> out(in.size());
    const auto begun = std::chrono::steady_clock::now();
    require(manner.sum(in, out, comms[i]) != MPI_SUCCESS, std::string(manner.name) + ": done without rank 1");
    const auto waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    require(manner.sum(in, out, comms[i]) != MPI_SUCCESS, std::string(manner.name) + ": done without rank 1 again");
    std::printf("%s: told after %.3f s\n", manner.name, waited);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const char* what = argc > 1 ? argv[1] : "all";
  if (std::strcmp(what, "spin") == 0) spin();
  if (std::strcmp(what, "abort") == 0) abort_late();
  if (std::strcmp(what, "early") == 0) {
    end_early();
    MPI_Finalize();
    return 0;
  }
  if (std::strcmp(what, "behind") == 0) {
    sum_on(MPI_COMM_WORLD, 200);
    check_behind(argc > 2 ? argv[2] : "");
    MPI_Finalize();
    return 0;
  }
  if (std::strcmp(what, "size") == 0) {
    std::printf("%d ranks\n", world_size());
    MPI_Finalize();
    return 0;
  }
  check_limits();
  check_attributes();
  sum_on(MPI_COMM_WORLD, 5);
  if (world_size() > 1) check_progress();
  check_one_sided();
  check_threads();
  check_errors();
  check_coming_and_going();
  check_absolute_addresses();
  check_few_descriptors();
  check_nonblocking();
  check_intercommunicator();
  if (world_rank() == 0) std::printf("all right\n");
  MPI_Finalize();
}
