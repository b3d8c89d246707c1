// What programs consist of that smelt generates from Green-Marl: arrays, loops by chunks, reductions, collections,
// traversals.
//
// Generated code includes this header and nothing else of smelt; who runs it passes a Host. Everything between the two
// is plain data and functions, so that a program may be compiled by another compiler than smelt was.
//
// Loops. A parallel loop is cut into chunks that depend on the graph alone, by elements or by edges. Each thread takes
// the chunks of its own part of the range, which lie where its part of a partitioned array lies, then what is left of
// the others'. Sums are formed per chunk and joined in the order of the chunks: the result is the same for any number
// of threads.
//
// Memory order. Chunks of one loop share nothing but what the program lets them share; those accesses are relaxed
// atomics. All else is ordered by the start and the end of the loop (Host::parallel).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace smelt::graph::program {

/// What is known of an array before it is made; [Kaestle16] tables 3.2 and 3.3.
struct ArrayHints {
  const char* name;
  bool node;       ///< an element per node, else per edge
  bool read_only;  ///< once it is filled
  bool dynamic;    ///< made by the program, not given to it
  bool indexed;    ///< always accessed by the index of the loop
  double reads;    ///< expected per element
  double writes;
};

/// What a program needs of whoever runs it. `self` is passed back.
struct Host {
  void* self;
  int threads;
  std::uint64_t seed;  ///< of random numbers
  /// work(context, thread) on every thread at once; returns when all are through.
  void (*parallel)(void* self, void (*work)(void* context, int thread), void* context);
  /// Memory of an array; null if there is none. Not cleared if it was used before.
  void* (*allocate)(void* self, std::size_t size_bytes, const ArrayHints* hints);
  void (*release)(void* self, void* array);
  /// Where the calling thread finds the array: its nearest copy.
  void* (*local)(void* self, void* array, int thread);
  bool copies;                     ///< whether there are arrays with copies
  std::size_t own_cache_bytes;     ///< of a core
  std::size_t shared_cache_bytes;  ///< of the cores that share the last one
  void (*print)(void* self, const char* text, std::size_t size);
};

/// Ends a program; caught where it was called.
struct ProgramError {
  std::string message;
  int line = 0;
};

[[noreturn, gnu::cold, gnu::noinline]] inline void fail(int line, std::string message) {
  throw ProgramError{std::move(message), line};
}
/// Makes the text itself: what it is called from stays short enough to be inlined.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail(int line, const char* message) {
  fail(line, std::string(message));
}

// --- numbers

/// INF of a type. The negative one is its negation.
template <class T>
constexpr T infinity = std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                            : std::numeric_limits<T>::max();

/// NIL: the largest number of a node or edge.
template <class Id>
constexpr Id nil = std::numeric_limits<Id>::max();

template <class T>
constexpr bool is_infinite(T value) {
  return value == infinity<T> || value == -infinity<T>;
}
/// False only for what is not: INF, the least number and -INF follow each other without a sign, so that one comparison
/// tells.
template <class T>
constexpr bool maybe_infinite(T value) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<Unsigned>(static_cast<Unsigned>(value) - static_cast<Unsigned>(infinity<T>)) <= 2;
  } else {
    return is_infinite(value);
  }
}

