// Collective: one collective operation, described as a value. Every operation can be run immediately, started and
// awaited later, or prepared once and started many times:
//
//   auto sum = smelt::Collective::allreduce(in, out, n, smelt::sum<double>());
//   rank.run(sum);                                       // blocking
//   auto request = rank.start(sum);                      // split-phase
//   ...; request.wait();
//   auto again = rank.prepare(sum);                      // persistent
//   for (...) { again.start(); ...; again.wait(); }
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>

#include "smelt/error.hpp"
#include "smelt/plan.hpp"

namespace smelt {

/// How elements are combined. `combine` computes accumulator[i] = accumulator[i] (op) operand[i] for i < count. It must
/// be associative. If `commutative` is false, operands are combined in rank order. The order of combination depends on
/// the communicator, the size and the profile; if these are the same, results are bitwise the same.
struct Reduction {
  using Combine = void (*)(void* accumulator, const void* operand, std::size_t count, void* context);
  /// result[i] = first[i] (op) second[i]; `result` may be `first` or `second`.
  using Merge = void (*)(void* result, const void* first, const void* second, std::size_t count, void* context);
  std::size_t element_bytes = 0;
  Combine combine = nullptr;
  void* context = nullptr;
  bool commutative = true;
  /// Optional: saves a copy if a result is written to another place than its operands.
  Merge merge = nullptr;
  /// Operands are always combined as ((0 op 1) op 2) op ... by rank, so results are bitwise the same for any tree,
  /// algorithm, chunk size or profile. Cost: algorithms with other orders are not used
  /// (docs/how-to/get-the-same-bits.md).
  bool reproducible = false;
};

namespace detail {
template <class T, class Op>
Reduction reduction_of() {
  return {sizeof(T),
          [](void* accumulator, const void* operand, std::size_t count, void*) {
            auto* to = static_cast<T*>(accumulator);
            const auto* from = static_cast<const T*>(operand);
            for (std::size_t i = 0; i < count; ++i) to[i] = Op()(to[i], from[i]);
          },
          nullptr, true,
          [](void* result, const void* first, const void* second, std::size_t count, void*) {
            auto* to = static_cast<T*>(result);
            const auto* a = static_cast<const T*>(first);
            const auto* b = static_cast<const T*>(second);
            for (std::size_t i = 0; i < count; ++i) to[i] = Op()(a[i], b[i]);
          }};
}
template <class T>
struct Smaller {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct Larger {
  T operator()(T a, T b) const { return a < b ? b : a; }
};

enum class BuiltinOp { sum, product, minimum, maximum, bit_and, bit_or, bit_xor };
/// For arithmetic types: the library's own loops, compiled for every vector unit and selected at load time.
template <class T>
Reduction builtin_reduction(BuiltinOp op);

template <class T>
inline constexpr bool has_builtin = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                    (std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> &&
                                     sizeof(T) <= 8);

template <class T, BuiltinOp op, class Op>
Reduction best_reduction() {
  if constexpr (std::is_integral_v<T> && has_builtin<T>) {
    using Sized = std::conditional_t<
        sizeof(T) == 8, long long,
        std::conditional_t<sizeof(T) == 4, int, std::conditional_t<sizeof(T) == 2, short, signed char>>>;
    using Same = std::conditional_t<std::is_signed_v<T>, Sized, std::make_unsigned_t<Sized>>;
    return builtin_reduction<Same>(op);
  } else if constexpr (has_builtin<T>) {
    return builtin_reduction<T>(op);
  } else {
    return reduction_of<T, Op>();
  }
}
}  // namespace detail

template <class T>
Reduction sum() {
  return detail::best_reduction<T, detail::BuiltinOp::sum, std::plus<T>>();
}
template <class T>
Reduction product() {
  return detail::best_reduction<T, detail::BuiltinOp::product, std::multiplies<T>>();
}
template <class T>
Reduction minimum() {
  return detail::best_reduction<T, detail::BuiltinOp::minimum, detail::Smaller<T>>();
}
template <class T>
Reduction maximum() {
  return detail::best_reduction<T, detail::BuiltinOp::maximum, detail::Larger<T>>();
}
template <class T>
Reduction bit_and() {
  return detail::best_reduction<T, detail::BuiltinOp::bit_and, std::bit_and<T>>();
}
template <class T>
Reduction bit_or() {
  return detail::best_reduction<T, detail::BuiltinOp::bit_or, std::bit_or<T>>();
}
template <class T>
Reduction bit_xor() {
  return detail::best_reduction<T, detail::BuiltinOp::bit_xor, std::bit_xor<T>>();
}

/// When data may move ([Nishtala09] 3). Part of what is tuned.
enum class Sync : unsigned char {
  loose,   ///< from when the first rank has entered until the last has left, as in MPI
  strict,  ///< as if there were a barrier before and after
};
/// "loose", "strict".
const char* to_string(Sync sync) noexcept;

/// Blocks of different sizes, in elements: block i is elements offsets[i] .. offsets[i] + counts[i]. The arrays must
/// stay valid until the end of the operation.
struct Blocks {
  const std::size_t* counts = nullptr;
  const std::size_t* offsets = nullptr;
};

/// One operation. All ranks pass the same operation, count, reduction, root, sync and at_rest, and either all run it or
/// all start it.
///
///   broadcast       out: `count` elements, from the root to all
///   reduce          in: `count`; out: `count`, on the root only (may be null elsewhere)
///   allreduce       in, out: `count`
///   scan, exscan    in, out: `count`; out = ranks 0 .. r combined, or 0 .. r-1 (`out` of rank 0 is not changed)
///   scatter         in: size * `count`, on the root only; out: `count`
///   gather          in: `count`; out: size * `count`, on the root only
///   allgather       in: `count`; out: size * `count`
///   alltoall        in, out: size * `count`; block i of `in` goes to rank i, of `out` comes from rank i
///   reduce_scatter  in: size * `count`; out: `count` = block r of all inputs combined
///   two_phase_commit  out: the proposal, `count` bytes, from the root to all; *committed = whether all voted yes
///   barrier         nothing
///
/// In place: `out` == `in` for reductions, scans, alltoall and reduce_scatter (with the result at the beginning). For
/// scatter, gather and allgather the smaller buffer is the rank's own block of the larger one. Otherwise in and out
/// must not overlap. A buffer or block of more than 2^47 bytes is refused.
///
/// Blocks of different sizes: scatterv, gatherv, allgatherv, alltoallv, reduce_scatterv. Then `count` is the size of
/// the rank's own block (alltoallv: ignored). scatterv (on the root), alltoallv and reduce_scatterv use `in_blocks`;
/// gatherv (on the root), allgatherv and alltoallv use `out_blocks`. `uneven` must be set on every rank, since ranks
/// that know no sizes must choose the same algorithm. Blocks without `uneven` are refused.
struct Collective {
  Operation operation = Operation::barrier;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  std::size_t element_bytes = 1;
  Reduction reduction{};
  int root = 0;
  Sync sync = Sync::loose;
  /// A hint: the input has not been written recently and results are not read soon. Without it, the algorithm is chosen
  /// for data that was just written and is about to be read. Measure a program's calls to find out which case applies.
  bool at_rest = false;
  Blocks in_blocks{}, out_blocks{};
  bool uneven = false;                                          ///< blocks of different sizes
  bool (*vote)(const void* proposal, void* context) = nullptr;  ///< for two-phase commit
  void* vote_context = nullptr;
  bool* committed = nullptr;

