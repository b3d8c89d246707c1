#include "shims/mpi/repeats.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "shims/mpi/blocks.hpp"
#include "shims/mpi/task.hpp"

namespace smelt::shims::mpi {
namespace {

const std::byte* bytes(const void* address) { return static_cast<const std::byte*>(address); }

/// The buffers that a call is given; in place the one for the other.
const std::byte* given_in(const Signature& call) { return bytes(call.in == MPI_IN_PLACE ? call.out : call.in); }
const std::byte* given_out(const Signature& call) { return bytes(call.out == MPI_IN_PLACE ? call.in : call.out); }

/// Visits the numbers in the arrays that count on this rank, each array behind a number of its own, until `visit`
/// returns false. Returns whether it never did.
template <class Visit>
bool visit_numbers(const UnevenSignature& call, int rank, int size, Visit visit) {
  if (call.only_rank >= 0 && call.only_rank != rank) return true;
  std::uint64_t name = 0;
  for (const Integers& each : {call.in_counts, call.in_offsets, call.out_counts, call.out_offsets}) {
    ++name;
    if (each == nullptr) continue;
    if (!visit(name)) return false;
    for (int i = 0; i < size; ++i) {
      if (!visit(static_cast<std::uint64_t>(each[i]))) return false;
    }
  }
  for (const MPI_Datatype* each : {call.in_types, call.out_types}) {
    ++name;
    if (each == nullptr) continue;
    if (!visit(name)) return false;
    for (int i = 0; i < size; ++i) {
      if (!visit(number_of(each[i]))) return false;
    }
  }
  return true;
}

}  // namespace

void Repeats::learn(const Signature& call, const Task& task, smelt_rank* local) noexcept {
  const smelt_call& ran = task.call;
  const bool reads = ran.in != nullptr, writes = ran.out != nullptr;
  std::ptrdiff_t offset = 0;
  if (reads && call.in == MPI_IN_PLACE) offset = bytes(ran.in) - bytes(call.out);
  if (writes && call.out == MPI_IN_PLACE) offset = bytes(ran.out) - bytes(call.in);
  if (!task.depends_on_arguments_alone() || (reads && read_by(call, offset) != ran.in) ||
      (writes && written_by(call, offset) != ran.out)) {
    return;
  }
  Repeat& repeat = place_of(call);
  if (repeat.request == nullptr && repeat.like.is_like(call)) {
    repeat.reads = reads;
    repeat.writes = writes;
    repeat.offset = offset;
    if (smelt_prepare(local, &ran, &repeat.request) != SMELT_OK) repeat.request = nullptr;
    return;
  }
  smelt_request_free(std::exchange(repeat.request, nullptr));
  repeat.like = call;
}

bool Repeats::UnevenRepeat::is_like(const UnevenSignature& call, int rank, int size) const noexcept {
  if (!like.is_like(call.one)) return false;
  std::size_t at = 0;
  const auto same = [&](std::uint64_t number) { return at < numbers.size() && numbers[at++] == number; };
  return visit_numbers(call, rank, size, same) && at == numbers.size();
}

Repeats::UnevenRepeat& Repeats::place_of(const UnevenSignature& call, int rank, int size) noexcept {
  auto mixed = static_cast<std::uint64_t>(call.one.operation) + 3 * static_cast<std::uint64_t>(call.one.in_count) +
               5 * static_cast<std::uint64_t>(call.one.root);
  if (call.only_rank < 0 || call.only_rank == rank) {
    for (const Integers& each : {call.in_counts, call.out_counts}) {
      if (each == nullptr) continue;
      mixed = 7 * mixed + static_cast<std::uint64_t>(each[0]) + 3 * static_cast<std::uint64_t>(each[size - 1]);
    }
  }
  return uneven_[(mixed ^ (mixed >> 4)) % places];
}

bool Repeats::run(const UnevenSignature& call, int rank, int size, int* status) noexcept {
  const UnevenRepeat& repeat = place_of(call, rank, size);
  if (repeat.request == nullptr || !repeat.is_like(call, rank, size)) return false;
  const std::byte* const in = given_in(call.one);
  const std::byte* const out = given_out(call.one);
  if ((repeat.reads && in == nullptr) || (repeat.writes && out == nullptr)) return false;
  *status = smelt_request_run(repeat.request, repeat.reads ? in + repeat.in_shift : nullptr,
                              repeat.writes ? const_cast<std::byte*>(out) + repeat.out_shift : nullptr);
  return *status != SMELT_INVALID_ARGUMENT && *status != SMELT_NOT_SUPPORTED;
}

void Repeats::learn(const UnevenSignature& call, int rank, int size, const Task& task, smelt_rank* local) noexcept {
  smelt_call ran = task.call;
  const bool reads = ran.in != nullptr, writes = ran.out != nullptr;
  const std::byte* const in = given_in(call.one);
  const std::byte* const out = given_out(call.one);
  if (!task.depends_on_arguments_alone() || (reads && in == nullptr) || (writes && out == nullptr)) return;
  UnevenRepeat& repeat = place_of(call, rank, size);
  try {
    if (repeat.request == nullptr && repeat.is_like(call, rank, size)) {
      repeat.reads = reads;
      repeat.writes = writes;
      repeat.in_shift = reads ? bytes(ran.in) - in : 0;
      repeat.out_shift = writes ? bytes(ran.out) - out : 0;
      keep_blocks(ran, size, repeat.blocks);
      if (smelt_prepare(local, &ran, &repeat.request) != SMELT_OK) repeat.request = nullptr;
      return;
    }
    smelt_request_free(std::exchange(repeat.request, nullptr));
    repeat.like = call.one;
    repeat.numbers.clear();
    (void)visit_numbers(call, rank, size, [&](std::uint64_t number) {
      repeat.numbers.push_back(number);
      return true;
    });
  } catch (const std::bad_alloc&) {  // it is like no other
    repeat.like.operation = SMELT_BARRIER;
  }
}

void Repeats::forget() noexcept {
  for (Repeat& repeat : repeats_) smelt_request_free(std::exchange(repeat.request, nullptr));
  for (UnevenRepeat& repeat : uneven_) smelt_request_free(std::exchange(repeat.request, nullptr));
}

}  // namespace smelt::shims::mpi
