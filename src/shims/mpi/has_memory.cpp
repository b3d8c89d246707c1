#include "shims/mpi/has_memory.hpp"

#include <new>

namespace smelt::shims::mpi {

bool has_memory_for(void (*work)(void*), void* context) {
  try {
    work(context);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace smelt::shims::mpi
