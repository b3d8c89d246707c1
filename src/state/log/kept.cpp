#include "state/log/kept.hpp"

#include <dirent.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/process.hpp"
#include "state/log/points.hpp"
#include "state/log/shape.hpp"

namespace smelt::state::log {
namespace {

constexpr std::uint64_t log_magic = 0x31676f6c746c6d73;    // "smltlog1"
constexpr std::uint64_t state_magic = 0x31747473746c6d73;  // "smltstt1"
constexpr std::uint32_t version = 2;
constexpr std::string_view log_prefix = "smelt-log.";
constexpr std::string_view state_prefix = "smelt-log-state.";
constexpr std::size_t longest_name = 180;
constexpr std::size_t head_bytes = up(sizeof(KeptHead), 4096);
/// A process that was killed holds its lock until the kernel has ended it.
constexpr std::uint64_t patience_ns = 2'000'000'000;

struct StateHead {
  std::uint64_t magic = state_magic, index = 0, bytes = 0;
};

Result<void> check_name(const std::string& name) {
  const bool good = !name.empty() && name.size() <= longest_name && name.find('/') == std::string::npos &&
                    name.find('\0') == std::string::npos;
  if (good) return {};
  return make_error(Status::invalid_argument, "replicated log: the name '{}' must have 1 to {} characters without '/'",
                    name, longest_name);
}

std::string log_file(const std::string& name) { return fmt::format("/{}{}", log_prefix, name); }
std::string state_file(const std::string& name, std::uint64_t index) {
  return fmt::format("/{}{}.{}", state_prefix, index, name);
}

std::vector<std::string> files_with(std::string_view prefix) {
  std::vector<std::string> files;
  DIR* const directory = opendir("/dev/shm");
  if (directory == nullptr) return files;
  while (const dirent* entry = readdir(directory)) {
    if (std::string_view(entry->d_name).starts_with(prefix)) files.emplace_back(entry->d_name);
  }
  closedir(directory);
  return files;
}

bool has_same_contents(const Shape& one, const Shape& other) {
  return one.ranks == other.ranks && one.entries == other.entries && one.requests == other.requests &&
         one.command_bytes == other.command_bytes && std::ranges::equal(one.replicas, other.replicas);
}

Error not_whole(const std::string& name) {
  return make_error(Status::bad_format,
                    "replicated log: '/dev/shm{}' is no log of this version; remove it by 'smelt state rm'",
                    log_file(name));
}

}  // namespace

std::byte* Kept::memory() const noexcept { return segment_.data() + head_bytes; }

// ---- Lives

Result<std::shared_ptr<Kept>> Kept::open(const std::string& name) {
  if (const auto good = check_name(name); !good) return good.error();
  auto segment = Segment::open_named(log_file(name));
  if (!segment) return segment.error();
  if (segment->size() < head_bytes + sizeof(Head)) return not_whole(name);
  std::shared_ptr<Kept> kept(new Kept(name, std::move(*segment)));
  const Shape& shape = reinterpret_cast<const Head*>(kept->memory())->shape;
  const bool whole = kept->head().magic.load(std::memory_order_acquire) == log_magic &&
                     kept->head().version == version && shape.ranks >= 1 && shape.ranks <= nobody &&
                     kept->segment_.size() >= head_bytes + Layout::bytes(shape);
  if (!whole) return not_whole(name);
  return kept;
}

Result<std::shared_ptr<Kept>> Kept::make(const std::string& name, const Shape& shape) {
  auto segment = Segment::unnamed(head_bytes + Layout::bytes(shape));
  if (!segment) return segment.error();
  std::shared_ptr<Kept> kept(new Kept(name, std::move(*segment)));
  auto& head = *new (kept->segment_.data()) KeptHead{};
  head.version = version;
  std::memcpy(head.name, name.c_str(), name.size() + 1);
  head.life.store(1, std::memory_order_relaxed);
  prepare(kept->memory(), shape, FutexScope::processes);
  head.magic.store(log_magic, std::memory_order_release);
  // Shared from its first moment: nobody can begin another life before this process has ended.
  if (const auto shared = kept->share_lock(); !shared) return shared.error();
  const auto named = kept->segment_.give_name(log_file(name));
  if (!named) return named.error();
  if (!*named) return make_error(Status::broken, "replicated log: '{}' was made by another process meanwhile", name);
  kept->remove_states_but(0);
  return kept;
}

Result<std::shared_ptr<Kept>> Kept::begin(const std::string& name, const Shape& shape) {
  auto kept = open(name);
  if (!kept && kept.error().status == Status::not_found) return make(name, shape);
  if (!kept) return kept.error();
  const Shape& there = reinterpret_cast<const Head*>((*kept)->memory())->shape;
  if (!has_same_contents(there, shape)) {
    return make_error(
        Status::invalid_argument,
        "replicated log: '{}' was kept with {} ranks, entries = {}, requests = {}, command_bytes = {}, or "
        "with other replicas; give the same, or remove it by 'smelt state rm'",
        name, there.ranks, there.entries, there.requests, there.command_bytes);
  }
  if (const auto locked = (*kept)->lock_alone(); !locked) return locked.error();
  struct stat status = {};
  if (fstat((*kept)->segment_.fd(), &status) == 0 && status.st_nlink == 0) return begin(name, shape);  // removed
  if (const auto recovered = (*kept)->recover(shape); !recovered) return recovered.error();
  if (const auto shared = (*kept)->share_lock(); !shared) return shared.error();
  return kept;
}

Result<std::shared_ptr<Kept>> Kept::join(const std::string& name, std::uint64_t life) {
  auto kept = open(name);
  if (!kept) return kept.error();
  if (const auto shared = (*kept)->share_lock(); !shared) return shared.error();
  if ((*kept)->life() == life) return kept;
  return make_error(Status::broken, "replicated log: the processes that '{}' was begun with have ended; start again",
                    name);
}

Result<void> Kept::lock_alone() {
  const std::uint64_t limit_ns = monotonic_ns() + patience_ns;
  while (flock(segment_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return make_error(Status::io_error, "replicated log: cannot lock '{}': {}", name_, std::strerror(errno));
    }
    const auto users = processes();
    if (!users.empty() || monotonic_ns() > limit_ns) {
      return make_error(Status::broken, "replicated log: '{}' is in use by {}; wait until its processes have ended",
                        name_, users.empty() ? "another process" : fmt::format("process {}", users.front()));
    }
    const timespec pause = {0, 500'000};
    nanosleep(&pause, nullptr);
  }
  return {};
}

/// Gives up a lock that was held alone, too. Between the two a process may look, but no life can begin: that happens
/// within a rendezvous of this name alone, and there is one at a time.
Result<void> Kept::share_lock() {
  for (int attempt = 0; flock(segment_.fd(), LOCK_SH | LOCK_NB) != 0; ++attempt) {
    if (attempt == 1000) {
      return make_error(Status::broken, "replicated log: '{}' is being removed or recovered by another process", name_);
    }
    const timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  return {};
}

/// Begins a life as if a new leader had taken over from all others, which are dead. Nobody else is there. If this
/// process ends in here, the next one does it again.
Result<void> Kept::recover(const Shape& shape) {
  const std::uint64_t kept_index = index();
  if (kept_index != 0 && !newest()) {
    return make_error(Status::bad_format, "replicated log: the state '/dev/shm{}' of log '{}' is missing",
                      state_file(name_, kept_index), name_);
  }
  Head& log = *reinterpret_cast<Head*>(memory());
  const Configuration before = Configuration::of(log.configuration.load(std::memory_order_acquire));
  if (before.epoch >= most_epoch) {
    return make_error(Status::broken, "replicated log: the epochs of '{}' are used up; create another one", name_);
  }
  head().life.fetch_add(1, std::memory_order_relaxed);
  SMELT_LOG_POINT(25);
  log.shape = shape;
  log.bell.parked.store(0, std::memory_order_relaxed);
  for (Word* const word : {&log.wanted, &log.pressed, &log.looked, &log.contested}) {
    word->store(0, std::memory_order_relaxed);
  }
  const Layout layout(memory(), shape);
  for (int rank = 0; rank < static_cast<int>(shape.ranks); ++rank) {
    head().processes[rank].store(0, std::memory_order_relaxed);
    Part& part = layout.part(rank);
    const Progress last = Progress::of(part.progress.load(std::memory_order_relaxed));
    const auto standing = shape.is_replica(rank) ? Standing::live : Standing::out;
    part.progress.store(last.with(standing, kept_index, 1).word(), std::memory_order_relaxed);
    part.returns.store(0, std::memory_order_relaxed);
    part.attached.store(0, std::memory_order_relaxed);
    part.claim.store(0, std::memory_order_relaxed);
    part.consent.store(0, std::memory_order_relaxed);
    part.outgoing.header.store(0, std::memory_order_relaxed);
  }
  SMELT_LOG_POINT(26);
  log.configuration.store(Configuration{before.epoch + 1, static_cast<int>(shape.leader)}.word(),
                          std::memory_order_release);
  remove_states_but(kept_index);
  return {};
}

Kept::~Kept() {
  const auto self = ProcessId::self();
  for (const int rank : own_ranks_) {
    std::uint64_t own = self ? self->packed() : 0;  // a forked child is another one
    head().processes[rank].compare_exchange_strong(own, 0, std::memory_order_acq_rel, std::memory_order_relaxed);
  }
}

void Kept::note_process(int rank) {
  own_ranks_.push_back(rank);
  const auto self = ProcessId::self();
  head().processes[rank].store(self ? self->packed() : 0, std::memory_order_release);
}

std::vector<std::int64_t> Kept::processes() const {
  std::vector<std::int64_t> alive;
  for (const Word& word : head().processes) {
    const std::uint64_t process = word.load(std::memory_order_acquire);
    if (process == 0) continue;
    const ProcessId id = ProcessId::unpacked(process);
    if (liveness_of(id) == Liveness::dead || std::ranges::find(alive, id.pid) != alive.end()) continue;
    alive.push_back(id.pid);
  }
  return alive;
}

// ---- States

Result<void> Kept::save(std::uint64_t index, std::span<const std::byte> state) {
  auto segment = Segment::unnamed(sizeof(StateHead) + state.size());
  if (!segment) return segment.error();
  const StateHead written{state_magic, index, state.size()};
  std::memcpy(segment->data(), &written, sizeof written);
  std::copy(state.begin(), state.end(), static_cast<std::byte*>(segment->data()) + sizeof written);
  SMELT_LOG_POINT(27);
  // A file that is there already has the same state: replicas are deterministic.
  if (const auto named = segment->give_name(state_file(name_, index)); !named) return named.error();
  SMELT_LOG_POINT(28);
  std::uint64_t before = head().index.load(std::memory_order_acquire);
  while (before < index) {
    // Release: pairs with index(). The file is there.
    if (head().index.compare_exchange_weak(before, index, std::memory_order_acq_rel, std::memory_order_acquire)) break;
  }
  SMELT_LOG_POINT(29);
  const std::uint64_t old = std::min(before, index);  // this one itself, if it came too late
  if (before != index && old != 0) static_cast<void>(Segment::remove_named(state_file(name_, old)));
  return {};
}

Result<std::optional<Kept::State>> Kept::newest() const {
  for (;;) {
    const std::uint64_t at = index();
    if (at == 0) return std::optional<State>();
    auto segment = Segment::open_named(state_file(name_, at));
    if (!segment && segment.error().status == Status::not_found && index() != at) continue;  // replaced meanwhile
    if (!segment) return segment.error();
    StateHead there;
    if (segment->size() >= sizeof there) std::memcpy(&there, segment->data(), sizeof there);
    if (segment->size() < sizeof there || there.magic != state_magic || there.index != at ||
        there.bytes > segment->size() - sizeof there) {
      return make_error(Status::bad_format, "replicated log: '/dev/shm{}' is no state of a log of this version",
                        state_file(name_, at));
    }
    const std::byte* const begin = segment->data() + sizeof there;
    return std::optional<State>({at, {begin, begin + there.bytes}});
  }
}

void Kept::remove_states_but(std::uint64_t index) const {
  for (const auto& file : files_with(state_prefix)) {
    const auto rest = std::string_view(file).substr(state_prefix.size());
    std::uint64_t found = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), found);
    const auto after = rest.substr(static_cast<std::size_t>(parsed.ptr - rest.data()));
    if (parsed.ec != std::errc() || after.size() != name_.size() + 1 || after.substr(1) != name_) continue;
    if (found != index || index == 0) static_cast<void>(Segment::remove_named("/" + file));
  }
}

// ---- From outside

Result<std::shared_ptr<Kept>> Kept::look_at(const std::string& name) { return open(name); }

std::vector<std::string> Kept::names() {
  auto names = files_with(log_prefix);
  for (auto& name : names) name.erase(0, log_prefix.size());
  std::ranges::sort(names);
  return names;
}

Result<void> Kept::remove(const std::string& name) {
  auto kept = open(name);
  if (!kept && kept.error().status == Status::bad_format) return Segment::remove_named(log_file(name));
  if (!kept) return kept.error();
  if (const auto locked = (*kept)->lock_alone(); !locked) return locked.error();
  if (const auto removed = Segment::remove_named(log_file(name)); !removed) return removed.error();
  (*kept)->remove_states_but(0);
  return {};
}

}  // namespace smelt::state::log
