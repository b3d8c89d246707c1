#include "machine/topology/affinity.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstring>
#include <thread>
#include <vector>

#include "smelt/machine.hpp"

namespace smelt {
namespace {

TEST(Affinity, PinsToOnePuAndRestores) {
  const auto before = this_thread_affinity();
  ASSERT_TRUE(before);
  ASSERT_FALSE(before->empty());
  {
    const SavedAffinity saved;
    for (const int pu : *before) {
      ASSERT_TRUE(pin_this_thread(pu));
      EXPECT_EQ(sched_getcpu(), pu);
      EXPECT_EQ(*this_thread_affinity(), std::vector<int>{pu});
    }
  }
  EXPECT_EQ(*this_thread_affinity(), *before);
}

TEST(Affinity, IsWhatTheKernelSays) {
  const SavedAffinity saved;
  cpu_set_t set;
  std::memset(&set, 0xff, sizeof set);  // as many PUs as may be used
  if (sched_setaffinity(0, sizeof set, &set) != 0 || sched_getaffinity(0, sizeof set, &set) != 0) {
    GTEST_SKIP() << "more PUs than a mask of fixed size has";
  }
  std::vector<int> allowed;
  for (int pu = 0; pu < CPU_SETSIZE; ++pu) {
    if (CPU_ISSET(pu, &set)) allowed.push_back(pu);
  }
  EXPECT_EQ(*this_thread_affinity(), allowed);
}

TEST(Affinity, IsOfTheCallingThreadAlone) {
  const auto before = this_thread_affinity();
  ASSERT_TRUE(before);
  std::thread([&] { EXPECT_TRUE(pin_this_thread(before->front())); }).join();
  EXPECT_EQ(*this_thread_affinity(), *before);
}

// PUs that are not there are as good as not named, as long as one is.
TEST(Affinity, MasksOfAnySize) {
  const auto before = this_thread_affinity();
  ASSERT_TRUE(before);
  const SavedAffinity saved;
  for (const int absent : {4000, 60000, 65535}) {
    ASSERT_TRUE(set_this_thread_affinity({absent, before->back(), before->front()})) << absent;
    const auto now = *this_thread_affinity();
    EXPECT_EQ(now.front(), before->front());
    EXPECT_EQ(now.back(), before->back());
  }
}

TEST(Affinity, RefusesPusThatAreNotThere) {
  const auto before = this_thread_affinity();
  EXPECT_EQ(pin_this_thread(-1).error().status, Status::invalid_argument);
  EXPECT_EQ(pin_this_thread(1 << 30).error().status, Status::invalid_argument);
  const auto absent = pin_this_thread(60000);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().status, Status::not_found);
  EXPECT_NE(absent.error().message.find("PU 60000:"), std::string::npos) << absent.error().message;
  EXPECT_NE(set_this_thread_affinity({60001, 60000}).error().message.find("PU 60000..60001:"), std::string::npos);
  EXPECT_EQ(pin_this_thread(65535).error().status, Status::not_found);
  const std::vector<std::pair<std::vector<int>, const char*>> out_of_range = {
      {{65536}, "PU 65536:"}, {{before->front(), -1}, "PU -1:"}, {{-1, 70000}, "PU -1:"}, {{0, 70000}, "PU 70000:"}};
  for (const auto& [pus, named] : out_of_range) {
    const auto refused = set_this_thread_affinity(pus);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, Status::invalid_argument);
    EXPECT_NE(refused.error().message.find(named), std::string::npos) << refused.error().message;
  }
  EXPECT_FALSE(set_this_thread_affinity({}));
  EXPECT_EQ(*this_thread_affinity(), *before);
}

}  // namespace
}  // namespace smelt
