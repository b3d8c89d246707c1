// For the programs that pages show parts of: what has to hold, and how often it did not.
#pragma once

#include <cstdio>

inline int failures = 0;

inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  ++failures;
}
