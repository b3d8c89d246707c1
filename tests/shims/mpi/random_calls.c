/* A random MPI program, made from a number: collectives of all forms on communicators that come and go, and among them
   messages, one-sided access, errors, signals and processes. Prints what each rank got; that does not depend on how the
   ranks are scheduled, nor on which correct MPI serves it.

     mpiexec -n N random_calls NUMBER [without-errors] [without-threads]

   All ranks of a communicator draw the same calls (`Run::common`). How they describe their data each draws for itself
   (`Run::own`), and also when they make the calls and how they complete them (`Run::timing`). */
#define _GNU_SOURCE
#include <mpi.h>
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION == 4
#include <mpi-ext.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* What MPICH 4.0 does wrong is left out: it loses operations of a communicator that is freed; persistent collectives
   may fail from the second time on, or give the first time's results, or fail with derived types; and Igather does not
   write all items of a type whose basic types differ. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
enum { mpich_4_0 = 1 };
#else
enum { mpich_4_0 = 0 };
#endif

/* MPICH 4: from the second time on, the root's own part of a persistent gather or scatter may be that of the first. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 50000000
enum { mpich_4 = 1 };
#else
enum { mpich_4 = 0 };
#endif

/* Open MPI 4.1 may wait for ever where several threads make communicators at the same time, also without smelt. */
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION == 4
enum { openmpi_4 = 1 };
#else
enum { openmpi_4 = 0 };
#endif

enum { slots = 6, most_jobs = 8, most_ranks = 64, guard = 64, blank = 0xA5 };

#define FAIL(...) (fprintf(stderr, "random_calls: " __VA_ARGS__), fputc('\n', stderr), MPI_Abort(MPI_COMM_WORLD, 3))
#define MUST(call) must((call), #call)

static void must(int status, const char* call) {
  if (status != MPI_SUCCESS) FAIL("%s: status %d", call, status);
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

typedef struct {
  uint64_t state;
} Random;

static Random random_from(uint64_t a, uint64_t b, uint64_t c) { return (Random){mix(mix(mix(a + 1) + b + 1) + c + 1)}; }

static uint64_t draw(Random* from) { return mix(from->state += 0x9E3779B97F4A7C15u); }
static int below(Random* from, int limit) { return (int)(draw(from) % (uint64_t)limit); }
static int chance(Random* from, int percent) { return below(from, 100) < percent; }

static uint64_t hash(uint64_t so_far, const void* data, size_t bytes) {
  const unsigned char* const at = data;
  for (size_t i = 0; i < bytes; i++) so_far = (so_far ^ at[i]) * 0x100000001B3u;
  return so_far;
}

/* ---- a thread's part of the program ------------------------------------------------------------ */

typedef struct Job Job;

typedef struct {
  uint64_t number;
  int thread, threads, step;
  int rank; /* among all */
  Random common, own, timing;
  MPI_Comm comms[slots]; /* the first one stays; null where this rank has no part in it */
  int used[slots];       /* on some rank */
  int prepared[slots];   /* has persistent operations, on some rank */
  int started;           /* on some rank: operations under way */
  Job* jobs[most_jobs];  /* those of this rank */
} Run;

static void print(const Run* run, const char* what, int rank, uint64_t value) {
  printf("%d.%d.%d %s %d %016llx\n", run->rank, run->thread, run->step, what, rank, (unsigned long long)value);
}

static void dawdle(Run* run) {
  if (chance(&run->timing, 10)) usleep((unsigned)below(&run->timing, 1500));
}

/* ---- types ------------------------------------------------------------------------------------- */

/* `basics` items of `basic` in the order of the type, if all are the same, else `basic` is null. */
typedef struct {
  MPI_Datatype type, basic;
  int basics, is_derived;
} Layout;

static MPI_Datatype draw_basic(Random* from) {
  const MPI_Datatype all[] = {MPI_BYTE, MPI_CHAR,  MPI_SHORT,  MPI_INT,
                              MPI_LONG, MPI_FLOAT, MPI_DOUBLE, MPI_C_DOUBLE_COMPLEX};
  return all[below(from, sizeof all / sizeof all[0])];
}

static MPI_Datatype struct_type(void) {
  const int lengths[] = {1, 1, 2};
  const MPI_Aint at[] = {0, 8, 16};
  const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
  MPI_Datatype parts, whole;
  MPI_Type_create_struct(3, (int*)lengths, (MPI_Aint*)at, (MPI_Datatype*)types, &parts);
  MPI_Type_create_resized(parts, 0, 24, &whole);
  MPI_Type_free(&parts);
  return whole;
}

static MPI_Datatype nested_type(MPI_Datatype basic, int times) {
  MPI_Datatype inner, outer;
  MPI_Type_vector(2, 1, 2, basic, &inner);
  MPI_Type_contiguous(times, inner, &outer);
  MPI_Type_free(&inner);
  return outer;
}

/* A type to be freed by free_layout(). Some items of a type without data and no item are the same to MPI alone, not to
   its libraries: all ranks have the first ones. */
static Layout draw_layout(Random* from, int only_basic) {
  const int blocks = 1 + below(from, 4), length = 1 + below(from, 3), kind = only_basic ? 22 : below(from, 22);
  Layout made = {MPI_DATATYPE_NULL, draw_basic(from), blocks * length, 1};
  int lengths[4], at[4], size;
  MPI_Type_size(made.basic, &size);
  for (int i = 0; i < blocks; i++) lengths[i] = length, at[i] = (blocks - 1 - i) * (length + 1);
  const int sizes[] = {blocks + 1, length + 2}, parts[] = {blocks, length}, starts[] = {1, 1};
  switch (kind) {
    case 0: MPI_Type_contiguous(made.basics, made.basic, &made.type); break;
    case 1: MPI_Type_vector(blocks, length, length + 1, made.basic, &made.type); break;
    case 2: MPI_Type_indexed(blocks, lengths, at, made.basic, &made.type); break;
    case 3: MPI_Type_create_indexed_block(blocks, length, at, made.basic, &made.type); break;
    case 4: MPI_Type_create_hvector(blocks, length, -(MPI_Aint)(size * (length + 1)), made.basic, &made.type); break;
    case 5: MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, made.basic, &made.type); break;
    case 6: MPI_Type_create_resized(made.basic, 0, 3 * size, &made.type), made.basics = 1; break;
    case 7: MPI_Type_create_resized(made.basic, -size, 2 * size, &made.type), made.basics = 1; break;
    case 8: MPI_Type_dup(made.basic, &made.type), made.basics = 1; break;
    case 9: made.type = nested_type(made.basic, blocks), made.basics = 2 * blocks; break;
    case 10:
      if (mpich_4_0) return (Layout){MPI_SHORT, MPI_SHORT, 1, 0};
      made.type = struct_type(), made.basic = MPI_DATATYPE_NULL;
      break;
    case 11: MPI_Type_contiguous(0, made.basic, &made.type), made.basics = 0; break;
    default: return (Layout){made.basic, made.basic, 1, 0};
  }
  MPI_Type_commit(&made.type);
  return made;
}

static void free_layout(Layout* layout) {
  if (layout->is_derived) MPI_Type_free(&layout->type);
}

