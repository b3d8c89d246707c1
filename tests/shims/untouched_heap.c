// Whether the heap is in the state in which the C library leaves it: no code has allocated memory before main().
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  char maps[65536];
  size_t length = 0;
  const int file = open("/proc/self/maps", O_RDONLY);
  for (ssize_t got; (got = read(file, maps + length, sizeof maps - 1 - length)) > 0;) length += (size_t)got;
  maps[length] = '\0';
  const char* answer = strstr(maps, "[heap]") == NULL ? "untouched\n" : "touched\n";
  return write(STDOUT_FILENO, answer, strlen(answer)) > 0 ? 0 : 1;
}
