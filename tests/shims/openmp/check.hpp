// What the OpenMP programs of these tests share.
#pragma once

#include <omp.h>

#include <atomic>
#include <cstdio>

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