/* ---- buffers ----------------------------------------------------------------------------------- */

enum Place { heap, mapped, shared, places };

/* `base` is what MPI gets; of the bytes from `begin`, `bytes` are the items', with `guard` around them. */
typedef struct {
  unsigned char *whole, *begin, *base;
  size_t room, bytes;
  enum Place place;
  int read_only;
} Buffer;

static Buffer make_buffer(Run* run, MPI_Datatype type, long items) {
  MPI_Aint lowest = 0, extent = 0, true_lowest = 0, true_extent = 0;
  MPI_Type_get_extent(type, &lowest, &extent);
  MPI_Type_get_true_extent(type, &true_lowest, &true_extent);
  Buffer made = {.place = (enum Place)below(&run->own, places)};
  made.bytes = items > 0 ? (size_t)((items - 1) * extent + true_extent) : 0;
  const int odd = extent <= 8 && chance(&run->own, 10) ? 1 + below(&run->own, 7) : 0;
  made.room = (made.bytes + 2 * guard + 16 + 4095) / 4096 * 4096;
  if (made.place == heap) {
    made.whole = aligned_alloc(4096, made.room);
  } else {
    const int flags = made.place == shared ? MAP_SHARED : MAP_PRIVATE;
    made.whole = mmap(NULL, made.room, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
  }
  if (made.whole == NULL || made.whole == MAP_FAILED) FAIL("no memory");
  memset(made.whole, blank, made.room);
  made.begin = made.whole + guard + odd;
  made.base = made.begin - (items > 0 ? true_lowest : 0);
  return made;
}

static void fill(Buffer* buffer, Random from) {
  for (size_t i = 0; i < buffer->bytes; i += 8) {
    const uint64_t value = draw(&from);
    memcpy(buffer->begin + i, &value, buffer->bytes - i < 8 ? buffer->bytes - i : 8);
  }
}

/* What only is sent may be data that nobody can write. */
static void protect(Run* run, Buffer* buffer) {
  if (buffer->place == heap || !chance(&run->own, 30)) return;
  buffer->read_only = mprotect(buffer->whole, buffer->room, PROT_READ) == 0;
}

/* At once, as nobody may need it any more. */
static void free_buffer(Buffer* buffer) {
  if (buffer->whole == NULL) return;
  if (!buffer->read_only) memset(buffer->whole, 0x5A, buffer->room);
  if (buffer->place == heap)
    free(buffer->whole);
  else
    munmap(buffer->whole, buffer->room);
  buffer->whole = NULL;
}

/* ---- reductions -------------------------------------------------------------------------------- */

/* Type of an element that is reduced: its kind, its size, and the bytes of it that count. Kinds: i, u, n: integers, n
   those without logical operators; f: floating point; c: complex; l: logical; b: bits; p: value and index; m, s: those
   of the program's own operators. */
typedef struct {
  MPI_Datatype type;
  char kind;
  int size, first, second, second_at;
} Element;

#define INTEGER(type, name) \
  { name, 'i', sizeof(type), sizeof(type), 0, 0 }
#define OTHER(type, name) \
  { name, 'n', sizeof(type), sizeof(type), 0, 0 }
#define UNSIGNED(type, name) \
  { name, 'u', sizeof(type), sizeof(type), 0, 0 }
#define PAIR(type, name) \
  { name, 'p', sizeof(type##_and_int), value_bytes(sizeof(type)), 4, offsetof(type##_and_int, b) }
#define PAIR_OF(type, word) \
  typedef struct {          \
    type a;                 \
    int b;                  \
  } word##_and_int;
PAIR_OF(float, float)
PAIR_OF(double, double)
PAIR_OF(long, long)
PAIR_OF(int, int)
PAIR_OF(short, short)
typedef long double long_double;
PAIR_OF(long_double, long_double)

/* Of the 16 bytes of a long double 10 count. */
static int value_bytes(size_t bytes) { return bytes == 16 ? 10 : (int)bytes; }

static int is_users(const Element* element) { return element->kind == 'm' || element->kind == 's'; }

static Element draw_element(Random* from, int only_basic) {
  const Element all[] = {INTEGER(signed char, MPI_SIGNED_CHAR),
                         INTEGER(short, MPI_SHORT),
                         INTEGER(int, MPI_INT),
                         INTEGER(int, MPI_INT),
                         INTEGER(long, MPI_LONG),
                         INTEGER(long long, MPI_LONG_LONG),
                         INTEGER(int8_t, MPI_INT8_T),
                         INTEGER(int16_t, MPI_INT16_T),
                         INTEGER(int32_t, MPI_INT32_T),
                         INTEGER(int64_t, MPI_INT64_T),
                         OTHER(MPI_Aint, MPI_AINT),
                         OTHER(MPI_Offset, MPI_OFFSET),
                         OTHER(MPI_Count, MPI_COUNT),
                         OTHER(int, MPI_INTEGER),
                         UNSIGNED(unsigned char, MPI_UNSIGNED_CHAR),
                         UNSIGNED(unsigned short, MPI_UNSIGNED_SHORT),
                         UNSIGNED(unsigned, MPI_UNSIGNED),
                         UNSIGNED(unsigned long, MPI_UNSIGNED_LONG),
                         UNSIGNED(uint8_t, MPI_UINT8_T),
                         UNSIGNED(uint16_t, MPI_UINT16_T),
                         UNSIGNED(uint32_t, MPI_UINT32_T),
                         UNSIGNED(uint64_t, MPI_UINT64_T),
                         {MPI_FLOAT, 'f', 4, 4, 0, 0},
                         {MPI_DOUBLE, 'f', 8, 8, 0, 0},
                         {MPI_DOUBLE, 'f', 8, 8, 0, 0},
                         {MPI_REAL, 'f', 4, 4, 0, 0},
                         {MPI_DOUBLE_PRECISION, 'f', 8, 8, 0, 0},
                         {MPI_LONG_DOUBLE, 'f', 16, 10, 0, 0},
                         {MPI_C_FLOAT_COMPLEX, 'c', 8, 8, 0, 0},
                         {MPI_C_DOUBLE_COMPLEX, 'c', 16, 16, 0, 0},
                         {MPI_C_BOOL, 'l', 1, 1, 0, 0},
                         {MPI_BYTE, 'b', 1, 1, 0, 0},
                         PAIR(float, MPI_FLOAT_INT),
                         PAIR(double, MPI_DOUBLE_INT),
                         PAIR(long, MPI_LONG_INT),
                         PAIR(int, MPI_2INT),
                         PAIR(short, MPI_SHORT_INT),
                         PAIR(long_double, MPI_LONG_DOUBLE_INT),
                         {MPI_DATATYPE_NULL, 'm', 16, 16, 0, 0},
                         {MPI_DATATYPE_NULL, 's', 24, 8, 8, 16}};
  Element chosen;
  do chosen = all[below(from, sizeof all / sizeof all[0])];
  while (is_users(&chosen) ? only_basic : chosen.type == MPI_DATATYPE_NULL /* without Fortran */);
  return chosen;
}

/* Two by two matrices: the order of the operands counts. */
static void multiply(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; i++) {
    int a[4], b[4], c[4];
    memcpy(a, (char*)in + 16 * i, sizeof a);
    memcpy(b, (char*)inout + 16 * i, sizeof b);
    for (int k = 0; k < 4; k++) c[k] = (a[k & 2] * b[k & 1] + a[(k & 2) + 1] * b[2 + (k & 1)]) % 10007;
    memcpy((char*)inout + 16 * i, c, sizeof c);
  }
}

/* Two integers with a gap between them, which stays as it is. */
static void add_both(void* in, void* inout, int* count, MPI_Datatype* type) {
  MPI_Aint lowest, extent;
  MPI_Type_get_extent(*type, &lowest, &extent);
  for (int i = 0; i < *count; i++) {
    for (int at = 0; at < 24; at += 16) {
      int64_t a, b;
      memcpy(&a, (char*)in + extent * i + at, sizeof a);
      memcpy(&b, (char*)inout + extent * i + at, sizeof b);
      b += a;
      memcpy((char*)inout + extent * i + at, &b, sizeof b);
    }
  }
}

static void make_users_type(Element* element) {
  if (element->kind == 'm')
    MPI_Type_contiguous(4, MPI_INT, &element->type);
  else
    MPI_Type_vector(2, 1, 2, MPI_INT64_T, &element->type);
  MPI_Type_commit(&element->type);
}

static MPI_Op draw_operator(Random* from, const Element* element) {
  const MPI_Op arithmetic[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN}, logical[] = {MPI_LAND, MPI_LOR, MPI_LXOR},
               bits[] = {MPI_BAND, MPI_BOR, MPI_BXOR}, places_of[] = {MPI_MAXLOC, MPI_MINLOC};
  MPI_Op made;
  switch (element->kind) {
    case 'i':
    case 'u':
    case 'n':
      if (element->kind != 'n' && chance(from, 20)) return logical[below(from, 3)];
      if (chance(from, 30)) return bits[below(from, 3)];
      return arithmetic[below(from, 4)];
    case 'f': return arithmetic[below(from, 4)];
    case 'c': return arithmetic[below(from, 2)];
    case 'l': return logical[below(from, 3)];
    case 'b': return bits[below(from, 3)];
    case 'p': return places_of[below(from, 2)];
    default: MPI_Op_create(element->kind == 'm' ? multiply : add_both, element->kind != 'm', &made); return made;
  }
}

static void put_integer(unsigned char* at, int bytes, int64_t value) { memcpy(at, &value, (size_t)bytes); }

static void put_float(unsigned char* at, int bytes, int value) {
  const float f = (float)value;
  const double d = value;
  const long double l = value;
  const void* const from = bytes == 4 ? (const void*)&f : bytes == 8 ? (const void*)&d : (const void*)&l;
  memcpy(at, from, (size_t)value_bytes((size_t)bytes));
}

/* Values whose sums and products are exact in any order. Open MPI 4.1 takes the largest unsigned ones for negative in
   long rows alone. */
static void put_element(unsigned char* at, const Element* element, MPI_Op by, Random* from) {
  const int small = by == MPI_PROD ? below(from, 2) : below(from, 4), small_too = below(from, 3);
  const int full = by != MPI_SUM && by != MPI_PROD;
  const int64_t value =
      (int64_t)(draw(from) >> (element->size == 8 && element->kind == 'u' ? 1 : 64 - 8 * element->size));
  switch (element->kind) {
    case 'i':
    case 'u':
    case 'n': put_integer(at, element->size, full && element->size <= 8 ? value : small); break;
    case 'f': put_float(at, element->size, full ? small - 2 : small); break;
    case 'c':
      put_float(at, element->size / 2, small),
          put_float(at + element->size / 2, element->size / 2, by == MPI_PROD ? 0 : small_too);
      break;
    case 'l': at[0] = (unsigned char)(small & 1); break;
    case 'b': at[0] = (unsigned char)value; break;
    case 'p':
      if (element->type == MPI_LONG_INT || element->type == MPI_2INT || element->type == MPI_SHORT_INT)
        put_integer(at, element->first, small);
      else
        put_float(at, element->first == 10 ? 16 : element->first, small);
      put_integer(at + element->second_at, 4, below(from, 50));
      break;
    case 'm':
      for (int i = 0; i < 4; i++) put_integer(at + 4 * i, 4, below(from, 10007));
      break;
    default: put_integer(at, 8, small), put_integer(at + 16, 8, small_too);
  }
}

static void fill_elements(Buffer* buffer, const Element* element, long items, MPI_Op by, Random from) {
  for (long i = 0; i < items; i++) put_element(buffer->begin + i * element->size, element, by, &from);
}

static uint64_t hash_elements(const Buffer* buffer, const Element* element, long items) {
  uint64_t all = 1;
  for (long i = 0; i < items; i++) {
    const unsigned char* const at = buffer->begin + i * element->size;
    all = hash(hash(all, at, (size_t)element->first), at + element->second_at, (size_t)element->second);
  }
  return all;
}

/* ---- collectives ------------------------------------------------------------------------------- */

#define EACH_SIMPLE(X)                                                                                                 \
  X(Bcast, bcast, (job->out.base, job->out_count, job->out_type, job->root, job->comm))                                \
  X(Reduce, reduce, (job->from, job->to, job->in_count, job->in_type, job->by, job->root, job->comm))                  \
  X(Allreduce, allreduce, (job->from, job->to, job->in_count, job->in_type, job->by, job->comm))                       \
  X(Scan, scan, (job->from, job->to, job->in_count, job->in_type, job->by, job->comm))                                 \
  X(Exscan, exscan, (job->from, job->to, job->in_count, job->in_type, job->by, job->comm))                             \
  X(Reduce_scatter_block, reduce_scatter_block, (job->from, job->to, job->in_count, job->in_type, job->by, job->comm)) \
  X(Scatter, scatter,                                                                                                  \
    (job->from, job->in_count, job->in_type, job->to, job->out_count, job->out_type, job->root, job->comm))            \
  X(Gather, gather,                                                                                                    \
    (job->from, job->in_count, job->in_type, job->to, job->out_count, job->out_type, job->root, job->comm))            \
  X(Allgather, allgather, (job->from, job->in_count, job->in_type, job->to, job->out_count, job->out_type, job->comm)) \
  X(Alltoall, alltoall, (job->from, job->in_count, job->in_type, job->to, job->out_count, job->out_type, job->comm))

#define EACH_OTHER(X)                                                                                                  \
  X(Barrier, barrier, (job->comm))                                                                                     \
  X(Reduce_scatter, reduce_scatter, (job->from, job->to, job->counts, job->in_type, job->by, job->comm))               \
  X(Scatterv, scatterv,                                                                                                \
    (job->from, job->counts, job->offsets, job->in_type, job->to, job->out_count, job->out_type, job->root,            \
     job->comm))                                                                                                       \
  X(Gatherv, gatherv,                                                                                                  \
    (job->from, job->in_count, job->in_type, job->to, job->counts, job->offsets, job->out_type, job->root, job->comm)) \
  X(Allgatherv, allgatherv,                                                                                            \
    (job->from, job->in_count, job->in_type, job->to, job->counts, job->offsets, job->out_type, job->comm))            \
  X(Alltoallv, alltoallv,                                                                                              \
    (job->from, job->in_counts, job->in_offsets, job->in_type, job->to, job->counts, job->offsets, job->out_type,      \
     job->comm))                                                                                                       \
  X(Alltoallw, alltoallw,                                                                                              \
    (job->from, job->in_counts, job->in_offsets, job->in_types, job->to, job->counts, job->offsets, job->types,        \
     job->comm))

#define NAME(Name, name, arguments) Name,
#define WORD(Name, name, arguments) #Name,
enum Operation { EACH_SIMPLE(NAME) EACH_OTHER(NAME) operations };
static const char* const names[] = {EACH_SIMPLE(WORD) EACH_OTHER(WORD)};

enum Form { blocking, large, nonblocking, persistent };

struct Job {
  enum Operation operation;
  enum Form form;
  int step, rank, size, root, handles_freed;
  int in_place, items; /* on some rank; of the largest block: the same on all ranks */
  MPI_Comm comm;
  MPI_Request request;
  Buffer in, out;
  const void* from; /* in, or MPI_IN_PLACE */
  void* to;
  int in_count, out_count;
  MPI_Datatype in_type, out_type;
  Layout in_layout, out_layout;
  int counts[most_ranks], offsets[most_ranks], in_counts[most_ranks], in_offsets[most_ranks];
  MPI_Datatype types[most_ranks], in_types[most_ranks];
  Element element; /* of a reduction; else `by` is null */
  MPI_Op by;
  long in_items, out_items;
  uint64_t number;
};

#define OPEN(...) __VA_ARGS__
#define BLOCKING(Name, name, arguments) \
  if (job->operation == Name) return MPI_##Name arguments;
#define LARGE(Name, name, arguments) \
  if (job->operation == Name) return MPI_##Name##_c arguments;
#define NONBLOCKING(Name, name, arguments) \
  if (job->operation == Name) return MPI_I##name(OPEN arguments, &job->request);
#define PERSISTENT(Name, name, arguments) \
  if (job->operation == Name) return INIT(Name)(OPEN arguments, MPI_INFO_NULL, &job->request);
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION == 4
#define INIT(Name) MPIX_##Name##_init
#else
#define INIT(Name) MPI_##Name##_init
#endif

static int call_blocking(Job* job) {
  EACH_SIMPLE(BLOCKING)
  EACH_OTHER(BLOCKING)
  return MPI_ERR_OTHER;
}

static int call_large(Job* job) {
#if MPI_VERSION >= 4
  EACH_SIMPLE(LARGE)
#endif
  return call_blocking(job);
}

static int call_nonblocking(Job* job) {
  EACH_SIMPLE(NONBLOCKING)
  EACH_OTHER(NONBLOCKING)
  return MPI_ERR_OTHER;
}

static int call_persistent(Job* job) {
  EACH_SIMPLE(PERSISTENT)
  EACH_OTHER(PERSISTENT)
  return MPI_ERR_OTHER;
}

/* How many items rank `a` sends to rank `b`; the same both ways. */
static int items_between(const Job* job, int most, int a, int b) {
  Random from = random_from(job->number, (uint64_t)(a < b ? a : b), (uint64_t)(a < b ? b : a));
  return below(&from, most + 1);
}

/* Places blocks in an order of this rank's own, with gaps. The number of items that they need. */
static long spread(Run* run, int size, const int* counts, int* offsets) {
  long end = 0;
  const int first = below(&run->own, size);
  for (int i = 0; i < size; i++) {
    const int at = (first + i) % size;
    end += below(&run->own, 3);
    offsets[at] = (int)end;
    end += counts[at];
  }
  return end;
}

static int draw_items(Random* from, int size, int bytes) {
  const int classes[] = {0, 1, 1, 2, 5, 30, 30, 200, 1000, 3000, 10000, 40000};
  int most = classes[below(from, sizeof classes / sizeof classes[0])];
  if (chance(from, 3)) most = 200000;
  const int items = most == 0 ? 0 : 1 + below(from, most);
  const int limit = (8 << 20) / (bytes > 0 ? bytes : 1) / size;
  return items < limit ? items : limit;
}

static void make_reduction(Run* run, Job* job) {
  job->element = draw_element(&run->common, mpich_4_0 && job->form == persistent);
  if (is_users(&job->element)) make_users_type(&job->element);
  job->by = draw_operator(&run->common, &job->element);
  job->in_type = job->out_type = job->element.type;
  int items = draw_items(&run->common, job->size, job->element.size);
  const int is_root = job->root == job->rank;
  long in = items, out = items;
  if (job->operation == Reduce_scatter_block) in = (long)items * job->size;
  if (job->operation == Reduce_scatter) {
    in = 0;
    if (items > 1000) items = 1000;
    for (int i = 0; i < job->size; i++) in += job->counts[i] = items_between(job, items, i, i);
    out = job->counts[job->rank];
  }
  job->in_count = items;
  job->items = items;
  job->in_place = chance(&run->common, 20);
  const int in_place = job->in_place && (job->operation != Reduce || is_root);
  job->in = make_buffer(run, job->in_type, in);
  job->out = make_buffer(run, job->in_type, in_place ? in : out);
  job->from = in_place ? MPI_IN_PLACE : job->in.base;
  job->to = job->out.base;
  job->in_items = in;
  job->out_items = job->operation == Reduce && !is_root ? 0 : job->operation == Exscan && job->rank == 0 ? 0 : out;
}

/* One side of an operation: `blocks` of `items`, described by the common layout or, at times, by its basic type. */
static void describe(Run* run, const Layout* layout, int items, MPI_Datatype* type, int* count) {
  *type = layout->type;
  *count = items;
  if (layout->basic == MPI_DATATYPE_NULL || layout->basics == 0 || !chance(&run->own, 30))
    return; /* see draw_layout() */
  *type = layout->basic;
  *count = items * layout->basics;
}

static void make_blocks(Run* run, Job* job, int items) {
  const int all = job->size, is_root = job->root == job->rank;
  int in_blocks = 1, out_blocks = 1;
  if (job->operation == Scatter) in_blocks = is_root ? all : 0;
  if (job->operation == Gather) out_blocks = is_root ? all : 0;
  if (job->operation == Allgather || job->operation == Alltoall) out_blocks = all;
  if (job->operation == Alltoall) in_blocks = all;
  describe(run, &job->in_layout, items, &job->in_type, &job->in_count);
  describe(run, &job->out_layout, items, &job->out_type, &job->out_count);
  job->in = make_buffer(run, job->in_type, (long)in_blocks * job->in_count);
  job->out = make_buffer(run, job->out_type, (long)out_blocks * job->out_count);
  job->from = job->in.base;
  job->to = job->out.base;
  if (!chance(&run->common, 20)) return;
  if (job->operation == Allgather || job->operation == Alltoall) job->from = MPI_IN_PLACE;
  if (job->operation == Gather && is_root) job->from = MPI_IN_PLACE;
  if (job->operation == Scatter && is_root) job->to = MPI_IN_PLACE;
}

/* Blocks of different numbers of items; of Alltoallw with offsets in bytes. */
static void make_uneven_blocks(Run* run, Job* job, int items) {
  const int me = job->rank, is_root = job->root == me;
  long in = 0, out = 0;
  job->in_type = job->in_layout.type;
  job->out_type = job->out_layout.type;
  for (int i = 0; i < job->size; i++) {
    const int to_all = job->operation == Alltoallv || job->operation == Alltoallw;
    job->counts[i] = job->in_counts[i] = items_between(job, items, i, to_all ? me : i);
    job->types[i] = job->in_types[i] = job->in_type;
  }
  const long spread_out = spread(run, job->size, job->counts, job->offsets);
  const long spread_in = spread(run, job->size, job->in_counts, job->in_offsets);
  job->in_count = job->out_count = job->counts[me];
  in = out = job->counts[me];
  if (job->operation == Scatterv) in = is_root ? spread_out : 0;
  if (job->operation == Gatherv) out = is_root ? spread_out : 0;
  if (job->operation == Allgatherv) out = spread_out;
  if (job->operation == Alltoallv || job->operation == Alltoallw) in = spread_in, out = spread_out;
  job->in = make_buffer(run, job->in_type, in);
  job->out = make_buffer(run, job->out_type, out);
  job->from = job->in.base;
  job->to = job->out.base;
  MPI_Aint lowest, extent;
  MPI_Type_get_extent(job->in_type, &lowest, &extent);
  for (int i = 0; i < job->size && job->operation == Alltoallw; i++) {
    job->offsets[i] *= (int)extent;
    job->in_offsets[i] *= (int)extent;
  }
  if (!chance(&run->common, 20)) return;
  if (job->operation == Scatterv && is_root)
    job->to = MPI_IN_PLACE;
  else if (job->operation == Gatherv && is_root)
    job->from = MPI_IN_PLACE;
  else if (job->operation != Scatterv && job->operation != Gatherv)
    job->from = MPI_IN_PLACE;
}

static void make_move(Run* run, Job* job) {
  const Layout layout = draw_layout(&run->common, mpich_4_0 && job->form == persistent);
  job->in_layout = job->out_layout = layout;
  int size;
  MPI_Aint lowest, extent;
  MPI_Type_size(layout.type, &size);
  MPI_Type_get_extent(layout.type, &lowest, &extent);
  const int items = job->items = draw_items(&run->common, job->size, (int)(extent > size ? extent : size));
  if (job->operation == Bcast) {
    describe(run, &layout, items, &job->out_type, &job->out_count);
    job->out = make_buffer(run, job->out_type, job->out_count);
  } else if (job->operation == Scatter || job->operation == Gather || job->operation == Allgather ||
             job->operation == Alltoall) {
    make_blocks(run, job, items);
  } else {
    make_uneven_blocks(run, job, items < 20000 ? items : 20000);
  }
}

static int is_reduction(enum Operation operation) {
  return operation == Reduce || operation == Allreduce || operation == Scan || operation == Exscan ||
         operation == Reduce_scatter_block || operation == Reduce_scatter;
}

/* An operation with all that it needs. */
static Job* make_job(Run* run, MPI_Comm comm, enum Form form) {
  Job* const job = calloc(1, sizeof *job);
  job->operation = (enum Operation)below(&run->common, operations);
  job->form = form;
  job->step = run->step;
  job->comm = comm;
  job->request = MPI_REQUEST_NULL;
  job->by = MPI_OP_NULL;
  job->number = draw(&run->common);
  MPI_Comm_rank(comm, &job->rank);
  MPI_Comm_size(comm, &job->size);
  job->root = below(&run->common, job->size);
  if (is_reduction(job->operation))
    make_reduction(run, job);
  else if (job->operation != Barrier)
    make_move(run, job);
  return job;
}

/* New data for a call; what is not to be written keeps its bytes. */
static void fill_job(Run* run, Job* job, int round) {
  const Random from = random_from(job->number, (uint64_t)round, (uint64_t)job->rank);
  if (job->operation == Barrier) return;
  if (job->by != MPI_OP_NULL) {
    Buffer* const data = job->from == MPI_IN_PLACE ? &job->out : &job->in;
    fill_elements(data, &job->element, job->in_items, job->by, from);
  } else if (job->from == MPI_IN_PLACE || (job->operation == Bcast && job->rank == job->root)) {
    fill(&job->out, from);
  } else if (job->operation != Bcast) {
    fill(&job->in, from);
  }
  if (job->form != persistent && job->in.whole != NULL && round == 0 && job->from == job->in.base)
    protect(run, &job->in);
}

static uint64_t result_of(const Job* job) {
  if (job->operation == Barrier) return 0;
  if (job->by != MPI_OP_NULL) return hash_elements(&job->out, &job->element, job->out_items);
  const uint64_t sent = job->in.whole != NULL ? hash(1, job->in.begin - guard, job->in.bytes + 2 * guard) : 1;
  return hash(sent, job->out.begin - guard, job->out.bytes + 2 * guard);
}

static void free_handles(Job* job) {
  if (job->by != MPI_OP_NULL && is_users(&job->element)) {
    MPI_Type_free(&job->element.type);
    MPI_Op_free(&job->by);
    job->by = MPI_SUM; /* still a reduction */
  }
  free_layout(&job->in_layout);
}

static void free_job(Job* job) {
  free_buffer(&job->in);
  free_buffer(&job->out);
  free(job);
}

static void print_job(Run* run, const Job* job, const char* how, uint64_t result) {
  char what[64];
  snprintf(what, sizeof what, "%s %s %d", how, names[job->operation], job->step);
  print(run, what, job->rank, result);
}

static void call_now(Run* run, MPI_Comm comm) {
  const int many = chance(&run->common, 15) ? 20 + below(&run->common, 150) : 1 + below(&run->common, 3);
  Job* const job = make_job(run, comm, chance(&run->common, 15) ? large : blocking);
  int rounds = job->items > 3000 && many > 12 ? 12 : many;
  if (job->in_place && job->by != MPI_OP_NULL) rounds = 1; /* values would grow */
  const int same = chance(&run->common, 50); /* rounds whose results are looked at one by one only if there are few */
  uint64_t all = 1;
  for (int round = 0; round < rounds; round++) {
    if (round == 0 || (!job->in.read_only && !same)) fill_job(run, job, round);
    dawdle(run);
    MUST(job->form == large ? call_large(job) : call_blocking(job));
    const uint64_t result = result_of(job);
    all = hash(all, &result, sizeof result);
  }
  free_handles(job);
  print_job(run, job, "now", all);
  free_job(job);
}

/* ---- requests ---------------------------------------------------------------------------------- */

static void start_job(Run* run, MPI_Comm comm, enum Form form) {
  int at = 0;
  while (run->jobs[at] != NULL) at++;
  Job* const job = make_job(run, comm, form);
  fill_job(run, job, 0);
  dawdle(run);
  MUST(job->form == persistent ? call_persistent(job) : call_nonblocking(job));
  /* Open MPI 4.1 still uses the types of persistent ones. */
  if (job->form == nonblocking && !chance(&run->own, 30)) free_handles(job), job->handles_freed = 1;
  if (job->form == persistent) MUST(MPI_Start(&job->request));
  run->jobs[at] = job;
}

/* Completes all requests by functions that this rank draws. */
static void complete(Run* run, int count, MPI_Request* requests) {
  int left = count, flag, indices[most_jobs + 4], done;
  for (int i = 0; i < count; i++) left -= requests[i] == MPI_REQUEST_NULL;
  int active[most_jobs + 4];
  for (int i = 0; i < count; i++) active[i] = requests[i] != MPI_REQUEST_NULL;
  while (left > 0) {
    int at = below(&run->timing, count);
    while (!active[at]) at = (at + 1) % count;
    dawdle(run);
    switch (below(&run->timing, 8)) {
      case 0: MUST(MPI_Wait(&requests[at], MPI_STATUS_IGNORE)), active[at] = 0, left--; break;
      case 1:
        MUST(MPI_Test(&requests[at], &flag, MPI_STATUS_IGNORE));
        if (flag) active[at] = 0, left--;
        break;
      case 2:
        MUST(MPI_Waitany(count, requests, &at, MPI_STATUS_IGNORE));
        if (at != MPI_UNDEFINED) active[at] = 0, left--;
        break;
      case 3: MUST(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE)), left = 0; break;
      case 4:
        MUST(MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE));
        if (flag) left = 0;
        break;
      case 5:
      case 6:
        if (chance(&run->timing, 50))
          MUST(MPI_Waitsome(count, requests, &done, indices, MPI_STATUSES_IGNORE));
        else
          MUST(MPI_Testsome(count, requests, &done, indices, MPI_STATUSES_IGNORE));
        for (int i = 0; done != MPI_UNDEFINED && i < done; i++) active[indices[i]] = 0, left--;
        break;
      default:
        MUST(MPI_Request_get_status(requests[at], &flag, MPI_STATUS_IGNORE));
        MUST(MPI_Testany(count, requests, &at, &flag, MPI_STATUS_IGNORE));
        if (flag && at != MPI_UNDEFINED) active[at] = 0, left--;
    }
  }
}

