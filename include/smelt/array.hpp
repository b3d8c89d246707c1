// Array: memory with a NUMA placement. When create() returns, all pages exist on their nodes.
//
//   smelt::ArrayOptions options;
//   options.placement = smelt::Placement::replicated;
//   auto table = smelt::Array<double>::create(n, options);
//   table->copy_from(values);
//   comm->run([&](smelt::Rank& rank) {
//     const std::span<const double> near = table->local();   // the copy of this thread's NUMA node
//     ...
//   });
//
// Access has no overhead: local(), data() and iterators are plain pointers, valid for the life of the array. Elements
// are initially zero, trivially copyable, and never move. NUMA nodes are identified by os_index.
//
// Ordering: an array does not synchronize. Threads that write and read the same elements must synchronize themselves,
// or use the collectives sync(), accumulate_into() and publish(): when these return, all combined or published values
// are visible.
//
// fork(2): the child has a copy-on-write copy of the array with the same placement. A shared array (create_shared)
// stays shared. Transfers in progress do not continue in the child.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "smelt/communicator.hpp"
#include "smelt/error.hpp"
#include "smelt/placement.hpp"

namespace smelt {

enum class PageSize {
  best,           ///< huge if the array is large enough and huge pages are allowed
  base,           ///< the smallest
  huge,           ///< transparent huge pages, as far as available
  reserved_2mib,  ///< from the pools that the administrator has reserved (hugetlb)
  reserved_1gib,
};

/// "best", "base", ... Never null.
const char* to_string(PageSize size) noexcept;
/// The page size of that name. Errors: invalid_argument, with the names there are.
Result<PageSize> parse_page_size(std::string_view name);

/// Whose copy a replica is.
enum class ReplicaPer {
  numa_node,
  cache,  ///< of the PUs of a last-level cache, on their NUMA node: no two caches share lines that are written
};

struct ArrayOptions {
  Placement placement = Placement::best;
  PageSize pages = PageSize::best;
  /// single_node: the first one; else those that take part, in turns. Empty: all that have PUs, and memory that this
  /// process may use (single_node: that of the calling thread, or the nearest with memory).
  std::vector<int> numa_nodes{};
  /// partitioned: first element of each part, ascending, the first 0. Part i lies on numa_nodes[i % n], which may name
  /// a node repeatedly. Empty: `parts` parts that follow the rule of OpenMP's schedule(static), on neighbouring nodes.
  std::vector<std::size_t> cuts{};
  ReplicaPer replica_per = ReplicaPer::numa_node;
  int parts = 0;  ///< 0: one per rank (with a communicator), or per PU of the nodes
  /// true: create() fails unless every page is placed as requested. false: explain() lists requests that could not be
  /// met.
  bool strict = false;
  AccessHints hints{};
  std::string name = "array";  ///< in messages
};

/// A range of elements: first <= i < last.
struct IndexRange {
  std::size_t first = 0;
  std::size_t last = 0;

  std::size_t size() const noexcept { return last - first; }
  bool empty() const noexcept { return first == last; }
  bool operator==(const IndexRange&) const = default;
};

/// The iterations that thread `thread` of `threads` gets by OpenMP's schedule(static) without a chunk size, as in
/// libgomp and libomp: consecutive ones, the first `count % threads` threads one more.
constexpr IndexRange static_part(std::size_t count, std::size_t thread, std::size_t threads) noexcept {
  const std::size_t each = count / threads, more = count % threads;
  const std::size_t first = thread * each + std::min(thread, more);
  return {first, first + each + (thread < more ? 1 : 0)};
}

/// The present locations of the pages of an array's copy.
struct PageLocations {
  struct Share {
    int numa_node = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Share> nodes{};      ///< ascending; those with at least a page
  std::uint64_t absent_bytes = 0;  ///< never touched, or swapped out
  std::uint64_t huge_bytes = 0;    ///< in huge pages
  std::uint64_t page_bytes = 0;    ///< in pages of the requested size
};

/// A copy or fill that runs on its own threads. Used by one thread. The destructor waits for its end.
class Transfer {
 public:
  Transfer() noexcept;
  Transfer(Transfer&&) noexcept;
  Transfer& operator=(Transfer&&) noexcept;
  ~Transfer();

