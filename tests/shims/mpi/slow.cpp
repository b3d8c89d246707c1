// Preloaded: makes the copies slow that smelt lets the kernel make between processes, and nobody else's.
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

namespace {

constexpr unsigned delay_us = 20000;

using Copy = ssize_t(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

bool is_smelt(const void* caller) {
  Dl_info where = {};
  return dladdr(caller, &where) != 0 && std::strstr(where.dli_fname, "libsmelt") != nullptr;
}

ssize_t copy(const char* name, const void* caller, pid_t process, const iovec* mine, unsigned long count,
             const iovec* theirs, unsigned long their_count, unsigned long flags) {
  if (is_smelt(caller)) usleep(delay_us);
  return reinterpret_cast<Copy*>(dlsym(RTLD_NEXT, name))(process, mine, count, theirs, their_count, flags);
}

}  // namespace

extern "C" {

ssize_t process_vm_readv(pid_t process, const iovec* mine, unsigned long count, const iovec* theirs,
                         unsigned long their_count, unsigned long flags) {
  return copy("process_vm_readv", __builtin_return_address(0), process, mine, count, theirs, their_count, flags);
}

ssize_t process_vm_writev(pid_t process, const iovec* mine, unsigned long count, const iovec* theirs,
                          unsigned long their_count, unsigned long flags) {
  return copy("process_vm_writev", __builtin_return_address(0), process, mine, count, theirs, their_count, flags);
}
}