/* Apart from the others, as MPICH 4.0's functions on arrays fail, or complete them twice. */
static void wait_for_persistent(Run* run, Job* job) {
  int flag = 0;
  for (int i = below(&run->timing, 3); i > 0 && !flag; i--) MUST(MPI_Test(&job->request, &flag, MPI_STATUS_IGNORE));
  if (!flag) MUST(MPI_Wait(&job->request, MPI_STATUS_IGNORE));
}

static void finish_job(Run* run, Job* job) {
  print_job(run, job, job->form == persistent ? "persistent" : "started", result_of(job));
  if (job->form == persistent) {
    const int times = !mpich_4_0 && !(mpich_4 && (job->operation == Gather || job->operation == Scatter)) &&
                              !(job->in_place && job->by != MPI_OP_NULL)
                          ? 3
                          : 1;
    for (int again = 1; again < times; again++) {
      fill_job(run, job, again);
      MUST(MPI_Startall(1, &job->request));
      MUST(MPI_Wait(&job->request, MPI_STATUS_IGNORE));
      print_job(run, job, "again", result_of(job));
    }
    MUST(MPI_Request_free(&job->request));
  }
  if (!job->handles_freed) free_handles(job);
  free_job(job);
}

static void complete_jobs(Run* run) {
  MPI_Request requests[most_jobs + 4];
  int count = 0;
  for (int i = 0; i < most_jobs; i++) {
    if (run->jobs[i] == NULL) continue;
    if (run->jobs[i]->form == nonblocking)
      requests[count++] = run->jobs[i]->request;
    else if (chance(&run->timing, 50))
      wait_for_persistent(run, run->jobs[i]);
  }
  /* A message around the ring, too. */
  int rank, size, sent = run->step, got = -1;
  MPI_Comm_rank(run->comms[0], &rank);
  MPI_Comm_size(run->comms[0], &size);
  MUST(MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, 7, run->comms[0], &requests[count]));
  MUST(MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % size, 7, run->comms[0], &requests[count + 1]));
  complete(run, count + 2, requests);
  print(run, "ring", rank, (uint64_t)got);
  for (int i = 0, at = 0; i < most_jobs; i++) {
    if (run->jobs[i] == NULL) continue;
    if (run->jobs[i]->form == nonblocking)
      run->jobs[i]->request = requests[at++];
    else
      wait_for_persistent(run, run->jobs[i]);
    finish_job(run, run->jobs[i]);
    run->jobs[i] = NULL;
  }
  run->started = 0;
  memset(run->prepared, 0, sizeof run->prepared);
}

