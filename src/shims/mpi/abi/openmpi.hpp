// The ABI of Open MPI 4 and 5 (libmpi.so.40): handles are addresses; those of predefined objects are data symbols of
// the library, known once it has been found.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::shims::mpi::inline openmpi {

enum class MPI_Comm : std::uintptr_t {};
enum class MPI_Datatype : std::uintptr_t {};
enum class MPI_Op : std::uintptr_t {};
enum class MPI_Request : std::uintptr_t {};
enum class MPI_Group : std::uintptr_t {};
enum class MPI_Info : std::uintptr_t {};
enum class MPI_Win : std::uintptr_t {};
enum class MPI_Errhandler : std::uintptr_t {};

struct MPI_Status {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
  int internal;
  std::size_t internal_count;
};

// Objects are at least a cache line apart.
inline constexpr unsigned handle_shift = 6;

// X(kind of handle, its name, the library's symbol)
#define SMELT_MPI_OPENMPI_HANDLES(X)                                     \
  X(Datatype, MPI_INT, ompi_mpi_int)                                     \
  X(Datatype, MPI_LONG, ompi_mpi_long)                                   \
  X(Datatype, MPI_SHORT, ompi_mpi_short)                                 \
  X(Datatype, MPI_LONG_LONG, ompi_mpi_long_long_int)                     \
  X(Datatype, MPI_SIGNED_CHAR, ompi_mpi_signed_char)                     \
  X(Datatype, MPI_INT8_T, ompi_mpi_int8_t)                               \
  X(Datatype, MPI_INT16_T, ompi_mpi_int16_t)                             \
  X(Datatype, MPI_INT32_T, ompi_mpi_int32_t)                             \
  X(Datatype, MPI_INT64_T, ompi_mpi_int64_t)                             \
  X(Datatype, MPI_UNSIGNED, ompi_mpi_unsigned)                           \
  X(Datatype, MPI_UNSIGNED_LONG, ompi_mpi_unsigned_long)                 \
  X(Datatype, MPI_UNSIGNED_SHORT, ompi_mpi_unsigned_short)               \
  X(Datatype, MPI_UNSIGNED_LONG_LONG, ompi_mpi_unsigned_long_long)       \
  X(Datatype, MPI_UNSIGNED_CHAR, ompi_mpi_unsigned_char)                 \
  X(Datatype, MPI_UINT8_T, ompi_mpi_uint8_t)                             \
  X(Datatype, MPI_UINT16_T, ompi_mpi_uint16_t)                           \
  X(Datatype, MPI_UINT32_T, ompi_mpi_uint32_t)                           \
  X(Datatype, MPI_UINT64_T, ompi_mpi_uint64_t)                           \
  X(Datatype, MPI_FLOAT, ompi_mpi_float)                                 \
  X(Datatype, MPI_DOUBLE, ompi_mpi_double)                               \
  X(Datatype, MPI_LONG_DOUBLE, ompi_mpi_long_double)                     \
  X(Datatype, MPI_C_FLOAT_COMPLEX, ompi_mpi_c_float_complex)             \
  X(Datatype, MPI_C_DOUBLE_COMPLEX, ompi_mpi_c_double_complex)           \
  X(Datatype, MPI_C_LONG_DOUBLE_COMPLEX, ompi_mpi_c_long_double_complex) \
  X(Datatype, MPI_AINT, ompi_mpi_aint)                                   \
  X(Datatype, MPI_OFFSET, ompi_mpi_offset)                               \
  X(Datatype, MPI_COUNT, ompi_mpi_count)                                 \
  X(Datatype, MPI_C_BOOL, ompi_mpi_c_bool)                               \
  X(Datatype, MPI_BYTE, ompi_mpi_byte)                                   \
  X(Datatype, MPI_CHAR, ompi_mpi_char)                                   \
  X(Datatype, MPI_WCHAR, ompi_mpi_wchar)                                 \
  X(Datatype, MPI_PACKED, ompi_mpi_packed)                               \
  X(Datatype, MPI_INTEGER, ompi_mpi_integer)                             \
  X(Datatype, MPI_INTEGER1, ompi_mpi_integer1)                           \
  X(Datatype, MPI_INTEGER2, ompi_mpi_integer2)                           \
  X(Datatype, MPI_INTEGER4, ompi_mpi_integer4)                           \
  X(Datatype, MPI_INTEGER8, ompi_mpi_integer8)                           \
  X(Datatype, MPI_REAL, ompi_mpi_real)                                   \
  X(Datatype, MPI_DOUBLE_PRECISION, ompi_mpi_dblprec)                    \
  X(Datatype, MPI_REAL4, ompi_mpi_real4)                                 \
  X(Datatype, MPI_REAL8, ompi_mpi_real8)                                 \
  X(Datatype, MPI_COMPLEX, ompi_mpi_cplex)                               \
  X(Datatype, MPI_DOUBLE_COMPLEX, ompi_mpi_dblcplex)                     \
  X(Datatype, MPI_COMPLEX8, ompi_mpi_complex8)                           \
  X(Datatype, MPI_COMPLEX16, ompi_mpi_complex16)                         \
  X(Datatype, MPI_LOGICAL, ompi_mpi_logical)                             \
  X(Datatype, MPI_CHARACTER, ompi_mpi_character)                         \
  X(Datatype, MPI_2INT, ompi_mpi_2int)                                   \
  X(Datatype, MPI_FLOAT_INT, ompi_mpi_float_int)                         \
  X(Datatype, MPI_DOUBLE_INT, ompi_mpi_double_int)                       \
  X(Datatype, MPI_LONG_INT, ompi_mpi_long_int)                           \
  X(Datatype, MPI_SHORT_INT, ompi_mpi_short_int)                         \
  X(Datatype, MPI_LONG_DOUBLE_INT, ompi_mpi_longdbl_int)                 \
  X(Datatype, MPI_2INTEGER, ompi_mpi_2integer)                           \
  X(Datatype, MPI_2REAL, ompi_mpi_2real)                                 \
  X(Datatype, MPI_2DOUBLE_PRECISION, ompi_mpi_2dblprec)                  \
  X(Datatype, MPI_DATATYPE_NULL, ompi_mpi_datatype_null)                 \
  X(Op, MPI_OP_NULL, ompi_mpi_op_null)                                   \
  X(Op, MPI_MAX, ompi_mpi_op_max)                                        \
  X(Op, MPI_MIN, ompi_mpi_op_min)                                        \
  X(Op, MPI_SUM, ompi_mpi_op_sum)                                        \
  X(Op, MPI_PROD, ompi_mpi_op_prod)                                      \
  X(Op, MPI_LAND, ompi_mpi_op_land)                                      \
  X(Op, MPI_BAND, ompi_mpi_op_band)                                      \
  X(Op, MPI_LOR, ompi_mpi_op_lor)                                        \
  X(Op, MPI_BOR, ompi_mpi_op_bor)                                        \
  X(Op, MPI_LXOR, ompi_mpi_op_lxor)                                      \
  X(Op, MPI_BXOR, ompi_mpi_op_bxor)                                      \
  X(Op, MPI_MINLOC, ompi_mpi_op_minloc)                                  \
  X(Op, MPI_MAXLOC, ompi_mpi_op_maxloc)                                  \
  X(Op, MPI_REPLACE, ompi_mpi_op_replace)                                \
  X(Op, MPI_NO_OP, ompi_mpi_op_no_op)                                    \
  X(Comm, MPI_COMM_NULL, ompi_mpi_comm_null)                             \
  X(Comm, MPI_COMM_WORLD, ompi_mpi_comm_world)                           \
  X(Comm, MPI_COMM_SELF, ompi_mpi_comm_self)                             \
  X(Group, MPI_GROUP_NULL, ompi_mpi_group_null)                          \
  X(Request, MPI_REQUEST_NULL, ompi_request_null)                        \
  X(Errhandler, MPI_ERRORS_RETURN, ompi_mpi_errors_return)