  static Collective barrier() { return {}; }
  static Collective two_phase_commit(void* proposal, std::size_t bytes, bool (*vote)(const void*, void*), void* context,
                                     bool* committed, int root = 0) {
    return {.operation = Operation::two_phase_commit,
            .out = proposal,
            .count = bytes,
            .root = root,
            .vote = vote,
            .vote_context = context,
            .committed = committed};
  }
  static Collective broadcast(void* data, std::size_t bytes, int root = 0) {
    return {.operation = Operation::broadcast, .out = data, .count = bytes, .root = root};
  }
  static Collective reduce(const void* in, void* out, std::size_t count, const Reduction& op, int root = 0) {
    return {.operation = Operation::reduce,
            .in = in,
            .out = out,
            .count = count,
            .element_bytes = op.element_bytes,
            .reduction = op,
            .root = root};
  }
  static Collective allreduce(const void* in, void* out, std::size_t count, const Reduction& op) {
    return {.operation = Operation::allreduce,
            .in = in,
            .out = out,
            .count = count,
            .element_bytes = op.element_bytes,
            .reduction = op};
  }
  static Collective scan(const void* in, void* out, std::size_t count, const Reduction& op) {
    return {.operation = Operation::scan,
            .in = in,
            .out = out,
            .count = count,
            .element_bytes = op.element_bytes,
            .reduction = op};
  }
  static Collective exscan(const void* in, void* out, std::size_t count, const Reduction& op) {
    return {.operation = Operation::exscan,
            .in = in,
            .out = out,
            .count = count,
            .element_bytes = op.element_bytes,
            .reduction = op};
  }
  static Collective reduce_scatter(const void* in, void* out, std::size_t count, const Reduction& op) {
    return {.operation = Operation::reduce_scatter,
            .in = in,
            .out = out,
            .count = count,
            .element_bytes = op.element_bytes,
            .reduction = op};
  }
  static Collective scatter(const void* in, void* out, std::size_t bytes, int root = 0) {
    return {.operation = Operation::scatter, .in = in, .out = out, .count = bytes, .root = root};
  }
  static Collective gather(const void* in, void* out, std::size_t bytes, int root = 0) {
    return {.operation = Operation::gather, .in = in, .out = out, .count = bytes, .root = root};
  }
  static Collective allgather(const void* in, void* out, std::size_t bytes) {
    return {.operation = Operation::allgather, .in = in, .out = out, .count = bytes};
  }
  static Collective alltoall(const void* in, void* out, std::size_t bytes) {
    return {.operation = Operation::alltoall, .in = in, .out = out, .count = bytes};
  }

