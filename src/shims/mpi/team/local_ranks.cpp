#include "shims/mpi/team/local_ranks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "shims/mpi/team/file_size.hpp"

namespace smelt::shims::mpi {
namespace {

/// In memory of the first rank that joins, initially zero.
struct Count {
  enum Answer : int { none, all, not_all };

  std::atomic<int> joined;
  std::atomic<int> answer;  ///< an Answer; none until a rank asks
};
static_assert(std::atomic<int>::is_always_lock_free);

constinit std::mutex set_up;
constinit Count* shared = nullptr;  // guarded by `set_up`; null: this rank has not joined
constinit int memory = -1, listener = -1;

int number_from(const char* variable) noexcept {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : 0;
}

/// What a launcher tells a rank.
struct Launcher {
  const char* local_size;
  const char* local_rank;
};
constexpr Launcher launchers[] = {{"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                                  {"MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
                                  {"MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"},
                                  {"MVP_COMM_WORLD_LOCAL_SIZE", "MVP_COMM_WORLD_LOCAL_RANK"}};
constexpr Launcher slurm{"SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"};

const Launcher* own_launcher() noexcept {
  for (const Launcher& each : launchers) {
    if (number_from(each.local_size) > 0) return &each;
  }
  return number_from("SLURM_STEP_NUM_NODES") == 1 ? &slurm : nullptr;
}

// ---- the job ------------------------------------------------------------------------------------

/// Of /proc/<pid>/`what`; empty if it cannot be read.
std::string contents(pid_t pid, const char* what) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + what, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Field `number` of /proc/<pid>/stat, counted from 1 as in proc(5), of those behind the program's name.
unsigned long long stat_field(const std::string& stat, int number) {
  std::size_t at = stat.rfind(')');
  for (int field = 2; at != std::string::npos && field < number; ++field) at = stat.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(stat.c_str() + at, nullptr, 10);
}

/// What started the ranks: the nearest ancestor that is not of this rank, as scripts around the program are.
pid_t launcher_of(const std::string& own_variable) {
  pid_t pid = getppid();
  while (pid > 1 && ('\0' + contents(pid, "environ")).find(own_variable) != std::string::npos) {
    pid = static_cast<pid_t>(stat_field(contents(pid, "stat"), 4));
  }
  return pid;
}

/// Spawned by ranks whose launcher may be this one's, too, as MPICH's is, and which has no names for its jobs.
bool is_of_unnamed_job() noexcept {
  return std::getenv("PMI_SPAWNED") != nullptr && std::getenv("PMIX_NAMESPACE") == nullptr;
}

/// The same for all ranks of this machine, and for no other job. Empty: not known.
std::string name_of_job() {
  if (is_of_unnamed_job()) return {};
  const Launcher* const told = own_launcher();
  const char* const rank = told != nullptr ? std::getenv(told->local_rank) : nullptr;
  if (rank == nullptr) return {};
  const pid_t launcher = launcher_of('\0' + std::string(told->local_rank) + "=" + rank + '\0');
  const auto start = stat_field(contents(launcher, "stat"), 22);
  if (launcher < 1 || start == 0) return {};
  std::string job = std::to_string(getuid()) + " " + std::to_string(launcher) + " " + std::to_string(start);
  for (const char* number : {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    if (const char* const text = std::getenv(number)) job += std::string(" ") + text;
  }
  char name[40];
  std::snprintf(name, sizeof name, "smelt-mpi-job-%016zx", std::hash<std::string>{}(job));
  return name;
}

// ---- the memory ---------------------------------------------------------------------------------

/// In the abstract name space, which has no files.
socklen_t address_of(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

/// Opens the memory of that name among the files of a process. -1: it has none, or shows none.
int open_memory_of(pid_t pid, const std::string& name) {
  const std::string files = "/proc/" + std::to_string(pid) + "/fd";
  DIR* const directory = opendir(files.c_str());
  int found = -1;
  while (const dirent* const entry = directory != nullptr ? readdir(directory) : nullptr) {
    const std::string file = files + "/" + entry->d_name;
    char target[128] = {};
    if (readlink(file.c_str(), target, sizeof target - 1) < 0) continue;
    if (std::strstr(target, name.c_str()) == nullptr) continue;
    found = open(file.c_str(), O_RDWR | O_CLOEXEC);
    break;
  }
  if (directory != nullptr) closedir(directory);
  return found;
}

void close_files() noexcept {
  for (int* file : {&listener, &memory}) {
    if (*file >= 0) close(*file);
    *file = -1;
  }
}

/// Makes this process the holder: then `listener` and `memory` are there. False: there may be another one.
bool become_holder(const std::string& name) {
  sockaddr_un address;
  const socklen_t length = address_of(name, address);
  memory = memfd_create(name.c_str(), MFD_CLOEXEC);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (memory >= 0 && set_size(memory, sizeof(Count)) && listener >= 0 &&
      bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(listener, SOMAXCONN) == 0)
    return true;
  close_files();
  return false;
}

/// The memory of the holder. -1: there is none that could be found.
int memory_of_holder(const std::string& name) {
  sockaddr_un address;
  const socklen_t length = address_of(name, address);
  const int asking = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ucred holder{};
  socklen_t size = sizeof holder;
  const bool there = connect(asking, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     getsockopt(asking, SOL_SOCKET, SO_PEERCRED, &holder, &size) == 0;
  if (asking >= 0) close(asking);
  return there && holder.uid == getuid() ? open_memory_of(holder.pid, name) : -1;
}

/// -1: there is no memory that all ranks could share.
int find_memory(const std::string& name) {
  const auto begun = std::chrono::steady_clock::now();
  // The holder may have the name and not listen yet, or may just have gone.
  do {
    if (become_holder(name)) return memory;
    if (const int other = memory_of_holder(name); other >= 0) return other;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  } while (std::chrono::steady_clock::now() - begun < std::chrono::seconds(1));
  return -1;
}

void join() {
  const std::string name = name_of_job();
  const int file = name.empty() ? -1 : find_memory(name);
  if (file < 0) return;
  void* const there = mmap(nullptr, sizeof(Count), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file != memory) close(file);
  if (there == MAP_FAILED) return;
  shared = static_cast<Count*>(there);
  shared->joined.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

int local_ranks() noexcept {
  const Launcher* const told = own_launcher();
  return told != nullptr ? number_from(told->local_size) : 0;
}

void join_local_ranks() noexcept {
  const std::lock_guard lock(set_up);
  if (shared != nullptr) return;
  try {
    join();
  } catch (const std::bad_alloc&) {  // not counted
  }
}

bool all_local_ranks_joined() noexcept {
  const std::lock_guard lock(set_up);
  if (shared == nullptr) return false;
  // Relaxed: a number that is read too early is too low, which is safe.
  const int count = shared->joined.load(std::memory_order_relaxed);
  int answer = Count::none;
  const int own = count == local_ranks() ? Count::all : Count::not_all;
  if (shared->answer.compare_exchange_strong(answer, own, std::memory_order_relaxed)) answer = own;
  close_files();
  return answer == Count::all;
}

void leave_local_ranks() noexcept {
  const std::lock_guard lock(set_up);
  close_files();
}

}  // namespace smelt::shims::mpi
