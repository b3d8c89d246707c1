/* Kernels for AArch64 with pages of 64 KiB have huge pages of 512 MiB. This program makes the library believe that it
 * runs on one, and uses little of a large allocation. To find out what one huge page costs would take 1 GiB. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int getpagesize(void) { return 64 << 10; }

int open(const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(more, int) : 0;
  va_end(more);
  if (strstr(name, "hpage_pmd_size") == NULL) return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
  int ends[2];
  const char size[] = "536870912\n";
  if (pipe(ends) != 0 || write(ends[1], size, sizeof size - 1) < 0) return -1;
  close(ends[1]);
  return ends[0];
}

int main(void) {
  const size_t bytes = (size_t)1536 << 20;
  char* const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  memset(memory, 1, 1 << 20);
  usleep(20000);
  return 0;
}
