#include "state/over_ranks/local_table.hpp"

#include <algorithm>

#include "state/strings_in_tables.hpp"

namespace smelt::state::over_ranks {
namespace {

using map_detail::AtomicWord;
using Act = map_detail::Table::Act;
namespace text = map_detail::text;

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

Result<LocalTable> LocalTable::create(const Geometry& geometry, bool strings, std::size_t capacity) {
  MapOptions options;
  options.algorithm = "shared";
  options.capacity = capacity;
  const Geometry& of_cells = strings ? text::geometry : geometry;
  auto table = map_detail::create(of_cells, options, strings);
  if (!table) return table.error();
  return LocalTable(*std::move(table), of_cells, strings);
}

bool LocalTable::get(Bytes key, Word hash, Target value) const noexcept {
  if (!strings_) return table_->get(shape_, words(key), hash, value.words);
  return text::get(*table_, key, hash, value.text);
}

MapAnswer LocalTable::apply(const Message& message, Word hash, Target was) noexcept {
  return strings_ ? apply_to_strings(message, hash, was.text) : apply_to_words(message, hash, was.words);
}

MapAnswer LocalTable::apply_to_strings(const Message& message, Word hash, std::string* was) noexcept {
  const Bytes key = message.key;
  switch (message.operation) {
    case Operation::get: return {Status::ok, text::get(*table_, key, hash, was), false};
    case Operation::put: return text::set(*table_, key, hash, message.value, [](Word) { return true; });
    case Operation::insert: return text::set(*table_, key, hash, message.value, [](Word old) { return old == 0; });
    case Operation::erase: return text::erase(*table_, key, hash);
    case Operation::compare_exchange:
      return text::set(*table_, key, hash, message.value, [&](Word old) {
        if (old == 0 || text::has_value(*table_, old, message.expected)) return old != 0;
        if (was != nullptr) text::copy_value(*table_, old, *was);
        return false;
      });
    case Operation::fetch_add: break;
  }
  return {Status::invalid_argument};
}

MapAnswer LocalTable::apply_to_words(const Message& message, Word hash, Word* was) noexcept {
  MapAnswer answer;
  const Word* const key = words(message.key);
  if (message.operation == Operation::get) {
    answer.found = table_->get(shape_, key, hash, was != nullptr ? was : sum_.data());
    return answer;
  }
  const auto count = static_cast<std::size_t>(shape_.geometry.value_words);
  const auto decide = [&](const AtomicWord* old, const void*& fresh) {
    answer.found = old != nullptr;
    std::fill(sum_.begin(), sum_.end(), 0);
    for (std::size_t i = 0; old != nullptr && i < count; ++i) sum_[i] = old[i].load(std::memory_order_relaxed);
    if (old != nullptr && was != nullptr) std::copy(sum_.begin(), sum_.end(), was);
    fresh = words(message.value);
    switch (message.operation) {
      case Operation::get: break;
      case Operation::put: return Act::write;
      case Operation::insert: return answer.found ? Act::keep : Act::write;
      case Operation::erase: return answer.found ? Act::erase : Act::keep;
      case Operation::compare_exchange:
        return answer.found && std::equal(sum_.begin(), sum_.end(), words(message.expected)) ? Act::write : Act::keep;
      case Operation::fetch_add:
        add(message.number, sum_.data(), words(message.value));
        fresh = sum_.data();
        return Act::write;
    }
    return Act::keep;
  };
  const auto outcome = table_->update(shape_, key, hash, decide);
  answer.changed = outcome == map_detail::Table::Outcome::changed;
  if (outcome == map_detail::Table::Outcome::no_memory) answer.status = Status::out_of_memory;
  return answer;
}

void LocalTable::put(Bytes key, Word hash, Bytes value) noexcept {
  Message message;
  message.operation = Operation::put;
  message.key = key;
  message.value = value;
  apply(message, hash, {});
}

void LocalTable::erase(Bytes key, Word hash) noexcept {
  Message message;
  message.operation = Operation::erase;
  message.key = key;
  apply(message, hash, {});
}

void LocalTable::for_each(map_detail::VisitBytes visit, void* context) const {
  struct Visitor {
    const LocalTable& table;
    map_detail::VisitBytes visit;
    void* context;
    std::string key{}, value{};
  } visitor{*this, visit, context};
  table_->for_each(
      [](void* passed, const Word* cell) {
        auto& [table, visit, context, key, value] = *static_cast<Visitor*>(passed);
        if (table.strings_) {
          text::read_cell(*table.table_, cell, key, value);
          return visit(context, key, value);
        }
        const Geometry& geometry = table.shape_.geometry;
        visit(context, bytes_of(cell, geometry.key_words), bytes_of(cell + geometry.key_words, geometry.value_words));
      },
      &visitor);
}

}  // namespace smelt::state::over_ranks
