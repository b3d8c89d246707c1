// A program without OpenMP that loads libraries with runtimes of their own, out of sight of each other, as interpreters
// do. Each is asked in the regions of each. With "again" they are closed and loaded again, in other orders, so that
// they come to their former addresses and to those of others. With "global" there is a runtime for all before, with
// "crowd" 4200 copies of the first file.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
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

/// Their threads may still be there when nobody needs them.
void keep_runtimes() {
  const auto keep = [](dl_phdr_info* library, std::size_t, void* files) {
    if (std::strstr(library->dlpi_name, "gomp") != nullptr) {
      static_cast<std::vector<std::string>*>(files)->emplace_back(library->dlpi_name);
    }
    return 0;
  };
  std::vector<std::string> files;
  dl_iterate_phdr(keep, &files);
  for (const auto& file : files) dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/// The number of errors.
int load_and_ask(const std::vector<const char*>& files, bool close) {
  int wrong = 0;
  std::vector<void*> libraries;
  std::vector<Module> modules;
  for (const char* file : files) {
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(2);
    }
    Module module = {};
    get(library, "numbers", module.numbers);
    get(library, "own_number", module.own_number);
    get(library, "set_threads", module.set_threads);
    get(library, "most_threads", module.most_threads);
    wrong += module.own_number() != 0;
    libraries.push_back(library);
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
  if (close) {
    keep_runtimes();
    for (void* library : libraries) dlclose(library);
  }
  return wrong;
}

/// Loads copies of a file, which are loaded although nothing is left of them.
bool load_crowd(const char* file) {
  char directory[] = "/tmp/smelt-crowd-XXXXXX";
  if (mkdtemp(directory) == nullptr) return false;
  bool loaded = true;
  for (int i = 0; i < 4200 && loaded; ++i) {
    const std::string copy = directory + std::string("/") + std::to_string(i);
    loaded = std::filesystem::copy_file(file, copy) && dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr;
    std::filesystem::remove(copy);
  }
  std::filesystem::remove(directory);
  return loaded;
}

}  // namespace

// What asks for a function that no library has at the start gets none.
extern "C" [[gnu::weak]] int omp_get_num_procs();

int main(int argc, char** argv) {
  int wrong = 0;
#ifndef SMELT_WITH_RUNTIME
  wrong += omp_get_num_procs != nullptr;
  wrong += dlsym(RTLD_DEFAULT, "omp_get_max_threads") != nullptr;
#endif
  const char* const first = argc > 1 ? argv[1] : "";
  const bool again = std::strcmp(first, "again") == 0, global = std::strcmp(first, "global") == 0;
  if (global && dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) return 2;
  const bool crowd = std::strcmp(first, "crowd") == 0;
  if (crowd && !load_crowd(argv[2])) return 2;
  std::vector<const char*> files(argv + (crowd ? 3 : again || global ? 2 : 1), argv + argc);
  for (int turn = 0; turn < (again ? 4 : 1); ++turn) {
    wrong += load_and_ask(files, again);
    std::rotate(files.begin(), files.begin() + (turn % 2), files.end());
  }
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