/// Where INF may occur: INF plus a number stays INF.
template <class T>
constexpr T plus(T left, T right) {
  if (maybe_infinite(left) || maybe_infinite(right)) [[unlikely]] {
    if (is_infinite(left)) return left;
    if (is_infinite(right)) return right;
  }
  return left + right;
}
template <class T>
constexpr T minus(T left, T right) {
  if (is_infinite(left)) return left;
  return is_infinite(right) ? -right : left - right;
}
/// A whole number as another type; what does not fit becomes the nearest one.
template <class To, class From>
constexpr To narrow(From value) {
  if (std::cmp_less(value, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return std::cmp_greater(value, std::numeric_limits<To>::max()) ? std::numeric_limits<To>::max()
                                                                 : static_cast<To>(value);
}
/// Where INF may occur: it is the INF of the other type.
template <class To, class From>
constexpr To convert(From value) {
  if (value == infinity<From>) return infinity<To>;
  if (value == -infinity<From>) return -infinity<To>;
  if constexpr (std::is_integral_v<To>) {
    return narrow<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

/// A count as an Int.
inline std::int32_t to_int(std::int64_t value, int line) {
  if (value < INT32_MIN || value > INT32_MAX) [[unlikely]]
    fail(line, std::to_string(value) + " does not fit into an Int");
  return static_cast<std::int32_t>(value);
}
/// A count that may be INF.
inline std::int32_t to_int_or_infinity(std::int64_t value, int line) {
  return is_infinite(value) ? convert<std::int32_t>(value) : to_int(value, line);
}

/// A number cut to a whole one; what does not fit becomes the nearest one, nothing at all 0.
template <class To, class From>
constexpr To truncate(From value) {
  if (!(value == value)) return 0;
  constexpr From low = static_cast<From>(std::numeric_limits<To>::min()),
                 high = static_cast<From>(std::numeric_limits<To>::max());
  if (value <= low) return std::numeric_limits<To>::min();
  return value >= high ? std::numeric_limits<To>::max() : static_cast<To>(value);
}

template <class T>
T divide(T left, T right, int line) {
  if (right == 0) [[unlikely]]
    fail(line, "division by zero");
  return right == -1 ? -left : left / right;  // the quotient of the least number would not fit
}
template <class T>
T modulo(T left, T right, int line) {
  if (right == 0) [[unlikely]]
    fail(line, "division by zero");
  return right == -1 ? 0 : left % right;
}
template <class T>
constexpr T absolute(T value) {
  return value < 0 ? -value : value;
}

/// A node or edge that must not be NIL.
template <class Id>
[[gnu::always_inline]] inline Id checked(Id id, int line) {
  if (id == nil<Id>) [[unlikely]]
    fail(line, "NIL has no properties and no neighbours");
  return id;
}

/// What enters a collection.
template <class Id>
Id item(Id id, int line) {
  if (id == nil<Id>) [[unlikely]]
    fail(line, "NIL cannot be in a collection");
  return id;
}

// --- accesses that may meet

template <class T>
T load(const T& place) noexcept {
  return std::atomic_ref<T>(const_cast<T&>(place)).load(std::memory_order_relaxed);
}
template <class T>
void store(T& place, std::type_identity_t<T> value) noexcept {
  std::atomic_ref<T>(place).store(value, std::memory_order_relaxed);
}
/// Where all write the same: the line stays shared once it is done.
template <class T>
void store_if_other(T& place, std::type_identity_t<T> value) noexcept {
  if (load(place) != value) store(place, value);
}

struct Sum {
  template <class T>
  static constexpr T neutral() {
    return T{};
  }
  template <class T>
  static constexpr T of(T left, T right) {
    return left + right;
  }
};
/// Of whole numbers that may be INF.
struct SumOrInfinity {
  template <class T>
  static constexpr T neutral() {
    return T{};
  }
  template <class T>
  static constexpr T of(T left, T right) {
    return plus(left, right);
  }
};
struct Product {
  template <class T>
  static constexpr T neutral() {
    return T{1};
  }
  template <class T>
  static constexpr T of(T left, T right) {
    return left * right;
  }
};
struct Min {
  template <class T>
  static constexpr T neutral() {
    return infinity<T>;
  }
  template <class T>
  static constexpr T of(T left, T right) {
    return right < left ? right : left;
  }
};
struct Max {
  template <class T>
  static constexpr T neutral() {
    return std::is_unsigned_v<T> ? T{} : -infinity<T>;
  }
  template <class T>
  static constexpr T of(T left, T right) {
    return left < right ? right : left;
  }
};
struct And {
  template <class T>
  static constexpr T neutral() {
    return true;
  }
  static constexpr bool of(bool left, bool right) { return left && right; }
};
struct Or {
  template <class T>
  static constexpr T neutral() {
    return false;
  }
  static constexpr bool of(bool left, bool right) { return left || right; }
};

/// place = Op(place, value), while others do the same. Returns whether it changed.
template <class Op, class T>
bool reduce(T& place, std::type_identity_t<T> value) noexcept {
  std::atomic_ref<T> atomic(place);
  if constexpr (std::is_same_v<Op, Sum> && std::is_integral_v<T>) {
    atomic.fetch_add(value, std::memory_order_relaxed);
    return true;
  } else {
    T before = atomic.load(std::memory_order_relaxed);
    for (;;) {
      const T after = Op::of(before, value);
      if (after == before) return false;
      if (atomic.compare_exchange_weak(before, after, std::memory_order_relaxed)) return true;
    }
  }
}

/// place = value where it is `expected`, in one step, while others do the same. Returns whether it was.
template <class T>
bool replace(T& place, std::type_identity_t<T> expected, std::type_identity_t<T> value) noexcept {
  std::atomic_ref<T> atomic(place);
  if (atomic.load(std::memory_order_relaxed) != expected) return false;  // the line stays shared
  return atomic.compare_exchange_strong(expected, value, std::memory_order_relaxed);
}

/// The same where nobody else is.
template <class Op, class T>
bool reduce_alone(T& place, std::type_identity_t<T> value) noexcept {
  const T after = Op::of(place, value);
  if (after == place) return false;
  place = after;
  return true;
}

// --- random numbers

/// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
  Random(std::uint64_t seed, std::uint64_t stream) noexcept : state_(mixed(seed + mixed(stream + increment))) {}

  std::uint64_t next() noexcept { return mixed(state_ += increment); }
  /// In [0, 1).
  double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// In 0 .. bound-1; 0 for a bound that is not positive.
  template <class T>
  T below(T bound) noexcept {
    if (bound <= 0) return 0;
    __extension__ using Wide = unsigned __int128;  // of which -Wpedantic would warn
    return static_cast<T>(static_cast<Wide>(next()) * static_cast<std::uint64_t>(bound) >> 64);
  }

 private:
  static constexpr std::uint64_t increment = 0x9E3779B97F4A7C15ull;
  static constexpr std::uint64_t mixed(std::uint64_t x) noexcept {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
  }
  std::uint64_t state_;
};

// --- chunks of loops

/// How far a loop over neighbours is ahead of itself: it asks for what it reads of a neighbour so many edges before.
struct Ahead {
  std::uint64_t distance = 0;
  std::uint64_t last = 0;  ///< only edges below this one are so far from the end of the list of all edges

  template <class EdgeId>
  bool covers(EdgeId edge) const noexcept {
    return edge < last;
  }
};
/// Asks for the cache line, without waiting for it. Inlined, as GCC removes calls of functions that do nothing else.
template <class T>
[[gnu::always_inline]] inline void fetch(const T& place) noexcept {
  __builtin_prefetch(&place);
}

struct Chunk {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t index = 0;
  int thread = 0;
};

constexpr std::uint64_t most_chunks = 1024;

/// [0, count) in pieces of equally many elements, at least `least` each.
class ByCount {
 public:
  explicit ByCount(std::uint64_t count, std::uint64_t least = 512) noexcept
      : count_(count), chunks_(count == 0 ? 0 : std::min(most_chunks, count / least + 1)) {}
  std::size_t size() const noexcept { return chunks_; }
  std::uint64_t work() const noexcept { return count_; }
  std::uint64_t bound(std::uint64_t index) const noexcept {
    return count_ / chunks_ * index + count_ % chunks_ * index / chunks_;
  }

 private:
  std::uint64_t count_;
  std::uint64_t chunks_;
};

/// Nodes in pieces with equally many edges and nodes together.
template <class EdgeId>
class ByEdges {
 public:
  ByEdges(const EdgeId* begin, std::uint64_t nodes, std::uint64_t most = most_chunks) noexcept
      : begin_(begin),
        nodes_(nodes),
        work_(begin[nodes] + nodes),
        chunks_(nodes == 0 ? 0 : std::min({most, work_ / 4096 + 1, nodes})) {}
  std::size_t size() const noexcept { return chunks_; }
  std::uint64_t work() const noexcept { return work_; }

  std::uint64_t bound(std::uint64_t index) const noexcept {
    if (index == chunks_) return nodes_;
    const std::uint64_t wanted = work_ / chunks_ * index + work_ % chunks_ * index / chunks_;
    std::uint64_t low = 0, high = nodes_;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (begin_[middle] + middle < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  const EdgeId* begin_;
  std::uint64_t nodes_;
  std::uint64_t work_;
  std::uint64_t chunks_;
};

/// One run of a program: its threads, memory and random numbers. Belongs to one thread, but for what is said otherwise.
class Run {
 public:
  explicit Run(const Host& host) : host_(host), cursors_(static_cast<std::size_t>(host.threads)), random_(host.seed) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// As part of a loop of `outer`: everything happens on the calling thread. Its random numbers are its own, too.
  Run(const Run& outer, const Chunk& chunk) : host_(outer.host_), cursors_(1), random_(outer.random(chunk).next()) {
    host_.threads = 1;
    host_.seed = random_.next();
  }

  int threads() const noexcept { return host_.threads; }
  const Host& host() const noexcept { return host_; }
  Random& random() noexcept { return random_; }
  /// A chunk's own random numbers, the same for any number of threads.
  Random random(const Chunk& chunk) const noexcept {
    store_if_other(draws_, true);
    return Random(host_.seed, random_loops_ * most_chunks + chunk.index);
  }

  /// body(chunk) for all chunks. The first exception ends the loop and is thrown again.
  template <class Chunks, class Body>
  void for_chunks(const Chunks& chunks, Body&& body) {
    share(chunks, body);
    if (std::exchange(draws_, false)) ++random_loops_;
  }

  /// One of the graph's arrays for the loop's chunk: the copy near to its thread.
  template <class T>
  const T* local(const T* array, const Chunk& chunk) const noexcept {
    if (!host_.copies) return array;
    return static_cast<const T*>(host_.local(host_.self, const_cast<T*>(array), chunk.thread));
  }

  /// For a loop over the neighbours of all nodes that reads an array of `size_bytes` at random. It does not pay where a
  /// core's own cache holds the array. Where the shared cache hardly does, beside the lists of edges, it takes longer
  /// until an element has come.
  Ahead ahead(std::uint64_t edges, std::size_t size_bytes) const noexcept {
    if (size_bytes <= host_.own_cache_bytes) return {};
    const std::uint64_t distance = size_bytes <= host_.shared_cache_bytes / 4 ? 64 : 256;
    return edges <= distance ? Ahead{} : Ahead{distance, edges - distance};
  }

  /// f(thread) on all threads; it must not throw.
  template <class F>
  void parallel(F&& f) {
    if (host_.threads == 1) return f(0);
    host_.parallel(
        host_.self, [](void* context, int thread) { (*static_cast<std::remove_reference_t<F>*>(context))(thread); },
        &f);
  }

  /// f(chunk) once on each of the first `threads` threads, with the thread's number in an empty chunk: the caller's
  /// alone, or all of them. The first exception is thrown again when all are through.
  template <class F>
  void on_threads(int threads, F&& f) {
    Failure failure;
    auto guarded = [&](int thread) {
      try {
        f(Chunk{0, 0, static_cast<std::size_t>(thread), thread});
      } catch (...) {
        failure.put(std::current_exception());
      }
    };
    if (threads == 1) {
      guarded(0);
    } else {
      parallel(guarded);
    }
    failure.rethrow();
  }

  /// For what only one thread at a time may do within a loop. Parts of an expression under it may take it again.
  std::recursive_mutex& mutex() noexcept { return mutex_; }

  void print(std::string_view text) { host_.print(host_.self, text.data(), text.size()); }

 private:
  template <class Chunks, class Body>
  void share(const Chunks& chunks, Body& body) {
    if (chunks.size() <= 1 || host_.threads == 1 || chunks.work() < worth_waking) {
      for (std::size_t index = 0; index < chunks.size(); ++index) {
        body(Chunk{chunks.bound(index), chunks.bound(index + 1), index, 0});
      }
      return;
    }
    const std::size_t threads = cursors_.size();
    for (std::size_t thread = 0; thread < threads; ++thread) {
      cursors_[thread].next.store(chunks.size() * thread / threads,
                                  std::memory_order_relaxed);  // published by parallel()
      cursors_[thread].end = chunks.size() * (thread + 1) / threads;
    }
    Failure failure;
    parallel([&](int thread) {
      try {
        for (std::size_t i = 0; i < threads; ++i) {
          Cursor& cursor = cursors_[(static_cast<std::size_t>(thread) + i) % threads];
          for (;;) {
            const auto index = cursor.next.fetch_add(1, std::memory_order_relaxed);  // an index only: publishes nothing
            if (index >= cursor.end || failure.happened()) break;
            body(Chunk{chunks.bound(index), chunks.bound(index + 1), index, thread});
          }
        }
      } catch (...) {
        failure.put(std::current_exception());
      }
    });
    failure.rethrow();
  }

  /// Loops with less work than waking the other threads takes are not shared.
  static constexpr std::uint64_t worth_waking = 4096;

  struct alignas(128) Cursor {
    std::atomic<std::size_t> next{0};
    std::size_t end = 0;
  };

  /// What was thrown first. Read after the threads have met.
  class Failure {
   public:
    bool happened() const noexcept { return happened_.load(std::memory_order_relaxed); }
    void put(std::exception_ptr exception) noexcept {
      if (!happened_.exchange(true, std::memory_order_relaxed)) exception_ = std::move(exception);
    }
    void rethrow() const {
      if (exception_) std::rethrow_exception(exception_);
    }

   private:
    std::atomic<bool> happened_{false};
    std::exception_ptr exception_;
  };

  Host host_;
  std::vector<Cursor> cursors_;
  std::recursive_mutex mutex_;
  // Loops that drew random numbers: how many other loops there are depends on the number of threads.
  std::uint64_t random_loops_ = 0;
  mutable bool draws_ = false;  ///< whether the current loop does; set by any of its threads
  Random random_;
};

/// A value per chunk, joined in the order of the chunks.
template <class Op, class T>
class Partials {
 public:
  explicit Partials(std::size_t chunks) : values_(chunks, Value{Op::template neutral<T>()}) {}
  void put(const Chunk& chunk, T value) noexcept { values_[chunk.index].value = value; }
  T joined(T start) const noexcept {
    for (const auto& each : values_) start = Op::of(start, each.value);
    return start;
  }

 private:
  struct Value {  // no vector<bool>
    T value;
  };
  std::vector<Value> values_;
};

/// The best value of a min= or max=, with what is assigned along. Of equal ones the smallest arguments win, so that the
/// result does not depend on who comes first.
template <class Op, class T, class... Along>
class Best {
 public:
  void offer(T value, Along... along) {
    const bool better = !found_ || (Op::of(value, value_) == value && value != value_);
    if (!better && !(value == value_ && std::tuple<Along...>(along...) < along_)) return;
    found_ = true;
    value_ = value;
    along_ = std::tuple<Along...>(along...);
  }
  bool found() const noexcept { return found_; }
  T value() const noexcept { return value_; }
  const std::tuple<Along...>& along() const noexcept { return along_; }
  void offer(const Best& other) {
    if (other.found_) std::apply([&](const auto&... along) { offer(other.value_, along...); }, other.along_);
  }
  bool equals(T current) const noexcept { return found_ && value_ == current; }
  /// Whether it replaces `current`.
  bool improves(T current) const noexcept { return found_ && Op::of(current, value_) == value_ && value_ != current; }

 private:
  bool found_ = false;
  T value_{};
  std::tuple<Along...> along_;
};

/// The best of all parts.
template <class Best>
Best best_of(const std::vector<Best>& parts) {
  Best best;
  for (const auto& part : parts) best.offer(part);
  return best;
}

/// Deferred assignments of one loop: kept until they happen, in the order of the chunks.
template <class T>
class Deferred {
 public:
  using Part = std::vector<std::pair<std::uint64_t, T>>;

  explicit Deferred(std::size_t chunks = 1) : parts_(chunks) {}
  Part& part(std::size_t index = 0) noexcept { return parts_[index]; }

  /// place(index) = value for each of them.
  template <class Place>
  void apply(Place&& place) {
    for (auto& part : parts_) {
      for (auto& [index, value] : part) place(index) = std::move(value);
      part.clear();
    }
  }

 private:
  std::vector<Part> parts_;
};

// --- graphs and arrays

/// A graph as arrays, which belong to the caller. In edges are there if the program needs them.
template <class NodeId, class EdgeId>
struct GraphView {
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  const EdgeId* begin = nullptr;
  const NodeId* node_idx = nullptr;
  const EdgeId* r_begin = nullptr;
  const NodeId* r_node_idx = nullptr;
  const EdgeId* r_edge = nullptr;  ///< numbers of the in edges; null where they are their positions
  bool undirected = false;
  bool simple = false;

  std::int64_t num_nodes() const noexcept { return static_cast<std::int64_t>(nodes); }
  std::int64_t num_edges() const noexcept { return static_cast<std::int64_t>(edges); }
  std::int64_t degree(NodeId node) const noexcept { return static_cast<std::int64_t>(begin[node + 1] - begin[node]); }
  std::int64_t in_degree(NodeId node) const noexcept {
    return static_cast<std::int64_t>(r_begin[node + 1] - r_begin[node]);
  }
  EdgeId in_edge(EdgeId position) const noexcept { return r_edge == nullptr ? position : r_edge[position]; }

  bool has_edge(NodeId from, NodeId to) const noexcept {
    return std::binary_search(node_idx + begin[from], node_idx + begin[from + 1], to);
  }
  /// The node that an edge starts from.
  NodeId from(EdgeId edge) const noexcept {
    return static_cast<NodeId>(std::upper_bound(begin, begin + nodes + 1, edge) - begin - 1);
  }
  NodeId to(EdgeId edge) const noexcept { return node_idx[edge]; }

  NodeId pick_node(Random& random) const noexcept {
    return nodes == 0 ? nil<NodeId> : static_cast<NodeId>(random.below(num_nodes()));
  }
  NodeId pick_neighbour(Random& random, NodeId node) const noexcept {
    const auto degree = this->degree(node);
    return degree == 0 ? nil<NodeId> : node_idx[begin[node] + static_cast<EdgeId>(random.below(degree))];
  }

  ByCount node_chunks() const noexcept { return ByCount(nodes); }
  ByEdges<EdgeId> out_chunks() const noexcept { return {begin, nodes}; }
  ByEdges<EdgeId> in_chunks() const noexcept { return {r_begin, nodes}; }
};

/// The sum of value(node) over the nodes list[first] to list[last - 1]. Four sums at a time, as one would wait for
/// itself.
template <class T, class NodeId, class EdgeId, class Value>
T sum_of(const NodeId* list, EdgeId first, EdgeId last, Value&& value) {
  T sum0{}, sum1{}, sum2{}, sum3{};
  const NodeId *at = list + first, *const end = list + last;
  for (; end - at >= 4; at += 4) {
    sum0 += value(at[0]);
    sum1 += value(at[1]);
    sum2 += value(at[2]);
    sum3 += value(at[3]);
  }
  for (; at < end; ++at) sum0 += value(*at);
  return (sum0 + sum1) + (sum2 + sum3);
}

/// The same, where fetch(node) asks for what value(node) reads. `ahead`: of the list of all edges.
template <class T, class NodeId, class EdgeId, class Value, class Fetch>
T sum_of(const NodeId* list, EdgeId first, EdgeId last, const Ahead& ahead, Value&& value, Fetch&& fetch) {
  if (first == last || !ahead.covers(last - 1)) return sum_of<T>(list, first, last, value);
  T sum0{}, sum1{}, sum2{}, sum3{};
  const NodeId *at = list + first, *const end = list + last;
  for (; end - at >= 4; at += 4) {
    const NodeId* const later = at + ahead.distance;
    fetch(later[0]);
    fetch(later[1]);
    fetch(later[2]);
    fetch(later[3]);
    sum0 += value(at[0]);
    sum1 += value(at[1]);
    sum2 += value(at[2]);
    sum3 += value(at[3]);
  }
  for (; at < end; ++at) {
    fetch(at[ahead.distance]);
    sum0 += value(*at);
  }
  return (sum0 + sum1) + (sum2 + sum3);
}

/// For a loop over all nodes that reads the first neighbours of each: asks for the start of the list of a node that it
/// comes to later, and for what `arrays` have of the first two neighbours of a node that it comes to before that one. A
/// node with fewer neighbours is followed by the next one's.
template <class NodeId, class EdgeId, class... T>
[[gnu::always_inline]] inline void fetch_first(const NodeId* list, const EdgeId* begin, std::uint64_t node,
                                               std::uint64_t nodes, std::uint64_t edges, const T*... arrays) noexcept {
  constexpr std::uint64_t list_ahead = 64, ahead = 32;
  if (node + list_ahead >= nodes) return;
  __builtin_prefetch(list + begin[node + list_ahead]);
  const EdgeId edge = begin[node + ahead];
  if (edge + std::uint64_t{1} >= edges) return;
  (fetch(arrays[list[edge]]), ...);
  (fetch(arrays[list[edge + 1]]), ...);
}

/// The first of the ascending elements [first, last) of a list that is above `node`.
template <class NodeId, class EdgeId>
EdgeId above(const NodeId* list, EdgeId first, EdgeId last, NodeId node) noexcept {
  while (first < last) {
    const EdgeId middle = first + (last - first) / 2;
    if (list[middle] <= node) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

/// Which nodes a thread has marked: the neighbours of the node that it works on, one after the other.
template <class NodeId>
class Marks {
 public:
  class Own {
   public:
    /// These instead of the ones before; valid while the list is.
    void mark(const NodeId* first, const NodeId* last) noexcept {
      for (const NodeId* node = first_; node < last_; ++node) bits_[*node / 64] = 0;
      for (const NodeId* node = first; node < last; ++node) bits_[*node / 64] |= std::uint64_t{1} << *node % 64;
      first_ = first;
      last_ = last;
    }
    bool has(NodeId node) const noexcept { return (bits_[node / 64] >> node % 64 & 1) != 0; }
    /// The bits of the nodes from `word` * 64 on.
    const std::uint64_t* bits(std::uint64_t word) const noexcept { return bits_.data() + word; }

   private:
    friend class Marks;
    std::vector<std::uint64_t> bits_;
    const NodeId* first_ = nullptr;
    const NodeId* last_ = nullptr;
  };

  Marks(const Run& run, std::uint64_t nodes) : words_(nodes / 64 + 1), own_(static_cast<std::size_t>(run.threads())) {}
  /// The thread's own, until the chunk ends.
  Own& of(const Chunk& chunk) {
    Own& own = own_[static_cast<std::size_t>(chunk.thread)].own;
    if (own.bits_.empty()) own.bits_.resize(words_);
    return own;
  }

 private:
  struct alignas(128) Padded {
    Own own;
  };
  std::uint64_t words_;
  std::vector<Padded> own_;
};

#if defined(__x86_64__) || defined(__i386__)
// What the CPU has beyond what this is compiled for.
#if !defined(__POPCNT__)
[[gnu::target("popcnt")]] inline std::uint64_t common_bits_popcnt(const std::uint64_t* a, const std::uint64_t* b,
                                                                  std::uint64_t words) noexcept {
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < words; ++i) count += static_cast<std::uint64_t>(__builtin_popcountll(a[i] & b[i]));
  return count;
}
#endif
#if !defined(__AVX512VPOPCNTDQ__)
[[gnu::target("popcnt,avx512f,avx512vl,avx512vpopcntdq")]] inline std::uint64_t common_bits_avx512(
    const std::uint64_t* a, const std::uint64_t* b, std::uint64_t words) noexcept {
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < words; ++i) count += static_cast<std::uint64_t>(__builtin_popcountll(a[i] & b[i]));
  return count;
}
#endif
#endif

/// How many bits are set in both of two bitmaps.
inline std::uint64_t common_bits(const std::uint64_t* a, const std::uint64_t* b, std::uint64_t words) noexcept {
#if (defined(__x86_64__) || defined(__i386__)) && !defined(__AVX512VPOPCNTDQ__)
  if (__builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vl"))
    return common_bits_avx512(a, b, words);
#endif
#if (defined(__x86_64__) || defined(__i386__)) && !defined(__POPCNT__)
  if (__builtin_cpu_supports("popcnt")) return common_bits_popcnt(a, b, words);
#endif
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < words; ++i) count += static_cast<std::uint64_t>(std::popcount(a[i] & b[i]));
  return count;
}

/// The neighbours above each node of a graph whose lists ascend and in which no edge repeats: where they are in its
/// list; and as a bitmap if there are so many that this takes no more than twice the memory of the list. Then 64 of
/// them are compared with a thread's marks at once. Empty for other graphs.
template <class NodeId, class EdgeId>
class NeighboursAbove {
 public:
  class Ahead;

  NeighboursAbove(Run& run, const GraphView<NodeId, EdgeId>& graph, const EdgeId* begin, const NodeId* node_idx)
      : node_idx_(node_idx), last_word_(graph.nodes / 64) {
    if (!graph.simple) return;
    lists_.resize(graph.nodes);
    run.for_chunks(ByEdges(begin, graph.nodes), [&](const Chunk& chunk) {
      for (auto node = chunk.first; node < chunk.last; ++node) {
        const EdgeId last = begin[node + 1];
        lists_[node] = {above(node_idx, begin[node], last, static_cast<NodeId>(node)), last, none};
      }
    });
    std::uint64_t size = 0;
    std::vector<NodeId> dense;
    for (std::uint64_t node = 0; node < graph.nodes; ++node) {
      const std::uint64_t words = last_word_ + 1 - node / 64;
      if (lists_[node].last - lists_[node].first < words) continue;
      dense.push_back(static_cast<NodeId>(node));
      lists_[node].row = size;
      size += words;
    }
    bits_.resize(size);
    run.for_chunks(ByCount(dense.size(), 1), [&](const Chunk& chunk) {
      for (auto i = chunk.first; i < chunk.last; ++i) {
        const NodeId node = dense[i];
        const List& list = lists_[node];
        std::uint64_t* const row = bits_.data() + list.row;
        for (EdgeId edge = list.first; edge < list.last; ++edge)
          row[node_idx[edge] / 64 - node / 64] |= std::uint64_t{1} << node_idx[edge] % 64;
      }
    });
  }

  EdgeId first(NodeId node) const noexcept { return lists_[node].first; }
  EdgeId last(NodeId node) const noexcept { return lists_[node].last; }
  bool has_bitmap(NodeId node) const noexcept { return !lists_.empty() && lists_[node].row != none; }
  /// How many of those of a node that has a bitmap are marked.
  std::int64_t count_marked(NodeId node, const typename Marks<NodeId>::Own& marks) const noexcept {
    const std::uint64_t word = node / 64;
    return static_cast<std::int64_t>(
        common_bits(bits_.data() + lists_[node].row, marks.bits(word), last_word_ + 1 - word));
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  struct List {
    EdgeId first;
    EdgeId last;
    std::uint64_t row;  ///< where its bitmap begins in bits_
  };

  const NodeId* node_idx_;
  std::uint64_t last_word_;
  std::vector<List> lists_;
  std::vector<std::uint64_t> bits_;
};

/// Of a loop over nodes, and for each over its neighbours above it, that reads the list above each such neighbour: asks
/// for these lists before. Lists begin anywhere in memory.
template <class NodeId, class EdgeId>
class NeighboursAbove<NodeId, EdgeId>::Ahead {
 public:
  /// For the nodes from `first` on.
  Ahead(const NeighboursAbove& all, std::uint64_t first) noexcept : all_(all) {
    if (first >= all_.lists_.size()) return;
    near_.node = far_.node = first;
    near_.edge = far_.edge = all_.lists_[first].first;
    for (int i = 0; i < places_ahead; ++i) step(far_);
    for (int i = 0; i < lists_ahead; ++i) step(near_);
  }

  static constexpr int places_ahead = 32, lists_ahead = 16;  ///< neighbours

  /// Called once for each neighbour that the loop comes to.
  [[gnu::always_inline]] void next() noexcept {
    // Inlined early: of functions that only prefetch, GCC drops the calls.
    next(
        [](NodeId, const auto& place) __attribute__((always_inline)) { fetch(place); },
        [](const NodeId* list) __attribute__((always_inline)) {
          __builtin_prefetch(list);
          __builtin_prefetch(list + 64 / sizeof(NodeId));
        });
  }

  /// The same: ask_place(neighbour, where its list's place is known), ask_list(the list) instead of fetches.
  template <class AskPlace, class AskList>
  [[gnu::always_inline]] void next(AskPlace&& ask_place, AskList&& ask_list) noexcept {
    if (step(far_)) {
      const NodeId neighbour = all_.node_idx_[far_.edge];
      ask_place(neighbour, all_.lists_[neighbour]);
    }
    if (step(near_)) ask_list(all_.node_idx_ + all_.lists_[all_.node_idx_[near_.edge]].first);
  }

 private:
  struct At {
    std::uint64_t node = ~std::uint64_t{0};  ///< none
    EdgeId edge = 0;
  };

  /// To the next neighbour; false behind the last one.
  bool step(At& at) const noexcept {
    if (at.node >= all_.lists_.size()) return false;
    ++at.edge;
    while (at.edge >= all_.lists_[at.node].last) {
      if (++at.node == all_.lists_.size()) return false;
      at.edge = all_.lists_[at.node].first;
    }
    return true;
  }

  const NeighboursAbove& all_;
  At near_;
  At far_;
};

/// Whether so many edges lead from the nodes that take part, which each_node(chunk, count) tells by count(node), that
/// it takes less to look at all edges from their other ends, without atomics.
template <class NodeId, class EdgeId, class EachNode>
bool pays_to_pull(Run& run, const GraphView<NodeId, EdgeId>& graph, EachNode&& each_node) {
  if (graph.r_begin == nullptr || run.threads() == 1) return false;
  const auto chunks = graph.node_chunks();
  Partials<Sum, std::uint64_t> parts(chunks.size());
  run.for_chunks(chunks, [&](const Chunk& chunk) {
    std::uint64_t edges = 0;
    each_node(chunk, [&](NodeId node) { edges += graph.begin[node + 1] - graph.begin[node]; });
    parts.put(chunk, edges);
  });
  constexpr std::uint64_t atomics_take = 4;  ///< as long as so many plain accesses
  return parts.joined(0) > graph.edges / atomics_take;
}

/// A graph with its nodes numbered by ascending degree, if it is undirected and simple and degrees are skewed; else
/// itself.
template <class NodeId, class EdgeId>
class Ordered {
 public:
  GraphView<NodeId, EdgeId> view;

  Ordered(Run& run, const GraphView<NodeId, EdgeId>& graph) : view(graph) {
    if (!graph.undirected || !graph.simple || !is_skewed(graph)) return;
    const auto number = numbers_by_degree(graph);
    begin_.resize(graph.nodes + 1);
    node_idx_.resize(graph.edges);
    for (std::uint64_t node = 0; node < graph.nodes; ++node) {
      begin_[number[node] + 1] = static_cast<EdgeId>(graph.degree(static_cast<NodeId>(node)));
    }
    for (std::uint64_t node = 0; node < graph.nodes; ++node) begin_[node + 1] += begin_[node];
    // Each thread goes through all nodes in their new order, and adds them to the lists of its own neighbours: so these
    // lists ascend.
    std::vector<NodeId> in_order(graph.nodes);
    for (std::uint64_t node = 0; node < graph.nodes; ++node) in_order[number[node]] = static_cast<NodeId>(node);
    std::vector<EdgeId> next(begin_);
    const ByEdges lists(begin_.data(), graph.nodes, static_cast<std::uint64_t>(run.threads()));
    run.for_chunks(lists, [&](const Chunk& chunk) {
      for (std::uint64_t i = 0; i < graph.nodes; ++i) {
        const NodeId node = in_order[i];
        for (EdgeId edge = graph.begin[node]; edge < graph.begin[node + 1]; ++edge) {
          const std::uint64_t neighbour = number[graph.node_idx[edge]];
          if (chunk.first <= neighbour && neighbour < chunk.last) node_idx_[next[neighbour]++] = static_cast<NodeId>(i);
        }
      }
    });
    view.begin = view.r_begin = begin_.data();
    view.node_idx = view.r_node_idx = node_idx_.data();
  }
  Ordered(const Ordered&) = delete;
  Ordered& operator=(const Ordered&) = delete;

 private:
  /// By a sample, as GAP does: the mean well above the median, and not few edges.
  static bool is_skewed(const GraphView<NodeId, EdgeId>& graph) {
    if (graph.nodes == 0 || graph.edges / graph.nodes < 10) return false;
    constexpr std::size_t most_samples = 1000;
    std::vector<std::int64_t> sample;
    Random random(1);
    for (std::size_t i = 0; i < std::min<std::size_t>(most_samples, graph.nodes); ++i)
      sample.push_back(graph.degree(graph.pick_node(random)));
    std::sort(sample.begin(), sample.end());
    std::int64_t total = 0;
    for (const auto degree : sample) total += degree;
    return static_cast<double>(total) / static_cast<double>(sample.size()) >
           1.3 * static_cast<double>(sample[sample.size() / 2]);
  }

  /// Counting sort; of equal degrees the order stays.
  static std::vector<NodeId> numbers_by_degree(const GraphView<NodeId, EdgeId>& graph) {
    std::uint64_t most = 0;
    for (std::uint64_t node = 0; node < graph.nodes; ++node)
      most = std::max<std::uint64_t>(most, graph.begin[node + 1] - graph.begin[node]);
    std::vector<NodeId> next(most + 2), number(graph.nodes);
    for (std::uint64_t node = 0; node < graph.nodes; ++node) ++next[graph.begin[node + 1] - graph.begin[node] + 1];
    for (std::uint64_t degree = 0; degree <= most; ++degree) next[degree + 1] += next[degree];
    for (std::uint64_t node = 0; node < graph.nodes; ++node)
      number[node] = next[graph.begin[node + 1] - graph.begin[node]]++;
    return number;
  }

  std::vector<EdgeId> begin_;
  std::vector<NodeId> node_idx_;
};

/// A value per node or edge.
template <class T>
class Property {
 public:
  static constexpr bool plain = std::is_trivially_copyable_v<T>;

  /// Made by the program; undefined until assigned.
  Property(Run& run, std::uint64_t size, const ArrayHints& hints) : host_(&run.host()), size_(size) {
    if constexpr (plain) {
      data_ = owned_ = static_cast<T*>(host_->allocate(host_->self, size * sizeof(T), &hints));
      if (data_ == nullptr && size > 0) fail(0, std::string("no memory for the property '") + hints.name + "'");
    } else {
      objects_ = std::make_unique<T[]>(size);
      data_ = objects_.get();
    }
  }
  /// The caller's.
  Property(Run& run, T* data, std::uint64_t size) : host_(&run.host()), size_(size), data_(data) {}
  ~Property() {
    if (owned_ != nullptr) host_->release(host_->self, owned_);
  }
  Property(const Property&) = delete;
  Property& operator=(const Property&) = delete;

  T& operator[](std::uint64_t index) const noexcept { return data_[index]; }
  T* data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  /// For the loop's chunk: valid on its thread until the chunk ends.
  T* local(const Chunk& chunk) const noexcept {
    if constexpr (plain) {
      if (host_->copies) return static_cast<T*>(host_->local(host_->self, data_, chunk.thread));
    }
    return data_;
  }

  void swap(Property& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(owned_, other.owned_);
    std::swap(objects_, other.objects_);
  }

 private:
  const Host* host_;
  std::uint64_t size_;
  T* data_ = nullptr;
  T* owned_ = nullptr;
  std::unique_ptr<T[]> objects_;
};

// --- locks for what no atomic can change at once

/// Spin locks by address; held for some instructions.
class Locks {
 public:
  explicit Locks(std::size_t count = 1024) : flags_(count) {}

  template <class F>
  void with(std::uint64_t key, F&& f) {
    auto& flag = flags_[key * 0x9E3779B97F4A7C15ull >> 40 & (flags_.size() - 1)].flag;
    while (flag.test_and_set(std::memory_order_acquire)) {  // pairs with the clear below
      while (flag.test(std::memory_order_relaxed)) continue;
    }
    struct Release {  // also if f() throws
      std::atomic_flag& flag;
      ~Release() { flag.clear(std::memory_order_release); }
    } release{flag};
    f();
  }

 private:
  struct alignas(64) Flag {
    std::atomic_flag flag;
  };
  std::vector<Flag> flags_;
};

/// Which elements min= or max= has changed in the current loop, and locks for changing several things of an element at
/// once.
class Changes {
 public:
  /// A loop over arrays of `size` elements begins.
  void start(std::uint64_t size) {
    if (loops_.size() < size) loops_.assign(size, 0);
    ++loop_;
  }
  /// f() while no other thread is at this element.
  template <class F>
  void with(std::uint64_t element, F&& f) {
    locks_.with(element, f);
  }
  bool changed(std::uint64_t element) const noexcept { return loops_[element] == loop_; }
  void change(std::uint64_t element) noexcept { loops_[element] = loop_; }

 private:
  std::vector<std::uint32_t> loops_;  ///< by element: the loop in which it changed last; under its lock
  std::uint32_t loop_ = 0;
  Locks locks_;
};

// --- collections

/// Which numbers are in a collection: few in a table of open addressing, many in a bitmap.
template <class Id>
class Members {
 public:
  bool has(Id id) const noexcept {
    if (!bits_.empty()) return id / 64 < bits_.size() && (bits_[id / 64] >> id % 64 & 1) != 0;
    if (table_.empty() || id == nil<Id>) return false;
    return table_[find(id)] == id;
  }
  /// False if it was there.
  bool add(Id id) {
    if (has(id)) return false;
    if (bits_.empty() && (count_ + 1) * 2 > table_.size()) grow(id);
    if (!bits_.empty()) {
      if (id / 64 >= bits_.size()) bits_.resize(std::max<std::size_t>(id / 64 + 1, bits_.size() * 2));
      bits_[id / 64] |= std::uint64_t{1} << id % 64;
    } else {
      table_[find(id)] = id;
    }
    ++count_;
    largest_ = std::max(largest_, id);
    return true;
  }
  void remove(Id id) {
    if (!has(id)) return;
    --count_;
    if (!bits_.empty()) {
      bits_[id / 64] &= ~(std::uint64_t{1} << id % 64);
      return;
    }
    // Those behind it close the gap.
    const std::size_t mask = table_.size() - 1;
    std::size_t gap = find(id);
    for (std::size_t next = (gap + 1) & mask; table_[next] != nil<Id>; next = (next + 1) & mask) {
      const std::size_t home = hash(table_[next]) & mask;
      if (((next - home) & mask) < ((next - gap) & mask)) continue;
      table_[gap] = table_[next];
      gap = next;
    }
    table_[gap] = nil<Id>;
  }
  void clear() noexcept {
    count_ = 0;
    largest_ = 0;
    table_.clear();
    bits_.clear();
  }
  std::size_t size() const noexcept { return count_; }

  /// As a bitmap of numbers below `bound`, for parallel additions.
  std::uint64_t* bitmap(std::uint64_t bound) {
    if (bits_.empty()) to_bitmap();
    if (bits_.size() < bound / 64 + 1) bits_.resize(bound / 64 + 1);
    return bits_.data();
  }
  void set_size(std::size_t count) noexcept { count_ = count; }

 private:
  static std::size_t hash(Id id) noexcept { return static_cast<std::size_t>(id * 0x9E3779B97F4A7C15ull >> 20); }
  std::size_t find(Id id) const noexcept {
    const std::size_t mask = table_.size() - 1;
    std::size_t at = hash(id) & mask;
    while (table_[at] != id && table_[at] != nil<Id>) at = (at + 1) & mask;
    return at;
  }
  void to_bitmap() {
    std::vector<std::uint64_t> bits(static_cast<std::size_t>(largest_) / 64 + 1);
    for (const Id id : table_) {
      if (id != nil<Id>) bits[id / 64] |= std::uint64_t{1} << id % 64;
    }
    bits_ = std::move(bits);
    table_ = {};
  }
  void grow(Id id) {
    largest_ = std::max(largest_, id);
    // A bitmap once it is no larger than the table.
    if (count_ > 64 && static_cast<std::uint64_t>(largest_) / 8 < table_.size() * 2 * sizeof(Id)) return to_bitmap();
    std::vector<Id> old(table_.empty() ? 8 : table_.size() * 2, nil<Id>);
    old.swap(table_);
    for (const Id each : old) {
      if (each != nil<Id>) table_[find(each)] = each;
    }
  }

  std::size_t count_ = 0;
  Id largest_ = 0;
  std::vector<Id> table_;  ///< a power of two of places, at most half of them taken
  std::vector<std::uint64_t> bits_;
};

template <class Id>
class Set {
 public:
  using Item = Id;

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(items_.size()); }
  bool has(Id id) const noexcept { return members_.has(id); }
  Id operator[](std::uint64_t index) const noexcept { return items_[index]; }
  auto begin() const noexcept { return items_.begin(); }
  auto end() const noexcept { return items_.end(); }

  void add(Id id) {
    if (members_.add(id)) items_.push_back(id);
  }
  template <class Other>
  void add_all(const Other& other) {
    for (const Id id : other) add(id);
  }
  void remove(Id id) {
    if (!members_.has(id)) return;
    members_.remove(id);
    *std::find(items_.begin(), items_.end(), id) = items_.back();
    items_.pop_back();
  }
  template <class Other>
  void remove_all(const Other& other) {
    for (const Id id : std::vector<Id>(other.begin(), other.end())) members_.remove(id);
    keep([&](Id id) { return members_.has(id); });
  }
  void clear() noexcept {
    items_.clear();
    members_.clear();
  }

  void unite(const Set& other) { add_all(std::vector<Id>(other.begin(), other.end())); }
  void intersect(const Set& other) {
    keep([&](Id id) { return other.has(id); });
  }
  /// Without the elements of `other`.
  void complement(const Set& other) {
    const Set copy = other;
    keep([&](Id id) { return !copy.has(id); });
  }
  /// All numbers below `bound` that are not in it.
  void complement(std::uint64_t bound) {
    Set all;
    for (std::uint64_t id = 0; id < bound; ++id) {
      if (!has(static_cast<Id>(id))) all.add(static_cast<Id>(id));
    }
    *this = std::move(all);
  }
  Set united(const Set& other) const {
    return changed([&](Set& set) { set.unite(other); });
  }
  Set intersected(const Set& other) const {
    return changed([&](Set& set) { set.intersect(other); });
  }
  Set complemented(const Set& other) const {
    return changed([&](Set& set) { set.complement(other); });
  }
  Set complemented(std::uint64_t bound) const {
    return changed([&](Set& set) { set.complement(bound); });
  }
  bool is_subset_of(const Set& other) const noexcept {
    return std::all_of(begin(), end(), [&](Id id) { return other.has(id); });
  }

  // Additions by many threads: begin_adding(); add_shared() by any; finish_adding(). Nobody looks at the set meanwhile.

  void begin_adding(int threads, std::uint64_t bound) {
    shared_bits_ = members_.bitmap(bound);
    bound_ = bound;
    added_.resize(static_cast<std::size_t>(threads));
  }
  void add_shared(Id id, int thread) {
    const std::uint64_t bit = std::uint64_t{1} << id % 64;
    std::atomic_ref<std::uint64_t> word(shared_bits_[id / 64]);
    if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
    // Who sets the bit keeps the item; the list itself is read after the threads have met.
    if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0)
      added_[static_cast<std::size_t>(thread)].items.push_back(id);
  }
  /// New items ascend behind the old ones, whoever added them.
  void finish_adding() {
    const auto before = items_.size();
    std::size_t count = 0;
    for (const auto& own : added_) count += own.items.size();
    items_.reserve(before + count);
    for (auto& own : added_) {
      items_.insert(items_.end(), own.items.begin(), own.items.end());
      own.items.clear();
    }
    if (before == 0 && count > bound_ / 64 / std::max<std::size_t>(1, std::bit_width(count))) {
      list_bits();  // which takes less than sorting
    } else {
      std::sort(items_.begin() + static_cast<std::ptrdiff_t>(before), items_.end());
    }
    members_.set_size(items_.size());
  }

 private:
  struct alignas(128) Added {
    std::vector<Id> items;
  };

  void list_bits() {
    std::size_t at = 0;
    for (std::uint64_t word = 0; word <= bound_ / 64; ++word) {
      for (std::uint64_t bits = shared_bits_[word]; bits != 0; bits &= bits - 1) {
        items_[at++] = static_cast<Id>(word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits)));
      }
    }
  }
  template <class Keeps>
  void keep(Keeps&& keeps) {
    std::vector<Id> kept;
    for (const Id id : items_) {
      if (keeps(id)) kept.push_back(id);
    }
    clear();
    for (const Id id : kept) add(id);
  }
  template <class F>
  Set changed(F&& f) const {
    Set copy = *this;
    f(copy);
    return copy;
  }

  std::vector<Id> items_;
  Members<Id> members_;
  std::uint64_t* shared_bits_ = nullptr;
  std::uint64_t bound_ = 0;
  std::vector<Added> added_;
};

/// Order (each item once) and Seq (items as often as they were pushed).
template <class T, bool unique>
class Sequence {
 public:
  using Item = T;

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(items_.size()); }
  const T& operator[](std::uint64_t index) const noexcept { return items_[index]; }
  T& operator[](std::uint64_t index) noexcept { return items_[index]; }
  auto begin() const noexcept { return items_.begin(); }
  auto end() const noexcept { return items_.end(); }
  /// Of a collection of collections, whose parts may change.
  auto begin() noexcept { return items_.begin(); }
  auto end() noexcept { return items_.end(); }
  bool has(const T& item) const {
    if constexpr (unique) return members_.has(item);
    return std::find(items_.begin(), items_.end(), item) != items_.end();
  }
  T front() const { return items_.empty() ? none() : items_.front(); }
  T back() const { return items_.empty() ? none() : items_.back(); }

  void push_back(T item) {
    if (enters(item)) items_.push_back(std::move(item));
  }
  void push_front(T item) {
    if (enters(item)) items_.push_front(std::move(item));
  }
  template <class Other>
  void push_back_all(const Other& other) {
    for (const T& item : std::vector<T>(other.begin(), other.end())) push_back(item);
  }
  /// In their order: the last one comes first to the front.
  template <class Other>
  void push_front_all(const Other& other) {
    const std::vector<T> items(other.begin(), other.end());
    for (auto item = items.rbegin(); item != items.rend(); ++item) push_front(*item);
  }
  T pop_front() {
    if (items_.empty()) return none();
    T item = std::move(items_.front());
    items_.pop_front();
    leaves(item);
    return item;
  }
  T pop_back() {
    if (items_.empty()) return none();
    T item = std::move(items_.back());
    items_.pop_back();
    leaves(item);
    return item;
  }
  void clear() noexcept {
    items_.clear();
    if constexpr (unique) members_.clear();
  }

 private:
  struct Nothing {
    void clear() noexcept {}
  };
  static T none() {
    if constexpr (std::is_integral_v<T>) return nil<T>;
    return T{};
  }
  bool enters(const T& item) {
    if constexpr (unique) return members_.add(item);
    return true;
  }
  void leaves(const T& item) {
    if constexpr (unique) members_.remove(item);
  }

  std::deque<T> items_;
  template <class U, bool of_ids>
  struct MembersOf {
    using Type = Nothing;
  };
  template <class U>
  struct MembersOf<U, true> {
    using Type = Members<U>;
  };
  [[no_unique_address]] typename MembersOf<T, unique>::Type members_;
};

template <class Id>
using Order = Sequence<Id, true>;
template <class Id>
using Seq = Sequence<Id, false>;
template <class Inner>
using Collection = Sequence<Inner, false>;

template <class T>
bool is_nan(const T& value) {
  if constexpr (std::is_floating_point_v<T>) return value != value;
  return false;
}
/// Whether a map takes them for the same key or value: NaN is one, too.
template <class T>
bool same(const T& a, const T& b) {
  return a == b || (is_nan(a) && is_nan(b));
}
struct SameNumber {
  template <class T>
  bool operator()(T a, T b) const noexcept {
    return same(a, b);
  }
};
struct HashOfNumber {
  template <class T>
  std::size_t operator()(T number) const noexcept {
    return is_nan(number) ? 1 : std::hash<T>()(number);
  }
};

/// Missing keys have the value 0, 0.0, False, NIL or "". The least and largest values are kept in heaps once somebody
/// asks for them; of equal ones the smallest key counts. NaN is the least or largest value only if there is no other.
template <class Key, class Value>
class Map {
 public:
  explicit Map(Value missing = Value{}) : missing_(std::move(missing)) {}

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(values_.size()); }
  bool has_key(const Key& key) const { return values_.contains(key); }
  Value get(const Key& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? missing_ : found->second;
  }
  void set(const Key& key, Value value) {
    values_[key] = value;
    if (least_.active) least_.push({value, key});
    if (largest_.active) largest_.push({value, key});
  }
  template <class Op>
  void reduce(const Key& key, const Value& value) {
    set(key, has_key(key) ? Op::of(get(key), value) : Op::of(missing_, value));
  }
  void remove(const Key& key) { values_.erase(key); }
  /// f(key, value) for all, in any order; they are gone then.
  template <class F>
  void drain(F&& f) {
    for (const auto& [key, value] : values_) f(key, value);
    clear();
  }
  void clear() {
    values_.clear();
    least_ = {};
    largest_ = {};
  }

  bool has_max_value(const Key& key) { return has_key(key) && same(get(key), max_value()); }
  bool has_min_value(const Key& key) { return has_key(key) && same(get(key), min_value()); }
  Key max_key(int line) { return top(largest_, line).second; }
  Key min_key(int line) { return top(least_, line).second; }
  Value max_value() { return values_.empty() ? missing_ : top(largest_, 0).first; }
  Value min_value() { return values_.empty() ? missing_ : top(least_, 0).first; }
  Key remove_min_key(int line) {
    const Key key = min_key(line);
    remove(key);
    return key;
  }
  Key remove_max_key(int line) {
    const Key key = max_key(line);
    remove(key);
    return key;
  }

 private:
  using Entry = std::pair<Value, Key>;
  template <bool largest>
  struct Heap {
    bool active = false;
    std::vector<Entry> entries;

    /// Whether `a` comes after `b`.
    static bool after(const Entry& a, const Entry& b) {
      if (same(a.first, b.first)) return b.second < a.second;
      if (is_nan(a.first) || is_nan(b.first)) return is_nan(a.first);
      return largest ? a.first < b.first : b.first < a.first;
    }
    void push(Entry entry) {
      entries.push_back(std::move(entry));
      std::push_heap(entries.begin(), entries.end(), after);
    }
    void pop() {
      std::pop_heap(entries.begin(), entries.end(), after);
      entries.pop_back();
    }
  };

  /// Entries whose key has another value by now are left behind until they come up.
  template <class HeapType>
  const Entry& top(HeapType& heap, int line) {
    if (values_.empty()) fail(line, "an empty Map has no keys");
    const auto rebuild = [&] {
      heap.active = true;
      heap.entries.clear();
      for (const auto& [key, value] : values_) heap.entries.emplace_back(value, key);
      std::make_heap(heap.entries.begin(), heap.entries.end(), HeapType::after);
    };
    if (!heap.active || heap.entries.size() > 2 * values_.size() + 64) rebuild();
    for (;;) {
      if (heap.entries.empty()) rebuild();
      const Entry& entry = heap.entries.front();
      const auto found = values_.find(entry.second);
      if (found != values_.end() && same(found->second, entry.first)) return entry;
      heap.pop();
    }
  }

  Value missing_;
  template <class OfNumber, class OfOther>
  using OfKey = std::conditional_t<std::is_floating_point_v<Key>, OfNumber, OfOther>;
  std::unordered_map<Key, Value, OfKey<HashOfNumber, std::hash<Key>>, OfKey<SameNumber, std::equal_to<Key>>> values_;
  Heap<false> least_;
  Heap<true> largest_;
};

