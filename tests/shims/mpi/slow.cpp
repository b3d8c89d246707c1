// Preloaded: delays the wake-up of smelt's ranks from the sleep in which they wait for each other, and no other
// wake-up.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstring>

namespace {

constexpr unsigned delay_us = 30000;  // longer than a busy machine makes the library wait

using Call = long(long number, long, long, long, long, long, long);

bool is_smelt(const void* caller) {
  Dl_info where = {};
  return dladdr(caller, &where) != 0 && std::strstr(where.dli_fname, "libsmelt") != nullptr;
}

}  // namespace

extern "C" long syscall(long number, ...) noexcept {
  long given[6];
  va_list arguments;
  va_start(arguments, number);
  for (long& each : given) each = va_arg(arguments, long);
  va_end(arguments);
  static auto* const call = reinterpret_cast<Call*>(dlsym(RTLD_NEXT, "syscall"));
  const long result = call(number, given[0], given[1], given[2], given[3], given[4], given[5]);
  constexpr long operation = 127;  // without FUTEX_PRIVATE_FLAG
  constexpr long wait = 0, wait_bitset = 9;
  const long asked = given[1] & operation;
  if (number == SYS_futex && (asked == wait || asked == wait_bitset) && is_smelt(__builtin_return_address(0))) {
    usleep(delay_us);
  }
  return result;
}
