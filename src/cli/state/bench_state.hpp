// `smelt bench map` and `smelt bench log`.
#pragma once

#include <string>

namespace smelt::cli {

struct BenchState {
  std::string model;
  std::string only;     ///< algorithms; empty: all
  std::string lookups;  ///< lists; empty: the usual ones
  std::string keys, skew;
  int ranks = 0;        ///< 0: one per core that may be used, at least two
  int starts = 0;       ///< 0: 3
  double time_s = 0.0;  ///< of the measuring itself; 0: by the benchmark
  bool json = false;
};

/// All algorithms of maps over threads, measured beside what the model predicts.
void bench_maps(const BenchState& arguments);

/// The replicated log over threads: appends one at a time and many at once.
void bench_log(const BenchState& arguments);

}  // namespace smelt::cli
