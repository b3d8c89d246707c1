// The table behind smelt/map.hpp: its layout in memory and the operations on one bucket, inline so that they become
// part of the caller's code. Not an interface: include smelt/map.hpp.
//
//   bucket    | word | tags | link | cell 0 | cell 1 | ...          whole cache lines
//   word      | changes, 40 bits | .. | moved | live | valid cells, 8 bits | owner, 12 bits |
//   link      -> overflow bucket -> ...                             offsets from the start of the memory
//
// A key belongs to the chain that starts at one home bucket. Rules:
//   1. A writer owns the chain from the compare-and-swap of its number into `owner` of the home bucket's word until it
//      stores a word without an owner. A writer that finds the owner's process dead takes the chain over by the same
//      compare-and-swap.
//   2. A change becomes visible by one store: of its bucket's word (which cells are valid), of a value that has one word,
//      or of a link, to a new bucket or past one whose last key is erased. Before that, only invalid cells are written.
//      So a dead owner has changed all or nothing, and nothing has to be repaired.
//   3. A writer that releases or takes over a chain in which cells may have changed their meaning increments `changes`.
//   4. A reader writes nothing and never waits. The data that it has read after the home bucket's word is consistent if
//      `changes` and the flags are the same afterwards. At most one change, that of the present owner, became visible in
//      between, and its former cells are not reused before `changes` has been incremented. The same holds for the
//      memory of a bucket that has left the chain: a reader in it goes on by its link, which stays until then.
// An update of a longer value goes to another cell of the same bucket; one cell stays free for this.
//
// Growth: a table of twice the size is published in `next`. Its buckets i and i + n get the keys of bucket i, whose
// owner fills them, before any other process accesses them, and then sets `moved` in the old word. If the owner dies
// before, the next owner starts again. A word without `live` is in memory that is no longer a table: start over.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// A point at which a test kills a writer: before each store that others can see.
#ifdef SMELT_MAP_POINT
#define SMELT_MAP_HAS_POINTS true
#else
#define SMELT_MAP_HAS_POINTS false
#define SMELT_MAP_POINT(number) ((void)0)
#endif
// Long copies by wide moves; ThreadSanitizer sees only the words of the others.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define SMELT_MAP_WIDE 1
#endif

#ifdef SMELT_CHOSEN_ORDER  // tests choose the orders as the program starts
#define SMELT_ORDER SMELT_CHOSEN_ORDER
#else
#define SMELT_ORDER(name, order) inline constexpr auto name = std::memory_order_##order
#endif

namespace smelt::map_detail {

/// Memory orders that carry a guarantee, by name; tests weaken each (SMELT_ORDER).
namespace ordering {
SMELT_ORDER(map_commit, release);
SMELT_ORDER(map_look, acquire);
SMELT_ORDER(map_own, acquire);
SMELT_ORDER(map_store_cell, release);
SMELT_ORDER(map_load_cell, acquire);
}  // namespace ordering
#undef SMELT_ORDER

using Word = std::uint64_t;
using AtomicWord = std::atomic<Word>;
static_assert(AtomicWord::is_always_lock_free && sizeof(AtomicWord) == 8);

// ---- the word of a bucket -------------------------------------------------------------------

inline constexpr Word owner_mask = 0xfff;
inline constexpr int valid_shift = 12;
inline constexpr Word valid_mask = Word{0xff} << valid_shift;
inline constexpr Word live_bit = Word{1} << 20;
inline constexpr Word moved_bit = Word{1} << 21;
inline constexpr Word one_change = Word{1} << 24;

inline constexpr unsigned valid_cells(Word word) noexcept { return static_cast<unsigned>(word >> valid_shift) & 0xff; }
inline constexpr Word with_valid(Word word, unsigned cells) noexcept {
  return (word & ~valid_mask) | Word{cells} << valid_shift;
}

struct Bucket {
  static constexpr std::uint32_t header_words = 3;
  AtomicWord word;
  AtomicWord tags;  ///< one byte of each cell's hash
  AtomicWord link;  ///< offset of the next bucket of the chain; 0: none

  AtomicWord* cell(std::size_t index, std::size_t cell_words) noexcept {
    return reinterpret_cast<AtomicWord*>(this) + header_words + index * cell_words;
  }
  const AtomicWord* cell(std::size_t index, std::size_t cell_words) const noexcept {
    return const_cast<Bucket*>(this)->cell(index, cell_words);
  }
};

/// Tells whether a chain is still what it was (rule 4): then what a reader has copied out of it is consistent.
class Unchanged {
 public:
  Unchanged(const Bucket& home, Word word) noexcept : now_(&home.word), before_(word) {}
  bool operator()() const noexcept {
    return ((now_->load(std::memory_order_relaxed) ^ before_) & ~(owner_mask | valid_mask)) == 0;
  }

