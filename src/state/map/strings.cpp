// The map of strings: a cell holds the hash of a key and the location of key and value.
#include <algorithm>
#include <cstring>

#include "smelt/map.hpp"

namespace smelt {
namespace {

using namespace map_detail;

constexpr Geometry geometry = geometry_of(sizeof(Word), sizeof(Word));

Word hash_text(std::string_view text) {
  Word hash = fold(text.size() ^ 0xa0761d6478bd642full, 0xe7037ed1a0b428dbull);
  for (std::size_t at = 0; at < text.size(); at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    hash = fold(hash ^ word, 0x8ebc6af09c88c6e3ull);
  }
  return hash;
}

struct Lengths {
  std::size_t key, value;
  /// False: the block no longer contains text.
  bool fit(std::size_t words) const { return 1 + words_of(key) + words_of(value) <= words; }
};
Lengths lengths_of(const AtomicWord* text) {
  const Word both = text->load(ordering::map_load_cell);
  return {both >> 32, both & 0xffff'ffff};
}

bool equal(const AtomicWord* words, std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    if (words[at / sizeof(Word)].load(ordering::map_load_cell) != word) return false;
  }
  return true;
}

void copy(std::string& to, const AtomicWord* words, std::size_t bytes) {
  to.resize(bytes);
  load_bytes(to.data(), words, bytes);
}

bool has_value(const Table& table, Word reference, std::string_view value) {
  std::size_t words = 0;
  const AtomicWord* text = table.text_of(reference, &words);
  const Lengths lengths = lengths_of(text);
  return lengths.value == value.size() && equal(text + 1 + words_of(lengths.key), value);
}

void copy_value(const Table& table, Word reference, std::string& value) {
  std::size_t words = 0;
  const AtomicWord* text = table.text_of(reference, &words);
  const Lengths lengths = lengths_of(text);
  if (lengths.fit(words)) copy(value, text + 1 + words_of(lengths.key), lengths.value);
}

struct TextShape {
  static constexpr Geometry geometry = smelt::geometry;
  static constexpr bool refers = true;
  const Table* table;
  std::string_view key;
  Word hash;

  bool has_key(const AtomicWord* cell) const noexcept {
    if (cell[0].load(ordering::map_load_cell) != hash) return false;
    std::size_t words = 0;
    const AtomicWord* text = table->text_of(cell[1].load(ordering::map_load_cell), &words);
    const Lengths lengths = lengths_of(text);
    return lengths.fit(words) && lengths.key == key.size() && equal(text + 1, key);
  }
};

struct ReadingShape : TextShape {
  std::string* found;
  void read(const Word* reference) const { copy_value(*table, *reference, *found); }
};

bool too_long(std::string_view text) { return text.size() > StringMap::most_string_bytes; }

}  // namespace

Result<StringMap> StringMap::made(Result<std::shared_ptr<Table>> table) {
  if (!table) return table.error();
  return StringMap(std::move(*table));
}

Result<StringMap> StringMap::create(const MapOptions& options) {
  return made(map_detail::create(geometry, options, true));
}
Result<StringMap> StringMap::create_shared(const std::string& name, const MapOptions& options) {
  return made(map_detail::create_shared(name, geometry, options, true));
}
Result<StringMap> StringMap::attach(const std::string& name) { return made(map_detail::attach(name, geometry, true)); }
Result<StringMap> StringMap::open(const std::string& name) { return made(map_detail::open(name, geometry, true)); }

bool StringMap::get(std::string_view key, std::string* value) const {
  const Word hash = hash_text(key);
  const ReadingShape shape{{table_.get(), key, hash}, value};
  Word reference = 0;
  return table_->get(shape, &hash, hash, &reference);
}

std::optional<std::string> StringMap::get(std::string_view key) const {
  std::optional<std::string> value(std::in_place);
  if (!get(key, &*value)) value.reset();
  return value;
}

template <class Choose>
MapAnswer StringMap::set(std::string_view key, std::string_view value, Choose&& choose) noexcept {
  MapAnswer answer;
  if (too_long(key) || too_long(value)) {
    answer.status = Status::invalid_argument;
    return answer;
  }
  const Word hash = hash_text(key);
  const Word fresh = table_->store_text(key.data(), key.size(), value.data(), value.size());
  if (fresh == 0) {
    answer.status = Status::out_of_memory;
    return answer;
  }
  Word old = 0;
  const auto outcome =
      table_->update(TextShape{table_.get(), key, hash}, &hash, hash, [&](const AtomicWord* at, const Word*& words) {
        old = at == nullptr ? 0 : at->load(std::memory_order_relaxed);
        words = &fresh;
        return choose(old) ? Table::Act::write : Table::Act::keep;
      });
  answer.found = old != 0;
  answer.changed = outcome == Table::Outcome::changed;
  if (outcome == Table::Outcome::no_memory) answer.status = Status::out_of_memory;
  const Word unused = answer.changed ? old : fresh;
  if (unused != 0) table_->drop_text(unused);
  return answer;
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
    if (has_value(*table_, old, expected)) return true;
    copy_value(*table_, old, now);
    return false;
  });
  if (answer.found && !answer.changed) expected = now;
  return answer;
}

MapAnswer StringMap::erase(std::string_view key) noexcept {
  const Word hash = hash_text(key);
  Word old = 0;
  const auto outcome =
      table_->update(TextShape{table_.get(), key, hash}, &hash, hash, [&](const AtomicWord* at, const Word*&) {
        old = at == nullptr ? 0 : at->load(std::memory_order_relaxed);
        return old == 0 ? Table::Act::keep : Table::Act::erase;
      });
  MapAnswer answer;
  answer.found = old != 0;
  answer.changed = outcome == Table::Outcome::changed;
  if (outcome == Table::Outcome::no_memory) answer.status = Status::out_of_memory;
  if (answer.changed) table_->drop_text(old);
  return answer;
}

std::vector<std::pair<std::string, std::string>> StringMap::snapshot() const {
  struct Reader {
    const Table& table;
    std::vector<std::pair<std::string, std::string>> all{};
  } reader{*table_};
  table_->snapshot(
      [](void* context, const Word* cell) {
        auto& [table, all] = *static_cast<Reader*>(context);
        std::size_t words = 0;
        const AtomicWord* text = table.text_of(cell[1], &words);
        std::string key, value;
        copy(key, text + 1, lengths_of(text).key);
        copy_value(table, cell[1], value);
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
