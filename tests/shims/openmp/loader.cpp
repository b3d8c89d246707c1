// Alternates calls of regions() in libraries that it loads, as an interpreter loads modules; without an argument, calls
// its own. Prints how often any code has looked up libraries meanwhile.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <vector>

namespace {
using Regions = int(int threads, int rounds, int (*inner)());
std::atomic<int> look_ups{0};
}  // namespace

extern "C" void* dlopen(const char* file, int mode) noexcept {
  static const auto original = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  ++look_ups;
  return original(file, mode);
}

int main(int argc, char** argv) {
  std::vector<Regions*> modules;
  for (int i = 1; i == 1 || i < argc; ++i) {
    void* library = dlopen(argc > 1 ? argv[i] : nullptr, RTLD_NOW | RTLD_LOCAL);
    void* regions = library != nullptr ? dlsym(library, "regions") : nullptr;
    if (regions == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 2;
    }
    modules.push_back(reinterpret_cast<Regions*>(regions));
  }
  look_ups = 0;
  int wrong = 0;
  for (int turn = 0; turn < 100; ++turn) {
    for (const auto& regions : modules) wrong += regions(2, 2, nullptr);
    // A look-up that unloads nothing, as interpreters make, too.
    if (turn % 10 == 0) dlclose(dlopen(nullptr, RTLD_NOW));
  }
  std::printf("%d wrong\n", wrong);
  std::fprintf(stderr, "%d look-ups\n", look_ups.load());
  return wrong == 0 ? 0 : 1;
}
