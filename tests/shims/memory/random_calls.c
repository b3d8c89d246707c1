/* Random calls that programs make with memory, the same for a number. What every page has to contain is kept apart, and
   compared after each step. Prints what each call returned, as far as that does not depend on where memory lies.

   random_calls NUMBER [STEPS] */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

enum { page = 4096, mib = 1 << 20, most_areas = 24, most_pages = 64 * mib / page, threads = 3 };

typedef struct {
  char* begin; /* null: this place is free */
  size_t pages;
  size_t bytes;              /* of an allocation; 0: a mapping */
  int shared, file, divided; /* with children; of a file, in which nothing follows; of mappings that differ */
  uint32_t* wanted;          /* what begins each page; 0 where it is untouched */
  unsigned char* rights;     /* 1: not to be read or written */
} Area;

typedef struct {
  uint64_t random;
  Area areas[most_areas];
  FILE* out;
  int step, alone; /* alone: no other thread runs */
} Player;

static uint64_t next(Player* player) {
  player->random ^= player->random << 13;
  player->random ^= player->random >> 7;
  player->random ^= player->random << 17;
  return player->random;
}

static size_t below(Player* player, size_t bound) { return (size_t)(next(player) >> 11) % bound; }

static void say(Player* player, const char* what, long result, int error) {
  fprintf(player->out, "%d %s %ld%s%s\n", player->step, what, result, error != 0 ? " " : "",
          error != 0 ? strerrorname_np(error) : "");
}

/* A call that returns 0 or -1. */
#define CALL(player, what, call)       \
  do {                                 \
    errno = 0;                         \
    const long result_ = (call);       \
    say(player, what, result_, errno); \
  } while (0)

static void fail(Player* player, const char* what, size_t at) {
  fprintf(player->out, "%d WRONG %s at page %zu\n", player->step, what, at);
}

/* ---- areas --------------------------------------------------------------------------------------- */

static Area* free_place(Player* player) {
  for (int i = 0; i < most_areas; ++i) {
    if (player->areas[i].begin == NULL) return &player->areas[i];
  }
  return NULL;
}

static Area* any_area(Player* player, int allocation) {
  const size_t first = below(player, most_areas);
  for (size_t i = 0; i < most_areas; ++i) {
    Area* const area = &player->areas[(first + i) % most_areas];
    if (area->begin != NULL && (area->bytes != 0) == allocation) return area;
  }
  return NULL;
}

static void keep(Area* area, char* begin, size_t pages, size_t bytes) {
  *area = (Area){.begin = begin, .pages = pages, .bytes = bytes};
  area->wanted = calloc(pages + 1, sizeof *area->wanted);
  area->rights = calloc(pages + 1, 1);
}

static void drop(Area* area) {
  free(area->wanted);
  free(area->rights);
  *area = (Area){0};
}

static char* place_of(const Area* area, size_t at) { return area->begin + at * page; }

static void write_page(Area* area, size_t at, uint32_t value) {
  if (area->rights[at] != 0) return;
  memcpy(place_of(area, at), &value, sizeof value);
  memcpy(place_of(area, at) + 2000, &value, sizeof value);
  area->wanted[at] = value;
}

static void verify(Player* player, const Area* area, const char* what) {
  for (size_t at = 0; at < area->pages; ++at) {
    uint32_t first = 0, second = 0;
    if (area->rights[at] != 0) continue;
    memcpy(&first, place_of(area, at), sizeof first);
    memcpy(&second, place_of(area, at) + 2000, sizeof second);
    if (first != area->wanted[at] || second != area->wanted[at]) return fail(player, what, at);
  }
}

static uint64_t hash(const Area* area) {
  uint64_t value = area->pages;
  for (size_t at = 0; at < area->pages; ++at) value = value * 31 + area->wanted[at] + area->rights[at];
  return value;
}

/* Pages [first, first + count) of it. */
static void pick_part(Player* player, const Area* area, size_t* first, size_t* count) {
  *first = below(player, area->pages);
  *count = 1 + below(player, area->pages - *first);
  if (below(player, 3) == 0) *first = 0, *count = area->pages;
}