// --- nodes in the order of a map's values

/// What becomes of loops that take the node with the least value out of a map, look at its neighbours, lower a property
/// of theirs and put those whose property was lowered into the map:
///
///   While (open.Size() > 0) {
///     Node v = open.RemoveMinKey();
///     For (w: v.Nbrs) { If (v.P + c < w.P) { w.P = v.P + c; open[w] = f; } }
///   }
///
/// The property ends up the same in whatever order nodes are taken: it is the largest one that no edge can lower. So
/// nodes of the same value are taken at once, by all threads: delta stepping, with bins of each thread's own [Meyer and
/// Sanders 2003], which a thread goes on with while they are small [Zhang et al., CGO 2020].
///
/// Rounds are ordered by Run::on_threads: each list is read by all threads in the round after its owner filled it.
/// Within a round the property and `done_` are relaxed atomics. Invariant: for each node, done_ has the property's
/// value, or the node is in a bin, or a thread is looking at its neighbours with that value or a smaller one. Who
/// lowers the property puts the node into a bin afterwards, and whoever takes it from there sees the lowered value.
template <class NodeId, class EdgeId, class T>
class Bins {
 public:
  class alignas(128) Own;

  /// `begin`, `node_idx`: the nodes' lists of neighbours.
  Bins(Run& run, std::uint64_t nodes, const EdgeId* begin, const NodeId* node_idx)
      : run_(run),
        begin_(begin),
        node_idx_(node_idx),
        done_(run, nodes, {"done", true, false, true, false, 2, 1}),
        own_(static_cast<std::size_t>(run.threads())) {
    for (std::size_t thread = 0; thread < own_.size(); ++thread) {
      own_[thread].all_ = this;
      own_[thread].thread_ = thread;
    }
    run.for_chunks(ByCount(nodes, 1u << 14), [&](const Chunk& chunk) {
      std::fill(done_.data() + chunk.first, done_.data() + chunk.last, infinity<T>);
    });
  }

