// Every operation through the shim against the plain library's answer, on random inputs.
//
//   mpirun -n N matrix [rounds] [seed] [alike]
//
// Each round draws, equally on all ranks, a communicator, an operation, a datatype, an operator, a root and sizes;
// and on each rank by itself how it describes its part of the data: all descriptions have the same signature.
// With `alike` all ranks describe their data in the same way: where calls are passed on, Open MPI 4.1 chooses its
// algorithm by a rank's own datatype, and hangs where they differ.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "support.hpp"

namespace {

using shim_test::compose;
using shim_test::fail;
using shim_test::require;
using Bytes = std::vector<unsigned char>;

std::mt19937_64 common;  ///< the same numbers on all ranks
std::mt19937_64 own;     ///< others on each
bool alike = false;      ///< all ranks describe their data in the same way

int draw(std::mt19937_64& from, int below) { return static_cast<int>(from() % static_cast<unsigned>(below)); }

// ---- communicators --------------------------------------------------------------------------

struct Named {
  const char* name;
  MPI_Comm comm;
};

std::vector<Named> communicators() {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<Named> made = {{"world", MPI_COMM_WORLD}, {"self", MPI_COMM_SELF}};
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  made.push_back({"dup", comm});
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &comm);
  made.push_back({"reversed", comm});
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
  made.push_back({"half", comm});
  MPI_Group world, part;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  const int last[] = {size - 1};
  if (size > 2) {
    MPI_Group_excl(world, 1, last, &part);
    MPI_Comm_create(MPI_COMM_WORLD, part, &comm);
    made.push_back({"all but the last", comm});
    MPI_Group_free(&part);
  }
  MPI_Group_free(&world);
  return made;
}

// ---- reductions -----------------------------------------------------------------------------

enum class Values { small, truth, pair };

struct Pairing {
  const char* name;
  MPI_Datatype type;
  Values values;
  std::vector<MPI_Op> ops;
};

/// The same on elements that have a gap between their numbers.
void compose_gaps(void* in, void* inout, int* count, MPI_Datatype*) {
  auto* f = static_cast<std::uint32_t*>(in);
  auto* g = static_cast<std::uint32_t*>(inout);
  for (int i = 0; i < *count; ++i, f += 3, g += 3) {
    g[2] = g[0] * f[2] + g[2];
    g[0] = g[0] * f[0];
  }
}

/// Commutative.
void add_up(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<std::int64_t*>(inout)[i] += static_cast<std::int64_t*>(in)[i];
}

std::vector<Pairing> pairings() {
  const std::vector<MPI_Op> order = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD};
  const std::vector<MPI_Op> integer = {MPI_MAX, MPI_MIN,  MPI_SUM,  MPI_PROD, MPI_BAND,
                                       MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR,  MPI_LXOR};
  const std::vector<MPI_Op> bits = {MPI_BAND, MPI_BOR, MPI_BXOR};
  const std::vector<MPI_Op> field = {MPI_SUM, MPI_PROD};
  const std::vector<MPI_Op> logic = {MPI_LAND, MPI_LOR, MPI_LXOR};
  const std::vector<MPI_Op> place = {MPI_MINLOC, MPI_MAXLOC};
  std::vector<Pairing> all;
