// What the preload library must not touch: a malloc of the program that asks the runtime, also while the library looks
// for that, and an error that dlerror() has yet to tell.
#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <new>

#include "check.hpp"

static constinit std::atomic<long> asked{0};

extern "C" void* __libc_malloc(std::size_t bytes);
extern "C" void* malloc(std::size_t bytes) {
  if (omp_get_thread_num() >= 0 && omp_get_max_threads() > 0) ++asked;
  return __libc_malloc(bytes);
}

int main() {
  CHECK(dlopen("no-such-library.so", RTLD_NOW) == nullptr);
  CHECK(team_size_now() == 2);
  const char* const error = dlerror();
  CHECK(error != nullptr && std::strstr(error, "no-such-library.so") != nullptr);
  CHECK(asked > 0);
  const long before = asked;
#pragma omp parallel num_threads(2)
  for (int i = 0; i < 100; ++i) {
    void* volatile memory = ::operator new(100);
#pragma omp barrier
    ::operator delete(memory);
  }
  CHECK(asked >= before + 200);
  return failures == 0 ? 0 : 1;
}