  /// Takes what is in `open`; body(chunk, own) on each thread, as often as there are nodes.
  template <class Open, class Body>
  void run(Open& open, Body&& body) {
    open.drain([&](NodeId node, std::int64_t priority) {
      if (node == nil<NodeId>) {
        own_[0].gives_nil_ = true;
      } else {
        own_[0].beyond_.emplace_back(priority, node);
      }
    });
    if (own_[0].gives_nil_) body(Chunk{}, own_[0]);  // which fails where it looks for NIL's neighbours
    while (const std::uint64_t count = next_round()) {
      alone_ = own_.size() == 1 || count <= Own::chunk;
      run_.on_threads(alone_ ? 1 : static_cast<int>(own_.size()),
                      [&](const Chunk& chunk) { body(chunk, own_[static_cast<std::size_t>(chunk.thread)]); });
    }
  }

 private:
  static constexpr std::size_t window = 4096;  ///< bins at a time; what comes later waits in one list

  /// How many nodes there are in the next bin, which becomes the current one; 0 if there is none.
  std::uint64_t next_round() {
    for (;;) {
      for (; current_ < window; ++current_) {
        std::uint64_t count = 0;
        for (auto& own : own_) count += own.open(current_);
        if (count > 0) return count;
      }
      if (!move_window()) return 0;
    }
  }

