// MPICH's ranks, which poll without a pause, give way to each other: preloaded where there are more of them than PUs.
// Without it, each turn takes a time slice of the kernel. Programs see nothing of it.
#include <dlfcn.h>
#include <sched.h>

extern "C" unsigned ucp_worker_progress(void* worker) {
  // Not RTLD_NEXT: MPICH may have been loaded with RTLD_LOCAL.
  static void* const library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
  static auto* const original =
      reinterpret_cast<unsigned (*)(void*)>(dlsym(library != nullptr ? library : RTLD_NEXT, "ucp_worker_progress"));
  const unsigned events = original(worker);
  if (events == 0) sched_yield();
  return events;
}
