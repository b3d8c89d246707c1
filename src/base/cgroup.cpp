#include "base/cgroup.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

namespace smelt {
namespace {

// Waiting threads call this, and may have small stacks: all buffers together are 4 KiB.

/// A path, built without allocation.
class Path {
 public:
  /// False, without any effect, if it would become too long.
  bool append(std::string_view text) noexcept {
    if (text.size() >= text_.size() - length_) return false;
    std::memcpy(text_.data() + length_, text.data(), text.size());
    cut(length_ + text.size());
    return true;
  }
  void cut(std::size_t length) noexcept {
    length_ = length;
    text_[length] = '\0';
  }
  std::size_t length() const noexcept { return length_; }
  std::string_view view() const noexcept { return {text_.data(), length_}; }
  const char* c_str() const noexcept { return text_.data(); }

 private:
  std::array<char, 512> text_ = {};
  std::size_t length_ = 0;
};

/// The first bytes of a file; empty if it cannot be read. Not by open() and read(), at which pthread_cancel() may end
/// the thread: waiting at a barrier may not.
template <std::size_t size>
std::string_view read_start(const Path& path, std::array<char, size>& text) noexcept {
  const long file = syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const long length = syscall(SYS_read, file, text.data(), text.size());
  syscall(SYS_close, file);
  return {text.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

/// Removes the first line, without its end, from `text`.
std::string_view take_line(std::string_view& text) noexcept {
  const auto line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

/// In the kernel's unit. Leaves `group` as it is.
std::uint64_t time_at(Path& group) noexcept {
  constexpr std::string_view keys[] = {"throttled_usec ", "throttled_time "};  // of v2, of v1
  const std::size_t length = group.length();
  if (!group.append("/cpu.stat")) return 0;
  std::array<char, 512> space;
  auto text = read_start(group, space);
  group.cut(length);
  while (!text.empty()) {
    const auto line = take_line(text);
    for (const auto key : keys) {
      std::uint64_t time = 0;
      if (line.substr(0, key.size()) == key &&
          std::from_chars(line.data() + key.size(), line.data() + line.size(), time).ec == std::errc())
        return time;
    }
  }
  return 0;
}

/// The sum over the cgroup and those above it. In a container its path may lie outside of what is mounted; then only
/// the mount point is found, which is the cgroup itself.
std::uint64_t sum_upwards(const char* root, std::string_view mount_point, std::string_view cgroup) noexcept {
  Path group;
  if (!group.append(root) || !group.append(mount_point)) return 0;
  const std::size_t top = group.length();
  if (cgroup != "/" && !group.append(cgroup)) return 0;
  std::uint64_t sum = time_at(group);
  while (group.length() > top) {
    group.cut(group.view().rfind('/'));
    sum += time_at(group);
  }
  return sum;
}

bool contains(std::string_view comma_list, std::string_view word) noexcept {
  for (;;) {
    const auto comma = comma_list.find(',');
    if (comma_list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    comma_list.remove_prefix(comma + 1);
  }
}

}  // namespace

std::optional<std::string_view> find_cgroup(std::string_view text, std::string_view controller) noexcept {
  while (!text.empty()) {
    const auto line = take_line(text);
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1, 1) != "/") continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : contains(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Mount points are those of all distributions.
std::uint64_t throttled_time(const char* root) noexcept {
  Path list;
  if (!list.append(root) || !list.append("/proc/self/cgroup")) return 0;
  std::array<char, 3072> space;
  const auto text = read_start(list, space);
  std::uint64_t sum = 0;
  if (const auto cgroup = find_cgroup(text, "")) sum += sum_upwards(root, "/sys/fs/cgroup", *cgroup);
  if (const auto cgroup = find_cgroup(text, "cpu")) sum += sum_upwards(root, "/sys/fs/cgroup/cpu", *cgroup);
  return sum;
}

}  // namespace smelt