  /// To the least of what waits.
  bool move_window() {
    std::int64_t least = INT64_MAX;
    bool any = false;
    for (const auto& own : own_) {
      for (const auto& [priority, node] : own.beyond_) least = std::min(least, priority);
      any |= !own.beyond_.empty();
    }
    first_ = least;
    current_ = 0;
    for (auto& own : own_) {
      for (const auto& [priority, node] : std::exchange(own.beyond_, {})) own.put(node, priority);
    }
    return any;
  }

  Run& run_;
  const EdgeId* begin_;
  const NodeId* node_idx_;
  Property<T> done_;        ///< with which value a node's neighbours were last looked at
  std::int64_t first_ = 0;  ///< the first bin's priority
  std::size_t current_ = window;
  bool alone_ = false;  ///< in this round one thread works
  std::vector<Own> own_;
};

/// A thread's part.
template <class NodeId, class EdgeId, class T>
class alignas(128) Bins<NodeId, EdgeId, T>::Own {
 public:
  /// The next node whose neighbours are to be looked at; false if the round is over for this thread. `of_edges`: arrays
  /// that its edges are looked up in.
  template <class... OfEdges>
  bool next(NodeId& node, const T* values, const OfEdges*... of_edges) {
    for (;;) {
      if (at_ == end_) {
        if (std::exchange(gives_nil_, false)) return node = nil<NodeId>, true;
        if (!refill()) return false;
      }
      node = *at_;
      prefetch(values, of_edges...);
      ++at_;
      const T value = load(values[node]);
      if (!(value < load(all_->done_[node]))) continue;
      store(all_->done_[node], value);
      return true;
    }
  }
  /// place = value, if that is less.
  bool lower(T& place, std::type_identity_t<T> value) const noexcept {
    return all_->alone_ ? reduce_alone<Min>(place, value) : reduce<Min>(place, value);
  }
  void put(NodeId node, std::int64_t priority) {
    // Without a sign, the distance of any two priorities fits.
    const std::uint64_t above =
        priority < all_->first_ ? 0 : static_cast<std::uint64_t>(priority) - static_cast<std::uint64_t>(all_->first_);
    const auto index = std::max<std::uint64_t>(above, all_->current_);
    if (index >= window) return beyond_.emplace_back(priority, node), void();
    if (index >= bins_.size()) bins_.resize(index + 1);
    bins_[index].push_back(node);
  }

