// Registers the process for membarrier(2) before it can have a second thread. Later the kernel waits for all
// processors: that takes two ranks that poll seconds on a busy machine, and a constructor of a library that Open MPI
// needs (UCX) starts a thread before constructors of preload libraries run. What runs before all constructors is the
// choice of an indirect function, when the loader binds this library.
#include <linux/membarrier.h>
#include <sys/syscall.h>

namespace {

/// No function of the C library may be called yet.
long membarrier(long command) noexcept {
#if defined(__x86_64__)
  long result = SYS_membarrier;
  asm volatile("syscall" : "+a"(result) : "D"(command), "S"(0L), "d"(0L) : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long number asm("x8") = SYS_membarrier;
  register long result asm("x0") = command;
  register long flags asm("x1") = 0;
  register long cpu asm("x2") = 0;
  asm volatile("svc 0" : "+r"(result) : "r"(number), "r"(flags), "r"(cpu) : "memory");
  return result;
#endif
}

void nothing() noexcept {}

}  // namespace

extern "C" {

/// Without the system call, or without these commands: base/futex.hpp finds out by itself.
[[gnu::used]] static void (*smelt_mpi_register())() {
  (void)membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  (void)membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
  return &nothing;
}

[[gnu::ifunc("smelt_mpi_register")]] static void smelt_mpi_registered();

/// A reference, as only what is used is bound.
[[gnu::used]] void (*const smelt_mpi_registered_reference)() = &smelt_mpi_registered;
}
