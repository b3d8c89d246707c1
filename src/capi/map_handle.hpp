// A map of the C interface, for those of its files that use one.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include "smelt/map.hpp"

struct smelt_map {
  std::shared_ptr<smelt::map_detail::Table> table;
  smelt::map_detail::Geometry geometry;
};

namespace smelt::capi {

/// The words of a key or a value, padded with zeros.
template <std::size_t most_words>
class CopiedWords {
 public:
  CopiedWords(const void* bytes, std::size_t size, std::size_t words) noexcept {
    words_[words - 1] = 0;
    std::memcpy(words_.data(), bytes, size);
  }
  const map_detail::Word* data() const noexcept { return words_.data(); }

 private:
  std::array<map_detail::Word, most_words> words_;
};

}  // namespace smelt::capi
