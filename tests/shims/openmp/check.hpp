// What the OpenMP programs of these tests share.
#pragma once

#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

inline std::atomic<int> failures{0};

/// Says which line failed, and goes on.
#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "FAILED: line %d: %s\n", __LINE__, #condition); \
      ++failures;                                                          \
    }                                                                      \
  } while (false)

/// Of a region that asks for nothing.
inline int team_size_now() {
  int size = 0;
#pragma omp parallel
#pragma omp single
  size = omp_get_num_threads();
  return size;
}

/// Removes the file that LLVM's runtime leaves of a process that has ended without its exit handlers.
inline void remove_file_of(pid_t process) {
  shm_unlink(("/__KMP_REGISTERED_LIB_" + std::to_string(process) + "_" + std::to_string(getuid())).c_str());
}
