#include "shims/mpi/calls/translated_call.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <numeric>
#include <utility>

#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/progress_hook.hpp"
#include "shims/mpi/team/communicators.hpp"
#include "shims/mpi/team/team.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

/// Used instead of a null pointer for data that is empty or not significant. Other null pointers smelt refuses.
std::byte nothing[1];

void* or_nothing(void* data) { return data == nullptr ? nothing : data; }

/// Callers have dealt with MPI_IN_PLACE where MPI allows it; elsewhere it is an error, if there is data.
bool is_wrong(const void* data, long long count) { return count < 0 || (count > 0 && data == MPI_IN_PLACE); }

const char* const wrong_arguments = "arguments that the library reports";
const char* const other_operator = "an operator and a datatype that the standard does not combine";

/// Large buffers that earlier calls have given back. The kernel clears new memory page by page, which takes longer than
/// packing. Of all threads; they remain until the process ends.
class SpareBuffers {
 public:
  static constexpr std::size_t least = 64 << 10, most = 16 << 20;

  /// The smallest one of `size` bytes or more, whose size replaces `size`; or null.
  std::byte* take(std::size_t& size) noexcept {
    const std::lock_guard lock(mutex_);
    Buffer* best = nullptr;
    for (auto& each : buffers_) {
      if (each.size >= size && (best == nullptr || each.size < best->size)) best = &each;
    }
    if (best == nullptr) return nullptr;
    size = std::exchange(best->size, 0);
    return std::exchange(best->bytes, nullptr);
  }

  /// The one that is kept no more: this one, a smaller one, or null.
  std::byte* exchange(std::byte* bytes, std::size_t size) noexcept {
    const std::lock_guard lock(mutex_);
    auto& least_one =
        *std::min_element(buffers_.begin(), buffers_.end(), [](auto& a, auto& b) { return a.size < b.size; });
    if (least_one.size >= size) return bytes;
    least_one.size = size;
    return std::exchange(least_one.bytes, bytes);
  }

 private:
  struct Buffer {
    std::byte* bytes = nullptr;
    std::size_t size = 0;
  };

  std::mutex mutex_;
  std::array<Buffer, 4> buffers_;
};

constinit SpareBuffers spare_buffers;

std::byte* advance(void* data, std::ptrdiff_t bytes) { return static_cast<std::byte*>(data) + bytes; }

}  // namespace

// ---- memory ---------------------------------------------------------------------------------

std::byte* TranslatedCall::RankBlocks::block(int i) const {
  if (types != nullptr) return advance(data, offsets[i]);
  return advance(data,
                 static_cast<std::ptrdiff_t>(offsets[i]) * static_cast<std::ptrdiff_t>(mpi::type_of(type)->extent));
}

std::size_t* TranslatedCall::SmallArray::make(int count) {
  const auto wanted = static_cast<std::size_t>(count);
  if (wanted <= std::size(here_)) return here_;
  far_.reset(new std::size_t[wanted]);
  return far_.get();
}

void TranslatedCall::GiveBack::operator()(std::byte* bytes) const noexcept {
  const bool kept = size >= SpareBuffers::least && size <= SpareBuffers::most;
  delete[](kept ? spare_buffers.exchange(bytes, size) : bytes);
}

std::byte* TranslatedCall::Packed::make(std::size_t size) {
  ++size;  // never empty
  std::byte* const spare = size >= SpareBuffers::least ? spare_buffers.take(size) : nullptr;
  bytes = {spare != nullptr ? spare : new std::byte[size], GiveBack{size}};
  return bytes.get();
}

bool TranslatedCall::run_of(const void* data, long long count, MPI_Datatype type, Run& to) {
  const Type* layout = type_of(type);
  if (layout == nullptr || is_wrong(data, count)) return false;
  note(type, *layout);
  to = {const_cast<void*>(data), static_cast<std::size_t>(count), type, layout};
  return true;
}

bool TranslatedCall::blocks_of(RankBlocks& blocks) {
  if (blocks.counts == nullptr || blocks.offsets == nullptr) return false;
  for (int i = 0; i < blocks.blocks; ++i) {
    if (is_wrong(blocks.data, blocks.counts[i])) return false;
    if (blocks.types == nullptr ? i > 0 : blocks.counts[i] == 0) continue;
    const Type* const layout = type_of(blocks.type_of_block(i));
    if (layout == nullptr) return false;
    note(blocks.type_of_block(i), *layout);
  }
  return true;
}