 private:
  const AtomicWord* now_;
  Word before_;  ///< read before anything else of the chain
};

// ---- words that others may access meanwhile --------------------------------------------------

inline constexpr std::size_t line_words = 8;

/// move_lines() for copies of many lines, by the widest moves of this CPU. With fewer instructions per line, the misses
/// of more lines overlap.
void move_many_lines(void* to, const void* from, std::size_t lines) noexcept;
inline constexpr std::size_t many_lines = 4;

/// Copies lines of eight words. x86 keeps the order of loads, and of stores, whatever their width, as if each word had
/// been moved with the orders map_load_cell and map_store_cell. A torn word does no harm: who reads checks `changes`
/// afterwards, and forgets what has changed.
inline void move_lines(void* to, const void* from, std::size_t lines) noexcept {
#ifdef SMELT_MAP_WIDE
  if (lines >= many_lines) return move_many_lines(to, from, lines);
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  for (; lines != 0; --lines, target += 64, source += 64) {
    asm volatile(
        "movups {(%1), %%xmm0|xmm0, [%1]}\n\t"
        "movups {16(%1), %%xmm1|xmm1, [%1+16]}\n\t"
        "movups {32(%1), %%xmm2|xmm2, [%1+32]}\n\t"
        "movups {48(%1), %%xmm3|xmm3, [%1+48]}\n\t"
        "movups {%%xmm0, (%0)|[%0], xmm0}\n\t"
        "movups {%%xmm1, 16(%0)|[%0+16], xmm1}\n\t"
        "movups {%%xmm2, 32(%0)|[%0+32], xmm2}\n\t"
        "movups {%%xmm3, 48(%0)|[%0+48], xmm3}"
        :
        : "r"(target), "r"(source)
        : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
  }
#else
  static_cast<void>(to), static_cast<void>(from), static_cast<void>(lines);
#endif
}
#ifdef SMELT_MAP_WIDE
inline constexpr bool moves_lines = true;
#else
inline constexpr bool moves_lines = false;
#endif

/// move_lines() to where others can see it.
inline void store_lines(void* to, const void* from, std::size_t lines) noexcept {
  if constexpr (SMELT_MAP_HAS_POINTS) {  // a writer may die between any two lines
    const auto move = lines >= many_lines ? move_many_lines : move_lines;
    for (std::size_t i = 0; i < lines; ++i) {
      SMELT_MAP_POINT(24);
      move(static_cast<std::byte*>(to) + i * 64, static_cast<const std::byte*>(from) + i * 64, 1);
    }
  } else {
    move_lines(to, from, lines);
  }
}

/// memcpy of private memory by the moves of load_bytes(): a load of what those have just stored need not wait until it
/// is in the cache.
inline void copy_alike(void* to, const void* from, std::size_t bytes) noexcept {
  const std::size_t lines = moves_lines ? bytes / 64 : 0;
  move_lines(to, from, lines);
  std::memcpy(static_cast<std::byte*>(to) + lines * 64, static_cast<const std::byte*>(from) + lines * 64,
              bytes - lines * 64);
}

/// Copies text out of words, the first `bytes` bytes. Pairs with store_text().
inline void load_bytes(void* to, const AtomicWord* from, std::size_t bytes) noexcept {
  auto* target = static_cast<std::byte*>(to);
  if (moves_lines && bytes >= 64) {
    const std::size_t lines = bytes / 64;
    move_lines(target, from, lines);
    target += lines * 64, from += lines * line_words, bytes -= lines * 64;
  }
  for (; bytes >= sizeof(Word); bytes -= sizeof(Word), target += sizeof(Word), ++from) {
    const Word word = from->load(ordering::map_load_cell);
    std::memcpy(target, &word, sizeof word);
  }
  if (bytes == 0) return;
  const Word word = from->load(ordering::map_load_cell);
  std::memcpy(target, &word, bytes);
}

/// Copies a long value of the table, if it is unchanged afterwards; otherwise returns false, and `to` is as before.
/// Up to 1024 bytes are in registers until then, on CPUs that have enough of them. Otherwise the former contents of
/// `to` are saved in `former`, which has as much room; without it (null), `to` has any contents after false. `bytes`:
/// at least many_lines lines.
bool load_if_unchanged(void* to, const AtomicWord* from, std::size_t bytes, const Unchanged& unchanged,
                       void* former) noexcept;

/// Copies text into words; pads the last one with zeros. Pairs with load_bytes().
inline void store_bytes(AtomicWord* to, const void* from, std::size_t bytes) noexcept {
  const auto* source = static_cast<const std::byte*>(from);
  if (moves_lines && bytes >= 64) {
    const std::size_t lines = bytes / 64;
    store_lines(to, source, lines);
    to += lines * line_words, source += lines * 64, bytes -= lines * 64;
  }
  for (; bytes >= sizeof(Word); bytes -= sizeof(Word), source += sizeof(Word)) {
    Word word;
    std::memcpy(&word, source, sizeof word);
    (to++)->store(word, ordering::map_store_cell);
    SMELT_MAP_POINT(22);
  }
  if (bytes == 0) return;
  Word word = 0;
  std::memcpy(&word, source, bytes);
  to->store(word, ordering::map_store_cell);
}

// ---- shapes ---------------------------------------------------------------------------------

/// Numbers of words and cells; derived from the sizes of key and value.
struct Geometry {
  std::uint32_t key_bytes = 0, value_bytes = 0;
  std::uint32_t key_words = 0, value_words = 0;
  std::uint32_t cells = 0;  ///< of a bucket, at most 8
  std::uint32_t spare = 0;  ///< of them stay free when keys are added
  std::uint32_t bucket_words = 0;

  bool operator==(const Geometry&) const = default;
};

inline constexpr std::uint32_t words_of(std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + sizeof(Word) - 1) / sizeof(Word));
}

