// Sizes of files in memory. A process that exceeds its limit of files (`ulimit -f`) gets a signal, which ends most
// programs: so the limit is looked at first.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>

namespace smelt::shims::mpi {

inline bool may_have_size(std::size_t bytes) noexcept {
  rlimit most{};
  return getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes <= most.rlim_cur;
}

/// False: it has another size.
inline bool set_size(int fd, std::size_t bytes) noexcept {
  return may_have_size(bytes) && ftruncate(fd, static_cast<off_t>(bytes)) == 0;
}

}  // namespace smelt::shims::mpi
