#include "shims/memory/watcher.hpp"

#include <dlfcn.h>
#include <link.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "shims/kept_state.hpp"
#include "shims/memory/counters.hpp"
#include "shims/memory/filling.hpp"
#include "shims/memory/prices.hpp"
#include "shims/memory/spare.hpp"
#include "shims/memory/system.hpp"
#include "shims/report.hpp"

namespace smelt::shims::memory {
namespace {

constexpr int most_regions = 512;
constexpr int most_windows = 8;                  ///< of a region, open at a time
constexpr int most_stripes = 4;                  ///< of a region
constexpr int open_of_stripe = 2;                ///< windows: one is filled while the other is ahead of whoever fills
constexpr int window_blocks = 12;                ///< so that all windows of a stripe are within trust_bytes
constexpr int least_canary_blocks = 4;           ///< of a window; smaller ones are looked into instead
constexpr int samples = 32;                      ///< blocks of a region that a look takes in
constexpr int least_run_pages = 16;              ///< of a block that fills up
constexpr int collapsed_at_once = 2;             ///< blocks: what the program might have to wait for
constexpr int first_fill_blocks = 4;             ///< ahead of a thread whose memory has not been seen to be dense
constexpr int fill_from = 2;                     ///< blocks in order that show that a thread fills a window
constexpr std::int64_t fill_ns = 1'000'000;      ///< at a time: what the program might have to wait for
constexpr std::int64_t price_ns = 20'000'000;    ///< between two pages that are filled to see what they cost
constexpr std::int64_t dear_ns = 1'000'000'000;  ///< after which prices are looked at again
constexpr int looked_at_once = 32;               ///< blocks
constexpr std::size_t scarce_bytes = 4 * trust_bytes;  ///< below so much of the cgroup's limit, nothing is trusted
constexpr int most_block_pages = 512;
constexpr std::size_t most_blocks = 16384;  ///< of a region whose blocks are collapsed one by one
constexpr long fill_wait_us = 250, first_wait_us = 2000, collapse_wait_us = 20'000, longest_wait_us = 200'000;
constexpr std::size_t least_heap_bytes = std::size_t{16} << 20;
constexpr std::size_t arena_heap_bytes = std::size_t{64} << 20;  ///< of glibc: address space, aligned to its size
constexpr int looks_until_sleep = 40;                            ///< without a change

/// Whether the library's thread may touch pages ahead of the program.
enum class MayFill : unsigned char { unknown, yes, no };

/// Huge pages were asked for, and the program is not yet seen to use them densely.
struct Window {
  std::byte* begin = nullptr;
  std::byte* end = nullptr;     ///< null: this place is free
  std::byte* canary = nullptr;  ///< the last block, left in small pages; null in small windows
  int stripe = 0;
  std::uint32_t begun = 0;  ///< bits of blocks that had small pages when it was opened
  MayFill fill = MayFill::unknown;
};

/// Windows one after the other, in the direction in which memory fills up.
struct WindowSequence {
  std::byte* begin = nullptr;  ///< null: this place is free
  std::byte* end = nullptr;
  bool dense = false;  ///< a window of it was used densely
};

struct Region {
  const void* allocation = nullptr;  ///< what the program was given; null: this place is free
  std::byte* begin = nullptr;        ///< whole huge pages within it
  std::byte* end = nullptr;
  std::byte* first_page = nullptr;            ///< of all pages of the allocation
  std::byte* end_page = nullptr;              ///< behind them
  bool advised = false, interleaved = false;  ///< parts of it: the kernel has several mappings in place of one
  Window windows[most_windows] = {};
  WindowSequence stripes[most_stripes] = {};
  std::size_t unproven_bytes = 0;             ///< huge pages of windows that were closed before they were proven dense
  std::size_t cursor = 0;                     ///< the block that is looked at next
  bool opened = false;                        ///< its first stripe has begun, or it gets none
  bool limited = false;                       ///< no windows: there is too little memory left for it
  bool refused = false;                       ///< parts of it were taken back from huge pages
  bool heap = false;                          ///< of the C library's allocator: full blocks are collapsed, nothing else
  bool placed = false;                        ///< nothing more is to be found out about its NUMA nodes
  bool anywhere = false;                      ///< pages lie on the same nodes whoever touches them
  std::uint64_t huge[most_blocks / 64] = {};  ///< bits of blocks that are huge pages, as far as that can be had
};

struct Totals {
  std::size_t allocations = 0, bytes = 0, opened = 0, filled = 0, collapsed = 0, heaps = 0, interleaved = 0;
};

// All of it is protected by the lock, but the filter, which frees look at without.
constinit pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
constinit pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
constinit Region regions[most_regions] = {};
constinit const Region no_region = {};
constinit std::size_t trust_in_use = 0;           ///< bytes of all windows
constinit bool watching = false, active = false;  ///< active: something new, to be looked at soon
constinit bool leaving = false;                   ///< the thread is to end
constinit bool over = false;                      ///< no thread is started any more
constinit pthread_t thread = {};                  ///< while watching
constinit std::atomic<long> thread_number{0};     ///< that the kernel gave it
constinit bool stirred = false;                   ///< something to be looked at when there is time
constinit Totals totals = {};
constinit std::int64_t begun_ns = 0;
constinit CollapseBudget collapse_budget;
constinit SparePus spare_pus;
constinit PagePrices prices;
constinit bool spare = false;   ///< a PU was idle when this look began
constinit bool scarce = false;  ///< the cgroup's limit left little memory when that was looked at last
/// Stands for the heap that ends at the program break.
constexpr char break_name = 0;
const void* const break_heap = &break_name;
/// A bit for each allocation, by its address; set bits are cleared when there are no regions. Relaxed: whoever frees an
/// allocation has its address from whom it was added by, and so the bit.
constinit std::atomic<std::uint64_t> filter[1024] = {};
constinit std::atomic<int> known{0};
constinit std::atomic<bool> divided{false};  ///< some mapping, by advice on a part
/// This thread holds the lock: what it allocates and gives back meanwhile is its own.
constinit thread_local bool inside = false;
/// As the kernel has them: signals of this thread before it took the lock.
constinit thread_local std::uint64_t signals_before = 0;
constinit thread_local bool is_watcher = false;  ///< all of its signals are blocked anyway

/// 1, and 0 in a child whose fork ran no handlers (_Fork, a system call): the lock may be held there by a thread that
/// the child has not. Null before the start.
constinit int* own_process = nullptr;

void start_anew() noexcept;

/// Signals that a thread's own instructions raise are left as they are. Not by the C library's function: it takes its
/// time.
std::uint64_t hold_signals() noexcept {
  const auto bit = [](int number) { return std::uint64_t{1} << (number - 1); };
  const std::uint64_t held = ~(bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGTRAP));
  std::uint64_t before = 0;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &held, &before, sizeof held);
  return before;
}