/* ---- calls --------------------------------------------------------------------------------------- */

static size_t some_pages(Player* player) {
  static const size_t sizes[] = {1, 3, 100, 512, 1024, 1536, 2000, 2048, 4096, 6000, 8192, 12288};
  return sizes[below(player, sizeof sizes / sizeof sizes[0])] + below(player, 3);
}

static int some_file(Player* player, size_t pages) {
  const int file = memfd_create("random_calls", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, (off_t)(pages * page)) != 0) say(player, "ftruncate", -1, errno);
  return file;
}

static void map(Player* player) {
  static const int flags[] = {0, 0, 0, 0, MAP_NORESERVE, MAP_POPULATE, MAP_STACK, MAP_NONBLOCK};
  Area* const area = free_place(player);
  const size_t pages = some_pages(player);
  const int kind = (int)below(player, 6), flag = flags[below(player, 8)];
  if (area == NULL) return;
  const int file = kind == 0 || kind == 1 ? some_file(player, pages) : -1;
  const int shared = kind == 1 || kind == 2;
  const int rights = below(player, 6) == 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
  errno = 0;
  char* const begin = mmap(NULL, pages * page, rights,
                           (shared ? MAP_SHARED : MAP_PRIVATE) | (file < 0 ? MAP_ANONYMOUS : 0) | flag, file, 0);
  say(player, "mmap", begin == MAP_FAILED ? -1 : (long)((uintptr_t)begin % page), errno);
  if (file >= 0) close(file);
  if (begin == MAP_FAILED) return;
  keep(area, begin, pages, 0);
  area->shared = shared, area->file = kind < 2;
  memset(area->rights, rights == PROT_NONE, pages);
}

