// The shim's settings as control variables of MPI_T, between the library's, whose indices a tool may know already.
//
//   index of the program    0 .. base-1        base .. base+ours-1     base+ours ..
//                           the library's      the shim's              the library's from base on
//
// `base` is the number of the library's variables when a tool first asks. The library may add variables later, and
// MPI_T does not allow indices to change. The shim's variables are set by the environment and constant.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "shims/mpi/original.hpp"
#include "shims/mpi/team/team.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

struct Variable {
  const char* name;
  const char* description;
  int (*number)();  ///< its value; null: a text, that of the environment
};

constexpr Variable variables[] = {
    {"SMELT_MPI", "0: smelt's shim passes everything on to the library", [] { return enabled() ? 1 : 0; }},
    {"SMELT_MPI_AFTER", "collectives of a communicator before it gets one of smelt", calls_before},
    {"SMELT_MPI_MACHINE", "any text; ranks with different texts are treated as being on different machines", nullptr},
    {"SMELT_MPI_RACE", "calls of one operation and size before the library may challenge smelt; 0: it may not",
     calls_before_race},
    {"SMELT_TIMEOUT", "seconds after which a rank that does not arrive breaks smelt's communicator; 0: never", nullptr},
    {"SMELT_VERBOSE", "1: the shim says at exit what it took over, saved and passed on",
     [] { return verbose() ? 1 : 0; }},
    {"SMELT_WAIT", "how ranks wait in smelt: spin, yield, sleep or auto", nullptr},
};
constexpr int ours = static_cast<int>(std::size(variables));
constexpr int text_length = 256;  ///< of a text with its zero; a longer one is cut

int count_library(int* number) { return original.T_cvar_get_num(number); }

/// MPI_SUCCESS, or the library's error (it may not be initialized).
int find_base(int* base) {
  static std::atomic<int> found{-1};
  int number = 0;
  if (const int code = count_library(&number); code != MPI_SUCCESS) return code;
  int none = -1;
  *base = found.compare_exchange_strong(none, number, std::memory_order_relaxed) ? number : none;
  return MPI_SUCCESS;
}

int to_program(int library_index, int base) { return library_index < base ? library_index : library_index + ours; }

/// Calls `own` for a variable of the shim, otherwise `library` with the library's index.
template <class Own, class Library>
int by_index(int index, Own own, Library library) {
  int base = 0;
  if (const int code = find_base(&base); code != MPI_SUCCESS) return code;
  if (index >= base && index < base + ours) return own(variables[index - base]);
  return library(index < base ? index : index - ours);
}

/// Returns a text as MPI_T does: as much as fits, and its full length.
void give(const char* text, char* to, int* length) {
  if (length == nullptr) return;
  const auto room = static_cast<std::size_t>(std::max(*length, 0)), needed = std::strlen(text) + 1;
  if (to != nullptr && room > 0) {
    std::memcpy(to, text, std::min(room, needed));
    to[std::min(room, needed) - 1] = '\0';
  }
  *length = static_cast<int>(needed);
}

template <class Value>
void set(Value* to, Value value) {
  if (to != nullptr) *to = value;
}

/// The shim's variable of a handle; null for the library's.
const Variable* variable_of(MPI_T_cvar_handle handle) {
  const auto* const found = reinterpret_cast<const Variable*>(handle);
  return std::find_if(std::begin(variables), std::end(variables),
                      [&](const Variable& each) { return &each == found; }) != std::end(variables)
             ? found
             : nullptr;
}

}  // namespace

int serve_T_cvar_get_num(int* number) {
  int base = 0;
  if (number == nullptr) return count_library(number);
  if (const int code = find_base(&base); code != MPI_SUCCESS) return code;
  const int code = count_library(number);
  if (code == MPI_SUCCESS) *number += ours;
  return code;
}

int serve_T_cvar_get_info(int index, char* name, int* name_length, int* verbosity, MPI_Datatype* type,
                          MPI_T_enum* values, char* description, int* description_length, int* bind, int* scope) {
  const auto own = [&](const Variable& variable) {
    give(variable.name, name, name_length);
    give(variable.description, description, description_length);
    set(verbosity, MPI_T_VERBOSITY_USER_BASIC);
    set(type, variable.number != nullptr ? MPI_INT : MPI_CHAR);
    set(values, MPI_T_enum{});
    set(bind, MPI_T_BIND_NO_OBJECT);
    set(scope, MPI_T_SCOPE_CONSTANT);
    return MPI_SUCCESS;
  };
  return by_index(index, own, [&](int there) {
    return original.T_cvar_get_info(there, name, name_length, verbosity, type, values, description, description_length,
                                    bind, scope);
  });
}

int serve_T_cvar_get_index(const char* name, int* index) {
  int base = 0;
  if (const int code = find_base(&base); code != MPI_SUCCESS) return code;
  for (int i = 0; name != nullptr && index != nullptr && i < ours; ++i) {
    if (std::strcmp(name, variables[i].name) != 0) continue;
    *index = base + i;
    return MPI_SUCCESS;
  }
  const int code = original.T_cvar_get_index(name, index);
  if (code == MPI_SUCCESS && index != nullptr) *index = to_program(*index, base);
  return code;
}

int serve_T_cvar_handle_alloc(int index, void* object, MPI_T_cvar_handle* handle, int* count) {
  const auto own = [&](const Variable& variable) {
    set(handle, reinterpret_cast<MPI_T_cvar_handle>(const_cast<Variable*>(&variable)));
    set(count, variable.number != nullptr ? 1 : text_length);
    return MPI_SUCCESS;
  };
  return by_index(index, own, [&](int there) { return original.T_cvar_handle_alloc(there, object, handle, count); });
}

int serve_T_cvar_handle_free(MPI_T_cvar_handle* handle) {
  if (handle == nullptr || variable_of(*handle) == nullptr) return original.T_cvar_handle_free(handle);
  *handle = nullptr;
  return MPI_SUCCESS;
}

int serve_T_cvar_read(MPI_T_cvar_handle handle, void* value) {
  const Variable* const variable = variable_of(handle);
  if (variable == nullptr || value == nullptr) return original.T_cvar_read(handle, value);
  if (variable->number != nullptr) {
    *static_cast<int*>(value) = variable->number();
  } else {
    const char* const text = std::getenv(variable->name);
    int room = text_length;
    give(text != nullptr ? text : "", static_cast<char*>(value), &room);
  }
  return MPI_SUCCESS;
}

int serve_T_cvar_write(MPI_T_cvar_handle handle, const void* value) {
  return variable_of(handle) != nullptr ? MPI_T_ERR_CVAR_SET_NEVER : original.T_cvar_write(handle, value);
}

/// The library's categories: their variables by the program's indices.
int serve_T_category_get_cvars(int index, int length, int* indices) {
  int base = 0;
  if (const int code = find_base(&base); code != MPI_SUCCESS) return code;
  // The library does not report how many it has filled in.
  for (int i = 0; indices != nullptr && i < length; ++i) indices[i] = -1;
  const int code = original.T_category_get_cvars(index, length, indices);
  for (int i = 0; code == MPI_SUCCESS && indices != nullptr && i < length; ++i) {
    if (indices[i] >= 0) indices[i] = to_program(indices[i], base);
  }
  return code;
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
