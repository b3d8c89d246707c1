// Registers the process for membarrier(2) while it has one thread. Later the kernel has to wait for all processors,
// which takes seconds where ranks poll on a busy machine. UCX, which Open MPI needs on some systems, starts a thread in
// a constructor that runs before those of preload libraries. The resolver of an indirect function runs before all
// constructors, when the loader binds this library.
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
