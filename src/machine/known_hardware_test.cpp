#include "machine/known_hardware.hpp"

#include <gtest/gtest.h>

#include "machine/test_support.hpp"

namespace smelt {
namespace {

using test::ScopedEnv;

Machine machine_of(const std::string& fingerprint, int pus = 2) {
  Machine machine;
  for (int i = 0; i < pus; ++i) machine.pus.push_back({.os_index = i, .core = i});
  machine.fingerprint = fingerprint;
  return machine;
}

/// Each test has hwloc's settings of its own, so that what others have noted does not count.
class KnownHardware : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kernel_tells_what_is_online()) GTEST_SKIP() << "the kernel does not tell what is online";
  }

  const Machine one_ = machine_of("0123456789abcdef"), other_ = machine_of("fedcba9876543210");
  ScopedEnv settings_{"HWLOC_SMELT_TEST", testing::UnitTest::GetInstance()->current_test_info()->name()};
  ScopedEnv note_{"SMELT_HARDWARE", nullptr};
};

TEST_F(KnownHardware, IsNotedForThisProcess) {
  EXPECT_EQ(known_fingerprint(), "");
  EXPECT_FALSE(is_known_hardware(one_));
  remember_hardware(one_);
  EXPECT_EQ(known_fingerprint(), one_.fingerprint);
  EXPECT_TRUE(is_known_hardware(one_));
  remember_hardware(other_);
  EXPECT_EQ(known_fingerprint(), other_.fingerprint);
  EXPECT_FALSE(is_known_hardware(one_));
  remember_hardware(machine_of("no fingerprint"));
  EXPECT_EQ(known_fingerprint(), other_.fingerprint);
}

TEST_F(KnownHardware, OtherPusAreAnotherMachine) {
  remember_hardware(one_);
  EXPECT_FALSE(is_known_hardware(machine_of(one_.fingerprint, 3)));
  auto moved = one_;
  moved.pus[1].package = 1;
  EXPECT_FALSE(is_known_hardware(moved));
}

TEST_F(KnownHardware, AnotherSettingOfHwlocIsAnotherMachine) {
  remember_hardware(one_);
  const std::string note = hardware_note(one_);
  {
    const ScopedEnv changed("HWLOC_SMELT_TEST", "changed");
    const ScopedEnv from_outside("SMELT_HARDWARE", note.c_str());
    EXPECT_EQ(known_fingerprint(), "");
    EXPECT_FALSE(is_known_hardware(one_));
  }
  {
    const ScopedEnv more("HWLOC_SMELT_MORE", "1");
    EXPECT_EQ(known_fingerprint(), "");
  }
  EXPECT_EQ(known_fingerprint(), one_.fingerprint);
}

TEST_F(KnownHardware, IsNotedForOtherProcesses) {
  const std::string note = hardware_note(one_);
  EXPECT_EQ(note.size(), 50u);
  EXPECT_EQ(note.substr(0, 17), one_.fingerprint + "@");
  const ScopedEnv from_outside("SMELT_HARDWARE", note.c_str());
  EXPECT_EQ(known_fingerprint(), one_.fingerprint);
  EXPECT_TRUE(is_known_hardware(one_));
  EXPECT_FALSE(is_known_hardware(machine_of(one_.fingerprint, 3)));
  EXPECT_FALSE(is_known_hardware(other_));
}

TEST_F(KnownHardware, WrongNotesDoNotCount) {
  const std::string note = hardware_note(one_);
  std::string other_state = note;
  other_state[20] = other_state[20] == '0' ? '1' : '0';
  for (const std::string& wrong :
       {std::string(), one_.fingerprint, other_state, note + "0", note.substr(1), "x" + note.substr(1), note + "@",
        note.substr(0, 33), "../../etc/passwd" + note.substr(16), '@' + note}) {
    const ScopedEnv from_outside("SMELT_HARDWARE", wrong.c_str());
    EXPECT_EQ(known_fingerprint(), "") << wrong;
    EXPECT_FALSE(is_known_hardware(one_)) << wrong;
  }
  EXPECT_EQ(hardware_note(machine_of("0123456789abcde")), "");
  EXPECT_EQ(hardware_note(machine_of("0123456789abcdeg")), "");
}

}  // namespace
}  // namespace smelt
