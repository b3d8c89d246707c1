#include "shims/mpi/calls/types.hpp"

#include <smelt/smelt.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "shims/mpi/original.hpp"
#include "shims/mpi/team/communicators.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

constexpr int integer_of(std::size_t size, bool has_sign) {
  const int step = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
  return step < 0 ? -1 : (has_sign ? SMELT_INT8 : SMELT_UINT8) + step;
}

/// Whether the library accepts a type: packs no elements of it, in a way that calls no error handler.
bool usable(MPI_Datatype type) noexcept {
  if (type == MPI_DATATYPE_NULL || number_of(type) == 0) return false;
  char nothing = 0;
  int position = 0;
  return original.Pack(&nothing, 0, type, &nothing, 0, &position, own_communicator()) == MPI_SUCCESS;
}

/// Whether the library's minima and maxima take integers of a type for signed ones. MPICH 4.0 does so with unsigned
/// types, and Open MPI does not with MPI_OFFSET.
bool compares_as_signed(MPI_Datatype type) noexcept {
  std::int64_t all_bits = -1, one = 1;
  original.Reduce_local(&all_bits, &one, 1, type, MPI_MAX);
  return one == 1;
}

/// Predefined types by handle: open addressing, written once.
class PredefinedTypes {
 public:
  PredefinedTypes() {
    add_c_types();
    add_fortran_types();
    add_pairs();
  }

  const Type* find(MPI_Datatype handle) const noexcept {
    for (std::size_t at = slot_of(handle);; at = (at + 1) % slots) {
      if (!entries_[at].used) return nullptr;
      if (entries_[at].handle == handle) return &entries_[at].type;
    }
  }

 private:
  static constexpr std::size_t slots = 256;
  struct InterceptedFunction {
    MPI_Datatype handle;
    bool used = false;
    Type type;
  };

  static std::size_t slot_of(MPI_Datatype handle) noexcept {
    return (number_of(handle) * std::size_t{0x9e3779b97f4a7c15} >> 40) % slots;
  }

  void add(MPI_Datatype handle, Kind kind) {
    if (!usable(handle) || find(handle) != nullptr) return;
    MPI_Aint lower = 0, extent = 0;
    int size = 0;
    if (original.Type_size(handle, &size) != MPI_SUCCESS || size <= 0) return;
    if (original.Type_get_extent(handle, &lower, &extent) != MPI_SUCCESS || lower != 0) return;
    Type type{static_cast<std::size_t>(size), static_cast<std::size_t>(extent), size == extent, true, kind, -1};
    if (kind == Kind::integer || kind == Kind::fortran_integer || kind == Kind::index) {
      type.plain = integer_of(type.size, compares_as_signed(handle));
    } else if (kind == Kind::byte) {
      type.plain = SMELT_UINT8;
    } else if (kind == Kind::floating && type.size <= 8) {
      type.plain = type.size == 4 ? SMELT_FLOAT : type.size == 8 ? SMELT_DOUBLE : -1;
    }
    std::size_t at = slot_of(handle);
    while (entries_[at].used) at = (at + 1) % slots;
    entries_[at] = {handle, true, type};
  }

  void add_c_types() {
    for (const auto type : {MPI_INT, MPI_LONG, MPI_SHORT, MPI_LONG_LONG, MPI_SIGNED_CHAR, MPI_INT8_T, MPI_INT16_T,
                            MPI_INT32_T, MPI_INT64_T}) {
      add(type, Kind::integer);
    }
    for (const auto type : {MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_SHORT, MPI_UNSIGNED_LONG_LONG,
                            MPI_UNSIGNED_CHAR, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T}) {
      add(type, Kind::integer);
    }
    for (const auto type : {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE}) add(type, Kind::floating);
    for (const auto type : {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX}) {
      add(type, Kind::complex);
    }
    for (const auto type : {MPI_AINT, MPI_OFFSET, MPI_COUNT}) add(type, Kind::index);
    add(MPI_C_BOOL, Kind::logical);
    add(MPI_BYTE, Kind::byte);
    for (const auto type : {MPI_CHAR, MPI_WCHAR, MPI_PACKED}) add(type, Kind::none);
  }

  void add_fortran_types() {
    for (const auto type : {MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8}) {
      add(type, Kind::fortran_integer);
    }
    for (const auto type : {MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8}) add(type, Kind::floating);
    for (const auto type : {MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16}) add(type, Kind::complex);
    add(MPI_LOGICAL, Kind::fortran_logical);
    add(MPI_CHARACTER, Kind::none);
  }

