// A program without OpenMP that loads libraries with runtimes of their own, out of sight of each other, as interpreters
// do. Each is asked in the regions of each.
#include <dlfcn.h>

#include <cstdio>
#include <vector>

namespace {

struct Module {
  int (*numbers)(int, int (*)(), int (*)());
  int (*own_number)();
  void (*set_threads)(int);
  int (*most_threads)();
};

template <class Function>
void get(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

int nobody() { return 0; }

}  // namespace

// What asks for a function that no library has at the start gets none.
extern "C" [[gnu::weak]] int omp_get_num_procs();

int main(int argc, char** argv) {
  int wrong = 0;
#ifndef SMELT_WITH_RUNTIME
  wrong += omp_get_num_procs != nullptr;
  wrong += dlsym(RTLD_DEFAULT, "omp_get_max_threads") != nullptr;
#endif
  std::vector<Module> modules;
  for (int i = 1; i < argc; ++i) {
    void* library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 2;
    }
    Module module = {};
    get(library, "numbers", module.numbers);
    get(library, "own_number", module.own_number);
    get(library, "set_threads", module.set_threads);
    get(library, "most_threads", module.most_threads);
    wrong += module.own_number() != 0;
    modules.push_back(module);
  }
  // Control variables are each runtime's own.
  for (std::size_t i = 0; i < modules.size(); ++i) modules[i].set_threads(2 + static_cast<int>(i));
  for (std::size_t i = 0; i < modules.size(); ++i) wrong += modules[i].most_threads() != 2 + static_cast<int>(i);
  for (const auto& module : modules) {
    for (const auto& other : modules) {
      wrong += module.numbers(4, module.own_number, &other != &module ? other.own_number : nobody);
    }
  }
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