void let_signals(std::uint64_t before) noexcept {
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
}

/// A signal handler may map and unmap memory, too: none runs in a thread that holds the lock or waits for it.
void acquire() noexcept {
  const std::uint64_t before = is_watcher ? 0 : hold_signals();
  if (own_process != nullptr && *own_process == 0) start_anew();
  pthread_mutex_lock(&lock);
  inside = true;
  signals_before = before;
}

void release() noexcept {
  inside = false;
  const std::uint64_t before = signals_before;
  pthread_mutex_unlock(&lock);
  if (!is_watcher) let_signals(before);
}

class Locked {
 public:
  Locked() noexcept { acquire(); }
  ~Locked() { release(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

std::size_t filter_bit(const void* memory) noexcept {
  return (reinterpret_cast<std::uintptr_t>(memory) * 0x9e3779b97f4a7c15u) >> 48;
}

std::size_t size_of(const std::byte* begin, const std::byte* end) noexcept {
  return static_cast<std::size_t>(end - begin);
}

// ---- policies --------------------------------------------------------------------------------

/// Not by the function of that name, which is taken over.
bool advise(std::byte* begin, std::byte* end, int advice) noexcept {
  return begin == end || syscall(SYS_madvise, begin, size_of(begin, end), advice) == 0;
}

void interleave(Region& region) noexcept {
  region.placed = true;
  const System& found = system();
  const unsigned long bits = sizeof found.node_mask * CHAR_BIT;
  // Refused in some containers: then pages stay where they are touched first.
  if (syscall(SYS_mbind, region.first_page, size_of(region.first_page, region.end_page), MPOL_INTERLEAVE,
              found.node_mask, bits, 0) == 0) {
    totals.interleaved += size_of(region.begin, region.end);
    region.anywhere = region.interleaved = true;
    divided.store(true, std::memory_order_relaxed);
  }
}

bool ask_for_huge(Region& region, std::byte* begin, std::byte* end) noexcept {
  if (!advise(begin, end, MADV_HUGEPAGE)) return false;
  region.advised = true;
  divided.store(true, std::memory_order_relaxed);
  return true;
}

/// One mapping again, where advice has divided it: the kernel moves and extends no more than one at a time (mremap).
/// Whether it was taken back from huge pages for that.
bool unite(Region& region, std::byte* begin, std::byte* end) noexcept {
  if (region.interleaved) syscall(SYS_mbind, begin, size_of(begin, end), MPOL_DEFAULT, nullptr, 0ul, 0ul);
  return region.advised && advise(begin, end, MADV_NOHUGEPAGE);
}

// ---- what is there ---------------------------------------------------------------------------

struct Block {
  int pages = 0;  ///< that are there
  int runs = 0;   ///< of consecutive ones
};

/// False where nothing is mapped any more.
bool look_at(std::byte* block, std::size_t huge_bytes, Block* found) noexcept {
  unsigned char there[most_block_pages];
  const std::size_t count = huge_bytes / page_bytes();
  if (count > most_block_pages || mincore(block, huge_bytes, there) != 0) return false;
  *found = {};
  for (std::size_t i = 0; i < count; ++i) {
    if ((there[i] & 1) == 0) continue;
    ++found->pages;
    found->runs += i == 0 || (there[i - 1] & 1) == 0;
  }
  return true;
}

/// Nearly all pages are there: a huge page makes the process at most a twentieth larger.
bool is_full(std::byte* block, std::size_t huge_bytes) noexcept {
  Block found;
  return look_at(block, huge_bytes, &found) && found.pages * 100 >= static_cast<int>(huge_bytes / page_bytes()) * 95;
}

/// Whether the small page that is there has been written with anything but zeros, as far as one line in eight shows.
bool has_content(std::byte* page) noexcept {
  constexpr int lines = 8;
  std::uint64_t words[lines][8] = {};
  iovec from[lines];
  for (int i = 0; i < lines; ++i)
    from[i] = {page + page_bytes() / lines * static_cast<std::size_t>(i), sizeof words[i]};
  // By the kernel: the program may have protected it by a way that is not seen here.
  const iovec to = {words, sizeof words};
  if (process_vm_readv(getpid(), &to, 1, from, lines, 0) != static_cast<ssize_t>(sizeof words)) return false;
  return std::any_of(&words[0][0], &words[0][0] + lines * 8, [](std::uint64_t word) { return word != 0; });
}

/// Of pages spread over a window: whether all are there and nearly all have content.
bool has_content(const Window& window) noexcept {
  constexpr int wanted = 64;
  const std::size_t pages = size_of(window.begin, window.end) / page_bytes();
  int written = 0;
  for (int i = 0; i < wanted; ++i) {
    auto* const page = window.begin + (pages * static_cast<std::size_t>(2 * i + 1) / (2 * wanted)) * page_bytes();
    unsigned char there = 0;
    if (mincore(page, page_bytes(), &there) != 0 || (there & 1) == 0) return false;
    written += has_content(page);
  }
  return written * 100 >= wanted * 95;
}

bool may_collapse() noexcept {
  return collapse_budget.allows(prices.huge_ns(), time_of(CLOCK_PROCESS_CPUTIME_ID),
                                time_of(CLOCK_MONOTONIC) - begun_ns, spare);
}

// ---- windows ---------------------------------------------------------------------------------

std::size_t block_of(const Region& region, const std::byte* block) noexcept {
  return size_of(region.begin, block) / system().huge_bytes;
}

bool is_huge(const Region& region, std::size_t block) noexcept {
  return block >= most_blocks || (region.huge[block / 64] >> block % 64 & 1) != 0;
}

void set_huge(Region& region, std::size_t block) noexcept {
  if (block < most_blocks) region.huge[block / 64] |= std::uint64_t{1} << block % 64;
}

/// What a huge page has just cost; 0: unknown.
void note_price(std::int64_t huge_ns) noexcept {
  if (huge_ns == 0) return;
  prices.add(huge_ns, time_of(CLOCK_MONOTONIC), [] { return small_pages_ns(system().huge_bytes); });
}

void collapse_block(Region& region, std::byte* block) noexcept {
  const std::size_t huge_bytes = system().huge_bytes;
  set_huge(region, block_of(region, block));  // whether it succeeds or not: once is enough
  const std::int64_t begin = time_of(CLOCK_MONOTONIC);
  note_price(warm_huge_page(huge_bytes));
  if (region.refused) ask_for_huge(region, block, block + huge_bytes);
  if (advise(block, block + huge_bytes, collapse)) totals.collapsed += huge_bytes;
  collapse_budget.add(time_of(CLOCK_MONOTONIC) - begin);
}

/// The next window of a stripe, as large as trust, the region's end and other stripes allow. Whether there is one.
bool open_window(Region& region, int index) noexcept {
  if (prices.dear() || scarce) return false;
  const std::size_t huge_bytes = system().huge_bytes;
  WindowSequence& stripe = region.stripes[index];
  std::byte* limit = region.end;
  for (const auto& other : region.stripes) {
    if (other.begin != nullptr && other.begin >= stripe.end && &other != &stripe) limit = std::min(limit, other.begin);
  }
  const std::size_t left = (trust_bytes - trust_in_use) / huge_bytes;
  const std::size_t blocks = std::min({size_of(stripe.end, limit) / huge_bytes, left, std::size_t{window_blocks}});
  Window* const window = std::find_if(std::begin(region.windows), std::end(region.windows),
                                      [](const Window& each) { return each.end == nullptr; });
  if (blocks == 0 || window == std::end(region.windows)) return false;
  std::byte* const end = stripe.end + blocks * huge_bytes;
  std::byte* const canary = blocks >= least_canary_blocks ? end - huge_bytes : nullptr;
  if (!ask_for_huge(region, stripe.end, canary != nullptr ? canary : end)) return false;
  *window = {.begin = stripe.end, .end = end, .canary = canary, .stripe = index};
  for (std::size_t i = 0; i < blocks; ++i) {
    Block found;
    if (look_at(window->begin + i * huge_bytes, huge_bytes, &found) && found.pages > 0) window->begun |= 1u << i;
  }
  stripe.end = end;
  trust_in_use += blocks * huge_bytes;
  totals.opened += blocks * huge_bytes;
  return true;
}

void open_windows(Region& region, int index) noexcept {
  int open = 0;
  for (const auto& window : region.windows) open += window.end != nullptr && window.stripe == index;
  while (open < open_of_stripe && open_window(region, index)) ++open;
}

void free_window(Window& window) noexcept {
  if (window.end != nullptr) trust_in_use -= size_of(window.begin, window.end);
  window = {};
}

/// Whether its first page was touched, or a page near it. The allocator has touched that of its allocations.
bool is_begun(const Region& region) noexcept {
  unsigned char there = 0;
  if (mincore(region.first_page, page_bytes(), &there) == 0 && (there & 1) != 0) return true;
  Block found;
  return look_at(region.begin, system().huge_bytes, &found) && found.pages > 0;
}

/// The first stripe, where memory is not full yet. No earlier than huge pages are known to be cheap, and no mapping is
/// divided before a page of it was touched: what is touched in its parts only is never one mapping again.
void open_first(Region& region) noexcept {
  const std::size_t huge_bytes = system().huge_bytes;
  if (!is_begun(region)) return;
  std::byte* begin = region.begin;
  while (begin < region.end && is_full(begin, huge_bytes)) begin += huge_bytes;
  region.opened = true;
  region.stripes[0] = {.begin = begin, .end = begin};
  open_windows(region, 0);
}

/// Huge pages have become dear, or memory scarce: what the program has not touched of a window gets small pages. Bytes
/// of huge pages that are there; they count as trusted as long as the allocation lives.
std::size_t close_window(Region& region, Window& window) noexcept {
  const std::size_t huge_bytes = system().huge_bytes;
  std::size_t unproven = 0;
  for (std::byte* block = window.begin; block < window.end; block += huge_bytes) {
    Block found;
    if (block == window.canary || !look_at(block, huge_bytes, &found)) continue;
    if (found.pages == 0) {
      region.refused |= advise(block, block + huge_bytes, MADV_NOHUGEPAGE);
    } else if ((window.begun >> size_of(window.begin, block) / huge_bytes & 1) == 0) {
      set_huge(region, block_of(region, block));
      unproven += huge_bytes;
    }
  }
  free_window(window);
  return unproven;
}

void close_windows(Region& region) noexcept {
  for (auto& window : region.windows) {
    if (window.end == nullptr) continue;
    const std::size_t unproven = close_window(region, window);
    region.unproven_bytes += unproven;
    trust_in_use += unproven;
  }
  for (auto& stripe : region.stripes) stripe = {};
}

/// Windows that are used densely make place for the next ones. Whether there were such.
bool look_at_windows(Region& region) noexcept {
  const std::size_t huge_bytes = system().huge_bytes;
  bool changed = false;
  for (auto& window : region.windows) {
    if (window.end == nullptr) continue;
    if (window.canary != nullptr ? !is_full(window.canary, huge_bytes) : !has_content(window)) continue;
    // The canary is collapsed when there is time, as other full blocks are.
    if (window.canary != nullptr) ask_for_huge(region, window.canary, window.end);
    std::byte* const end = window.canary != nullptr ? window.canary : window.end;
    const std::size_t first = block_of(region, window.begin), count = size_of(window.begin, end) / huge_bytes;
    for (std::size_t i = 0; i < count; ++i) {
      if ((window.begun >> i & 1) == 0) set_huge(region, first + i);
    }
    const int stripe = window.stripe;
    region.stripes[stripe].dense = true;
    free_window(window);
    open_windows(region, stripe);
    changed = true;
  }
  for (int i = 0; i < most_stripes; ++i) {
    if (region.stripes[i].begin != nullptr) open_windows(region, i);
  }
  return changed;
}

bool is_there(std::byte* page) noexcept {
  unsigned char there = 0;
  return mincore(page, page_bytes(), &there) == 0 && (there & 1) != 0;
}

bool may_fill(Window& window) noexcept {
  if (window.fill == MayFill::unknown) {
    window.fill = !has_userfaultfd() ? MayFill::yes : MayFill::no;
  }
  return window.fill == MayFill::yes;
}

/// A thread that fills a window in order finds the next blocks there already: a second PU has cleared them. Only where
/// a PU is idle, and never the canary. Whether blocks were filled.
bool fill_ahead(Region& region, Window& window) noexcept {
  const std::size_t huge_bytes = system().huge_bytes;
  std::byte* const end = window.canary != nullptr ? window.canary : window.end;
  std::byte* next = window.begin;
  while (next < end && is_there(next)) next += huge_bytes;
  const bool dense = region.stripes[window.stripe].dense;
  if (next == end || (!dense && size_of(window.begin, next) < fill_from * huge_bytes)) return false;
  // Threads that touch it in another order, or at random, are left alone.
  for (std::byte* block = next; block < window.end; block += huge_bytes) {
    if (is_there(block)) return false;
  }
  if (!may_fill(window)) return false;
  // Where first touch decides on the NUMA node, it is that of the thread that fills the window.
  const int node = region.anywhere ? -1 : node_of(window.begin, next, huge_bytes);
  if (!region.anywhere && node < 0) return false;
  // Where no PU is idle, one page from time to time shows what they cost.
  const std::size_t most = !spare ? 1 : dense ? window_blocks : first_fill_blocks;
  std::byte* const last = std::min(end, next + most * huge_bytes);
  const std::int64_t begin = time_of(CLOCK_MONOTONIC);
  while (next < last && time_of(CLOCK_MONOTONIC) - begin < fill_ns && !prices.dear()) {
    const std::int64_t ns =
        region.anywhere ? timed_populate(next, next + huge_bytes) : timed_populate_on(node, next, next + huge_bytes);
    if (ns == 0) {
      window.fill = MayFill::no;
      return false;
    }
    note_price(ns);
    totals.filled += huge_bytes;
    next += huge_bytes;
  }
  return spare;
}

/// Whether a window was filled ahead of the program, or a part of one.
bool fill_ahead(Region& region) noexcept {
  if (!spare && time_of(CLOCK_MONOTONIC) - prices.last_ns() < price_ns) return false;
  bool filled = false;
  for (auto& window : region.windows) {
    if (window.end != nullptr) filled |= fill_ahead(region, window);
  }
  return filled;
}

bool is_covered(const Region& region, const std::byte* block) noexcept {
  return std::any_of(std::begin(region.stripes), std::end(region.stripes), [block](const WindowSequence& stripe) {
    return stripe.begin != nullptr && block >= stripe.begin && block < stripe.end;
  });
}

/// Elsewhere, a block that fills up in one run, or two, has a thread on its way: a stripe begins behind it. Whether one
/// was found.
bool look_for_stripe(Region& region) noexcept {
  const std::size_t huge_bytes = system().huge_bytes;
  WindowSequence* const stripe = std::find_if(std::begin(region.stripes), std::end(region.stripes),
                                              [](const WindowSequence& each) { return each.begin == nullptr; });
  if (region.limited || prices.dear() || scarce) return false;
  if (stripe == std::end(region.stripes) || trust_in_use + huge_bytes > trust_bytes) return false;
  const std::size_t blocks = size_of(region.begin, region.end) / huge_bytes;
  const std::size_t count = std::min<std::size_t>(blocks, samples);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const block = region.begin + blocks * i / count * huge_bytes;
    std::byte* const next = block + huge_bytes;
    if (next >= region.end || is_covered(region, block) || is_covered(region, next)) continue;
    Block found, behind;
    if (!look_at(block, huge_bytes, &found) || found.pages < least_run_pages || found.runs > 2) continue;
    if (!look_at(next, huge_bytes, &behind) || behind.pages > 0) continue;
    *stripe = {.begin = next, .end = next};
    open_windows(region, static_cast<int>(stripe - region.stripes));
    return true;
  }
  return false;
}

/// Full blocks of small pages become huge ones, some at a time. Whether there were some.
bool collapse_some(Region& region) noexcept {
  const std::size_t huge_bytes = system().huge_bytes;
  const std::size_t blocks = std::min(size_of(region.begin, region.end) / huge_bytes, most_blocks);
  int done = 0;
  for (std::size_t seen = 0, looked = 0; seen < blocks && looked < looked_at_once && done < collapsed_at_once; ++seen) {
    const std::size_t index = region.cursor < blocks ? region.cursor : 0;
    region.cursor = index + 1;
    std::byte* const block = region.begin + index * huge_bytes;
    if (is_huge(region, index)) continue;
    ++looked;
    if (!is_full(block, huge_bytes)) continue;
    if (!may_collapse()) return false;
    collapse_block(region, block);
    ++done;
  }
  return done > 0;
}

void forget(Region& region) noexcept {
  for (auto& window : region.windows) free_window(window);
  trust_in_use -= region.unproven_bytes;
  region = no_region;
  if (known.fetch_sub(1, std::memory_order_relaxed) == 1) {
    for (auto& bits : filter) bits.store(0, std::memory_order_relaxed);
  }
}

/// Where one node's threads have touched all there is, and others have a part in the work, the rest goes to all in
/// turns.
void look_at_nodes(Region& region) noexcept {
  constexpr int wanted = 64, enough = 16;
  void* pages[wanted];
  int nodes[wanted];
  const std::size_t count = size_of(region.begin, region.end) / page_bytes();
  for (int i = 0; i < wanted; ++i)
    pages[i] = region.begin + count * static_cast<std::size_t>(i) / wanted * page_bytes();
  if (syscall(SYS_move_pages, 0, static_cast<unsigned long>(wanted), pages, nullptr, nodes, 0) != 0) {
    region.placed = true;  // forbidden
    return;
  }
  int there = 0, first = -1;
  for (const int node : nodes) {
    if (node < 0) continue;
    ++there;
    if (first < 0) first = node;
    if (node != first) region.placed = true;  // several threads touch it
  }
  if (!region.placed && there >= enough) interleave(region);
}

/// The heap that ends at the program break has grown or shrunk.
void follow_break(Region& region) noexcept {
  const std::size_t huge_bytes = system().huge_bytes;
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0)) / huge_bytes * huge_bytes;
  auto* const now = std::max(region.begin, reinterpret_cast<std::byte*>(end));
  // Blocks that come back are new ones.
  for (std::byte* block = now; block < region.end; block += huge_bytes) {
    const std::size_t index = block_of(region, block);
    if (index < most_blocks) region.huge[index / 64] &= ~(std::uint64_t{1} << index % 64);
  }
  region.end = now;
}

