/* A preload library before that of smelt: barriers come here first, go on to the next library, never back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int barriers;

void GOMP_barrier(void) {
  void (*next)(void);
  *(void**)&next = dlsym(RTLD_NEXT, "GOMP_barrier");
  atomic_fetch_add(&barriers, 1);
  next();
}

__attribute__((destructor)) static void report(void) { printf("%d barriers\n", barriers); }
