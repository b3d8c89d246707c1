// Runs inside a virtual machine (run_guest.sh), whose kernel has control groups v2: memory.max, memory.high and
// cpuset.mems with placed arrays, and with the preload library. Every worker is this program again, in a group of its
// own.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "machine/topology/numa.hpp"
#include "smelt/array.hpp"

namespace smelt {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t huge_bytes = 2 * mib;
const std::filesystem::path groups = "/sys/fs/cgroup";

// ---- what runs in a group --------------------------------------------------------------------

void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

char* allocated(std::size_t bytes) {
  auto* const memory = static_cast<char*>(std::malloc(bytes));
  if (memory == nullptr) std::_Exit(10);
  return memory;
}

/// One byte in each 2 MiB.
void touch_sparsely(char* memory, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += huge_bytes) memory[at] = 1;
}

void fill(char* memory, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 512) memory[at] = static_cast<char>(at / 512);
}

int expect_filled(const char* memory, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 512) {
    if (memory[at] != static_cast<char>(at / 512)) return 11;
  }
  return 0;
}

/// Nearly all that a group of 256 MiB has.
int dense() {
  constexpr std::size_t bytes = 200 * mib;
  char* const memory = allocated(bytes);
  fill(memory, bytes);
  rest();
  return expect_filled(memory, bytes);
}

/// More than a group of 256 MiB has, were it all in huge pages.
int sparse() {
  constexpr std::size_t bytes = 400 * mib;
  char* const memory = allocated(bytes);
  for (int round = 0; round < 3; ++round) {
    touch_sparsely(memory, bytes);
    rest();
  }
  return 0;
}

