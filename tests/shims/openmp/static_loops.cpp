// The shim cuts the static loops of clang's programs as the runtime does, to the iteration: both are asked, in one
// region, for random loops of all four types. Prints the first difference of each type; status 1 if there is one.
#include <dlfcn.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <type_traits>
#include <utility>

#include "check.hpp"

extern "C" int __kmpc_global_thread_num(void*);

namespace {

struct Location {
  int reserved = 0, flags = 0x202, more = 0, length = 0;
  const char* source = ";file;function;1;1;;";
} location;

template <class Index, class Step>
struct Loop {
  Index lower, upper;
  Step increment, chunk;
  int schedule;
  int last = 9;
  Step stride = 7;

  using Cut = void (*)(void*, int, int, int*, Index*, Index*, Step*, Step, Step);
  void cut(Cut how, int thread) { how(&location, thread, schedule, &last, &lower, &upper, &stride, increment, chunk); }
  bool operator==(const Loop& other) const {
    return lower == other.lower && upper == other.upper && stride == other.stride && !last == !other.last;
  }
};

constexpr int chunked = 33, whole = 34;

/// Whether the runtime ends a program that asks for chunks of no iterations, as builds of it with assertions do; such a
/// program is wrong. Then such loops are left out.
bool refuses_empty_chunks(void* runtime) {
  using Loops = Loop<std::int32_t, std::int32_t>;
  const auto original = reinterpret_cast<Loops::Cut>(dlvsym(runtime, "__kmpc_for_static_init_4", "VERSION"));
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(2);
    Loops loop = {0, 9, 1, 0, chunked};
    loop.cut(original, __kmpc_global_thread_num(nullptr));
#pragma omp parallel num_threads(2)
    {
      Loops own = {0, 9, 1, 0, chunked};
      own.cut(original, __kmpc_global_thread_num(nullptr));
    }
    _exit(0);
  }
  int status = 0;
  const bool refused = waitpid(child, &status, 0) == child && WIFSIGNALED(status);
  remove_file_of(child);
  return refused;
}
std::int64_t least_chunk = 0;

/// Of all magnitudes, up and down, now and then without an iteration.
template <class Index, class Step>
Loop<Index, Step> random_loop(std::minstd_rand& random) {
  constexpr long most[] = {5, 100, 100'000, 2'000'000'000};
  const auto below = [&](long limit) { return static_cast<long>(random() % static_cast<unsigned long>(limit)); };
  const long range = most[below(4)], offset = std::is_signed<Index>::value ? range / 2 : 0;
  Loop<Index, Step> loop;
  loop.lower = static_cast<Index>(below(range) - offset);
  loop.upper = static_cast<Index>(below(range) - offset);
  loop.increment = static_cast<Step>(below(2) ? 1 : below(7) + 1);
  if (below(3) == 0) loop.increment = -loop.increment;
  loop.chunk = std::max(static_cast<Step>(below(below(3) ? 5 : 1000)), static_cast<Step>(least_chunk));
  loop.schedule = below(2) ? chunked : whole;
  if ((loop.increment > 0) != (loop.lower <= loop.upper) && below(5)) std::swap(loop.lower, loop.upper);
  return loop;
}

template <class Index, class Step>
int differences(const char* name, void* runtime, int threads) {
  using Cut = typename Loop<Index, Step>::Cut;
  const auto ours = reinterpret_cast<Cut>(dlsym(RTLD_DEFAULT, name));
  const auto original = reinterpret_cast<Cut>(dlvsym(runtime, name, "VERSION"));
  int different = 0;
#pragma omp parallel num_threads(threads) reduction(+ : different)
  {
    std::minstd_rand random(static_cast<unsigned>(threads));
    const int thread = __kmpc_global_thread_num(nullptr);
    for (int trial = 0; trial < 4000; ++trial) {
      const auto loop = random_loop<Index, Step>(random);
      auto a = loop, b = loop;
      a.cut(ours, thread);
      b.cut(original, thread);
      if (a == b || different++ > 0) continue;
      std::fprintf(stderr,
                   "%s, thread %d of %d, schedule %d: %lld..%lld by %lld, chunk %lld: [%lld, %lld], not [%lld, %lld]\n",
                   name, omp_get_thread_num(), threads, loop.schedule, static_cast<long long>(loop.lower),
                   static_cast<long long>(loop.upper), static_cast<long long>(loop.increment),
                   static_cast<long long>(loop.chunk), static_cast<long long>(a.lower), static_cast<long long>(a.upper),
                   static_cast<long long>(b.lower), static_cast<long long>(b.upper));
    }
  }
  return different;
}

}  // namespace

int main() {
  void* runtime = dlopen("libomp.so.5", RTLD_LAZY | RTLD_NOLOAD);
  if (runtime == nullptr) return 2;
  if (refuses_empty_chunks(runtime)) {
    least_chunk = 1;
    std::printf("without empty chunks, which this runtime refuses\n");
    std::fflush(stdout);
  }
  int different = 0;
  for (int threads : {2, 3, 4, 7, 8}) {
    different += differences<std::int32_t, std::int32_t>("__kmpc_for_static_init_4", runtime, threads);
    different += differences<std::uint32_t, std::int32_t>("__kmpc_for_static_init_4u", runtime, threads);
    different += differences<std::int64_t, std::int64_t>("__kmpc_for_static_init_8", runtime, threads);
    different += differences<std::uint64_t, std::int64_t>("__kmpc_for_static_init_8u", runtime, threads);
  }
  return different == 0 ? 0 : 1;
}
