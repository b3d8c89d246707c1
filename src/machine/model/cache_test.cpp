#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "machine/known_hardware.hpp"
#include "machine/test_support.hpp"
#include "machine/topology/affinity.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

using test::ScopedDirectory;
using test::ScopedEnv;

TEST(CachePath, FollowsTheEnvironment) {
  const ScopedEnv own("SMELT_CACHE_DIR", nullptr);
  const ScopedEnv home("HOME", "/home/someone");
  {
    const ScopedEnv xdg("XDG_CACHE_HOME", "/var/xdg");
    EXPECT_EQ(cache_path("0123"), "/var/xdg/smelt/0123.json");
    const ScopedEnv chosen("SMELT_CACHE_DIR", "/srv/models");
    EXPECT_EQ(cache_path("0123"), "/srv/models/0123.json");
  }
  for (const char* unusable : {static_cast<const char*>(nullptr), "", "relative"}) {
    const ScopedEnv xdg("XDG_CACHE_HOME", unusable);
    EXPECT_EQ(cache_path("0123"), "/home/someone/.cache/smelt/0123.json");
    const ScopedEnv homeless("HOME", nullptr);
    EXPECT_EQ(cache_path("0123"), "/tmp/smelt-" + std::to_string(getuid()) + "/0123.json");
  }
}

TEST(CachePath, StaysInsideTheDirectory) {
  const ScopedEnv chosen("SMELT_CACHE_DIR", "/srv/models");
  EXPECT_EQ(cache_path("../../etc/passwd"), "/srv/models/______etc_passwd.json");
  EXPECT_EQ(cache_path(""), "/srv/models/unknown.json");
  EXPECT_EQ(cache_path("Az09-_"), "/srv/models/Az09-_.json");
  EXPECT_EQ(cache_path("a b.c:d\xc3\xa9"), "/srv/models/a_b_c_d__.json");
}

/// A machine out of hwloc's imagination, with a cache of its own.
class Cache : public testing::Test {
 protected:
  Machine measured() {
    auto machine = discover_machine();
    EXPECT_TRUE(machine);
    machine->send_ns = Matrix(machine->size());
    machine->recv_ns = Matrix(machine->size());
    machine->send_ns(0, 1) = 12.5;
    machine->method = "measured";
    return *machine;
  }
  void expect_not_found(const char* reason) {
    const auto cached = load_cached_machine();
    ASSERT_FALSE(cached);
    EXPECT_EQ(cached.error().status, Status::not_found);
    EXPECT_NE(cached.error().message.find(reason), std::string::npos) << cached.error().message;
  }

  ScopedDirectory directory_;
  ScopedEnv cache_{"SMELT_CACHE_DIR", directory_.path().c_str()};
  ScopedEnv synthetic_{"HWLOC_SYNTHETIC", "package:2 [numa] core:4 pu:1"};
};

TEST_F(Cache, EmptyAtFirst) { expect_not_found("cannot open"); }

TEST_F(Cache, GivesBackWhatWasSaved) {
  const auto machine = measured();
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  const auto cached = load_cached_machine();
  ASSERT_TRUE(cached) << cached.error().message;
  EXPECT_EQ(*cached, machine);
}

/// The model of all PUs but one.
Machine without(Machine machine, int os_index) {
  machine.pus.erase(machine.pus.begin() + os_index);
  machine.send_ns = machine.recv_ns = Matrix(machine.size());
  return machine;
}

TEST_F(Cache, APartOfTheMachineReplacesNothing) {
  const auto machine = measured();
  ASSERT_TRUE(save_cached_machine(machine));
  EXPECT_EQ(cached_machine_path(machine), cache_path(machine.fingerprint));
  const SavedAffinity saved;
  const int own = discover_allowance()->pus.front();
  if (own >= 6) GTEST_SKIP() << "this process may use none of the made-up machine's first PUs";
  ASSERT_TRUE(pin_this_thread(own));
  const auto part = without(machine, 7), smaller = without(part, 6), other = without(machine, own);
  EXPECT_EQ(cached_machine_path(part).parent_path(), directory_.path());
  for (const auto& each : {smaller, part, other}) ASSERT_TRUE(save_cached_machine(each));
  EXPECT_EQ(*load_cached_machine(), machine) << "processes with other PUs find the same model";
  std::filesystem::remove(cache_path(machine.fingerprint));
  EXPECT_EQ(*load_cached_machine(), part) << "the largest that has this process's PUs";
  std::filesystem::remove(cached_machine_path(part));
  EXPECT_EQ(*load_cached_machine(), smaller);
  std::filesystem::remove(cached_machine_path(smaller));
  EXPECT_FALSE(load_cached_machine()) << "that of the other PUs does not fit";
  EXPECT_EQ(*load_machine(cached_machine_path(other)), other);
}

