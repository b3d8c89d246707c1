#include "shims/memory/watcher.hpp"

#include <linux/mempolicy.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "shims/memory/system.hpp"
#include "shims/report.hpp"

namespace smelt::shims::memory {
namespace {

#ifdef MADV_COLLAPSE  // of Linux 6.1
constexpr int collapse = MADV_COLLAPSE;
#else
constexpr int collapse = 25;
#endif

constexpr std::size_t small_bytes = 4096;
constexpr int most_regions = 512;
constexpr int samples = 32;            ///< blocks of a region that a look takes in
constexpr int collapsed_at_once = 16;  ///< blocks: what the program might have to wait for
constexpr int most_block_pages = 512;
constexpr long first_wait_us = 2000, longest_wait_us = 200'000;
constexpr int looks_until_sleep = 40;  ///< without a change

enum class State { undecided, dense, scattered };

struct Region {
  const void* allocation = nullptr;  ///< what the program was given; null: this place is free
  std::byte* begin = nullptr;        ///< whole huge pages within it
  std::byte* end = nullptr;
  std::byte* trusted_end = nullptr;
  std::byte* to_collapse = nullptr;  ///< of a dense rest: blocks from here on may still be small pages
  State state = State::undecided;    ///< of the rest
  std::size_t open_bytes = 0;        ///< of the trusted part: not yet seen to be dense
  std::size_t credit_bytes = 0;      ///< of the trusted part: what dense memory that is gone has left
  bool placed = false;               ///< nothing more is to be found out about its NUMA nodes
};

struct Totals {
  std::size_t allocations = 0, bytes = 0, trusted = 0, dense = 0, collapsed = 0, interleaved = 0;
};

// All of it is protected by the lock, but the filter, which frees look at without.
constinit pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
constinit pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
constinit Region regions[most_regions] = {};
constinit std::size_t trust_in_use = 0;
/// Dense memory that the program has given back: so much more can be trusted without being larger than it was.
constinit std::size_t credit = 0;
constinit bool watching = false, active = false;
constinit Totals totals = {};
/// A bit for each allocation, by its address; set bits are cleared when there are no regions. Relaxed: whoever frees an
/// allocation has its address from whom it was added by, and so the bit.
constinit std::atomic<std::uint64_t> filter[1024] = {};
constinit std::atomic<int> known{0};
/// This thread holds the lock: what it allocates and gives back meanwhile is its own.
constinit thread_local bool inside = false;

class Locked {
 public:
  Locked() noexcept {
    pthread_mutex_lock(&lock);
    inside = true;
  }
  ~Locked() {
    inside = false;
    pthread_mutex_unlock(&lock);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

/// The program's errno stays as it is.
class KeptErrno {
 public:
  KeptErrno() noexcept : kept_(errno) {}
  ~KeptErrno() { errno = kept_; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  int kept_;
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
  if (syscall(SYS_mbind, region.begin, size_of(region.begin, region.end), MPOL_INTERLEAVE, found.node_mask, bits, 0) ==
      0) {
    totals.interleaved += size_of(region.begin, region.end);
  }
}

void close_trust(Region& region) noexcept {
  trust_in_use -= region.open_bytes;
  region.open_bytes = 0;
}

void forget(Region& region) noexcept {
  const bool all_dense = region.open_bytes == 0;
  credit += all_dense ? size_of(region.begin, region.trusted_end) : region.credit_bytes;
  if (region.state == State::dense) credit += size_of(region.trusted_end, region.end);
  close_trust(region);
  region = {};
  if (known.fetch_sub(1, std::memory_order_relaxed) == 1) {
    for (auto& bits : filter) bits.store(0, std::memory_order_relaxed);
  }
}

// ---- looking ---------------------------------------------------------------------------------

/// What there is of one block of the size of a huge page.
struct Block {
  int pages = 0;  ///< that are there
  int runs = 0;   ///< of neighbours
};

bool look_at(std::byte* block, std::size_t huge_bytes, Block* found) noexcept {
  unsigned char there[most_block_pages];
  const std::size_t count = huge_bytes / small_bytes;
  if (count > most_block_pages || mincore(block, huge_bytes, there) != 0) return false;
  *found = {};
  for (std::size_t i = 0; i < count; ++i) {
    if ((there[i] & 1) == 0) continue;
    ++found->pages;
    found->runs += i == 0 || (there[i - 1] & 1) == 0;
  }
  return true;
}

/// Whether the small page that is there has been written with anything but zeros, as far as one line in eight shows.
bool has_content(const std::byte* page) noexcept {
  for (std::size_t at = 0; at < small_bytes; at += 512) {
    std::uint64_t words[8];
    std::memcpy(words, page + at, sizeof words);
    for (const auto word : words) {
      if (word != 0) return true;
    }
  }
  return false;
}

/// Of pages spread over the trusted part: whether all are there and nearly all have content.
bool trusted_is_dense(const Region& region) noexcept {
  constexpr int wanted = 64;
  const std::size_t pages = size_of(region.begin, region.trusted_end) / small_bytes;
  int written = 0;
  for (int i = 0; i < wanted; ++i) {
    const auto* const page = region.begin + (pages * static_cast<std::size_t>(2 * i + 1) / (2 * wanted)) * small_bytes;
    unsigned char there = 0;
    if (mincore(const_cast<std::byte*>(page), small_bytes, &there) != 0 || (there & 1) == 0) return false;
    written += has_content(page);
  }
  return written * 100 >= wanted * 95;
}

struct Rest {
  int touched = 0;    ///< blocks with pages
  int full = 0;       ///< nearly all pages
  int scattered = 0;  ///< pages here and there
  int looked_at = 0;
};

template <class Visit>
void for_samples(const Region& region, std::size_t huge_bytes, const Visit& visit) noexcept {
  const std::size_t blocks = size_of(region.trusted_end, region.end) / huge_bytes;
  const std::size_t count = std::min<std::size_t>(blocks, samples);
  for (std::size_t i = 0; i < count; ++i) visit(region.trusted_end + blocks * i / count * huge_bytes);
}

Rest look_at_rest(const Region& region, std::size_t huge_bytes) noexcept {
  Rest rest;
  const int all = static_cast<int>(huge_bytes / small_bytes);
  for_samples(region, huge_bytes, [&](std::byte* block) {
    Block found;
    ++rest.looked_at;
    if (!look_at(block, huge_bytes, &found) || found.pages == 0) return;
    ++rest.touched;
    rest.full += found.pages * 100 >= all * 95;
    // A run or two is a thread on its way, or two.
    rest.scattered += found.pages * 100 < all * 95 && found.runs > 2;
  });
  return rest;
}

/// Full blocks of small pages become huge ones, some at a time. Whether there was something to do.
bool collapse_some(Region& region, std::size_t huge_bytes) noexcept {
  const int all = static_cast<int>(huge_bytes / small_bytes);
  std::byte*& block = region.to_collapse;
  const bool some = block < region.end;
  for (int i = 0; i < collapsed_at_once && block < region.end; ++i, block += huge_bytes) {
    Block found;
    if (!look_at(block, huge_bytes, &found) || found.pages * 100 < all * 95) continue;
    if (advise(block, block + huge_bytes, collapse)) totals.collapsed += huge_bytes;
  }
  return some;
}

/// Where one node's threads have touched all there is, and others have a part in the work, the rest goes to all in
/// turns.
void look_at_nodes(Region& region) noexcept {
  constexpr int wanted = 64, enough = 16;
  void* pages[wanted];
  int nodes[wanted];
  const std::size_t count = size_of(region.begin, region.end) / small_bytes;
  for (int i = 0; i < wanted; ++i) pages[i] = region.begin + count * static_cast<std::size_t>(i) / wanted * small_bytes;
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

/// One look; whether anything has changed.
bool watch(Region& region) noexcept {
  const System& found = system();
  bool changed = false;
  if (found.nodes > 1 && found.mode == Mode::automatic && !region.placed) {
    look_at_nodes(region);
    changed = region.placed;
  }
  if (!found.asks_for_huge) return changed;
  if (region.open_bytes > 0 && trusted_is_dense(region)) {
    close_trust(region);
    changed = true;
  }
  if (region.trusted_end == region.end) return changed;
  if (region.state == State::dense) return collapse_some(region, found.huge_bytes) || changed;
  const Rest rest = look_at_rest(region, found.huge_bytes);
  if (rest.touched == 0) return changed;
  const bool nearly_all = rest.full * 100 >= rest.looked_at * 95;
  const bool in_order = rest.scattered == 0 && rest.full > 0;
  if (nearly_all || (region.state == State::undecided && in_order)) {
    if (memory_left() / 2 < size_of(region.trusted_end, region.end)) return changed;
    region.state = State::dense;
    totals.dense += size_of(region.trusted_end, region.end);
    region.to_collapse = region.trusted_end;
    return advise(region.trusted_end, region.end, MADV_HUGEPAGE);
  }
  if (region.state == State::undecided && rest.scattered > rest.full) {
    region.state = State::scattered;
    return true;
  }
  return changed;
}

// ---- the thread ------------------------------------------------------------------------------

void* run(void*) noexcept {
  long wait_us = first_wait_us;
  for (int idle = 0;;) {
    const timespec pause = {wait_us / 1'000'000, wait_us % 1'000'000 * 1000};
    nanosleep(&pause, nullptr);
    bool changed = false;
    for (int i = 0; i < most_regions; ++i) {
      const Locked locked;  // for one region at a time: the program does not wait long
      if (regions[i].allocation != nullptr) changed |= watch(regions[i]);
    }
    const Locked locked;
    if (active || changed)
      idle = 0, wait_us = first_wait_us;
    else
      ++idle, wait_us = std::min(longest_wait_us, wait_us + wait_us / 4);
    active = false;
    while (idle >= looks_until_sleep && !active) pthread_cond_wait(&wake, &lock);
  }
  return nullptr;
}

void start_watching() noexcept {
  active = true;
  if (watching) {
    pthread_cond_signal(&wake);
    return;
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes,
                            std::max<std::size_t>(64 << 10, static_cast<std::size_t>(sysconf(_SC_THREAD_STACK_MIN))));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the program's
  pthread_t thread;
  watching = pthread_create(&thread, &attributes, run, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

void before_fork() noexcept {
  pthread_mutex_lock(&lock);
  inside = true;
}
void after_fork() noexcept {
  inside = false;
  pthread_mutex_unlock(&lock);
}

/// The child has no watching thread. What its parent had is as it was; new allocations are looked at again.
void in_child() noexcept {
  for (auto& region : regions) region = {};
  for (auto& bits : filter) bits.store(0, std::memory_order_relaxed);
  known.store(0, std::memory_order_relaxed);
  trust_in_use = credit = 0;
  watching = active = false;
  totals = {};
  wake = PTHREAD_COND_INITIALIZER;
  after_fork();
}

/// The first use; the handlers stay for good.
void prepare() noexcept {
  static const int prepared = pthread_atfork(before_fork, after_fork, in_child);
  (void)prepared;
}

Region* free_region() noexcept {
  for (auto& region : regions) {
    if (region.allocation == nullptr) return &region;
  }
  return nullptr;
}

void add(const void* memory, std::byte* begin, std::byte* end) noexcept {
  const System& found = system();
  Region* const region = free_region();
  if (region == nullptr) return;
  const std::size_t bytes = size_of(begin, end);
  *region = {.allocation = memory,
             .begin = begin,
             .end = end,
             .trusted_end = begin,
             .to_collapse = begin,
             .placed = found.nodes == 1 || found.mode != Mode::automatic};
  known.fetch_add(1, std::memory_order_relaxed);
  const std::size_t bit = filter_bit(memory);
  filter[bit / 64].fetch_or(std::uint64_t{1} << bit % 64, std::memory_order_relaxed);
  totals.allocations += 1;
  totals.bytes += bytes;
  if (found.mode == Mode::interleave && found.nodes > 1) interleave(*region);
  if (found.asks_for_huge && memory_left() / 2 >= bytes) {
    // All of it where the user has asked for huge pages whatever they cost.
    const std::size_t by_credit = found.mode == Mode::huge ? bytes : std::min(bytes, credit);
    const std::size_t left = (trust_bytes - trust_in_use) / found.huge_bytes * found.huge_bytes;
    const std::size_t trusted = std::min(bytes, by_credit + left);
    if (trusted > 0 && advise(begin, begin + trusted, MADV_HUGEPAGE)) {
      region->trusted_end = begin + trusted;
      totals.trusted += trusted;
      if (found.mode != Mode::huge) {
        region->credit_bytes = by_credit;
        region->open_bytes = trusted - by_credit;
        credit -= by_credit;
        trust_in_use += region->open_bytes;
      }
    }
  }
  const bool done = region->placed && region->open_bytes == 0 && region->trusted_end == region->end;
  if (!done && (found.asks_for_huge || !region->placed)) start_watching();
}

}  // namespace

void added(void* memory, std::size_t bytes) noexcept {
  const System& found = system();
  if (found.mode == Mode::off || memory == nullptr || inside || (!found.asks_for_huge && found.nodes == 1)) return;
  const KeptErrno kept;
  prepare();
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const auto begin = (start + found.huge_bytes - 1) / found.huge_bytes * found.huge_bytes;
  const auto end = (start + bytes) / found.huge_bytes * found.huge_bytes;
  if (begin >= end) return;
  const Locked locked;
  add(memory, reinterpret_cast<std::byte*>(begin), reinterpret_cast<std::byte*>(end));
}

void removed(const void* memory, std::size_t bytes) noexcept {
  if (known.load(std::memory_order_relaxed) == 0 || inside) return;
  const auto* const begin = static_cast<const std::byte*>(memory);
  const KeptErrno kept;
  const Locked locked;
  for (auto& region : regions) {
    if (region.allocation == nullptr || region.end <= begin || region.begin >= begin + bytes) continue;
    forget(region);
  }
}

void removed(const void* memory) noexcept {
  const std::size_t bit = filter_bit(memory);
  if ((filter[bit / 64].load(std::memory_order_relaxed) >> bit % 64 & 1) == 0 || inside) return;
  const KeptErrno kept;
  const Locked locked;
  for (auto& region : regions) {
    if (region.allocation == memory) return forget(region);
  }
}

namespace {

[[gnu::destructor(102)]] void tell() noexcept {
  if (!verbose()) return;
  const System& found = system();
  if (totals.allocations == 0 && found.asks_for_huge) return;
  const auto mib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  std::fprintf(stderr, "smelt: memory in process %d (%s)\n", static_cast<int>(getpid()), program_invocation_short_name);
  if (!found.asks_for_huge) std::fprintf(stderr, "  huge pages: not asked for: %s\n", found.why_not);
  std::fprintf(stderr, "  allocations of 4 MiB and more: %zu, %.0f MiB in whole huge pages\n", totals.allocations,
               mib(totals.bytes));
  std::fprintf(stderr, "  huge pages: asked for at once %.0f MiB, after a look %.0f MiB, of that collapsed %.0f MiB\n",
               mib(totals.trusted), mib(totals.dense), mib(totals.collapsed));
  if (found.nodes > 1)
    std::fprintf(stderr, "  interleaved over %d NUMA nodes: %.0f MiB\n", found.nodes, mib(totals.interleaved));
}

}  // namespace
}  // namespace smelt::shims::memory
