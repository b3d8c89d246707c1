// Threads and processes that end or begin where others are in regions, and sums that are the same each time.
//   leaving exit | fork | bits
#include <pthread.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "check.hpp"

// The main thread ends, and then the runtime's, and so the process.
static void leave() {
  CHECK(team_size_now() == 2);
  if (failures == 0) std::puts("left");
  std::fflush(stdout);
  pthread_exit(nullptr);
}

// A child of a thread that is in a region: LLVM's runtime begins anew there.
static void fork_here() {
  const pid_t child = fork();
  if (child == 0) {
    CHECK(omp_in_parallel() == 0);
    CHECK(omp_get_level() == 0);
    CHECK(omp_get_num_threads() == 1);
    for (int round = 0; round < 3; ++round) CHECK(team_size_now() == 2);
    std::_Exit(failures != 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  remove_file_of(child);
  CHECK(status == 0);
}

static void fork_in_regions() {
  for (int round = 0; round < 3; ++round) {
#pragma omp parallel num_threads(2)
    for (int forking = 0; forking < 2; ++forking) {
#pragma omp barrier
      if (omp_get_thread_num() == forking) fork_here();
    }
    CHECK(team_size_now() == 2);
  }
}

// More than four threads, which reach the end of the loop in another order each time.
static void add_up() {
  constexpr int threads = 8;
  double first = 0;
  for (int round = 0; round < 40; ++round) {
    double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
      const int me = omp_get_thread_num();
      std::this_thread::sleep_for(std::chrono::microseconds((me * 7919 + round * 104729) % 1000));
      sum += 1.0 / (me * 7 + 3);
    }
    if (round == 0) first = sum;
    CHECK(std::memcmp(&sum, &first, sizeof sum) == 0);
  }
}

int main(int, char** argv) {
  const std::string what = argv[1] != nullptr ? argv[1] : "";
  if (what == "exit") leave();
  if (what == "fork") fork_in_regions();
  if (what == "bits") add_up();
  return failures != 0;
}