enum class Change { none, collapsed, much, filled };

/// One look.
Change watch(Region& region) noexcept {
  const System& found = system();
  bool changed = false;
  if (found.nodes > 1 && found.mode == Mode::automatic && !region.placed) {
    look_at_nodes(region);
    changed = region.placed;
  }
  if (!found.asks_for_huge) return changed ? Change::much : Change::none;
  if (region.allocation == break_heap) follow_break(region);
  if (!region.heap) {
    if (!region.opened && prices.known() && !prices.dear()) open_first(region);
    changed |= look_at_windows(region);
    changed |= look_for_stripe(region);
    const bool filled = !scarce && fill_ahead(region);
    if (prices.dear() || scarce) close_windows(region);
    if (filled) return Change::filled;
  }
  // Twice for a moment: the copy, and what is copied.
  const std::size_t both = 2 * collapsed_at_once * found.huge_bytes;
  const bool collapsed = memory_left(both + 1) > both && collapse_some(region);
  return changed ? Change::much : collapsed ? Change::collapsed : Change::none;
}

// ---- the thread ------------------------------------------------------------------------------

/// So long, or until there is something new.
void rest(long wait_us) noexcept {
  timespec until = {};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const long ns = until.tv_nsec + wait_us * 1000;
  until = {until.tv_sec + ns / 1'000'000'000, ns % 1'000'000'000};
  const Locked locked;
  while (!leaving && (!active || wait_us <= first_wait_us)) {
    if (pthread_cond_timedwait(&wake, &lock, &until) == ETIMEDOUT) break;
  }
}