 private:
  friend class Bins;
  static constexpr std::size_t chunk = 64;         ///< nodes that are taken at a time
  static constexpr std::size_t most_fused = 1000;  ///< a larger list is shared with the others in another round

  /// Makes a bin the list of the round.
  std::size_t open(std::size_t bin) {
    list_.clear();
    if (bin < bins_.size()) list_.swap(bins_[bin]);
    next_.store(0, std::memory_order_relaxed);  // published by on_threads()
    return list_.size();
  }

  /// Lists of this round, then what this thread has put into its own bin meanwhile.
  bool refill() {
    const std::size_t threads = all_->own_.size();
    for (std::size_t i = 0; i < threads; ++i) {
      Own& other = all_->own_[(thread_ + i) % threads];
      const std::size_t first = other.next_.fetch_add(chunk, std::memory_order_relaxed);  // an index only
      if (first >= other.list_.size()) continue;
      at_ = other.list_.data() + first;
      end_ = other.list_.data() + std::min(first + chunk, other.list_.size());
      return true;
    }
    if (all_->current_ >= bins_.size()) return false;
    auto& more = bins_[all_->current_];
    if (more.empty() || (threads > 1 && more.size() >= most_fused)) return false;
    fused_.clear();
    fused_.swap(more);
    at_ = fused_.data();
    end_ = at_ + fused_.size();
    return true;
  }