/// The fewest cache lines that hold three keys. If these are many, seven keys: then more of the cells are in use, and
/// the table takes less memory. Not for still longer values, of which few keys would take much memory.
inline constexpr Geometry geometry_of(std::size_t key_bytes, std::size_t value_bytes) noexcept {
  Geometry made;
  made.key_bytes = static_cast<std::uint32_t>(key_bytes);
  made.value_bytes = static_cast<std::uint32_t>(value_bytes);
  made.key_words = words_of(key_bytes);
  made.value_words = words_of(value_bytes);
  made.spare = made.value_words > 1 ? 1 : 0;
  const std::uint32_t cell_words = made.key_words + made.value_words;
  constexpr std::uint32_t words = line_words;
  const std::uint32_t least = Bucket::header_words + (3 + made.spare) * cell_words;
  made.bucket_words = (least + words - 1) / words * words;
  made.cells = (made.bucket_words - Bucket::header_words) / cell_words;
  if (made.cells > 8) made.cells = 8;
  constexpr std::uint32_t many = 8 * words, longest_cell = 32 * words;
  if (made.bucket_words > many && cell_words <= longest_cell) {
    made.cells = 8;
    made.bucket_words = (Bucket::header_words + made.cells * cell_words + words - 1) / words * words;
  }
  return made;
}

// Optional members of a shape:
//   has_key(cell)  whether the cell is of the key that is looked for; else its words are compared
//   read(value)    called of a value that has been found; what it reads counts if get() then returns true
//   refers         values refer to memory that is given back when they change

/// Sizes that the compiler knows.
template <std::size_t KeyBytes, std::size_t ValueBytes>
struct FixedShape {
  static constexpr Geometry geometry = geometry_of(KeyBytes, ValueBytes);
};
/// Sizes that it does not know.
struct DynamicShape {
  Geometry geometry;
};

template <class Shape>
constexpr std::uint32_t cell_words(const Shape& shape) noexcept {
  return shape.geometry.key_words + shape.geometry.value_words;
}

// ---- hashing --------------------------------------------------------------------------------

__extension__ typedef unsigned __int128 DoubleWord;  // of which -Wpedantic would warn

inline Word fold(Word a, Word b) noexcept {
  const auto product = static_cast<DoubleWord>(a) * b;
  return static_cast<Word>(product) ^ static_cast<Word>(product >> 64);
}

/// The same in every process. Low bits choose the bucket, the highest byte is the tag.
template <class AnyWord>
Word hash_words(const AnyWord* key, std::size_t words) noexcept {
  Word hash = fold(key[0] ^ 0xa0761d6478bd642full, 0xe7037ed1a0b428dbull);
  for (std::size_t i = 1; i < words; ++i) hash = fold(hash ^ key[i], 0x8ebc6af09c88c6e3ull);
  return hash;
}

inline Word tag_of(Word hash) noexcept { return hash >> 56; }