/// Before the first huge page is asked for; and again where they were dear, as long as a PU is idle.
void look_at_prices(bool idle_pu) noexcept {
  if (!system().asks_for_huge || system().mode != Mode::automatic) return;
  {
    const Locked locked;
    const bool old = time_of(CLOCK_MONOTONIC) - prices.last_ns() > dear_ns;
    if (prices.known() && !(prices.dear() && old && idle_pu)) return;
  }
  // Kernels that cannot tell: as if they were cheap.
  const std::int64_t ns = std::max<std::int64_t>(1, huge_page_ns(system().huge_bytes));
  const Locked locked;
  note_price(ns);
}

/// At all regions.
Change look() noexcept {
  Change changed = Change::none;
  const bool idle_pu = spare_pus.any();
  look_at_prices(idle_pu);
  const std::size_t left = memory_left(scarce_bytes);
  for (auto& region : regions) {
    const Locked locked;  // for one region at a time: the program does not wait long
    spare = idle_pu;
    scarce = left < scarce_bytes;
    if (region.allocation != nullptr) changed = std::max(changed, watch(region));
  }
  return changed;
}

void* run(void*) noexcept {
  long wait_us = first_wait_us;
  thread_number = syscall(SYS_gettid);
  is_watcher = true;
  // The files that it reads have no numbers that the program could get. Linux 5.9; before, the table stays shared.
  syscall(SYS_close_range, 0u, ~0u, 2u /* CLOSE_RANGE_UNSHARE */);
  look();
  for (int idle = 0;;) {
    rest(wait_us);
    const Change changed = look();
    const Locked locked;
    if (leaving) return nullptr;
    idle = active || stirred || changed != Change::none ? 0 : idle + 1;
    if (changed == Change::filled) {
      wait_us = fill_wait_us;
    } else if (active || changed == Change::much) {
      wait_us = first_wait_us;
    } else if (changed == Change::collapsed) {
      wait_us = collapse_wait_us;
    } else {
      wait_us = std::min(longest_wait_us, wait_us + wait_us / 4);
    }
    active = stirred = false;
    while (idle >= looks_until_sleep && !active && !stirred && !leaving) pthread_cond_wait(&wake, &lock);
  }
}