/// The contiguous bytes of a rank's input; packs it if necessary.
void* TranslatedCall::reads(const Run& run) {
  if (run.layout->dense) return run.bytes() == 0 ? or_nothing(run.data) : run.data;
  std::byte* copy = rare_state().packed_in.make(run.bytes());
  error_ = pack(run.data, run.count, run.type, *run.layout, copy);
  return copy;
}

/// The same for its output. `with_contents`: the former contents are needed.
void* TranslatedCall::writes(const Run& run, bool with_contents) {
  if (run.layout->dense) return run.bytes() == 0 ? or_nothing(run.data) : run.data;
  std::byte* copy = rare_state().packed_out.make(run.bytes());
  if (with_contents) error_ = pack(run.data, run.count, run.type, *run.layout, copy);
  rare_state().later = RareState::Later::run;
  rare_state().later_run = run;
  return copy;
}

/// Blocks as bytes: counts, offsets and the base address.
void* TranslatedCall::lay_out(const RankBlocks& blocks, Packed& packed, SmallArray& counts, SmallArray& offsets,
                              bool with_contents) {
  std::size_t* const bytes = counts.make(blocks.blocks);
  std::size_t* const begins = offsets.make(blocks.blocks);
  bool dense = true;
  std::optional<std::ptrdiff_t> first;
  for (int i = 0; i < blocks.blocks; ++i) {
    bytes[i] = 0;
    if (blocks.counts[i] == 0) continue;  // of a type that may be none
    const Type& layout = *type_of(blocks.type_of_block(i));
    bytes[i] = static_cast<std::size_t>(blocks.counts[i]) * layout.size;
    if (bytes[i] == 0) continue;
    dense = dense && layout.dense;
    const auto offset = blocks.block(i) - static_cast<std::byte*>(blocks.data);
    first = std::min(first.value_or(offset), offset);
  }
  if (dense) {
    for (int i = 0; i < blocks.blocks; ++i) {
      const auto offset = blocks.block(i) - static_cast<std::byte*>(blocks.data);
      begins[i] = bytes[i] == 0 ? 0 : static_cast<std::size_t>(offset - *first);
    }
    return first ? advance(blocks.data, *first) : or_nothing(blocks.data);
  }
  std::exclusive_scan(bytes, bytes + blocks.blocks, begins, std::size_t{0});
  std::byte* const copy = packed.make(begins[blocks.blocks - 1] + bytes[blocks.blocks - 1]);
  for (int i = 0; with_contents && i < blocks.blocks && error_ == MPI_SUCCESS; ++i) {
    if (blocks.counts[i] == 0) continue;
    const MPI_Datatype type = blocks.type_of_block(i);
    error_ = pack(blocks.block(i), static_cast<std::size_t>(blocks.counts[i]), type, *type_of(type), copy + begins[i]);
  }
  return copy;
}

void* TranslatedCall::reads(const RankBlocks& blocks, const std::size_t** counts, const std::size_t** offsets) {
  RareState& with = rare_state();
  void* const data = lay_out(blocks, with.packed_in, with.in_counts, with.in_offsets, true);
  *counts = with.in_counts.make(blocks.blocks);
  *offsets = with.in_offsets.make(blocks.blocks);
  return data;
}

void* TranslatedCall::writes(const RankBlocks& blocks, bool with_contents, const std::size_t** counts,
                             const std::size_t** offsets) {
  RareState& with = rare_state();
  void* const data = lay_out(blocks, with.packed_out, with.out_counts, with.out_offsets, with_contents);
  *counts = with.out_counts.make(blocks.blocks);
  *offsets = with.out_offsets.make(blocks.blocks);
  if (data != with.packed_out.bytes.get()) return data;
  with.later = RareState::Later::blocks;
  with.later_blocks = blocks;
  return data;
}

