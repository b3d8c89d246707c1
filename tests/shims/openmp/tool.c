/* A tool by OMPT that counts regions and explicit barriers and tells at the end. */
#include <omp-tools.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

static atomic_int regions, barriers;

static void on_parallel(ompt_data_t* task, const ompt_frame_t* frame, ompt_data_t* parallel, unsigned int threads,
                        int flags, const void* code) {
  (void)task, (void)frame, (void)parallel, (void)threads, (void)flags, (void)code;
  atomic_fetch_add(&regions, 1);
}

static void on_sync(ompt_sync_region_t kind, ompt_scope_endpoint_t end, ompt_data_t* parallel, ompt_data_t* task,
                    const void* code) {
  (void)parallel, (void)task, (void)code;
  if (kind == ompt_sync_region_barrier_explicit && end == ompt_scope_begin) atomic_fetch_add(&barriers, 1);
}

static int begin(ompt_function_lookup_t lookup, int device, ompt_data_t* data) {
  (void)device, (void)data;
  ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
  set(ompt_callback_parallel_begin, (ompt_callback_t)on_parallel);
  set(ompt_callback_sync_region, (ompt_callback_t)on_sync);
  return 1;
}

static void end(ompt_data_t* data) {
  (void)data;
  fprintf(stderr, "tool: %d regions, %d barriers\n", atomic_load(&regions), atomic_load(&barriers));
}

ompt_start_tool_result_t* ompt_start_tool(unsigned int version, const char* runtime) {
  static ompt_start_tool_result_t result = {begin, end, {0}};
  (void)version, (void)runtime;
  return &result;
}
