// Constructors that look functions up, as those of OpenGL's libraries do:
//   FIRST    a library whose constructor looks something up before it is done
//   SECOND   one that needs it, and finds in its own constructor that it is done; a region there calls functions of the
//            runtime for the first time, in threads that do not load the library
//   THIRD    one that needs the second, as a module that a program loads
//   none     a program that is linked with the third, or loads the one that its argument names
#include <dlfcn.h>
#include <omp.h>

#include <cstdio>

extern "C" int first_is_ready;
extern "C" int second_threads(int threads);

#if defined(FIRST)

int first_is_ready = 0;

namespace {
[[gnu::constructor]] void begin() {
  first_is_ready = dlsym(RTLD_DEFAULT, "omp_get_wtime") != nullptr || dlsym(RTLD_DEFAULT, "printf") != nullptr ? 1 : 0;
}
}  // namespace

extern "C" int first_threads() { return omp_get_max_threads(); }

#elif defined(SECOND)

namespace {
int first_was_ready = 0;
[[gnu::constructor]] void begin() {
  int answers = 0;
#pragma omp parallel num_threads(3) reduction(+ : answers)
  if (omp_get_thread_num() != 0) {
#pragma omp task if (0)
    asm("");
    answers += omp_get_team_size(1) == 3 && omp_get_ancestor_thread_num(0) == 0 ? 1 : 0;
  }
  first_was_ready = first_is_ready * (answers == 2 ? 1 : 0);
}
}  // namespace

extern "C" int second_threads(int threads) {
  int sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  ++sum;
  return first_was_ready * sum;
}

#elif defined(THIRD)

extern "C" int third_threads(int threads) { return second_threads(threads); }

#else

extern "C" int third_threads(int threads);

int main(int argc, char** argv) {
  int (*function)(int) = nullptr;
#if defined(LINKED)
  function = third_threads;
#endif
  if (argc == 2) {
    void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 2;
    function = reinterpret_cast<int (*)(int)>(dlsym(library, "third_threads"));
  }
  const int threads = function(3);
  std::printf("%d threads\n", threads);
  return threads == 3 ? 0 : 1;
}

#endif
