// What the library has under way while the program goes on: the calls are the library's, and are noted, since a program
// may then call nothing but collectives of smelt, and rely on its messages getting on meanwhile (MPI 4.1, 2.9).
#include "shims/mpi/calls/types.hpp"
#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/progress.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

/// A library moves the data of shorter messages in the call that starts them.
constexpr MPI_Count least_long = 1024;

/// Whether a message that the library has started is long. Asks the library of types that collectives do not use: it
/// would take longer to find out all about them.
bool is_long(MPI_Count count, MPI_Datatype type) noexcept {
  if (count >= least_long) return true;
  if (const Type* const known = known_type(type); known != nullptr) {
    return static_cast<std::size_t>(count) * known->size >= static_cast<std::size_t>(least_long);
  }
  int size = 0;
  original.Type_size(type, &size);
  return size < 0 || count * size >= least_long;  // negative: larger than an int
}

int note_message(int code, MPI_Count count, MPI_Datatype type) noexcept {
  if (code == MPI_SUCCESS && is_long(count, type)) note_long_message();
  return code;
}

int note_lasting(int code, int more) noexcept {
  if (code == MPI_SUCCESS) library_work.lasting.fetch_add(more, std::memory_order_relaxed);
  return code;
}

}  // namespace

#define SMELT_MPI_DEFINE_MESSAGE(name, parameters, arguments) \
  int serve_##name parameters { return note_message(original.name arguments, count, type); }
SMELT_MPI_MESSAGES(SMELT_MPI_DEFINE_MESSAGE)
#undef SMELT_MPI_DEFINE_MESSAGE

#define SMELT_MPI_DEFINE_LASTING(name, parameters, arguments) \
  int serve_##name parameters { return note_lasting(original.name arguments, 1); }
SMELT_MPI_MESSAGES_AGAIN(SMELT_MPI_DEFINE_LASTING)
SMELT_MPI_WINDOWS_BEGIN(SMELT_MPI_DEFINE_LASTING)
#undef SMELT_MPI_DEFINE_LASTING

int serve_Win_free(MPI_Win* window) { return note_lasting(original.Win_free(window), -1); }

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