#define WITH(type, values, ops) all.push_back({#type, type, Values::values, ops})
  WITH(MPI_INT, small, integer), WITH(MPI_LONG, small, integer), WITH(MPI_SHORT, small, integer);
  WITH(MPI_UNSIGNED, small, integer), WITH(MPI_UNSIGNED_LONG, small, integer);
  WITH(MPI_UNSIGNED_SHORT, small, integer), WITH(MPI_SIGNED_CHAR, small, integer);
  WITH(MPI_UNSIGNED_CHAR, small, integer), WITH(MPI_LONG_LONG, small, integer);
  WITH(MPI_UNSIGNED_LONG_LONG, small, integer), WITH(MPI_INT8_T, small, integer);
  WITH(MPI_INT16_T, small, integer), WITH(MPI_INT32_T, small, integer), WITH(MPI_INT64_T, small, integer);
  WITH(MPI_UINT8_T, small, integer), WITH(MPI_UINT16_T, small, integer), WITH(MPI_UINT32_T, small, integer);
  WITH(MPI_UINT64_T, small, integer), WITH(MPI_AINT, small, order), WITH(MPI_OFFSET, small, order);
  WITH(MPI_COUNT, small, order), WITH(MPI_BYTE, small, bits), WITH(MPI_C_BOOL, truth, logic);
  WITH(MPI_FLOAT, small, order), WITH(MPI_DOUBLE, small, order), WITH(MPI_LONG_DOUBLE, small, order);
  WITH(MPI_C_FLOAT_COMPLEX, small, field), WITH(MPI_C_DOUBLE_COMPLEX, small, field);
  WITH(MPI_C_LONG_DOUBLE_COMPLEX, small, field);
  WITH(MPI_INTEGER, small, order), WITH(MPI_INTEGER8, small, order), WITH(MPI_REAL, small, order);
  WITH(MPI_DOUBLE_PRECISION, small, order), WITH(MPI_COMPLEX, small, field), WITH(MPI_DOUBLE_COMPLEX, small, field);
  WITH(MPI_LOGICAL, truth, logic);
  WITH(MPI_2INT, pair, place), WITH(MPI_FLOAT_INT, pair, place), WITH(MPI_DOUBLE_INT, pair, place);
  WITH(MPI_LONG_INT, pair, place), WITH(MPI_SHORT_INT, pair, place), WITH(MPI_LONG_DOUBLE_INT, pair, place);
  WITH(MPI_2INTEGER, pair, place), WITH(MPI_2REAL, pair, place), WITH(MPI_2DOUBLE_PRECISION, pair, place);
#undef WITH
  MPI_Op ordered, ordered_gaps, plain;
  MPI_Op_create(compose, 0, &ordered);
  MPI_Op_create(compose_gaps, 0, &ordered_gaps);
  MPI_Op_create(add_up, 1, &plain);
  MPI_Datatype two, gaps;
  MPI_Type_contiguous(2, MPI_UINT32_T, &two);
  MPI_Type_commit(&two);
  const int lengths[] = {1, 1};
  const MPI_Aint offsets[] = {0, 8};
  const MPI_Datatype types[] = {MPI_UINT32_T, MPI_UINT32_T};
  MPI_Type_create_struct(2, lengths, offsets, types, &gaps);
  MPI_Type_commit(&gaps);
  all.push_back({"function composition", two, Values::small, {ordered}});
  all.push_back({"function composition with gaps", gaps, Values::small, {ordered_gaps}});
  all.push_back({"own sum", MPI_INT64_T, Values::small, {plain}});
  return all;
}

template <class T>
void put(Bytes& to, std::size_t at, T value) {
  std::memcpy(to.data() + at, &value, sizeof value);
}

/// A number of the type at an offset. Small ones, whose sums and products are exact in every order.
void put_number(Bytes& to, std::size_t at, MPI_Datatype type, int value) {
  const auto is = [&](std::initializer_list<MPI_Datatype> types) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  if (is({MPI_FLOAT, MPI_REAL, MPI_2REAL, MPI_FLOAT_INT})) return put(to, at, static_cast<float>(value));
  if (is({MPI_DOUBLE, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION, MPI_DOUBLE_INT})) {
    return put(to, at, static_cast<double>(value));
  }
  if (is({MPI_LONG_DOUBLE, MPI_LONG_DOUBLE_INT})) return put(to, at, static_cast<long double>(value));
  if (is({MPI_LONG_INT})) return put(to, at, static_cast<long>(value));
  if (is({MPI_SHORT_INT})) return put(to, at, static_cast<short>(value));
  put(to, at, value);
}