  /// Lists of neighbours begin anywhere in memory.
  template <class... OfEdges>
  void prefetch(const T* values, const OfEdges*... of_edges) const noexcept {
    constexpr std::ptrdiff_t begin_ahead = 12, list_ahead = 6;
    if (end_ - at_ > begin_ahead) {
      __builtin_prefetch(all_->begin_ + at_[begin_ahead]);
      __builtin_prefetch(values + at_[begin_ahead]);
      __builtin_prefetch(all_->done_.data() + at_[begin_ahead]);
    }
    if (end_ - at_ <= list_ahead) return;
    const EdgeId edge = all_->begin_[at_[list_ahead]];
    __builtin_prefetch(all_->node_idx_ + edge);
    (__builtin_prefetch(of_edges + edge), ...);
  }

  Bins* all_ = nullptr;
  std::size_t thread_ = 0;
  const NodeId* at_ = nullptr;  ///< what is left of the nodes that were taken
  const NodeId* end_ = nullptr;
  bool gives_nil_ = false;    ///< NIL is next
  std::vector<NodeId> list_;  ///< of this round
  std::vector<NodeId> fused_;
  std::vector<std::vector<NodeId>> bins_;                ///< by priority, from first_ on
  std::vector<std::pair<std::int64_t, NodeId>> beyond_;  ///< behind the window
  alignas(128) std::atomic<std::size_t> next_{0};        ///< of list_
};

// --- texts

inline std::string text_of(const std::string& value) { return value; }
inline std::string text_of(bool value) { return value ? "True" : "False"; }
template <class T>
requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) std::string text_of(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value != value) return "nan";  // whose sign depends on who computed it
  }
  if constexpr (std::is_signed_v<T>) {
    if (value == infinity<T>) return "+INF";
    if (value == -infinity<T>) return "-INF";
  } else {
    if (value == nil<T>) return "NIL";
  }
  char digits[64];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// --- traversals

/// Breadth first search, level by level, along out edges, or in edges if `transposed`. Top-down a level's nodes look
/// for new ones; bottom-up, where the level's edges are many, nodes that were not reached look for one of the level
/// [Beamer 2012].
///
///   for (bfs.start(root); bfs.has_level();) { level = bfs.level(); ...; bfs.expand(); ... }
///
/// Level lists ascend, whoever found the nodes, so that chunks of them are the same for any number of threads. Without
/// `keeps_levels` there are only has_level() and expand(discovered): levels are not kept, and have no lists where
/// bitmaps do.
template <class NodeId, class EdgeId, bool keeps_levels = true>
class Bfs {
 public:
  using Graph = GraphView<NodeId, EdgeId>;

  Bfs(Run& run, const Graph& graph, bool transposed)
      : run_(run),
        graph_(graph),
        begin_(transposed ? graph.r_begin : graph.begin),
        node_idx_(transposed ? graph.r_node_idx : graph.node_idx),
        in_begin_(transposed ? graph.begin : graph.r_begin),
        in_node_idx_(transposed ? graph.node_idx : graph.r_node_idx),
        level_(run, keeps_levels ? graph.nodes : 0, {"level", true, false, true, false, 2, 1}),
        visited_(graph.nodes / 64 + 1),
        found_(static_cast<std::size_t>(run.threads())) {
    if constexpr (!keeps_levels) return;
    run.for_chunks(ByCount(graph.nodes, 1u << 14), [&](const Chunk& chunk) {
      std::fill(level_.data() + chunk.first, level_.data() + chunk.last, unreached);
    });
  }

  void start(NodeId root) {
    order_.assign(1, root);
    bounds_ = {0, 1};
    if constexpr (keeps_levels) level_[root] = 0;
    visited_[root / 64] |= std::uint64_t{1} << root % 64;
    unexplored_ = graph_.edges;
    count_ = 1;
  }

  bool has_level() const noexcept { return count_ > 0; }
  std::int32_t level() const noexcept { return static_cast<std::int32_t>(bounds_.size()) - 2; }
  std::int32_t levels() const noexcept { return static_cast<std::int32_t>(bounds_.size()) - 1; }
  /// The nodes of a level are order(i), i in [level_begin(level), level_begin(level + 1)).
  std::uint64_t level_begin(std::int32_t level) const noexcept { return bounds_[static_cast<std::size_t>(level)]; }
  NodeId order(std::uint64_t index) const noexcept { return order_[index]; }
  std::uint64_t size(std::int32_t level) const noexcept { return level_begin(level + 1) - level_begin(level); }
  /// Of a node that was reached and not left out; the search keeps it.
  std::int32_t level_of(NodeId node) const noexcept { return level_[node]; }
  const std::int32_t* levels_of_nodes() const noexcept { return level_.data(); }
  ByCount chunks(std::int32_t level) const noexcept { return ByCount(size(level), 64); }

  /// body(chunk, leave_out) for chunks of the current level: leave_out(node) for those that are not to be expanded.
  template <class Body>
  void keep(Body&& body) {
    run_.for_chunks(chunks(level()),
                    [&](const Chunk& chunk) { body(chunk, [this](NodeId node) { leave_out(node); }); });
    keep();
  }
  void leave_out(NodeId node) noexcept { level_[node] = left_out; }
  /// Those of the current level that were not left out.
  void keep() {
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(level_begin(level()));
    order_.erase(std::remove_if(first, order_.end(), [&](NodeId node) { return level_[node] == left_out; }),
                 order_.end());
    bounds_.back() = order_.size();
    count_ = size(level());
    has_bits_ = false;
  }

  /// Finds the nodes of the next level.
  void expand() {
    expand([](NodeId, NodeId) {});
  }

  /// The same, with discovered(node, by) for each of them, once, with one of the nodes that lead to it.
  template <class Discovered>
  void expand(Discovered&& discovered) {
    const std::uint64_t before = count_;
    bottom_up_ = goes_bottom_up();
    before_ = before;
    if (bottom_up_) {
      if (!has_bits_) make_bits();
      bottom_up(discovered);
    } else {
      if (!has_list_) list_bits(chunks_of_words(), counts_of_words());
      top_down(discovered);
    }
  }

 private:
  // Levels are compared with a node's own level plus or minus 1. So markers differ by more from levels, of which the
  // least is 0, and from each other.
  static constexpr std::int32_t unreached = -4;
  static constexpr std::int32_t left_out = -8;

  struct alignas(128) Found {
    std::vector<NodeId> nodes;
  };

  /// Bottom-up once the level has many of the edges that are left; then until levels shrink and are small.
  bool goes_bottom_up() {
    constexpr std::uint64_t alpha = 15, beta = 18;
    if (in_begin_ == nullptr) return false;
    if (bottom_up_) return count_ >= before_ || count_ > graph_.nodes / beta;
    const std::uint64_t edges = edges_of_level(), left = unexplored_;
    unexplored_ -= std::min(unexplored_, edges);
    return edges > left / alpha && count_ > 1;
  }

  std::uint64_t first() const noexcept { return bounds_[bounds_.size() - 2]; }
  std::uint64_t last() const noexcept { return bounds_.back(); }

  std::uint64_t edges_of_level() {
    if (!has_list_) return 0;
    const ByCount chunks(last() - first(), 4096);
    Partials<Sum, std::uint64_t> sums(chunks.size());
    run_.for_chunks(chunks, [&](const Chunk& chunk) {
      std::uint64_t sum = 0;
      for (auto i = first() + chunk.first; i < first() + chunk.last; ++i)
        sum += begin_[order_[i] + 1] - begin_[order_[i]];
      sums.put(chunk, sum);
    });
    return sums.joined(0);
  }

