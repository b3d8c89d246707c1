// Strings in a table, for StringMap and for the maps over ranks: a cell holds the hash of a key and the location of key
// and value, which are out of line.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "smelt/map.hpp"

namespace smelt::map_detail::text {

inline constexpr Geometry geometry = geometry_of(sizeof(Word), sizeof(Word));

struct Lengths {
  std::size_t key, value;
  /// False: the block no longer contains text.
  bool fit(std::size_t words) const { return 1 + words_of(key) + words_of(value) <= words; }
};
inline Lengths lengths_of(const AtomicWord* text) {
  const Word both = text->load(ordering::map_load_cell);
  return {both >> 32, both & 0xffff'ffff};
}

inline bool equal(const AtomicWord* words, std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    if (words[at / sizeof(Word)].load(ordering::map_load_cell) != word) return false;
  }
  return true;
}

inline void copy(std::string& to, const AtomicWord* words, std::size_t bytes) {
  to.resize(bytes);
  load_bytes(to.data(), words, bytes);
}

inline bool has_value(const Table& table, Word reference, std::string_view value) {
  std::size_t words = 0;
  const AtomicWord* text = table.text_of(reference, &words);
  const Lengths lengths = lengths_of(text);
  return lengths.fit(words) && lengths.value == value.size() && equal(text + 1 + words_of(lengths.key), value);
}

inline void copy_value(const Table& table, Word reference, std::string& value) {
  std::size_t words = 0;
  const AtomicWord* text = table.text_of(reference, &words);
  const Lengths lengths = lengths_of(text);
  if (lengths.fit(words)) copy(value, text + 1 + words_of(lengths.key), lengths.value);
}

struct TextShape {
  static constexpr Geometry geometry = text::geometry;
  static constexpr bool refers = true;
  const Table* table;
  std::string_view key;
  Word hash;

  bool has_key(const AtomicWord* cell) const noexcept {
    return has_key(cell, [](const AtomicWord*, std::size_t) {});
  }

 protected:
  /// `expect(text, words)` is called before the text is read.
  template <class Expect>
  bool has_key(const AtomicWord* cell, Expect&& expect) const noexcept {
    if (cell[0].load(ordering::map_load_cell) != hash) return false;
    std::size_t words = 0;
    const AtomicWord* text = table->text_of(cell[1].load(ordering::map_load_cell), &words);
    expect(text, words);
    const Lengths lengths = lengths_of(text);
    return lengths.fit(words) && lengths.key == key.size() && equal(text + 1, key);
  }
};

struct ReadingShape : TextShape {
  std::string* found;
  /// Where the value begins is known only once the lengths have been read, so its lines are asked for before.
  bool has_key(const AtomicWord* cell) const noexcept {
    return TextShape::has_key(
        cell, [](const AtomicWord* text, std::size_t words) { Table::fetch_lines<false>(text, words); });
  }
  void read(const Word* reference) const { copy_value(*table, *reference, *found); }
};

/// Finds what seems to be the key, without a look at its text, which is asked for.
struct FetchingShape : TextShape {
  bool has_key(const AtomicWord* cell) const noexcept {
    if (cell[0].load(ordering::map_load_cell) != hash) return false;
    std::size_t words = 0;
    const AtomicWord* text = table->text_of(cell[1].load(ordering::map_load_cell), &words);
    Table::fetch_lines<false>(text, words);
    return true;
  }
};

/// Asks for the text of a key that is about to be read.
inline void fetch(const Table& table, std::string_view key, Word hash) {
  table.find(FetchingShape{{&table, key, hash}}, &hash, hash,
             [](const AtomicWord*, const Unchanged& unchanged) { return unchanged(); });
}

inline bool get(const Table& table, std::string_view key, Word hash, std::string* value) {
  const ReadingShape shape{{&table, key, hash}, value};
  Word reference = 0;
  return table.get(shape, &hash, hash, &reference);
}

/// `choose(reference)` of the present value, 0 for none: whether `value` replaces it.
template <class Choose>
MapAnswer set(Table& table, std::string_view key, Word hash, std::string_view value, Choose&& choose) noexcept {
  MapAnswer answer;
  table.prefetch(TextShape{&table, key, hash}, hash);  // it arrives while the text is stored
  const Word fresh = table.store_text(key.data(), key.size(), value.data(), value.size());
  if (fresh == 0) {
    answer.status = Status::out_of_memory;
    return answer;
  }
  Word old = 0;
  const auto outcome =
      table.update(TextShape{&table, key, hash}, &hash, hash, [&](const AtomicWord* at, const void*& words) {
        old = at == nullptr ? 0 : at->load(std::memory_order_relaxed);
        words = &fresh;
        return choose(old) ? Table::Act::write : Table::Act::keep;
      });
  answer.found = old != 0;
  answer.changed = outcome == Table::Outcome::changed;
  if (outcome == Table::Outcome::no_memory) answer.status = Status::out_of_memory;
  const Word unused = answer.changed ? old : fresh;
  if (unused != 0) table.drop_text(unused);
  return answer;
}

inline MapAnswer erase(Table& table, std::string_view key, Word hash) noexcept {
  Word old = 0;
  const auto outcome = table.update(TextShape{&table, key, hash}, &hash, hash, [&](const AtomicWord* at, const void*&) {
    old = at == nullptr ? 0 : at->load(std::memory_order_relaxed);
    return old == 0 ? Table::Act::keep : Table::Act::erase;
  });
  MapAnswer answer;
  answer.found = old != 0;
  answer.changed = outcome == Table::Outcome::changed;
  if (outcome == Table::Outcome::no_memory) answer.status = Status::out_of_memory;
  if (answer.changed) table.drop_text(old);
  return answer;
}

/// Key and value of a cell that does not change meanwhile.
inline void read_cell(const Table& table, const Word* cell, std::string& key, std::string& value) {
  std::size_t words = 0;
  const AtomicWord* at = table.text_of(cell[1], &words);
  const Lengths lengths = lengths_of(at);
  if (lengths.fit(words)) copy(key, at + 1, lengths.key);  // otherwise its file has been damaged
  copy_value(table, cell[1], value);
}

}  // namespace smelt::map_detail::text