/// Whether a minimum or maximum of any integers is the library's, whatever that takes for signed. Open MPI 4.1 takes
/// long rows of unsigned numbers of 64 bits for signed, and short ones not.
bool compared_alike(MPI_Datatype type, MPI_Op op) {
  return (op == MPI_MIN || op == MPI_MAX) && type != MPI_UNSIGNED_LONG && type != MPI_UNSIGNED_LONG_LONG &&
         type != MPI_UINT64_T;
}

/// `bits`: any bits will do. Else integers are small: what happens on overflow is not said by the standard, nor is
/// it the same in all libraries.
Bytes random_elements(const Pairing& of, std::size_t count, bool bits) {
  MPI_Aint lower = 0, extent = 0;
  int size = 0;
  MPI_Type_get_extent(of.type, &lower, &extent);
  MPI_Type_size(of.type, &size);
  const auto step = static_cast<std::size_t>(extent);
  Bytes made(count * step, 0);
  const auto is = [&](MPI_Datatype type) { return of.type == type; };
  const bool integers = std::find(of.ops.begin(), of.ops.end(), MPI_BAND) != of.ops.end();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * step;
    const int small = draw(own, 5) - 2;
    if (of.values == Values::truth) {
      if (step == 1) put(made, at, static_cast<unsigned char>(draw(own, 2)));
      if (step == 4) put(made, at, draw(own, 2));
    } else if (of.values == Values::pair) {
      put_number(made, at, of.type, small);
      const bool twice = is(MPI_2INT) || is(MPI_2INTEGER) || is(MPI_2REAL) || is(MPI_2DOUBLE_PRECISION);
      if (twice) {
        put_number(made, at + step / 2, of.type, draw(own, 4));
      } else {
        const std::size_t index = is(MPI_FLOAT_INT) || is(MPI_SHORT_INT) ? 4 : is(MPI_LONG_DOUBLE_INT) ? 16 : 8;
        put(made, at + index, draw(own, 4));
      }
    } else if (integers || is(MPI_AINT) || is(MPI_OFFSET) || is(MPI_COUNT) || is(MPI_INTEGER) || is(MPI_INTEGER8) ||
               size != static_cast<int>(extent) || of.ops.size() == 1) {
      for (std::size_t k = 0; bits && k < step; ++k) made[at + k] = static_cast<unsigned char>(own());
      if (!bits) made[at] = static_cast<unsigned char>(small + 2);
    } else if (is(MPI_C_FLOAT_COMPLEX) || is(MPI_COMPLEX)) {
      put(made, at, static_cast<float>(small)), put(made, at + 4, static_cast<float>(draw(own, 3)));
    } else if (is(MPI_C_DOUBLE_COMPLEX) || is(MPI_DOUBLE_COMPLEX)) {
      put(made, at, static_cast<double>(small)), put(made, at + 8, static_cast<double>(draw(own, 3)));
    } else if (is(MPI_C_LONG_DOUBLE_COMPLEX)) {
      put(made, at, static_cast<long double>(small)), put(made, at + 16, static_cast<long double>(draw(own, 3)));
    } else if (is(MPI_BYTE)) {
      made[at] = static_cast<unsigned char>(own());
    } else {
      put_number(made, at, of.type, small);
    }
  }
  return made;
}

/// Products of complex numbers have zeros whose sign depends on the order.
template <class T>
Bytes without_signs_of_zero(Bytes numbers) {
  for (std::size_t at = 0; at + sizeof(T) <= numbers.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, &numbers[at], sizeof value);
    if (value == 0) put(numbers, at, T{0});
  }
  return numbers;
}

