#include "base/segment.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/polling.hpp"

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

// Whether the file may get that size. Most processes that exceed their limit end by a signal, also for memfds.
Result<void> check_limit(int fd, std::size_t size_bytes, const std::string& what) {
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) != 0 || size_bytes <= most.rlim_cur) return {};
  struct stat status = {};
  if (fstat(fd, &status) == 0 && size_bytes <= static_cast<std::size_t>(status.st_size)) return {};
  return make_error(Status::out_of_memory, "{} of {} bytes is larger than files may be; raise `ulimit -f`", what,
                    size_bytes);
}

// Allocates memory for [0, size_bytes) of the file, and extends the file to this size if it is smaller. In pieces,
// since a signal makes fallocate() on tmpfs undo the whole call.
Result<void> reserve(int fd, std::size_t size_bytes, const std::string& what) {
  if (const auto allowed = check_limit(fd, size_bytes, what); !allowed) return allowed.error();
  struct statvfs room = {};
  // If there is a limit (memfds have none), avoid taking all memory before the failure.
  if (fstatvfs(fd, &room) == 0 && room.f_blocks != 0 && size_bytes / room.f_frsize > room.f_blocks) {
    return make_error(Status::out_of_memory, "{} of {} bytes is larger than /dev/shm; make that larger", what,
                      size_bytes);
  }
  constexpr std::size_t piece_bytes = std::size_t{32} << 20;
  for (std::size_t done = 0; done < size_bytes;) {
    const std::size_t bytes = std::min(piece_bytes, size_bytes - done);
    if (fallocate(fd, 0, static_cast<off_t>(done), static_cast<off_t>(bytes)) == 0) {
      done += bytes;
    } else if (errno != EINTR) {
      const char* advice = errno == ENOSPC ? "; free memory in /dev/shm or make it larger" : "";
      Error error = system_error(fmt::format("cannot reserve {} bytes for {}", size_bytes, what));
      error.message += advice;
      return error;
    }
  }
  return {};
}

std::string path_of(const std::string& name) { return "/dev/shm" + name; }
std::string path_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

// Whether `path` and the descriptor refer to the same file.
bool same_file(const std::string& path, int fd) {
  struct stat named = {}, opened = {};
  return lstat(path.c_str(), &named) == 0 && fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
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
    error = make_error(Status::permission_denied, "{} belongs to user {}, not to this one; choose another name", what,
                       status.st_uid);
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
  if (const auto allowed = check_limit(fd, *size, "a memfd"); !allowed) {
    close(fd);
    return allowed.error();
  }
  if (ftruncate(fd, static_cast<off_t>(*size)) != 0) {
    const Error error = system_error(fmt::format("cannot size a memfd to {} bytes", *size));
    close(fd);
    return error;
  }
  // No process that gets the descriptor can shrink the file.
  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return map(fd, *size, "memfd");
}

Result<Segment> Segment::from_fd(int fd) {
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return system_error(fmt::format("cannot use file descriptor {}", fd));
  return map_existing(own, fmt::format("file descriptor {}", fd));
}

Result<Segment> Segment::view(int fd) {
  const auto what = fmt::format("file descriptor {}", fd);
  struct stat status = {};
  if (fstat(fd, &status) != 0) return system_error("cannot examine " + what);
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) {
    return make_error(Status::bad_format, "{} is not a shared memory segment", what);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return system_error(fmt::format("cannot map {} bytes of {}", size, what));
  return Segment(static_cast<std::byte*>(memory), size, -1);
}

Result<Segment> Segment::create_named(const std::string& name, std::size_t size_bytes) {
  if (const auto valid = check_name(name); !valid) return valid.error();
  const auto size = checked_size(size_bytes);
  if (!size) return size.error();
  // O_EXCL also does not follow a symbolic link with this name.
  const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(fmt::format("cannot create segment '{}'", name));
  auto segment = map_reserved(fd, *size, fmt::format("segment '{}'", name));
  if (!segment) shm_unlink(name.c_str());
  return segment;
}

Result<Segment> Segment::map_reserved(int fd, std::size_t size_bytes, const std::string& what) {
  // The umask may have removed bits.
  if (fchmod(fd, 0600) != 0) {
    const Error error = system_error("cannot set the mode of " + what);
    close(fd);
    return error;
  }
  if (const auto reserved = reserve(fd, size_bytes, what); !reserved) {
    close(fd);
    return reserved.error();
  }
  return map(fd, size_bytes, what);
}