/// Each of them is small for the group, as all together would not be in huge pages; then the rest fills up.
int sparse_parts_and_dense_ones() {
  constexpr std::size_t bytes = 12 * mib;
  for (int i = 0; i < 32; ++i) {
    touch_sparsely(allocated(bytes), bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::vector<char*> parts;
  for (int i = 0; i < 15; ++i) {
    parts.push_back(allocated(bytes));
    fill(parts.back(), bytes);
  }
  rest();
  for (const char* part : parts) {
    if (const int wrong = expect_filled(part, bytes)) return wrong;
  }
  return 0;
}

/// What does not fit is an error that says why, and nothing of it is left; what fits is there.
int arrays() {
  const auto limit = read_memory_view().limit_bytes;
  if (limit > 256 * mib || limit < 128 * mib) return 20;
  ArrayOptions options;
  options.name = "table";
  for (const auto placement : {Placement::best, Placement::interleaved, Placement::replicated}) {
    options.placement = placement;
    const auto large = Array<char>::create(300 * mib, options);
    if (large || large.error().status != Status::out_of_memory) return 21;
    if (large.error().message.find("table: ") != 0) return 22;
    if (large.error().message.find("the cgroup's memory limit leaves") == std::string::npos) return 23;
  }
  if (read_memory_view().limit_bytes + mib < limit) return 24;
  // Two copies do not fit, one does.
  options.placement = Placement::replicated;
  if (Array<char>::create(150 * mib, options)) return 25;
  for (const auto pages : {PageSize::huge, PageSize::base}) {
    options = {.placement = Placement::interleaved, .pages = pages};
    auto array = Array<char>::create(150 * mib, options);
    if (!array) return 26;
    fill(array->data(), array->size());
    if (const int wrong = expect_filled(array->data(), array->size())) return wrong;
    const auto where = array->where();
    if (!where || where->absent_bytes != 0) return 27;
    if (Array<char>::create(150 * mib, options)) return 28;  // beside the first one
  }
  return read_memory_view().limit_bytes + 8 * mib < limit ? 29 : 0;
}

/// Of the two nodes, the group may use the memory of the second.
int arrays_on_node_1() {
  if (read_memory_view().home_nodes() != std::vector<int>{1}) return 30;
  ArrayOptions options;
  for (const auto placement : {Placement::interleaved, Placement::replicated, Placement::partitioned, Placement::best,
                               Placement::single_node}) {
    for (const bool strict : {true, false}) {
      options.placement = placement;
      options.strict = strict;
      const auto array = Array<char>::create(8 * mib, options);
      if (!array || array->copies() != 1) return 31;
      const auto where = array->where();
      if (!where || where->nodes.size() != 1 || where->nodes[0].numa_node != 1) return 32;
      if (where->nodes[0].bytes != 8 * mib) return 33;
    }
  }
  options.numa_nodes = {0};
  const auto elsewhere = Array<char>::create(8 * mib, options);
  return !elsewhere && elsewhere.error().status == Status::invalid_argument ? 0 : 34;
}

const std::map<std::string, std::function<int()>> work = {{"dense", dense},
                                                          {"sparse", sparse},
                                                          {"sparse_parts_and_dense_ones", sparse_parts_and_dense_ones},
                                                          {"arrays", arrays},
                                                          {"arrays_on_node_1", arrays_on_node_1}};

// ---- groups ----------------------------------------------------------------------------------

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  ASSERT_TRUE(out) << file << ": " << std::strerror(errno);
}

long number_in(const std::filesystem::path& file, const std::string& key = "") {
  std::ifstream in(file);
  long number = -1;
  for (std::string word; in >> word;) {
    if (key.empty()) return std::atol(word.c_str());
    if (word == key && in >> number) return number;
  }
  ADD_FAILURE() << file << " has no " << key;
  return number;
}

struct Outcome {
  int status = -1;  ///< as of waitpid
  long peak = 0, kills = 0;
};

/// `worker` in a group with that limit; `mode` of the preload library, or "" without it.
Outcome run(const std::string& worker, const std::string& limit, std::uint64_t value, const std::string& mode) {
  static int made = 0;
  const auto group = groups / ("group" + std::to_string(made++));
  std::filesystem::create_directory(group);
  write(group / limit, std::to_string(value));
  const pid_t child = fork();
  if (child == 0) {
    write(group / "cgroup.procs", "0");
    if (!mode.empty()) {
      setenv("SMELT_MEMORY", mode.c_str(), 1);
      setenv("LD_PRELOAD", "/preload.so", 1);
      if (access("/preload.so", R_OK) != 0) _exit(12);
    }
    execl("/proc/self/exe", "worker", worker.c_str(), nullptr);
    _exit(13);
  }
  Outcome outcome;
  EXPECT_EQ(waitpid(child, &outcome.status, 0), child);
  outcome.peak = number_in(group / "memory.peak");
  outcome.kills = number_in(group / "memory.events", "oom_kill");
  std::filesystem::remove(group);
  return outcome;
}

std::string shown(const Outcome& outcome) {
  return "signal " + std::to_string(WIFSIGNALED(outcome.status) ? WTERMSIG(outcome.status) : 0) + ", exit " +
         std::to_string(WIFEXITED(outcome.status) ? WEXITSTATUS(outcome.status) : -1) + ", peak " +
         std::to_string(outcome.peak / static_cast<long>(mib)) + " MiB, kills " + std::to_string(outcome.kills);
}

/// The worker ends as it does without the library, and needs at most a twentieth and 64 MiB more.
void expect_as_plain(const std::string& worker, const std::string& limit, std::size_t bytes, const std::string& mode) {
  SCOPED_TRACE(worker + ", " + limit + ", " + mode);
  const auto plain = run(worker, limit, bytes, ""), with = run(worker, limit, bytes, mode);
  std::printf("%s, mode %s: plain %s; with the library %s\n", worker.c_str(), mode.c_str(), shown(plain).c_str(),
              shown(with).c_str());
  EXPECT_EQ(plain.status, 0) << shown(plain);
  EXPECT_EQ(with.status, 0) << shown(with);
  EXPECT_EQ(with.kills, 0);
  EXPECT_LE(with.peak, plain.peak + plain.peak / 20 + static_cast<long>(64 * mib));
}

TEST(MemoryLimit, ArraysStayWithinMemoryMax) {
  const auto outcome = run("arrays", "memory.max", 256 * mib, "");
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
  EXPECT_EQ(outcome.kills, 0);
  EXPECT_LE(outcome.peak, static_cast<long>(256 * mib));
}

TEST(MemoryLimit, ArraysStayBelowMemoryHigh) {
  const auto outcome = run("arrays", "memory.high", 256 * mib, "");
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
  EXPECT_LE(outcome.peak, static_cast<long>(256 * mib));
}

TEST(MemoryLimit, ProgramsThatFitStillFitWithTheLibrary) {
  for (const char* worker : {"dense", "sparse", "sparse_parts_and_dense_ones"}) {
    for (const char* mode : {"auto", "huge"}) {
      // Huge pages for all allocations were asked for, whatever they cost, if each one fits.
      if (std::string(mode) == "huge" && std::string(worker) == "sparse_parts_and_dense_ones") continue;
      expect_as_plain(worker, "memory.max", 256 * mib, mode);
    }
  }
}

/// The program uses nearly all that the group has: nothing is left for memory that it has not touched.
TEST(MemoryLimit, NothingIsAddedWhereALimitIsNear) {
  for (const char* limit : {"memory.max", "memory.high"}) {
    expect_as_plain("sparse_parts_and_dense_ones", limit, 190 * mib, "auto");
  }
}

TEST(MemoryLimit, ArraysStayOnTheNodesOfTheCpuset) {
  const auto outcome = run("arrays_on_node_1", "cpuset.mems", 1, "");
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}

/// The limit is that of the group above as well.
TEST(MemoryLimit, ALimitFurtherUpHolds) {
  const auto above = groups / "above";
  std::filesystem::create_directory(above);
  write(above / "cgroup.subtree_control", "+memory");
  write(above / "memory.max", std::to_string(256 * mib));
  const auto inner = above / "inner";
  std::filesystem::create_directory(inner);
  const pid_t child = fork();
  if (child == 0) {
    write(inner / "cgroup.procs", "0");
    execl("/proc/self/exe", "worker", "arrays", nullptr);
    _exit(13);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  std::filesystem::remove(inner);
  std::filesystem::remove(above);
}

class Groups : public testing::Environment {
  void SetUp() override {
    std::ofstream("/sys/kernel/mm/transparent_hugepage/enabled") << "madvise";
    ASSERT_EQ(mount("none", groups.c_str(), "cgroup2", 0, nullptr), 0) << std::strerror(errno);
    write(groups / "cgroup.subtree_control", "+memory +cpuset");
  }
};

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[0]) == "worker") return smelt::work.at(argv[1])();
  testing::InitGoogleMock(&argc, argv);
  testing::AddGlobalTestEnvironment(new smelt::Groups);
  return RUN_ALL_TESTS();
}