/// Without the gaps, which mean nothing.
Bytes significant(const Bytes& elements, MPI_Datatype type, std::size_t count) {
  int size = 0;
  MPI_Type_size(type, &size);
  if (size == 16 && (type == MPI_LONG_DOUBLE)) {  // ten bytes of which count
    Bytes kept;
    for (std::size_t i = 0; i < count; ++i) kept.insert(kept.end(), &elements[i * 16], &elements[i * 16] + 10);
    return kept;
  }
  if (type == MPI_C_LONG_DOUBLE_COMPLEX) {
    const Bytes numbers = without_signs_of_zero<long double>(elements);
    Bytes kept;
    for (std::size_t i = 0; i < 2 * count; ++i) kept.insert(kept.end(), &numbers[i * 16], &numbers[i * 16] + 10);
    return kept;
  }
  if (type == MPI_LONG_DOUBLE_INT) {
    Bytes kept;
    for (std::size_t i = 0; i < count; ++i) {
      kept.insert(kept.end(), &elements[i * 32], &elements[i * 32] + 10);
      kept.insert(kept.end(), &elements[i * 32] + 16, &elements[i * 32] + 20);
    }
    return kept;
  }
  Bytes packed(static_cast<std::size_t>(size) * count + 1);
  int position = 0;
  PMPI_Pack(elements.data(), static_cast<int>(count), type, packed.data(), static_cast<int>(packed.size()), &position,
            MPI_COMM_SELF);
  if (type == MPI_C_FLOAT_COMPLEX || type == MPI_COMPLEX) return without_signs_of_zero<float>(packed);
  if (type == MPI_C_DOUBLE_COMPLEX || type == MPI_DOUBLE_COMPLEX) return without_signs_of_zero<double>(packed);
  return packed;
}

int draw_count() {
  static const int counts[] = {0, 1, 2, 3, 7, 16, 100, 999, 5000};
  return counts[draw(common, 9)];
}

void check_reduction(const Named& on, const Pairing& of) {
  int rank = 0, size = 0;
  MPI_Comm_rank(on.comm, &rank);
  MPI_Comm_size(on.comm, &size);
  const MPI_Op op = of.ops[static_cast<std::size_t>(draw(common, static_cast<int>(of.ops.size())))];
  const int what = draw(common, 6), root = draw(common, size), count = draw_count();
  const bool all_in_place = draw(common, 3) == 0;
  std::vector<int> counts(static_cast<std::size_t>(size));
  for (auto& each : counts) each = what == 4 ? count : draw_count();
  std::size_t given = static_cast<std::size_t>(count), got = given;
  if (what >= 4) {
    given = 0;
    for (int each : counts) given += static_cast<std::size_t>(each);
    got = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
  }
  const bool in_place = all_in_place && (what != 1 || rank == root);
  const bool bits =
      op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR || of.ops.size() == 1 || compared_alike(of.type, op);
  const Bytes in = random_elements(of, given, bits);
  Bytes a = in_place ? in : random_elements(of, std::max(given, got), bits), b = a;
  const void* from = in_place ? MPI_IN_PLACE : in.data();
  const auto call = [&](Bytes& out, bool library) {
    switch (what) {
      case 0: return (library ? PLAIN(Allreduce) : &MPI_Allreduce)(from, out.data(), count, of.type, op, on.comm);
      case 1:  // MPICH 4.0 crashes where a root other than 0 reduces more than 2 KiB in place
        return (library ? PLAIN(Reduce) : &MPI_Reduce)(library ? in.data() : from, out.data(), count, of.type, op, root,
                                                       on.comm);
      case 2: return (library ? PLAIN(Scan) : &MPI_Scan)(from, out.data(), count, of.type, op, on.comm);
      case 3: return (library ? PLAIN(Exscan) : &MPI_Exscan)(from, out.data(), count, of.type, op, on.comm);
      case 4:
        return (library ? PLAIN(Reduce_scatter_block) : &MPI_Reduce_scatter_block)(from, out.data(), count, of.type, op,
                                                                                   on.comm);
      default:
        return (library ? PLAIN(Reduce_scatter) : &MPI_Reduce_scatter)(from, out.data(), counts.data(), of.type, op,
                                                                       on.comm);
    }
  };
  require(call(a, false) == MPI_SUCCESS && call(b, true) == MPI_SUCCESS, "a reduction returned an error");
  if (what == 3 && rank == 0) return;  // nothing is promised of this buffer by the library
  if (significant(a, of.type, got) == significant(b, of.type, got)) return;
  const Bytes x = significant(a, of.type, got), y = significant(b, of.type, got);
  const auto at = static_cast<std::size_t>(std::mismatch(x.begin(), x.end(), y.begin()).first - x.begin());
  std::string near;
  for (std::size_t i = at / 8 * 8; i < std::min(x.size(), at / 8 * 8 + 8); ++i) {
    near.append(" ").append(std::to_string(x[i])).append("/").append(std::to_string(y[i]));
  }
  fail("byte " + std::to_string(at) + ":" + near + ": reduction " + std::to_string(what) + " of " +
       std::to_string(count) + " " + of.name + " on " + on.name + ", operator " +
       std::to_string(std::find(of.ops.begin(), of.ops.end(), op) - of.ops.begin()) + (in_place ? ", in place" : "") +
       " differs");
}

