// MemoryResource: each large request is an array of bytes, which is found by its address when it is freed.
#include <mutex>
#include <new>
#include <unordered_map>

#include "base/error.hpp"
#include "memory/array/storage.hpp"

namespace smelt {

struct MemoryResource::State {
  ArrayOptions options;
  std::size_t least_bytes = 0;
  std::pmr::memory_resource* upstream = nullptr;
  std::mutex mutex;
  std::unordered_map<void*, memory::Block> blocks;
};

MemoryResource::MemoryResource(const ArrayOptions& options, std::size_t least_bytes,
                               std::pmr::memory_resource* upstream)
    : state_(
          new State{options, least_bytes, upstream == nullptr ? std::pmr::get_default_resource() : upstream, {}, {}}) {}
MemoryResource::~MemoryResource() = default;

Result<std::unique_ptr<MemoryResource>> MemoryResource::create(const ArrayOptions& options, std::size_t least_bytes,
                                                               std::pmr::memory_resource* upstream) {
  if (options.placement == Placement::replicated || options.placement == Placement::writable_replicas) {
    return make_error(Status::invalid_argument, "{}: containers cannot be {}; use an Array", options.name,
                      to_string(options.placement));
  }
  auto own = options;
  own.hints.read_only = false;  // otherwise `best` could choose replicas
  return std::unique_ptr<MemoryResource>(new MemoryResource(own, least_bytes, upstream));
}

void* MemoryResource::do_allocate(std::size_t bytes, std::size_t alignment) {
  constexpr std::size_t most_alignment = 4096;
  if (bytes < state_->least_bytes || alignment > most_alignment) return state_->upstream->allocate(bytes, alignment);
  auto block = memory::Block::create(bytes, 1, state_->options);
  if (!block) throw std::bad_alloc();
  void* const memory = block->data();
  const std::scoped_lock lock(state_->mutex);
  state_->blocks.emplace(memory, *std::move(block));
  return memory;
}

void MemoryResource::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  {
    const std::scoped_lock lock(state_->mutex);
    if (state_->blocks.erase(memory) > 0) return;
  }
  state_->upstream->deallocate(memory, bytes, alignment);
}

}  // namespace smelt
