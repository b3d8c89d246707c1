#include "machine/topology/affinity.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

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

TEST(Affinity, IsOfTheCallingThreadAlone) {
  const auto before = this_thread_affinity();
  ASSERT_TRUE(before);
  std::thread([&] { EXPECT_TRUE(pin_this_thread(before->front())); }).join();
  EXPECT_EQ(*this_thread_affinity(), *before);
}

TEST(Affinity, RefusesPusThatAreNotThere) {
  const auto before = this_thread_affinity();
  EXPECT_EQ(pin_this_thread(-1).error().status, Status::invalid_argument);
  EXPECT_EQ(pin_this_thread(1 << 30).error().status, Status::invalid_argument);
  const auto absent = pin_this_thread(60000);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().status, Status::not_found);
  EXPECT_NE(absent.error().message.find("PU 60000"), std::string::npos);
  EXPECT_FALSE(set_this_thread_affinity({}));
  EXPECT_EQ(*this_thread_affinity(), *before);
}

}  // namespace
}  // namespace smelt
