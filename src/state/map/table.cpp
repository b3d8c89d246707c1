// The rare operations of the table: waiting, take-over, growth, memory, and operations on the whole map. The rules are
// in smelt/map_table.hpp.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>
#include <type_traits>
#include <vector>

#include "base/clock.hpp"
#include "base/process.hpp"
#include "base/wait.hpp"
#include "state/map/blocks.hpp"

namespace smelt::map_detail {
namespace {

constexpr Word buckets_per_help = 8;
constexpr Word checks_per_help = 64;
constexpr std::uint64_t look_interval_ns = 1'000'000;

[[maybe_unused]] const int watches_forks =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

std::mutex renewing;

/// Threads that work at the same time have different ones, as long as there are not many.
std::size_t stash_of_this_thread() {
  static std::atomic<std::size_t> threads{0};
  static thread_local const std::size_t number =
      threads.fetch_add(1, std::memory_order_relaxed) + static_cast<std::size_t>(getpid()) * 7;
  return number % std::extent_v<decltype(Header::stashes)>;
}

}  // namespace

std::atomic<std::uint32_t> forks{0};

// ---- owners ---------------------------------------------------------------------------------

bool Table::is_dead(Word owner) const noexcept {
  if (!shared_ || owner == owner_.load(std::memory_order_relaxed)) return false;
  const Word process = header().members[owner - 1].load(std::memory_order_acquire);
  return process == 0 || liveness_of(ProcessId::unpacked(process)) == Liveness::dead;
}

bool Table::own_slowly(Bucket* bucket, Word& word) noexcept {
  struct Look {
    Table& table;
    Bucket* bucket;
    std::uint64_t next_ns = 0;
    Word dead = 0;

    bool look() {
      const std::uint64_t now = monotonic_ns();
      if (now < next_ns) return false;
      next_ns = now + look_interval_ns;
      const Word seen = bucket->word.load(std::memory_order_relaxed);
      if ((seen & owner_mask) == 0 || !table.is_dead(seen & owner_mask)) return false;
      dead = seen;
      return true;
    }
  } look{*this, bucket};
  Waiter waiter(WaitConfig{.across_processes = shared_});
  waiter.set_interrupt([](void* context) { return static_cast<Look*>(context)->look(); }, &look);
  const bool free = waiter.wait([&] {
    word = bucket->word.load(ordering::map_look);
    return (word & owner_mask) == 0;
  });
  if (free) return false;
  // The word of a dead owner stays the same until another process takes it, and never recurs. Acquire: what the dead
  // owner wrote to a bucket that had become visible.
  const Word taken = (look.dead & ~owner_mask) + one_change;
  SMELT_MAP_POINT(10);
  if (!bucket->word.compare_exchange_strong(look.dead, taken | owner_.load(std::memory_order_relaxed),
                                            std::memory_order_acq_rel, std::memory_order_relaxed)) {
    return false;
  }
  SMELT_MAP_POINT(11);
  header().takeovers.fetch_add(1, std::memory_order_relaxed);
  word = taken;
  return true;
}

bool Table::own_bucket(Bucket* bucket, OwnedChain& held) noexcept {
  held.home = bucket;
  held.word = bucket->word.load(ordering::map_look);
  for (;;) {
    if ((held.word & (live_bit | moved_bit)) != live_bit) return false;
    if ((held.word & owner_mask) != 0) {
      if (own_slowly(bucket, held.word)) return true;
      continue;
    }
    const Word owner = owner_.load(std::memory_order_relaxed);
    if (bucket->word.compare_exchange_weak(held.word, held.word | owner, ordering::map_own, ordering::map_look)) {
      return true;
    }
  }
}

bool Table::renew() noexcept {
  const std::lock_guard lock(renewing);
  const std::uint32_t now = forks.load(std::memory_order_relaxed);
  if (forks_seen_.load(std::memory_order_relaxed) == now) return true;
  if (shared_ && !join()) return false;
  forks_seen_.store(now, std::memory_order_relaxed);
  return true;
}

bool Table::join() noexcept {
  const auto self = ProcessId::self();
  if (!self) return false;
  const Word process = self->packed();
  for (std::size_t i = 0; i < most_members; ++i) {
    Word none = 0;
    if (header().members[i].compare_exchange_strong(none, process, std::memory_order_acq_rel)) {
      owner_.store(i + 1, std::memory_order_relaxed);
      return true;
    }
  }
  // All numbers are in use, some by dead processes. Their chains must be released before another process gets the
  // number.
  std::vector<std::pair<std::size_t, Word>> dead;
  for (std::size_t i = 0; i < most_members; ++i) {
    const Word member = header().members[i].load(std::memory_order_acquire);
    if (member != 0 && liveness_of(ProcessId::unpacked(member)) == Liveness::dead) dead.emplace_back(i, member);
  }
  for (const auto& [index, member] : dead) {
    Word expected = member;
    // From here on, others that meet a chain of the dead process wait for this one.
    if (!header().members[index].compare_exchange_strong(expected, process, std::memory_order_acq_rel)) continue;
    owner_.store(index + 1, std::memory_order_relaxed);
    sweep_all();
    return true;
  }
  return false;
}

void Table::sweep_all() noexcept {
  sweep(header().active.load(std::memory_order_acquire));
  if (const Word next = header().next.load(std::memory_order_acquire)) sweep(next);
}

// Releases the chains that this number owns, which belong to a dead process that had the number before.
void Table::sweep(Word table) noexcept {
  const Word own = owner_.load(std::memory_order_relaxed);
  for (Word i = 0; i < Word{1} << (table & log2_mask); ++i) {
    AtomicWord& at = bucket_of(table, i)->word;
    Word word = at.load(std::memory_order_acquire);
    if ((word & owner_mask) == own) {
      at.compare_exchange_strong(word, (word & ~owner_mask) + one_change, std::memory_order_acq_rel);
    }
  }
}

void Table::leave() noexcept {
  if (!shared_ || forks_seen_.load(std::memory_order_relaxed) != forks.load(std::memory_order_relaxed)) return;
  const Word owner = owner_.load(std::memory_order_relaxed);
  if (owner != 0) header().members[owner - 1].store(0, std::memory_order_release);  // pairs with join()
}

// ---- memory ---------------------------------------------------------------------------------

Word most_file_bytes() noexcept {
  rlimit most{};
  return getrlimit(RLIMIT_FSIZE, &most) == 0 ? most.rlim_cur : ~Word{0};
}

bool Table::back(Word from, Word to) noexcept {
  if (fd_ < 0) return true;
  struct stat file = {};
  // What the file has already, others may have added who may add more.
  const bool allowed = to <= most_file_bytes() || (fstat(fd_, &file) == 0 && to <= static_cast<Word>(file.st_size));
  constexpr Word piece = Word{32} << 20;  // limited, since a signal undoes a whole call
  for (Word done = from; done < to;) {
    const Word bytes = std::min(piece, to - done);
    if (allowed && fallocate(fd_, 0, static_cast<off_t>(done), static_cast<off_t>(bytes)) == 0) {
      done += bytes;
    } else if (!allowed || errno != EINTR) {
      if (from != 0) header().refused.fetch_add(1, std::memory_order_relaxed);  // else there is no header yet
      return false;
    }
  }
  return true;
}

/// A block that a thread has freed last stays in its stash, where it takes the next one from: threads that update do
/// not meet at the lists. If a process dies, its stashes are those of others.
Word Table::take_stashed(int size_class) noexcept {
  AtomicWord& stashed = header().stashes[stash_of_this_thread()].blocks[size_class % 8];
  if (stashed.load(std::memory_order_relaxed) == 0) return 0;
  // Acquire: pairs with give_block(). The earlier uses of the block come before.
  const Word reference = stashed.exchange(0, std::memory_order_acquire);
  if (reference == 0) return 0;
  const int found = static_cast<int>(reference >> offset_bits);
  if (found == size_class) return offset_of(reference);
  push_block(offset_of(reference), found);
  return 0;
}

Word Table::take_block(int size_class) noexcept {
  if (const Word offset = take_stashed(size_class)) return offset;
  AtomicWord& head = header().free_lists[size_class];
  Word first = head.load(std::memory_order_acquire);
  while ((first & offset_mask) != 0) {
    const Word offset = (first & offset_mask) * line;
    // May be any value if another process has taken the block meanwhile. The count in `first` has changed then.
    const Word rest = at(offset)->word.load(std::memory_order_relaxed) & offset_mask;
    const Word changed = ((first >> offset_bits) + 1) << offset_bits | rest;
    if (head.compare_exchange_weak(first, changed, std::memory_order_acq_rel, std::memory_order_acquire)) return offset;
  }
  const Word size = block_bytes(size_class);
  Word start = header().used.load(std::memory_order_relaxed);
  for (;;) {
    const Word end = start + size;
    if (end > std::min(header().reach / 2, (offset_mask + 1) * line)) {
      header().refused.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
    Word backed = header().backed.load(std::memory_order_acquire);
    if (end > backed) {
      constexpr Word step = Word{256} << 10;
      const Word target = std::min((end + step - 1) / step * step, header().reach / 2);
      if (!back(backed, target)) return 0;
      while (backed < target && !header().backed.compare_exchange_weak(backed, target, std::memory_order_acq_rel)) {}
    }
    if (header().used.compare_exchange_weak(start, end, std::memory_order_relaxed)) return start;
  }
}

bool Table::has_possible_blocks() const noexcept {
  const auto is_block = [&](Word reference, int size_class) {
    const Word offset = offset_of(reference);
    return offset == 0 || (offset >= sizeof(Header) && offset + block_bytes(size_class) <= header().reach / 2);
  };
  for (int size_class = 0; size_class < static_cast<int>(std::size(header().free_lists)); ++size_class) {
    if (!is_block(header().free_lists[size_class].load(std::memory_order_relaxed), size_class)) return false;
  }
  for (const auto& stash : header().stashes) {
    for (const auto& block : stash.blocks) {
      const Word reference = block.load(std::memory_order_relaxed), size_class = reference >> offset_bits;
      if (size_class >= std::size(header().free_lists) || !is_block(reference, static_cast<int>(size_class)))
        return false;
    }
  }
  return true;
}

void Table::give_block(Word offset, int size_class) noexcept {
  AtomicWord& stashed = header().stashes[stash_of_this_thread()].blocks[size_class % 8];
  const Word reference = static_cast<Word>(size_class) << offset_bits | offset / line;
  // Release: pairs with take_stashed(). Acquire: the same for the one that was there.
  const Word before = stashed.exchange(reference, std::memory_order_acq_rel);
  if (before != 0) push_block((before & offset_mask) * line, static_cast<int>(before >> offset_bits));
}

void Table::push_block(Word offset, int size_class) noexcept {
  AtomicWord& head = header().free_lists[size_class];
  Word first = head.load(std::memory_order_relaxed);
  for (;;) {
    at(offset)->word.store(first & offset_mask, std::memory_order_release);
    const Word changed = ((first >> offset_bits) + 1) << offset_bits | offset / line;
    // Release: pairs with take_block(). The next user of the block sees its earlier uses.
    if (head.compare_exchange_weak(first, changed, std::memory_order_release, std::memory_order_relaxed)) return;
  }
}

Word Table::store_text(const char* key, std::size_t key_bytes, const char* value, std::size_t value_bytes) noexcept {
  const std::size_t words = 1 + words_of(key_bytes) + words_of(value_bytes);
  const int size_class = class_of(words * sizeof(Word));
  const Word offset = take_block(size_class);
  if (offset == 0) return 0;
  SMELT_MAP_POINT(23);
  auto* const to = reinterpret_cast<AtomicWord*>(base_ + offset);
  fetch_lines<true>(to, words);
  // Release: a process that still reads the former contents then finds that its chain has changed.
  to->store(Word{key_bytes} << 32 | value_bytes, ordering::map_store_cell);
  store_bytes(to + 1, key, key_bytes);
  store_bytes(to + 1 + words_of(key_bytes), value, value_bytes);
  return static_cast<Word>(size_class) << offset_bits | offset / line;
}

void Table::drop_text(Word reference) noexcept {
  give_block(offset_of(reference), static_cast<int>(reference >> offset_bits));
}

const AtomicWord* Table::text_of(Word reference, std::size_t* words) const noexcept {
  const Word offset = offset_of(reference), size_class = reference >> offset_bits;
  const Word bytes = size_class < std::size(header().free_lists) ? block_bytes(static_cast<int>(size_class)) : 0;
  if (bytes == 0 || offset < sizeof(Header) || offset + bytes > header().backed.load(std::memory_order_relaxed)) {
    *words = 0;  // the reference comes from memory that has been reused
    return &header().used;
  }
  *words = bytes / sizeof(Word);
  return reinterpret_cast<const AtomicWord*>(base_ + offset);
}

Bucket* Table::new_bucket() noexcept {
  const Word offset = take_block(class_of(header().geometry.bucket_words * sizeof(Word)));
  if (offset == 0) return nullptr;
  Bucket* const bucket = at(offset);
  // Release: a reader of the block's former contents then sees that its chain has changed.
  bucket->word.store(live_bit, ordering::map_commit);
  bucket->link.store(0, ordering::map_store_cell);
  return bucket;
}

// The last key of an overflow bucket goes with the bucket, by the store of one link. So a chain has no empty bucket
// that would keep its memory from other chains. If this process dies before the end, the bucket's memory is lost, which
// is safer than to free it twice.
void Table::remove_bucket(const OwnedChain& held, const Spot& spot) noexcept {
  const Word rest = spot.bucket->link.load(std::memory_order_relaxed);
  SMELT_MAP_POINT(25);
  // Release: pairs with find(), which may come to the buckets behind for the first time, past this one.
  spot.before->link.store(rest, ordering::map_store_cell);
  disown(held, valid_cells(held.word), true);
  // Only now, since disown() has incremented `changes`: a reader that is still in the bucket, and finds what its next
  // user stores, finds that, too. give_block() releases it to that user.
  SMELT_MAP_POINT(26);
  header().overflow[held.table & log2_mask].fetch_sub(1, std::memory_order_relaxed);
  const auto offset = static_cast<Word>(reinterpret_cast<std::byte*>(spot.bucket) - base_);
  give_block(offset, class_of(header().geometry.bucket_words * sizeof(Word)));
}

// ---- growth ---------------------------------------------------------------------------------

Word Table::table_of(Word log2) const noexcept {
  const Word before = (Word{1} << log2) - (Word{1} << header().first_log2);
  return (header().reach / 2 + before * header().geometry.bucket_words * sizeof(Word)) | log2;
}

Word Table::table_bytes(Word table) const noexcept {
  return (Word{1} << (table & log2_mask)) * header().geometry.bucket_words * sizeof(Word);
}

Bucket* Table::bucket_of(Word table, Word index) const noexcept {
  return at((table & ~log2_mask) + index * header().geometry.bucket_words * sizeof(Word));
}

void Table::overflowed(Word table) noexcept {
  const Word log2 = table & log2_mask;
  // Below zero: while a bucket is removed before it is counted, and after the removal of those from the table before.
  const auto count = static_cast<std::int64_t>(header().overflow[log2].fetch_add(1, std::memory_order_relaxed) + 1);
  if (count < std::int64_t{1} << log2 >> 2 || header().active.load(std::memory_order_acquire) != table ||
      header().next.load(std::memory_order_relaxed) != 0) {
    return;
  }
  const Word next = follow(table);
  const Word end = end_of(next);
  if (end > header().reach || log2 + 1 >= most_doublings) return;
  // All steps are idempotent, so that another process can repeat them if this one dies.
  if (!back(next & ~log2_mask, end)) return;
  if (header().active.load(std::memory_order_acquire) != table) return;
  SMELT_MAP_POINT(12);
  Word none = 0;
  header().next.compare_exchange_strong(none, next, std::memory_order_acq_rel);
}

void Table::help() noexcept {
  const Word active = header().active.load(std::memory_order_acquire);
  Word next = header().next.load(std::memory_order_acquire);
  if (next == 0) return;
  if ((next & log2_mask) <= (active & log2_mask)) {  // left by a process that was late, or died at the end
    header().next.compare_exchange_strong(next, 0, std::memory_order_acq_rel);
    return;
  }
  const Word log2 = active & log2_mask;
  const Word buckets = Word{1} << log2;
  if (header().claimed[log2].load(std::memory_order_relaxed) < buckets) {
    const Word first = header().claimed[log2].fetch_add(buckets_per_help, std::memory_order_relaxed);
    SMELT_MAP_POINT(13);
    for (Word i = first; i < std::min(first + buckets_per_help, buckets); ++i) move(active, i);
    return;
  }
  // Some processes that have claimed buckets may be late or dead.
  Word checked = header().checked[log2].load(std::memory_order_acquire);
  const Word from = checked;
  for (; checked < std::min(from + checks_per_help, buckets); ++checked) {
    const Word word = bucket_of(active, checked)->word.load(std::memory_order_acquire);
    if ((word & (live_bit | moved_bit)) == live_bit && !move(active, checked)) break;
  }
  Word known = from;
  while (known < checked && !header().checked[log2].compare_exchange_weak(known, checked, std::memory_order_acq_rel)) {}
  if (checked == buckets) finish(active, next);
}

void Table::finish(Word table, Word next) noexcept {
  SMELT_MAP_POINT(14);
  Word expected = table;
  // Release: processes that find the new table see its filled buckets.
  if (!header().active.compare_exchange_strong(expected, next, std::memory_order_acq_rel)) return;
  SMELT_MAP_POINT(15);
  Word now = next;
  header().next.compare_exchange_strong(now, 0, std::memory_order_acq_rel);
  SMELT_MAP_POINT(16);
  // Frees all tables before the new one. Processes that still read them find zeros and start over.
  const Word start = header().reach / 2;
  const Word bytes = (next & ~log2_mask) - start;
  if (fd_ >= 0) {
    (void)!fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(start),
                     static_cast<off_t>(bytes));
  } else {
    // The kernel rounds up to whole pages, and the new table may begin within the last one.
    const auto page = static_cast<Word>(sysconf(_SC_PAGESIZE));
    madvise(base_ + start, bytes / page * page, MADV_DONTNEED);
  }
}

Word Table::hash_of(const AtomicWord* cell) const noexcept {
  return (header().flags & has_strings) != 0 ? cell[0].load(std::memory_order_relaxed)
                                             : hash_words(cell, header().geometry.key_words);
}

// Adds a cell to a bucket that no other process accesses, or to its chain.
bool Table::spread(Bucket* child, AtomicWord* cell, Word hash) noexcept {
  const DynamicShape shape{header().geometry};
  const std::size_t words = cell_words(shape);
  Bucket* bucket = child;
  for (;;) {
    const unsigned valid = valid_cells(bucket->word.load(std::memory_order_relaxed));
    const int free = free_cell(shape, valid, shape.geometry.spare);
    if (free >= 0) {
      AtomicWord* const to = bucket->cell(static_cast<std::size_t>(free), words);
      for (std::size_t i = 0; i < words; ++i) {
        to[i].store(cell[i].load(std::memory_order_relaxed), ordering::map_store_cell);
      }
      set_tag(bucket, free, hash);
      bucket->word.store(with_valid(live_bit, valid | 1u << free), ordering::map_commit);
      return true;
    }
    Word link = bucket->link.load(std::memory_order_relaxed);
    if (link == 0) {
      Bucket* const fresh = new_bucket();
      if (fresh == nullptr) return false;
      link = static_cast<Word>(reinterpret_cast<std::byte*>(fresh) - base_);
      SMELT_MAP_POINT(17);
      bucket->link.store(link, ordering::map_store_cell);
    }
    bucket = at(link);
  }
}

void Table::give_chain(Word link) noexcept {
  while (link != 0) {
    const Word after = at(link)->link.load(std::memory_order_relaxed);
    give_block(link, class_of(header().geometry.bucket_words * sizeof(Word)));
    link = after;
  }
}

// Empties a bucket of the next table, which a dead process may have filled in part. If this process dies as well, those
// overflow buckets are lost, which is safer than to free them twice.
void Table::reset(Bucket* child) noexcept {
  const Word leftover = child->link.load(std::memory_order_relaxed);
  SMELT_MAP_POINT(18);
  child->link.store(0, ordering::map_store_cell);
  SMELT_MAP_POINT(19);
  child->word.store(live_bit, ordering::map_commit);
  give_chain(leftover);
}

bool Table::move(Word table, Word index) noexcept {
  const DynamicShape shape{header().geometry};
  OwnedChain held;
  if (!own_bucket(bucket_of(table, index), held)) return true;
  const Word next = follow(table);
  const Word buckets = Word{1} << (table & log2_mask);
  reset(bucket_of(next, index));
  reset(bucket_of(next, index + buckets));
  const Word chain = held.home->link.load(std::memory_order_relaxed);
  Word link = chain;
  for (Bucket* bucket = held.home;; bucket = at(link), link = bucket->link.load(std::memory_order_relaxed)) {
    const Word word = bucket == held.home ? held.word : bucket->word.load(std::memory_order_relaxed);
    for (unsigned cells = valid_cells(word); cells != 0; cells &= cells - 1) {
      AtomicWord* cell = bucket->cell(static_cast<std::size_t>(__builtin_ctz(cells)), cell_words(shape));
      const Word hash = hash_of(cell);
      if (!spread(bucket_of(next, hash & (2 * buckets - 1)), cell, hash)) {
        disown(held, valid_cells(held.word), false);
        return false;
      }
    }
    if (link == 0) break;
  }
  SMELT_MAP_POINT(20);
  // Release: processes that see the move also see the filled buckets.
  held.home->word.store((held.word | moved_bit) + one_change, ordering::map_commit);
  SMELT_MAP_POINT(21);
  give_chain(chain);
  return true;
}

// ---- the whole map --------------------------------------------------------------------------

// Reads a consistent snapshot of one chain without writing, like get().
void Table::read_all(Word table, Word index, Visit visit, void* context) const {
  const DynamicShape shape{header().geometry};
  const std::size_t words = cell_words(shape);
  Bucket* const first = bucket_of(table, index);
  std::vector<Word> cells;
  for (;;) {
    const Word word = first->word.load(ordering::map_look);
    if ((word & (live_bit | moved_bit)) != live_bit) {
      read_all(follow(table), index, visit, context);
      read_all(follow(table), index + (Word{1} << (table & log2_mask)), visit, context);
      return;
    }
    cells.clear();
    const auto holds = [&] {
      return ((first->word.load(std::memory_order_relaxed) ^ word) & ~(owner_mask | valid_mask)) == 0;
    };
    unsigned valid = valid_cells(word);
    bool whole = false;
    for (Bucket* bucket = first; !whole;) {
      for (; valid != 0; valid &= valid - 1) {
        cells.resize(cells.size() + words);
        load_words(cells.data() + cells.size() - words,
                   bucket->cell(static_cast<std::size_t>(__builtin_ctz(valid)), words), words);
      }
      const Word link = bucket->link.load(ordering::map_load_cell);
      if (!holds()) break;
      whole = link == 0;
      if (whole) break;
      bucket = at(link);
      valid = valid_cells(bucket->word.load(ordering::map_look));
    }
    if (!whole) continue;
    for (std::size_t i = 0; i < cells.size(); i += words) visit(context, cells.data() + i);
    return;
  }
}

void Table::for_each(Visit visit, void* context) const {
  const Word active = header().active.load(std::memory_order_acquire);
  for (Word i = 0; i < Word{1} << (active & log2_mask); ++i) read_all(active, i, visit, context);
}

void Table::own_all(Word table, Word index) {
  OwnedChain held;
  if (own_bucket(bucket_of(table, index), held)) return;
  own_all(follow(table), index);
  own_all(follow(table), index + (Word{1} << (table & log2_mask)));
}

void Table::disown_all(Word table, Word index) {
  Bucket* const bucket = bucket_of(table, index);
  const Word word = bucket->word.load(std::memory_order_relaxed);
  if ((word & (live_bit | moved_bit)) == live_bit) {
    bucket->word.store(word & ~owner_mask, ordering::map_commit);
    return;
  }
  disown_all(follow(table), index);
  disown_all(follow(table), index + (Word{1} << (table & log2_mask)));
}

bool Table::snapshot(Visit visit, void* context) {
  if (forks_seen_.load(std::memory_order_relaxed) != forks.load(std::memory_order_relaxed) && !renew()) return false;
  const Word active = header().active.load(std::memory_order_acquire);
  const Word buckets = Word{1} << (active & log2_mask);
  // All processes use this order, so that two of them do not wait for each other. Owned chains do not move.
  for (Word i = 0; i < buckets; ++i) own_all(active, i);
  struct Release {
    Table& table;
    Word active, buckets;
    ~Release() {
      for (Word i = 0; i < buckets; ++i) table.disown_all(active, i);
    }
  } const release{*this, active, buckets};
  for (Word i = 0; i < buckets; ++i) read_all(active, i, visit, context);
  return true;
}

Table::Statistics Table::statistics() const {
  Statistics found;
  const Header& shared = header();
  const Word active = shared.active.load(std::memory_order_acquire);
  found.buckets = Word{1} << (active & log2_mask);
  found.growing = shared.next.load(std::memory_order_relaxed) != 0;
  for_each([](void* count, const Word*) { ++*static_cast<Word*>(count); }, &found.keys);
  for (Word i = 0; i < found.buckets; ++i) {
    const Bucket* first = bucket_of(active, i);
    const Word word = first->word.load(ordering::map_look);
    Word length = 1;
    for (Word link = first->link.load(ordering::map_load_cell); link != 0; ++length) {
      const Word now = first->word.load(std::memory_order_relaxed);
      if ((now & (live_bit | moved_bit)) != live_bit || now / one_change != word / one_change) break;
      link = at(link)->link.load(ordering::map_load_cell);
    }
    found.overflow_buckets += length - 1;
    found.longest_chain = std::max(found.longest_chain, length);
  }
  found.bytes = shared.used.load(std::memory_order_relaxed) + table_bytes(active);
  if (found.growing) found.bytes += table_bytes(follow(active));
  found.takeovers = shared.takeovers.load(std::memory_order_relaxed);
  found.refused = shared.refused.load(std::memory_order_relaxed);
  for (const auto& member : shared.members) found.members += member.load(std::memory_order_relaxed) != 0 ? 1 : 0;
  return found;
}

}  // namespace smelt::map_detail