/// A bit for each cell that has the tag, and perhaps for others.
inline unsigned cells_with_tag(Word tags, Word tag) noexcept {
  constexpr Word ones = 0x0101010101010101ull;
  const Word difference = tags ^ tag * ones;
  const Word zeros = (difference - ones) & ~difference & 0x8080808080808080ull;
  return static_cast<unsigned>((zeros >> 7) * 0x0102040810204080ull >> 56);
}

// ---- what all processes share ---------------------------------------------------------------

inline constexpr int most_doublings = 48;
inline constexpr std::size_t most_members = owner_mask;

/// At the start of the memory. All zero is a table without buckets.
struct Header {
  Word magic;
  std::uint32_t layout;  ///< its version
  std::uint32_t flags;
  Geometry geometry;
  Word reach;       ///< bytes of address space: half for this header and blocks, half for tables
  Word first_log2;  ///< of the smallest table
  Word capacity;    ///< that was asked for
  Word namespaces;  ///< in which process numbers mean something
  char name[192];

  alignas(128) AtomicWord active;  ///< offset of the table | log2 of its buckets
  AtomicWord next;                 ///< the same of the table that the keys move to; 0: they do not move

  alignas(128) AtomicWord used;  ///< bytes that are given out
  AtomicWord backed;             ///< bytes backed by memory
  AtomicWord free_lists[32];     ///< of blocks, by size: | times changed | offset / 64 |

  /// Blocks that were freed last: a thread takes them from the line to which it gives them, without the others. By
  /// size class, mod 8: a reference; 0: none
  struct alignas(64) Stash {
    AtomicWord blocks[8];
  };
  Stash stashes[32];

  // By log2 of a table's buckets:
  alignas(128) AtomicWord overflow[most_doublings];  ///< overflow buckets that updates added, less those they removed
  AtomicWord claimed[most_doublings];                ///< buckets that some process has claimed to move
  AtomicWord checked[most_doublings];                ///< buckets that have moved, from the first on
  AtomicWord takeovers;                              ///< chains taken over from the dead
  AtomicWord refused;                                ///< number of failed allocations

  alignas(128) AtomicWord members[most_members];  ///< processes, by owner - 1; 0: free
};

inline constexpr Word log2_mask = 0x3f;
inline constexpr std::uint32_t is_kept = 1;      ///< flags: outlives its last process
inline constexpr std::uint32_t has_strings = 2;  ///< cells contain a hash and the location of key and value

// ---- one process's view ---------------------------------------------------------------------

/// How many times this process is a fork of the one that loaded the library.
extern std::atomic<std::uint32_t> forks;

class Table {
 public:
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  virtual ~Table() = default;

  std::byte* base() const noexcept { return base_; }
  Header& header() const noexcept { return *reinterpret_cast<Header*>(base_); }
  Bucket* at(Word offset) const noexcept { return reinterpret_cast<Bucket*>(base_ + offset); }

  template <class Shape>
  Bucket* home(const Shape& shape, Word table, Word hash) const noexcept {
    const Word mask = (Word{1} << (table & log2_mask)) - 1;
    return at((table & ~log2_mask) + (hash & mask) * shape.geometry.bucket_words * sizeof(Word));
  }

  template <class Shape>
  void prefetch(const Shape& shape, Word hash) const noexcept {
    const auto* line =
        reinterpret_cast<const char*>(home(shape, header().active.load(std::memory_order_relaxed), hash));
    __builtin_prefetch(line);
    if (shape.geometry.bucket_words > 8) __builtin_prefetch(line + 64);
  }

  /// Of a bucket whose first line is about to be read: the others, so that a cell is there as soon as its tag. Of a
  /// large bucket only the second one, because most of the others would not be read.
  template <class Shape>
  static void fetch_rest(const Shape& shape, Bucket* bucket) noexcept {
    constexpr std::size_t few = 8;
    const std::size_t lines = shape.geometry.bucket_words / line_words;
    const std::size_t fetched = lines <= few ? lines : 2;
    for (std::size_t i = 1; i < fetched; ++i) __builtin_prefetch(reinterpret_cast<const char*>(bucket) + 64 * i);
  }

  /// Calls `copy(words, unchanged)` with the words of a key's value. They may change meanwhile: `copy` returns what
  /// `unchanged` says after it has read them. If false, it is called again, or the key is gone. Returns false if there
  /// is no such key.
  template <class Shape, class Copy>
  bool find(const Shape& shape, const Word* key, Word hash, Copy&& copy) const noexcept;

