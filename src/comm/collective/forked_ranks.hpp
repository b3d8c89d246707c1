// Ranks that are processes: forked, run through a list of cases, waited for. For tests.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "base/segment.hpp"
#include "comm/collective/collective_check.hpp"
#include "smelt/communicator.hpp"

namespace smelt::test {

inline CommunicatorOptions options_for(const std::string& algorithm = "") {
  CommunicatorOptions options;
  options.pin = false;
  options.search_ms = 1;
  options.timeout_s = 20;
  options.algorithm = algorithm;
  return options;
}

inline std::string fresh_name() {
  static int number = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

/// A zeroed value that forked processes share.
template <class Value>
class ZeroedSharedValue {
 public:
  ZeroedSharedValue() : segment_(*Segment::anonymous(sizeof(Value))) {}
  Value* operator->() const { return reinterpret_cast<Value*>(segment_.data()); }
  Value& operator*() const { return *operator->(); }

 private:
  Segment segment_;
};

/// A process as the registry of members has it: pid and start.
inline std::uint64_t process_word(pid_t pid, std::uint64_t start_ticks) {
  return start_ticks << 22 | static_cast<std::uint64_t>(pid);
}

/// Whether the process has joined what the segment is about, in whatever state it is there now.
inline bool knows(const Segment& segment, std::uint64_t process) {
  const auto* words = reinterpret_cast<const std::atomic<std::uint64_t>*>(segment.data());
  return std::any_of(words, words + segment.size() / 8, [&](const auto& word) {
    const auto value = word.load(std::memory_order_relaxed);
    return value >> 2 == process && (value & 3) != 0;
  });
}

/// Names in /dev/shm that any of these processes has taken part in. Other programs' are none of this one's business.
inline int names_left(const std::vector<std::uint64_t>& processes) {
  int left = 0;
  const std::string start = "smelt-" + std::to_string(geteuid()) + "-";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename().string();
    auto segment = name.starts_with(start) ? Segment::open_named("/" + name) : Segment();
    if (!segment) continue;  // it was another program's, and has gone meanwhile
    left += std::any_of(processes.begin(), processes.end(), [&](auto process) { return knows(*segment, process); });
  }
  return left;
}

/// Ends this process with what `body` returns, or with 99 where it throws.
template <class Body>
[[noreturn]] void exit_with(const Body& body) noexcept {
  try {
    _exit(body());
  } catch (const std::exception& problem) {
    fprintf(stderr, "process %d: %s\n", static_cast<int>(getpid()), problem.what());
  }
  _exit(99);
}

/// Forks a process per rank. `body` returns an exit status; the pids come back. An exception in a child ends it: else
/// it would go on with the tests of its parent.
template <class Body>
std::vector<pid_t> fork_ranks(int size, const Body& body) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) exit_with([&] { return body(rank); });
    pids.push_back(pid);
  }
  return pids;
}

/// Exit statuses; -signal for those that a signal ended.
inline std::vector<int> wait_for(const std::vector<pid_t>& pids) {
  std::vector<int> results;
  for (const pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    results.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return results;
}

inline int run_cases(const std::string& name, int size, int rank, const std::vector<Case>& cases,
                     const std::string& label, const CommunicatorOptions& options = options_for()) {
  const int mine[] = {rank};
  auto comm = Communicator::create_shared(name, size, mine, options);
  if (!comm) {
    fprintf(stderr, "%s\n", comm.error().message.c_str());
    return 2;
  }
  auto attached = comm->attach(rank);
  if (!attached) return 3;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::string problem;
    CollectiveCheck checked(cases[i], size, rank, i + 1);
    if (checked.run(*attached, problem)) continue;
    fprintf(stderr, "%s, %s, case %zu, rank %d: %s\n", label.c_str(), describe(cases[i]).c_str(), i, rank,
            problem.c_str());
    return 1;
  }
  return 0;
}

}  // namespace smelt::test
