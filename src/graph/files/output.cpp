#include "graph/files/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace smelt::graph {

Result<OutputFile> OutputFile::create(const std::string& name) {
  OutputFile file;
  file.name_ = name;
  file.passing_name_ = fmt::format("{}.{}.part", name, getpid());
  file.descriptor_ = open(file.passing_name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) {
    file.passing_name_ = name;  // for the error message
    file.fail("cannot be created");
    file.passing_name_.clear();
    return file.error_;
  }
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : name_(std::move(other.name_)),
      passing_name_(std::exchange(other.passing_name_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      written_(other.written_),
      error_(std::move(other.error_)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!passing_name_.empty()) unlink(passing_name_.c_str());
}

void OutputFile::fail(const char* what) {
  const int code = errno;
  Status status = Status::io_error;
  if (code == ENOENT || code == ENOTDIR) status = Status::not_found;
  if (code == EACCES || code == EPERM || code == EROFS) status = Status::permission_denied;
  error_ = make_error(status, "{}: {}: {}", name_, what, std::strerror(code));
}

void OutputFile::put(const void* data, std::size_t size, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < size && !failed()) {
    const auto count =
        pwrite(descriptor_, static_cast<const char*>(data) + done, size - done, static_cast<off_t>(offset + done));
    if (count >= 0) done += static_cast<std::size_t>(count);
    if (count < 0 && errno != EINTR) fail("cannot be written");
  }
}

void OutputFile::write(const void* data, std::size_t size) {
  put(data, size, written_);
  written_ += size;
}

void OutputFile::pad_to(std::uint64_t offset) {
  static const std::vector<char> zeros(64u << 10);
  while (written_ < offset) write(zeros.data(), std::min<std::uint64_t>(zeros.size(), offset - written_));
}

void OutputFile::write_start(const void* data, std::size_t size) { put(data, size, 0); }

Result<void> OutputFile::finish() {
  if (failed()) return error_;
  if (close(std::exchange(descriptor_, -1)) != 0) {
    fail("cannot be written");
    return error_;
  }
  if (rename(passing_name_.c_str(), name_.c_str()) != 0) {
    fail("cannot be put in its place");
    return error_;
  }
  passing_name_.clear();
  return {};
}

}  // namespace smelt::graph