  /// Whether it has ended. If so, its writes are visible to the caller.
  bool test() noexcept;
  /// Waits for its end.
  void wait() noexcept;

 private:
  friend class memory_access;
  struct State;
  std::unique_ptr<State> state_;
};

namespace memory {

class Storage;

/// Writes `bytes` bytes at `to` with whole elements of `element_bytes`; `value` is one.
using Fill = void (*)(std::byte* to, std::size_t bytes, const void* value, std::size_t element_bytes);

/// take(k, place(indices[k])) in order, for places in an array that is larger than the caches: each is requested ahead.
template <class Index, class Place, class Take>
void take_ahead(std::span<const Index> indices, Place place, Take take) noexcept {
  constexpr std::size_t ahead = 64;  // reads: more than a processor has under way by itself
  const std::size_t count = indices.size(), requested = count > ahead ? count - ahead : 0;
  for (std::size_t k = 0; k < requested; ++k) {
    __builtin_prefetch(place(indices[k + ahead]));
    take(k, place(indices[k]));
  }
  for (std::size_t k = requested; k < count; ++k) take(k, place(indices[k]));
}

/// The untyped implementation of Array: bytes with a placement, in one or several copies of the same size.
class Block {
 public:
  static Result<Block> create(std::size_t count, std::size_t element_bytes, const ArrayOptions& options);
  static Result<Block> create(std::size_t count, std::size_t element_bytes, const Communicator& communicator,
                              ArrayOptions options);
  static Result<Block> create_shared(Rank& rank, const std::string& name, std::size_t count, std::size_t element_bytes,
                                     ArrayOptions options);
  Block(Block&&) noexcept;
  Block& operator=(Block&&) noexcept;
  ~Block();

  std::size_t count() const noexcept { return count_; }
  std::size_t element_bytes() const noexcept;
  std::byte* data() const noexcept { return data_; }
  /// The copy of the calling thread's NUMA node or cache.
  std::byte* local() const noexcept { return single_ ? data_ : near_copy(); }
  int copies() const noexcept;
  std::byte* copy(int index) const noexcept;

  /// As Array's members of these names, in bytes where those have elements.
  int parts() const noexcept;
  IndexRange part(int index) const noexcept;
  int numa_node_of_part(int index) const noexcept;
  Placement placement() const noexcept;
  bool same_address() const noexcept;
  std::string explain() const;
  Result<PageLocations> where(int copy) const;
  Transfer start_copy(const void* from);
  Transfer start_fill(const void* value, Fill fill);
  Status sync(Rank& rank, const Reduction& op) noexcept;
  Status accumulate_into(Rank& rank, const Reduction& op, const void* identity, Fill fill, const Block& total) noexcept;
  Status publish(Rank& rank, IndexRange mine) noexcept;

  explicit Block(std::unique_ptr<Storage> storage) noexcept;

 private:
  std::byte* near_copy() const noexcept;

  std::unique_ptr<Storage> storage_;
  std::byte* data_ = nullptr;
  std::size_t count_ = 0;
  bool single_ = true;
};

/// One place per NUMA node named, each on pages of its own, zeroed.
class Slots {
 public:
  static Result<Slots> create(const std::vector<int>& numa_nodes, std::size_t slot_bytes);
  Slots(Slots&&) noexcept;
  Slots& operator=(Slots&&) noexcept;
  ~Slots();
  int size() const noexcept { return size_; }
  std::byte* slot(int index) const noexcept { return data_ + static_cast<std::size_t>(index) * stride_; }

 private:
  Slots() noexcept;
  struct State;
  std::unique_ptr<State> state_;
  std::byte* data_ = nullptr;
  std::size_t stride_ = 0;
  int size_ = 0;
};

/// os_index of the NUMA nodes of a communicator's ranks; of those with PUs and memory; of the calling thread.
std::vector<int> nodes_of(const Communicator& communicator);
std::vector<int> home_nodes();
int this_node() noexcept;

}  // namespace memory

/// A row-major view of `rank` dimensions over elements, without their ownership: view(i, j, ...).
template <class T, std::size_t rank>
class View {
 public:
  View(T* data, const std::array<std::size_t, rank>& extents) noexcept : data_(data), extents_(extents) {}

