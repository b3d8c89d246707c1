// Reads files as bytes, plain or compressed (gzip, zstd). The decompression libraries are loaded when the first such
// file is opened, so that other programs do not depend on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "smelt/error.hpp"

namespace smelt::graph {

/// An open file, closed at the end.
class File {
 public:
  /// Errors: not_found, permission_denied, io_error, as "FILE: reason".
  static Result<File> open(const std::string& name);

  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  const std::string& name() const noexcept { return name_; }
  int descriptor() const noexcept { return descriptor_; }
  bool regular() const noexcept { return regular_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }  ///< when it was opened; 0 if it is not regular

  /// Reads up to `size` bytes from `offset` on, fewer only at the end of the file. Thread-safe.
  Result<std::size_t> read_at(std::uint64_t offset, void* to, std::size_t size) const;
  /// Reads exactly `size` bytes. Further error: bad_format if the file ends earlier.
  Result<void> read_all_at(std::uint64_t offset, void* to, std::size_t size) const;
  /// Reads up to `size` next bytes; returns 0 at the end.
  Result<std::size_t> read(void* to, std::size_t size) const;

  Error error(const char* what) const;  ///< the error that errno describes

 private:
  File() = default;
  std::string name_;
  int descriptor_ = -1;
  bool regular_ = false;
  std::uint64_t size_bytes_ = 0;
};

/// Whether this is a regular file, which can be opened twice and read at any offset; false for pipes.
bool is_regular_file(const std::string& name) noexcept;

/// The content of a file from start to end.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Reads up to `size` next bytes; returns 0 at the end. Errors: io_error; bad_format if compressed data is damaged;
  /// not_supported if decompression needs more than 128 times the file's size and more than 2 MiB.
  virtual Result<std::size_t> read(void* to, std::size_t size) = 0;
  /// Bytes of the file that have been read so far.
  virtual std::uint64_t consumed() const noexcept = 0;
};

enum class Compression { none, gzip, zstd };

/// Recognizes the format by the first bytes of the file.
Result<Compression> compression_of(const File& file);

/// Errors: not_supported, if the library for it is not installed. `file` must outlive the stream.
Result<std::unique_ptr<ByteStream>> open_stream(const File& file, Compression compression);

}  // namespace smelt::graph
