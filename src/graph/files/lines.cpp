#include "graph/files/lines.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace smelt::graph {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{4} << 20;
constexpr std::size_t stream_chunk_bytes = std::size_t{1} << 20;
constexpr std::size_t header_bytes = std::size_t{64} << 10;
constexpr std::size_t longest_header_line = std::size_t{1} << 20;

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // of UTF-8, as some editors write it

const char* find_newline(const char* from, const char* to) {
  if (from == to) return nullptr;  // an empty file has no memory to search
  return static_cast<const char*>(std::memchr(from, '\n', static_cast<std::size_t>(to - from)));
}

}  // namespace

Result<std::unique_ptr<Lines>> Lines::open(const std::string& name) {
  auto file = File::open(name);
  if (!file) return file.error();
  std::unique_ptr<Lines> lines(new Lines(*std::move(file)));
  const auto compression = compression_of(lines->file_);
  if (!compression) return compression.error();
  if (*compression != Compression::none || !lines->file_.regular()) {
    auto stream = open_stream(lines->file_, *compression);
    if (!stream) return stream.error();
    lines->stream_ = *std::move(stream);
  }
  lines->fill(header_bytes);
  if (std::string_view(lines->pending_.data(), lines->pending_.size()).starts_with(byte_order_mark))
    lines->pending_at_ = byte_order_mark.size();
  return lines;
}

void Lines::fail(Error error) {
  if (!error_) error_ = std::move(error);
  stopped_ = true;
}

/// Appends up to `wanted` bytes to pending_; false at the end of the file.
bool Lines::fill(std::size_t wanted) {
  const auto before = pending_.size();
  pending_.resize(before + wanted);
  const auto count = stream_ != nullptr ? stream_->read(pending_.data() + before, wanted)
                                        : file_.read_at(offset_, pending_.data() + before, wanted);
  pending_.resize(before + (count ? *count : 0));
  if (!count) fail(count.error());
  if (count) offset_ += *count;
  return count && *count > 0;
}

std::optional<std::string_view> Lines::line() {
  for (std::size_t searched = 0;;) {
    const char* start = pending_.data() + pending_at_;
    const char* end = pending_.data() + pending_.size();
    if (const char* newline = find_newline(start + searched, end)) {
      last_line_at_ = pending_at_;
      pending_at_ += static_cast<std::size_t>(newline - start) + 1;
      ++line_number_;
      std::string_view line(start, static_cast<std::size_t>(newline - start));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find('\r') == std::string_view::npos) return line;
      // A file that has no other line ends would be one line, most of which is ignored.
      fail(make_error(Status::bad_format, "{}:{}: lines end with CR alone; convert them to LF: tr '\\r' '\\n'", name(),
                      line_number_));
      return std::nullopt;
    }
    searched = static_cast<std::size_t>(end - start);
    if (searched > longest_header_line) {
      fail(make_error(Status::bad_format, "{}:{}: the line is longer than 1 MiB", name(), line_number_ + 1));
      return std::nullopt;
    }
    if (pending_at_ > header_bytes) {
      pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(pending_at_));
      pending_at_ = 0;
    }
    if (fill(header_bytes)) continue;
    if (searched == 0 || error_) return std::nullopt;
    pending_.push_back('\n');
    newline_added_ = true;
  }
}

void Lines::unread() noexcept {
  pending_at_ = last_line_at_;
  --line_number_;
}

void Lines::stop() noexcept {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
}

bool Lines::next(Chunk& chunk) {
  std::unique_lock lock(mutex_);
  if (stopped_) return false;
  chunk.number = chunks_++;
  const bool more = stream_ != nullptr ? next_of_stream(chunk) : next_of_file(chunk, lock);
  if (!more) return false;
  if (chunk.memory[chunk.size - 1] != '\n') {
    chunk.memory.resize(chunk.size + 1);
    chunk.memory[chunk.size++] = '\n';
  }
  return true;
}

/// The end of the first line that ends after `offset`; empty after an error.
std::optional<std::uint64_t> Lines::line_end_after(std::uint64_t offset) {
  char part[4096];
  for (;;) {
    const auto count = file_.read_at(offset, part, sizeof part);
    if (!count) {
      fail(count.error());
      return std::nullopt;
    }
    if (*count == 0) return offset;
    if (const char* newline = find_newline(part, part + *count))
      return offset + static_cast<std::uint64_t>(newline - part) + 1;
    offset += *count;
  }
}

bool Lines::next_of_file(Chunk& chunk, std::unique_lock<std::mutex>& lock) {
  // Data that line() has read ahead is read again.
  offset_ -= pending_.size() - pending_at_;
  if (newline_added_) ++offset_;
  newline_added_ = false;
  pending_.clear();
  pending_at_ = 0;
  if (offset_ >= file_.size_bytes()) {
    stopped_ = true;
    return false;
  }
  const auto start = offset_;
  auto end = std::min(file_.size_bytes(), start + chunk_bytes);
  if (end < file_.size_bytes()) {
    const auto line_end = line_end_after(end);
    if (!line_end) return false;
    end = *line_end;
  }
  offset_ = end;
  lock.unlock();
  chunk.size = static_cast<std::size_t>(end - start);
  if (chunk.memory.size() < chunk.size) chunk.memory.resize(chunk.size);
  if (auto read = file_.read_all_at(start, chunk.memory.data(), chunk.size); !read) {
    lock.lock();
    fail(read.error());
    return false;
  }
  return true;
}

bool Lines::next_of_stream(Chunk& chunk) {
  std::size_t searched = 0;
  for (;;) {
    const bool more = fill(stream_chunk_bytes);
    if (error_) return false;
    if (!more) {  // the rest
      stopped_ = true;
      if (pending_at_ == pending_.size()) return false;
      searched = pending_.size() - pending_at_;
      break;
    }
    const std::string_view text(pending_.data() + pending_at_, pending_.size() - pending_at_);
    const auto newline = text.rfind('\n');
    if (newline != std::string_view::npos) {
      searched = newline + 1;
      break;
    }
  }
  chunk.size = searched;
  if (chunk.memory.size() < chunk.size) chunk.memory.resize(chunk.size);
  std::copy_n(pending_.data() + pending_at_, searched, chunk.memory.data());
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(pending_at_ + searched));
  pending_at_ = 0;
  return true;
}

double Lines::fraction() const noexcept {
  const std::lock_guard lock(mutex_);
  const auto read = stream_ != nullptr ? stream_->consumed() : offset_;
  return file_.size_bytes() == 0 ? 0.0 : static_cast<double>(read) / static_cast<double>(file_.size_bytes());
}

Result<void> Lines::status() const {
  const std::lock_guard lock(mutex_);
  return error_ ? Result<void>(*error_) : Result<void>();
}

}  // namespace smelt::graph