  std::size_t extent(std::size_t dimension) const noexcept { return extents_[dimension]; }
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept {
    std::size_t product = 1;
    for (const std::size_t extent : extents_) product *= extent;
    return product;
  }

  template <class... Index>
  requires(sizeof...(Index) == rank) T& operator()(Index... index) const noexcept {
    std::size_t at = 0, dimension = 0;
    ((at = at * extents_[dimension++] + static_cast<std::size_t>(index)), ...);
    return data_[at];
  }

 private:
  T* data_;
  std::array<std::size_t, rank> extents_;
};

template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                "elements are copied between replicas as bytes");

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  /// `count` zero elements, placed according to `options`. Except with first_touch, all pages exist afterwards.
  /// Requirements: count > 0. Errors: invalid_argument; out_of_memory (also if a node, the cgroup or the pool of
  /// reserved pages has too little left); with options.strict also permission_denied (mbind refused) and io_error
  /// (pages lie elsewhere). Cost: clearing the memory, on all nodes at once. Source: [Kaestle16] 4.3.
  static Result<Array> create(std::size_t count, const ArrayOptions& options = {}) {
    return wrap(memory::Block::create(count, sizeof(T), options));
  }

  /// The same for the ranks of a communicator of threads: parts follow the ranks. Without options.numa_nodes they lie
  /// on the ranks' NUMA nodes, and replicas are on the nodes, or for the caches, that have ranks. Errors as above.
  static Result<Array> create(std::size_t count, const Communicator& communicator, const ArrayOptions& options = {}) {
    return wrap(memory::Block::create(count, sizeof(T), communicator, options));
  }

  /// Shared by processes, one rank each: a collective call with the same arguments on all ranks. Every process maps the
  /// array at the same address; a replicated one with the copy of its NUMA node there, so that plain pointers into it
  /// mean the near copy everywhere (replication in page tables). Where no address is free in all processes, each maps
  /// it somewhere (same_address() tells), or with options.strict all fail. `name`: 1 to 100 characters without '/',
  /// part of a name in /dev/shm that is gone when this returns; other groups may use the same. Replicas are one per
  /// NUMA node (not_supported otherwise). Errors: the same on all ranks; timed_out and broken as collectives. Source:
  /// [Kaestle16] 4.4.1.
  static Result<Array> create_shared(Rank& rank, const std::string& name, std::size_t count,
                                     const ArrayOptions& options = {}) {
    return wrap(memory::Block::create_shared(rank, name, count, sizeof(T), options));
  }

  std::size_t size() const noexcept { return block_.count(); }
  bool empty() const noexcept { return size() == 0; }

  /// The elements; of replicas, the first copy.
  T* data() noexcept { return reinterpret_cast<T*>(block_.data()); }
  const T* data() const noexcept { return reinterpret_cast<const T*>(block_.data()); }
  T& operator[](std::size_t index) noexcept { return data()[index]; }
  const T& operator[](std::size_t index) const noexcept { return data()[index]; }
  iterator begin() noexcept { return data(); }
  iterator end() noexcept { return data() + size(); }
  const_iterator begin() const noexcept { return data(); }
  const_iterator end() const noexcept { return data() + size(); }

  /// All elements, in the copy nearest to the calling thread. Call it once per thread; the result is valid for the life
  /// of the array. Writes to one of several copies are not visible in others before sync() or publish(). Cost: none
  /// with one copy; otherwise a query of the thread's node, without a system call.
  std::span<T> local() noexcept { return {reinterpret_cast<T*>(block_.local()), size()}; }
  std::span<const T> local() const noexcept { return {reinterpret_cast<const T*>(block_.local()), size()}; }

  /// to[i] = local()[indices[i]], for random places in an array that is larger than the caches: places are requested
  /// ahead, so that more reads overlap than in the plain loop. Requirements: to.size() == indices.size(), no overlap;
  /// each index is below size().
  template <class Index>
  void take(std::span<const Index> indices, std::span<T> to) const noexcept {
    static_assert(std::is_integral_v<Index>);
    assert(to.size() == indices.size());
    memory::take_ahead(
        indices, [from = local().data()](Index at) { return from + at; },
        [&](std::size_t k, const T* element) { to[k] = *element; });
  }

