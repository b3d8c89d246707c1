// MPI_Reduce_local: smelt's loops, where the result has the same bits as the library's.
#include <cstdint>

#include "shims/mpi/calls/operators.hpp"
#include "shims/mpi/calls/types.hpp"
#include "shims/mpi/counters.hpp"
#include "shims/mpi/original.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

constexpr const char* not_ours = "a type or operator whose result depends on who combines";

bool is_aligned(const void* data, std::size_t bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

/// False: the library must serve the call; there was no effect. Wrong arguments are the library's to report.
bool reduce(const void* in, void* inout, MPI_Count count, MPI_Datatype type, MPI_Op op) noexcept {
  if (count < 0 || in == nullptr || inout == nullptr || in == inout) return false;
  const Type* const layout = type_of(type);
  Operator by;
  if (layout == nullptr || !operator_of(op, type, *layout, by) || !is_exact(by, 2)) return false;
  if (!is_aligned(in, layout->size) || !is_aligned(inout, layout->size)) return false;
  return smelt_reduce_local(in, inout, static_cast<std::size_t>(count), static_cast<smelt_type>(layout->plain),
                            static_cast<smelt_op>(by.plain)) == SMELT_OK;
}

template <class Library>
int serve(InterceptedFunction& entry, const void* in, void* inout, MPI_Count count, MPI_Datatype type, MPI_Op op,
          Library library) noexcept {
  thread_local std::uint64_t calls = 0;
  const Sample kind = sample_kind(calls++);
  const Stopwatch watch(entry, kind);
  if (kind == Sample::original) {
    entry.passed("timed for comparison");
    return library();
  }
  if (!reduce(in, inout, count, type, op)) {
    entry.passed(not_ours);
    return library();
  }
  entry.took();
  return MPI_SUCCESS;
}

}  // namespace

#define SMELT_MPI_DEFINE_LOCAL(name, parameters, arguments)                                          \
  int serve_##name parameters {                                                                      \
    return serve(entry_##name, in, inout, count, type, op, [&] { return original.name arguments; }); \
  }
SMELT_MPI_LOCAL(SMELT_MPI_DEFINE_LOCAL)
#undef SMELT_MPI_DEFINE_LOCAL

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