TEST_F(Cache, SavesInANewDirectoryOrSaysWhyNot) {
  const auto machine = measured();
  const ScopedEnv deeper("SMELT_CACHE_DIR", (directory_.path() / "a" / "b").c_str());
  ASSERT_TRUE(save_cached_machine(machine));
  EXPECT_EQ(*load_cached_machine(), machine);
  const ScopedEnv below_a_file("SMELT_CACHE_DIR", (cached_machine_path(machine) / "c").c_str());
  const auto saved = save_cached_machine(machine);
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find("cannot create"), std::string::npos) << saved.error().message;
}

TEST_F(Cache, AnotherMachineIsNoticed) {
  const auto machine = measured();
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  const ScopedEnv other("HWLOC_SYNTHETIC", "package:2 [numa] core:8 pu:1");
  expect_not_found("cannot open");
  // A file that was copied over from the old machine.
  const auto hardware = discover_machine();
  ASSERT_TRUE(save_machine(machine, cache_path(hardware->fingerprint)));
  expect_not_found("the hardware has changed");
}

TEST_F(Cache, MovedPusAreNoticed) {
  auto machine = measured();
  machine.pus[3].package = 1;
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  expect_not_found("PU 3 has changed");
}

TEST_F(Cache, PusThatAreGoneAreNoticed) {
  auto machine = measured();
  machine.pus[7].os_index = 70;
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  expect_not_found("PU 70 has changed");
}

// Those that this process may not use need not be in the model.
TEST_F(Cache, PusOfOthersNeedNotBeMeasured) {
  auto machine = measured();
  const SavedAffinity saved;
  const int own = discover_allowance()->pus.front();
  ASSERT_TRUE(pin_this_thread(own));
  machine.pus.erase(machine.pus.begin() + (own == 7 ? 6 : 7));
  machine.send_ns = machine.recv_ns = Matrix(machine.size());
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  const auto cached = load_cached_machine();
  ASSERT_TRUE(cached) << cached.error().message;
  EXPECT_EQ(*cached, machine);
}

TEST_F(Cache, PusThatWereNotMeasuredAreNoticed) {
  auto machine = measured();
  const auto allowance = discover_allowance();
  ASSERT_TRUE(allowance);
  if (allowance->pus.front() >= 8) GTEST_SKIP() << "this process may use none of the made-up machine's PUs";
  machine.pus.erase(machine.pus.begin() + allowance->pus.front());
  machine.send_ns = Matrix(machine.size());
  machine.recv_ns = Matrix(machine.size());
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  expect_not_found("was not measured");
}

// A model with another name tells whether the machine was discovered.
TEST_F(Cache, TheModelOfAKnownMachineIsTaken) {
  const ScopedEnv another("HWLOC_SMELT_TEST", "a known machine"), none("SMELT_HARDWARE", nullptr);
  const auto machine = measured();
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  auto imagined = machine;
  imagined.fingerprint = "0123456789abcdef";
  const ScopedEnv note("SMELT_HARDWARE", hardware_note(imagined).c_str());
  if (!test::kernel_tells_what_is_online()) GTEST_SKIP() << "the kernel does not tell what is online";
  ASSERT_TRUE(save_machine(imagined, cache_path(imagined.fingerprint)));
  EXPECT_EQ(load_cached_machine()->fingerprint, imagined.fingerprint);
  // Not one with other PUs.
  auto wrong = imagined;
  wrong.pus[3].package = 1;
  ASSERT_TRUE(save_machine(wrong, cache_path(imagined.fingerprint)));
  EXPECT_EQ(load_cached_machine()->fingerprint, machine.fingerprint);
}

TEST_F(Cache, TheModelOfAKnownMachineNeedsCosts) {
  const ScopedEnv another("HWLOC_SMELT_TEST", "known, not measured");
  const auto machine = measured();
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  auto imagined = *discover_machine();
  imagined.fingerprint = "0123456789abcdef";
  const ScopedEnv note("SMELT_HARDWARE", hardware_note(imagined).c_str());
  EXPECT_EQ(load_cached_machine()->fingerprint, machine.fingerprint) << "it is not in the cache";
  ASSERT_TRUE(save_machine(imagined, cache_path(imagined.fingerprint)));
  EXPECT_EQ(load_cached_machine()->fingerprint, machine.fingerprint);
}

TEST_F(Cache, TheModelOfAKnownMachineNeedsThePusOfThisProcess) {
  const ScopedEnv another("HWLOC_SMELT_TEST", "known, without a PU");
  const auto allowance = discover_allowance();
  ASSERT_TRUE(allowance);
  if (allowance->pus.front() >= 8) GTEST_SKIP() << "this process may use none of the made-up machine's PUs";
  const auto machine = measured();
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  auto smaller = machine;
  smaller.fingerprint = "0123456789abcdef";
  smaller.pus.erase(smaller.pus.begin() + allowance->pus.front());
  smaller.send_ns = smaller.recv_ns = Matrix(smaller.size());
  const ScopedEnv note("SMELT_HARDWARE", hardware_note(smaller).c_str());
  ASSERT_TRUE(save_machine(smaller, cache_path(smaller.fingerprint)));
  EXPECT_EQ(load_cached_machine()->fingerprint, machine.fingerprint);
}

