#include "shims/mpi/calls/operators.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

/// Bits by Kind: what the MPI standard (3.1, 5.9.2 and 5.9.4) allows an operator on.
constexpr unsigned bit(Kind kind) { return 1u << static_cast<unsigned>(kind); }
constexpr unsigned integers = bit(Kind::integer) | bit(Kind::fortran_integer) | bit(Kind::index);
constexpr unsigned ordered = integers | bit(Kind::floating);
constexpr unsigned numbers = ordered | bit(Kind::complex);
constexpr unsigned truths = bit(Kind::integer) | bit(Kind::logical) | bit(Kind::fortran_logical);
constexpr unsigned bits = integers | bit(Kind::byte);

struct PredefinedOperator {
  MPI_Op op;
  unsigned kinds;
  int plain;
};
using PredefinedOperators = std::array<PredefinedOperator, 14>;

/// Created on first use, since some ABIs' operators are known only with the library.
const PredefinedOperators& known() noexcept {
  static const PredefinedOperators all = {{
      {MPI_SUM, numbers, SMELT_SUM},
      {MPI_PROD, numbers, SMELT_PRODUCT},
      {MPI_MIN, ordered, SMELT_MIN},
      {MPI_MAX, ordered, SMELT_MAX},
      {MPI_BAND, bits, SMELT_BIT_AND},
      {MPI_BOR, bits, SMELT_BIT_OR},
      {MPI_BXOR, bits, SMELT_BIT_XOR},
      {MPI_LAND, truths, -1},
      {MPI_LOR, truths, -1},
      {MPI_LXOR, truths, -1},
      {MPI_MINLOC, bit(Kind::pair), -1},
      {MPI_MAXLOC, bit(Kind::pair), -1},
      {MPI_REPLACE, 0, -1},
      {MPI_NO_OP, 0, -1},
  }};
  return all;
}

/// Memory for elements that must be unpacked or aligned for the library.
class AlignedElements {
 public:
  static constexpr std::size_t most_here = 2048;  ///< bytes without allocation

  explicit AlignedElements(std::size_t bytes) noexcept {
    if (bytes <= sizeof here_) return;
    far_.reset(new (std::nothrow) std::byte[bytes]);
  }
  std::byte* data() noexcept { return far_ != nullptr ? far_.get() : here_; }

 private:
  alignas(16) std::byte here_[most_here];
  std::unique_ptr<std::byte[]> far_;
};

/// The alignment that a compiler may count on for elements of this extent.
std::size_t alignment_of(const Type& layout) { return layout.extent % 16 == 0 ? 16 : layout.extent & -layout.extent; }

bool aligned(const void* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

/// inout[i] = in[i] (op) inout[i].
void reduce_local(const void* in, void* inout, std::size_t count, const Operator& by) {
  original.Reduce_local(in, inout, static_cast<int>(count), by.type, by.op);
}

/// For elements in arrays; both pointers aligned.
void combine_raw(std::byte* accumulator, const std::byte* operand, std::size_t count, const Operator& by) {
  if (by.commutative) return reduce_local(operand, accumulator, count, by);
  const std::size_t bytes = count * by.element_bytes();
  AlignedElements copy(bytes);
  std::memcpy(copy.data(), operand, bytes);
  reduce_local(accumulator, copy.data(), count, by);
  std::memcpy(accumulator, copy.data(), bytes);
}

/// The same for unaligned pointers.
void combine_unaligned(std::byte* accumulator, const std::byte* operand, std::size_t count, const Operator& by) {
  const std::size_t bytes = count * by.element_bytes();
  AlignedElements left(bytes), right(bytes);
  std::memcpy(left.data(), accumulator, bytes);
  std::memcpy(right.data(), operand, bytes);
  combine_raw(left.data(), right.data(), count, by);
  std::memcpy(accumulator, left.data(), bytes);
}

/// For packed elements: unpacks them for the operator.
void combine_packed(std::byte* accumulator, const std::byte* operand, std::size_t count, const Operator& by) {
  MPI_Aint lower = 0, span = 0;
  original.Type_get_true_extent(by.type, &lower, &span);
  const auto stride = static_cast<MPI_Aint>(by.layout->extent);
  const auto bytes = static_cast<std::size_t>(span + std::max<MPI_Aint>(0, stride) * static_cast<MPI_Aint>(count));
  AlignedElements left(bytes), right(bytes);
  std::byte* const first = left.data() - lower;
  std::byte* const second = right.data() - lower;
  unpack(accumulator, first, count, by.type, *by.layout);
  unpack(operand, second, count, by.type, *by.layout);
  reduce_local(first, second, count, by);
  pack(second, count, by.type, *by.layout, accumulator);
}

}  // namespace

bool operator_of(MPI_Op op, MPI_Datatype type, const Type& layout, Operator& to) noexcept {
  to = {op, type, &layout, false, true, -1};
  if (op == MPI_OP_NULL) return false;
  for (const PredefinedOperator& each : known()) {
    if (each.op != op) continue;
    if ((each.kinds & bit(layout.kind)) == 0) return false;
    if (layout.plain >= 0) to.plain = each.plain;
    return true;
  }
  int commutes = 0;
  if (original.Op_commutative(op, &commutes) != MPI_SUCCESS) return false;
  to.user = true;
  to.commutative = commutes != 0;
  return true;
}

bool is_exact(const Operator& by, int operands) noexcept {
  const int type = by.layout->plain;
  switch (by.plain) {
    case SMELT_SUM:
    case SMELT_PRODUCT: return type == SMELT_FLOAT || type == SMELT_DOUBLE ? operands == 2 : by.layout->size >= 4;
    case SMELT_MIN:
    case SMELT_MAX: return type == SMELT_INT32 || type == SMELT_INT64;
    default: return by.plain >= 0;
  }
}

bool is_predefined(MPI_Op op) noexcept {
  return std::any_of(known().begin(), known().end(), [&](const PredefinedOperator& each) { return each.op == op; });
}

void combine(void* accumulator, const void* operand, std::size_t count, void* context) noexcept {
  const auto& by = *static_cast<const Operator*>(context);
  const std::size_t bytes = by.element_bytes();
  // Pieces that fit the buffers above, and an int; pairs with gaps stay in the cache.
  const std::size_t room = by.raw() || by.user ? std::size_t{1} << 20 : AlignedElements::most_here / 2;
  const std::size_t most = std::max<std::size_t>(1, room / std::max<std::size_t>(1, bytes));
  const auto alignment = by.raw() ? alignment_of(*by.layout) : 1;
  auto* to = static_cast<std::byte*>(accumulator);
  const auto* from = static_cast<const std::byte*>(operand);
  for (std::size_t done = 0, part; done < count; done += part, to += part * bytes, from += part * bytes) {
    part = std::min(count - done, most);
    if (!by.raw()) {
      combine_packed(to, from, part, by);
    } else if (aligned(to, alignment) && aligned(from, alignment)) {
      combine_raw(to, from, part, by);
    } else {
      combine_unaligned(to, from, part, by);
    }
  }
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
