// The replicated log through the C interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "smelt/smelt.h"

namespace {

using testing::HasSubstr;

struct Sum {
  uint64_t value = 0;
  static void apply(void* context, const smelt_log_entry* entry) {
    uint64_t more = 0;
    std::memcpy(&more, entry->data, entry->bytes);
    static_cast<Sum*>(context)->value += more;
  }
  static void save(void* context, void (*write)(void*, const void*, size_t), void* sink) {
    write(sink, &static_cast<Sum*>(context)->value, sizeof(uint64_t));
  }
  static void load(void* context, const void* state, size_t bytes) {
    ASSERT_EQ(bytes, sizeof(uint64_t));
    std::memcpy(&static_cast<Sum*>(context)->value, state, bytes);
  }
  smelt_log_machine machine() { return {this, apply, save, load}; }
};

class CLog : public testing::Test {
 protected:
  void SetUp() override {
    smelt_options options = {};
    options.keep_affinity = 1;
    options.search_ms = -1;
    options.profile = "none";
    ASSERT_EQ(smelt_communicator_create(nullptr, nullptr, 2, &options, &communicator_), SMELT_OK) << smelt_last_error();
  }
  void TearDown() override {
    smelt_log_free(log_);
    smelt_communicator_free(communicator_);
  }
  smelt_communicator* communicator_ = nullptr;
  smelt_log* log_ = nullptr;
};

TEST_F(CLog, AppendsAndDelivers) {
  smelt_log_options options = {};
  options.set_leader = 1;
  options.leader = 1;
  options.faults = SMELT_FAULTS_CRASH;
  ASSERT_EQ(smelt_log_create(communicator_, &options, &log_), SMELT_OK) << smelt_last_error();
  smelt_replica *first = nullptr, *second = nullptr;
  ASSERT_EQ(smelt_log_attach(log_, 0, nullptr, &first), SMELT_OK);
  ASSERT_EQ(smelt_log_attach(log_, 1, nullptr, &second), SMELT_OK);
  uint64_t ticket = 0, index = 9;
  ASSERT_EQ(smelt_log_start(first, "abc", 3, &ticket), SMELT_OK);
  int done = 1;
  ASSERT_EQ(smelt_log_test(first, ticket, &done, &index), SMELT_OK);
  EXPECT_EQ(done, 0);
  ASSERT_EQ(smelt_log_progress(second), SMELT_OK);
  ASSERT_EQ(smelt_log_wait(first, ticket, &index), SMELT_OK);
  EXPECT_EQ(index, 0u);
  ASSERT_EQ(smelt_log_append(second, "de", 2, &index), SMELT_OK);
  EXPECT_EQ(index, 1u);
  uint64_t point = 0;
  ASSERT_EQ(smelt_log_read_point(first, &point), SMELT_OK);
  EXPECT_EQ(point, 2u);
  smelt_log_entry entry;
  int there = 0;
  ASSERT_EQ(smelt_log_next(first, &entry, &there), SMELT_OK);
  EXPECT_EQ(there, 1);
  EXPECT_EQ(std::string(static_cast<const char*>(entry.data), entry.bytes), "abc");
  ASSERT_EQ(smelt_log_next(first, &entry, nullptr), SMELT_OK);
  EXPECT_EQ(entry.client, 1);
  EXPECT_EQ(entry.request, 1u);
  ASSERT_EQ(smelt_log_next(first, &entry, &there), SMELT_OK);
  EXPECT_EQ(there, 0);
  EXPECT_EQ(smelt_log_delivered(first), 2u);

  uint64_t epoch = 0;
  int leader = -2, up_to_date[1] = {}, count = 0;
  ASSERT_EQ(smelt_log_configuration(first, &epoch, &leader, up_to_date, 1, &count), SMELT_OK);
  EXPECT_EQ(epoch, 1u);
  EXPECT_EQ(leader, 1);
  EXPECT_EQ(count, 2);
  smelt_replica_free(second);
  EXPECT_EQ(smelt_log_append(first, "f", 1, nullptr), SMELT_OK);
  ASSERT_EQ(smelt_log_configuration(first, &epoch, &leader, nullptr, 0, nullptr), SMELT_OK);
  EXPECT_EQ(leader, 0);
  smelt_replica_free(first);
}

TEST_F(CLog, CallsTheMachine) {
  ASSERT_EQ(smelt_log_create(communicator_, nullptr, &log_), SMELT_OK);
  Sum sums[2];
  std::thread threads[2];
  for (int rank = 0; rank < 2; ++rank) {
    threads[rank] = std::thread([&, rank] {
      smelt_log_machine machine = sums[rank].machine();
      smelt_replica* replica = nullptr;
      ASSERT_EQ(smelt_log_attach(log_, rank, &machine, &replica), SMELT_OK);
      for (uint64_t i = 1; i <= 100; ++i) ASSERT_EQ(smelt_log_append(replica, &i, sizeof i, nullptr), SMELT_OK);
      const auto both = [](void* sum) { return static_cast<Sum*>(sum)->value == 2 * 5050 ? 1 : 0; };
      ASSERT_EQ(smelt_log_serve(replica, both, &sums[rank]), SMELT_OK);
      uint64_t point = 0;
      ASSERT_EQ(smelt_log_read_point(replica, &point), SMELT_OK);
      EXPECT_EQ(smelt_log_catch_up(replica, point), SMELT_OK);
      EXPECT_EQ(smelt_log_delivered(replica), 200u);
      smelt_replica_free(replica);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(CLog, ErrorsNameTheCause) {
  EXPECT_EQ(smelt_log_create(nullptr, nullptr, &log_), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("NULL"));
  smelt_log_options options = {};
  options.entries = 3;
  EXPECT_EQ(smelt_log_create(communicator_, &options, &log_), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("entries is 3"));
  options = {};
  options.configuration = "paxos";
  options.faults = SMELT_FAULTS_CRASH;
  EXPECT_EQ(smelt_log_create(communicator_, &options, &log_), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("a majority of 2 replicas"));
  for (const int faults : {-1, 4, 7, 257}) {
    options = {};
    options.faults = static_cast<smelt_faults>(faults);
    EXPECT_EQ(smelt_log_create(communicator_, &options, &log_), SMELT_INVALID_ARGUMENT);
    EXPECT_THAT(smelt_last_error(), HasSubstr("faults is " + std::to_string(faults)));
  }
  options = {};
  options.replica_count = 1;
  EXPECT_EQ(smelt_log_create(communicator_, &options, &log_), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("replicas is NULL"));
  EXPECT_EQ(smelt_log_create_shared("name", 1, nullptr, 1, nullptr, &log_), SMELT_INVALID_ARGUMENT);
  ASSERT_EQ(smelt_log_create(communicator_, nullptr, &log_), SMELT_OK);
  smelt_replica* replica = nullptr;
  EXPECT_EQ(smelt_log_attach(log_, 5, nullptr, &replica), SMELT_INVALID_ARGUMENT);
  ASSERT_EQ(smelt_log_attach(log_, 0, nullptr, &replica), SMELT_OK);
  uint64_t ticket = 0;
  EXPECT_EQ(smelt_log_start(replica, nullptr, 1000, &ticket), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("1000 bytes"));
  EXPECT_EQ(smelt_log_append(replica, nullptr, 5, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("5 bytes is a null pointer"));
  EXPECT_EQ(smelt_log_start(replica, "", 0, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("ticket is NULL"));
  EXPECT_EQ(smelt_log_start(replica, nullptr, 1000, &ticket), SMELT_INVALID_ARGUMENT);
  char text[20];
  EXPECT_GT(smelt_log_failure(replica, text, sizeof text), 20u);
  EXPECT_STREQ(text, "replicated log: a c");
  int done = 0;
  EXPECT_EQ(smelt_log_test(replica, 7, &done, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_log_wait(replica, 0, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_log_catch_up(replica, 1), SMELT_INVALID_ARGUMENT);
  for (const int status :
       {smelt_log_append(nullptr, "", 0, nullptr), smelt_log_start(nullptr, "", 0, &ticket),
        smelt_log_test(nullptr, 1, &done, nullptr), smelt_log_wait(nullptr, 1, nullptr),
        smelt_log_next(nullptr, nullptr, nullptr), smelt_log_read_point(nullptr, nullptr),
        smelt_log_catch_up(nullptr, 0), smelt_log_progress(nullptr), smelt_log_serve(nullptr, nullptr, nullptr),
        smelt_log_configuration(nullptr, nullptr, nullptr, nullptr, 0, nullptr)}) {
    EXPECT_EQ(status, SMELT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(smelt_log_delivered(nullptr), 0u);
  EXPECT_EQ(smelt_log_failure(nullptr, text, sizeof text), 0u);
  smelt_replica_free(replica);
  smelt_replica_free(nullptr);
  smelt_log_free(nullptr);
}

int work(const char* name, int rank) {
  smelt_log_options options = {};
  options.set_leader = 1;
  options.timeout_s = 20;
  smelt_log* log = nullptr;
  smelt_replica* replica = nullptr;
  Sum sum;
  const smelt_log_machine machine = sum.machine();
  if (smelt_log_create_shared(name, 2, &rank, 1, &options, &log) != SMELT_OK) return 2;
  if (smelt_log_attach(log, rank, &machine, &replica) != SMELT_OK) return 3;
  for (uint64_t one = 1; sum.value < 1000;) {
    if (smelt_log_append(replica, &one, sizeof one, nullptr) != SMELT_OK) return 4;
    if (rank == 0 && sum.value >= 100) _exit(1);  // the leader, without a word
  }
  smelt_replica_free(replica);
  smelt_log_free(log);
  return 0;
}

TEST(CLogOfProcesses, AKeptLogIsContinued) {
  const std::string name = "c-log-kept-" + std::to_string(getpid());
  const int rank = 0;
  smelt_log_options options = {};
  options.keep = 1;
  options.entries = 64;
  for (uint64_t life = 0; life < 3; ++life) {
    const pid_t pid = fork();
    if (pid == 0) {
      smelt_log* log = nullptr;
      smelt_replica* replica = nullptr;
      Sum sum;
      const smelt_log_machine machine = sum.machine();
      if (smelt_log_create_shared(name.c_str(), 1, &rank, 1, &options, &log) != SMELT_OK) _exit(1);
      if (smelt_log_attach(log, rank, &machine, &replica) != SMELT_OK) _exit(2);
      const uint64_t one = 1;
      for (int i = 0; i < 100; ++i) {
        if (smelt_log_append(replica, &one, sizeof one, nullptr) != SMELT_OK) _exit(3);
      }
      uint64_t point = 0;
      if (smelt_log_read_point(replica, &point) != SMELT_OK || smelt_log_catch_up(replica, point) != SMELT_OK) _exit(4);
      if (sum.value != 100 * (life + 1) || smelt_log_started(replica) != sum.value) _exit(5);
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "status " << WEXITSTATUS(status);
  }
  EXPECT_EQ(smelt_log_remove(name.c_str()), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_log_remove(name.c_str()), SMELT_NOT_FOUND);
  EXPECT_EQ(smelt_log_remove(nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_log_started(nullptr), 0u);
}

TEST(CLogOfProcesses, OneSurvives) {
  const std::string name = "c-log-" + std::to_string(getpid());
  pid_t pids[2];
  for (int rank = 0; rank < 2; ++rank) {
    pids[rank] = fork();
    if (pids[rank] == 0) _exit(work(name.c_str(), rank));
  }
  for (int rank = 0; rank < 2; ++rank) {
    int status = 0;
    waitpid(pids[rank], &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), rank == 0 ? 1 : 0);
  }
}

}  // namespace
