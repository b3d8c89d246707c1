// Keeping the library going while a rank waits in smelt: messages under way, one-sided access to its memory.
#pragma once

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

/// To be called before the first make_progress(), by any thread.
void prepare_progress() noexcept;

/// Lets the library do what it can without waiting. Any thread, any time. A smelt_options::idle.
void make_progress(void*) noexcept;

/// Before MPI is finalized.
void release_progress() noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
