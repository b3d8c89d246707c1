#include "smelt/inspect.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/process.hpp"
#include "comm/group/rendezvous.hpp"
#include "comm/group/shared_config.hpp"
#include "comm/group/shared_layout.hpp"

namespace smelt {
namespace {

using comm::Membership;
using comm::Progress;
using comm::Rendezvous;
using comm::SharedLayout;
using State = RankActivity::State;

/// A rank whose waiting time advances within this time is waiting. Waiting ranks update it at least every 50 ms; the
/// rest is a margin for busy machines.
constexpr auto between_looks = std::chrono::milliseconds(250);

// ---- finding communicators

/// The entries of a directory that do not begin with a dot; empty if it cannot be read.
std::vector<std::string> entries_of(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  while (const dirent* entry = directory != nullptr ? readdir(directory.get()) : nullptr) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

bool is_shared_memory(const std::string& descriptor) {
  char target[64] = {};
  const ssize_t length = readlink(descriptor.c_str(), target, sizeof target);
  const std::string_view text(target, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return text.starts_with("/dev/shm/") || text.starts_with("/memfd:");
}

/// The communicator behind a descriptor; empty if it is none, or one that was seen before.
std::optional<Rendezvous> rendezvous_behind(const std::string& descriptor, std::set<std::pair<dev_t, ino_t>>& seen) {
  if (!is_shared_memory(descriptor)) return std::nullopt;
  const int fd = open(descriptor.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::optional<Rendezvous> rendezvous;
  struct stat status = {};
  if (fstat(fd, &status) == 0 && seen.emplace(status.st_dev, status.st_ino).second) {
    if (auto segment = Segment::view(fd)) rendezvous = comm::inspect_rendezvous(std::move(*segment));
  }
  close(fd);
  return rendezvous;
}

// ---- looking at one

State state_of(const Membership& members, int rank) {
  switch (members.state(rank)) {
    case comm::MemberState::absent: return State::absent;
    case comm::MemberState::left: return State::left;
    case comm::MemberState::dead: return State::dead;
    case comm::MemberState::present: break;
  }
  if (!members.same_namespaces()) return State::present;  // its process has another number here
  const ProcessId process = members.process(rank);
  if (liveness_of(process) == Liveness::dead) return State::finished;
  return is_stopped(process) ? State::stopped : State::present;
}

/// `waited_at_ns`: Progress::waits_at_ns of an earlier look.
RankActivity activity_of(const Membership& members, const Progress& progress, int rank, std::uint64_t waited_at_ns) {
  RankActivity activity;
  activity.rank = rank;
  activity.process = members.process(rank).pid;
  activity.thread = members.thread(rank);
  activity.state = state_of(members, rank);
  activity.attached = members.attendance(rank) % 2 == 1;
  const auto position = progress.position.load(std::memory_order_relaxed);
  activity.calls = Progress::calls(position);
  if (const auto operation = Progress::operation(position); static_cast<int>(operation) < operation_count) {
    activity.operation = operation;
  }
  const auto at_ns = progress.waits_at_ns.load(std::memory_order_relaxed);
  activity.waiting = activity.attached && at_ns != waited_at_ns;
  if (!activity.waiting) return activity;
  const auto peer = static_cast<int>(progress.peer.load(std::memory_order_relaxed)) - 1;
  if (peer >= 0 && peer < members.ranks()) activity.peer = peer;
  const auto since_ns = std::min(progress.waits_since_ns.load(std::memory_order_relaxed), at_ns);
  activity.waiting_ns = static_cast<double>(at_ns - since_ns);
  return activity;
}

/// A communicator's memory, and Progress::waits_at_ns of each rank when it was found.
struct InspectedCommunicator {
  Rendezvous rendezvous;
  Group group;
  Machine machine;
  std::vector<std::uint64_t> waited_at_ns;

  SharedLayout layout() const { return {rendezvous.user(), rendezvous.size}; }
};

/// Empty if the memory is not that of a communicator of this version.
std::optional<InspectedCommunicator> inspect_memory(Rendezvous rendezvous) {
  if (rendezvous.user_bytes < SharedLayout::bytes(rendezvous.size)) return std::nullopt;
  auto shared_config = comm::parse_shared_config(rendezvous.shared_config());
  if (!shared_config || shared_config->group.size() != rendezvous.size) return std::nullopt;
  InspectedCommunicator found{
      std::move(rendezvous), std::move(shared_config->group), std::move(shared_config->machine), {}};
  for (int rank = 0; rank < found.rendezvous.size; ++rank) {
    found.waited_at_ns.push_back(found.layout().progress(rank).waits_at_ns.load(std::memory_order_relaxed));
  }
  return found;
}

CommunicatorActivity second_look(const InspectedCommunicator& found) {
  const SharedLayout layout = found.layout();
  const auto& control = layout.control();
  CommunicatorActivity activity;
  activity.name = found.rendezvous.name;
  activity.id = found.rendezvous.id;
  // Pairs with CommunicatorState::fail(), which writes the message first.
  activity.status = static_cast<Status>(control.status.load(std::memory_order_acquire));
  if (activity.status != Status::ok) {
    activity.failure.assign(control.failure, strnlen(control.failure, sizeof control.failure));
  }
  for (int rank = 0; rank < found.rendezvous.size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    activity.ranks.push_back(
        activity_of(found.rendezvous.membership(), layout.progress(rank), rank, found.waited_at_ns[index]));
    activity.ranks.back().pu = found.machine.pus[static_cast<std::size_t>(found.group.pus[index])].os_index;
  }
  return activity;
}

// ---- what it means

/// "rank 3", "ranks 0, 1 and 4".
std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "), ranks.back());
}

class Diagnosis {
 public:
  explicit Diagnosis(const CommunicatorActivity& activity) : activity_(activity) {}

  std::vector<std::string> findings() {
    if (activity_.status != Status::ok) findings_.push_back("it is broken: " + activity_.failure);
    find_missing();
    if (!anybody_waits()) return std::move(findings_);
    find_different_calls();
    find_late();
    if (findings_.empty()) find_cycle();
    return std::move(findings_);
  }

 private:
  template <class Condition>
  std::vector<int> ranks_where(const Condition& condition) const {
    std::vector<int> result;
    for (const auto& rank : activity_.ranks) {
      if (condition(rank)) result.push_back(rank.rank);
    }
    return result;
  }
  bool anybody_waits() const {
    return std::any_of(activity_.ranks.begin(), activity_.ranks.end(), [](const auto& rank) { return rank.waiting; });
  }

  void find_missing() {
    const std::pair<State, const char*> reasons[] = {
        {State::dead, "died"}, {State::finished, "ended"}, {State::left, "left"}, {State::stopped, "is stopped"}};
    for (const auto& [state, text] : reasons) {
      for (const int rank : ranks_where([state = state](const auto& each) { return each.state == state; })) {
        findings_.push_back(fmt::format("rank {} (process {}) {}", rank, at(rank).process, text));
      }
    }
  }

  /// Finds ranks that have entered different operations in the same call.
  void find_different_calls() {
    for (const auto& one : activity_.ranks) {
      for (const auto& other : activity_.ranks) {
        const bool differ = one.calls == other.calls && one.calls > 0 && one.operation != other.operation;
        if (one.rank >= other.rank || !differ || !(one.waiting || other.waiting)) continue;
        findings_.push_back(fmt::format(
            "as call {} rank {} called {}, rank {} {}: all ranks must call the same operations in the same order",
            one.calls, one.rank, to_string(one.operation), other.rank, to_string(other.operation)));
        return;
      }
    }
  }

  /// Finds ranks that others wait for and that do not wait themselves.
  void find_late() {
    for (const auto& late : activity_.ranks) {
      if (late.waiting || late.state != State::present) continue;
      const auto waiting = ranks_where([&](const auto& each) {
        return each.waiting && (each.peer ? each.peer == late.rank : each.calls > late.calls);
      });
      if (waiting.empty()) continue;
      const bool one = waiting.size() == 1;
      const std::string text = fmt::format("{} {} for rank {}", ranks_text(waiting), one ? "waits" : "wait", late.rank);
      if (!late.attached) {
        findings_.push_back(text + ", which no thread has taken");
      } else if (late.calls == 0) {
        findings_.push_back(text + ", which has entered no call yet");
      } else {
        findings_.push_back(fmt::format("{}, which entered {} (call {}) last and does not wait: it computes", text,
                                        to_string(late.operation), late.calls));
      }
    }
  }

  /// Follows the awaited ranks from a waiting rank on, until one repeats.
  void find_cycle() {
    for (const auto& start : activity_.ranks) {
      std::vector<int> path;
      for (int rank = start.rank; at(rank).waiting && at(rank).peer; rank = *at(rank).peer) {
        if (const auto first = std::find(path.begin(), path.end(), rank); first != path.end()) {
          const std::vector<int> cycle(first, path.end());
          findings_.push_back(ranks_text(cycle) +
                              " wait for each other: do they give the same roots, lengths and operators, and do others"
                              " of their threads hold them up?");
          return;
        }
        path.push_back(rank);
      }
    }
  }

  const RankActivity& at(int rank) const { return activity_.ranks[static_cast<std::size_t>(rank)]; }

  const CommunicatorActivity& activity_;
  std::vector<std::string> findings_;
};

}  // namespace

Result<std::vector<CommunicatorActivity>> inspect_communicators() {
  const auto processes = entries_of("/proc");
  if (processes.empty()) return make_error(Status::io_error, "cannot read /proc; mount it to look at communicators");
  std::vector<InspectedCommunicator> all;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const auto& process : processes) {
    if (process.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string descriptors = "/proc/" + process + "/fd";
    for (const auto& descriptor : entries_of(descriptors)) {
      auto rendezvous = rendezvous_behind(descriptors + "/" + descriptor, seen);
      auto found = rendezvous ? inspect_memory(std::move(*rendezvous)) : std::nullopt;
      if (found) all.push_back(std::move(*found));
    }
  }
  if (!all.empty()) std::this_thread::sleep_for(between_looks);
  std::vector<CommunicatorActivity> activities;
  std::transform(all.begin(), all.end(), std::back_inserter(activities), second_look);
  std::sort(activities.begin(), activities.end(),
            [](const auto& a, const auto& b) { return std::tie(a.name, a.id) < std::tie(b.name, b.id); });
  return activities;
}

std::vector<std::string> diagnose(const CommunicatorActivity& activity) { return Diagnosis(activity).findings(); }

}  // namespace smelt
