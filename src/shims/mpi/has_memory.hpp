// Where the memory runs out in functions that are compiled without exceptions.
#pragma once

namespace smelt::shims::mpi {

/// Runs work(context). False: std::bad_alloc ended it. Other exceptions pass.
bool has_memory_for(void (*work)(void*), void* context);

/// Runs work(), which must keep what it constructs outside of itself: destructors in it would not run.
template <class Work>
bool has_memory_for(Work work) {
  return has_memory_for([](void* context) { (*static_cast<Work*>(context))(); }, &work);
}

}  // namespace smelt::shims::mpi
