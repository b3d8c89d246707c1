// The OpenMP shim in company: tools, two runtimes in a process, a runtime private to a library, and the runtimes' own
// report of their settings. What a program says without smelt it says with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../cli/call.hpp"

namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string tool = SMELT_TOOL;
const std::string programs[] = {SMELT_GNU_PROGRAM, SMELT_LLVM_PROGRAM};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// `words` as they are: by a smelt that preloads nothing.
Call plainly(const Words& words, const Words& environment) {
  return smelt(with({"run", "--without", "openmp,pthread"}, words), "", environment);
}

Call with_smelt(const Words& words, const Words& environment) {
  return smelt(with({"run", "--only", "openmp"}, words), "", environment);
}

TEST(Company, SettingsAreReportedOnce) {
  for (const auto& program : programs) {
    for (const std::string value : {"true", "verbose"}) {
      const Words environment = {"OMP_DISPLAY_ENV=" + value, "OMP_NUM_THREADS=2", "OMP_SCHEDULE=dynamic,3"};
      const auto plain = plainly({program, "barriers"}, environment);
      EXPECT_THAT(plain.err, HasSubstr("OPENMP DISPLAY ENVIRONMENT BEGIN"));
      const auto call = with_smelt({program, "barriers"}, environment);
      EXPECT_EQ(call.exit_code, 0);
      EXPECT_EQ(call.err, plain.err);
    }
  }
}

// A tool sees every region and every barrier, since all are the runtime's.
void expect_all_seen_by_tool(const Words& environment) {
  const Words command = {SMELT_LLVM_PROGRAM, "barriers"};
  const auto plain = plainly(command, environment);
  EXPECT_THAT(plain.err, ContainsRegex("^tool: [1-9][0-9]* regions, 6800 barriers\n$"));
  const auto call = with_smelt(command, environment);
  EXPECT_EQ(call.exit_code, 0);
  EXPECT_EQ(call.err, plain.err);
  const auto verbose = with_smelt(command, with(environment, {"SMELT_VERBOSE=1"}));
  EXPECT_THAT(verbose.err, HasSubstr(plain.err));
  EXPECT_THAT(verbose.err, ContainsRegex("parallel .*: passed on [0-9]+ times: an OMPT tool is there"));
  EXPECT_THAT(verbose.err, Not(ContainsRegex("taken over [0-9]")));
}

TEST(Company, ToolNamedByTheEnvironment) { expect_all_seen_by_tool({"OMP_TOOL_LIBRARIES=" + tool}); }

TEST(Company, ToolInTheProcess) {
  const Words environment = {"LD_PRELOAD=" + tool};
  // Without smelt, LLVM 18 of Ubuntu 24.04 does not look there.
  if (plainly({SMELT_LLVM_PROGRAM, "barriers"}, environment).err.empty())
    GTEST_SKIP() << "the runtime finds no tool there";
  expect_all_seen_by_tool(environment);
}

TEST(Company, TwoRuntimesInOneProcess) {
  EXPECT_EQ(plainly({SMELT_TWO_RUNTIMES}, {}).out, "0 wrong\n");
  EXPECT_EQ(with_smelt({SMELT_TWO_RUNTIMES}, {}).out, "0 wrong\n");
  const auto verbose = with_smelt({SMELT_TWO_RUNTIMES}, {"SMELT_VERBOSE=1"});
  EXPECT_EQ(verbose.out, "0 wrong\n");
  for (const char* entry : {"GOMP_parallel", "GOMP_barrier", "__kmpc_fork_call", "__kmpc_barrier"}) {
    EXPECT_THAT(verbose.err, ContainsRegex("\\(" + std::string(entry) + "\\): taken over [0-9]+ times"));
  }
}

TEST(Company, RuntimePrivateToALoadedLibrary) {
  const Words command = {SMELT_LOADER, SMELT_PRIVATE_MODULE};
  EXPECT_EQ(plainly(command, {}).out, "0 wrong\n");
  EXPECT_EQ(with_smelt(command, {}).out, "0 wrong\n");
  const auto verbose = with_smelt(command, {"SMELT_VERBOSE=1"});
  EXPECT_EQ(verbose.out, "0 wrong\n");
  EXPECT_THAT(verbose.err, ContainsRegex("GOMP_parallel\\): taken over 1[0-9][0-9] times"));
}