int TranslatedCall::finish() noexcept {
  if (!rare_state_) return error_;
  const std::byte* const packed = rare_state_->packed_out.bytes.get();
  if (rare_state_->later == RareState::Later::run && error_ == MPI_SUCCESS) {
    const Run& run = rare_state_->later_run;
    error_ = unpack(packed, run.data, run.count, run.type, *run.layout);
  } else if (rare_state_->later == RareState::Later::blocks) {
    const RankBlocks& blocks = rare_state_->later_blocks;
    for (int i = 0; i < blocks.blocks && error_ == MPI_SUCCESS; ++i) {
      if (blocks.counts[i] == 0) continue;
      const MPI_Datatype type = blocks.type_of_block(i);
      error_ = unpack(packed + call.out_offsets[i], blocks.block(i), static_cast<std::size_t>(blocks.counts[i]), type,
                      *type_of(type));
    }
  }
  return error_;
}

// ---- what all operations have in common -----------------------------------------------------

TranslatedCall::Disposition TranslatedCall::pass(const char* reason) {
  why = reason;
  return Disposition::pass;
}

bool TranslatedCall::known(const MpiTeam& team, int root) { return root >= 0 && root < team.size; }

/// The size of `count` elements of that type.
std::size_t TranslatedCall::bytes_of(MPI_Count count, const Run& run) {
  return static_cast<std::size_t>(count) * run.layout->size;
}

/// A call without reduction, with `count` bytes per block.
TranslatedCall::Disposition TranslatedCall::bytes(smelt_operation operation, std::size_t count, int root) {
  call.operation = operation;
  call.count = count;
  call.root = root;
  return Disposition::run;
}

// ---- the operations -------------------------------------------------------------------------

TranslatedCall::Disposition TranslatedCall::barrier(const MpiTeam&) { return bytes(SMELT_BARRIER, 0); }

TranslatedCall::Disposition TranslatedCall::bcast(const MpiTeam& team, void* data, MPI_Count count, MPI_Datatype type,
                                                  int root) {
  Run run;
  if (!known(team, root) || !run_of(data, count, type, run)) return pass(wrong_arguments);
  if (run.bytes() == 0) return Disposition::done;
  call.out = team.rank == root ? reads(run) : writes(run, false);
  return bytes(SMELT_BROADCAST, run.bytes(), root);
}

namespace {

/// Whether the library looks at the arguments of reductions, which can be switched off. It is asked by MPI_Reduce, for
/// which also Open MPI tells nobody but the communicator's error handler.
bool checks_arguments() noexcept {
  static const bool checks = [] {
    const MPI_Comm own = own_communicator();
    int value = 0;
    return own != MPI_COMM_SELF && original.Reduce(&value, &value, 1, MPI_INT, MPI_SUM, 0, own) != MPI_SUCCESS;
  }();
  return checks;
}

}  // namespace

bool is_reported_alias(smelt_operation operation, const void* in, const void* out, MPI_Count count) noexcept {
  if (in != out || in == nullptr || in == MPI_IN_PLACE || count <= 0) return false;
  const bool some = operation == SMELT_REDUCE || (operation == SMELT_ALLREDUCE && count > 1);
  return (some || !follows_openmpi()) && checks_arguments();
}

/// in_count: elements of a rank's input; out_count: of its output, if it `gives_result`.
TranslatedCall::Disposition TranslatedCall::reduction(const MpiTeam& team, smelt_operation operation, const void* in,
                                                      void* out, long long in_count, long long out_count,
                                                      MPI_Datatype type, MPI_Op op, bool gives_result) {
  Run source;
  const bool in_place = in == MPI_IN_PLACE;
  if (!run_of(in_place ? out : in, in_count, type, source) || out_count < 0) return pass(wrong_arguments);
  if (gives_result ? is_wrong(out, out_count) : in_place) return pass(wrong_arguments);
  if (gives_result && is_reported_alias(operation, in, out, out_count)) return pass(wrong_arguments);
  const Run target{out, static_cast<std::size_t>(out_count), type, source.layout};
  if (!operator_of(op, type, *source.layout, by)) return pass(other_operator);
  if (source.bytes() == 0) return Disposition::done;
  if (!in_place && operation == SMELT_EXSCAN && team.rank == 0) {  // which gets nothing
    call.in = reads(source);
    call.out = or_nothing(out);
  } else if (in_place) {
    call.in = call.out = writes(source, true);
    if (!by.raw()) rare_state().later_run.count = target.count;
  } else {
    call.in = reads(source);
    call.out = gives_result ? writes(target, false) : nullptr;
  }
  call.operation = operation;
  call.count = static_cast<std::size_t>(out_count);
  if (by.plain >= 0) {
    call.type = static_cast<smelt_type>(source.layout->plain);
    call.op = static_cast<smelt_op>(by.plain);
  } else {
    call.element_bytes = by.element_bytes();
    call.combine = &combine;
    call.context = &by;
    call.commutative = by.commutative ? 1 : 0;
  }
  return Disposition::run;
}

