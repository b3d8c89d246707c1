// Peers: OpenMP. The same source is built for GOMP (by g++) and for LLVM's runtime (by clang++).
// Barrier and reductions are the directives; broadcast and two-phase commit go through shared
// memory around `#pragma omp barrier`.
#include <omp.h>

#include <algorithm>

#include "peers/shared_memory.hpp"

namespace {

using smelt::bench::SharedMemory;
using smelt::bench::SharedMemoryOps;
using smelt::bench::WorkerSpec;

struct OmpBarrier {
  explicit OmpBarrier(int) {}
  void wait(int) {
#pragma omp barrier
  }
};

// A reduction adds to a shared variable, which must be zero before. Three take turns: the barrier
// at the end of one reduction allows rank 0 to clear the one that was read before it.
constexpr std::size_t max_count = 32768;
double total_0, total_1, total_2;
double totals[3 * max_count];

class OmpOps : public SharedMemoryOps<OmpBarrier> {
 public:
  OmpOps(SharedMemory<OmpBarrier>& shared, int rank)
      : SharedMemoryOps<OmpBarrier>(shared, rank), rank_(rank), ranks_(shared.ranks) {}

  void allreduce(const double* in, double* out, std::size_t count) {
    if (count == 1) {
      *out = combine_one(*in);
    } else {
      combine(in, out, count);
    }
    ++turn_;
  }
  void reduce(const double* in, double* out, std::size_t count) { allreduce(in, out, count); }

 private:
  double combine_one(double value) {
    double* const all[] = {&total_0, &total_1, &total_2};
    switch (turn_ % 3) {  // a reduction names its variable
      case 0:
#pragma omp for schedule(static, 1) reduction(+ : total_0)
        for (int r = 0; r < ranks_; ++r) total_0 += value;
        break;
      case 1:
#pragma omp for schedule(static, 1) reduction(+ : total_1)
        for (int r = 0; r < ranks_; ++r) total_1 += value;
        break;
      default:
#pragma omp for schedule(static, 1) reduction(+ : total_2)
        for (int r = 0; r < ranks_; ++r) total_2 += value;
    }
    if (rank_ == 0) *all[(turn_ + 2) % 3] = 0;
    return *all[turn_ % 3];
  }

  void combine(const double* in, double* out, std::size_t count) {
    const std::size_t base = turn_ % 3 * count;
#pragma omp for schedule(static, 1) reduction(+ : totals [base:count])
    for (int r = 0; r < ranks_; ++r) {
      for (std::size_t e = 0; e < count; ++e) totals[base + e] += in[e];
    }
    std::copy_n(totals + base, count, out);
    if (rank_ == 0) std::fill_n(totals + (turn_ + 2) % 3 * count, count, 0.0);
  }

  const int rank_;
  const int ranks_;
  std::uint64_t turn_ = 0;
};

int serve(const WorkerSpec& spec) {
  using namespace smelt::bench;
  const bool reduces = spec.operation == "reduce" || spec.operation == "allreduce";
  if (reduces && spec.bytes > max_count * sizeof(double)) return fail_worker("reductions of up to 256 KiB only");
  auto control = Control::create(spec.threads);
  if (!control) return fail_worker(control.error().message);
  SharedMemory<OmpBarrier> shared(spec);
  bool good = true;
  omp_set_dynamic(0);
#pragma omp parallel num_threads(spec.threads)
  {
    const int rank = omp_get_thread_num();
    OmpOps ops(shared, rank);
    const bool served = serve_collectives(Member{spec, *control, rank}, ops);
    if (rank == 0) good = served;
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return smelt::bench::run_peer(argc, argv, serve); }
