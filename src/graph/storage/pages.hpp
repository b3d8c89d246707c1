// Pages: the memory of one array. Page-aligned, initially zero, freed with its owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "smelt/error.hpp"

namespace smelt::graph {

/// False if the machine has less memory available. True if that is unknown.
bool fits_into_memory(double size_bytes) noexcept;

class Pages {
 public:
  /// The lifetime of the memory. Small pages are better for memory that is freed piece by piece.
  enum class Use { lasting, passing };

  /// Memory that lasts is on huge pages from this size on, where the kernel grants them.
  static constexpr std::size_t huge_from_bytes = std::size_t{4} << 20;

  Pages() = default;
  ~Pages() { release(); }
  Pages(Pages&& other) noexcept : Pages() { swap(other); }
  Pages& operator=(Pages&& other) noexcept {
    Pages(std::move(other)).swap(*this);
    return *this;
  }

  /// Allocates `size_bytes` zero bytes; 0 is allowed. Errors: out_of_memory, also if the machine has less available
  /// memory than requested.
  static Result<Pages> allocate(std::size_t size_bytes, Use use = Use::lasting);

  /// The first `size_bytes` bytes of an open file; what is written stays in this process. The file must have that many.
  static Result<Pages> map(int fd, std::size_t size_bytes);

  std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return size_bytes_; }

  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data_);
  }

  /// Frees the whole pages within [first, last) early; they read as zero afterwards.
  void discard(std::size_t first, std::size_t last) noexcept;

  void swap(Pages& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
  }

 private:
  Pages(std::byte* data, std::size_t size_bytes) noexcept : data_(data), size_bytes_(size_bytes) {}
  void release() noexcept;

  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace smelt::graph