  /// Copies: 1, or for replicas one per NUMA node or last-level cache.
  int copies() const noexcept { return block_.copies(); }
  std::span<T> copy(int index) noexcept { return {reinterpret_cast<T*>(block_.copy(index)), size()}; }
  std::span<const T> copy(int index) const noexcept { return {reinterpret_cast<const T*>(block_.copy(index)), size()}; }

  /// A view of local() with these extents. Requirements: their product is at most size().
  template <class... Extent>
  View<T, sizeof...(Extent)> view(Extent... extents) noexcept {
    const View<T, sizeof...(Extent)> result(local().data(), {static_cast<std::size_t>(extents)...});
    assert(result.size() <= size());
    return result;
  }

  /// The parts of a partitioned array, in order. Other arrays have the parts that they would have if partitioned.
  int parts() const noexcept { return block_.parts(); }
  IndexRange part(int index) const noexcept { return block_.part(index); }
  int numa_node_of_part(int index) const noexcept { return block_.numa_node_of_part(index); }

  /// The actual placement and page size.
  Placement placement() const noexcept { return block_.placement(); }
  bool same_address() const noexcept { return block_.same_address(); }

  /// Placement, page size, and each request that could not be met, one line each.
  std::string explain() const { return block_.explain(); }

  /// Asks the kernel for the locations of a copy's pages. Cost: a system call per 4096 pages, and reading smaps.
  /// Errors: permission_denied in containers that forbid it on machines with several nodes.
  Result<PageLocations> where(int copy = 0) const { return block_.where(copy); }

  /// Writes all copies, by threads on their nodes. Requirements: values.size() == size(), no overlap.
  void copy_from(std::span<const T> values) { start_copy_from(values).wait(); }
  void fill(const T& value) { start_fill(value).wait(); }

  /// The same without waiting for the end. Until then, `values` must stay valid, and the elements must not be used.
  Transfer start_copy_from(std::span<const T> values) {
    assert(values.size() == size());
    return block_.start_copy(values.data());
  }
  Transfer start_fill(const T& value) { return block_.start_fill(&value, &fill_elements); }

  /// Writable replicas: combines all copies element by element, in order, and writes the result to every copy. A
  /// collective of all ranks that use the array; no rank writes to it meanwhile. For operations for which combining the
  /// same value again changes nothing (minimum, maximum, bit_or) copies go on from there; for others see
  /// accumulate_into().
  Status sync(Rank& rank, const Reduction& op) noexcept { return block_.sync(rank, op); }

  /// Writable replicas: total[i] = total[i] (op) copy 0[i] (op) copy 1[i] ..., in all copies of total, and `identity`
  /// everywhere in the copies of this array. Collective as above. Requirements: same size.
  Status accumulate_into(Rank& rank, const Reduction& op, const T& identity, Array& total) noexcept {
    return block_.accumulate_into(rank, op, &identity, &fill_elements, total.block_);
  }

  /// Replicas: what this rank wrote to elements `mine` of its local() goes to all copies, once all ranks have called
  /// it. Collective; ranges of different ranks do not overlap and may be empty. Cost: two barriers and the copies.
  /// Requirements: the thread has stayed on its NUMA node since it called local(), as pinned ranks do.
  Status publish(Rank& rank, IndexRange mine) noexcept { return block_.publish(rank, mine); }

 private:
  explicit Array(memory::Block block) noexcept : block_(std::move(block)) {}

  static Result<Array> wrap(Result<memory::Block> block) {
    if (!block) return block.error();
    return Array(*std::move(block));
  }

  static void fill_elements(std::byte* to, std::size_t bytes, const void* value, std::size_t) {
    T element;
    std::memcpy(&element, value, sizeof element);
    std::fill_n(reinterpret_cast<T*>(to), bytes / sizeof(T), element);
  }

  memory::Block block_;
};

