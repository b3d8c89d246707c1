// Vectors whose elements share no cache line with other data. Small arrays that a rank reads in every operation would
// otherwise be adjacent to arbitrary heap data, and each write to that by another thread would cost a cache miss.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "base/cacheline.hpp"

namespace smelt {

template <class T>
struct CachelinePaddedAllocator {
  using value_type = T;

  CachelinePaddedAllocator() = default;
  template <class U>
  CachelinePaddedAllocator(const CachelinePaddedAllocator<U>&) noexcept {}

  T* allocate(std::size_t count) {
    const std::size_t bytes = (count * sizeof(T) + separation_bytes - 1) / separation_bytes * separation_bytes;
    return static_cast<T*>(::operator new (bytes, std::align_val_t{separation_bytes}));
  }
  void deallocate(T* elements, std::size_t) noexcept {
    ::operator delete (elements, std::align_val_t{separation_bytes});
  }
  bool operator==(const CachelinePaddedAllocator&) const = default;
};

template <class T>
using CachelinePaddedVector = std::vector<T, CachelinePaddedAllocator<T>>;

}  // namespace smelt
