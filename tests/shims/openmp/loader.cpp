// Runs regions() out of a library that it loads, as an interpreter does with a module; without an argument, its own.
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  void* library = dlopen(argc > 1 ? argv[1] : nullptr, RTLD_NOW | RTLD_LOCAL);
  void* regions = library != nullptr ? dlsym(library, "regions") : nullptr;
  if (regions == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const int wrong = reinterpret_cast<int (*)(int, int, int (*)())>(regions)(2, 200, nullptr);
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