Result<Segment> Segment::unnamed(std::size_t size_bytes) {
  const auto size = checked_size(size_bytes);
  if (!size) return size.error();
  const int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return system_error("cannot create a file in /dev/shm (a tmpfs must be mounted there)");
  return map_reserved(fd, *size, "a segment in /dev/shm");
}

Result<Segment> Segment::reopen(int fd, std::size_t least_bytes) {
  const auto size = checked_size(least_bytes);
  if (!size) return size.error();
  const auto what = fmt::format("file descriptor {}", fd);
  struct stat status = {};
  if (fstat(fd, &status) != 0) return system_error("cannot use " + what);
  if (!S_ISREG(status.st_mode)) return make_error(Status::bad_format, "{} is not shared memory; pass a memfd", what);
  const int own = open(path_of(fd).c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) return system_error(fmt::format("cannot open {} again for reading and writing", what));
  if (static_cast<std::size_t>(status.st_size) < *size) {
    if (const auto reserved = reserve(own, *size, what); !reserved) {
      close(own);
      return reserved.error();
    }
  }
  return map_existing(own, what);
}

Result<bool> Segment::give_name(const std::string& name) {
  if (const auto valid = check_name(name); !valid) return valid.error();
  // An open file without a name can be linked through /proc (open(2), O_TMPFILE). Like O_EXCL, this fails if the name
  // exists, even as a dangling symbolic link.
  if (linkat(AT_FDCWD, path_of(fd_).c_str(), AT_FDCWD, path_of(name).c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
  if (errno == EEXIST) return false;
  return system_error(fmt::format("cannot name a segment '{}'", name));
}

Result<bool> Segment::take_name(const std::string& name, const std::function<void()>& last) {
  if (const auto valid = check_name(name); !valid) return valid.error();
  const auto path = path_of(name);
  if (!same_file(path, fd_)) return false;
  if (const auto locked = lock(); !locked) return locked.error();
  // The name can move to another file only after it was removed from this one, which requires the lock.
  const bool ours = same_file(path, fd_);
  if (ours && last) last();
  const bool removed = ours && unlink(path.c_str()) == 0;
  const Error error = ours && !removed ? system_error(fmt::format("cannot remove segment '{}'", name)) : Error{};
  unlock();
  if (error.status != Status::ok) return error;
  return removed;
}

Result<void> Segment::lock() {
  // Holders keep the lock for microseconds. A stopped holder must not block all others.
  constexpr int attempts = 1000;  // most of them a millisecond apart
  const PollingPause pause(1'000'000);
  for (int i = 0; i < attempts; ++i) {
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return {};
    if (errno != EWOULDBLOCK && errno != EINTR) return system_error("cannot lock a segment");
    pause.sleep();
  }
  return make_error(Status::timed_out, "another process holds the lock on a segment: is it stopped?");
}

void Segment::unlock() noexcept { flock(fd_, LOCK_UN); }

Result<void> Segment::grow(std::size_t size_bytes) {
  const auto size = checked_size(size_bytes);
  if (!size) return size.error();
  if (fd_ < 0) return make_error(Status::not_supported, "anonymous memory cannot grow");
  struct stat status = {};
  if (fstat(fd_, &status) != 0) return system_error("cannot examine a segment");
  const auto target = std::max(*size, static_cast<std::size_t>(status.st_size));
  if (const auto reserved = reserve(fd_, target, "a segment"); !reserved) return reserved.error();
  void* memory = mmap(nullptr, target, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) return system_error(fmt::format("cannot map {} bytes of a segment", target));
  munmap(data_, size_);
  data_ = static_cast<std::byte*>(memory);
  size_ = target;
  return {};
}

Result<Segment> Segment::open_named(const std::string& name) {
  if (const auto valid = check_name(name); !valid) return valid.error();
  const int fd = shm_open(name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
  if (fd < 0 && errno == ELOOP) {
    return make_error(Status::permission_denied, "'{}' is a symbolic link, not a segment; remove it", path_of(name));
  }
  const auto what = fmt::format("segment '{}'", name);
  if (fd < 0) return system_error("cannot open " + what);
  struct stat status = {};
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
      (status.st_mode & 07777) != 0600) {
    close(fd);
    return make_error(Status::permission_denied, "{} has mode {:04o}, not 0600: others may use it; remove '{}'", what,
                      status.st_mode & 07777, path_of(name));
  }
  return map_existing(fd, what);
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