// ---- movement -------------------------------------------------------------------------------

/// A way to describe an even number of ints, and the bytes from one such pair to the next.
struct Description {
  MPI_Datatype type;
  int ints;  ///< per element
};

std::vector<Description> descriptions() {
  std::vector<Description> made = {{MPI_INT, 1}};
  MPI_Datatype type, resized;
  MPI_Type_contiguous(2, MPI_INT, &type);
  made.push_back({type, 2});
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);  // x . x
  made.push_back({type, 2});
  MPI_Type_create_resized(MPI_INT, 0, 12, &resized);  // x . .
  made.push_back({resized, 1});
  const int lengths[] = {1, 1};
  const int backwards[] = {1, 0};
  MPI_Type_indexed(2, lengths, backwards, MPI_INT, &type);  // the second first: as large as a dense one
  made.push_back({type, 2});
  const MPI_Aint offsets[] = {4, 12};
  const MPI_Datatype types[] = {MPI_INT, MPI_INT};
  MPI_Type_create_struct(2, lengths, offsets, types, &type);  // begins behind its address
  made.push_back({type, 2});
  const MPI_Aint dense[] = {0, 4};
  MPI_Type_create_struct(2, lengths, dense, types, &type);
  made.push_back({type, 2});
  MPI_Type_dup(MPI_INT, &type);
  made.push_back({type, 1});
  for (auto& each : made) MPI_Type_commit(&each.type);
  return made;
}

struct Part {
  Description as;
  int count = 0;  ///< elements

  std::size_t extent() const {
    MPI_Aint lower = 0, extent = 0;
    MPI_Type_get_extent(as.type, &lower, &extent);
    return static_cast<std::size_t>(extent);
  }
  /// Bytes that `blocks` of them may touch.
  std::size_t bytes(int blocks) const {
    return (static_cast<std::size_t>(count) * static_cast<std::size_t>(blocks) + 4) * 16 * 2;
  }
};

Part draw_part(const std::vector<Description>& ways, int ints) {
  const auto& way = ways[static_cast<std::size_t>(draw(alike ? common : own, static_cast<int>(ways.size())))];
  return {way, ints / way.ints};
}

Bytes random_bytes(std::size_t count) {
  Bytes made(count);
  for (auto& each : made) each = static_cast<unsigned char>(own());
  return made;
}

