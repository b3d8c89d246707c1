#include "state/map/memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>

#include "base/error.hpp"
#include "base/process.hpp"
#include "machine/topology/numa.hpp"
#include "state/map/blocks.hpp"
#include "state/map_names.hpp"
#include "state/maps.hpp"

namespace smelt {
namespace map_detail {
namespace {

constexpr Word magic = 0x70616d746c656d73;  // "smeltmap"
constexpr std::uint32_t layout = 3;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr Word most_reach = Word{1} << 56;  // no process has more address space, and no sum of sizes overflows
constexpr Word header_bytes = (sizeof(Header) + 4095) / 4096 * 4096;
constexpr std::string_view memfd_prefix = "smelt-map:";
constexpr std::string_view kept_prefix = "smelt-map.";

Error system_error(const std::string& what) {
  const int code = errno;
  const Status status = code == ENOMEM || code == ENOSPC  ? Status::out_of_memory
                        : code == EACCES || code == EPERM ? Status::permission_denied
                        : code == ENOENT                  ? Status::not_found
                                                          : Status::io_error;
  return make_error(status, "{}: {}", what, std::strerror(code));
}

Result<void> check_options(const MapOptions& options) {
  const auto* facts = find_map_algorithm(options.algorithm == "best" ? "shared" : options.algorithm);
  if (facts == nullptr) {
    return make_error(Status::invalid_argument, "there is no map algorithm '{}'; take 'best' or 'shared'",
                      options.algorithm);
  }
  if (facts->name != "shared") {
    return make_error(Status::not_supported,
                      "map algorithm '{}' needs ranks: create a MapGroup over a communicator, or take 'shared'",
                      options.algorithm);
  }
  const Faults faults = options.faults.value_or(Faults::none);
  if (facts->survives < faults) {
    return make_error(Status::not_supported,
                      "map algorithm 'shared' does not survive '{}': while a process is stopped in an update, others "
                      "wait that update keys of the same bucket; ask for '{}', or for 'kv' in a MapGroup",
                      to_string(faults), to_string(facts->survives));
  }
  if (options.most_bytes < huge_page) {
    return make_error(Status::invalid_argument, "most_bytes of {}: at least 2 MiB", options.most_bytes);
  }
  if (options.capacity > Word{1} << 40) {
    return make_error(Status::invalid_argument, "capacity of {} keys: at most 2^40", options.capacity);
  }
  return {};
}

Word reach_of(const MapOptions& options) {
  return std::min<Word>(options.most_bytes, most_reach) / huge_page * huge_page;
}

/// The same of a map in a file, which has a limit of its own.
Result<Word> reach_in_file(const MapOptions& options) {
  const Word reach = std::min(reach_of(options), most_file_bytes() / huge_page * huge_page);
  if (reach != 0) return reach;
  return make_error(Status::out_of_memory, "a map needs a file of 2 MiB at least; raise `ulimit -f`");
}

std::string kept_name(const std::string& name) { return fmt::format("/{}{}", kept_prefix, name); }

Word first_log2(const Geometry& geometry, std::size_t capacity) {
  // With a load of two thirds, chains are rare and short.
  const Word per_three_buckets = 2 * (geometry.cells - geometry.spare);
  const Word buckets = std::max<Word>(capacity * 3 / per_three_buckets + 1, 64);
  return static_cast<Word>(std::bit_width(buckets - 1));
}

/// Whether this process may still allocate as much. Without this, the system would kill it, or others, where they write
/// to the last free page. Not asked for tables that are faster written than this.
bool is_available(Word bytes) {
  constexpr Word small = Word{256} << 20;
  if (bytes <= small) return true;
  const MemoryView view = read_memory_view();
  Word available = 0;
  for (const int node : view.usable_nodes()) available += view.available_bytes(node);
  return bytes <= std::min(available, view.limit_bytes);
}

/// Sockets that are closed in a process that another thread forks meanwhile, or it would go on to hold their addresses.
class LockSockets {
 public:
  static int open() {
    const std::lock_guard lock(guard_);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) open_.insert(fd);
    return fd;
  }
  static void close(int fd) {
    const std::lock_guard lock(guard_);
    open_.erase(fd);
    ::close(fd);
  }

 private:
  static void close_all() {
    for (const int fd : open_) ::close(fd);
    open_.clear();
    guard_.unlock();
  }