TEST_F(Cache, WhatWasDiscoveredIsKnown) {
  const ScopedEnv another("HWLOC_SMELT_TEST", "discovered"), note("SMELT_HARDWARE", nullptr);
  auto machine = measured();
  if (!test::kernel_tells_what_is_online()) GTEST_SKIP() << "the kernel does not tell what is online";
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  EXPECT_EQ(known_fingerprint(), "");
  EXPECT_TRUE(load_cached_machine());
  EXPECT_EQ(known_fingerprint(), machine.fingerprint);
  machine.name = "measured again";
  ASSERT_TRUE(save_machine(machine, cache_path(machine.fingerprint)));
  EXPECT_EQ(load_cached_machine()->name, machine.name);
}

// A machine that hwloc does not describe, so that it is seen where it comes from.
TEST_F(Cache, TheHardwareOfAKnownMachineIsKept) {
  const ScopedEnv another("HWLOC_SMELT_TEST", "kept"), none("SMELT_HARDWARE", nullptr);
  const auto real = *discover_machine();
  auto imagined = real;
  imagined.fingerprint = "0123456789abcdef";
  const auto file = directory_.path() / "0123456789abcdef.hardware.json";
  save_hardware(imagined);
  EXPECT_EQ(*load_machine(file), imagined);
  EXPECT_EQ(load_machine_or_hardware()->fingerprint, real.fingerprint) << "nobody has said that it is this machine";
  if (!test::kernel_tells_what_is_online()) GTEST_SKIP() << "the kernel does not tell what is online";
  const ScopedEnv note("SMELT_HARDWARE", hardware_note(imagined).c_str());
  EXPECT_EQ(*load_machine_or_hardware(), imagined);
  expect_not_found("0123456789abcdef.json");
  auto moved = imagined;
  moved.pus[3].package = 1;
  ASSERT_TRUE(save_machine(moved, file));
  EXPECT_EQ(load_machine_or_hardware()->fingerprint, real.fingerprint);
  moved = imagined;
  moved.send_ns = moved.recv_ns = Matrix(moved.size());
  ASSERT_TRUE(save_machine(moved, file));
  EXPECT_EQ(load_machine_or_hardware()->fingerprint, real.fingerprint) << "the costs are not of a model that is cached";
}

TEST_F(Cache, TheHardwareIsNotKeptWhereThereIsAModel) {
  const auto machine = measured();
  const auto bare = *discover_machine();
  const auto model = cache_path(machine.fingerprint);
  const auto file = directory_.path() / (machine.fingerprint + ".hardware.json");
  ASSERT_TRUE(save_machine(machine, model));
  save_hardware(bare);
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(*load_machine_or_hardware(), machine);
  auto moved = machine;
  moved.pus[3].package = 1;
  ASSERT_TRUE(save_machine(moved, model));
  save_hardware(bare);
  EXPECT_EQ(*load_machine(file), bare) << "the model is of another machine";
  ASSERT_TRUE(save_machine(bare, model));
  ASSERT_TRUE(std::filesystem::remove(file));
  save_hardware(bare);
  EXPECT_EQ(*load_machine(file), bare) << "the model has no costs";
}

TEST_F(Cache, TheHardwareIsKeptOnceAndWhereThatIsPossible) {
  const auto bare = *discover_machine();
  const auto deeper = directory_.path() / "a" / "b";
  const ScopedEnv cache("SMELT_CACHE_DIR", deeper.c_str());
  const auto file = deeper / (bare.fingerprint + ".hardware.json");
  save_hardware(bare);
  EXPECT_EQ(*load_machine(file), bare);
  const auto before = std::filesystem::last_write_time(file) - std::chrono::hours(1);
  std::filesystem::last_write_time(file, before);
  save_hardware(bare);
  EXPECT_EQ(std::filesystem::last_write_time(file), before);
  directory_.write(file.lexically_relative(directory_.path()).string(), "damaged");
  save_hardware(bare);
  EXPECT_EQ(*load_machine(file), bare);
  auto nameless = bare;
  nameless.fingerprint.clear();
  save_hardware(nameless);
  EXPECT_FALSE(std::filesystem::exists(deeper / "unknown.hardware.json"));
  const ScopedEnv nowhere("SMELT_CACHE_DIR", file.c_str());
  save_hardware(bare);  // below a file
  EXPECT_EQ(*load_machine(file), bare);
}

TEST_F(Cache, ModelWithoutCostsDoesNotCount) {
  const auto machine = discover_machine();
  ASSERT_TRUE(save_machine(*machine, cache_path(machine->fingerprint)));
  expect_not_found("no costs");
}

TEST_F(Cache, DamagedFileIsAnError) {
  const auto machine = measured();
  const auto file = directory_.write(machine.fingerprint + ".json", "{\"schema\": \"smelt-mach");
  const auto cached = load_cached_machine();
  ASSERT_FALSE(cached);
  EXPECT_EQ(cached.error().status, Status::bad_format);
  EXPECT_NE(cached.error().message.find(file.string()), std::string::npos);
}

}  // namespace
}  // namespace smelt