  /// Copies the value of a key to `value`. False: there is no such key.
  template <class Shape>
  bool get(const Shape& shape, const Word* key, Word hash, Word* value) const noexcept;

  /// Of a chain whose home bucket has been read: the cell that an update is likely to fill, if its value is long.
  template <class Shape>
  static void fetch_free(const Shape& shape, Bucket* bucket, Word word) noexcept {
    if (shape.geometry.value_words < many_lines * line_words) return;
    const int cell = free_cell(shape, valid_cells(word), 0);
    if (cell < 0) return;
    fetch_lines<true>(bucket->cell(static_cast<std::size_t>(cell), cell_words(shape)), cell_words(shape));
  }

  /// Asks for the lines of so many words, so that their misses overlap; for writing or for reading. Always inline: GCC
  /// drops calls of functions that do nothing else.
  template <bool for_writing>
  [[gnu::always_inline]] static void fetch_lines(const AtomicWord* from, std::size_t words) noexcept {
    const auto* const begin = reinterpret_cast<const char*>(from);
    const std::size_t bytes = words * sizeof(Word);
    for (std::size_t at = 0; at < bytes && at < most_fetched_bytes; at += 64) {
      __builtin_prefetch(begin + at, for_writing);
    }
  }
  static constexpr std::size_t most_fetched_bytes = 2048;

  /// The action of an update after the search for its key.
  enum class Act { keep, write, erase };
  enum class Outcome { kept, changed, no_memory };

  /// Owns the chain of the key and calls `decide(old, fresh)`: `old` points to the words of the value, null if there is
  /// no such key; on Act::write, `fresh` points to the bytes of the new one.
  template <class Shape, class Decide>
  Outcome update(const Shape& shape, const Word* key, Word hash, Decide&& decide) noexcept;

  struct OwnedChain {
    Bucket* home;
    Word word;  ///< before it was owned
    Word table;
  };

  /// Owns the chain of a hash. False: this process cannot be told from others any more (after a fork).
  template <class Shape>
  bool own(const Shape& shape, Word hash, OwnedChain& held) noexcept;

  /// Gives the chain up; `cells`: of the home bucket. `changed`: some cell of the chain means something else now.
  void disown(const OwnedChain& held, unsigned cells, bool changed) noexcept {
    SMELT_MAP_POINT(1);
    held.home->word.store(with_valid(held.word, cells) + (changed ? one_change : 0), ordering::map_commit);
  }

  /// A string and its value out of line; 0: no memory. A reference is | size class | offset / 64 |; the text begins
  /// with its lengths, | key | value |.
  Word store_text(const char* key, std::size_t key_bytes, const char* value, std::size_t value_bytes) noexcept;
  /// Frees that memory once no cell refers to it.
  void drop_text(Word reference) noexcept;
  /// The number of words that can be read safely even if the memory has been reused: a reader that does not own the
  /// chain may find any contents, and detects this afterwards.
  const AtomicWord* text_of(Word reference, std::size_t* words) const noexcept;

  // Below: of the whole map. `visit` gets the words of a cell.
  using Visit = void (*)(void* context, const Word* cell);

  /// Visits each key once that exists during the whole call; keys that are added or erased meanwhile may be visited.
  /// Never waits.
  void for_each(Visit visit, void* context) const;

  /// Visits all keys at one moment. Writers wait meanwhile, readers do not.
  bool snapshot(Visit visit, void* context);

  struct Statistics {
    Word buckets = 0, overflow_buckets = 0, keys = 0, longest_chain = 0;
    Word bytes = 0;  ///< of memory given out
    bool growing = false;
    Word takeovers = 0, refused = 0, members = 0;
  };
  Statistics statistics() const;

 protected:
  Table() = default;

  /// Every word of a cell is atomic, because a reader may access it while it is rewritten.
  static void store_words(AtomicWord* to, const Word* from, std::size_t words) noexcept {
    std::size_t i = 0;
    if (moves_lines && words >= line_words) {
      i = words / line_words * line_words;
      store_lines(to, from, words / line_words);
    }
    for (; i < words; ++i) {
      if (i != 0) SMELT_MAP_POINT(22);
      to[i].store(from[i], ordering::map_store_cell);  // pairs with load_words()
    }
  }
  static void load_words(Word* to, const AtomicWord* from, std::size_t words) noexcept {
    std::size_t i = 0;
    if (moves_lines && words >= line_words) {
      i = words / line_words * line_words;
      move_lines(to, from, words / line_words);
    }
    for (; i < words; ++i) to[i] = from[i].load(ordering::map_load_cell);  // pairs with store_words()
  }
  static bool equal_words(const AtomicWord* cell, const Word* key, std::size_t words) noexcept {
    for (std::size_t i = 0; i < words; ++i) {
      if (cell[i].load(ordering::map_load_cell) != key[i]) return false;
    }
    return true;
  }

