// What the reader and the writer of machine files share.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "machine/costs_by_class.hpp"
#include "smelt/machine.hpp"

namespace smelt {

inline constexpr const char* schema_name = "smelt-machine/1";
/// Of files with a matrix by class, which older programs cannot read.
inline constexpr const char* class_schema_name = "smelt-machine/2";

/// The key of a class in a file: what its pairs share; with kinds of core that are not all the same
/// "package+numa_node:0>1", sender first.
std::string class_key(const Places& places, int kind_a, int kind_b, SharedUnits shared);

/// A matrix of the file: its key, and where it lives in a Machine or in the "copy" or "memory" of one.
struct MatrixField {
  const char* key;
  Matrix Machine::*required = nullptr;
  std::optional<Matrix> Machine::*optional = nullptr;
  double max_value = 0.0;
  Matrix CopyCosts::*copy = nullptr;
  Matrix MemoryCosts::*memory = nullptr;

  /// Null where the machine does not have it.
  const Matrix* in(const Machine& machine) const;

  /// Messages go to others; copies may be of own data.
  bool zero_diagonal() const { return copy == nullptr && memory == nullptr; }
};

/// A cost of the machine as a whole, and a list of such: absent, or empty, where they were not measured.
struct CostField {
  const char* key;
  std::optional<double> Machine::*member;
};
struct CostListField {
  const char* key;
  std::vector<double> Machine::*member;
};

/// In the order in which they are written.
const std::vector<CostField>& cost_fields();
const std::vector<CostListField>& cost_list_fields();
const std::vector<MatrixField>& matrix_fields();
const std::vector<MatrixField>& copy_matrix_fields();
const std::vector<MatrixField>& memory_matrix_fields();

/// A number of the "copy" of a file, which is either in CopyCosts or in its `process`, or of its "memory".
struct CopyNumberField {
  const char* key;
  double max_value;
  double CopyCosts::*member = nullptr;
  double ProcessCopyCosts::*process = nullptr;
  double MemoryCosts::*memory = nullptr;
};
const std::vector<CopyNumberField>& copy_number_fields();
const std::vector<CopyNumberField>& memory_number_fields();

/// A list of slowdowns of the "copy" of a file, or of one number per page size of its "memory".
struct CopyListField {
  const char* key;
  std::vector<double> CopyCosts::*member = nullptr;
  std::vector<double> MemoryCosts::*memory = nullptr;
  double max_value = 0.0;
};
const std::vector<CopyListField>& copy_list_fields();
const std::vector<CopyListField>& memory_list_fields();

/// The rules that every machine keeps, read or written: 1..max_pus PUs, distinct, with sane ids;
/// matrices of that size, finite, not negative, 0 on the diagonal (save those of copies); copies
/// measured at four ascending sizes and for every number of copiers. The message names the key.
Result<void> check_machine(const Machine& machine);

/// The part of these rules that concerns the PUs.
Result<void> check_pus(const Machine& machine);

}  // namespace smelt
