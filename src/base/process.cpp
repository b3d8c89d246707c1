#include "base/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"

namespace smelt {
namespace {

constexpr int pid_bits = 22;  // Linux gives no pid above 2^22 (PID_MAX_LIMIT)
constexpr std::uint64_t start_mask = (std::uint64_t{1} << (ProcessId::packed_bits - pid_bits)) - 1;

// What /proc/<pid>/task/<pid>/stat says, without allocating. /proc/<pid>/stat says the same, but not to the process
// itself under an emulator in user mode (QEMU), which makes up its start time; a fork inherits that one.
struct Stat {
  char state = 0;
  long threads = 0;
  std::uint64_t start_ticks = 0;
};

// The fields after the command name, which is in parentheses and may contain any characters.
bool parse_stat(char* text, Stat& stat) {
  char* field = std::strrchr(text, ')');
  if (field == nullptr || field[1] != ' ') return false;
  stat.state = field[2];
  char* rest = nullptr;
  char* word = strtok_r(field + 2, " ", &rest);
  for (int number = 3; word != nullptr; ++number, word = strtok_r(nullptr, " ", &rest)) {
    if (number == 20) stat.threads = std::strtol(word, nullptr, 10);
    if (number == 22) {
      stat.start_ticks = std::strtoull(word, nullptr, 10) & start_mask;
      return true;
    }
  }
  return false;
}

enum class ReadStat { done, no_process, failed };

ReadStat read_stat(pid_t pid, Stat& stat) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/stat", static_cast<int>(pid), static_cast<int>(pid));
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? ReadStat::no_process : ReadStat::failed;
  char text[1024];
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  const int code = errno;
  ::close(fd);
  if (length < 0) return code == ESRCH ? ReadStat::no_process : ReadStat::failed;
  text[length] = '\0';
  return parse_stat(text, stat) ? ReadStat::done : ReadStat::failed;
}

}  // namespace

std::uint64_t ProcessId::packed() const noexcept {
  return (start_ticks & start_mask) << pid_bits | static_cast<std::uint64_t>(pid);
}

ProcessId ProcessId::unpacked(std::uint64_t word) noexcept {
  return {static_cast<pid_t>(word & ((1u << pid_bits) - 1)), word >> pid_bits};
}

std::uint64_t current_namespaces() noexcept {
  struct stat pids = {}, times = {};
  if (stat("/proc/self/ns/pid", &pids) != 0) return 0;
  if (stat("/proc/self/ns/time", &times) != 0) times.st_ino = 0;
  return static_cast<std::uint64_t>(pids.st_ino) << 32 | (times.st_ino & 0xffff'ffff);
}

Result<ProcessId> ProcessId::self() {
  // A forked child discards what it inherits: it may have the pid of an ancestor that is gone.
  static std::atomic<std::uint64_t> known{0};
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { known.store(0, std::memory_order_relaxed); });
  const pid_t pid = getpid();
  const auto cached = unpacked(known.load(std::memory_order_relaxed));
  if (cached.pid == pid) return cached;
  Stat stat;
  if (read_stat(pid, stat) != ReadStat::done) {
    return make_error(Status::io_error, "cannot read /proc/{0}/task/{0}/stat; mount /proc to use communicators", pid);
  }
  const ProcessId self{pid, stat.start_ticks};
  known.store(self.packed(), std::memory_order_relaxed);
  return self;
}

Liveness liveness_of(const ProcessId& process) noexcept {
  if (const auto self = ProcessId::self(); self && self->packed() == process.packed()) return Liveness::alive;
  Stat stat;
  switch (read_stat(process.pid, stat)) {
    case ReadStat::failed: return Liveness::unknown;
    case ReadStat::no_process: return kill(process.pid, 0) != 0 && errno == ESRCH ? Liveness::dead : Liveness::unknown;
    case ReadStat::done: break;
  }
  if (stat.start_ticks != (process.start_ticks & start_mask)) return Liveness::dead;
  // The main thread of a process is a zombie, too, if it has ended before the other threads.
  const bool over = (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
  return over ? Liveness::dead : Liveness::alive;
}

bool is_stopped(const ProcessId& process) noexcept {
  Stat stat;
  if (read_stat(process.pid, stat) != ReadStat::done) return false;
  return stat.start_ticks == (process.start_ticks & start_mask) && (stat.state == 'T' || stat.state == 't');
}

}  // namespace smelt
