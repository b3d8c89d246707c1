#include "graph/files/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace smelt::graph {
namespace {

namespace fs = std::filesystem;

/// The file that a link leads to.
std::string behind_links(const std::string& name) {
  std::error_code ignored;
  return fs::is_symlink(name, ignored) ? fs::weakly_canonical(name, ignored).string() : name;
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& name) {
  OutputFile file;
  file.name_ = name;
  struct stat status;
  if (stat(name.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    file.in_order_ = true;
    file.descriptor_ = open(name.c_str(), O_WRONLY | O_CLOEXEC);
    if (file.descriptor_ >= 0) return file;
    file.fail("cannot be opened");
    return file.error_;
  }
  file.target_ = behind_links(name);
  file.passing_name_ = fmt::format("{}.{}.part", file.target_, getpid());
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
      target_(std::move(other.target_)),
      passing_name_(std::exchange(other.passing_name_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      in_order_(other.in_order_),
      sent_(other.sent_),
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
  if (failed()) return;
  if (in_order_ && offset != sent_) {
    errno = ESPIPE;
    return fail("a file of this format cannot be written in order");
  }
  std::size_t done = 0;
  while (done < size && !failed()) {
    const char* const next = static_cast<const char*>(data) + done;
    const auto count = in_order_ ? ::write(descriptor_, next, size - done)
                                 : pwrite(descriptor_, next, size - done, static_cast<off_t>(offset + done));
    if (count >= 0) done += static_cast<std::size_t>(count);
    if (count < 0 && errno != EINTR) fail("cannot be written");
  }
  sent_ += done;
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
  if (!in_order_ && rename(passing_name_.c_str(), target_.c_str()) != 0) {
    fail("cannot be put in its place");
    return error_;
  }
  passing_name_.clear();
  return {};
}

}  // namespace smelt::graph
