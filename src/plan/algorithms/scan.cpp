// Prefix reductions. Inclusive (scan): rank r gets 0 (op) 1 (op) ... (op) r; exclusive (exscan): without its
// own operand, rank 0's result is left alone.
//
//   flat                 every rank combines all inputs before its own; tick 1 = the input can be read
//   chain                rank r passes the sum of 0 .. r on to r + 1, chunk after chunk
//   recursive doubling   in round k rank r gets the sum of the 2^k ranks before what it has
//
// Source: [recursive doubling] Hillis and Steele 1986.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

constexpr int readable = 1, ticks = 2;

std::vector<int> ranks_after(const Builder& b) {
  std::vector<int> after;
  for (int rank = b.rank + 1; rank < b.ranks; ++rank) after.push_back(rank);
  return after;
}

/// The sum of ranks 0 .. rank-1 grows in `work`; the last step puts the result into `out`.
void flat(Builder& b, bool inclusive) {
  const Area theirs = b.staged() ? stage() : in();
  if (b.staged()) {
    const bool read = b.rank + 1 < b.ranks;
    b.use_stage(1, ticks, ranks_after(b));
    if (read) b.copy(in(), stage());
  } else {
    b.publish(ticks);
  }
  b.post(readable);
  b.schedule.work_blocks = b.rank > 0 ? 1 : 0;
  // Without stages nobody may overwrite an input, which `out` may be, before all have read it.
  const bool straight = b.staged();
  if (straight && inclusive && b.rank == 1) {
    b.schedule.work_blocks = 0;
    b.await(0, readable);
    return b.get_combine(0, theirs, in(), out(), true);
  }
  for (int source = 0; source < b.rank; ++source) {
    b.await(source, readable);
    const Area to = straight && !inclusive && source + 1 == b.rank ? out() : work();
    if (source == 0) {
      b.get(0, theirs, to);
    } else {
      b.get_combine(source, theirs, work(), to);
    }
  }
  if (!straight) {
    for (int rank = b.rank + 1; rank < b.ranks; ++rank) b.await(rank, ticks);
  }
  if (b.rank == 0) {
    if (inclusive) b.copy(in(), out());
  } else if (inclusive) {
    b.combine(work(), in(), out());
  } else if (!straight) {
    b.copy(work(), out());
  }
}

void chain(Builder& b, bool inclusive) {
  const bool last = b.rank + 1 == b.ranks;
  const int before = b.rank - 1, after = b.rank + 1;
  if (b.rank == 0) {
    if (!last) b.send(after, in());
    if (inclusive) b.copy(in(), out());
  } else if (inclusive) {
    b.recv_combine(before, in(), out());
    if (!last) b.send(after, out());
  } else if (last) {
    b.recv(before, out());
  } else {
    b.schedule.work_blocks = 2;
    b.recv(before, work());
    b.combine(work(), in(), work(1));
    b.send(after, work(1));
    b.copy(work(), out());
    b.flush();  // the next chunk overwrites work
  }
  b.end();
  b.flush();
}

/// work(0) = sum of the ranks that end with this one; work(1) = the same without it, once there is one.
void recursive_doubling(Builder& b, bool inclusive) {
  b.schedule.work_blocks = 3;
  Area sum = in();
  bool before = false;
  for (int distance = 1; distance < b.ranks; distance *= 2) {
    const bool up = b.rank + distance < b.ranks, down = b.rank >= distance;
    if (up && down) {
      b.exchange(b.rank + distance, sum, b.rank - distance, work(2));
    } else if (up) {
      b.send(b.rank + distance, sum);
    } else if (down) {
      b.recv(b.rank - distance, work(2));
    }
    if (!down) continue;
    if (!inclusive) {
      if (before) {
        b.combine(work(1), work(2), work(1), true);
      } else {
        b.copy(work(2), work(1));
      }
      before = true;
    }
    b.combine(sum, work(2), work(0), true);
    sum = work(0);
  }
  if (inclusive) {
    b.copy(sum, out());
  } else if (before) {
    b.copy(work(1), out());
  }
}

template <void (*rule)(Builder&, bool), bool inclusive>
void build_scan(Builder& b) {
  if (b.ranks > 1) return rule(b, inclusive);
  if (inclusive) b.copy(in(), out());
}

AlgorithmInfo info_of(const char* name, Operation operation, const char* description, std::vector<Access> access,
                      bool canonical) {
  return {.name = name,
          .operation = operation,
          .description = description,
          .access = std::move(access),
          .canonical_order = canonical,
          .pipelined = true};
}

const char* const flat_text = "every rank combines the inputs before its own";
const char* const chain_text = "the sum is passed on from rank to rank";
const char* const doubling_text = "log2 n exchanges of partial sums";

}  // namespace

const Algorithm scan_flat = {info_of("scan_flat", Operation::scan, flat_text, {Access::staged, Access::direct}, true),
                             build_scan<flat, true>};
const Algorithm exscan_flat = {
    info_of("exscan_flat", Operation::exscan, flat_text, {Access::staged, Access::direct}, true),
    build_scan<flat, false>};
const Algorithm scan_chain = {
    info_of("scan_chain", Operation::scan, chain_text, {Access::channels, Access::direct}, true),
    build_scan<chain, true>};
const Algorithm exscan_chain = {
    info_of("exscan_chain", Operation::exscan, chain_text, {Access::channels, Access::direct}, true),
    build_scan<chain, false>};
const Algorithm scan_recursive_doubling = {
    info_of("scan_recursive_doubling", Operation::scan, doubling_text, {Access::channels}, false),
    build_scan<recursive_doubling, true>};
const Algorithm exscan_recursive_doubling = {
    info_of("exscan_recursive_doubling", Operation::exscan, doubling_text, {Access::channels}, false),
    build_scan<recursive_doubling, false>};

}  // namespace smelt::plan
