// Shared memory segments: zeroed, page-aligned memory that threads or processes share. What is
// laid out in one refers to itself by offsets, since every process maps it where it likes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "smelt/error.hpp"

namespace smelt {

/// Owner of a mapping (and of its file descriptor, if it has one). Unmaps when destroyed.
class Segment {
 public:
  /// Memory for threads of this process and for children it forks later.
  static Result<Segment> anonymous(std::size_t size_bytes);

  /// Memory behind a file descriptor (memfd, close-on-exec) that can be passed to other processes.
  static Result<Segment> memfd(std::size_t size_bytes);

  /// Maps the memory behind a descriptor from memfd() of another process. The descriptor is
  /// duplicated; the caller keeps its own.
  static Result<Segment> from_fd(int fd);

  /// As from_fd(), to be read only: to write to it is a fault. Any regular file, of any owner.
  static Result<Segment> view(int fd);

  /// Maps what `fd` refers to through an open file of its own, after growing it to `least_bytes`
  /// if it is smaller (see grow()). Also accepts a memfd of size 0.
  static Result<Segment> reopen(int fd, std::size_t least_bytes);

  /// Memory under a name ("/name", as shm_open(3)): mode 0600; fails if the name exists.
  static Result<Segment> create_named(const std::string& name, std::size_t size_bytes);

  /// Memory in /dev/shm without a name: gone with its last owner, unless it is given one.
  static Result<Segment> unnamed(std::size_t size_bytes);

  /// Maps memory that create_named() or give_name() of any process of this user made. Refuses
  /// symbolic links, what is no regular file, other owners, and modes other than 0600.
  static Result<Segment> open_named(const std::string& name);

  /// Gives a segment from unnamed() its name, in one step: whoever opens the name finds what was
  /// written before. False: the name exists already.
  Result<bool> give_name(const std::string& name);

  /// Removes `name` if it means this very segment. False: it does not (any more). Any number of
  /// processes may try at once; none removes a newer segment under the same name. `last`: called right before,
  /// by one process at a time.
  Result<bool> take_name(const std::string& name, const std::function<void()>& last = {});

  /// Waits (a second at most) until nobody else holds the lock on the file behind the descriptor, and
  /// holds it until unlock() or death. For segments with an open file of their own: not from_fd().
  Result<void> lock();
  void unlock() noexcept;

  /// Makes the memory behind the descriptor at least this large and maps it again: data() moves.
  /// The memory is there afterwards: a full /dev/shm is an error here, not a signal at first use.
  Result<void> grow(std::size_t size_bytes);

  /// Removes the name; mappings stay.
  static Result<void> remove_named(const std::string& name);

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  int fd() const noexcept { return fd_; }  ///< -1 for anonymous memory

 private:
  Segment(std::byte* data, std::size_t size, int fd) noexcept : data_(data), size_(size), fd_(fd) {}
  static Result<Segment> map(int fd, std::size_t size_bytes, const std::string& what);
  static Result<Segment> map_existing(int fd, const std::string& what);
  static Result<Segment> map_reserved(int fd, std::size_t size_bytes, const std::string& what);
  void reset() noexcept;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int fd_ = -1;
};

}  // namespace smelt
