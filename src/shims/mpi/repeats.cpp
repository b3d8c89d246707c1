#include "shims/mpi/repeats.hpp"

#include <utility>

#include "shims/mpi/task.hpp"

namespace smelt::shims::mpi {
namespace {

const std::byte* bytes(const void* address) { return static_cast<const std::byte*>(address); }

}  // namespace

void Repeats::learn(const Signature& call, const Task& task, smelt_rank* rank) noexcept {
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
    if (smelt_prepare(rank, &ran, &repeat.request) != SMELT_OK) repeat.request = nullptr;
    return;
  }
  smelt_request_free(std::exchange(repeat.request, nullptr));
  repeat.like = call;
}

void Repeats::forget() noexcept {
  for (Repeat& repeat : repeats_) smelt_request_free(std::exchange(repeat.request, nullptr));
}

}  // namespace smelt::shims::mpi