/// Of thread-local variables: they lie on the stacks of threads.
int add_thread_local(dl_phdr_info* object, std::size_t, void* bytes) noexcept {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type == PT_TLS) *static_cast<std::size_t*>(bytes) += part.p_memsz + part.p_align;
  }
  return 0;
}

std::size_t stack_bytes() noexcept {
  std::size_t bytes = std::max<std::size_t>(64 << 10, static_cast<std::size_t>(sysconf(_SC_THREAD_STACK_MIN)));
  dl_iterate_phdr(add_thread_local, &bytes);
  return bytes;
}

void start_watching() noexcept {
  active = true;
  if (begun_ns == 0) begun_ns = time_of(CLOCK_MONOTONIC);
  if (watching) {
    pthread_cond_signal(&wake);
    return;
  }
  if (over) return;
  granted_millipus();  // found out here, as no fork is on its way
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes());
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the program's
  watching = pthread_create(&thread, &attributes, run, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

/// In a child: it has no watching thread. What its parent had is as it was; new allocations are looked at again.
void start_anew() noexcept {
  for (auto& region : regions) region = no_region;
  for (auto& bits : filter) bits.store(0, std::memory_order_relaxed);
  known.store(0, std::memory_order_relaxed);
  trust_in_use = 0;
  prices = {};
  collapse_budget = {};
  begun_ns = 0;
  watching = active = stirred = leaving = over = false;
  totals = {};
  wake = PTHREAD_COND_INITIALIZER;
  lock = PTHREAD_MUTEX_INITIALIZER;
  *own_process = 1;
}

// ---- the main thread ---------------------------------------------------------------------------

/// The main thread has a value of it, and so calls what follows when it ends before the process does.
constinit pthread_key_t ends = {};

/// The process is to end with the last of the program's threads.
void end_watching(void*) noexcept {
  {
    const KeptState kept;
    const Locked locked;
    over = true;
  }
  pause_watching();
}

/// The thread that was in fork is the child's main thread.
void in_child() noexcept {
  start_anew();
  pthread_setspecific(ends, &ends);
  inside = false;
  let_signals(signals_before);
}

/// A page that the kernel clears in children.
int* find_own_process() noexcept {
  static constinit int without = 1;
  const long page =
      syscall(SYS_mmap, nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == -1) return &without;
  auto* const found = reinterpret_cast<int*>(page);
  syscall(SYS_madvise, found, page_bytes(), MADV_WIPEONFORK);
  *found = 1;
  return found;
}

/// Runs in the main thread.
[[gnu::constructor(101)]] void prepare() noexcept {
  own_process = find_own_process();
  pthread_atfork(acquire, release, in_child);
  if (syscall(SYS_gettid) == getpid() && pthread_key_create(&ends, end_watching) == 0) pthread_setspecific(ends, &ends);
}

Region* free_region() noexcept {
  for (auto& region : regions) {
    if (region.allocation == nullptr) return &region;
  }
  return nullptr;
}

void add(const void* memory, std::byte* begin, std::byte* end, std::size_t size, bool refused) noexcept {
  const System& found = system();
  Region* const region = free_region();
  if (region == nullptr) return;
  const std::size_t bytes = size_of(begin, end);
  region->allocation = memory;
  region->begin = begin;
  region->end = end;
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  region->first_page = reinterpret_cast<std::byte*>(start / page_bytes() * page_bytes());
  region->end_page = reinterpret_cast<std::byte*>((start + size + page_bytes() - 1) / page_bytes() * page_bytes());
  region->refused = region->advised = refused;
  region->placed = found.nodes == 1 || found.mode != Mode::automatic;
  region->anywhere = found.nodes == 1;
  known.fetch_add(1, std::memory_order_relaxed);
  const std::size_t bit = filter_bit(memory);
  filter[bit / 64].fetch_or(std::uint64_t{1} << bit % 64, std::memory_order_relaxed);
  totals.allocations += 1;
  totals.bytes += bytes;
  if (found.mode == Mode::interleave && found.nodes > 1) interleave(*region);
  bool done = region->placed;
  const std::size_t left = memory_left(std::max(scarce_bytes, 2 * bytes));
  scarce = left < scarce_bytes;
  region->limited = left / 2 < bytes;
  region->opened = region->limited || found.mode == Mode::huge;
  if (found.asks_for_huge && !region->limited) {
    if (found.mode == Mode::huge) {
      // All of it: the user has asked for huge pages whatever they cost.
      if (ask_for_huge(*region, region->first_page, region->end_page)) totals.opened += bytes;
    } else {
      if (prices.known() && !prices.dear()) open_first(*region);
      done = false;
    }
  }
  if (!done) start_watching();
}

/// The part of a heap from `begin` on; `allocation` is its name.
void add_heap(const void* allocation, std::byte* begin, std::byte* end) noexcept {
  for (const auto& region : regions) {
    if (region.allocation != allocation || !region.heap) continue;
    stirred = true;
    pthread_cond_signal(&wake);
    return;
  }
  Region* const region = free_region();
  if (region == nullptr) return;
  region->allocation = allocation;
  region->begin = begin;
  region->end = end;
  region->heap = region->placed = true;
  known.fetch_add(1, std::memory_order_relaxed);
  totals.heaps += 1;
  start_watching();
}

}  // namespace