/// body(range) for every part of the array that falls to this rank: parts rank, rank + size, ... Then a barrier.
/// Collective. Cost: that of the barrier.
template <class T, class Body>
Status parallel_for(Rank& rank, const Array<T>& array, Body&& body) {
  for (int part = rank.rank(); part < array.parts(); part += rank.size()) {
    const IndexRange range = array.part(part);
    if (!range.empty()) body(range);
  }
  return rank.barrier();
}

/// Distributes the iterations of a loop over an array in pieces. Every worker takes those of its own part first, then
/// those of other parts, near ones first. One object per loop and run, shared by all workers.
class StealingLoop {
 public:
  /// Over the parts of an Array or a memory::Block, in pieces of at most `grain` elements.
  template <class Placed>
  StealingLoop(const Placed& array, std::size_t grain) {
    std::size_t longest = 1;
    for (int part = 0; part < array.parts(); ++part) {
      add(array.part(part), array.numa_node_of_part(part));
      longest = std::max(longest, parts_.back().range.last - parts_.back().range.first);
    }
    grain_ = std::clamp<std::size_t>(grain, 1, longest);  // so that no sum with it overflows
    set_order();
  }

  /// Parts of the array, and so workers that have pieces of their own.
  int parts() const noexcept { return static_cast<int>(parts_.size()); }

  /// The next piece for the worker of that part; false if none is left. Thread-safe. Each piece goes to exactly one
  /// caller. Does not synchronize workers.
  bool next(int part, IndexRange* piece) noexcept {
    for (const int victim : order_[static_cast<std::size_t>(part)]) {
      Part& from = parts_[static_cast<std::size_t>(victim)];
      // Relaxed: the counter hands out numbers; what the iterations read was written before the loop began.
      if (from.next.load(std::memory_order_relaxed) >= from.range.last) continue;
      const std::size_t first = from.next.fetch_add(grain_, std::memory_order_relaxed);
      if (first >= from.range.last) continue;
      *piece = {first, std::min(first + grain_, from.range.last)};
      return true;
    }
    return false;
  }

 private:
  struct alignas(128) Part {
    IndexRange range{};
    std::atomic<std::size_t> next{0};
    int numa_node = 0;

    Part(IndexRange all, int node) noexcept : range(all), next(all.first), numa_node(node) {}
    Part(Part&& other) noexcept
        : range(other.range), next(other.next.load(std::memory_order_relaxed)), numa_node(other.numa_node) {}
  };

  void add(IndexRange range, int node) { parts_.emplace_back(range, node); }

  /// For each part: itself, those of its NUMA node, then the others, each from the next one on.
  void set_order() {
    const int count = static_cast<int>(parts_.size());
    for (int own = 0; own < count; ++own) {
      auto& order = order_.emplace_back();
      for (int k = 0; k < count; ++k) order.push_back((own + k) % count);
      std::stable_partition(order.begin(), order.end(), [&](int part) {
        return parts_[static_cast<std::size_t>(part)].numa_node == parts_[static_cast<std::size_t>(own)].numa_node;
      });
    }
  }

  std::size_t grain_ = 1;
  std::vector<Part> parts_;
  std::vector<std::vector<int>> order_;
};

/// One T per slot, each on separate pages on the NUMA node of its owner.
template <class T>
class Frames {
 public:
  Frames(Frames&& other) noexcept : slots_(std::move(other.slots_)), alive_(std::exchange(other.alive_, 0)) {}
  Frames& operator=(Frames&& other) noexcept {
    std::swap(slots_, other.slots_);
    std::swap(alive_, other.alive_);
    return *this;
  }
  ~Frames() {
    for (int i = 0; i < alive_; ++i) std::destroy_at(&(*this)[i]);
  }

  int size() const noexcept { return slots_.size(); }
  T& operator[](int index) noexcept { return *std::launder(reinterpret_cast<T*>(slots_.slot(index))); }
  const T& operator[](int index) const noexcept {
    return *std::launder(reinterpret_cast<const T*>(slots_.slot(index)));
  }

  /// All of them, combined in order from `start` on: op(op(start, [0]), [1]) ... The caller sees to it that nobody
  /// writes.
  template <class U, class Op>
  U combine(U start, Op op) const {
    for (int i = 0; i < size(); ++i) start = op(std::move(start), (*this)[i]);
    return start;
  }

