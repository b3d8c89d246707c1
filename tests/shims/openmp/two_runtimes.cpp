// Both runtimes in one process: this program uses libgomp, a library of its libomp. Prints how much was wrong.
#include <omp.h>

#include <cstdio>
#include <thread>

extern "C" int gnu_regions(int threads, int rounds, int (*inner)());
extern "C" int llvm_regions(int threads, int rounds, int (*inner)());

// A worker of regions that libgomp runs by itself, for their clause, is in a region of libomp; after them it is in
// others.
static int regions_of_workers() {
  int wrong = 0;
  for (int turn = 0; turn < 5; ++turn) {
#pragma omp parallel num_threads(2) proc_bind(close) reduction(+ : wrong)
    if (omp_get_thread_num() == 1) wrong += llvm_regions(2, 3, nullptr);
    for (int round = 0; round < 5; ++round) {
#pragma omp parallel num_threads(2) reduction(+ : wrong)
      if (omp_get_thread_num() == 1) wrong += llvm_regions(2, 3, nullptr);
    }
  }
  return wrong;
}

int main() {
  int wrong = regions_of_workers();
  for (int turn = 0; turn < 20; ++turn) {
    wrong += gnu_regions(2 + turn % 2, 20, nullptr);
    wrong += llvm_regions(2 + turn % 2, 20, nullptr);
  }
  // Regions of one runtime inside of the other's.
  wrong += gnu_regions(2, 20, [] { return llvm_regions(2, 3, nullptr); });
  wrong += llvm_regions(2, 20, [] { return gnu_regions(2, 3, nullptr); });
  // At the same time, by two masters.
  int others = 0;
  std::thread other([&] { others = llvm_regions(2, 100, nullptr); });
  wrong += gnu_regions(2, 100, nullptr);
  other.join();
  std::printf("%d wrong\n", wrong + others);
  return wrong + others == 0 ? 0 : 1;
}