  static inline std::mutex guard_;
  static inline std::set<int>& open_ = *new std::set<int>;  // lives on, for forks at the end of the process
  [[maybe_unused]] static inline const int watches_forks_ =
      pthread_atfork([] { guard_.lock(); }, [] { guard_.unlock(); }, close_all);
};

/// A lock for the creation and lookup of a user's maps of that name. The kernel releases it however its holder ends.
class NameLock {
 public:
  explicit NameLock(const std::string& name) : fd_(LockSockets::open()) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    // The address has 108 bytes, so different names may share a lock.
    const auto text = fmt::format("smelt-map:{}:{:016x}", geteuid(), std::hash<std::string>{}(name));
    std::memcpy(address.sun_path + 1, text.data(), text.size());  // the leading zero means a name without a file
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    for (int attempt = 0; fd_ >= 0 && attempt < 10'000; ++attempt) {
      if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) {
        held_ = true;
        return;
      }
      if (errno != EADDRINUSE) break;
      const timespec pause = {0, 1'000'000};
      nanosleep(&pause, nullptr);
      errno = EADDRINUSE;
    }
    error_ = errno;
  }
  NameLock(const NameLock&) = delete;
  NameLock& operator=(const NameLock&) = delete;
  ~NameLock() {
    if (fd_ >= 0) LockSockets::close(fd_);
  }
  Result<void> held() const {
    if (held_) return {};
    errno = error_;
    if (error_ != EADDRINUSE) return system_error("cannot lock the names of maps");
    return make_error(Status::timed_out,
                      "another process has been creating a map of this name for ten seconds: is it "
                      "stopped?");
  }

 private:
  int fd_;
  bool held_ = false;
  int error_ = 0;
};