/* ---- messages, windows, communicators ----------------------------------------------------------- */

static void exchange_messages(Run* run, MPI_Comm comm) {
  int rank, size, got_count = -1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int by = 1 + below(&run->common, size), to = (rank + by) % size, from = (rank + size - by % size) % size;
  const Layout layout = draw_layout(&run->common, 0);
  const int items = draw_items(&run->common, size, 64), kind = below(&run->common, 4), tag = 100 + run->step;
  Buffer out = make_buffer(run, layout.type, items), in = make_buffer(run, layout.type, items);
  MPI_Status status;
  MPI_Request request;
  fill(&out, random_from(run->number, (uint64_t)run->step, (uint64_t)rank));
  if (kind == 0) {
    MUST(MPI_Sendrecv(out.base, items, layout.type, to, tag, in.base, items, layout.type, from, tag, comm, &status));
  } else if (kind == 1) {
    MUST(MPI_Isend(out.base, items, layout.type, to, tag, comm, &request));
    MUST(MPI_Probe(from, tag, comm, &status));
    MUST(MPI_Recv(in.base, items, layout.type, from, tag, comm, &status));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  } else if (kind == 2) {
    MUST(MPI_Irecv(in.base, items, layout.type, MPI_ANY_SOURCE, tag, comm, &request));
    MUST(MPI_Ssend(out.base, items, layout.type, to == rank ? MPI_PROC_NULL : to, tag, comm));
    if (to == rank) MUST(MPI_Send(out.base, items, layout.type, to, tag, comm));
    MUST(MPI_Wait(&request, &status));
  } else {
    MUST(MPI_Sendrecv_replace(out.base, items, layout.type, to, tag, from, tag, comm, &status));
  }
  MUST(MPI_Get_count(&status, layout.type, &got_count));
  print(run, "message", rank,
        hash(hash((uint64_t)(got_count + status.MPI_SOURCE), out.begin, out.bytes), in.begin, in.bytes));
  Layout freed = layout;
  free_layout(&freed);
  free_buffer(&out);
  free_buffer(&in);
}