  template <class Discovered>
  void top_down(Discovered& discovered) {
    const std::int32_t next_level = level() + 1;
    const std::uint64_t first = this->first();
    run_.for_chunks(ByCount(last() - first, 64), [&](const Chunk& chunk) {
      auto& found = found_[static_cast<std::size_t>(chunk.thread)].nodes;
      for (auto i = first + chunk.first; i < first + chunk.last; ++i) {
        const NodeId node = order_[i];
        for (EdgeId edge = begin_[node], end = begin_[node + 1]; edge < end; ++edge) {
          const NodeId neighbour = node_idx_[edge];
          const std::uint64_t bit = std::uint64_t{1} << neighbour % 64;
          std::atomic_ref<std::uint64_t> word(visited_[neighbour / 64]);
          // Who sets the bit owns the node until the threads meet; nothing is published by it.
          if ((word.load(std::memory_order_relaxed) & bit) != 0) continue;
          if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) continue;
          if constexpr (keeps_levels) level_[neighbour] = next_level;
          discovered(neighbour, node);
          found.push_back(neighbour);
        }
      }
    });
    gather();
  }

  template <class Discovered>
  void bottom_up(Discovered& discovered) {
    const std::int32_t next_level = level() + 1;
    if (next_bits_.empty()) leave_out_unreachable();
    next_bits_.resize(visited_.size());
    // Chunks of whole words, so that each word of a bitmap belongs to one thread.
    const ByCount chunks = chunks_of_words();
    std::vector<std::uint64_t> counts(chunks.size());
    run_.for_chunks(chunks, [&](const Chunk& chunk) {
      std::uint64_t count = 0;
      for (auto word = chunk.first; word < chunk.last; ++word) {
        std::uint64_t found = 0;
        for (std::uint64_t open = ~visited_[word] & nodes_of(word); open != 0; open &= open - 1) {
          const auto node = static_cast<NodeId>(word * 64 + static_cast<std::uint64_t>(std::countr_zero(open)));
          for (EdgeId edge = in_begin_[node], end = in_begin_[node + 1]; edge < end; ++edge) {
            const NodeId neighbour = in_node_idx_[edge];
            if ((frontier_bits_[neighbour / 64] >> neighbour % 64 & 1) == 0) continue;
            found |= open & -open;
            if constexpr (keeps_levels) level_[node] = next_level;
            discovered(node, neighbour);
            ++count;
            break;
          }
        }
        next_bits_[word] = found;
        visited_[word] |= found;
      }
      counts[chunk.index] = count;
    });
    frontier_bits_.swap(next_bits_);
    has_bits_ = true;
    count_ = 0;
    for (const auto count : counts) count_ += count;
    has_list_ = false;
    if constexpr (keeps_levels) list_bits(chunks, std::move(counts));
  }

  ByCount chunks_of_words() const noexcept { return ByCount(visited_.size(), 16); }
  std::uint64_t nodes_of(std::uint64_t word) const noexcept {
    const std::uint64_t rest = graph_.nodes - std::min(graph_.nodes, word * 64);
    return rest >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << rest) - 1;
  }

  /// Nodes without in edges are not looked at again.
  void leave_out_unreachable() {
    run_.for_chunks(chunks_of_words(), [&](const Chunk& chunk) {
      for (auto word = chunk.first; word < chunk.last; ++word) {
        std::uint64_t without = 0;
        const std::uint64_t nodes = std::min<std::uint64_t>(64, graph_.nodes - std::min(graph_.nodes, word * 64));
        for (std::uint64_t i = 0; i < nodes; ++i) {
          without |= std::uint64_t{in_begin_[word * 64 + i] == in_begin_[word * 64 + i + 1]} << i;
        }
        visited_[word] |= without;
      }
    });
  }

  /// The level's list as a bitmap.
  void make_bits() {
    clear_bits();
    const std::uint64_t first = this->first();
    run_.for_chunks(ByCount(last() - first, 4096), [&](const Chunk& chunk) {
      for (auto i = first + chunk.first; i < first + chunk.last; ++i) set_bit(order_[i]);
    });
    has_bits_ = true;
  }
  void clear_bits() {
    frontier_bits_.resize(visited_.size());
    run_.for_chunks(ByCount(frontier_bits_.size(), 4096), [&](const Chunk& chunk) {
      std::fill(frontier_bits_.data() + chunk.first, frontier_bits_.data() + chunk.last, 0);
    });
  }
  void set_bit(NodeId node) noexcept {  // read after the threads have met
    std::atomic_ref<std::uint64_t>(frontier_bits_[node / 64])
        .fetch_or(std::uint64_t{1} << node % 64, std::memory_order_relaxed);
  }

  /// What the threads found becomes the next level: ascending, if levels are kept.
  void gather() {
    count_ = 0;
    for (const auto& own : found_) count_ += own.nodes.size();
    has_bits_ = keeps_levels && count_ > graph_.nodes / 64;
    if (has_bits_) {  // which takes less than sorting
      clear_bits();
      run_.parallel([&](int thread) {
        for (const NodeId node : found_[static_cast<std::size_t>(thread)].nodes) set_bit(node);
      });
      list_bits(chunks_of_words(), counts_of_words());
    } else {
      std::uint64_t at = open_list();
      const auto start = order_.begin() + static_cast<std::ptrdiff_t>(at);
      for (auto& own : found_) {
        std::copy(own.nodes.begin(), own.nodes.end(), order_.begin() + static_cast<std::ptrdiff_t>(at));
        at += own.nodes.size();
      }
      if (keeps_levels) std::sort(start, order_.end());
    }
    for (auto& own : found_) own.nodes.clear();
  }

  std::vector<std::uint64_t> counts_of_words() {
    const ByCount chunks = chunks_of_words();
    std::vector<std::uint64_t> counts(chunks.size());
    run_.for_chunks(chunks, [&](const Chunk& chunk) {
      std::uint64_t count = 0;
      for (auto word = chunk.first; word < chunk.last; ++word)
        count += static_cast<std::uint64_t>(std::popcount(frontier_bits_[word]));
      counts[chunk.index] = count;
    });
    return counts;
  }

  /// The bitmap as the list of the new level. `counts`: of bits by chunk.
  void list_bits(const ByCount& chunks, std::vector<std::uint64_t> counts) {
    std::uint64_t at = open_list();
    for (auto& count : counts) at += std::exchange(count, at);
    run_.for_chunks(chunks, [&](const Chunk& chunk) {
      std::uint64_t own = counts[chunk.index];
      for (auto word = chunk.first; word < chunk.last; ++word) {
        for (std::uint64_t bits = frontier_bits_[word]; bits != 0; bits &= bits - 1) {
          order_[own++] = static_cast<NodeId>(word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits)));
        }
      }
    });
  }

  /// Where the list of the new level, of count_ nodes, begins.
  std::uint64_t open_list() {
    if constexpr (!keeps_levels) {
      order_.clear();
      bounds_ = {0};
    }
    const std::uint64_t before = order_.size();
    order_.resize(before + count_);
    bounds_.push_back(order_.size());
    has_list_ = true;
    return before;
  }

  Run& run_;
  const Graph& graph_;
  const EdgeId* begin_;
  const NodeId* node_idx_;
  const EdgeId* in_begin_;
  const NodeId* in_node_idx_;
  Property<std::int32_t> level_;
  std::vector<std::uint64_t> visited_;        ///< reached nodes, and those that cannot be
  std::vector<std::uint64_t> frontier_bits_;  ///< the level's nodes, if has_bits_
  std::vector<std::uint64_t> next_bits_;
  std::vector<Found> found_;
  std::vector<NodeId> order_;
  std::vector<std::uint64_t> bounds_;
  std::uint64_t unexplored_ = 0;
  std::uint64_t count_ = 0;   ///< of the level's nodes
  std::uint64_t before_ = 0;  ///< of the level before
  bool bottom_up_ = false;    ///< how the level was found
  bool has_list_ = true;      ///< the level's nodes are in order_
  bool has_bits_ = false;
};

/// Depth first search: next() goes to where a node is entered or left.
template <class NodeId, class EdgeId>
class DepthFirst {
 public:
  DepthFirst(const GraphView<NodeId, EdgeId>& graph, bool transposed, NodeId root)
      : begin_(transposed ? graph.r_begin : graph.begin),
        node_idx_(transposed ? graph.r_node_idx : graph.node_idx),
        visited_(graph.nodes / 64 + 1),
        node_(root) {}

  bool next() {
    if (!started_) {
      started_ = true;
      return enter(node_);
    }
    while (!path_.empty()) {
      auto& [node, edge] = path_.back();
      if (edge == begin_[node + 1]) {
        entering_ = false;
        node_ = node;
        path_.pop_back();
        return true;
      }
      if (enter(node_idx_[edge++])) return true;
    }
    return false;
  }
  NodeId node() const noexcept { return node_; }
  bool entering() const noexcept { return entering_; }
  /// The node that is being entered is not gone into, nor left.
  void leave_out() { path_.pop_back(); }

 private:
  bool enter(NodeId node) {
    std::uint64_t& word = visited_[node / 64];
    const std::uint64_t bit = std::uint64_t{1} << node % 64;
    if ((word & bit) != 0) return false;
    word |= bit;
    entering_ = true;
    node_ = node;
    path_.emplace_back(node, begin_[node]);
    return true;
  }

  const EdgeId* begin_;
  const NodeId* node_idx_;
  std::vector<std::uint64_t> visited_;
  std::vector<std::pair<NodeId, EdgeId>> path_;  ///< nodes that were entered, each with its next edge
  NodeId node_;
  bool started_ = false;
  bool entering_ = false;
};

// --- calls from outside

/// What a caller passes for one argument of a procedure, inputs before outputs, then a place for what it returns.
struct Argument {
  void*
      data;  ///< graph: a GraphView; variable: its value; property: its array; String: the text; collection: its items
  std::uint64_t size;  ///< String: its length; collection: how many items of 64 bits
  /// Takes what comes out: an item of a collection (owner 0) or of the collection of node or edge `owner`; a String's
  /// text with its length. Null where nothing does.
  void (*put)(void* taker, std::uint64_t owner, std::uint64_t item, const char* text);
  void* taker;
};

struct Failure {
  int line;
  char message[500];
};

/// Calls body(run) and turns what it throws into a Failure. Returns 0 if nothing was thrown.
template <class Body>
int call(const Host* host, Failure* failure, Body&& body) noexcept {
  const auto failed = [&](int line, std::string_view message) {
    failure->line = line;
    const std::size_t length = std::min(message.size(), sizeof failure->message - 1);
    std::copy_n(message.data(), length, failure->message);
    failure->message[length] = '\0';
    return 1;
  };
  try {
    Run run(*host);
    body(run);
    return 0;
  } catch (const ProgramError& error) {
    return failed(error.line, error.message);
  } catch (const std::bad_alloc&) {
    return failed(0, "no memory");
  } catch (const std::exception& error) {
    return failed(0, error.what());
  } catch (...) {
    return failed(0, "unknown exception");
  }
}

template <class T>
T take(const Argument& argument) {
  if constexpr (std::is_same_v<T, std::string>) {
    return std::string(static_cast<const char*>(argument.data), argument.size);
  } else {
    return *static_cast<const T*>(argument.data);
  }
}
template <class Collection>
void take_items(const Argument& argument, Collection& collection) {
  using Item = typename Collection::Item;
  const auto* items = static_cast<const std::uint64_t*>(argument.data);
  for (std::uint64_t i = 0; i < argument.size; ++i) {
    if constexpr (requires { collection.add(Item{}); }) {
      collection.add(static_cast<Item>(items[i]));
    } else {
      collection.push_back(static_cast<Item>(items[i]));
    }
  }
}

template <class T>
void give(const Argument& argument, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (argument.put != nullptr) argument.put(argument.taker, 0, value.size(), value.data());
  } else {
    *static_cast<T*>(argument.data) = value;
  }
}
/// The items of a collection; of one of collections, each with the number of its collection.
template <class Collection>
void give_items(const Argument& argument, const Collection& collection, std::uint64_t owner = 0) {
  if (argument.put == nullptr) return;
  for (const auto& item : collection) {
    if constexpr (std::is_integral_v<typename Collection::Item>) {
      argument.put(argument.taker, owner, item, nullptr);
    } else {
      give_items(argument, item, owner++);
    }
  }
}
/// A property whose array may have been exchanged meanwhile.
template <class T>
void give_array(Run& run, const Argument& argument, const Property<T>& property) {
  if constexpr (Property<T>::plain) {
    auto* to = static_cast<T*>(argument.data);
    if (property.data() == to) return;
    run.for_chunks(ByCount(property.size(), 1u << 14), [&](const Chunk& chunk) {
      std::copy(property.data() + chunk.first, property.data() + chunk.last, to + chunk.first);
    });
  } else {
    for (std::uint64_t owner = 0; owner < property.size(); ++owner) give_items(argument, property[owner], owner);
  }
}

}  // namespace smelt::graph::program