void added(void* memory, std::size_t bytes, bool refused) noexcept {
  if (inside) return;
  const KeptState kept;
  const Locked locked;  // what is found out once is so outside of forks
  const System& found = system();
  if (found.mode == Mode::off || (!found.asks_for_huge && found.nodes == 1)) return;
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const auto begin = (start + found.huge_bytes - 1) / found.huge_bytes * found.huge_bytes;
  const auto end = (start + bytes) / found.huge_bytes * found.huge_bytes;
  if (begin >= end) return;
  add(memory, reinterpret_cast<std::byte*>(begin), reinterpret_cast<std::byte*>(end), bytes, refused);
}

void grown(const void* memory) noexcept {
  if (inside) return;
  const KeptState kept;
  const Locked locked;
  const System& found = system();
  if (!found.asks_for_huge || found.mode != Mode::automatic) return;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto huge = [&](std::uintptr_t at) {
    return reinterpret_cast<std::byte*>((at + found.huge_bytes - 1) / found.huge_bytes * found.huge_bytes);
  };
  // Flags of glibc's chunks, in the word before the memory: 2, mapped by itself; 4, not of the first arena.
  std::uintptr_t header = 0;
  std::memcpy(&header, static_cast<const std::byte*>(memory) - sizeof header, sizeof header);
  if ((header & 2) != 0) return;
  if ((header & 4) != 0) {
    const std::uintptr_t begin = address / arena_heap_bytes * arena_heap_bytes;
    return add_heap(reinterpret_cast<const void*>(begin), huge(begin), huge(begin) + arena_heap_bytes);
  }
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0));
  if (found.heap_begin == 0 || end < found.heap_begin + least_heap_bytes) return;
  add_heap(break_heap, huge(found.heap_begin), huge(found.heap_begin));
}

