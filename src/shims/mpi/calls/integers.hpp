// Integers: an array of numbers that an MPI function was given; the functions for large counts have wider ones.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::shims::mpi {

class Integers {
 public:
  Integers() = default;
  Integers(const int* numbers) noexcept : numbers_(numbers), wide_(false) {}
  Integers(const long* numbers) noexcept : numbers_(numbers), wide_(true) {}
  Integers(const long long* numbers) noexcept : numbers_(numbers), wide_(true) {}

  std::int64_t operator[](int i) const noexcept {
    return wide_ ? static_cast<const std::int64_t*>(numbers_)[i] : static_cast<const int*>(numbers_)[i];
  }
  friend bool operator==(const Integers& a, std::nullptr_t) noexcept { return a.numbers_ == nullptr; }

 private:
  static_assert(sizeof(long) == sizeof(std::int64_t) && sizeof(long long) == sizeof(std::int64_t));
  const void* numbers_ = nullptr;
  bool wide_ = false;
};

}  // namespace smelt::shims::mpi