  void add_pairs() {
    for (const auto type : {MPI_2INT, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
                            MPI_2INTEGER, MPI_2REAL, MPI_2DOUBLE_PRECISION}) {
      add(type, Kind::pair);
    }
  }

  InterceptedFunction entries_[slots];
};

const PredefinedTypes& predefined() noexcept {
  static const PredefinedTypes table;
  return table;
}

// ---- derived types --------------------------------------------------------------------------

/// The contents of a derived type.
struct Contents {
  int combiner = MPI_COMBINER_NAMED;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Datatype> types;
  bool complete = false;

  explicit Contents(MPI_Datatype type) {
    int counts[3] = {};
    if (!count(type, counts)) return;
    complete = true;
    if (combiner == MPI_COMBINER_NAMED) return;
    integers.resize(static_cast<std::size_t>(counts[0]) + 1);
    addresses.resize(static_cast<std::size_t>(counts[1]) + 1);
    types.resize(static_cast<std::size_t>(counts[2]));
    std::vector<MPI_Datatype> handles(types.size() + 1);
    complete = original.Type_get_contents(type, counts[0], counts[1], counts[2], integers.data(), addresses.data(),
                                          handles.data()) == MPI_SUCCESS;
    if (complete) std::copy_n(handles.begin(), types.size(), types.begin());
    if (!complete) types.clear();
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents() {
    for (auto& type : types) {
      if (Contents inner(type); inner.complete && inner.combiner == MPI_COMBINER_NAMED) continue;
      original.Type_free(&type);
    }
  }

 private:
  /// False: the type was made by a function with large counts, or its contents are unknown.
  bool count(MPI_Datatype type, int (&counts)[3]) noexcept {
    if (original.Type_get_envelope_c == nullptr) {
      return original.Type_get_envelope(type, &counts[0], &counts[1], &counts[2], &combiner) == MPI_SUCCESS;
    }
    MPI_Count numbers[4] = {};
    if (original.Type_get_envelope_c(type, &numbers[0], &numbers[1], &numbers[2], &numbers[3], &combiner) !=
        MPI_SUCCESS) {
      return false;
    }
    counts[0] = static_cast<int>(numbers[0]);
    counts[1] = static_cast<int>(numbers[1]);
    counts[2] = static_cast<int>(numbers[3]);
    return numbers[2] == 0;
  }
};

bool measure(MPI_Datatype type, Type& to) {
  MPI_Count size = 0;
  MPI_Aint lower = 0, extent = 0;
  if (original.Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return false;
  if (original.Type_get_extent(type, &lower, &extent) != MPI_SUCCESS) return false;
  to.size = static_cast<std::size_t>(size);
  to.extent = static_cast<std::size_t>(extent);
  to.dense = lower == 0 && extent == static_cast<MPI_Aint>(size);
  return true;
}

bool is_dense(MPI_Datatype type);

/// Whether blocks of contiguous elements follow each other without gaps, from offset 0 on.
/// length(i): elements of block i; offset(i): where it begins, in bytes.
template <class Length, class Offset>
bool consecutive(int blocks, std::size_t element, Length length, Offset offset) {
  MPI_Aint next = 0;
  for (int i = 0; i < blocks; ++i) {
    const auto elements = static_cast<MPI_Aint>(length(i));
    if (elements == 0) continue;
    if (offset(i) != next) return false;
    next += elements * static_cast<MPI_Aint>(element);
  }
  return true;
}

/// The same for a struct, whose blocks have different types.
bool is_dense_struct(const Contents& of) {
  const int blocks = of.integers[0];
  MPI_Aint next = 0;
  for (int i = 0; i < blocks; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (of.integers[at + 1] == 0) continue;
    Type inner;
    if (of.addresses[at] != next || !is_dense(of.types[at]) || !measure(of.types[at], inner)) return false;
    next += of.integers[at + 1] * static_cast<MPI_Aint>(inner.size);
  }
  return true;
}

bool is_dense_made_of(const Contents& of, std::size_t element) {
  const auto& n = of.integers;
  const auto count = n[0];
  const auto width = static_cast<MPI_Aint>(element);
  const auto number = [&](int at) { return n[static_cast<std::size_t>(at)]; };
  const auto address = [&](int at) { return of.addresses[static_cast<std::size_t>(at)]; };
  switch (of.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_CONTIGUOUS:
    case MPI_COMBINER_RESIZED: return true;
    case MPI_COMBINER_VECTOR: return count <= 1 || n[1] == n[2];
    case MPI_COMBINER_HVECTOR: return count <= 1 || n[1] * width == address(0);
    case MPI_COMBINER_INDEXED:
      return consecutive(
          count, element, [&](int i) { return number(1 + i); }, [&](int i) { return number(1 + count + i) * width; });
    case MPI_COMBINER_HINDEXED:
      return consecutive(
          count, element, [&](int i) { return number(1 + i); }, address);
    case MPI_COMBINER_INDEXED_BLOCK:
      return consecutive(
          count, element, [&](int) { return n[1]; }, [&](int i) { return number(2 + i) * width; });
    case MPI_COMBINER_HINDEXED_BLOCK:
      return consecutive(
          count, element, [&](int) { return n[1]; }, address);
    case MPI_COMBINER_SUBARRAY: return std::equal(n.begin() + 1, n.begin() + 1 + count, n.begin() + 1 + count);
    default: return false;
  }
}

/// Whether the type's map is in order and without gaps. Size, bounds and order all have to be right: blocks in
/// another order have the right size and extent, too.
bool is_dense(MPI_Datatype type) {
  Type whole;
  if (!measure(type, whole) || !whole.dense) return false;
  const Contents of(type);
  if (!of.complete) return false;
  switch (of.combiner) {
    case MPI_COMBINER_NAMED:
    case MPI_COMBINER_F90_REAL:
    case MPI_COMBINER_F90_COMPLEX:
    case MPI_COMBINER_F90_INTEGER: return true;
    case MPI_COMBINER_STRUCT: return is_dense_struct(of);
    default: break;
  }
  Type inner;
  return of.types.size() == 1 && is_dense(of.types[0]) && measure(of.types[0], inner) &&
         is_dense_made_of(of, inner.size);
}

constinit std::mutex set_up;
constinit std::atomic<int> keyval{MPI_KEYVAL_INVALID};

int forget(MPI_Datatype, int, void* value, void*) {
  type_generation.fetch_add(1, std::memory_order_release);
  delete static_cast<Type*>(value);
  return MPI_SUCCESS;
}

int key() noexcept {
  int made = keyval.load(std::memory_order_acquire);
  if (made != MPI_KEYVAL_INVALID) return made;
  const std::lock_guard lock(set_up);
  made = keyval.load(std::memory_order_relaxed);
  if (made == MPI_KEYVAL_INVALID) {
    original.Type_create_keyval(copy_nothing, forget, &made, nullptr);
    note_own_keyval(made);
    keyval.store(made, std::memory_order_release);  // pairs with the load above
  }
  return made;
}

/// What a type has as its attribute, or null.
const Type* attached_to(MPI_Datatype type) noexcept {
  void* value = nullptr;
  int found = 0;
  const bool there = original.Type_get_attr(type, key(), &value, &found) == MPI_SUCCESS && found != 0;
  return there ? static_cast<const Type*>(value) : nullptr;
}

/// Not predefined, or not in the table.
const Type* derived(MPI_Datatype type) noexcept {
  if (!usable(type)) return nullptr;  // or it has not been committed
  if (const Type* const known = attached_to(type); known != nullptr) return known;
  try {
    auto made = std::make_unique<Type>();
    if (!measure(type, *made)) return nullptr;
    made->dense = is_dense(type);
    // A second attribute would free the first one, which another thread may use.
    static constinit std::mutex attaching;
    const std::lock_guard lock(attaching);
    if (const Type* const known = attached_to(type); known != nullptr) return known;
    if (original.Type_set_attr(type, key(), made.get()) != MPI_SUCCESS) return nullptr;
    return made.release();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// Elements that one call of MPI_Pack can take.
std::size_t batch_of(const Type& layout) {
  constexpr std::size_t most_bytes = std::size_t{1} << 30;
  return std::max<std::size_t>(1, most_bytes / std::max<std::size_t>(1, std::max(layout.size, layout.extent)));
}

/// A buffer and its type, such that the buffer is not null: MPICH's MPI_Pack takes MPI_BOTTOM, which is null, for a
/// mistake. Types of absolute addresses are rare enough to be made anew each time.
class NonNullBuffer {
 public:
  NonNullBuffer(const void* buffer, MPI_Datatype type) noexcept : address(const_cast<void*>(buffer)), type(type) {
    if (buffer != nullptr) return;
    static char anchor;
    address = &anchor;
    MPI_Aint offset = 0;
    original.Get_address(address, &offset);
    offset = -offset;
    code = original.Type_create_hindexed_block(1, 1, &offset, type, &made_);
    if (code == MPI_SUCCESS) code = original.Type_commit(&made_);
    if (code == MPI_SUCCESS) this->type = made_;
  }
  NonNullBuffer(const NonNullBuffer&) = delete;
  NonNullBuffer& operator=(const NonNullBuffer&) = delete;
  ~NonNullBuffer() {
    if (made_ != MPI_DATATYPE_NULL) original.Type_free(&made_);
  }

  void* address;
  MPI_Datatype type;
  int code = MPI_SUCCESS;  ///< of MPI

 private:
  MPI_Datatype made_ = MPI_DATATYPE_NULL;
};

/// Pairs as they lie in memory or packed: a value, and an int somewhere behind it.
struct PairPlaces {
  std::size_t index, stride;
};

template <std::size_t value>
void copy_pairs(const std::byte* from, PairPlaces there, std::byte* to, PairPlaces here, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i, from += there.stride, to += here.stride) {
    std::memcpy(to, from, value);
    std::memcpy(to + here.index, from + there.index, sizeof(int));
  }
}

/// Copies pairs with gaps, which the library does elsewhere as slowly as any type. False: these are no such pairs.
bool copy_pairs(const void* from, void* to, std::size_t count, const Type& layout, bool packs) noexcept {
  if (layout.kind != Kind::pair || layout.dense || from == nullptr || to == nullptr) return false;
  const std::size_t value = layout.size - sizeof(int);
  const PairPlaces packed{value, layout.size};
  const PairPlaces apart{(value + alignof(int) - 1) / alignof(int) * alignof(int), layout.extent};  // a struct of C
  const auto copy = [&]<std::size_t width>() {
    copy_pairs<width>(static_cast<const std::byte*>(from), packs ? apart : packed, static_cast<std::byte*>(to),
                      packs ? packed : apart, count);
    return true;
  };
  switch (value) {
    case sizeof(short): return copy.template operator()<sizeof(short)>();
    case sizeof(double): return copy.template operator()<sizeof(double)>();
    case sizeof(long double): return copy.template operator()<sizeof(long double)>();
    default: return false;
  }
}

}  // namespace

constinit std::atomic<std::uint32_t> type_generation{1};

const Type* look_up_type(MPI_Datatype type) noexcept {
  if (!is_world_there()) return nullptr;  // own_communicator() needs it
  const auto now = type_generation.load(std::memory_order_acquire);
  const Type* found = predefined().find(type);
  if (found == nullptr) found = derived(type);
  auto& entry = cached_types[spread(type) % type_cache_size];
  if (found != nullptr) entry = {number_of(type), now, found};
  return found;
}

int pack(const void* from, std::size_t count, MPI_Datatype type, const Type& layout, std::byte* to) noexcept {
  if (copy_pairs(from, to, count, layout, true)) return MPI_SUCCESS;
  for (std::size_t done = 0, part; done < count; done += part) {
    part = std::min(count - done, batch_of(layout));
    int position = 0;
    const auto* begin = static_cast<const std::byte*>(from) + done * layout.extent;
    const NonNullBuffer at(begin, type);
    if (at.code != MPI_SUCCESS) return at.code;
    const int code = original.Pack(at.address, static_cast<int>(part), at.type, to + done * layout.size,
                                   static_cast<int>(part * layout.size), &position, own_communicator());
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int unpack(const std::byte* from, void* to, std::size_t count, MPI_Datatype type, const Type& layout) noexcept {
  if (copy_pairs(from, to, count, layout, false)) return MPI_SUCCESS;
  for (std::size_t done = 0, part; done < count; done += part) {
    part = std::min(count - done, batch_of(layout));
    int position = 0;
    const NonNullBuffer at(static_cast<std::byte*>(to) + done * layout.extent, type);
    if (at.code != MPI_SUCCESS) return at.code;
    const int code = original.Unpack(from + done * layout.size, static_cast<int>(part * layout.size), &position,
                                     at.address, static_cast<int>(part), at.type, own_communicator());
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

void release_types() noexcept {
  const std::lock_guard lock(set_up);
  type_generation.fetch_add(1, std::memory_order_release);
  if (int made = keyval.exchange(MPI_KEYVAL_INVALID); made != MPI_KEYVAL_INVALID) original.Type_free_keyval(&made);
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