TranslatedCall::Disposition TranslatedCall::reduce(const MpiTeam& team, const void* in, void* out, MPI_Count count,
                                                   MPI_Datatype type, MPI_Op op, int root) {
  if (!known(team, root)) return pass(wrong_arguments);
  call.root = root;
  return reduction(team, SMELT_REDUCE, in, out, count, count, type, op, team.rank == root);
}

TranslatedCall::Disposition TranslatedCall::allreduce(const MpiTeam& team, const void* in, void* out, MPI_Count count,
                                                      MPI_Datatype type, MPI_Op op) {
  return reduction(team, SMELT_ALLREDUCE, in, out, count, count, type, op, true);
}

TranslatedCall::Disposition TranslatedCall::scan(const MpiTeam& team, const void* in, void* out, MPI_Count count,
                                                 MPI_Datatype type, MPI_Op op) {
  return reduction(team, SMELT_SCAN, in, out, count, count, type, op, true);
}

TranslatedCall::Disposition TranslatedCall::exscan(const MpiTeam& team, const void* in, void* out, MPI_Count count,
                                                   MPI_Datatype type, MPI_Op op) {
  return reduction(team, SMELT_EXSCAN, in, out, count, count, type, op, true);
}

TranslatedCall::Disposition TranslatedCall::reduce_scatter_block(const MpiTeam& team, const void* in, void* out,
                                                                 MPI_Count count, MPI_Datatype type, MPI_Op op) {
  return reduction(team, SMELT_REDUCE_SCATTER, in, out, static_cast<long long>(count) * team.size, count, type, op,
                   true);
}

TranslatedCall::Disposition TranslatedCall::reduce_scatter(const MpiTeam& team, const void* in, void* out,
                                                           Integers counts, MPI_Datatype type, MPI_Op op) {
  if (counts == nullptr) return pass(wrong_arguments);
  bool even = true;
  long long total = 0;
  for (int i = 0; i < team.size; ++i) {
    if (counts[i] < 0) return pass(wrong_arguments);
    even = even && counts[i] == counts[0];
    total += counts[i];
  }
  const auto verdict = reduction(team, SMELT_REDUCE_SCATTER, in, out, total, counts[team.rank], type, op, true);
  if (verdict != Disposition::run || even) return verdict;
  std::size_t* const elements = rare_state().in_counts.make(team.size);
  std::size_t* const offsets = rare_state().in_offsets.make(team.size);
  for (int i = 0; i < team.size; ++i) elements[i] = static_cast<std::size_t>(counts[i]);
  std::exclusive_scan(elements, elements + team.size, offsets, std::size_t{0});
  call.operation = SMELT_REDUCE_SCATTERV;
  call.in_counts = elements;
  call.in_offsets = offsets;
  return verdict;
}

TranslatedCall::Disposition TranslatedCall::scatter(const MpiTeam& team, const void* in, MPI_Count in_count,
                                                    MPI_Datatype in_type, void* out, MPI_Count out_count,
                                                    MPI_Datatype out_type, int root) {
  Run all, own;
  if (!known(team, root)) return pass(wrong_arguments);
  const bool top = team.rank == root, in_place = top && out == MPI_IN_PLACE;
  if (top && !run_of(in, static_cast<long long>(in_count) * team.size, in_type, all)) return pass(wrong_arguments);
  if (!in_place && !run_of(out, out_count, out_type, own)) return pass(wrong_arguments);
  const auto block = top ? bytes_of(in_count, all) : own.bytes();
  if (!in_place && own.bytes() != block) return pass(wrong_arguments);
  if (block == 0) return Disposition::done;
  if (top) call.in = reads(all);
  call.out = in_place ? advance(const_cast<void*>(call.in), team.rank * static_cast<std::ptrdiff_t>(block))
                      : writes(own, false);
  return bytes(SMELT_SCATTER, block, root);
}

