/* A program at fixed addresses that uses the address of malloc: the linker defines a stub of that name in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  void* (*volatile allocate)(size_t) = malloc;
  const size_t bytes = (size_t)64 << 20;
  char* const memory = allocate(bytes);
  if (memory == NULL) return 1;
  memset(memory, 1, bytes);
  printf("%d\n", memory[bytes - 1]);
  free(memory);
  return 0;
}