 protected:
  static Result<Frames> make(const std::vector<int>& nodes, const T& initial) {
    auto slots = memory::Slots::create(nodes, sizeof(T));
    if (!slots) return slots.error();
    Frames frames(*std::move(slots));
    for (; frames.alive_ < frames.size(); ++frames.alive_) new (frames.slots_.slot(frames.alive_)) T(initial);
    return frames;
  }

 private:
  explicit Frames(memory::Slots slots) noexcept : slots_(std::move(slots)) {}
  memory::Slots slots_;
  int alive_ = 0;
};

/// One T per rank of a communicator of threads: [rank].
template <class T>
class PerThread : public Frames<T> {
 public:
  /// Copies of `initial`. Errors: out_of_memory.
  static Result<PerThread> create(const Communicator& communicator, const T& initial = T()) {
    auto frames = Frames<T>::make(memory::nodes_of(communicator), initial);
    if (!frames) return frames.error();
    return PerThread(*std::move(frames));
  }

 private:
  explicit PerThread(Frames<T>&& frames) noexcept : Frames<T>(std::move(frames)) {}
};

/// One T per NUMA node that has PUs and memory that may be used.
template <class T>
class PerNode : public Frames<T> {
 public:
  /// Copies of `initial`. Errors: out_of_memory.
  static Result<PerNode> create(const T& initial = T()) {
    auto nodes = memory::home_nodes();
    auto frames = Frames<T>::make(nodes, initial);
    if (!frames) return frames.error();
    return PerNode(*std::move(frames), std::move(nodes));
  }

  /// That of the node that the calling thread is on; all threads of a node share it. Of a node without memory: the
  /// first.
  T& local() noexcept {
    const auto found = std::find(nodes_.begin(), nodes_.end(), memory::this_node());
    return (*this)[found == nodes_.end() ? 0 : static_cast<int>(found - nodes_.begin())];
  }

 private:
  PerNode(Frames<T>&& frames, std::vector<int> nodes) noexcept
      : Frames<T>(std::move(frames)), nodes_(std::move(nodes)) {}
  std::vector<int> nodes_;
};

/// Memory with a placement for std::pmr containers. Requests from `least_bytes` on get pages of their own, placed as
/// the options say (no replicas: one address, one memory); smaller ones come from `upstream`. Any thread may use it.
class MemoryResource : public std::pmr::memory_resource {
 public:
  /// Errors: invalid_argument for replicas.
  static Result<std::unique_ptr<MemoryResource>> create(const ArrayOptions& options = {},
                                                        std::size_t least_bytes = std::size_t{1} << 20,
                                                        std::pmr::memory_resource* upstream = nullptr);
  ~MemoryResource() override;

 private:
  MemoryResource(const ArrayOptions& options, std::size_t least_bytes, std::pmr::memory_resource* upstream);
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  struct State;
  std::unique_ptr<State> state_;
};

/// The same as a C++ allocator that keeps its resource alive: std::vector<double, smelt::Allocator<double>>.
template <class T>
class Allocator {
 public:
  using value_type = T;

  /// Throws std::bad_alloc where the resource could not be made (replicas).
  explicit Allocator(const ArrayOptions& options = {}) {
    auto resource = MemoryResource::create(options);
    // Throws, also in a program that is compiled without exceptions.
    if (!resource) static_cast<void>(std::pmr::null_memory_resource()->allocate(sizeof(T), alignof(T)));
    resource_ = *std::move(resource);
  }
  // Copies alone: a container that was moved from keeps its allocator, and may be filled again.
  Allocator(const Allocator&) noexcept = default;
  Allocator& operator=(const Allocator&) noexcept = default;
  template <class U>
  Allocator(const Allocator<U>& other) noexcept : resource_(other.resource()) {}

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) return std::allocator<T>().allocate(count);  // throws
    return static_cast<T*>(resource_->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    resource_->deallocate(memory, count * sizeof(T), alignof(T));
  }

  const std::shared_ptr<MemoryResource>& resource() const noexcept { return resource_; }
  template <class U>
  bool operator==(const Allocator<U>& other) const noexcept {
    return resource_ == other.resource();
  }

 private:
  std::shared_ptr<MemoryResource> resource_;
};

}  // namespace smelt
