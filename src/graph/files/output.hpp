// A file that is either complete or absent: it is written under a temporary name, then renamed. Devices and pipes are
// written to directly; links are followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "smelt/error.hpp"

namespace smelt::graph {

class OutputFile {
 public:
  /// Errors: not_found (no such directory), permission_denied, io_error.
  static Result<OutputFile> create(const std::string& name);

  /// Removes what was written unless finish() succeeded.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) = delete;

  /// Appends; after an error nothing is written, and finish() returns the error.
  void write(const void* data, std::size_t size);
  template <class T>
  void write_value(const T& value) {
    write(&value, sizeof value);
  }
  void pad_to(std::uint64_t offset);
  std::uint64_t written() const noexcept { return written_; }
  bool failed() const noexcept { return error_.status != Status::ok; }

  /// Overwrites the start of the file. Devices and pipes fail.
  void write_start(const void* data, std::size_t size);

  Result<void> finish();

 private:
  OutputFile() = default;
  void fail(const char* what);
  void put(const void* data, std::size_t size, std::uint64_t offset);

  std::string name_;
  std::string target_;  ///< what is replaced at the end
  std::string passing_name_;
  int descriptor_ = -1;
  bool in_order_ = false;   ///< a device or pipe, which has no offsets
  std::uint64_t sent_ = 0;  ///< to it
  std::uint64_t written_ = 0;
  Error error_;
};

}  // namespace smelt::graph
