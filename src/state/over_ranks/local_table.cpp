#include "state/over_ranks/local_table.hpp"

#include <algorithm>

namespace smelt::state::over_ranks {
namespace {

using map_detail::AtomicWord;
using Act = map_detail::Table::Act;

template <class T>
void add_as(Word* sum, const Word* term) noexcept {
  T a, b;
  std::memcpy(&a, sum, sizeof a);
  std::memcpy(&b, term, sizeof b);
  a = static_cast<T>(a + b);
  std::memcpy(sum, &a, sizeof a);
}

// Signed numbers wrap around like unsigned ones.
void add(Number number, Word* sum, const Word* term) noexcept {
  switch (number) {
    case Number::none: break;
    case Number::i8:
    case Number::u8: return add_as<std::uint8_t>(sum, term);
    case Number::i16:
    case Number::u16: return add_as<std::uint16_t>(sum, term);
    case Number::i32:
    case Number::u32: return add_as<std::uint32_t>(sum, term);
    case Number::i64:
    case Number::u64: return add_as<std::uint64_t>(sum, term);
    case Number::f32: return add_as<float>(sum, term);
    case Number::f64: return add_as<double>(sum, term);
    case Number::f128: return add_as<long double>(sum, term);
  }
}

}  // namespace

Result<LocalTable> LocalTable::create(const Geometry& geometry, std::size_t capacity) {
  MapOptions options;
  options.algorithm = "shared";
  options.capacity = capacity;
  auto table = map_detail::create(geometry, options);
  if (!table) return table.error();
  return LocalTable(*std::move(table), geometry);
}

MapAnswer LocalTable::apply(const Message& message, Word hash, Word* was) noexcept {
  MapAnswer answer;
  if (message.operation == Operation::get) {
    answer.found = table_->get(shape_, message.key, hash, was != nullptr ? was : sum_.data());
    return answer;
  }
  const auto words = static_cast<std::size_t>(shape_.geometry.value_words);
  const auto decide = [&](const AtomicWord* old, const Word*& fresh) {
    answer.found = old != nullptr;
    std::fill(sum_.begin(), sum_.end(), 0);
    for (std::size_t i = 0; old != nullptr && i < words; ++i) sum_[i] = old[i].load(std::memory_order_relaxed);
    if (old != nullptr && was != nullptr) std::copy(sum_.begin(), sum_.end(), was);
    fresh = message.value;
    switch (message.operation) {
      case Operation::get: break;
      case Operation::put: return Act::write;
      case Operation::insert: return answer.found ? Act::keep : Act::write;
      case Operation::erase: return answer.found ? Act::erase : Act::keep;
      case Operation::compare_exchange:
        return answer.found && std::equal(sum_.begin(), sum_.end(), message.expected) ? Act::write : Act::keep;
      case Operation::fetch_add:
        add(message.number, sum_.data(), message.value);
        fresh = sum_.data();
        return Act::write;
    }
    return Act::keep;
  };
  const auto outcome = table_->update(shape_, message.key, hash, decide);
  answer.changed = outcome == map_detail::Table::Outcome::changed;
  if (outcome == map_detail::Table::Outcome::no_memory) answer.status = Status::out_of_memory;
  return answer;
}

void LocalTable::put(const Word* key, Word hash, const Word* value) noexcept {
  table_->update(shape_, key, hash, [&](const AtomicWord*, const Word*& fresh) {
    fresh = value;
    return Act::write;
  });
}

void LocalTable::erase(const Word* key, Word hash) noexcept {
  table_->update(shape_, key, hash,
                 [](const AtomicWord* old, const Word*&) { return old != nullptr ? Act::erase : Act::keep; });
}

}  // namespace smelt::state::over_ranks