TranslatedCall::Disposition TranslatedCall::gather(const MpiTeam& team, const void* in, MPI_Count in_count,
                                                   MPI_Datatype in_type, void* out, MPI_Count out_count,
                                                   MPI_Datatype out_type, int root) {
  Run all, own;
  if (!known(team, root)) return pass(wrong_arguments);
  const bool top = team.rank == root, in_place = top && in == MPI_IN_PLACE;
  if (top && !run_of(out, static_cast<long long>(out_count) * team.size, out_type, all)) return pass(wrong_arguments);
  if (!in_place && !run_of(in, in_count, in_type, own)) return pass(wrong_arguments);
  const auto block = top ? bytes_of(out_count, all) : own.bytes();
  if (!in_place && own.bytes() != block) return pass(wrong_arguments);
  if (block == 0) return Disposition::done;
  if (top) call.out = writes(all, in_place);
  call.in = in_place ? advance(call.out, team.rank * static_cast<std::ptrdiff_t>(block)) : reads(own);
  return bytes(SMELT_GATHER, block, root);
}

TranslatedCall::Disposition TranslatedCall::allgather(const MpiTeam& team, const void* in, MPI_Count in_count,
                                                      MPI_Datatype in_type, void* out, MPI_Count out_count,
                                                      MPI_Datatype out_type) {
  Run all, own;
  const bool in_place = in == MPI_IN_PLACE;
  if (!run_of(out, static_cast<long long>(out_count) * team.size, out_type, all)) return pass(wrong_arguments);
  if (!in_place && !run_of(in, in_count, in_type, own)) return pass(wrong_arguments);
  const auto block = bytes_of(out_count, all);
  if (!in_place && own.bytes() != block) return pass(wrong_arguments);
  if (block == 0) return Disposition::done;
  call.out = writes(all, in_place);
  call.in = in_place ? advance(call.out, team.rank * static_cast<std::ptrdiff_t>(block)) : reads(own);
  return bytes(SMELT_ALLGATHER, block);
}

TranslatedCall::Disposition TranslatedCall::alltoall(const MpiTeam& team, const void* in, MPI_Count in_count,
                                                     MPI_Datatype in_type, void* out, MPI_Count out_count,
                                                     MPI_Datatype out_type) {
  Run source, target;
  const bool in_place = in == MPI_IN_PLACE;
  if (!run_of(out, static_cast<long long>(out_count) * team.size, out_type, target)) return pass(wrong_arguments);
  if (!in_place && !run_of(in, static_cast<long long>(in_count) * team.size, in_type, source)) {
    return pass(wrong_arguments);
  }
  if (!in_place && source.bytes() != target.bytes()) return pass(wrong_arguments);
  if (target.bytes() == 0) return Disposition::done;
  call.out = writes(target, in_place);
  call.in = in_place ? call.out : reads(source);
  return bytes(SMELT_ALLTOALL, bytes_of(out_count, target));
}

TranslatedCall::Disposition TranslatedCall::scatterv(const MpiTeam& team, const void* in, Integers counts,
                                                     Integers offsets, MPI_Datatype in_type, void* out,
                                                     MPI_Count out_count, MPI_Datatype out_type, int root) {
  Run own;
  if (!known(team, root)) return pass(wrong_arguments);
  const bool top = team.rank == root, in_place = top && out == MPI_IN_PLACE;
  RankBlocks all{const_cast<void*>(in), counts, offsets, in_type, nullptr, team.size};
  if ((top && !blocks_of(all)) || (!in_place && !run_of(out, out_count, out_type, own))) return pass(wrong_arguments);
  if (top) call.in = reads(all, &call.in_counts, &call.in_offsets);
  if (in_place) {
    call.count = call.in_counts[team.rank];
    call.out = advance(const_cast<void*>(call.in), static_cast<std::ptrdiff_t>(call.in_offsets[team.rank]));
  } else {
    call.count = own.bytes();
    call.out = writes(own, false);
  }
  return bytes(SMELT_SCATTERV, call.count, root);
}

