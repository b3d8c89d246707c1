/* What the pages show in C, as a program: a page's block is a run of lines of this file or of an example. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <smelt/smelt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  ++failures;
}

static void work(smelt_rank* rank, void* context) {
  double part = smelt_rank_number(rank), total;
  smelt_allreduce(rank, &part, &total, 1, SMELT_DOUBLE, SMELT_SUM);
  smelt_barrier(rank);
  *(double*)context = total; /* the same on all ranks */
}

static int work_left = 100;
static int more_to_compute(void) { return --work_left > 0; }

static void persistent(smelt_rank* rank, void* context) {
  const double part[] = {1.0, 2.0};
  double sum[2] = {0.0, 0.0};
  const size_t n = 2;
  const int steps = 3;
  (void)context;
  smelt_call call = {0};
  call.operation = SMELT_ALLREDUCE;
  call.in = part;
  call.out = sum;
  call.count = n;
  call.type = SMELT_DOUBLE;
  smelt_request* request;
  if (smelt_prepare(rank, &call, &request) != SMELT_OK) puts(smelt_last_error());
  for (int step = 0; step < steps; ++step) {
    smelt_request_start(request);
    int done = 0;
    while (more_to_compute()) smelt_request_test(request, &done); /* moves it along */
    smelt_request_wait(request);
  }
  smelt_request_free(request);
  expect(sum[1] == 2.0 * smelt_rank_size(rank), "the sum of all ranks");
}

static void communicators(void) {
  double total = -1.0;
  smelt_communicator* communicator;
  if (smelt_communicator_create(NULL, NULL, 0, NULL, &communicator) != SMELT_OK) puts(smelt_last_error());
  smelt_communicator_run(communicator, work, &total);
  expect(total >= 0.0, "a sum of the ranks' numbers");
  smelt_communicator_free(communicator);
  smelt_communicator_create(NULL, NULL, 1, NULL, &communicator);
  smelt_communicator_run(communicator, persistent, NULL);
  smelt_communicator_free(communicator);
}

static void graphs(void) {
  FILE* file = fopen("links.el", "w");
  fputs("0 1\n0 2\n1 2\n2 0\n3 2\n", file);
  fclose(file);
  smelt_graph* graph;
  if (smelt_graph_load("links.el", 0, &graph) != SMELT_OK) puts(smelt_last_error());
  float* rank = malloc(smelt_graph_num_nodes(graph) * sizeof *rank);
  smelt_graph_pagerank(graph, 0.85, 1e-6, 100, 0, rank, NULL);
  smelt_graph_free(graph);
  expect(rank[2] > rank[3], "a node with more links to it has the higher rank");
  free(rank);
  unlink("links.el");
}

static const unsigned threads = 2;
static int buffers_swapped;
static void swap_buffers(void) { ++buffers_swapped; }
static smelt_counted_barrier counted_barrier;

static void* pass(void* nothing) {
  if (smelt_counted_barrier_wait(&counted_barrier) == SMELT_COUNTED_BARRIER_LAST) swap_buffers();
  smelt_counted_barrier_wait(&counted_barrier);
  return nothing;
}

static void counted_barriers(void) {
  pthread_t other;
  /* If no other process takes part, smelt_counted_barrier_init_private() makes wake-ups cheaper. */
  smelt_counted_barrier_init(&counted_barrier, threads);
  pthread_create(&other, NULL, pass, NULL);
  pass(NULL);
  pthread_join(other, NULL);
  expect(buffers_swapped == 1, "one thread of the round is the last one");
}

static void maps(void) {
  smelt_map* hits;
  uint64_t page = 7;
  if (smelt_map_create_shared("hits", sizeof page, sizeof(int64_t), 100000, 0, &hits) != SMELT_OK)
    puts(smelt_last_error());
  smelt_map_fetch_add(hits, &page, 1, NULL);
  smelt_map_free(hits);
}

/* A process that is one of `size` ranks. */
static int join(int rank) {
  const int size = 1;
  smelt_communicator* communicator;
  smelt_rank* me;
  /* in each process */
  smelt_communicator_create_shared("weather", size, rank, NULL, &communicator);
  smelt_communicator_attach(communicator, rank, &me); /* or smelt_communicator_run */
  const int status = smelt_barrier(me);
  smelt_rank_free(me);
  smelt_communicator_free(communicator);
  return status;
}

int main(void) {
  char place[] = "/tmp/smelt-docs-XXXXXX";
  if (mkdtemp(place) == NULL || chdir(place) != 0) return 2;
  expect(join(0) == SMELT_OK, "a communicator over processes");
  communicators();
  graphs();
  counted_barriers();
  maps();
  return failures + rmdir(place);
}
