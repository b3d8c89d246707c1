/* For what membarrier(2) a process is registered when the first constructor runs: that of a library, before those of
   preload libraries. Exit status 0: for barriers of its own and of other processes; 77: the kernel, before Linux 6.3,
   does not tell. */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

long registrations_at_first(void);

#ifdef SMELT_LIBRARY

static long registrations;

__attribute__((constructor)) static void look(void) {
  const int get_registrations = 1 << 9;
  registrations = syscall(SYS_membarrier, get_registrations, 0, 0);
}

long registrations_at_first(void) { return registrations; }

#else

int main(void) {
  const long global_expedited = 1 << 2, private_expedited = 1 << 4;
  const long found = registrations_at_first();
  if (found < 0) {
    puts("the kernel does not tell what a process is registered for");
    return 77;
  }
  printf("registered: %#lx\n", found);
  return (found & global_expedited) != 0 && (found & private_expedited) != 0 ? 0 : 1;
}

#endif
