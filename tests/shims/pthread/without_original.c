// Barriers in a process in which the shim finds no barriers of a C library, because LIBRARY hides them from look-ups. A
// call that the shim would pass on ends in an error.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef LIBRARY

void* dlsym(void* handle, const char* name) {
  static void* (*original)(void*, const char*);
  if (strncmp(name, "pthread_barrier_", 16) == 0) return NULL;
  for (const char* const* version = (const char* const[]){"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5", NULL};
       original == NULL && *version != NULL; ++version) {
    original = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", *version);
  }
  return original(handle, name);
}

#else

static int wrong;

static void expect(int expected, int got, const char* what) {
  if (got == expected) return;
  printf("%s: %d instead of %d\n", what, got, expected);
  ++wrong;
}

int main(void) {
  pthread_barrier_t foreign, barrier;
  memset(&foreign, 0, sizeof foreign);
  expect(EINVAL, pthread_barrier_wait(&foreign), "wait for a foreign barrier");
  expect(EINVAL, pthread_barrier_destroy(&foreign), "destroy a foreign barrier");
  expect(EINVAL, pthread_barrier_init(&barrier, NULL, 0), "init for nobody");
  expect(0, pthread_barrier_init(&barrier, NULL, 1), "init");
  expect(PTHREAD_BARRIER_SERIAL_THREAD, pthread_barrier_wait(&barrier), "wait");
  expect(0, pthread_barrier_destroy(&barrier), "destroy");
  return wrong == 0 ? 0 : 1;
}

#endif
