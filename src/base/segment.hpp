// Shared memory segments: zeroed, page-aligned memory that threads or processes share. What is
// laid out in one refers to itself by offsets, since every process maps it where it likes.
#pragma once

#include <cstddef>
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

  /// Memory under a name ("/name", as shm_open(3)): mode 0600; fails if the name exists.
  static Result<Segment> create_named(const std::string& name, std::size_t size_bytes);

  /// Maps memory that create_named() of any process of this user made.
  static Result<Segment> open_named(const std::string& name);

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
  void reset() noexcept;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int fd_ = -1;
};

}  // namespace smelt
