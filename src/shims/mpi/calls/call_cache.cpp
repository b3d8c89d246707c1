#include "shims/mpi/calls/call_cache.hpp"

#include <new>
#include <utility>

#include "shims/mpi/calls/blocks.hpp"
#include "shims/mpi/calls/translated_call.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

const std::byte* bytes(const void* address) { return static_cast<const std::byte*>(address); }

}  // namespace

void CallCache::CachedRequests::prepare(const smelt_call& call, smelt_rank* local, SelectionCell* cell) noexcept {
  smelt_request*& request = requests_[call.at_rest != 0 ? 1 : 0];
  cell_ = cell;
  smelt_request_free(std::exchange(request, nullptr));
  if (smelt_prepare(local, &call, &request) != SMELT_OK) request = nullptr;
}

void CallCache::CachedRequests::forget() noexcept {
  for (smelt_request*& request : requests_) smelt_request_free(std::exchange(request, nullptr));
}

void CallCache::learn(const CallSignature& call, const TranslatedCall& task, smelt_rank* local,
                      SelectionCell* cell) noexcept {
  const smelt_call& ran = task.call;
  const bool reads = ran.in != nullptr, writes = ran.out != nullptr;
  std::ptrdiff_t offset = 0;
  if (reads && call.in == MPI_IN_PLACE) offset = bytes(ran.in) - bytes(call.out);
  if (writes && call.out == MPI_IN_PLACE) offset = bytes(ran.out) - bytes(call.in);
  if (!task.depends_on_arguments_alone() || (reads && read_by(call, offset) != ran.in) ||
      (writes && written_by(call, offset) != ran.out)) {
    return;
  }
  CachedCall& repeat = place_of(call);
  if (repeat.like.is_like(call)) {
    repeat.reads = reads;
    repeat.writes = writes;
    repeat.offset = offset;
    return repeat.work.prepare(ran, local, cell);
  }
  repeat.work.forget();
  repeat.like = call;
}

void CallCache::learn(const UnevenSignature& call, int rank, int size, const TranslatedCall& task, smelt_rank* local,
                      SelectionCell* cell) noexcept {
  smelt_call ran = task.call;
  const bool reads = ran.in != nullptr, writes = ran.out != nullptr;
  const std::byte* const in = given_in(call.one);
  const std::byte* const out = given_out(call.one);
  if (!task.depends_on_arguments_alone() || (reads && in == nullptr) || (writes && out == nullptr)) return;
  UnevenCachedCall& repeat = place_of(call, rank, size);
  try {
    if (repeat.is_like(call, rank, size)) {
      repeat.reads = reads;
      repeat.writes = writes;
      repeat.in_shift = reads ? bytes(ran.in) - in : 0;
      repeat.out_shift = writes ? bytes(ran.out) - out : 0;
      keep_blocks(ran, size, repeat.blocks);
      return repeat.work.prepare(ran, local, cell);
    }
    repeat.work.forget();
    repeat.like = call.one;
    repeat.numbers.clear();
    (void)visit_arrays(call, rank, [&](const auto& array) {
      const bool there = !(array == nullptr);
      repeat.numbers.push_back(there ? 1 : 0);
      for (int i = 0; there && i < size; ++i) repeat.numbers.push_back(number_in(array, i));
      return true;
    });
  } catch (const std::bad_alloc&) {  // not cached
    repeat.like.operation = SMELT_BARRIER;
  }
}

void CallCache::forget() noexcept {
  for (CachedCall& repeat : repeats_) repeat.work.forget();
  for (UnevenCachedCall& repeat : uneven_) repeat.work.forget();
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