std::vector<std::string> entries_of(const std::string& directory) {
  std::vector<std::string> names;
  DIR* open = opendir(directory.c_str());
  if (open == nullptr) return names;
  while (const dirent* entry = readdir(open)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(open);
  return names;
}

/// The name behind the prefix in the target of a link of /proc/<pid>/fd; "" if it is something else.
std::string name_of_link(const std::string& path, std::string_view prefix) {
  char target[512];
  const ssize_t length = readlink(path.c_str(), target, sizeof target);
  if (length <= 0) return "";
  const std::string_view text(target, static_cast<std::size_t>(length));
  constexpr std::string_view before = "/memfd:", after = " (deleted)";
  if (!text.starts_with(before) || !text.ends_with(after)) return "";
  const auto name = text.substr(before.size(), text.size() - before.size() - after.size());
  return name.starts_with(prefix) ? std::string(name.substr(prefix.size())) : "";
}

/// The descriptor if this is a complete map of this user; otherwise -1.
int checked(int fd) {
  struct stat status = {};
  Header header;
  const bool good = fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
                    pread(fd, static_cast<void*>(&header), offsetof(Header, name), 0) ==
                        static_cast<ssize_t>(offsetof(Header, name)) &&
                    header.magic == magic && header.layout == layout;
  if (good) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

/// Whether a live process is a member. A process that only reads the map's memory may keep it from being freed.
bool is_used(int fd) {
  std::vector<Word> members(most_members);
  const std::size_t bytes = members.size() * sizeof(Word);
  if (pread(fd, members.data(), bytes, offsetof(Header, members)) != static_cast<ssize_t>(bytes)) return false;
  return std::ranges::any_of(members, [](Word process) {
    return process != 0 && liveness_of(ProcessId::unpacked(process)) != Liveness::dead;
  });
}

/// The descriptor of a map in use that is not kept; -1 if there is none. `name` empty: adds all maps to `all`, each
/// once.
int find_in_use(const std::string& name, std::vector<FoundMap>* all) {
  std::set<std::pair<dev_t, ino_t>> seen;
  int used = -1;
  for_each_memfd(memfd_prefix, name, [&](const std::string& found, int opened) {
    const int fd = checked(opened);
    if (fd < 0) return true;
    if (!is_used(fd)) {
      close(fd);
      return true;
    }
    if (all == nullptr) {
      used = fd;
      return false;
    }
    struct stat status = {};
    fstat(fd, &status);
    if (seen.emplace(status.st_dev, status.st_ino).second) {
      all->push_back({found, false, fd});
    } else {
      close(fd);
    }
    return true;
  });
  return used;
}

bool is_over_ranks(const std::string& name) {
  const auto groups = list_map_groups();
  return std::ranges::find(groups, name, &MapGroupState::name) != groups.end();
}

int find_kept(const std::string& name) {
  auto segment = Segment::open_named(kept_name(name));
  return segment ? checked(fcntl(segment->fd(), F_DUPFD_CLOEXEC, 0)) : -1;
}

Result<std::shared_ptr<Memory>> enter(int fd) {
  Header header;
  const bool read = pread(fd, static_cast<void*>(&header), offsetof(Header, name), 0) > 0;
  auto memory = std::make_shared<Memory>();
  auto mapped = read ? memory->map(fd, header.reach) : Result<void>(system_error("cannot read a map"));
  if (!read) close(fd);
  if (mapped) mapped = memory->enter();
  if (!mapped) return mapped.error();
  return memory;
}

Result<void> check_types(const Memory& memory, const std::string& name, const Geometry& geometry, bool strings) {
  const Geometry& there = memory.header().geometry;
  const bool has = (memory.header().flags & has_strings) != 0;
  if (there == geometry && strings == has) return {};
  const auto wanted = strings ? "strings" : fmt::format("of {} and {}", geometry.key_bytes, geometry.value_bytes);
  return make_error(Status::invalid_argument,
                    "map '{}' has {}keys of {} and values of {} bytes, not {}; use the same types or another name",
                    name, has ? "strings: " : "", there.key_bytes, there.value_bytes, wanted);
}

Result<std::shared_ptr<Table>> enter_as(int fd, const std::string& name, const Geometry& geometry, bool strings) {
  auto memory = enter(fd);
  if (!memory) return memory.error();
  if (const auto same = check_types(**memory, name, geometry, strings); !same) return same.error();
  return std::shared_ptr<Table>(std::move(*memory));
}

Result<std::shared_ptr<Table>> make_memory(int fd, const std::string& name, const Geometry& geometry,
                                           const MapOptions& options, bool strings) {
  auto memory = std::make_shared<Memory>();
  const auto reach = fd >= 0 ? reach_in_file(options) : reach_of(options);
  if (!reach) {
    close(fd);
    return reach.error();
  }
  auto done = memory->map(fd, *reach);
  if (done) done = memory->format(name, geometry, options, strings);
  if (done) done = memory->enter();
  if (!done) return done.error();
  return std::shared_ptr<Table>(std::move(memory));
}

Result<std::shared_ptr<Table>> make_kept(const std::string& name, const Geometry& geometry, const MapOptions& options,
                                         bool strings) {
  auto segment = Segment::unnamed(header_bytes);
  if (!segment) return segment.error();
  const int fd = fcntl(segment->fd(), F_DUPFD_CLOEXEC, 0);
  auto memory = make_memory(fd, name, geometry, options, strings);
  if (!memory) return memory.error();
  const auto named = segment->give_name(kept_name(name));
  if (!named) return named.error();
  if (!*named) {
    const auto there = Segment::open_named(kept_name(name));
    if (!there && there.error().status == Status::permission_denied) return there.error();
    return make_error(Status::bad_format, "'/dev/shm{}' is there, but is no map of this version; remove it",
                      kept_name(name));
  }
  return memory;
}

}  // namespace

Result<void> check_name(const std::string& name) {
  if (!name.empty() && name.size() <= 180 && name.find('/') == std::string::npos &&
      name.find('\0') == std::string::npos) {
    return {};
  }
  return make_error(Status::invalid_argument, "map name '{}': must be 1 to 180 characters without '/'", name);
}

void for_each_memfd(std::string_view prefix, const std::string& only,
                    const std::function<bool(const std::string& name, int fd)>& visit) {
  for (const auto& process : entries_of("/proc")) {
    if (process.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string descriptors = "/proc/" + process + "/fd";
    for (const auto& each : entries_of(descriptors)) {
      const std::string path = descriptors + "/" + each;
      const std::string name = name_of_link(path, prefix);
      if (name.empty() || (!only.empty() && name != only)) continue;
      const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (fd >= 0 && !visit(name, fd)) return;
    }
  }
}

// ---- Memory ---------------------------------------------------------------------------------

Memory::~Memory() {
  if (base_ != nullptr && (header().magic == magic)) leave();
  if (reserved_ != nullptr) munmap(reserved_, reserved_bytes_);
  if (fd_ >= 0) close(fd_);
}

Result<void> Memory::map(int fd, Word reach) {
  fd_ = fd;
  shared_ = fd >= 0;
  if (fd >= 0 && (reach < huge_page || reach > most_reach || reach % huge_page != 0)) {
    return make_error(Status::bad_format, "a map of {} bytes of address space has been damaged; remove it", reach);
  }
  // If address space is limited, a new map reserves less.
  for (;; reach = reach / 2 / huge_page * huge_page) {
    reserved_bytes_ = reach + huge_page;
    void* space = mmap(nullptr, reserved_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space != MAP_FAILED) {
      reserved_ = space;
      break;
    }
    if (fd >= 0 || reach < 64 * huge_page) {
      return system_error(fmt::format("cannot set aside {} bytes of address space for a map", reserved_bytes_));
    }
  }
  const auto start = (reinterpret_cast<std::uintptr_t>(reserved_) + huge_page - 1) / huge_page * huge_page;
  const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = mmap(reinterpret_cast<void*>(start), reach, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
  if (memory == MAP_FAILED) return system_error(fmt::format("cannot map {} bytes of a map", reach));
  base_ = static_cast<std::byte*>(memory);
  // Because lookups access random addresses. A small map has its blocks in the first pages, which stay small.
  madvise(base_ + reach / 2, reach / 2, MADV_HUGEPAGE);
  if (reach / 2 > huge_page) madvise(base_ + huge_page, reach / 2 - huge_page, MADV_HUGEPAGE);
  reach_ = reach;
  return {};
}

Result<void> Memory::format(const std::string& name, const Geometry& geometry, const MapOptions& options,
                            bool strings) {
  if (!back(0, header_bytes)) {
    base_ = nullptr;  // not even the header may be touched
    return make_error(Status::out_of_memory, "no memory for map '{}'", name);
  }
  Header& made = header();
  made.layout = layout;
  made.flags = (options.keep ? is_kept : 0) | (strings ? has_strings : 0);
  made.geometry = geometry;
  made.reach = reach_;
  made.first_log2 = first_log2(geometry, options.capacity);
  made.namespaces = current_namespaces();
  std::memcpy(made.name, name.c_str(), std::min(name.size() + 1, sizeof made.name));
  made.used.store(header_bytes, std::memory_order_relaxed);
  made.backed.store(header_bytes, std::memory_order_relaxed);
  const Word table = table_of(made.first_log2);
  const Word end = end_of(table);
  if (made.first_log2 >= most_doublings || end > reach_) {
    return make_error(
        Status::invalid_argument, "a map of {} keys of {} bytes does not fit into the half of {} bytes; {}",
        options.capacity, geometry.key_bytes + geometry.value_bytes, reach_,
        reach_ == reach_of(options) ? "raise most_bytes" : "this process may have no more; raise `ulimit -v` and `-f`");
  }
  if (!is_available(table_bytes(table)) || !back(table & ~log2_mask, end)) {
    return make_error(Status::out_of_memory, "no {} bytes of memory for a map of {} keys; free some or ask for less",
                      table_bytes(table), options.capacity);
  }
  for (Word i = 0; i < Word{1} << made.first_log2; ++i) {
    bucket_of(table, i)->word.store(live_bit, std::memory_order_relaxed);
  }
  made.active.store(table, std::memory_order_relaxed);
  std::atomic_ref(made.magic).store(magic, std::memory_order_release);  // publishes the complete map
  return {};
}

// Whether the words of the header are among those that maps write, whatever others write meanwhile. What the cells and
// blocks contain is not looked at.
bool Memory::is_possible() const {
  const Header& shared = header();
  const Geometry& geometry = shared.geometry;
  if (shared.reach != reach_ || geometry.key_bytes == 0 || geometry.value_bytes == 0 ||
      geometry != geometry_of(geometry.key_bytes, geometry.value_bytes)) {
    return false;
  }
  const auto is_table = [&](Word table) {
    const Word log2 = table & log2_mask;
    return log2 >= shared.first_log2 && log2 < most_doublings &&
           Word{1} << log2 <= reach_ / (geometry.bucket_words * sizeof(Word)) && table == table_of(log2) &&
           end_of(table) <= reach_;
  };
  const Word next = shared.next.load(std::memory_order_relaxed);
  if (!is_table(shared.active.load(std::memory_order_relaxed)) || (next != 0 && !is_table(next))) return false;
  const Word used = shared.used.load(std::memory_order_relaxed);
  return used >= header_bytes && used <= reach_ / 2 && used % 64 == 0 &&
         shared.backed.load(std::memory_order_relaxed) <= reach_ / 2 && has_possible_blocks();
}

// Those that use a kept map have looked at it before, and change it meanwhile. None begins to, as the caller holds the
// lock of the name, but a fork of one that was killed may, so that a look is repeated.
bool Memory::is_followed_safely() const {
  if ((header().flags & is_kept) == 0) return true;
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (is_used(fd_) || can_be_followed()) return true;
  }
  return false;
}

Result<void> Memory::whole() const {
  const auto file_bytes = [this] {
    struct stat status = {};
    return fstat(fd_, &status) == 0 ? static_cast<Word>(status.st_size) : 0;
  };
  const auto damaged = [this] {
    const auto& name = header().name;
    return make_error(Status::bad_format, "map '{}' has been damaged; remove it",
                      std::string_view(name, strnlen(name, sizeof name)));
  };
  if (file_bytes() >= header_bytes) {
    if (!is_possible()) return damaged();
    // Others may let it grow meanwhile: the file first, then, with release, what is read here. So its size is asked for
    // afterwards.
    const Word table = header().active.load(std::memory_order_acquire);
    const Word next = header().next.load(std::memory_order_acquire);
    const Word backed = header().backed.load(std::memory_order_acquire);
    const Word end = std::max(end_of(table), next == 0 ? 0 : end_of(next));
    if (file_bytes() >= std::max(end, backed)) {
      if (is_followed_safely()) return {};
      return damaged();
    }
  }
  return make_error(Status::bad_format, "map '{}' has been cut off; remove it", header().name);
}

Result<void> Memory::enter() {
  forks_seen_.store(forks.load(std::memory_order_relaxed), std::memory_order_relaxed);
  owner_.store(1, std::memory_order_relaxed);
  if (!shared_) return {};
  if (const auto good = whole(); !good) {
    shared_ = false;  // so that the destructor leaves the map unchanged
    return good.error();
  }
  const Word mine = current_namespaces();
  if (mine != 0 && header().namespaces != 0 && header().namespaces != mine) {
    shared_ = false;  // so that the destructor leaves the map unchanged
    return make_error(Status::not_supported,
                      "map '{}' belongs to another PID or time namespace: deaths would not be "
                      "seen; run all processes in one",
                      header().name);
  }
  const bool is_alone = (header().flags & is_kept) != 0 && !is_used(fd_);
  if (join()) {
    // A chain may have the owner that is now this process: of one that ended while its threads still made updates.
    if (is_alone) sweep_all();
    return {};
  }
  shared_ = false;
  return make_error(Status::not_supported, "map '{}' is in use by {} processes; more cannot take part", header().name,
                    most_members);
}

MapState Memory::state() const {
  const Header& shared = header();
  const Statistics found = statistics();
  MapState state;
  state.name = shared.name;
  state.kept = (shared.flags & is_kept) != 0;
  state.strings = (shared.flags & has_strings) != 0;
  state.key_bytes = shared.geometry.key_bytes;
  state.value_bytes = shared.geometry.value_bytes;
  state.keys = found.keys;
  state.buckets = found.buckets;
  state.overflow_buckets = found.overflow_buckets;
  state.longest_chain = found.longest_chain;
  state.memory_bytes = found.bytes;
  state.growing = found.growing;
  state.takeovers = found.takeovers;
  state.refused = found.refused;
  for (const auto& member : shared.members) {
    const Word process = member.load(std::memory_order_acquire);
    if (process == 0) continue;
    const auto id = ProcessId::unpacked(process);
    if (liveness_of(id) != Liveness::dead && std::ranges::find(state.processes, id.pid) == state.processes.end()) {
      state.processes.push_back(id.pid);
    }
  }
  return state;
}

// ---- what the public header needs -----------------------------------------------------------

Result<std::shared_ptr<Table>> create(const Geometry& geometry, const MapOptions& options, bool strings) {
  if (const auto good = check_options(options); !good) return good.error();
  if (options.keep) {
    return make_error(Status::invalid_argument, "a map without a name cannot be kept; use create_shared()");
  }
  return make_memory(-1, "", geometry, options, strings);
}

Result<std::shared_ptr<Table>> create_shared(const std::string& name, const Geometry& geometry,
                                             const MapOptions& options, bool strings) {
  if (const auto good = check_name(name); !good) return good.error();
  if (const auto good = check_options(options); !good) return good.error();
  const NameLock lock(name);
  if (const auto held = lock.held(); !held) return held.error();
  const int kept = find_kept(name);
  const int fd = kept >= 0 ? kept : find_in_use(name, nullptr);
  if (fd >= 0) {
    if ((kept >= 0) != options.keep) {
      close(fd);
      return make_error(Status::invalid_argument, "map '{}' is there, and is {}kept; set `keep` likewise", name,
                        kept >= 0 ? "" : "not ");
    }
    return enter_as(fd, name, geometry, strings);
  }
  if (options.keep) return make_kept(name, geometry, options, strings);
  const int made = memfd_create(fmt::format("{}{}", memfd_prefix, name).c_str(), MFD_CLOEXEC);
  if (made < 0) return system_error("cannot create a memfd");
  return make_memory(made, name, geometry, options, strings);
}

Result<std::shared_ptr<Table>> open(const std::string& name, const Geometry& geometry, bool strings) {
  if (const auto good = check_name(name); !good) return good.error();
  const int fd = find_kept(name);
  if (fd < 0)
    return make_error(Status::not_found, "no map '{}' was kept; 'smelt state list' shows those that were", name);
  return enter_as(fd, name, geometry, strings);
}

Result<std::shared_ptr<Table>> attach(const std::string& name, const Geometry& geometry, bool strings) {
  if (const auto good = check_name(name); !good) return good.error();
  const NameLock lock(name);
  if (const auto held = lock.held(); !held) return held.error();
  int fd = find_kept(name);
  if (fd < 0) fd = find_in_use(name, nullptr);
  if (fd < 0) {
    if (is_over_ranks(name)) {
      return make_error(Status::not_supported,
                        "map '{}' is over ranks that share no table; its processes are those of its creation, by "
                        "MapGroup::create_shared()",
                        name);
    }
    return make_error(Status::not_found, "no process of this user has a map '{}'; create it first", name);
  }
  return enter_as(fd, name, geometry, strings);
}

MapState state_of(const Table& table) { return static_cast<const Memory&>(table).state(); }

}  // namespace map_detail

// ---- maps of this user ----------------------------------------------------------------------

namespace {

using map_detail::FoundMap;

Result<MapState> look_at(const FoundMap& found) {
  const map_detail::NameLock lock(found.name);  // nobody begins to use a kept map that is looked through
  if (const auto held = lock.held(); !held) {
    close(found.fd);
    return held.error();
  }
  auto memory = std::make_shared<map_detail::Memory>();
  map_detail::Header header;
  if (pread(found.fd, static_cast<void*>(&header), offsetof(map_detail::Header, name), 0) <= 0) {
    close(found.fd);
    return make_error(Status::io_error, "cannot read map '{}'", found.name);
  }
  if (const auto mapped = memory->map_to_look(found.fd, header.reach); !mapped) return mapped.error();
  if (const auto good = memory->whole(); !good) return good.error();
  return memory->state();
}

std::vector<FoundMap> find_all() {
  std::vector<FoundMap> all;
  map_detail::find_in_use("", &all);
  for (const auto& file : map_detail::entries_of("/dev/shm")) {
    if (!file.starts_with(map_detail::kept_prefix)) continue;
    const std::string name = file.substr(map_detail::kept_prefix.size());
    if (const int fd = map_detail::find_kept(name); fd >= 0) all.push_back({name, true, fd});
  }
  std::ranges::sort(all, {}, &FoundMap::name);
  return all;
}

}  // namespace

Result<std::vector<MapState>> list_maps() {
  std::vector<MapState> states;
  for (const auto& found : find_all()) {
    auto state = look_at(found);
    if (state) states.push_back(std::move(*state));
  }
  return states;
}

Result<MapState> inspect_map(const std::string& name) {
  if (const auto good = map_detail::check_name(name); !good) return good.error();
  FoundMap found{name, true, map_detail::find_kept(name)};
  if (found.fd < 0) found = {name, false, map_detail::find_in_use(name, nullptr)};
  if (found.fd < 0) {
    return make_error(Status::not_found, "there is no map '{}'; 'smelt state list' shows those that there are", name);
  }
  return look_at(found);
}

Result<void> remove_map(const std::string& name) {
  if (const auto good = map_detail::check_name(name); !good) return good.error();
  const auto removed = Segment::remove_named(map_detail::kept_name(name));
  if (!removed && removed.error().status == Status::not_found) {
    if (map_detail::is_over_ranks(name)) {
      return make_error(Status::not_supported, "map '{}' is over ranks; such maps end with their processes", name);
    }
    return make_error(Status::not_found, "no map '{}' was kept; 'smelt state list' shows those that were", name);
  }
  return removed;
}

}  // namespace smelt
