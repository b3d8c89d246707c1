/* Programs that are not to notice the library, one for each word: each ends with 0 as it does without it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LIBRARY

static void* allocate(void* argument) {
  void* const memory = aligned_alloc(64, 64 << 20);
  free(memory);
  return memory != NULL ? argument : NULL;
}

/* Whoever loads this waits for a thread that allocates. */
__attribute__((constructor)) static void wait_for_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, allocate, NULL) == 0) pthread_join(thread, NULL);
}

#else

enum { mib = 1 << 20 };

#ifdef THREAD_LOCAL
/* Each thread has that much on its stack. */
static __thread volatile char local[54 << 10];
#else
static volatile char local[1];
#endif

static char* map(size_t bytes) { return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

/* Slowly, so that the library sees that it is filled. */
static void fill(char* memory, size_t bytes) {
  for (size_t at = 0; at < bytes; at += mib) {
    memset(memory + at, 1, bytes - at < mib ? bytes - at : mib);
    usleep(1000);
  }
}

/* The kernel moves and extends one mapping, not several. */
static int remaps(size_t filled, int protected, int mapped_over) {
  const size_t bytes = (size_t)64 * mib;
  char* const memory = map(bytes);
  fill(memory, filled);
  usleep(20000);
  if (protected != 0 && (mprotect(memory + bytes / 2, 4096, PROT_READ) != 0 ||
                         mprotect(memory + bytes / 2, 4096, PROT_READ | PROT_WRITE) != 0))
    return 1;
  if (mapped_over != 0 && mmap(memory + bytes / 4, bytes / 4, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
    return 1;
  char* const moved = mremap(memory, bytes, 2 * bytes, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) return 1;
  const int wrong = moved[0] != (filled > 0) || moved[filled] != 0;
  return munmap(moved, 2 * bytes) != 0 || wrong;
}

static int remap(void) {
  return remaps(0, 0, 0) + remaps(mib, 0, 0) + remaps((size_t)30 * mib, 0, 0) + remaps((size_t)64 * mib - 4096, 1, 0) +
         remaps((size_t)8 * mib, 0, 1);
}

/* An array that grows is moved, not copied: it is there once. */
static int reallocate(void) {
  char* memory = malloc((size_t)200 * mib);
  fill(memory, (size_t)200 * mib);
  memory = realloc(memory, (size_t)220 * mib);
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  const int wrong = memory[(size_t)200 * mib - 1] != 1 || used.ru_maxrss > 300 << 10;
  free(memory);
  return wrong;
}

/* The process ends with its last thread. */
static int end_main_thread(void) {
  fill(malloc((size_t)8 * mib), (size_t)8 * mib);
  pthread_exit(NULL);
}

static void* allocate_cancelled(void* argument) {
  pthread_cancel(pthread_self());
  free(malloc((size_t)64 * mib));
  *(int*)argument = 1;
  pthread_testcancel();
  return NULL;
}

static int cancel(void) {
  pthread_t thread;
  void* result = NULL;
  int allocated = 0;
  if (pthread_create(&thread, NULL, allocate_cancelled, &allocated) != 0) return 1;
  pthread_join(thread, &result);
  return allocated != 1 || result != PTHREAD_CANCELED;
}

static int use_thread_local(void) {
  local[sizeof local - 1] = 1;
  char* const memory = malloc((size_t)64 * mib);
  fill(memory, (size_t)64 * mib);
  free(memory);
  return local[sizeof local - 1] != 1;
}

static int ask_for_error(void) {
  if (dlopen("/nowhere/library.so", RTLD_NOW) != NULL) return 1;
  free(malloc((size_t)64 * mib));
  return dlerror() == NULL;
}

static int load(const char* library) { return dlopen(library, RTLD_NOW) == NULL; }

/* A container or a sandbox may forbid it in any case: then there is nothing to see. */
static int unshare_users(void) {
  fill(malloc((size_t)8 * mib), (size_t)8 * mib);
  return unshare(CLONE_NEWUSER) != 0 && errno == EINVAL;
}

static int protect(void) {
  for (int i = 0; i < 20; ++i) {
    char* const memory = map((size_t)7 * mib);
    memset(memory, 0, (size_t)7 * mib);
    if (pkey_mprotect(memory, (size_t)7 * mib, PROT_NONE, -1) != 0) return 1;
    usleep(10000);
  }
  return 0;
}

/* A child by way of _Fork has no handler called that could put the library's lock in order. */
static int fork_often(void) {
  for (int i = 0; i < 40; ++i) {
    char* const memory = map((size_t)64 * mib);
    memset(memory, 1, (size_t)16 * mib);
    const pid_t child = _Fork();
    if (child == 0) _exit(mprotect(memory, 4096, PROT_READ) != 0 || memory[0] != 1);
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
    munmap(memory, (size_t)64 * mib);
  }
  return 0;
}

static void map_and_unmap(int number) {
  (void)number;
  munmap(map((size_t)8 * mib), (size_t)8 * mib);
}

/* A signal arrives anywhere, and its handler may map memory, as those of collectors and profilers do. */
static int map_in_handler(void) {
  signal(SIGALRM, map_and_unmap);
  const struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < 50000; ++i) {
    munmap(map((size_t)8 * mib), (size_t)8 * mib);
    free(malloc((size_t)5 * mib));
  }
  return setitimer(ITIMER_REAL, &never, NULL) != 0;
}

/* What the kernel would do with a mapping of the program's own. */
static int collapse(void) {
  enum { huge = 2 * mib, advice = 25 /* MADV_COLLAPSE, of Linux 6.1 */ };
  const size_t bytes = (size_t)32 * mib;
  char* const plain = aligned_alloc(huge, huge); /* too small for the library */
  memset(plain, 1, huge);
  if (madvise(plain, huge, advice) != 0) return 0; /* nor would it without the library */
  for (int filled = 0; filled < 2; ++filled) {
    char* const memory = map(bytes);
    if (filled != 0) fill(memory, bytes);
    char* const block = memory + (huge - (size_t)memory % huge) % huge;
    memset(block, 1, 2 * huge);
    for (int i = 0; i < 2; ++i) {
      errno = 0;
      if (madvise(block + i * huge, huge, advice) != 0 && errno == EINVAL) return 1;
    }
  }
  return 0;
}

/* The fifth argument of mremap says where to look first, with MREMAP_DONTUNMAP. */
static int remap_near(void) {
  const size_t bytes = (size_t)8 * mib;
  char *const from = map(bytes), *const place = map(bytes);
  fill(from, bytes);
  munmap(place, bytes);
  char* const moved = mremap(from, bytes, bytes, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */, place);
  if (moved == MAP_FAILED) return errno != EINVAL; /* an older kernel */
  return moved != place || moved[0] != 1;
}

int main(int count, char** words) {
  static const struct {
    const char* name;
    int (*run)(void);
  } programs[] = {{"remap", remap},
                  {"remap_near", remap_near},
                  {"reallocate", reallocate},
                  {"collapse", collapse},
                  {"map_in_handler", map_in_handler},
                  {"end_main_thread", end_main_thread},
                  {"cancel", cancel},
                  {"use_thread_local", use_thread_local},
                  {"ask_for_error", ask_for_error},
                  {"unshare_users", unshare_users},
                  {"protect", protect},
                  {"fork_often", fork_often}};
  if (count == 3 && strcmp(words[1], "load") == 0) return load(words[2]);
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; ++i) {
    if (count == 2 && strcmp(words[1], programs[i].name) == 0) return programs[i].run();
  }
  return 2;
}

#endif
