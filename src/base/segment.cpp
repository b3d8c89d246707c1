#include "base/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace smelt {
namespace {

Error system_error(const std::string& what) {
  const int code = errno;
  Status status = Status::io_error;
  if (code == ENOMEM || code == ENOSPC) status = Status::out_of_memory;
  if (code == EACCES || code == EPERM) status = Status::permission_denied;
  if (code == ENOENT) status = Status::not_found;
  return make_error(status, "{}: {}", what, std::strerror(code));
}

std::size_t whole_pages(std::size_t size_bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (size_bytes + page - 1) / page * page;
}

Result<std::size_t> checked_size(std::size_t size_bytes) {
  if (size_bytes == 0 || size_bytes > std::size_t{1} << 46) {
    return make_error(Status::invalid_argument, "segment of {} bytes: must be 1 to 2^46", size_bytes);
  }
  return whole_pages(size_bytes);
}

Result<void> check_name(std::string_view name) {
  const bool shape = name.size() >= 2 && name.size() <= 250 && name[0] == '/';
  if (shape && name.find('/', 1) == std::string_view::npos && name.find('\0') == std::string_view::npos) return {};
  return make_error(Status::invalid_argument, "segment name '{}': must be '/' and 1 to 249 characters without '/'",
                    name);
}

}  // namespace

Result<Segment> Segment::map(int fd, std::size_t size_bytes, const std::string& what) {
  const int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) {
    const Error error = system_error(fmt::format("cannot map {} bytes of {}", size_bytes, what));
    if (fd >= 0) close(fd);
    return error;
  }
  return Segment(static_cast<std::byte*>(memory), size_bytes, fd);
}

Result<Segment> Segment::map_existing(int fd, const std::string& what) {
  struct stat status = {};
  Error error;
  if (fstat(fd, &status) != 0) {
    error = system_error("cannot examine " + what);
  } else if (!S_ISREG(status.st_mode) || status.st_size <= 0) {
    error = make_error(Status::bad_format, "{} is not a shared memory segment", what);
  } else if (status.st_uid != geteuid()) {
    error = make_error(Status::permission_denied, "{} belongs to user {}, not to this one", what, status.st_uid);
  } else {
    return map(fd, static_cast<std::size_t>(status.st_size), what);
  }
  close(fd);
  return error;
}

Result<Segment> Segment::anonymous(std::size_t size_bytes) {
  const auto size = checked_size(size_bytes);
  if (!size) return size.error();
  return map(-1, *size, "anonymous memory");
}

Result<Segment> Segment::memfd(std::size_t size_bytes) {
  const auto size = checked_size(size_bytes);
  if (!size) return size.error();
  const int fd = memfd_create("smelt", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return system_error("cannot create a memfd");
  if (ftruncate(fd, static_cast<off_t>(*size)) != 0) {
    const Error error = system_error(fmt::format("cannot size a memfd to {} bytes", *size));
    close(fd);
    return error;
  }
  // Nobody who is given the descriptor can take the memory away under the others.
  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return map(fd, *size, "memfd");
}

Result<Segment> Segment::from_fd(int fd) {
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return system_error(fmt::format("cannot use file descriptor {}", fd));
  return map_existing(own, fmt::format("file descriptor {}", fd));
}

Result<Segment> Segment::create_named(const std::string& name, std::size_t size_bytes) {
  if (const auto valid = check_name(name); !valid) return valid.error();
  const auto size = checked_size(size_bytes);
  if (!size) return size.error();
  // O_EXCL also refuses to follow a symbolic link that somebody planted under this name.
  const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(fmt::format("cannot create segment '{}'", name));
  if (ftruncate(fd, static_cast<off_t>(*size)) != 0) {
    const Error error = system_error(fmt::format("cannot size segment '{}' to {} bytes", name, *size));
    close(fd);
    shm_unlink(name.c_str());
    return error;
  }
  auto segment = map(fd, *size, fmt::format("segment '{}'", name));
  if (!segment) shm_unlink(name.c_str());
  return segment;
}

Result<Segment> Segment::open_named(const std::string& name) {
  if (const auto valid = check_name(name); !valid) return valid.error();
  const int fd = shm_open(name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
  if (fd < 0) return system_error(fmt::format("cannot open segment '{}'", name));
  return map_existing(fd, fmt::format("segment '{}'", name));
}

Result<void> Segment::remove_named(const std::string& name) {
  if (const auto valid = check_name(name); !valid) return valid.error();
  if (shm_unlink(name.c_str()) != 0) return system_error(fmt::format("cannot remove segment '{}'", name));
  return {};
}

Segment::Segment(Segment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      fd_(std::exchange(other.fd_, -1)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Segment::~Segment() { reset(); }

void Segment::reset() noexcept {
  if (data_ != nullptr) munmap(data_, size_);
  if (fd_ >= 0) close(fd_);
}

}  // namespace smelt