/* One-sided access, with a target that waits in a collective. */
static void access_window(Run* run, MPI_Comm comm) {
  int rank, size, got = -1;
  long* data;
  long sum = 0, one = 1;
  MPI_Win window;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MUST(MPI_Win_allocate(4 * sizeof(long), sizeof(long), MPI_INFO_NULL, comm, &data, &window));
  for (int i = 0; i < 4; i++) data[i] = 100 * rank + i;
  MUST(MPI_Win_fence(0, window));
  const long value = 7 * rank + run->step;
  MUST(MPI_Put(&value, 1, MPI_LONG, (rank + 1) % size, 1, 1, MPI_LONG, window));
  MUST(MPI_Accumulate(&value, 1, MPI_LONG, 0, 2, 1, MPI_LONG, MPI_SUM, window));
  MUST(MPI_Win_fence(0, window));
  if (rank != 0) {
    long before;
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window));
    MUST(MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 3, MPI_SUM, window));
    MUST(MPI_Win_unlock(0, window));
  }
  MUST(MPI_Allreduce(&rank, &got, 1, MPI_INT, MPI_SUM, comm));
  MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window));
  for (int i = 0; i < 4; i++) sum = sum * 31 + data[i];
  MUST(MPI_Win_unlock(rank, window));
  MUST(MPI_Win_free(&window));
  print(run, "window", rank, (uint64_t)(sum + got));
}

