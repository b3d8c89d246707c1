// Library routines that the shim answers: a parked master is outside of all regions, although it is in one for the
// runtime. Each exists for programs built by GCC and by clang (exports.map), in C and in Fortran.
#include "shims/openmp/hot_team.hpp"

namespace smelt::shims::openmp {
namespace {

/// The answers of a routine in the states parked, alone and inside. In other states the original is called.
template <Family family, class Parked, class Alone, class Inside>
int answer(int (*Runtime::*original)(), const void* caller, Parked when_parked, Alone when_alone,
           Inside when_inside) noexcept {
  const Runtime& below = runtime(family, caller);
  if (smelt_openmp_state != outside && self.hot_team->runtime->is_one_with(below)) {
    if (smelt_openmp_state == inside) return when_inside();
    if (smelt_openmp_state == parked) return when_parked();
    if (smelt_openmp_state == alone) return when_alone();
  }
  return (below.*original)();
}

int zero() noexcept { return 0; }
int one() noexcept { return 1; }
int own_number() noexcept { return self.member; }
int team_size() noexcept { return self.hot_team->size; }
int usual_threads() noexcept { return self.max_threads; }

template <Family family>
int ask(int (*Runtime::*original)(), const void* caller) noexcept {
  const Runtime& below = runtime(family, caller);
  // For the runtime the thread is in a region. So it is for the program in a region of one, where another number may
  // hold: OMP_NUM_THREADS can list one for each level.
  if (smelt_openmp_state == parked && parked_by(below)) return usual_threads();
  return (below.*original)();
}

template <Family family>
void set_num_threads(int threads, const void* caller) noexcept {
  const Runtime& below = runtime(family, caller);
  // Some programs call it before every region.
  if (smelt_openmp_state == parked && parked_by(below) && threads == self.max_threads) return;
  dissolve("omp_set_num_threads");
  call_off();
  below.set_num_threads(threads);
}

}  // namespace
}  // namespace smelt::shims::openmp

using namespace smelt::shims::openmp;

#define SMELT_ROUTINE(label, type, arguments, alias)                                       \
  extern "C" [[gnu::visibility("default")]] type label arguments noexcept __asm__(#label); \
  __asm__(".symver " #label ", " alias ", remove");                                        \
  extern "C" type label arguments noexcept
#define SMELT_CALLER __builtin_return_address(0)

// Twice each: `name` and, for Fortran, `name_`.
#define SMELT_ANSWER_AS(routine, suffix, version, original, when_parked, when_alone, when_inside)        \
  SMELT_ROUTINE(gnu_##routine##suffix, int, (), #routine #suffix "@" version) {                          \
    return answer<Family::gnu>(&Runtime::original, SMELT_CALLER, when_parked, when_alone, when_inside);  \
  }                                                                                                      \
  SMELT_ROUTINE(llvm_##routine##suffix, int, (), #routine #suffix "@@VERSION") {                         \
    return answer<Family::llvm>(&Runtime::original, SMELT_CALLER, when_parked, when_alone, when_inside); \
  }
#define SMELT_ANSWER(routine, version, original, when_parked, when_alone, when_inside) \
  SMELT_ANSWER_AS(routine, , version, original, when_parked, when_alone, when_inside)  \
  SMELT_ANSWER_AS(routine, _, version, original, when_parked, when_alone, when_inside)
#define SMELT_ASK_AS(routine, suffix, version, original)                         \
  SMELT_ROUTINE(gnu_##routine##suffix, int, (), #routine #suffix "@" version) {  \
    return ask<Family::gnu>(&Runtime::original, SMELT_CALLER);                   \
  }                                                                              \
  SMELT_ROUTINE(llvm_##routine##suffix, int, (), #routine #suffix "@@VERSION") { \
    return ask<Family::llvm>(&Runtime::original, SMELT_CALLER);                  \
  }

SMELT_ANSWER(omp_get_thread_num, "OMP_1.0", get_thread_num, zero, zero, own_number)
SMELT_ANSWER(omp_get_num_threads, "OMP_1.0", get_num_threads, one, one, team_size)
SMELT_ANSWER(omp_in_parallel, "OMP_1.0", in_parallel, zero, zero, one)
SMELT_ANSWER(omp_get_level, "OMP_3.0", get_level, zero, one, one)
SMELT_ANSWER(omp_get_active_level, "OMP_3.0", get_active_level, zero, zero, one)
SMELT_ASK_AS(omp_get_max_threads, , "OMP_1.0", get_max_threads)
SMELT_ASK_AS(omp_get_max_threads, _, "OMP_1.0", get_max_threads)

SMELT_ROUTINE(gnu_omp_set_num_threads, void, (int threads), "omp_set_num_threads@OMP_1.0") {
  set_num_threads<Family::gnu>(threads, SMELT_CALLER);
}
SMELT_ROUTINE(llvm_omp_set_num_threads, void, (int threads), "omp_set_num_threads@@VERSION") {
  set_num_threads<Family::llvm>(threads, SMELT_CALLER);
}
