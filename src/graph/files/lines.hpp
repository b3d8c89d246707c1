// Lines: reads a text file, first as single lines for its header, then as chunks of whole lines for any number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/files/bytes.hpp"
#include "smelt/error.hpp"

namespace smelt::graph {

class Lines {
 public:
  /// Some whole lines in the order of the file. The text ends with a newline, which is added to a last line without
  /// one.
  struct Chunk {
    std::size_t number = 0;
    std::vector<char> memory;
    std::size_t size = 0;
  };

  /// Errors: as of File::open() and open_stream().
  static Result<std::unique_ptr<Lines>> open(const std::string& name);

  const std::string& name() const noexcept { return file_.name(); }

  /// The next line without its end; nothing at the end of the file or after an error. Valid until the next call. One
  /// thread, before the first chunk. A line of the header has at most 1 MiB.
  std::optional<std::string_view> line();
  /// Returns the last line to the input: line() or the first chunk delivers it again.
  void unread() noexcept;
  std::uint64_t lines_read() const noexcept { return line_number_; }

  /// The next chunk; false at the end, after an error and after stop(). Any thread.
  bool next(Chunk& chunk);
  /// No more chunks.
  void stop() noexcept;

  /// The fraction of the file that has been read.
  double fraction() const noexcept;
  /// Whether reading succeeded so far.
  Result<void> status() const;

 private:
  explicit Lines(File file) : file_(std::move(file)) {}
  bool fill(std::size_t wanted);
  bool next_of_file(Chunk& chunk, std::unique_lock<std::mutex>& lock);
  bool next_of_stream(Chunk& chunk);
  std::optional<std::uint64_t> line_end_after(std::uint64_t offset);
  void fail(Error error);

  File file_;
  std::unique_ptr<ByteStream> stream_;  ///< null: a plain file, of which chunks are read in parallel
  mutable std::mutex mutex_;            ///< guards all members below once there are several threads
  std::vector<char> pending_;           ///< text that was read but not yet delivered: [pending_at_, pending_.size())
  std::size_t pending_at_ = 0;
  std::size_t last_line_at_ = 0;
  bool newline_added_ = false;  ///< the end of pending_ is not in the file
  std::uint64_t line_number_ = 0;
  std::uint64_t offset_ = 0;  ///< plain file: offset of the text after pending_
  std::size_t chunks_ = 0;
  bool stopped_ = false;
  std::optional<Error> error_;
};

}  // namespace smelt::graph
