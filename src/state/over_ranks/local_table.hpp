// A rank's private table: a replica, a partition, or copies of other ranks' keys. Used only by its thread.
#pragma once

#include <memory>
#include <utility>

#include "smelt/map_group.hpp"
#include "state/over_ranks/message.hpp"

namespace smelt::state::over_ranks {

class LocalTable {
 public:
  static Result<LocalTable> create(const Geometry& geometry, bool strings, std::size_t capacity);

  bool get(Bytes key, Word hash, Target value) const noexcept;

  /// Executes the operation. `was`, unless empty, gets the former value if there was one and the answer contains it.
  MapAnswer apply(const Message& message, Word hash, Target was) noexcept;

  void put(Bytes key, Word hash, Bytes value) noexcept;
  void erase(Bytes key, Word hash) noexcept;

  void for_each(map_detail::VisitBytes visit, void* context) const;

  Word hash(Bytes key) const noexcept { return strings_ ? map_detail::hash_text(key) : hash_words_of(key); }

 private:
  LocalTable(std::shared_ptr<map_detail::Table> table, const Geometry& geometry, bool strings)
      : table_(std::move(table)), shape_{geometry}, strings_(strings), sum_(geometry.value_words) {}

  static const Word* words(Bytes bytes) noexcept { return reinterpret_cast<const Word*>(bytes.data()); }
  Word hash_words_of(Bytes key) const noexcept { return map_detail::hash_words(words(key), shape_.geometry.key_words); }
  MapAnswer apply_to_words(const Message& message, Word hash, Word* was) noexcept;
  MapAnswer apply_to_strings(const Message& message, Word hash, std::string* was) noexcept;

  std::shared_ptr<map_detail::Table> table_;
  map_detail::DynamicShape shape_;
  bool strings_;
  std::vector<Word> sum_;
};

}  // namespace smelt::state::over_ranks
