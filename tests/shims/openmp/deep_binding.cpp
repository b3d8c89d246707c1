// A plugin that is opened with RTLD_DEEPBIND, so that its calls find the runtime before the preload library: it is in
// no region of the program's, and gets its threads, be it entered by its constructor, by what that registers, or by
// what is looked up in it. Prints what was wrong.
#include "check.hpp"

#ifdef SMELT_RUNTIME

extern "C" void GOMP_parallel() {}
extern "C" void __kmpc_fork_call() {}

#elif defined(SMELT_PLUGIN)

extern "C" [[gnu::weak]] void register_plugin(int size_in_constructor, int (*run)(int threads));

namespace {

int run(int threads) {
  const int before = failures;
  CHECK(omp_in_parallel() == 0);
  CHECK(omp_get_level() == 0);
  std::atomic<int> count{0};
#pragma omp parallel num_threads(threads)
  {
    CHECK(omp_get_num_threads() == threads);
    ++count;
#pragma omp barrier
    CHECK(count == threads);
#pragma omp barrier
#pragma omp for schedule(dynamic)
    for (int i = 0; i < 10; ++i) ++count;
    CHECK(count == threads + 10);
  }
  CHECK(omp_in_parallel() == 0);
  return failures - before;
}

struct Registration {
  Registration() {
    if (register_plugin != nullptr) register_plugin(SMELT_PLUGIN == 2 ? team_size_now() : 0, run);
  }
} registration;

}  // namespace

extern "C" int run_plugin(int threads) { return run(threads); }
extern "C" int most_threads() { return omp_get_max_threads(); }

#else

#include <dlfcn.h>

#include <cstdlib>

namespace {
int size_in_constructor = 0;
int (*registered)(int threads) = nullptr;
}  // namespace

extern "C" [[gnu::visibility("default")]] void register_plugin(int size, int (*run)(int threads)) {
  size_in_constructor = size;
  registered = run;
}

namespace {

void* open(const char* file, int mode) {
  void* const library = dlopen(file, mode);
  if (library != nullptr) return library;
  std::fprintf(stderr, "FAILED: %s\n", dlerror());
  std::exit(1);
}

using Run = int (*)(int);

/// Regions of the program's, or of another plugin's, between those of the plugin's.
template <class Regions>
void take_turns(Regions regions, Run run) {
  for (int round = 0; round < 20; ++round) {
    regions();
    CHECK(run(2) == 0);
    CHECK(run(3) == 0);
    CHECK(run(3) == 0);
  }
}

}  // namespace

// lazy FILE [RUNTIME_THAT_GOES] | now FILE | other FILE | second FIRST_FILE FILE
int main(int argc, char** argv) {
  const std::string mode = argv[1];
  if (mode == "second") {  // of those that brought the runtime
    const auto first = reinterpret_cast<Run>(dlsym(open(argv[2], RTLD_NOW), "run_plugin"));
    const auto regions = [&] { CHECK(first(2) == 0); };
    regions();
    void* const plugin = open(argv[3], RTLD_NOW | RTLD_DEEPBIND);
    take_turns(regions, registered);
    take_turns(regions, reinterpret_cast<Run>(dlsym(plugin, "run_plugin")));
  } else {
#ifdef _OPENMP
    const bool other = mode == "other";  // the plugin has a runtime of its own, with its own settings
    if (other) omp_set_num_threads(3);
    const auto regions = [other] { CHECK(team_size_now() == (other ? 3 : 2)); };
    for (int i = 0; i < 50; ++i) regions();  // so that the team is worth making again at once
    if (argc > 3) {                          // the plugin gets its place
      void* const runtime = open(argv[3], RTLD_NOW);
      CHECK(dlsym(runtime, "nothing") == nullptr);
      dlclose(runtime);
    }
    void* const plugin = open(argv[2], (mode == "lazy" ? RTLD_LAZY : RTLD_NOW) | RTLD_DEEPBIND);
    CHECK(size_in_constructor == (mode == "lazy" ? 0 : 2));
    take_turns(regions, registered);
    take_turns(regions, reinterpret_cast<Run>(dlsym(plugin, "run_plugin")));
    CHECK(reinterpret_cast<int (*)()>(dlsym(plugin, "most_threads"))() == 2);
    regions();
#endif
  }
  std::printf("%d failures\n", failures.load());
  return failures == 0 ? 0 : 1;
}

#endif