  template <class Shape>
  static int find_cell(const Shape& shape, Bucket* bucket, unsigned valid, const Word* key, Word hash) noexcept {
    unsigned candidates = cells_with_tag(bucket->tags.load(ordering::map_load_cell), tag_of(hash)) & valid;
    for (; candidates != 0; candidates &= candidates - 1) {
      const int index = __builtin_ctz(candidates);
      const AtomicWord* cell = bucket->cell(static_cast<std::size_t>(index), cell_words(shape));
      if constexpr (requires { shape.has_key(cell); }) {
        if (shape.has_key(cell)) return index;
      } else {
        if (equal_words(cell, key, shape.geometry.key_words)) return index;
      }
    }
    return -1;
  }

  template <class Shape>
  void fill_cell(const Shape& shape, Bucket* bucket, int index, const Word* key, Word hash,
                 const void* value) noexcept {
    SMELT_MAP_POINT(2);
    AtomicWord* cell = bucket->cell(static_cast<std::size_t>(index), cell_words(shape));
    store_words(cell, key, shape.geometry.key_words);
    SMELT_MAP_POINT(3);
    store_bytes(cell + shape.geometry.key_words, value, shape.geometry.value_bytes);
    SMELT_MAP_POINT(4);
    set_tag(bucket, index, hash);
  }
  static void set_tag(Bucket* bucket, int index, Word hash) noexcept {
    const int shift = 8 * index;
    const Word others = bucket->tags.load(std::memory_order_relaxed) & ~(Word{0xff} << shift);
    bucket->tags.store(others | tag_of(hash) << shift, ordering::map_store_cell);
  }

  /// The first cell that may take a new key, -1: none. `spare` stay free.
  template <class Shape>
  static int free_cell(const Shape& shape, unsigned valid, unsigned spare) noexcept {
    const unsigned free = ~valid & ((1u << shape.geometry.cells) - 1);
    return static_cast<unsigned>(__builtin_popcount(free)) > spare ? __builtin_ctz(free) : -1;
  }

  struct Spot {
    Bucket* bucket;
    unsigned valid;
    int cell;        ///< -1: the key is not there
    Bucket* before;  ///< the one that links to the bucket; null: it is the home
  };
  /// Where a key is, in a chain that is owned.
  template <class Shape>
  Spot find_owned(const Shape& shape, const OwnedChain& held, const Word* key, Word hash) const noexcept;
  /// A key that is not in the chain. Gives the chain up.
  template <class Shape>
  Outcome add(const Shape& shape, const OwnedChain& held, const Word* key, Word hash, const void* value) noexcept;
  /// Makes these the valid cells of a bucket, and gives the chain up.
  void commit(const OwnedChain& held, Bucket* bucket, unsigned valid) noexcept;
  /// Erases the key of a cell. Gives the chain up.
  void remove(const OwnedChain& held, const Spot& spot) noexcept;

  // The rest is in the library.
  bool own_slowly(Bucket* bucket, Word& word) noexcept;  ///< waits for the owner's end, or takes over from a dead one
  bool renew() noexcept;                                 ///< this process is a fork: gets a number of its own
  bool join() noexcept;                                  ///< takes a number
  void leave() noexcept;
  Word table_of(Word log2) const noexcept;  ///< where a table of that size lies
  Word follow(Word table) const noexcept { return table_of((table & log2_mask) + 1); }
  Word table_bytes(Word table) const noexcept;
  Word end_of(Word table) const noexcept { return (table & ~log2_mask) + table_bytes(table); }
  Bucket* bucket_of(Word table, Word index) const noexcept;
  Bucket* new_bucket() noexcept;  ///< empty, live; null: no memory
  /// remove() of the last key of an overflow bucket.
  void remove_bucket(const OwnedChain& held, const Spot& spot) noexcept;
  void overflowed(Word table) noexcept;  ///< a chain has grown longer: perhaps the table is to grow
  void help() noexcept;                  ///< moves some buckets
  bool move(Word table, Word index) noexcept;
  bool spread(Bucket* child, AtomicWord* cell, Word hash) noexcept;
  void finish(Word table, Word next) noexcept;
  Word hash_of(const AtomicWord* cell) const noexcept;
  bool own_bucket(Bucket* bucket, OwnedChain& held) noexcept;  ///< false: it has moved
  void own_all(Word table, Word index);
  void reset(Bucket* child) noexcept;
  void give_chain(Word link) noexcept;
  void disown_all(Word table, Word index);
  void read_all(Word table, Word index, Visit visit, void* context) const;
  bool is_dead(Word owner) const noexcept;
  void sweep(Word table) noexcept;  ///< takes over what the dead own
  void sweep_all() noexcept;        ///< the same of all tables, before this process owns anything

