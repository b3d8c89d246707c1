// A rank's private table: a replica, a partition, or copies of other ranks' keys. Used only by its thread.
#pragma once

#include <memory>
#include <utility>

#include "smelt/map_group.hpp"
#include "state/over_ranks/message.hpp"

namespace smelt::state::over_ranks {

class LocalTable {
 public:
  static Result<LocalTable> create(const Geometry& geometry, std::size_t capacity);

  bool get(const Word* key, Word hash, Word* value) const noexcept { return table_->get(shape_, key, hash, value); }

  /// Executes the operation. `was`, unless null, gets the former value if there was one.
  MapAnswer apply(const Message& message, Word hash, Word* was) noexcept;

  void put(const Word* key, Word hash, const Word* value) noexcept;
  void erase(const Word* key, Word hash) noexcept;

  void for_each(map_detail::Table::Visit visit, void* context) const { table_->for_each(visit, context); }

  Word hash(const Word* key) const noexcept { return map_detail::hash_words(key, shape_.geometry.key_words); }

 private:
  LocalTable(std::shared_ptr<map_detail::Table> table, const Geometry& geometry)
      : table_(std::move(table)), shape_{geometry}, sum_(geometry.value_words) {}

  std::shared_ptr<map_detail::Table> table_;
  map_detail::DynamicShape shape_;
  std::vector<Word> sum_;
};

}  // namespace smelt::state::over_ranks
