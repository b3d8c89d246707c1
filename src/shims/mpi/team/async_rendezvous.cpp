#include "shims/mpi/team/async_rendezvous.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <string_view>
#include <thread>

#include "shims/mpi/pending/progress.hpp"
#include "shims/mpi/team/file_size.hpp"

extern "C" int smelt_hwloc_is_there();

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

constinit std::atomic<int> under_way{0};

/// What processes that can open each other's descriptors under /proc have in common. A machine that is the copy of
/// another may have the same start of the kernel, and one in a container the same host.
std::uint64_t find_machine() noexcept {
  char text[sizeof(utsname::nodename) + 128] = {};
  std::size_t length = 0;
  if (const int boot = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC); boot >= 0) {
    length = static_cast<std::size_t>(std::max<ssize_t>(read(boot, text, 64), 0));
    ::close(boot);
  }
  utsname host = {};
  (void)uname(&host);
  struct stat pids = {};
  (void)stat("/proc/self/ns/pid", &pids);
  length += static_cast<std::size_t>(std::snprintf(text + length, sizeof text - length, "%s %llu", host.nodename,
                                                   static_cast<unsigned long long>(pids.st_ino)));
  return std::hash<std::string_view>{}({text, length});
}

}  // namespace

RankInfo own_rank_info() noexcept {
  static const std::uint64_t machine = find_machine();
  RankInfo info;
  std::memset(&info, 0, sizeof info);
  const char* name = std::getenv("SMELT_MPI_MACHINE");
  info.machine = machine ^ std::hash<std::string_view>{}(name != nullptr ? name : "");
  CPU_ZERO(&info.cpus);
  (void)sched_getaffinity(0, sizeof info.cpus, &info.cpus);
  return info;
}

int create_memory(MemoryHandle& handle) noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::snprintf(handle.name, sizeof handle.name, "smelt-mpi-%d-%llx", static_cast<int>(getpid()),
                static_cast<unsigned long long>(now));
  const int fd = memfd_create(handle.name, MFD_CLOEXEC);
  handle.pid = getpid();
  handle.fd = fd;
  return fd;
}

int open_memory(const MemoryHandle& handle) noexcept {
  if (handle.fd < 0) return -1;
  char path[64], target[128] = {};
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
  // Another process with the same pid has no file of that name.
  if (readlink(path, target, sizeof target - 1) < 0 || std::strstr(target, handle.name) == nullptr) return -1;
  return ::open(path, O_RDWR | O_CLOEXEC);
}

namespace {

/// A new descriptor is the lowest free number, which indicates how many are in use. But a few may be free below those
/// that are in use: so as many are tried as a rendezvous opens.
bool can_open_more(int fd) noexcept {
  rlimit most{};
  if (getrlimit(RLIMIT_NOFILE, &most) != 0) return false;
  std::array<Descriptor, 8> tried;
  return std::all_of(tried.begin(), tried.end(), [&](Descriptor& each) {
    each = Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    return each.get() >= 0 && static_cast<rlim_t>(each.get()) < most.rlim_cur / 2;
  });
}

/// Whether the limit of the address space (`ulimit -v`) leaves plenty for a communicator, and for the program and the
/// library after that.
bool has_address_space() noexcept {
  constexpr std::size_t plenty = std::size_t{256} << 20;
  void* const memory = mmap(nullptr, plenty, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, plenty);
  return true;
}

bool can_start_thread() noexcept {
  try {
    std::thread([] {}).join();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

bool leaves_room(int fd) noexcept {
  constexpr std::size_t file_bytes = 1 << 20;  // more than the part that each rank may be the first to need
  return fd >= 0 && can_open_more(fd) && may_have_size(file_bytes) && has_address_space() && can_start_thread();
}

bool knows_machine() noexcept { return smelt_hwloc_is_there() != 0; }

void allow_reading() noexcept { (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); }

std::vector<int> places_of(const std::vector<RankInfo>& infos) {
  const bool bound = std::any_of(infos.begin(), infos.end(),
                                 [&](const RankInfo& info) { return CPU_EQUAL(&info.cpus, &infos[0].cpus) == 0; });
  const bool one = CPU_COUNT(&infos[0].cpus) == 1;
  std::vector<int> places, used(CPU_SETSIZE, 0);
  if (!bound && !one) return places;
  for (const RankInfo& info : infos) {
    int best = -1;
    for (int pu = 0; pu < CPU_SETSIZE; ++pu) {
      if (CPU_ISSET(pu, &info.cpus) == 0) continue;
      if (best < 0 || used[static_cast<std::size_t>(pu)] < used[static_cast<std::size_t>(best)]) best = pu;
    }
    if (best < 0) return {};
    ++used[static_cast<std::size_t>(best)];
    places.push_back(best);
  }
  return places;
}

AsyncRendezvous::AsyncRendezvous(int fd, int size, int rank, std::vector<int> places)
    : fd_(fcntl(fd, F_DUPFD_CLOEXEC, 0)), size_(size), rank_(rank), places_(std::move(places)) {}

std::shared_ptr<AsyncRendezvous> AsyncRendezvous::begin(int fd, int size, int rank, std::vector<int> places) {
  prepare_progress();
  auto rendezvous = std::make_shared<AsyncRendezvous>(fd, size, rank, std::move(places));
  under_way.fetch_add(1, std::memory_order_relaxed);
  try {
    std::thread([rendezvous]() mutable {
      rendezvous->rendezvous();
      rendezvous.reset();
      under_way.fetch_sub(1, std::memory_order_release);  // pairs with finish_rendezvous()
    }).detach();
  } catch (...) {
    under_way.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
  return rendezvous;
}

void AsyncRendezvous::rendezvous() noexcept {
  smelt_options options{};
  options.keep_affinity = 1;
  options.any_thread = 1;
  options.poll = poll_library;
  options.pus = places_.empty() ? nullptr : places_.data();
  options.pu_count = places_.size();
  (void)smelt_communicator_create_shared_fd(fd_.get(), size_, &rank_, 1, &options, &communicator_);
  over_.store(true, std::memory_order_release);
}

bool AsyncRendezvous::take(smelt_communicator** communicator, smelt_rank** rank) noexcept {
  if (communicator_ == nullptr || smelt_communicator_attach(communicator_, rank_, rank) != SMELT_OK) return false;
  *communicator = std::exchange(communicator_, nullptr);
  return true;
}

int rendezvous_in_progress() noexcept { return under_way.load(std::memory_order_relaxed); }

void finish_rendezvous() noexcept {
  while (under_way.load(std::memory_order_acquire) != 0) {
    make_progress();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