  Word take_block(int size_class) noexcept;  ///< offset of memory; 0: there is none
  void give_block(Word offset, int size_class) noexcept;
  void push_block(Word offset, int size_class) noexcept;
  Word take_stashed(int size_class) noexcept;
  bool back(Word from, Word to) noexcept;  ///< makes sure that there is memory
  /// Whether the first free blocks lie where blocks can be.
  bool has_possible_blocks() const noexcept;

  /// Whether all that the operations follow is in the memory, and without circles: chains, free blocks, strings. Not
  /// while others change the map. Cost: reads the table and all overflow buckets.
  bool can_be_followed() const;
  class Walk;

  std::byte* base_ = nullptr;
  int fd_ = -1;          ///< of the memory; -1: of this process alone
  bool shared_ = false;  ///< with other processes
  std::atomic<Word> owner_{0};
  std::atomic<std::uint32_t> forks_seen_{0};
};

// ---- operations -----------------------------------------------------------------------------

template <class Shape>
bool Table::get(const Shape& shape, const Word* key, Word hash, Word* value) const noexcept {
  return find(shape, key, hash, [&](const AtomicWord* words, const Unchanged& unchanged) {
    load_words(value, words, shape.geometry.value_words);
    if constexpr (requires { shape.read(value); }) shape.read(value);
    return unchanged();
  });
}

template <class Shape, class Copy>
bool Table::find(const Shape& shape, const Word* key, Word hash, Copy&& copy) const noexcept {
  Word table = header().active.load(ordering::map_look);  // pairs with the release of whoever made it active
  for (;;) {
    Bucket* const first = home(shape, table, hash);
    fetch_rest(shape, first);
    const Word word = first->word.load(ordering::map_look);  // pairs with disown(), commit()
    if ((word & (live_bit | moved_bit)) != live_bit) [[unlikely]] {
      table = (word & live_bit) != 0 ? follow(table) : header().active.load(ordering::map_look);
      continue;
    }
    const Unchanged unchanged(*first, word);
    Bucket* bucket = first;
    unsigned valid = valid_cells(word);
    for (;;) {
      const int cell = find_cell(shape, bucket, valid, key, hash);
      if (cell >= 0) {
        const AtomicWord* const at_cell = bucket->cell(static_cast<std::size_t>(cell), cell_words(shape));
        if (!copy(at_cell + shape.geometry.key_words, unchanged)) break;
        return true;
      }
      const Word link = bucket->link.load(ordering::map_load_cell);  // pairs with add(); and before unchanged()
      if (!unchanged()) break;
      if (link == 0) return false;
      bucket = at(link);
      valid = valid_cells(bucket->word.load(ordering::map_look));  // pairs with commit()
    }
  }
}

template <class Shape>
bool Table::own(const Shape& shape, Word hash, OwnedChain& held) noexcept {
  if (forks_seen_.load(std::memory_order_relaxed) != forks.load(std::memory_order_relaxed)) [[unlikely]] {
    if (!renew()) return false;
  }
  const Word owner = owner_.load(std::memory_order_relaxed);
  held.table = header().active.load(ordering::map_look);
  for (;;) {
    held.home = home(shape, held.table, hash);
    fetch_rest(shape, held.home);
    held.word = held.home->word.load(std::memory_order_relaxed);
    if ((held.word & (live_bit | moved_bit)) != live_bit) [[unlikely]] {
      held.word = held.home->word.load(ordering::map_look);
      if ((held.word & moved_bit) != 0) held.table = follow(held.table);
      if ((held.word & live_bit) == 0) held.table = header().active.load(ordering::map_look);
      continue;
    }
    if ((held.word & owner_mask) != 0) [[unlikely]] {
      if (own_slowly(held.home, held.word)) return true;
      continue;
    }
    // Acquire: pairs with disown() of the owner before. What it wrote is seen here.
    if (held.home->word.compare_exchange_weak(held.word, held.word | owner, ordering::map_own,
                                              std::memory_order_relaxed)) {
      return true;
    }
  }
}