/* Over a part of a mapping, or where nothing may be mapped over. */
static void map_over(Player* player) {
  Area* const area = any_area(player, 0);
  size_t first = 0, count = 0;
  if (area == NULL || area->shared) return;
  pick_part(player, area, &first, &count);
  const int fixed = below(player, 4) == 0 ? MAP_FIXED_NOREPLACE : MAP_FIXED;
  errno = 0;
  char* const begin =
      mmap(place_of(area, first), count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  say(player, "mmap over", begin == MAP_FAILED ? -1 : (long)(begin - place_of(area, first)), errno);
  if (begin == MAP_FAILED) return;
  area->divided = 1;
  memset(area->wanted + first, 0, count * sizeof *area->wanted);
  memset(area->rights + first, 0, count);
}

static void map_wrongly(Player* player) {
  static const struct {
    size_t bytes;
    int rights, flags;
  } calls[] = {{0, 3, MAP_PRIVATE | MAP_ANONYMOUS},
               {SIZE_MAX - 8 * mib, 3, MAP_PRIVATE | MAP_ANONYMOUS},
               {(size_t)1 << 60, 3, MAP_PRIVATE | MAP_ANONYMOUS},
               {8 * mib, 3, MAP_ANONYMOUS},
               {8 * mib, 3, MAP_PRIVATE},
               {8 * mib, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED}};
  const size_t i = below(player, sizeof calls / sizeof calls[0]);
  errno = 0;
  const void* const begin =
      mmap((void*)(uintptr_t)(i == 5 ? 77 : 0), calls[i].bytes, calls[i].rights, calls[i].flags, -1, 0);
  say(player, "mmap wrongly", begin == MAP_FAILED ? -1 : 0, errno);
}

static void unmap(Player* player) {
  Area* const area = any_area(player, 0);
  if (area == NULL) return;
  const size_t kept = below(player, 2) == 0 ? 0 : below(player, area->pages);
  if (below(player, 4) == 0) CALL(player, "munmap wrongly", munmap(area->begin + 5, page));
  CALL(player, "munmap", munmap(place_of(area, kept), (area->pages - kept) * page));
  area->pages = kept;
  if (kept == 0) drop(area);
}

static void remap(Player* player) {
  Area* const area = any_area(player, 0);
  if (area == NULL || area->shared || area->file || area->divided) return;
  const size_t pages = below(player, 2) == 0 ? 1 + below(player, area->pages) : area->pages + some_pages(player);
  int one = 1;
  for (size_t at = 0; at < area->pages; ++at) one &= area->rights[at] == area->rights[0];
  errno = 0;
  char* const begin = mremap(area->begin, area->pages * page, pages * page, MREMAP_MAYMOVE);
  const int error = errno;
  /* Mappings of several rights cannot grow; neither can what was mapped over, if the kernel does not unite it. */
  say(player, one ? "mremap" : "mremap of several", begin == MAP_FAILED ? -1 : (long)((uintptr_t)begin % page), error);
  if (begin == MAP_FAILED) return;
  const size_t common = pages < area->pages ? pages : area->pages;
  Area moved = {0};
  keep(&moved, begin, pages, 0);
  memcpy(moved.wanted, area->wanted, common * sizeof *area->wanted);
  memset(moved.rights, area->rights[0], pages);
  memcpy(moved.rights, area->rights, common);
  drop(area);
  *area = moved;
}

static void protect(Player* player) {
  Area* const area = any_area(player, 0);
  size_t first = 0, count = 0;
  if (area == NULL) return;
  pick_part(player, area, &first, &count);
  const int none = below(player, 2) == 0;
  errno = 0;
  const int result = below(player, 5) == 0
                         ? pkey_mprotect(place_of(area, first), count * page, none ? PROT_NONE : 3, -1)
                         : mprotect(place_of(area, first), count * page, none ? PROT_NONE : 3);
  say(player, "mprotect", result, errno);
  if (result == 0) memset(area->rights + first, none, count);
  area->divided |= count != area->pages;
  if (below(player, 4) == 0) CALL(player, "mprotect wrongly", mprotect(area->begin + 3, page, PROT_READ));
}

static void advise(Player* player) {
  static const int advice[] = {MADV_DONTNEED, MADV_DONTNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_WILLNEED, MADV_RANDOM,
                               MADV_NORMAL,   MADV_DONTFORK, MADV_DOFORK,   MADV_COLD,       MADV_PAGEOUT,  4711};
  Area* const area = any_area(player, 0);
  size_t first = 0, count = 0;
  if (area == NULL || area->shared) return;
  pick_part(player, area, &first, &count);
  const int given = advice[below(player, sizeof advice / sizeof advice[0])];
  if (given == MADV_DONTFORK) return;
  if (given == MADV_DONTNEED) {
    /* Private pages of files come back, too: they are never written in the file. */
    memset(area->wanted + first, 0, count * sizeof *area->wanted);
  }
  CALL(player, "madvise", madvise(place_of(area, first), count * page, given));
  area->divided |= given == MADV_HUGEPAGE || given == MADV_NOHUGEPAGE || given == MADV_RANDOM || given == MADV_NORMAL;
  if (below(player, 4) == 0) CALL(player, "madvise wrongly", madvise(area->begin + 1, page, MADV_DONTNEED));
}

static void lock(Player* player) {
  Area* const area = any_area(player, 0);
  unsigned char there = 0;
  if (area == NULL || area->rights[0] != 0) return;
  CALL(player, "mlock", mlock(area->begin, page));
  CALL(player, "mincore", mincore(area->begin, page, &there));
  CALL(player, "munlock", munlock(area->begin, page));
  CALL(player, "msync", msync(area->begin, page, MS_ASYNC));
}

static size_t some_bytes(Player* player) {
  static const size_t sizes[] = {1, 24, 1000, 5000, 140000, mib, 4 * mib, 5 * mib + 7, 9 * mib, 20 * mib, 40 * mib};
  return sizes[below(player, sizeof sizes / sizeof sizes[0])] + below(player, 100);
}

static void keep_allocation(Player* player, Area* area, const char* what, char* memory, size_t bytes,
                            size_t alignment) {
  say(player, what, memory == NULL ? -1 : (long)((uintptr_t)memory % alignment), memory == NULL ? errno : 0);
  if (memory == NULL) return;
  /* Pages here are parts of 4096 bytes from its beginning; the last one may be too short to be used. */
  keep(area, memory, bytes / page, bytes);
  for (size_t at = 0; at < area->pages; ++at) {
    memset(place_of(area, at), 0, 4), memset(place_of(area, at) + 2000, 0, 4);
    if (bytes > 8 * mib && at > 600) break;
  }
  for (size_t at = 0; at < area->pages; ++at) {
    if (bytes > 8 * mib && at > 600) area->rights[at] = 2; /* not written yet */
  }
}

static void allocate(Player* player) {
  Area* const area = free_place(player);
  const size_t bytes = some_bytes(player), alignment = (size_t)16 << below(player, 12);
  if (area == NULL) return;
  void* memory = NULL;
  int error = 0;
  errno = 0;
  switch (below(player, 6)) {
    case 0: return keep_allocation(player, area, "malloc", malloc(bytes), bytes, 16);
    case 1: return keep_allocation(player, area, "aligned_alloc", aligned_alloc(alignment, bytes), bytes, alignment);
    case 2: return keep_allocation(player, area, "memalign", memalign(alignment, bytes), bytes, alignment);
    case 3:
      error = posix_memalign(&memory, alignment, bytes);
      say(player, "posix_memalign", error, 0);
      return keep_allocation(player, area, "posix_memalign", memory, bytes, alignment);
    case 4: return keep_allocation(player, area, "reallocarray", reallocarray(NULL, 1, bytes), bytes, 16);
    default: memory = calloc(1, bytes);
  }
  keep_allocation(player, area, "calloc", memory, bytes, 16);
  if (memory != NULL) memset(area->rights, 0, area->pages); /* it is zero everywhere */
}

static void allocate_wrongly(Player* player) {
  void* memory = player;
  volatile size_t much = SIZE_MAX / 2 + 5;
  errno = 0;
  say(player, "malloc of too much", malloc(much) == NULL, errno);
  errno = 0;
  say(player, "calloc of too much", calloc(much, 4) == NULL, errno);
  say(player, "posix_memalign wrongly", posix_memalign(&memory, 24, 5 * mib), memory != player);
  errno = 0;
  say(player, "aligned_alloc of too much", aligned_alloc(64, much) == NULL, errno);
  errno = 0;
  say(player, "reallocarray of too much", reallocarray(NULL, much, 8) == NULL, errno);
  Area* const area = any_area(player, 1);
  errno = 0;
  if (area != NULL) say(player, "realloc to too much", realloc(area->begin, much) == NULL, errno);
}

static void reallocate(Player* player) {
  Area* const area = any_area(player, 1);
  const size_t bytes = some_bytes(player);
  if (area == NULL) return;
  char* const memory = realloc(area->begin, bytes);
  say(player, "realloc", memory == NULL ? -1 : (long)((uintptr_t)memory % 16), 0);
  if (memory == NULL) return;
  Area moved = {0};
  keep(&moved, memory, bytes / page, bytes);
  const size_t common = moved.pages < area->pages ? moved.pages : area->pages;
  memset(moved.rights, 2, moved.pages);
  memcpy(moved.wanted, area->wanted, common * sizeof *area->wanted);
  memcpy(moved.rights, area->rights, common);
  drop(area);
  *area = moved;
}

static void give_back(Player* player) {
  Area* const area = any_area(player, 1);
  if (area == NULL) return;
  errno = 77;
  free(area->begin);
  say(player, "free", errno, 0);
  drop(area);
}

/* In order, as most programs, backwards, or here and there. */
static void fill(Player* player) {
  Area* const area = any_area(player, (int)below(player, 2));
  if (area == NULL || area->pages == 0) return;
  const size_t order = below(player, 4), part = below(player, 3) == 0 ? area->pages / 2 : area->pages;
  for (size_t i = 0; i < part; ++i) {
    const size_t at = order == 0 ? area->pages - 1 - i : order == 1 ? below(player, area->pages) : i;
    if (area->rights[at] == 2) area->rights[at] = 0;
    write_page(area, at, (uint32_t)next(player) | 1);
    if (order == 1 && i > 200) break;
  }
  if (below(player, 3) == 0) usleep(3000);
}

/* ---- processes and signals ------------------------------------------------------------------------ */

static void verify_all(Player* player, const char* what) {
  for (int i = 0; i < most_areas; ++i) {
    if (player->areas[i].begin != NULL) verify(player, &player->areas[i], what);
  }
}

static void start_child(Player* player) {
  if (!player->alone) return;
  fflush(player->out);
  const pid_t child = below(player, 3) == 0 ? _Fork() : fork();
  if (child == 0) {
    verify_all(player, "in a child");
    player->random += 12345;
    for (int i = 0; i < 4; ++i) fill(player), map(player), unmap(player), allocate(player), protect(player);
    /* Shared memory is the parent's, too. */
    fflush(player->out);
    _exit(17);
  }
  int status = 0;
  waitpid(child, &status, 0);
  say(player, "child", WIFEXITED(status) ? WEXITSTATUS(status) : -status, 0);
  for (int i = 0; i < most_areas; ++i) { /* what the child may have written */
    Area* const area = &player->areas[i];
    for (size_t at = 0; area->begin != NULL && area->shared && at < area->pages; ++at) {
      if (area->rights[at] == 0) memcpy(&area->wanted[at], place_of(area, at), sizeof area->wanted[at]);
    }
  }
}

static void spawn(Player* player) {
  char* words[] = {(char*)"true", NULL};
  pid_t child = 0;
  int status = -1;
  if (!player->alone) return;
  say(player, "posix_spawn", posix_spawn(&child, "/bin/true", NULL, NULL, words, environ), 0);
  waitpid(child, &status, 0);
  child = vfork();
  if (child == 0) {
    execl("/bin/false", "false", (char*)NULL);
    _exit(9);
  }
  waitpid(child, &status, 0);
  say(player, "vfork", status, 0);
}

static char* volatile barrier_begin;
static volatile size_t barrier_bytes;
static volatile sig_atomic_t barrier_hits;

static void on_fault(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  char* const at = info->si_addr;
  if (at < barrier_begin || at >= barrier_begin + barrier_bytes) _exit(99);
  mprotect((char*)((uintptr_t)at / page * page), page, PROT_READ | PROT_WRITE);
  ++barrier_hits;
}

/* As collectors see what was written. */
static void write_barrier(Player* player) {
  Area* const area = any_area(player, 0);
  if (area == NULL || !player->alone || area->rights[0] != 0) return;
  size_t pages = 0;
  while (pages < area->pages && area->rights[pages] == 0) ++pages;
  barrier_begin = area->begin, barrier_bytes = pages * page, barrier_hits = 0;
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
  sigaction(SIGSEGV, &action, &before);
  CALL(player, "mprotect", mprotect(area->begin, pages * page, PROT_READ));
  area->divided = 1; /* what is written meanwhile may remain in several mappings */
  for (size_t i = 0; i < 20; ++i) write_page(area, below(player, pages), (uint32_t)next(player) | 1);
  say(player, "write barrier", barrier_hits, 0);
  CALL(player, "mprotect", mprotect(area->begin, pages * page, PROT_READ | PROT_WRITE));
  sigaction(SIGSEGV, &before, NULL);
}

/* The heap's end, as a program with a heap of its own moves it. */
static void move_break(Player* player) {
  if (!player->alone) return;
  char* const before = sbrk(0);
  char* const begin = sbrk(3 * mib);
  say(player, "sbrk", begin == before, 0);
  if (begin == (void*)-1) return;
  memset(begin, 5, 3 * mib);
  say(player, "sbrk back", sbrk(-3 * mib) == begin + 3 * mib, 0);
  say(player, "malloc_trim", (malloc_trim(0), 0), 0);
}

/* Files have the smallest numbers that are free. */
static void open_files(Player* player) {
  int pair[2] = {-1, -1};
  if (!player->alone) return;
  CALL(player, "pipe", pipe(pair));
  say(player, "files", pair[0] * 100L + pair[1], 0);
  close(pair[0]), close(pair[1]);
}

static void limit(Player* player) {
  struct rlimit before, small;
  if (!player->alone || getrlimit(RLIMIT_AS, &before) != 0) return;
  small = before, small.rlim_cur = 64 * mib;
  setrlimit(RLIMIT_AS, &small);
  errno = 0;
  say(player, "malloc beyond the limit", malloc((size_t)200 * mib) == NULL, errno);
  errno = 0;
  const void* const memory = mmap(NULL, (size_t)200 * mib, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  say(player, "mmap beyond the limit", memory == MAP_FAILED, errno);
  setrlimit(RLIMIT_AS, &before);
}

/* ---- the whole ------------------------------------------------------------------------------------- */

static void step(Player* player) {
  static void (*const calls[])(Player*) = {map,
                                           map,
                                           map,
                                           map_over,
                                           map_wrongly,
                                           unmap,
                                           unmap,
                                           remap,
                                           remap,
                                           remap,
                                           protect,
                                           protect,
                                           advise,
                                           lock,
                                           allocate,
                                           allocate,
                                           allocate,
                                           reallocate,
                                           allocate_wrongly,
                                           give_back,
                                           give_back,
                                           fill,
                                           fill,
                                           fill,
                                           fill,
                                           fill,
                                           start_child,
                                           spawn,
                                           limit,
                                           write_barrier,
                                           move_break,
                                           open_files};
  calls[below(player, sizeof calls / sizeof calls[0])](player);
  uint64_t all = 0;
  for (int i = 0; i < most_areas; ++i) {
    if (player->areas[i].begin != NULL) all = all * 131 + hash(&player->areas[i]);
  }
  if (player->step % 8 == 0) verify_all(player, "contents");
  say(player, "areas", (long)(all >> 1), 0);
}

static void play(Player* player, int steps) {
  for (player->step = 0; player->step < steps; ++player->step) step(player);
  verify_all(player, "contents in the end");
  for (int i = 0; i < most_areas; ++i) {
    Area* const area = &player->areas[i];
    if (area->begin == NULL) continue;
    if (area->bytes != 0)
      free(area->begin);
    else if (munmap(area->begin, area->pages * page) != 0)
      fail(player, "munmap", 0);
    drop(area);
  }
}

typedef struct {
  Player player;
  int steps;
  char* text;
  size_t bytes;
} Thread;

static void* run(void* argument) {
  Thread* const thread = argument;
  play(&thread->player, thread->steps);
  return NULL;
}

int main(int count, char** words) {
  const uint64_t number = count > 1 ? strtoull(words[1], NULL, 10) : 1;
  const int steps = count > 2 ? atoi(words[2]) : 120, several = number % 3 == 0;
  static Thread all[threads];
  pthread_t started[threads];
  for (int i = 0; i < (several ? threads : 1); ++i) {
    all[i].player.random = (number + 1) * 0x9e3779b97f4a7c15u + (uint64_t)i * 77777;
    all[i].player.out = open_memstream(&all[i].text, &all[i].bytes);
    all[i].player.alone = !several;
    all[i].steps = several ? steps / threads : steps;
    if (!several) {
      fclose(all[i].player.out);
      all[i].player.out = stdout;
      run(&all[i]);
    } else if (pthread_create(&started[i], NULL, run, &all[i]) != 0) {
      return 1;
    }
  }
  for (int i = 0; several && i < threads; ++i) {
    pthread_join(started[i], NULL);
    fclose(all[i].player.out);
    fputs(all[i].text, stdout);
  }
  return 0;
}
