// What the handles of the C interface hold, and how errors leave it.
#pragma once

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "smelt/communicator.hpp"
#include "smelt/machine.hpp"
#include "smelt/smelt.h"

struct smelt_machine {
  smelt::Machine value;
};
struct smelt_communicator {
  smelt::Communicator value;
};
struct smelt_rank {
  smelt::Rank value;
};

namespace smelt::capi {

/// Remembers the message for smelt_last_error(); returns the status.
int fail(const Error& error);
int fail_argument(const char* call, const std::string& what);
void remember(const char* message) noexcept;

/// The operator of a smelt_type and a smelt_op; without `combine` for a pair that makes no sense.
Reduction builtin_reduction(int type, int op);

/// Runs set-up code that may allocate or throw, and turns what escapes into a status.
template <class Body>
int guarded(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return SMELT_OUT_OF_MEMORY;
  } catch (const std::exception& thrown) {
    remember(thrown.what());
    return SMELT_IO_ERROR;
  }
}

/// The number in an enum that a C caller may have set to any value. C++ must not read such a value as the enum.
template <class Enum>
int number_of(const Enum& value) noexcept {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

/// Whether the number is one of smelt_faults.
inline int check_faults(const char* call, const smelt_faults& faults) {
  const int number = number_of(faults);
  if (number >= SMELT_FAULTS_DEFAULT && number <= SMELT_FAULTS_STOP) return SMELT_OK;
  return fail_argument(call, "faults is " + std::to_string(number) + ", none of SMELT_FAULTS_*");
}

template <class Handle, class T>
int hand_out(Result<T> result, Handle** handle) {
  if (!result) return fail(result.error());
  *handle = new Handle{std::move(*result)};
  return SMELT_OK;
}

/// A caller's function that ends serving, in the form that the C++ interface asks for.
struct StopQuestion {
  int (*function)(void*);
  void* context;
  static bool is_over(void* question) {
    const auto& asked = *static_cast<StopQuestion*>(question);
    return asked.function(asked.context) != 0;
  }
};

}  // namespace smelt::capi
