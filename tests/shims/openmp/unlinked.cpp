// A library that was linked without any OpenMP runtime, in a program built by clang: its references have no versions,
// so that it asks LLVM's runtime by the functions of libgomp. As MKL and other libraries do that load the runtime
// themselves. Prints how much was wrong.
#include <thread>

#include "check.hpp"

#ifdef SMELT_LIBRARY

// All of it by GCC.
extern "C" void check_outside(int threads) {
  CHECK(omp_in_parallel() == 0);
  CHECK(omp_get_level() == 0);
  CHECK(omp_get_active_level() == 0);
  CHECK(omp_get_thread_num() == 0);
  CHECK(omp_get_num_threads() == 1);
  CHECK(omp_get_max_threads() == threads);
}

extern "C" void check_inside(int thread, int threads) {
  CHECK(omp_in_parallel() == (threads > 1));
  CHECK(omp_get_level() == 1);
  CHECK(omp_get_active_level() == (threads > 1));
  CHECK(omp_get_thread_num() == thread);
  CHECK(omp_get_num_threads() == threads);
}

extern "C" void run_outside(int threads) {
#pragma omp barrier
  int singles = 0;
#pragma omp single
  ++singles;
  CHECK(singles == 1);
  check_outside(threads);
  CHECK(team_size_now() == threads);
  check_outside(threads);
}

extern "C" void run_inside(std::atomic<int>* count, int threads, int round) {
  ++*count;
#pragma omp barrier
  CHECK(*count == threads * (2 * round + 1));
#pragma omp barrier
#pragma omp for
  for (int i = 0; i < threads; ++i) ++*count;
  CHECK(*count == threads * (2 * round + 2));
#pragma omp single
  CHECK(omp_get_num_threads() == threads);
}

// A region of one thread does not count.
extern "C" void run_in_region_of_one(int threads) { CHECK(team_size_now() == threads); }

extern "C" void set_threads(int threads) { omp_set_num_threads(threads); }
extern "C" int library_failures() { return failures; }

#else

extern "C" void check_outside(int threads);
extern "C" void check_inside(int thread, int threads);
extern "C" void run_outside(int threads);
extern "C" void run_inside(std::atomic<int>* count, int threads, int round);
extern "C" void run_in_region_of_one(int threads);
extern "C" void set_threads(int threads);
extern "C" int library_failures();

// Views alone leave the threads in the shim's hands.
void views(int threads) {
  for (int round = 0; round < 30; ++round) {
#pragma omp parallel
    check_inside(omp_get_thread_num(), threads);
    check_outside(threads);
    set_threads(threads);
    check_outside(threads);
  }
}

void regions_of_one(int threads) {
  for (int round = 0; round < 30; ++round) {
    if (round % 5 == 0) {
#pragma omp parallel
      check_inside(omp_get_thread_num(), threads);
    }
#pragma omp parallel if (round < 0)
    {
      check_inside(0, 1);
      if (round % 10 == 5) run_in_region_of_one(threads);
    }
    check_outside(threads);
  }
}

void constructs(int threads) {
  std::atomic<int> count{0};
  for (int round = 0; round < 30; ++round) {
#pragma omp parallel
    run_inside(&count, threads, round);
    if (round % 3 == 0) run_outside(threads);
    check_outside(threads);
  }
}

int main() {
  for (int threads : {2, 3}) {
    for (const auto phase : {views, regions_of_one, constructs}) {
      // Another thread each: where hot teams had to be dissolved often, there are no more.
      std::thread([=] {
        set_threads(threads);
        phase(threads);
      }).join();
    }
  }
  const int wrong = failures + library_failures();
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}

#endif
