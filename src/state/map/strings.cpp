// The map of strings (strings_in_tables.hpp).
#include <array>

#include "state/strings_in_tables.hpp"

namespace smelt {
namespace {

using namespace map_detail;

bool too_long(std::string_view text) { return text.size() > StringMap::most_string_bytes; }

}  // namespace

Word map_detail::hash_text(std::string_view text) noexcept {
  Word hash = fold(text.size() ^ 0xa0761d6478bd642full, 0xe7037ed1a0b428dbull);
  for (std::size_t at = 0; at < text.size(); at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    hash = fold(hash ^ word, 0x8ebc6af09c88c6e3ull);
  }
  return hash;
}

Result<StringMap> StringMap::made(Result<std::shared_ptr<Table>> table) {
  if (!table) return table.error();
  return StringMap(std::move(*table));
}

Result<StringMap> StringMap::create(const MapOptions& options) {
  return made(map_detail::create(text::geometry, options, true));
}
Result<StringMap> StringMap::create_shared(const std::string& name, const MapOptions& options) {
  return made(map_detail::create_shared(name, text::geometry, options, true));
}
Result<StringMap> StringMap::attach(const std::string& name) {
  return made(map_detail::attach(name, text::geometry, true));
}
Result<StringMap> StringMap::open(const std::string& name) {
  return made(map_detail::open(name, text::geometry, true));
}

bool StringMap::get(std::string_view key, std::string* value) const {
  return text::get(*table_, key, hash_text(key), value);
}

std::optional<std::string> StringMap::get(std::string_view key) const {
  std::optional<std::string> value(std::in_place);
  if (!get(key, &*value)) value.reset();
  return value;
}

void StringMap::get_many(std::span<const std::string_view> keys, std::span<std::optional<std::string>> values) const {
  constexpr std::size_t batch = 64;
  std::array<Word, batch> hashes;
  for (; !keys.empty(); keys = keys.subspan(std::min(batch, keys.size()))) {
    const auto now = keys.first(std::min(batch, keys.size()));
    for (std::size_t i = 0; i < now.size(); ++i) {
      hashes[i] = hash_text(now[i]);
      table_->prefetch(text::TextShape{table_.get(), now[i], hashes[i]}, hashes[i]);
    }
    for (std::size_t i = 0; i < now.size(); ++i) text::fetch(*table_, now[i], hashes[i]);
    for (std::size_t i = 0; i < now.size(); ++i) {
      auto& value = values[i];
      if (!value) value.emplace();
      if (!text::get(*table_, now[i], hashes[i], &*value)) value.reset();
    }
    values = values.subspan(now.size());
  }
}

template <class Choose>
MapAnswer StringMap::set(std::string_view key, std::string_view value, Choose&& choose) noexcept {
  if (too_long(key) || too_long(value)) return {Status::invalid_argument};
  return text::set(*table_, key, hash_text(key), value, choose);
}

MapAnswer StringMap::put(std::string_view key, std::string_view value) noexcept {
  return set(key, value, [](Word) { return true; });
}

MapAnswer StringMap::insert(std::string_view key, std::string_view value) noexcept {
  return set(key, value, [](Word old) { return old == 0; });
}

MapAnswer StringMap::compare_exchange(std::string_view key, std::string& expected, std::string_view desired) {
  std::string now = expected;
  now.reserve(most_string_bytes);  // allocates before the chain is owned, when nothing may fail
  const MapAnswer answer = set(key, desired, [&](Word old) {
    if (old == 0) return false;
    if (text::has_value(*table_, old, expected)) return true;
    text::copy_value(*table_, old, now);
    return false;
  });
  if (answer.found && !answer.changed) expected = now;
  return answer;
}

MapAnswer StringMap::erase(std::string_view key) noexcept { return text::erase(*table_, key, hash_text(key)); }

std::vector<std::pair<std::string, std::string>> StringMap::snapshot() const {
  struct Reader {
    const Table& table;
    std::vector<std::pair<std::string, std::string>> all{};
  } reader{*table_};
  table_->snapshot(
      [](void* context, const Word* cell) {
        auto& [table, all] = *static_cast<Reader*>(context);
        std::string key, value;
        text::read_cell(table, cell, key, value);
        all.emplace_back(std::move(key), std::move(value));
      },
      &reader);
  return std::move(reader.all);
}

std::size_t StringMap::size() const {
  std::size_t count = 0;
  table_->for_each([](void* context, const Word*) { ++*static_cast<std::size_t*>(context); }, &count);
  return count;
}

}  // namespace smelt