  // With blocks of different sizes, in bytes; reduce_scatterv: in elements.

  /// `in_blocks`: used on the root only.
  static Collective scatterv(const void* in, Blocks in_blocks, void* out, std::size_t bytes, int root = 0) {
    Collective call = scatter(in, out, bytes, root);
    call.in_blocks = in_blocks;
    call.uneven = true;
    return call;
  }
  /// `out_blocks`: used on the root only.
  static Collective gatherv(const void* in, std::size_t bytes, void* out, Blocks out_blocks, int root = 0) {
    Collective call = gather(in, out, bytes, root);
    call.out_blocks = out_blocks;
    call.uneven = true;
    return call;
  }
  static Collective allgatherv(const void* in, std::size_t bytes, void* out, Blocks out_blocks) {
    Collective call = allgather(in, out, bytes);
    call.out_blocks = out_blocks;
    call.uneven = true;
    return call;
  }
  static Collective alltoallv(const void* in, Blocks in_blocks, void* out, Blocks out_blocks) {
    Collective call = alltoall(in, out, 0);
    call.in_blocks = in_blocks;
    call.out_blocks = out_blocks;
    call.uneven = true;
    return call;
  }
  static Collective reduce_scatterv(const void* in, Blocks in_blocks, void* out, std::size_t count,
                                    const Reduction& op) {
    Collective call = reduce_scatter(in, out, count, op);
    call.in_blocks = in_blocks;
    call.uneven = true;
    return call;
  }
};

}  // namespace smelt