TranslatedCall::Disposition TranslatedCall::gatherv(const MpiTeam& team, const void* in, MPI_Count in_count,
                                                    MPI_Datatype in_type, void* out, Integers counts, Integers offsets,
                                                    MPI_Datatype out_type, int root) {
  Run own;
  if (!known(team, root)) return pass(wrong_arguments);
  const bool top = team.rank == root, in_place = top && in == MPI_IN_PLACE;
  RankBlocks all{out, counts, offsets, out_type, nullptr, team.size};
  if ((top && !blocks_of(all)) || (!in_place && !run_of(in, in_count, in_type, own))) return pass(wrong_arguments);
  if (top) call.out = writes(all, in_place, &call.out_counts, &call.out_offsets);
  if (in_place) {
    call.count = call.out_counts[team.rank];
    call.in = advance(call.out, static_cast<std::ptrdiff_t>(call.out_offsets[team.rank]));
  } else {
    call.count = own.bytes();
    call.in = reads(own);
  }
  return bytes(SMELT_GATHERV, call.count, root);
}

TranslatedCall::Disposition TranslatedCall::allgatherv(const MpiTeam& team, const void* in, MPI_Count in_count,
                                                       MPI_Datatype in_type, void* out, Integers counts,
                                                       Integers offsets, MPI_Datatype out_type) {
  Run own;
  const bool in_place = in == MPI_IN_PLACE;
  RankBlocks all{out, counts, offsets, out_type, nullptr, team.size};
  if (!blocks_of(all) || (!in_place && !run_of(in, in_count, in_type, own))) return pass(wrong_arguments);
  call.out = writes(all, in_place, &call.out_counts, &call.out_offsets);
  if (in_place) {
    call.count = call.out_counts[team.rank];
    call.in = advance(call.out, static_cast<std::ptrdiff_t>(call.out_offsets[team.rank]));
  } else {
    call.count = own.bytes();
    call.in = reads(own);
  }
  return bytes(SMELT_ALLGATHERV, call.count);
}

TranslatedCall::Disposition TranslatedCall::exchange(const MpiTeam& team, bool in_place, RankBlocks& source,
                                                     RankBlocks& target) {
  if (!blocks_of(target) || (!in_place && !blocks_of(source))) return pass(wrong_arguments);
  call.out = writes(target, in_place, &call.out_counts, &call.out_offsets);
  if (in_place) {
    call.in = call.out;
    call.in_counts = call.out_counts;
    call.in_offsets = call.out_offsets;
  } else {
    call.in = reads(source, &call.in_counts, &call.in_offsets);
  }
  return bytes(SMELT_ALLTOALLV, call.out_counts[team.rank]);
}

TranslatedCall::Disposition TranslatedCall::alltoallv(const MpiTeam& team, const void* in, Integers in_counts,
                                                      Integers in_offsets, MPI_Datatype in_type, void* out,
                                                      Integers out_counts, Integers out_offsets,
                                                      MPI_Datatype out_type) {
  const bool in_place = in == MPI_IN_PLACE;
  RankBlocks source{const_cast<void*>(in), in_counts, in_offsets, in_type, nullptr, team.size};
  RankBlocks target{out, out_counts, out_offsets, out_type, nullptr, team.size};
  return exchange(team, in_place, source, target);
}

TranslatedCall::Disposition TranslatedCall::alltoallw(const MpiTeam& team, const void* in, Integers in_counts,
                                                      Integers in_offsets, const MPI_Datatype* in_types, void* out,
                                                      Integers out_counts, Integers out_offsets,
                                                      const MPI_Datatype* out_types) {
  const bool in_place = in == MPI_IN_PLACE;
  if (out_types == nullptr || (!in_place && in_types == nullptr)) return pass(wrong_arguments);
  RankBlocks source{const_cast<void*>(in), in_counts, in_offsets, MPI_DATATYPE_NULL, in_types, team.size};
  RankBlocks target{out, out_counts, out_offsets, MPI_DATATYPE_NULL, out_types, team.size};
  return exchange(team, in_place, source, target);
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
