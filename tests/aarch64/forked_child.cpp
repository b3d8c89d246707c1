// The child process that timings need. Ends with 0 if it runs under the emulator, too.
#include "measure/forked_child.hpp"

#include <sys/mman.h>

#include <atomic>

int main() {
  void* const memory = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  std::atomic_ref<int> ran(*static_cast<int*>(memory));
  const smelt::measure::ForkedChild child(0, [&] { ran.store(1, std::memory_order_relaxed); });
  if (child.pid() <= 0) return 1;
  while (ran.load(std::memory_order_relaxed) == 0) usleep(100);
  return 0;
}