void removed(const void* memory, std::size_t bytes) noexcept {
  if (known.load(std::memory_order_relaxed) == 0 || inside) return;
  const auto* const begin = static_cast<const std::byte*>(memory);
  const KeptState kept;
  const Locked locked;
  for (auto& region : regions) {
    if (region.allocation == nullptr || region.end <= begin || region.begin >= begin + bytes) continue;
    unite(region, region.first_page, region.end_page);
    forget(region);
  }
}

void removed(const void* memory) noexcept {
  const std::size_t bit = filter_bit(memory);
  if ((filter[bit / 64].load(std::memory_order_relaxed) >> bit % 64 & 1) == 0 || inside) return;
  const KeptState kept;
  const Locked locked;
  for (auto& region : regions) {
    if (region.allocation == memory) return forget(region);
  }
}

bool moves(const void* memory) noexcept {
  const std::size_t bit = filter_bit(memory);
  if ((filter[bit / 64].load(std::memory_order_relaxed) >> bit % 64 & 1) == 0 || inside) return false;
  const KeptState kept;
  const Locked locked;
  for (auto& region : regions) {
    if (region.allocation != memory) continue;
    // Of glibc's chunks: what precedes it, and its size with a flag 2 if it was mapped by itself.
    std::size_t header[2];
    auto* const chunk = reinterpret_cast<std::byte*>(const_cast<void*>(memory)) - sizeof header;
    std::memcpy(header, chunk, sizeof header);
    const bool mapped = (header[1] & 2) != 0;
    const bool refused = mapped && unite(region, chunk - header[0], chunk + (header[1] & ~std::size_t{7}));
    forget(region);
    return refused;
  }
  return false;
}