#define SMELT_MPI_HANDLE(kind, name, symbol) inline constinit MPI_##kind name{};
SMELT_MPI_OPENMPI_HANDLES(SMELT_MPI_HANDLE)
#undef SMELT_MPI_HANDLE

inline constexpr int MPI_SUCCESS = 0, MPI_ERR_REQUEST = 7, MPI_ERR_NO_MEM = 39, MPI_ERR_TRUNCATE = 15,
                     MPI_ERR_OTHER = 16, MPI_ERR_IN_STATUS = 18, MPI_T_ERR_CVAR_SET_NEVER = 64, MPI_ANY_SOURCE = -1,
                     MPI_ANY_TAG = -1, MPI_PROC_NULL = -2, MPI_UNDEFINED = -32766, MPI_KEYVAL_INVALID = -1,
                     MPI_THREAD_MULTIPLE = 3, MPI_COMBINER_NAMED = 0, MPI_COMBINER_DUP = 1, MPI_COMBINER_CONTIGUOUS = 2,
                     MPI_COMBINER_VECTOR = 3, MPI_COMBINER_HVECTOR = 5, MPI_COMBINER_INDEXED = 6,
                     MPI_COMBINER_HINDEXED = 8, MPI_COMBINER_INDEXED_BLOCK = 9, MPI_COMBINER_HINDEXED_BLOCK = 18,
                     MPI_COMBINER_STRUCT = 11, MPI_COMBINER_SUBARRAY = 12, MPI_COMBINER_F90_REAL = 14,
                     MPI_COMBINER_F90_COMPLEX = 15, MPI_COMBINER_F90_INTEGER = 16, MPI_COMBINER_RESIZED = 17,
                     MPI_T_VERBOSITY_USER_BASIC = 0, MPI_T_BIND_NO_OBJECT = 0, MPI_T_SCOPE_CONSTANT = 0;

inline MPI_Status* const MPI_STATUS_IGNORE = nullptr;
inline MPI_Status* const MPI_STATUSES_IGNORE = nullptr;
inline void* const MPI_IN_PLACE = reinterpret_cast<void*>(std::uintptr_t{1});

}  // namespace smelt::shims::mpi::inline openmpi
