// Programs that use former names of the C interface still compile, and get what they got.
#include <gtest/gtest.h>

#include <thread>

#include "smelt/smelt.h"

namespace {

TEST(FormerNames, AGateIsACountedBarrier) {
  smelt_gate gate;
  ASSERT_EQ(smelt_gate_init(&gate, 1), SMELT_OK);
  EXPECT_EQ(smelt_gate_wait(&gate), SMELT_GATE_LAST);
  EXPECT_EQ(smelt_gate_destroy(&gate), SMELT_OK);

  ASSERT_EQ(smelt_gate_init_private(&gate, 2), SMELT_OK);
  const smelt_gate_ticket first = smelt_gate_arrive(&gate);
  std::thread last([&] { EXPECT_EQ(smelt_gate_wait(&gate), SMELT_GATE_LAST); });
  EXPECT_EQ(smelt_gate_pass(&gate, first), SMELT_OK);
  last.join();
  smelt_gate_leave(&gate);
  EXPECT_EQ(smelt_gate_wait(&gate), SMELT_BROKEN);
  EXPECT_EQ(smelt_gate_destroy(&gate), SMELT_OK);
}

}  // namespace
