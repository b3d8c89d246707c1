#include "graph/run/host.hpp"

#include <utility>

namespace smelt::graph {

void* ArrayPool::allocate(std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  if (size_bytes == 0) size_bytes = 1;
  // No larger than needed by more than a quarter.
  const auto fitting = free_.lower_bound(size_bytes);
  Pages pages;
  if (fitting != free_.end() && fitting->first / 5 <= size_bytes / 4) {
    pages = std::move(fitting->second);
    free_.erase(fitting);
  } else {
    auto fresh = Pages::allocate(size_bytes);
    if (!fresh) return nullptr;
    pages = *std::move(fresh);
  }
  void* array = pages.data();
  used_.emplace(array, std::move(pages));
  return array;
}

void ArrayPool::release(void* array) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(array);
  if (found == used_.end()) return;
  const auto size = found->second.size_bytes();
  free_.emplace(size, std::move(found->second));
  used_.erase(found);
}

ProgramHost::ProgramHost(ThreadTeam& team, std::uint64_t seed, std::function<void(std::string_view)> print)
    : team_(team), print_(std::move(print)) {
  host_.self = this;
  host_.threads = team.size();
  host_.seed = seed;
  host_.parallel = [](void* self, void (*work)(void*, int), void* context) {
    static_cast<ProgramHost*>(self)->team_.run(work, context);
  };
  host_.allocate = [](void* self, std::size_t size_bytes, const program::ArrayHints*) {
    return static_cast<ProgramHost*>(self)->pool_.allocate(size_bytes);
  };
  host_.release = [](void* self, void* array) { static_cast<ProgramHost*>(self)->pool_.release(array); };
  host_.local = [](void*, void* array, int) { return array; };
  host_.print = [](void* self, const char* text, std::size_t size) {
    auto& own = *static_cast<ProgramHost*>(self);
    const std::lock_guard lock(own.print_mutex_);
    own.print_({text, size});
  };
}

}  // namespace smelt::graph
