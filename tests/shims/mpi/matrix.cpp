// Every operation through the shim against the plain library's answer, on random inputs.
//
//   mpirun -n N matrix [rounds] [seed]
//
// Each round draws, equally on all ranks, a communicator, an operation, a datatype, an operator, a root and sizes;
// and on each rank by itself how it describes its part of the data: all descriptions have the same signature.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "support.hpp"

namespace {

using shim_test::fail;
using shim_test::require;
using Bytes = std::vector<unsigned char>;

std::mt19937_64 common;  ///< the same numbers on all ranks
std::mt19937_64 own;     ///< others on each

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

/// Associative, not commutative: (a, b) stands for x -> a x + b, on 32-bit numbers that wrap.
void compose(void* in, void* inout, int* count, MPI_Datatype*) {
  auto* f = static_cast<std::uint32_t*>(in);
  auto* g = static_cast<std::uint32_t*>(inout);
  for (int i = 0; i < *count; ++i, f += 2, g += 2) {
    g[1] = g[0] * f[1] + g[1];
    g[0] = g[0] * f[0];
  }
}

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
  const std::vector<MPI_Op> integer = {MPI_MAX, MPI_MIN,  MPI_SUM, MPI_PROD, MPI_BAND,
                                       MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
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

/// `bits`: any bits will do. Else integers are small: what happens on overflow is not said by the standard, nor is
/// it the same in all libraries, nor are numbers above the largest signed one safe with MPICH's MPI_MIN.
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
  const bool bits = op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR || of.ops.size() == 1;
  const Bytes in = random_elements(of, given, bits);
  Bytes a = in_place ? in : random_elements(of, std::max(given, got), bits), b = a;
  const void* from = in_place ? MPI_IN_PLACE : in.data();
  const auto call = [&](Bytes& out, bool library) {
    switch (what) {
      case 0: return (library ? PLAIN(Allreduce) : &MPI_Allreduce)(from, out.data(), count, of.type, op, on.comm);
      case 1:  // MPICH 4.0 crashes where a root other than 0 reduces more than 2 KiB in place
        return (library ? PLAIN(Reduce) : &MPI_Reduce)(library ? in.data() : from, out.data(), count, of.type, op, root, on.comm);
      case 2: return (library ? PLAIN(Scan) : &MPI_Scan)(from, out.data(), count, of.type, op, on.comm);
      case 3: return (library ? PLAIN(Exscan) : &MPI_Exscan)(from, out.data(), count, of.type, op, on.comm);
      case 4:
        return (library ? PLAIN(Reduce_scatter_block) : &MPI_Reduce_scatter_block)(from, out.data(), count, of.type,
                                                                                    op, on.comm);
      default:
        return (library ? PLAIN(Reduce_scatter) : &MPI_Reduce_scatter)(from, out.data(), counts.data(), of.type, op,
                                                                       on.comm);
    }
  };
  if (getenv("TRACE")) fprintf(stderr, "%d: red %d count %d %s %s root %d inplace %d op %d\n", shim_test::world_rank(), what, count, of.name, on.name, root, in_place, (int)(std::find(of.ops.begin(), of.ops.end(), op) - of.ops.begin()));
  require(call(a, false) == MPI_SUCCESS && call(b, true) == MPI_SUCCESS, "a reduction returned an error");
  if (what == 3 && rank == 0) return;  // nothing is promised of this buffer by the library
  if (significant(a, of.type, got) == significant(b, of.type, got)) return;
  const Bytes x = significant(a, of.type, got), y = significant(b, of.type, got);
  const auto at = static_cast<std::size_t>(std::mismatch(x.begin(), x.end(), y.begin()).first - x.begin());
  std::string near;
  for (std::size_t i = at / 8 * 8; i < std::min(x.size(), at / 8 * 8 + 8); ++i) {
    near += " " + std::to_string(x[i]) + "/" + std::to_string(y[i]);
  }
  fail("byte " + std::to_string(at) + ":" + near + ": reduction " + std::to_string(what) + " of " + std::to_string(count) + " " + of.name + " on " + on.name +
       ", operator " + std::to_string(std::find(of.ops.begin(), of.ops.end(), op) - of.ops.begin()) + (in_place ? ", in place" : "") +
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
  std::size_t bytes(int blocks) const { return (static_cast<std::size_t>(count) * static_cast<std::size_t>(blocks) + 4) * 16 * 2; }
};

Part draw_part(const std::vector<Description>& ways, int ints) {
  const auto& way = ways[static_cast<std::size_t>(draw(own, static_cast<int>(ways.size())))];
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

void check_movement(const Named& on, const std::vector<Description>& ways) {
  int rank = 0, size = 0;
  MPI_Comm_rank(on.comm, &rank);
  MPI_Comm_size(on.comm, &size);
  const int what = draw(common, 5), root = draw(common, size), ints = 2 * draw_count();
  const bool place = draw(common, 3) == 0;
  const Part given = draw_part(ways, ints), got = draw_part(ways, ints);
  const Bytes in = random_bytes(given.bytes(size));
  Bytes a = random_bytes(got.bytes(size)), b = a;
  const bool top = rank == root;
  const auto call = [&](Bytes& out, bool library) {
    const void* from = place && (what != 1 && what != 2 ? what != 0 : top) ? MPI_IN_PLACE : in.data();
    switch (what) {
      case 0: return (library ? PLAIN(Bcast) : &MPI_Bcast)(out.data(), got.count, got.as.type, root, on.comm);
      case 1:
        return (library ? PLAIN(Gather) : &MPI_Gather)(from, given.count, given.as.type, out.data(), got.count,
                                                       got.as.type, root, on.comm);
      case 2:
        return (library ? PLAIN(Scatter) : &MPI_Scatter)(in.data(), given.count, given.as.type,
                                                         place && top ? MPI_IN_PLACE : out.data(), got.count,
                                                         got.as.type, root, on.comm);
      case 3:
        return (library ? PLAIN(Allgather) : &MPI_Allgather)(from, given.count, given.as.type, out.data(), got.count,
                                                             got.as.type, on.comm);
      default:
        return (library ? PLAIN(Alltoall) : &MPI_Alltoall)(from, given.count, given.as.type, out.data(), got.count,
                                                           got.as.type, on.comm);
    }
  };
  require(call(a, false) == MPI_SUCCESS && call(b, true) == MPI_SUCCESS, "a movement returned an error");
  compare(a, b, "movement " + std::to_string(what) + " of " + std::to_string(ints) + " ints" + (place ? " in place" : ""), on);
}

/// Scatterv, gatherv, allgatherv, alltoallv, alltoallw.
void check_uneven(const Named& on, const std::vector<Description>& ways) {
  int rank = 0, size = 0;
  MPI_Comm_rank(on.comm, &rank);
  MPI_Comm_size(on.comm, &size);
  const auto n = static_cast<std::size_t>(size);
  const int what = draw(common, 5), root = draw(common, size);
  const bool place = draw(common, 3) == 0, top = rank == root;
  // ints from rank i to rank j; one row where only one block per rank counts
  std::vector<std::vector<int>> ints(n, std::vector<int>(n));
  for (auto& row : ints) for (auto& each : row) each = 2 * draw_count();
  if (place) for (std::size_t i = 0; i < n; ++i) for (std::size_t j = 0; j < i; ++j) ints[i][j] = ints[j][i];
  const auto me = static_cast<std::size_t>(rank);
  const Description give = ways[static_cast<std::size_t>(draw(own, static_cast<int>(ways.size())))];
  const Description take = ways[static_cast<std::size_t>(draw(own, static_cast<int>(ways.size())))];
  std::vector<int> in_counts(n), out_counts(n);
  for (std::size_t i = 0; i < n; ++i) {
    in_counts[i] = (what >= 3 ? ints[me][i] : ints[0][i]) / give.ints;
    out_counts[i] = (what >= 3 ? ints[i][me] : ints[0][i]) / take.ints;
  }
  const int mine = ints[0][me];
  std::vector<int> in_offsets = draw_offsets(in_counts), out_offsets = draw_offsets(out_counts);
  const auto room = [&](const std::vector<int>& counts) {
    std::size_t all = 3 * n + 4;
    for (int each : counts) all += static_cast<std::size_t>(each);
    return all * 16;
  };
  const Bytes in = random_bytes(std::max(room(in_counts), (static_cast<std::size_t>(mine) + 4) * 16));
  Bytes a = random_bytes(std::max(room(out_counts), (static_cast<std::size_t>(mine) + 4) * 16)), b = a;
  std::vector<MPI_Datatype> in_types(n, give.type), out_types(n, take.type);
  if (what == 4) {
    MPI_Aint lower = 0, in_extent = 0, out_extent = 0;
    MPI_Type_get_extent(give.type, &lower, &in_extent);
    MPI_Type_get_extent(take.type, &lower, &out_extent);
    for (auto& each : in_offsets) each *= static_cast<int>(in_extent);
    for (auto& each : out_offsets) each *= static_cast<int>(out_extent);
  }
  const auto call = [&](Bytes& out, bool library) {
    switch (what) {
      case 0:
        return (library ? PLAIN(Scatterv) : &MPI_Scatterv)(in.data(), in_counts.data(), in_offsets.data(), give.type,
                                                           place && top ? MPI_IN_PLACE : out.data(), mine / take.ints,
                                                           take.type, root, on.comm);
      case 1:
        return (library ? PLAIN(Gatherv) : &MPI_Gatherv)(place && top ? MPI_IN_PLACE : in.data(), mine / give.ints,
                                                         give.type, out.data(), out_counts.data(), out_offsets.data(),
                                                         take.type, root, on.comm);
      case 2:
        return (library ? PLAIN(Allgatherv) : &MPI_Allgatherv)(place ? MPI_IN_PLACE : in.data(), mine / give.ints,
                                                               give.type, out.data(), out_counts.data(),
                                                               out_offsets.data(), take.type, on.comm);
      case 3:
        return (library ? PLAIN(Alltoallv) : &MPI_Alltoallv)(place ? MPI_IN_PLACE : in.data(), in_counts.data(),
                                                             in_offsets.data(), give.type, out.data(),
                                                             out_counts.data(), out_offsets.data(), take.type, on.comm);
      default:
        return (library ? PLAIN(Alltoallw) : &MPI_Alltoallw)(place ? MPI_IN_PLACE : in.data(), in_counts.data(),
                                                             in_offsets.data(), in_types.data(), out.data(),
                                                             out_counts.data(), out_offsets.data(), out_types.data(),
                                                             on.comm);
    }
  };
  if (getenv("TRACE")) { std::string t; for (auto x : in_counts) t += " " + std::to_string(x); t += " |"; for (auto x : out_counts) t += " " + std::to_string(x); t += " |"; for (auto x : in_offsets) t += " " + std::to_string(x); t += " |"; for (auto x : out_offsets) t += " " + std::to_string(x);
  fprintf(stderr, "%d: uneven %d %s way %d %d root %d inplace %d: %s\n", shim_test::world_rank(), what, on.name, (int)(std::find_if(ways.begin(), ways.end(), [&](auto& w) { return w.type == give.type; }) - ways.begin()), (int)(std::find_if(ways.begin(), ways.end(), [&](auto& w) { return w.type == take.type; }) - ways.begin()), root, place, t.c_str()); }
  require(call(a, false) == MPI_SUCCESS && call(b, true) == MPI_SUCCESS, "an uneven movement returned an error");
  compare(a, b, "uneven movement " + std::to_string(what) + (place ? " in place" : ""), on);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
  const auto seed = static_cast<std::uint64_t>(argc > 2 ? std::atoll(argv[2]) : 1);
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
    if (each.comm != MPI_COMM_NULL && each.comm != MPI_COMM_WORLD && each.comm != MPI_COMM_SELF) MPI_Comm_free(&each.comm);
  }
  if (shim_test::world_rank() == 0) std::printf("%d rounds\n", rounds);
  MPI_Finalize();
}
