// Communicators over processes through the C interface: rendezvous, killing, shrinking, nothing left behind.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "smelt/smelt.h"

extern "C" int c99_collectives(smelt_rank* rank);

namespace {

smelt_options test_options() {
  smelt_options options{};
  options.keep_affinity = 1;
  options.search_ms = -1;
  options.timeout_s = 10;
  return options;
}

std::string fresh_name() {
  static int number = 0;
  return "capi-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

bool left_behind(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().find(name) != std::string::npos) return true;
  }
  return false;
}

/// Forks a process for each number and returns how they ended: exit statuses, -signal if killed.
template <class Body>
std::vector<int> in_processes(int count, const Body& body) {
  std::vector<pid_t> pids;
  for (int number = 0; number < count; ++number) {
    const pid_t pid = fork();
    if (pid == 0) _exit([&]() noexcept { return body(number); }());  // never on to the next test
    pids.push_back(pid);
  }
  std::vector<int> results;
  for (const pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    results.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return results;
}

/// An exit status: 0, or one that says which step went wrong.
int complain(int step) {
  fprintf(stderr, "step %d: %s\n", step, smelt_last_error());
  return step;
}

TEST(CProcesses, RunEveryCollective) {
  const auto name = fresh_name();
  const auto results = in_processes(3, [&](int rank) {
    const auto options = test_options();
    smelt_communicator* comm = nullptr;
    smelt_rank* member = nullptr;
    if (smelt_communicator_create_shared(name.c_str(), 3, rank, &options, &comm) != SMELT_OK) return complain(1);
    if (smelt_communicator_attach(comm, rank, &member) != SMELT_OK) return complain(2);
    if (smelt_communicator_size(comm) != 3 || smelt_rank_number(member) != rank) return complain(3);
    if (c99_collectives(member) != 0) return complain(4);
    smelt_rank_free(member);
    smelt_communicator_free(comm);
    return 0;
  });
  EXPECT_EQ(results, std::vector<int>(3, 0));
  EXPECT_FALSE(left_behind(name));
}

/// Two processes, of which the first brings ranks 0 and 2 as threads.
int mixed(int process, const std::string& name, int fd) {
  const int first[] = {0, 2}, second[] = {1};
  const int* ranks = process == 0 ? first : second;
  const int count = process == 0 ? 2 : 1;
  const auto options = test_options();
  smelt_communicator* comm = nullptr;
  const int status = fd >= 0 ? smelt_communicator_create_shared_fd(fd, 3, ranks, count, &options, &comm)
                             : smelt_communicator_create_shared_ranks(name.c_str(), 3, ranks, count, &options, &comm);
  if (status != SMELT_OK) return complain(1);
  int lines[3] = {0, 0, 0};
  const auto body = [](smelt_rank* rank, void* context) {
    static_cast<int*>(context)[smelt_rank_number(rank)] = c99_collectives(rank);
  };
  if (smelt_communicator_run(comm, body, lines) != SMELT_OK) return complain(2);
  smelt_communicator_free(comm);
  return lines[0] + lines[1] + lines[2] == 0 ? 0 : complain(3);
}

TEST(CProcesses, BringSeveralRanksEach) {
  const auto name = fresh_name();
  EXPECT_EQ(in_processes(2, [&](int process) { return mixed(process, name, -1); }), std::vector<int>(2, 0));
}

TEST(CProcesses, MeetOverAMemfd) {
  const int fd = memfd_create("capi-test", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(in_processes(2, [&](int process) { return mixed(process, "", fd); }), std::vector<int>(2, 0));
  close(fd);
}

/// Rank `victim` kills itself in the middle; the others find out, shrink and go on.
int survive(const std::string& name, int rank, int victim) {
  const auto options = test_options();
  smelt_communicator* comm = nullptr;
  smelt_rank *member = nullptr, *survivor = nullptr;
  if (smelt_communicator_create_shared(name.c_str(), 4, rank, &options, &comm) != SMELT_OK) return complain(1);
  if (smelt_communicator_attach(comm, rank, &member) != SMELT_OK) return complain(2);
  const int one = 1;
  int sum = 0, status = SMELT_OK;
  for (int round = 0; status == SMELT_OK && round < 100'000; ++round) {
    if (rank == victim && round == 50) raise(SIGKILL);
    status = smelt_allreduce(member, &one, &sum, 1, SMELT_INT32, SMELT_SUM);
    if (status == SMELT_OK && sum != 4) return complain(3);
  }
  if (status != SMELT_BROKEN) return complain(4);
  char text[256], wanted[32];
  snprintf(wanted, sizeof wanted, "rank %d ", victim);
  if (smelt_rank_failure(member, text, sizeof text) == 0 || std::string(text).find(wanted) != 0) return complain(5);
  // Later ones fail at once, started ones too.
  smelt_call call{};
  call.operation = SMELT_BARRIER;
  smelt_request* request = nullptr;
  if (smelt_start(member, &call, &request) != SMELT_OK || smelt_request_wait(request) != SMELT_BROKEN)
    return complain(6);
  smelt_request_free(request);
  if (smelt_barrier(member) != SMELT_BROKEN) return complain(7);
  if (smelt_rank_shrink(member, &survivor) != SMELT_OK) return complain(8);
  smelt_rank_free(member);
  smelt_communicator_free(comm);
  if (smelt_rank_size(survivor) != 3 || smelt_rank_number(survivor) != rank - (rank > victim ? 1 : 0))
    return complain(9);
  if (c99_collectives(survivor) != 0) return complain(10);
  smelt_rank_free(survivor);
  return 0;
}

TEST(CProcesses, SurviveTheDeathOfOneOfThem) {
  for (int victim = 0; victim < 4; ++victim) {
    const auto name = fresh_name();
    std::vector<int> wanted(4, 0);
    wanted[static_cast<std::size_t>(victim)] = -SIGKILL;
    EXPECT_EQ(in_processes(4, [&](int rank) { return survive(name, rank, victim); }), wanted);
    EXPECT_FALSE(left_behind(name));
  }
}

/// A rank attached by a thread that ends at once, and used by the main thread.
int hand_over(const std::string& name, int rank, int any_thread) {
  auto options = test_options();
  options.any_thread = any_thread;
  smelt_communicator* comm = nullptr;
  smelt_rank* member = nullptr;
  if (smelt_communicator_create_shared(name.c_str(), 2, rank, &options, &comm) != SMELT_OK) return complain(1);
  int attached = SMELT_BROKEN;
  std::thread([&] { attached = smelt_communicator_attach(comm, rank, &member); }).join();
  if (attached != SMELT_OK) return complain(2);
  // A death is noticed soon, not at once.
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  int status = SMELT_OK;
  for (int i = 0; status == SMELT_OK && (any_thread == 0 ? std::chrono::steady_clock::now() < soon : i < 100); ++i) {
    status = smelt_barrier(member);
  }
  smelt_rank_free(member);
  smelt_communicator_free(comm);
  return -status;
}

TEST(CProcesses, ThreadsMayTakeTurnsAsTheRankWhereThatIsAskedFor) {
  for (const int any_thread : {0, 1}) {
    const auto name = fresh_name();
    const auto ended = in_processes(2, [&](int rank) { return hand_over(name, rank, any_thread); });
    EXPECT_EQ(ended, std::vector<int>(2, any_thread != 0 ? SMELT_OK : -SMELT_BROKEN)) << any_thread;
  }
}

TEST(CProcesses, WaitingRanksCallTheIdleFunctions) {
  void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& calls = *new (memory) std::atomic<int>(0);
  const auto check = [&](const char* wait, bool polls) {
    calls = 0;
    const auto name = fresh_name();
    const auto results = in_processes(2, [&](int rank) {
      auto options = test_options();
      options.wait = wait;
      if (rank == 0 && !polls) options.idle = [](void* context) { ++*static_cast<std::atomic<int>*>(context); };
      if (rank == 0 && polls)
        options.poll = [](void* context) { return ++*static_cast<std::atomic<int>*>(context) % 2; };
      options.idle_context = &calls;
      smelt_communicator* comm = nullptr;
      smelt_rank* member = nullptr;
      if (smelt_communicator_create_shared(name.c_str(), 2, rank, &options, &comm) != SMELT_OK) return complain(1);
      if (smelt_communicator_attach(comm, rank, &member) != SMELT_OK) return complain(2);
      // Rank 0 waits in the barrier until it has been called; for 5 s at most.
      for (int i = 0; rank == 1 && calls == 0 && i < 5000; ++i) usleep(1000);
      if (smelt_barrier(member) != SMELT_OK) return complain(3);
      smelt_rank_free(member);
      smelt_communicator_free(comm);
      return calls > 0 ? 0 : complain(4);
    });
    EXPECT_EQ(results, std::vector<int>(2, 0)) << wait << (polls ? ", poll" : ", idle");
  };
  for (const char* const wait : {"spin", "sleep"}) {
    check(wait, false);
    check(wait, true);
  }
  munmap(memory, 4096);
}

TEST(CProcesses, RanksAreWhereTheirPusSay) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> pus;
  for (int pu = CPU_SETSIZE - 1; pu >= 0; --pu) {
    if (CPU_ISSET(pu, &allowed) && pus.size() < 2) pus.push_back(pu);
  }
  if (pus.size() < 2) GTEST_SKIP() << "there is only one PU";
  // The other way round than the library would have it, and both on one.
  for (const auto& chosen : {pus, std::vector<int>(2, pus[1])}) {
    const auto name = fresh_name();
    const auto results = in_processes(2, [&](int rank) {
      auto options = test_options();
      options.keep_affinity = 0;
      options.pus = chosen.data();
      options.pu_count = chosen.size();
      smelt_communicator* comm = nullptr;
      smelt_rank* member = nullptr;
      if (smelt_communicator_create_shared(name.c_str(), 2, rank, &options, &comm) != SMELT_OK) return complain(1);
      if (smelt_communicator_attach(comm, rank, &member) != SMELT_OK) return complain(2);
      cpu_set_t own;
      const bool pinned = sched_getaffinity(0, sizeof own, &own) == 0 && CPU_COUNT(&own) == 1;
      if (!pinned || !CPU_ISSET(chosen[static_cast<std::size_t>(rank)], &own)) return complain(3);
      if (smelt_barrier(member) != SMELT_OK) return complain(4);
      smelt_rank_free(member);
      smelt_communicator_free(comm);
      return 0;
    });
    EXPECT_EQ(results, std::vector<int>(2, 0)) << chosen[0] << ", " << chosen[1];
  }
  auto options = test_options();
  options.pus = pus.data();
  options.pu_count = 1;
  smelt_communicator* comm = nullptr;
  EXPECT_EQ(smelt_communicator_create_shared(fresh_name().c_str(), 2, 0, &options, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(smelt_last_error()).find("pus"), std::string::npos) << smelt_last_error();
}

TEST(CProcesses, BadArgumentsAreRefused) {
  smelt_communicator* comm = nullptr;
  const int outside[] = {2}, twice[] = {1, 1};
  EXPECT_EQ(smelt_communicator_create_shared(nullptr, 2, 0, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(smelt_last_error()).find("name"), std::string::npos);
  EXPECT_EQ(smelt_communicator_create_shared("", 2, 0, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_communicator_create_shared("a/b", 2, 0, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_communicator_create_shared("a", 2, 2, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_communicator_create_shared("a", 0, 0, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_communicator_create_shared("a", 2, 0, nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_communicator_create_shared_ranks("a", 2, nullptr, 1, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_communicator_create_shared_ranks("a", 2, outside, 0, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_communicator_create_shared_ranks("a", 2, outside, 1, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_communicator_create_shared_ranks("a", 2, twice, 2, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_communicator_create_shared_fd(-1, 2, twice, 1, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_NE(smelt_communicator_create_shared_fd(1'000'000, 2, twice, 1, nullptr, &comm), SMELT_OK);
  smelt_options options = test_options();
  options.timeout_s = 0.05;
  EXPECT_EQ(smelt_communicator_create_shared(fresh_name().c_str(), 2, 0, &options, &comm), SMELT_TIMED_OUT);
  EXPECT_NE(std::string(smelt_last_error()).find("1"), std::string::npos);
  options.timeout_s = std::nan("");
  EXPECT_EQ(smelt_communicator_create_shared("a", 1, 0, &options, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_rank_shrink(nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(comm, nullptr);
}

}  // namespace
