// MPI_Reduce_local with every type and operator that MPI allows, the program's own operators and types, unaligned
// buffers and wrong arguments: the bits, and the error codes, are those of the library.
//
//   mpirun -n N reduce_local
#include <cstring>
#include <string>
#include <vector>

#include "support.hpp"

namespace {

using shim_test::require;

struct NamedType {
  const char* name;
  MPI_Datatype type;
  std::size_t bytes;
  bool floating;
};
struct NamedOp {
  const char* name;
  MPI_Op op;
  bool of_floating;
};

const NamedType types[] = {
    {"signed char", MPI_SIGNED_CHAR, 1, false},
    {"unsigned char", MPI_UNSIGNED_CHAR, 1, false},
    {"short", MPI_SHORT, 2, false},
    {"uint16", MPI_UINT16_T, 2, false},
    {"int", MPI_INT, 4, false},
    {"unsigned", MPI_UNSIGNED, 4, false},
    {"long", MPI_LONG, 8, false},
    {"uint64", MPI_UINT64_T, 8, false},
    {"offset", MPI_OFFSET, 8, false},  // which Open MPI takes for unsigned
    {"address", MPI_AINT, 8, false},
    {"count", MPI_COUNT, 8, false},
    {"float", MPI_FLOAT, 4, true},
    {"double", MPI_DOUBLE, 8, true},
};
const NamedOp ops[] = {{"sum", MPI_SUM, true},   {"prod", MPI_PROD, true},        {"min", MPI_MIN, true},
                       {"max", MPI_MAX, true},   {"and", MPI_BAND, false},        {"or", MPI_BOR, false},
                       {"xor", MPI_BXOR, false}, {"logical and", MPI_LAND, false}};

/// Any bits for integers; numbers of both signs, infinities and zeros for floating point.
std::vector<unsigned char> operands(const NamedType& type, std::size_t count, unsigned seed) {
  std::vector<unsigned char> bytes(type.bytes * count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    if (!type.floating) {
      for (std::size_t b = 0; b < type.bytes; ++b) bytes[i * type.bytes + b] = static_cast<unsigned char>(seed >> b);
      continue;
    }
    double value = seed % 7 == 0 ? -0.0 : (static_cast<double>(seed) - 2e9) / 3.0;
    if (seed % 11 == 0) value = seed % 2 == 0 ? 1e300 * 1e300 : -1e300 * 1e300;
    const float narrow = static_cast<float>(value);
    if (type.bytes == 4) std::memcpy(&bytes[i * 4], &narrow, 4);
    if (type.bytes == 8) std::memcpy(&bytes[i * 8], &value, 8);
  }
  return bytes;
}

/// `shift`: bytes by which the buffers are off their alignment.
void compare(const NamedType& type, const NamedOp& op, std::size_t count, std::size_t shift) {
  const auto in = operands(type, count, 1), start = operands(type, count, 2);
  const std::size_t bytes = type.bytes * count;
  std::vector<unsigned char> from(bytes + 8), ours(bytes + 8), theirs(bytes + 8);
  std::memcpy(from.data() + shift, in.data(), bytes);
  std::memcpy(ours.data() + shift, start.data(), bytes);
  std::memcpy(theirs.data() + shift, start.data(), bytes);
  const int n = static_cast<int>(count);
  const int mine = MPI_Reduce_local(from.data() + shift, ours.data() + shift, n, type.type, op.op);
  const int wanted = PLAIN(Reduce_local)(from.data() + shift, theirs.data() + shift, n, type.type, op.op);
  const auto what = std::string(op.name) + " of " + std::to_string(count) + " " + type.name;
  int class_of_mine = 0, class_wanted = 0;
  MPI_Error_class(mine, &class_of_mine);
  MPI_Error_class(wanted, &class_wanted);
  require(class_of_mine == class_wanted, what + ": another error than the library's");
  require(ours == theirs, what + ": other bits than the library's");
}

void own_operator() {
  MPI_Op op;
  MPI_Op_create(shim_test::compose, 0, &op);
  unsigned in[] = {3, 5}, ours[] = {7, 11}, theirs[] = {7, 11};
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_UNSIGNED, &pair);
  MPI_Type_commit(&pair);
  MPI_Reduce_local(in, ours, 1, pair, op);
  PLAIN(Reduce_local)(in, theirs, 1, pair, op);
  require(ours[0] == theirs[0] && ours[1] == theirs[1], "an operator of the program's own: other bits");
  MPI_Type_free(&pair);
  MPI_Op_free(&op);
}

/// Which MPI forbids, and some libraries report.
void one_buffer_for_both() {
  int ours[] = {3}, theirs[] = {3}, class_of_mine = 0, class_wanted = 0;
  MPI_Error_class(MPI_Reduce_local(ours, ours, 1, MPI_INT, MPI_SUM), &class_of_mine);
  MPI_Error_class(PLAIN(Reduce_local)(theirs, theirs, 1, MPI_INT, MPI_SUM), &class_wanted);
  require(class_of_mine == class_wanted, "one buffer for both: another error than the library's");
  require(ours[0] == theirs[0], "one buffer for both: other bits than the library's");
}

void large_count() {
#if MPI_VERSION >= 4
  const double in[] = {1.5, 2.5};
  double inout[] = {10, 20};
  MPI_Reduce_local_c(in, inout, 2, MPI_DOUBLE, MPI_SUM);
  require(inout[0] == 11.5 && inout[1] == 22.5, "MPI_Reduce_local_c: a wrong sum");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (const auto& type : types) {
    for (const auto& op : ops) {
      if (type.floating && !op.of_floating) continue;
      for (const std::size_t count : {0, 1, 2, 7, 64, 1000}) {
        compare(type, op, count, 0);
        compare(type, op, count, type.bytes == 1 ? 0 : 1);
      }
    }
  }
  own_operator();
  one_buffer_for_both();
  large_count();
  if (shim_test::world_rank() == 0) std::puts("all right");
  MPI_Finalize();
  return 0;
}