template <class Shape>
Table::Spot Table::find_owned(const Shape& shape, const OwnedChain& held, const Word* key, Word hash) const noexcept {
  Spot spot{held.home, valid_cells(held.word), -1, nullptr};
  for (;;) {
    spot.cell = find_cell(shape, spot.bucket, spot.valid, key, hash);
    if (spot.cell >= 0) return spot;
    const Word link = spot.bucket->link.load(std::memory_order_relaxed);
    if (link == 0) return spot;
    spot.before = spot.bucket;
    spot.bucket = at(link);
    spot.valid = valid_cells(spot.bucket->word.load(std::memory_order_relaxed));
  }
}

inline void Table::commit(const OwnedChain& held, Bucket* bucket, unsigned valid) noexcept {
  if (bucket == held.home) {
    disown(held, valid, true);
    return;
  }
  SMELT_MAP_POINT(5);
  bucket->word.store(with_valid(live_bit, valid), ordering::map_commit);  // pairs with get()
  SMELT_MAP_POINT(6);
  disown(held, valid_cells(held.word), true);
}

inline void Table::remove(const OwnedChain& held, const Spot& spot) noexcept {
  const unsigned rest = spot.valid & ~(1u << spot.cell);
  if (rest != 0 || spot.before == nullptr) return commit(held, spot.bucket, rest);
  remove_bucket(held, spot);
}

template <class Shape>
Table::Outcome Table::add(const Shape& shape, const OwnedChain& held, const Word* key, Word hash,
                          const void* value) noexcept {
  Bucket* bucket = held.home;
  unsigned valid = valid_cells(held.word);
  for (;;) {
    const int cell = free_cell(shape, valid, shape.geometry.spare);
    if (cell >= 0) {
      fill_cell(shape, bucket, cell, key, hash, value);
      commit(held, bucket, valid | 1u << cell);
      return Outcome::changed;
    }
    const Word link = bucket->link.load(std::memory_order_relaxed);
    if (link == 0) break;
    bucket = at(link);
    valid = valid_cells(bucket->word.load(std::memory_order_relaxed));
  }
  Bucket* const fresh = new_bucket();
  if (fresh == nullptr) {
    disown(held, valid_cells(held.word), false);
    return Outcome::no_memory;
  }
  fill_cell(shape, fresh, 0, key, hash, value);
  fresh->word.store(with_valid(live_bit, 1), ordering::map_commit);
  SMELT_MAP_POINT(7);
  // Pairs with get(): whoever follows the link sees the bucket.
  bucket->link.store(static_cast<Word>(reinterpret_cast<std::byte*>(fresh) - base_), ordering::map_store_cell);
  SMELT_MAP_POINT(8);
  disown(held, valid_cells(held.word), true);
  overflowed(held.table);
  return Outcome::changed;
}

template <class Shape, class Decide>
Table::Outcome Table::update(const Shape& shape, const Word* key, Word hash, Decide&& decide) noexcept {
  OwnedChain held;
  if (!own(shape, hash, held)) return Outcome::no_memory;
  fetch_free(shape, held.home, held.word);
  const Spot spot = find_owned(shape, held, key, hash);
  AtomicWord* old = nullptr;
  if (spot.cell >= 0) {
    old = spot.bucket->cell(static_cast<std::size_t>(spot.cell), cell_words(shape)) + shape.geometry.key_words;
  }
  const void* fresh = nullptr;
  Outcome outcome = Outcome::changed;
  switch (decide(static_cast<const AtomicWord*>(old), fresh)) {
    case Act::keep: disown(held, valid_cells(held.word), false); return Outcome::kept;
    case Act::erase: remove(held, spot); break;
    case Act::write:
      if (old == nullptr) {
        outcome = add(shape, held, key, hash, fresh);
      } else if (shape.geometry.value_words <= 1) {
        SMELT_MAP_POINT(9);
        store_bytes(old, fresh, shape.geometry.value_bytes);  // pairs with load_words()
        disown(
            held, valid_cells(held.word), requires { shape.refers; });
      } else {
        const int cell = free_cell(shape, spot.valid, 0);
        fill_cell(shape, spot.bucket, cell, key, hash, fresh);
        commit(held, spot.bucket, (spot.valid & ~(1u << spot.cell)) | 1u << cell);
      }
      break;
  }
  if (header().next.load(std::memory_order_relaxed) != 0) [[unlikely]]
    help();
  return outcome;
}

}  // namespace smelt::map_detail