static void use_intercommunicator(Run* run, MPI_Comm comm) {
  int rank, size, mine, other;
  MPI_Comm half, inter, merged;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int cut = 1 + below(&run->common, size > 1 ? size - 1 : 1), upper = rank >= cut,
            rounds = below(&run->common, 5);
  const int root = chance(&run->common, 50);
  if (size < 2) return;
  MUST(MPI_Comm_split(comm, upper, rank, &half));
  MUST(MPI_Intercomm_create(half, 0, comm, upper ? 0 : cut, 12, &inter));
  MPI_Comm_rank(inter, &mine);
  MPI_Comm_remote_size(inter, &other);
  for (int round = 0; round < rounds; round++) {
    int data[most_ranks] = {rank + round}, out[most_ranks] = {0};
    MPI_Request request;
    MUST(MPI_Barrier(inter));
    MUST(MPI_Allreduce(data, out, 1, MPI_INT, MPI_SUM, inter));
    print(run, "inter", rank, (uint64_t)out[0]);
    MUST(MPI_Bcast(data, 1, MPI_INT, upper != root ? 0 : mine == 0 ? MPI_ROOT : MPI_PROC_NULL, inter));
    MUST(MPI_Iallgather(data, 1, MPI_INT, out, 1, MPI_INT, inter, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    print(run, "inter", rank, hash(1, out, sizeof(int) * (size_t)other));
  }
  MUST(MPI_Intercomm_merge(inter, upper, &merged));
  MUST(MPI_Comm_free(&inter));
  MUST(MPI_Comm_free(&half));
  call_now(run, merged);
  MUST(MPI_Comm_disconnect(&merged));
}

/* Collectives of neighbours, on a ring; others on it as on any communicator. */
static void use_topology(Run* run, MPI_Comm comm) {
  int size, rank, periods = 1, dimensions = 0;
  MPI_Comm ring;
  MPI_Comm_size(comm, &size);
  MUST(MPI_Dims_create(size, 1, &dimensions));
  MUST(MPI_Cart_create(comm, 1, &dimensions, &periods, 0, &ring));
  MPI_Comm_rank(ring, &rank);
  for (int round = below(&run->common, 3); round >= 0; round--) {
    int own[2] = {rank * 10 + round, rank}, got[2] = {-1, -1};
    MPI_Request request;
    MUST(MPI_Neighbor_allgather(own, 1, MPI_INT, got, 1, MPI_INT, ring));
    print(run, "neighbours", rank, hash(1, got, sizeof got));
    MUST(MPI_Ineighbor_alltoall(own, 1, MPI_INT, got, 1, MPI_INT, ring, &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (size > 2) print(run, "neighbours", rank, hash(1, got, sizeof got)); /* of two, both are the same rank */
  }
  call_now(run, ring);
  MUST(MPI_Comm_free(&ring));
}

static int copied, deleted;

static int copy_attribute(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)key, (void)extra;
  __atomic_add_fetch(&copied, 1, __ATOMIC_RELAXED);
  *(void**)out = (char*)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}

static int delete_attribute(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  __atomic_add_fetch(&deleted, 1, __ATOMIC_RELAXED);
  return MPI_SUCCESS;
}

/* The keys of communicators and their copies, and what a communicator compares like. */
static void copy_with_attributes(Run* run, MPI_Comm comm) {
  int key, flag = 0, compared = -1, rank;
  void* value = NULL;
  MPI_Comm copy;
  MPI_Comm_rank(comm, &rank);
  MUST(MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, NULL));
  MUST(MPI_Comm_set_attr(comm, key, (void*)(intptr_t)40));
  MUST(MPI_Comm_dup(comm, &copy));
  for (int i = below(&run->common, 3); i > 0; i--) call_now(run, copy);
  MUST(MPI_Comm_get_attr(copy, key, &value, &flag));
  MUST(MPI_Comm_compare(comm, copy, &compared));
  MUST(MPI_Comm_free(&copy));
  MUST(MPI_Comm_delete_attr(comm, key));
  MUST(MPI_Comm_free_keyval(&key));
  print(run, "attributes", rank, (uint64_t)(flag * 1000 + (intptr_t)value * 10 + (compared == MPI_CONGRUENT)));
}

static int handled, makes_errors = 1;

static void handle(MPI_Comm* comm, int* error, ...) {
  (void)comm, (void)error;
  __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

/* Wrong arguments, which each rank finds by itself. */
static void make_errors(Run* run, MPI_Comm comm) {
  int rank, size, in = 1, out = 0, error = 0, class = -1;
  MPI_Comm copy;
  MPI_Errhandler handler;
  MUST(MPI_Comm_dup(comm, &copy));
  MPI_Comm_rank(copy, &rank);
  MPI_Comm_size(copy, &size);
  MUST(MPI_Comm_create_errhandler(handle, &handler));
  MUST(MPI_Comm_set_errhandler(copy, run->threads == 1 && chance(&run->common, 50) ? handler : MPI_ERRORS_RETURN));
  for (int i = 1 + below(&run->common, 4); i > 0; i--) {
    for (int calls = below(&run->common, 6); calls > 0; calls--)
      MUST(MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, copy));
    switch (below(&run->common, 7)) {
      case 0: error = MPI_Bcast(&in, -1, MPI_INT, 0, copy); break;
      case 1: error = MPI_Bcast(&in, 1, MPI_INT, size, copy); break;
      case 2: error = MPI_Allreduce(&in, &out, 1, MPI_DATATYPE_NULL, MPI_SUM, copy); break;
      case 3: error = MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_OP_NULL, copy); break;
      case 4: error = MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, -7, copy); break;
      case 5: error = MPI_Allgather(&in, 1, MPI_INT, &out, -2, MPI_INT, copy); break;
      default: error = MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_BAND, copy);
    }
    MPI_Error_class(error, &class);
    print(run, "error", rank, (uint64_t) class);
  }
  MUST(MPI_Errhandler_free(&handler));
  MUST(MPI_Comm_free(&copy));
}

