#include "graph/run/host.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace smelt::graph {
namespace {

std::size_t cache_bytes(int name, std::size_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : otherwise;
}

/// The machine's, where the options do not say.
RunOptions::Caches caches_of(const RunOptions& options) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  static const std::size_t own = cache_bytes(_SC_LEVEL2_CACHE_SIZE, mib);
  static const std::size_t shared = std::max(own, cache_bytes(_SC_LEVEL3_CACHE_SIZE, 16 * mib));
  const auto& given = options.caches;
  return {given.own_bytes > 0 ? given.own_bytes : own, given.shared_bytes > 0 ? given.shared_bytes : shared};
}

}  // namespace

void* ArrayPool::allocate(std::size_t size_bytes, const program::ArrayHints& hints) {
  const std::lock_guard lock(mutex_);
  if (size_bytes == 0) size_bytes = 1;
  const Kind kind{hints.node, !memory_.places() ? ArrayPlacement::Placement::any
                              : hints.indexed   ? ArrayPlacement::Placement::partitioned
                                                : ArrayPlacement::Placement::interleaved};
  // No larger than needed by more than a quarter; the parts of a larger one would be cut elsewhere.
  auto& free = free_[kind];
  const auto fitting = free.lower_bound(size_bytes);
  const bool exact = kind.placement == ArrayPlacement::Placement::partitioned;
  ArrayMemory array;
  if (fitting != free.end() && (exact ? fitting->first == size_bytes : fitting->first / 5 <= size_bytes / 4)) {
    array = std::move(fitting->second);
    free.erase(fitting);
  } else {
    auto fresh = memory_.allocate(size_bytes, kind.of_nodes, kind.placement, hints.name);
    if (!fresh) return nullptr;
    array = *std::move(fresh);
  }
  void* data = array.data();
  used_.emplace(data, Used{std::move(array), kind});
  return data;
}

void ArrayPool::release(void* array) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(array);
  if (found == used_.end()) return;
  auto& [memory, kind] = found->second;
  const auto size = memory.size_bytes();
  free_[kind].emplace(size, std::move(memory));
  used_.erase(found);
}

ProgramHost::ProgramHost(ThreadTeam& team, PlacedMemory& memory, const RunOptions& options,
                         std::function<void(std::string_view)> print)
    : team_(team), memory_(memory), pool_(memory), print_(std::move(print)) {
  host_.self = this;
  host_.threads = team.size();
  host_.seed = options.seed;
  host_.parallel = [](void* self, void (*work)(void*, int), void* context) {
    static_cast<ProgramHost*>(self)->team_.run(work, context);
  };
  host_.allocate = [](void* self, std::size_t size_bytes, const program::ArrayHints* hints) {
    return static_cast<ProgramHost*>(self)->pool_.allocate(size_bytes, *hints);
  };
  host_.release = [](void* self, void* array) { static_cast<ProgramHost*>(self)->pool_.release(array); };
  host_.local = [](void* self, void* array, int) { return static_cast<ProgramHost*>(self)->memory_.local(array); };
  host_.copies = memory.has_copies();
  const auto caches = caches_of(options);
  host_.own_cache_bytes = caches.own_bytes;
  host_.shared_cache_bytes = caches.shared_bytes;
  host_.print = [](void* self, const char* text, std::size_t size) {
    auto& own = *static_cast<ProgramHost*>(self);
    const std::lock_guard lock(own.print_mutex_);
    own.print_({text, size});
  };
}

}  // namespace smelt::graph
