// What the shim takes for facts about an ABI (src/shims/mpi/abi), against the header of a library with that ABI: prints
// what differs. SMELT_MPI_ABI and SMELT_MPI_ABI_HEADER as for the shim; MPI_HEADER: <mpi.h> or <mpi_abi.h>.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "shims/mpi/abi.hpp"

// clang-format off
#define HANDLES(X) \
  X(INT) X(LONG) X(SHORT) X(LONG_LONG) X(SIGNED_CHAR) X(INT8_T) X(INT16_T) X(INT32_T) X(INT64_T) X(UNSIGNED) \
  X(UNSIGNED_LONG) X(UNSIGNED_SHORT) X(UNSIGNED_LONG_LONG) X(UNSIGNED_CHAR) X(UINT8_T) X(UINT16_T) X(UINT32_T) \
  X(UINT64_T) X(FLOAT) X(DOUBLE) X(LONG_DOUBLE) X(C_FLOAT_COMPLEX) X(C_DOUBLE_COMPLEX) X(C_LONG_DOUBLE_COMPLEX) \
  X(AINT) X(OFFSET) X(COUNT) X(C_BOOL) X(BYTE) X(CHAR) X(WCHAR) X(PACKED) X(INTEGER) X(INTEGER1) X(INTEGER2) \
  X(INTEGER4) X(INTEGER8) X(REAL) X(DOUBLE_PRECISION) X(REAL4) X(REAL8) X(COMPLEX) X(DOUBLE_COMPLEX) X(COMPLEX8) \
  X(COMPLEX16) X(LOGICAL) X(CHARACTER) X(2INT) X(FLOAT_INT) X(DOUBLE_INT) X(LONG_INT) X(SHORT_INT) \
  X(LONG_DOUBLE_INT) X(2INTEGER) X(2REAL) X(2DOUBLE_PRECISION) X(DATATYPE_NULL) X(OP_NULL) X(MAX) X(MIN) X(SUM) \
  X(PROD) X(LAND) X(BAND) X(LOR) X(BOR) X(LXOR) X(BXOR) X(MINLOC) X(MAXLOC) X(REPLACE) X(NO_OP) X(COMM_NULL) \
  X(COMM_WORLD) X(COMM_SELF) X(GROUP_NULL) X(REQUEST_NULL) X(ERRORS_RETURN)
#define ADDRESSES(X) \
  X(STATUS_IGNORE) X(STATUSES_IGNORE) X(IN_PLACE)
#define NUMBERS(X) \
  X(SUCCESS) X(ERR_REQUEST) X(ERR_NO_MEM) X(ERR_TRUNCATE) X(ERR_OTHER) X(ERR_IN_STATUS) X(T_ERR_CVAR_SET_NEVER) \
  X(ANY_SOURCE) X(ANY_TAG) X(PROC_NULL) X(UNDEFINED) X(KEYVAL_INVALID) X(THREAD_MULTIPLE) X(COMBINER_NAMED) \
  X(COMBINER_DUP) X(COMBINER_CONTIGUOUS) X(COMBINER_VECTOR) X(COMBINER_HVECTOR) X(COMBINER_INDEXED) \
  X(COMBINER_HINDEXED) X(COMBINER_INDEXED_BLOCK) X(COMBINER_HINDEXED_BLOCK) X(COMBINER_STRUCT) \
  X(COMBINER_SUBARRAY) X(COMBINER_F90_REAL) X(COMBINER_F90_COMPLEX) X(COMBINER_F90_INTEGER) X(COMBINER_RESIZED) \
  X(T_VERBOSITY_USER_BASIC) X(T_BIND_NO_OBJECT) X(T_SCOPE_CONSTANT)
// clang-format on

using Facts = std::map<std::string, std::uintptr_t>;

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

Facts ours() {
#ifdef SMELT_MPI_OPENMPI_HANDLES
#define FIND(kind, name, symbol) name = MPI_##kind{reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, #symbol))};
  SMELT_MPI_OPENMPI_HANDLES(FIND)
#endif
  Facts facts;
#define HANDLE(name) facts["MPI_" #name] = number_of(MPI_##name);
  HANDLES(HANDLE)
#define ADDRESS(name) facts["MPI_" #name] = reinterpret_cast<std::uintptr_t>(MPI_##name);
  ADDRESSES(ADDRESS)
#define NUMBER(name) facts["MPI_" #name] = static_cast<std::uintptr_t>(MPI_##name);
  NUMBERS(NUMBER)
  // clang-format off
#define SIZES(X) \
  X(MPI_Comm) X(MPI_Datatype) X(MPI_Op) X(MPI_Request) X(MPI_Group) X(MPI_Info) X(MPI_Errhandler) X(MPI_Aint) X(MPI_Count) \
  X(MPI_Status) X(MPI_T_enum) X(MPI_T_cvar_handle)
  // clang-format on
#define SIZE(type) facts["sizeof " #type] = sizeof(type);
  SIZES(SIZE)
#define MEMBERS(X) X(MPI_SOURCE) X(MPI_TAG) X(MPI_ERROR)
#define MEMBER(name) facts["offsetof " #name] = offsetof(MPI_Status, name);
  MEMBERS(MEMBER)
  return facts;
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI

#include MPI_HEADER

namespace {

template <class Handle>
std::uintptr_t number_of(Handle handle) {
  if constexpr (sizeof handle == sizeof(int)) {
    return static_cast<unsigned>(handle);
  } else {
    return reinterpret_cast<std::uintptr_t>(handle);
  }
}

Facts theirs() {
  Facts facts;
  HANDLES(HANDLE)
  ADDRESSES(ADDRESS)
  NUMBERS(NUMBER)
  SIZES(SIZE)
  MEMBERS(MEMBER)
  return facts;
}

}  // namespace

int main() {
  const Facts known = smelt::shims::mpi::ours(), header = theirs();
  int wrong = 0;
  for (const auto& [name, value] : header) {
    if (known.at(name) == value) continue;
    std::printf("%s: %#zx in the shim, %#zx in the library's header\n", name.c_str(), known.at(name), value);
    ++wrong;
  }
  std::printf("%zu facts, %d wrong\n", header.size(), wrong);
  return wrong == 0 && known.size() == header.size() ? 0 : 1;
}