/// Offsets for blocks of different sizes, in elements, with gaps and in a random order.
std::vector<int> draw_offsets(const std::vector<int>& counts) {
  std::vector<int> order(counts.size()), offsets(counts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::shuffle(order.begin(), order.end(), own);
  int at = 0;
  for (int i : order) {
    at += draw(own, 3);
    offsets[static_cast<std::size_t>(i)] = at;
    at += counts[static_cast<std::size_t>(i)];
  }
  return offsets;
}

void compare(const Bytes& a, const Bytes& b, const std::string& what, const Named& on) {
  if (a == b) return;
  const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
  fail(what + " on " + on.name + " differs at byte " + std::to_string(at));
}

/// `count` elements at `at`, as ints in the order of the signature; and back.
std::vector<int> to_ints(const unsigned char* at, int count, const Description& as) {
  std::vector<int> ints(static_cast<std::size_t>(count * as.ints) + 1);
  int position = 0;
  PMPI_Pack(at, count, as.type, ints.data(), static_cast<int>(ints.size() * 4), &position, MPI_COMM_SELF);
  return ints;
}
void from_ints(const int* ints, unsigned char* at, int count, const Description& as) {
  int position = 0;
  PMPI_Unpack(ints, count * as.ints * 4, &position, at, count, as.type, MPI_COMM_SELF);
}

// The library gets plain ints: Open MPI 4.1 chooses algorithms by a rank's own datatype, and hangs where ranks
// describe the same data differently.
void check_movement(const Named& on, const std::vector<Description>& ways) {
  int rank = 0, size = 0;
  MPI_Comm_rank(on.comm, &rank);
  MPI_Comm_size(on.comm, &size);
  const int what = draw(common, 5), root = draw(common, size), ints = 2 * draw_count();
  const bool place = draw(common, 3) == 0 && what != 0, top = rank == root;
  const Part given = draw_part(ways, ints), got = draw_part(ways, ints);
  const Bytes in = random_bytes(given.bytes(size));
  Bytes a = random_bytes(got.bytes(size)), b = a;
  const bool many_in = what == 2 || what == 4, many_out = what == 1 || what >= 3;
  std::vector<int> plain_in = to_ints(in.data(), given.count * (many_in ? size : 1), given.as);
  std::vector<int> plain_out = to_ints(b.data(), got.count * (many_out ? size : 1), got.as);
  const void* from = place && (what >= 3 || (what == 1 && top)) ? MPI_IN_PLACE : in.data();
  const void* plain_from = from == in.data() ? plain_in.data() : MPI_IN_PLACE;
  void* to = place && what == 2 && top ? MPI_IN_PLACE : a.data();
  void* plain_to = to == a.data() ? plain_out.data() : MPI_IN_PLACE;
  const MPI_Datatype give = given.as.type, take = got.as.type;
  int ours = 0, theirs = 0;
  switch (what) {
    case 0:
      ours = MPI_Bcast(to, got.count, take, root, on.comm);
      theirs = PLAIN(Bcast)(plain_to, ints, MPI_INT, root, on.comm);
      break;
    case 1:
      ours = MPI_Gather(from, given.count, give, to, got.count, take, root, on.comm);
      theirs = PLAIN(Gather)(plain_from, ints, MPI_INT, plain_to, ints, MPI_INT, root, on.comm);
      break;
    case 2:
      ours = MPI_Scatter(from, given.count, give, to, got.count, take, root, on.comm);
      theirs = PLAIN(Scatter)(plain_from, ints, MPI_INT, plain_to, ints, MPI_INT, root, on.comm);
      break;
    case 3:
      ours = MPI_Allgather(from, given.count, give, to, got.count, take, on.comm);
      theirs = PLAIN(Allgather)(plain_from, ints, MPI_INT, plain_to, ints, MPI_INT, on.comm);
      break;
    default:
      ours = MPI_Alltoall(from, given.count, give, to, got.count, take, on.comm);
      theirs = PLAIN(Alltoall)(plain_from, ints, MPI_INT, plain_to, ints, MPI_INT, on.comm);
  }
  require(ours == MPI_SUCCESS && theirs == MPI_SUCCESS, "a movement returned an error");
  from_ints(plain_out.data(), b.data(), got.count * (many_out ? size : 1), got.as);
  compare(a, b,
          "movement " + std::to_string(what) + " of " + std::to_string(ints) + " ints" + (place ? " in place" : ""),
          on);
}

/// Blocks of different sizes on one side of an operation, as the shim sees them and as the library does.
struct Uneven {
  Description as;
  std::vector<int> counts, offsets, byte_offsets, plain_counts, plain_offsets;
  std::vector<MPI_Datatype> types, plain_types;
  Bytes bytes;
  std::vector<int> plain;

  Uneven(const Description& way, const std::vector<int>& ints) : as(way), plain_counts(ints) {
    MPI_Aint lower = 0, extent = 0;
    MPI_Type_get_extent(as.type, &lower, &extent);
    for (int each : ints) counts.push_back(each / as.ints);
    offsets = draw_offsets(counts);
    std::size_t room = 64;
    int at = 0;
    for (std::size_t i = 0; i < ints.size(); ++i) {
      byte_offsets.push_back(offsets[i] * static_cast<int>(extent));
      plain_offsets.push_back(at * 4);
      at += ints[i];
      room += (static_cast<std::size_t>(counts[i]) + 4) * 16;
    }
    types.assign(ints.size(), as.type);
    plain_types.assign(ints.size(), MPI_INT);
    bytes = random_bytes(room);
    for (std::size_t i = 0; i < ints.size(); ++i) {
      const auto block = to_ints(bytes.data() + byte_offsets[i], counts[i], as);
      plain.insert(plain.end(), block.begin(), block.end() - 1);
    }
    plain.push_back(0);
  }
  std::vector<int> plain_elements() const {
    std::vector<int> elements;
    for (int each : plain_offsets) elements.push_back(each / 4);
    return elements;
  }
  void unpack(Bytes& to) const {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      from_ints(plain.data() + plain_offsets[i] / 4, to.data() + byte_offsets[i], counts[i], as);
    }
  }
};

