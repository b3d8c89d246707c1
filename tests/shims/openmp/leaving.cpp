// Threads and processes that end or begin where others are in regions, and sums that are the same each time.
//   leaving exit | fork | bits | signals | raw_fork | handlers
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "check.hpp"

// The main thread ends, and then the runtime's, and so the process.
static void leave() {
  CHECK(team_size_now() == 2);
  if (failures == 0) std::puts("left");
  std::fflush(stdout);
  pthread_exit(nullptr);
}

static void check_barriers() {
  std::atomic<int> arrived{0};
#pragma omp parallel num_threads(2)
  for (int round = 1; round <= 20; ++round) {
    if (omp_get_thread_num() == round % 2) std::this_thread::sleep_for(std::chrono::microseconds(200));
    ++arrived;
#pragma omp barrier
    CHECK(arrived == 2 * round);
#pragma omp barrier
  }
}

// A child of a thread that is in a region, while another one waits in a barrier: LLVM's runtime begins anew there.
static void fork_here() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const pid_t child = fork();
  if (child == 0) {
    CHECK(omp_in_parallel() == 0);
    CHECK(omp_get_level() == 0);
    CHECK(omp_get_num_threads() == 1);
    for (int round = 0; round < 3; ++round) {
      CHECK(team_size_now() == 2);
      check_barriers();
    }
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

// By more than four threads, which reach the end of the loop in another order each time: LLVM's runtime adds up what
// neighbours have, then those two apart, and so on.
template <class Region>
static void check_bits(int threads, const Region& region) {
  double parts[16] = {};
  for (int i = 0; i < threads; ++i) parts[i] = 1.0 / (i * 7 + 3);
  for (int apart = 1; apart < threads; apart *= 2) {
    for (int at = 0; at + apart < threads; at += 2 * apart) parts[at] += parts[at + apart];
  }
  for (int round = 0; round < 20; ++round) CHECK(region(threads, round) == 0.25 + parts[0]);
}

static double part_of(int thread, int round) {
  std::this_thread::sleep_for(std::chrono::microseconds((thread * 7919 + round * 104729) % 700));
  return 1.0 / (thread * 7 + 3);
}

static void add_up() {
  for (int threads = 5; threads <= 13; threads += 2) {
    check_bits(threads, [](int number, int round) {
      double sum = 0.25;
#pragma omp parallel num_threads(number) reduction(+ : sum)
      sum += part_of(omp_get_thread_num(), round);
      return sum;
    });
    check_bits(threads, [](int number, int round) {
      double sum = 0.25;
#pragma omp parallel num_threads(number)
      {
#pragma omp for schedule(static) reduction(+ : sum)
        for (int i = 0; i < number; ++i) sum += part_of(i, round);
        CHECK(sum > 0.5);
      }
      return sum;
    });
  }
}

static int code_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A child that hangs is ended by the second alarm.
static void leave_at_once(int) {
  std::signal(SIGALRM, SIG_DFL);
  alarm(10);
  std::exit(7);
}

// Programs end from handlers, for Ctrl-C: whatever the runtime, or the library before it, does at that moment.
static void leave_by_signals() {
  for (int child = 0; child < 60 && failures == 0; ++child) {
    const pid_t leaving = fork();
    if (leaving == 0) {
      std::signal(SIGALRM, leave_at_once);
      const itimerval soon = {{}, {0, 3000 + 431 * child}};
      setitimer(ITIMER_REAL, &soon, nullptr);
      for (int round = 0;; ++round) {
#pragma omp parallel num_threads(2 + round / 20 % 3)
        asm volatile("");
      }
    }
    CHECK(code_of(leaving) == 7);
  }
}

static std::atomic<int> handled{0};

static void fork_at_once(int) {
  const pid_t child = fork();
  if (child == 0) _exit(3);
  CHECK(code_of(child) == 3);
  ++handled;
}

// fork() may be called by handlers, but not while the runtime takes memory: so one size.
static void fork_in_handlers() {
  std::signal(SIGALRM, fork_at_once);
  const itimerval often = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  while (handled < 300) CHECK(team_size_now() == 2);
}

// A child that the C library was not asked for has no workers, either, and nobody told it so.
static void fork_past_the_library() {
  for (int round = 0; round < 20; ++round) CHECK(team_size_now() == 2);
  const pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) leave_at_once(SIGALRM);
  CHECK(code_of(child) == 7);
  CHECK(team_size_now() == 2);
}

int main(int, char** argv) {
  const std::string what = argv[1] != nullptr ? argv[1] : "";
  if (what == "exit") leave();
  if (what == "fork") fork_in_regions();
  if (what == "bits") add_up();
  if (what == "signals") leave_by_signals();
  if (what == "handlers") fork_in_handlers();
  if (what == "raw_fork") fork_past_the_library();
  return failures != 0;
}
