// What the reader and the writer of machine files share.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "smelt/machine.hpp"

namespace smelt {

inline constexpr const char* schema_name = "smelt-machine/1";

/// A matrix of the file: its key, and where it lives in a Machine.
struct MatrixField {
  const char* key;
  Matrix Machine::*required = nullptr;
  std::optional<Matrix> Machine::*optional = nullptr;
  double max_value = 0.0;

  /// Null where the machine does not have it.
  const Matrix* in(const Machine& machine) const;
};

/// In the order in which they are written.
const std::vector<MatrixField>& matrix_fields();

/// The rules that every machine keeps, read or written: 1..max_pus PUs, distinct, with sane ids;
/// matrices of that size, finite, not negative, 0 on the diagonal. The message names the key.
Result<void> check_machine(const Machine& machine);

}  // namespace smelt
