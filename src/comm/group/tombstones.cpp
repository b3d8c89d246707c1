#include "comm/group/tombstones.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "comm/group/membership.hpp"
#include "smelt/machine.hpp"

namespace smelt::comm {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t magic = 0x3173676e69646e65;  // "endings1"
constexpr std::uint64_t second_ns = 1'000'000'000;
/// After which a file that is not whole was left by a writer that was killed.
constexpr int longest_write_s = 60;
/// After which a tombstone of another boot, or of another machine with the same home, is of no use.
constexpr int longest_elsewhere_s = 24 * 3600;

struct Record {
  std::uint64_t magic;
  std::uint64_t ended_ns, expires_ns;
  std::uint64_t unnotified[Membership::most_ranks / 64];
  std::int32_t status;
  char text[600];
};

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  /// A regular file of this user.
  bool good() const {
    struct stat status = {};
    return fd_ >= 0 && fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  }
  bool lock() const { return flock(fd_, LOCK_EX) == 0; }
  bool read(Record& record) const {
    return pread(fd_, &record, sizeof record, 0) == static_cast<ssize_t>(sizeof record) && record.magic == magic;
  }
  /// In one piece: smaller than a page, so that a signal does not interrupt it.
  bool write(const Record& record) const {
    return pwrite(fd_, &record, sizeof record, 0) == static_cast<ssize_t>(sizeof record);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

fs::path directory() { return cache_path({}).parent_path() / "ended"; }

/// Same for all who understand each other's pids and clocks.
std::uint64_t place() {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  const auto mix = [&](const void* bytes, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) {
      hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 1099511628211u;
    }
  };
  const File boot(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  char id[36] = {};
  if (boot.fd() >= 0 && ::read(boot.fd(), id, sizeof id) > 0) mix(id, sizeof id);
  const std::uint64_t spaces = current_namespaces();
  mix(&spaces, sizeof spaces);
  return hash;
}

std::string prefix() { return fmt::format("{:016x}-{}-", place(), geteuid()); }
std::string name_of(const std::string& rendezvous, std::uint64_t id) {
  return fmt::format("{}{:016x}-{}", prefix(), id, rendezvous);
}

/// 0 if it cannot be known.
std::uint64_t started_ns() {
  const auto self = ProcessId::self();
  const long ticks_per_s = sysconf(_SC_CLK_TCK);
  return self && ticks_per_s > 0 ? self->start_ticks * (second_ns / static_cast<std::uint64_t>(ticks_per_s)) : 0;
}

bool nobody_untold(const Record& record) {
  return std::all_of(std::begin(record.unnotified), std::end(record.unnotified), [](auto word) { return word == 0; });
}

/// True if one of them was untold.
bool strike(Record& record, std::span<const int> ranks) {
  bool any = false;
  for (const int rank : ranks) {
    auto& word = record.unnotified[rank / 64];
    const std::uint64_t bit = std::uint64_t{1} << (rank % 64);
    any |= (word & bit) != 0;
    word &= ~bit;
  }
  return any;
}

/// Takes ranks off a tombstone, which goes with the last of them. What was written there if `audience(record)` and one
/// of the ranks was untold.
std::optional<Record> take_off(const fs::path& path, std::span<const int> ranks,
                               const std::function<bool(const Record&)>& audience) {
  const File file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  Record record;
  if (!file.good() || !file.lock() || !file.read(record)) return std::nullopt;
  if (!audience(record) || !strike(record, ranks)) return std::nullopt;
  (void)file.write(record);
  if (nobody_untold(record)) unlink(path.c_str());
  return record;
}

/// `here`: its clock is this machine's.
bool is_over(const fs::path& path, bool here) {
  const File file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.good()) return false;
  Record record;
  const bool whole = file.read(record);
  if (here && whole) return record.expires_ns <= boot_ns() || nobody_untold(record);
  struct stat status = {};
  return fstat(file.fd(), &status) == 0 &&
         status.st_mtime + (whole ? longest_elsewhere_s : longest_write_s) < std::time(nullptr);
}

}  // namespace

std::uint64_t boot_ns() noexcept {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * second_ns + static_cast<std::uint64_t>(now.tv_nsec);
}

void record_tombstone(const Tombstone& tombstone, std::span<const int> absent) {
  if (absent.empty() || tombstone.expires_ns <= boot_ns()) return;
  Record record = {};
  record.magic = magic;
  record.ended_ns = tombstone.ended_ns;
  record.expires_ns = tombstone.expires_ns;
  for (const int rank : absent) record.unnotified[rank / 64] |= std::uint64_t{1} << (rank % 64);
  record.status = static_cast<std::int32_t>(tombstone.error.status);
  const std::size_t length = std::min(tombstone.error.message.size(), sizeof record.text - 1);
  std::copy_n(tombstone.error.message.begin(), length, record.text);
  const fs::path path = directory() / name_of(tombstone.name, tombstone.id);
  // The directory goes with its last file, perhaps just now.
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    const File file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (file.fd() < 0) continue;
    Record there;
    if (file.good() && file.lock() && !file.read(there)) (void)file.write(record);
    return;
  }
}

std::optional<Error> consume_tombstone(const std::string& name, std::span<const int> ranks) {
  const fs::path where = directory();
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(where.c_str()), closedir);
  if (entries == nullptr) return std::nullopt;
  const std::string start = prefix(), tombstone = name_of(name, 0).substr(start.size() + 16);
  const std::uint64_t born_ns = started_ns();
  const auto lived = [&](const Record& record) { return born_ns <= record.ended_ns; };
  std::optional<Record> told;
  while (const dirent* entry = readdir(entries.get())) {
    const std::string_view file = entry->d_name;
    if (file == "." || file == "..") continue;
    const fs::path path = where / file;
    const bool here = file.starts_with(start);
    if (is_over(path, here)) {
      unlink(path.c_str());
    } else if (here && file.size() == start.size() + 16 + tombstone.size() && file.ends_with(tombstone)) {
      if (auto record = take_off(path, ranks, lived)) told = *record;
    }
  }
  rmdir(where.c_str());  // if it is empty
  if (!told) return std::nullopt;
  return Error{static_cast<Status>(told->status), std::string(told->text, strnlen(told->text, sizeof told->text))};
}

void acknowledge_tombstone(const std::string& name, std::uint64_t id, std::span<const int> ranks) {
  take_off(directory() / name_of(name, id), ranks, [](const Record&) { return true; });
}

}  // namespace smelt::comm
