// Each row of the registry of MPI functions against the header and the library of an MPI: where the library has the
// function, the header has to declare it with the row's parameters, and what MPI 3.1 has must be there.
#include <dlfcn.h>
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include <cstdio>
#include <set>
#include <string_view>
#include <type_traits>

#include "shims/mpi/registry.hpp"

namespace no_header {

struct Undeclared {};

// Overload resolution takes these where the header declares no function with exactly these parameters.
#define SMELT_TEST_TAKES_ANYTHING(name, ...) \
  template <class... Any>                    \
  Undeclared MPI_##name(Any&&...);
SMELT_MPI_SERVED(SMELT_TEST_TAKES_ANYTHING)
SMELT_MPI_BEGINNING(SMELT_TEST_TAKES_ANYTHING)
#define SMELT_TEST_OLD_TAKES_ANYTHING(name, ...) \
  template <class... Any>                        \
  Undeclared MPIX_##name(Any&&...);
SMELT_MPI_PERSISTENT_OF_OLD(SMELT_TEST_OLD_TAKES_ANYTHING)

}  // namespace no_header

using namespace no_header;  // NOLINT: the overloads have to compete with the header's functions

namespace calls {

#define SMELT_TEST_CALL(name, parameters, arguments, ...) auto name parameters->decltype(MPI_##name arguments);
SMELT_MPI_SERVED(SMELT_TEST_CALL)
SMELT_MPI_BEGINNING(SMELT_TEST_CALL)
#define SMELT_TEST_OLD_CALL(name, parameters, arguments, ...) auto X_##name parameters->decltype(MPIX_##name arguments);
SMELT_MPI_PERSISTENT_OF_OLD(SMELT_TEST_OLD_CALL)

template <class Call>
struct ReturnType;
template <class Type, class... Parameters>
struct ReturnType<Type(Parameters...)> {
  using type = Type;
};
template <class Call>
constexpr bool is_declared = std::is_same_v<typename ReturnType<Call>::type, int>;

/// Of parameters as in `Call`, but no pointer is one to a const object.
template <class Type>
using Writable = std::conditional_t<std::is_pointer_v<Type>, std::remove_const_t<std::remove_pointer_t<Type>>*, Type>;
template <class Type, class... Parameters, class Function>
constexpr bool is_declared_without_const(Type (*)(Parameters...), Function) {
  return std::is_same_v<std::invoke_result_t<Function, Writable<Parameters>&...>, int>;
}

}  // namespace calls

namespace {

int wrong = 0, checked = 0;
std::set<std::string_view> without_const;  ///< what the header declares without the standard's const

void check(const char* name, bool declared, bool required) {
  declared |= without_const.contains(name);
  const bool defined = dlsym(RTLD_DEFAULT, name) != nullptr;
  if (defined && !declared) std::printf("%s: the header has other parameters than the registry\n", name), ++wrong;
  if (required && !defined) std::printf("%s: of MPI 3.1, but missing\n", name), ++wrong;
  if (defined && declared) ++checked;
}

}  // namespace

int main() {
  int initialized = 0;
  MPI_Initialized(&initialized);  // so that the linker keeps the library
  // MPICH 4.2 lets them write to the requests, by its header.
#define SMELT_TEST_CONST(name, ...)                                                                 \
  constexpr auto call_##name = [](auto&... given) -> decltype(MPI_##name(given...)) { return {}; }; \
  if (calls::is_declared_without_const(static_cast<decltype(&calls::name)>(nullptr), call_##name))  \
    without_const.insert("MPI_" #name);
  SMELT_MPI_LOOKING_AT_MANY(SMELT_TEST_CONST)
#define SMELT_TEST_CHECK(name, ...) check("MPI_" #name, calls::is_declared<decltype(calls::name)>, false);
  SMELT_MPI_SERVED(SMELT_TEST_CHECK)
  SMELT_MPI_BEGINNING(SMELT_TEST_CHECK)
#define SMELT_TEST_CHECK_OLD(name, ...) check("MPIX_" #name, calls::is_declared<decltype(calls::X_##name)>, false);
  SMELT_MPI_PERSISTENT_OF_OLD(SMELT_TEST_CHECK_OLD)
#define SMELT_TEST_CHECK_REQUIRED(name, ...) check("MPI_" #name, calls::is_declared<decltype(calls::name)>, true);
  SMELT_MPI_REQUIRED(SMELT_TEST_CHECK_REQUIRED)
  std::printf("%d functions checked, %d wrong\n", checked, wrong);
  return wrong == 0 && checked > 0 ? 0 : 1;
}