bool has_divided() noexcept { return divided.load(std::memory_order_relaxed); }

void pause_watching() noexcept {
  const KeptState kept;
  {
    const Locked locked;
    if (!watching || leaving) return;
    leaving = true;
    pthread_cond_signal(&wake);
  }
  pthread_join(thread, nullptr);
  // The kernel still counts it for a moment.
  for (int i = 0; i < 1000 && syscall(SYS_tgkill, getpid(), thread_number.load(), 0) == 0; ++i) usleep(10);
  const Locked locked;
  watching = leaving = false;
}

namespace {

double mib(std::size_t bytes) noexcept { return static_cast<double>(bytes) / (1 << 20); }

[[gnu::destructor(102)]] void tell() noexcept {
  if (!verbose()) return;
  const System& found = system();
  if (totals.allocations + totals.heaps == 0 && found.asks_for_huge) return;
  std::fprintf(stderr, "smelt: memory in process %d (%s)\n", static_cast<int>(getpid()), program_invocation_short_name);
  if (!found.asks_for_huge) std::fprintf(stderr, "  huge pages: not asked for: %s\n", found.why_not);
  if (found.mode != Mode::off) {
    std::fprintf(stderr, "  allocations of 4 MiB and more: %zu, %.0f MiB in whole huge pages\n", totals.allocations,
                 mib(totals.bytes));
  }
  if (found.asks_for_huge) {
    std::fprintf(stderr, "  huge pages: asked for %.0f MiB, collapsed %.0f MiB in %.0f ms; heaps looked at: %zu\n",
                 mib(totals.opened), mib(totals.collapsed), static_cast<double>(collapse_budget.spent_ns()) * 1e-6,
                 totals.heaps);
    if (collapse_budget.spent_ns() > 0) {
      std::fprintf(stderr, "  collapses counted as %.0f ms: the more one costs, the fewer there are\n",
                   static_cast<double>(collapse_budget.charged_ns()) * 1e-6);
    }
    std::fprintf(stderr, "  made resident ahead of the program: %.0f MiB\n", mib(totals.filled));
    if (prices.known()) {
      std::fprintf(
          stderr, "  a huge page cost %.2f ms in the end, %s\n", static_cast<double>(prices.huge_ns()) * 1e-6,
          prices.dear() ? "more than twice as much as small pages: no more are asked for ahead" : "worth asking for");
    }
  }
  if (found.nodes > 1) {
    std::fprintf(stderr, "  interleaved over %d NUMA nodes: %.0f MiB\n", found.nodes, mib(totals.interleaved));
  }
  print_counters(stderr);
  Dl_info own = {};
  if (found.mode != Mode::off && dladdr(&totals, &own) != 0) {
    std::fprintf(stderr, "  to compare: SMELT_VERBOSE=1 SMELT_MEMORY=off LD_PRELOAD=%s PROGRAM\n", own.dli_fname);
  }
}

}  // namespace
}  // namespace smelt::shims::memory