/* A new communicator in one of the slots, or one that goes. */
static void change_communicators(Run* run) {
  const int at = 1 + below(&run->common, slots - 1), of = below(&run->common, slots), kind = below(&run->common, 6);
  const int colours = 1 + below(&run->common, 3), backwards = chance(&run->common, 30);
  if (run->used[at]) {
    if (run->prepared[at] || mpich_4_0 || chance(&run->common, 30)) complete_jobs(run);
    if (run->comms[at] != MPI_COMM_NULL) MUST(MPI_Comm_free(&run->comms[at]));
    run->comms[at] = MPI_COMM_NULL;
    run->used[at] = 0;
    return;
  }
  const MPI_Comm parent = run->comms[of];
  if (!run->used[of]) return;
  run->used[at] = 1;
  if (parent == MPI_COMM_NULL) return;
  int rank, size;
  MPI_Comm_rank(parent, &rank);
  MPI_Comm_size(parent, &size);
  if (kind == 0) {
    MUST(MPI_Comm_dup(parent, &run->comms[at]));
  } else if (kind == 1) {
    MPI_Request request;
    MUST(MPI_Comm_idup(parent, &run->comms[at], &request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
  } else if (kind == 2) {
    MUST(MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, backwards ? -rank + size : rank, MPI_INFO_NULL,
                             &run->comms[at]));
  } else if (kind == 3) {
    MPI_Group all, some;
    int range[1][3] = {{0, size > 1 ? size - 2 : 0, 1}};
    MPI_Comm_group(parent, &all);
    MPI_Group_range_incl(all, 1, range, &some);
    MUST(MPI_Comm_create(parent, some, &run->comms[at]));
    MPI_Group_free(&all);
    MPI_Group_free(&some);
  } else {
    const int colour = kind == 4 && rank == size - 1 && size > 1 ? MPI_UNDEFINED : rank % colours;
    MUST(MPI_Comm_split(parent, colour, backwards ? size - rank : rank, &run->comms[at]));
  }
  if (run->comms[at] != MPI_COMM_NULL && chance(&run->common, 40)) call_now(run, run->comms[at]);
}

static void use_a_process(Run* run) {
  if (run->threads > 1) return;
  int status = -1;
  const pid_t child = fork();
  if (child == 0) _exit(run->step % 100);
  waitpid(child, &status, 0);
  print(run, "process", 0, (uint64_t)WEXITSTATUS(status));
}

/* ---- the whole --------------------------------------------------------------------------------- */

static void make_step(Run* run) {
  const int kind = below(&run->common, 100), drawn = below(&run->common, slots), at = run->used[drawn] ? drawn : 0;
  const enum Form form = chance(&run->common, 30) ? persistent : nonblocking;
  const MPI_Comm comm = run->comms[at];
  const int starts = kind >= 42 && kind < 66, makes_communicators = kind >= 92 || (kind >= 74 && kind < 80);
  if (makes_communicators && openmpi_4 && run->threads > 1) return;
  if (kind >= 92) return change_communicators(run);
  if (kind >= 84) return complete_jobs(run);
  if (starts && run->started == most_jobs) return;
  run->started += starts;
  if (starts && form == persistent) run->prepared[at] = 1;
  if (comm == MPI_COMM_NULL) return;
  if (kind < 42)
    call_now(run, comm);
  else if (starts)
    start_job(run, comm, form);
  else if (kind < 71)
    exchange_messages(run, comm);
  else if (kind < 74 && makes_errors)
    make_errors(run, comm);
  else if (kind < 76)
    copy_with_attributes(run, comm);
  else if (kind < 78)
    use_topology(run, comm);
  else if (kind < 80)
    use_intercommunicator(run, comm);
  else if (kind < 82 && run->threads == 1)
    access_window(run, comm);
  else
    use_a_process(run);
}

enum { steps = 60 };
static int apart;

static void* make_step_alone(void* run) { return make_step(run), NULL; }

/* All steps of a thread; each in a thread of its own now and then, if the level of threads permits it. */
static void* make_steps(void* argument) {
  Run* const run = argument;
  for (run->step = 0; run->step < steps; run->step++) {
    run->common = random_from(run->number, (uint64_t)run->thread, (uint64_t)run->step);
    run->own = random_from(run->number, (uint64_t)(run->rank * 8 + run->thread), (uint64_t)(run->step + 1000));
    dawdle(run);
    pthread_t other;
    if (apart && chance(&run->timing, 20) && pthread_create(&other, NULL, make_step_alone, run) == 0)
      pthread_join(other, NULL);
    else
      make_step(run);
  }
  complete_jobs(run);
  return NULL;
}

static void on_timer(int number) { (void)number; }

static void interrupt_every(int microseconds) {
  const struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
  const struct itimerval every = {{0, microseconds}, {0, microseconds}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
}

static void free_communicators(Run* run, int all) {
  for (int i = all ? 0 : 1; i < slots; i++) {
    if (run->comms[i] != MPI_COMM_NULL) MUST(MPI_Comm_free(&run->comms[i]));
  }
}

static Run runs[4];

static void run_all(uint64_t number, int threads, int rank, Random program) {
  pthread_t others[4];
  for (int i = 0; i < threads; i++) {
    Run* const run = &runs[i];
    *run = (Run){.number = number, .thread = i, .threads = threads, .rank = rank};
    run->timing = random_from(number, 77, (uint64_t)(rank * 8 + i));
    for (int k = 0; k < slots; k++) run->comms[k] = MPI_COMM_NULL;
    if (threads == 1 && chance(&program, 50))
      run->comms[0] = MPI_COMM_WORLD;
    else
      MUST(MPI_Comm_dup(MPI_COMM_WORLD, &run->comms[0]));
    run->used[0] = 1;
  }
  for (int i = 1; i < threads; i++) {
    if (pthread_create(&others[i], NULL, make_steps, &runs[i]) != 0) FAIL("no thread");
  }
  make_steps(&runs[0]);
  for (int i = 1; i < threads; i++) pthread_join(others[i], NULL);
  const int freed = chance(&program, 70);
  for (int i = 0; i < threads && freed; i++) free_communicators(&runs[i], runs[i].comms[0] != MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  const uint64_t number = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
  int with_threads = 1;
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "without-errors") == 0) makes_errors = 0;
    if (strcmp(argv[i], "without-threads") == 0) with_threads = 0;
  }
  Random program = random_from(number, 1000, 1000);
  const int kind = below(&program, 8), threads = kind == 0 && with_threads ? 2 + below(&program, 2) : 1;
  const int wanted = threads > 1 ? MPI_THREAD_MULTIPLE : kind == 1 ? MPI_THREAD_SERIALIZED : MPI_THREAD_SINGLE;
  int level = wanted, rank, size;
  if (wanted == MPI_THREAD_SINGLE)
    MPI_Init(&argc, &argv);
  else
    MPI_Init_thread(&argc, &argv, wanted, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (level < wanted || size > most_ranks) FAIL("level of threads %d of %d, %d ranks", level, wanted, size);
  apart = kind == 1;
  if (chance(&program, 25)) interrupt_every(500 + below(&program, 3000));
  run_all(number, threads, rank, program);
  printf("%d end %d %d %d\n", rank, copied, deleted, handled);
  MPI_Finalize();
  return 0;
}