/// Scatterv, gatherv, allgatherv, alltoallv, alltoallw.
void check_uneven(const Named& on, const std::vector<Description>& ways) {
  int rank = 0, size = 0;
  MPI_Comm_rank(on.comm, &rank);
  MPI_Comm_size(on.comm, &size);
  if (size == 1) return;  // the library's; and Open MPI 4.1 converts wrongly in MPI_Alltoallw with oneself
  const auto n = static_cast<std::size_t>(size), me = static_cast<std::size_t>(rank);
  const int what = draw(common, 5), root = draw(common, size);
  const bool place = draw(common, 3) == 0, top = rank == root;
  // Ints from rank i to rank j; the first row where only one block per rank counts.
  std::vector<std::vector<int>> ints(n, std::vector<int>(n));
  for (auto& row : ints) {
    for (auto& each : row) each = 2 * draw_count();
  }
  for (std::size_t i = 0; place && i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) ints[i][j] = ints[j][i];
  }
  std::vector<int> to_all(n), from_all(n);
  for (std::size_t i = 0; i < n; ++i) {
    to_all[i] = what >= 3 ? ints[me][i] : ints[0][i];
    from_all[i] = what >= 3 ? ints[i][me] : ints[0][i];
  }
  const auto way = [&]() -> const Description& {
    return ways[static_cast<std::size_t>(draw(alike ? common : own, static_cast<int>(ways.size())))];
  };
  const int mine = ints[0][me];
  const std::vector<int> one = {mine};
  Uneven in(way(), what == 1 || what == 2 ? one : to_all), out(way(), what == 0 ? one : from_all);
  in.offsets[0] = what == 1 || what == 2 ? 0 : in.offsets[0];
  Bytes expected = out.bytes;
  const void* from = place && (what >= 2 || (what == 1 && top))
                         ? MPI_IN_PLACE
                         : in.bytes.data() + (what == 1 || what == 2 ? in.byte_offsets[0] : 0);
  const void* plain_from = from == MPI_IN_PLACE ? from : in.plain.data();
  void* to = place && what == 0 && top ? MPI_IN_PLACE : out.bytes.data() + (what == 0 ? out.byte_offsets[0] : 0);
  void* plain_to = to == MPI_IN_PLACE ? to : out.plain.data();
  const auto in_at = in.plain_elements(), out_at = out.plain_elements();
  const MPI_Datatype give = in.as.type, take = out.as.type;
  int ours = 0, theirs = 0;
  switch (what) {
    case 0:
      ours = MPI_Scatterv(from, in.counts.data(), in.offsets.data(), give, to, mine / out.as.ints, take, root, on.comm);
      theirs = PLAIN(Scatterv)(plain_from, in.plain_counts.data(), in_at.data(), MPI_INT, plain_to, mine, MPI_INT, root,
                               on.comm);
      break;
    case 1:
      ours = MPI_Gatherv(from, mine / in.as.ints, give, to, out.counts.data(), out.offsets.data(), take, root, on.comm);
      theirs = PLAIN(Gatherv)(plain_from, mine, MPI_INT, plain_to, out.plain_counts.data(), out_at.data(), MPI_INT,
                              root, on.comm);
      break;
    case 2:
      ours = MPI_Allgatherv(from, mine / in.as.ints, give, to, out.counts.data(), out.offsets.data(), take, on.comm);
      theirs = PLAIN(Allgatherv)(plain_from, mine, MPI_INT, plain_to, out.plain_counts.data(), out_at.data(), MPI_INT,
                                 on.comm);
      break;
    case 3:
      ours = MPI_Alltoallv(from, in.counts.data(), in.offsets.data(), give, to, out.counts.data(), out.offsets.data(),
                           take, on.comm);
      theirs = PLAIN(Alltoallv)(plain_from, in.plain_counts.data(), in_at.data(), MPI_INT, plain_to,
                                out.plain_counts.data(), out_at.data(), MPI_INT, on.comm);
      break;
    default:
      ours = MPI_Alltoallw(from, in.counts.data(), in.byte_offsets.data(), in.types.data(), to, out.counts.data(),
                           out.byte_offsets.data(), out.types.data(), on.comm);
      theirs =
          PLAIN(Alltoallw)(plain_from, in.plain_counts.data(), in.plain_offsets.data(), in.plain_types.data(), plain_to,
                           out.plain_counts.data(), out.plain_offsets.data(), out.plain_types.data(), on.comm);
  }
  require(ours == MPI_SUCCESS && theirs == MPI_SUCCESS, "an uneven movement returned an error");
  if (what == 1 && !top) return compare(out.bytes, expected, "what the root alone receives", on);
  if (to != MPI_IN_PLACE) out.unpack(expected);
  compare(out.bytes, expected, "uneven movement " + std::to_string(what) + (place ? " in place" : ""), on);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
  const auto seed = static_cast<std::uint64_t>(argc > 2 ? std::atoll(argv[2]) : 1);
  alike = argc > 3;
  common.seed(seed);
  own.seed(seed * 1000 + static_cast<std::uint64_t>(shim_test::world_rank()) + 1);
  const auto on = communicators();
  const auto of = pairings();
  const auto ways = descriptions();
  for (int round = 0; round < rounds; ++round) {
    const auto& where = on[static_cast<std::size_t>(draw(common, static_cast<int>(on.size())))];
    const auto which = static_cast<std::size_t>(draw(common, static_cast<int>(of.size())));
    const int kind = draw(common, 10);
    const auto rest = common();
    const auto saved = common;
    if (where.comm != MPI_COMM_NULL) {
      // Communicators that only some ranks are in, or that are of different sizes, draw numbers of their own.
      common.seed(rest);
      if (kind == 0) require(MPI_Barrier(where.comm) == MPI_SUCCESS, "a barrier returned an error");
      if (kind >= 1 && kind < 5) check_reduction(where, of[which]);
      if (kind >= 5 && kind < 8) check_movement(where, ways);
      if (kind >= 8) check_uneven(where, ways);
    }
    common = saved;
  }
  for (auto each : on) {
    if (each.comm != MPI_COMM_NULL && each.comm != MPI_COMM_WORLD && each.comm != MPI_COMM_SELF)
      MPI_Comm_free(&each.comm);
  }
  if (shim_test::world_rank() == 0) std::printf("%d rounds\n", rounds);
  MPI_Finalize();
}