// The program has no OpenMP; a library that it loads calls the runtime by a jump, so that the program seems to be the
// caller.
TEST(Company, RuntimesThatComeLate) {
  for (const Words& modules :
       {Words{SMELT_LATE_GNU}, Words{SMELT_LATE_LLVM}, Words{SMELT_LATE_PRIVATE}, Words{SMELT_LATE_VERSION},
        Words{SMELT_LATE_LLVM, SMELT_LATE_VERSION}, Words{SMELT_LATE_GNU, SMELT_LATE_PRIVATE},
        Words{SMELT_LATE_LLVM, SMELT_LATE_GNU}, Words{SMELT_LATE_PRIVATE, SMELT_LATE_LLVM, SMELT_LATE_GNU}}) {
    const auto command = with({SMELT_LATE_LOADER}, modules);
    EXPECT_EQ(plainly(command, {}).out, "0 wrong\n") << modules.front();
    const auto call = with_smelt(command, {});
    EXPECT_EQ(call.exit_code, 0) << modules.front();
    EXPECT_EQ(call.out, "0 wrong\n") << modules.front() << " and " << modules.size() - 1;
  }
  // The runtime is the program's already.
  const Words linked = {SMELT_LATE_PROGRAM, SMELT_LATE_VERSION};
  EXPECT_EQ(plainly(linked, {}).out, "0 wrong\n");
  EXPECT_EQ(with_smelt(linked, {}).out, "0 wrong\n");
  for (const char* module : {SMELT_LATE_GNU, SMELT_LATE_VERSION}) {
    const auto verbose = with_smelt({SMELT_LATE_LOADER, module}, {"SMELT_VERBOSE=1"});
    EXPECT_THAT(verbose.err, ContainsRegex("GOMP_parallel\\): taken over [0-9]+ times")) << module;
  }
}

// Both modules get that one, also the one that has brought its own: their numbers of threads are the same one.
TEST(Company, ARuntimeThatComesForAll) {
  const Words command = {SMELT_LATE_LOADER, "global", SMELT_LATE_GNU, SMELT_LATE_PRIVATE};
  const auto plain = plainly(command, {}).out;
  EXPECT_THAT(plain, ContainsRegex("^[1-9][0-9]* wrong\n$"));
  EXPECT_EQ(with_smelt(command, {}).out, plain);
}

TEST(Company, MoreLibrariesThanAreKept) {
  const Words command = {SMELT_LATE_LOADER, "crowd", SMELT_LATE_STUB, SMELT_LATE_GNU};
  EXPECT_EQ(with_smelt(command, {}).out, "0 wrong\n");
}

TEST(Company, RuntimesThatAreLoadedAgain) {
  for (const Words& modules :
       {Words{SMELT_LATE_GNU}, Words{SMELT_LATE_PRIVATE}, Words{SMELT_LATE_GNU, SMELT_LATE_PRIVATE},
        Words{SMELT_LATE_PRIVATE, SMELT_LATE_VERSION}}) {
    const auto command = with({SMELT_LATE_LOADER, "again"}, modules);
    EXPECT_EQ(plainly(command, {}).out, "0 wrong\n") << modules.front();
    const auto call = with_smelt(command, {});
    EXPECT_EQ(call.exit_code, 0) << modules.front();
    EXPECT_EQ(call.out, "0 wrong\n") << modules.front() << " and " << modules.size() - 1;
  }
}

// Each look-up takes some 20 us, and Python's modules start thousands of regions in turn.
TEST(Company, LibrariesThatTakeTurnsAreLookedUpOnce) {
  const Words command = {SMELT_LOADER, SMELT_PRIVATE_MODULE, SMELT_PRIVATE_SIBLING};
  const auto look_ups = [](const auto& call) { return std::stoi(call.err); };
  const auto plain = plainly(command, {});
  EXPECT_EQ(plain.out, "0 wrong\n");
  const auto taken = with_smelt(command, {});
  EXPECT_EQ(taken.out, "0 wrong\n");
  EXPECT_LE(look_ups(taken) - look_ups(plain), 100) << "in 400 regions";
}

TEST(Company, RuntimeUnderANameOfItsOwn) {
  const auto call = smelt({"run", "--json", SMELT_PRIVATE_PROGRAM});
  const auto notes = call.json()["notes"].get<std::vector<std::string>>();
  EXPECT_THAT(notes, testing::Contains(ContainsRegex("a private libgomp: libgomp-a\\.so, needed by .*")));
  const auto verbose = smelt({"run", SMELT_PRIVATE_PROGRAM}, "", {"SMELT_VERBOSE=1"});
  EXPECT_EQ(verbose.out, "0 wrong\n");
  EXPECT_THAT(verbose.err, HasSubstr("run: a private libgomp: libgomp-a.so"));
  EXPECT_THAT(verbose.err, ContainsRegex("GOMP_barrier\\): taken over [0-9]+ times"));
}

}  // namespace
