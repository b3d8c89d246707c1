// The repository obeys its own rules, and each rule is shown to find what it forbids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "rules.hpp"

namespace style {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string root = SMELT_SOURCE_DIR;

void append(std::vector<File>& to, std::vector<File> more) { to.insert(to.end(), more.begin(), more.end()); }

std::vector<File> library_files() {
  auto files = read_files(root, "src", {".cpp", ".hpp", ".c", ".h"});
  append(files, read_files(root, "include", {".hpp", ".h"}));
  return files;
}

std::vector<File> all_files() {
  auto files = library_files();
  for (const auto* directory : {"bench", "tests", "examples", "cmake", "docs", "python"}) {
    append(files,
           read_files(root, directory, {".cpp", ".hpp", ".c", ".h", ".sh", ".txt", ".cmake", ".in", ".md", ".py"}));
  }
  return files;
}

template <class Rule>
void expect_clean(const std::vector<File>& files, Rule rule) {
  ASSERT_THAT(files, testing::Not(IsEmpty()));
  for (const auto& file : files) {
    for (const auto& complaint : rule(file)) ADD_FAILURE() << complaint;
  }
}

TEST(Style, RoomsIncludeOnlyWhatTheTableAllows) { expect_clean(library_files(), check_includes); }

TEST(Style, IncludeRuleFindsViolations) {
  EXPECT_THAT(check_includes({"src/plan/a.cpp", "#include \"channel/ump.hpp\"\n"}),
              ElementsAre("src/plan/a.cpp:1: plan may not include channel/ump.hpp"));
  EXPECT_THAT(check_includes({"src/plan/a.cpp", "\n  #  include \"smelt/communicator.hpp\"\n"}), SizeIs(1));
  EXPECT_THAT(check_includes({"src/base/a.hpp", "#include \"smelt/machine.hpp\"\n"}), SizeIs(1));
  EXPECT_THAT(check_includes({"src/cli/a.cpp", "#include \"plan/search.hpp\"\n"}), SizeIs(1));
  EXPECT_THAT(check_includes({"src/comm/a.cpp", "#include \"state.hpp\"\n"}), SizeIs(1));
  EXPECT_THAT(check_includes({"src/comm/a.cpp", "#include \"measure/burst.hpp\"\n"}), SizeIs(1));
  EXPECT_THAT(check_includes({"src/comm/a.cpp", "#include \"state/maps.hpp\"\n"}), SizeIs(1));
  EXPECT_THAT(check_includes({"include/smelt/plan.hpp", "#include \"plan/tree.hpp\"\n"}), SizeIs(1));
  EXPECT_THAT(check_includes({"include/smelt/plan.hpp", "#include \"smelt/channel.hpp\"\n"}), SizeIs(1));
  EXPECT_THAT(check_includes({"src/shims/mpi/a.cpp", "#include \"smelt/communicator.hpp\"\n"}), SizeIs(1));
  EXPECT_THAT(check_includes({"src/attic/a.cpp", ""}), SizeIs(1));
}

TEST(Style, IncludeRuleAllowsTheTable) {
  EXPECT_THAT(check_includes({"src/comm/a.cpp",
                              "#include <atomic>\n#include \"plan/tree.hpp\"\n#include "
                              "\"smelt/machine.hpp\"\n#include \"comm/ordering.hpp\"\n"}),
              IsEmpty());
  EXPECT_THAT(check_includes({"src/cli/a.cpp", "#include \"smelt/smelt.h\"\n#include \"cli/table.hpp\"\n"}), IsEmpty());
  EXPECT_THAT(check_includes({"src/shims/mpi/a.cpp", "#include \"smelt/smelt.h\"\n#include \"shims/report.hpp\"\n"}),
              IsEmpty());
}

TEST(Style, InnerRoomsHaveRulesOfTheirOwn) {
  EXPECT_THAT(check_includes({"src/plan/trees/a.cpp", "#include \"plan/simulator/simulate.hpp\"\n"}),
              ElementsAre("src/plan/trees/a.cpp:1: plan/trees may not include plan/simulator/simulate.hpp"));
  EXPECT_THAT(check_includes({"src/comm/group/a.hpp", "#include \"comm/collective/communicator_state.hpp\"\n"}),
              SizeIs(1));
  EXPECT_THAT(check_includes({"src/comm/attic/a.hpp", "#include \"comm/ordering.hpp\"\n"}), SizeIs(1));
  EXPECT_THAT(check_includes({"src/comm/group/a.hpp", "#include \"comm/ordering.hpp\"\n"}), IsEmpty());
  EXPECT_THAT(check_includes({"src/comm/group/a_test.cpp", "#include \"comm/collective/communicator_state.hpp\"\n"}),
              IsEmpty());
  EXPECT_THAT(check_includes({"src/comm/collective/a.cpp",
                              "#include \"comm/group/shared_layout.hpp\"\n#include "
                              "\"plan/trees/tree.hpp\"\n"}),
              IsEmpty());
  EXPECT_THAT(check_includes({"src/plan/a.cpp", "#include \"plan/trees/tree.hpp\"\n"}), IsEmpty());
}

TEST(Style, SourceFilesHaveAHeader) { EXPECT_THAT(check_header_comments(library_files()), IsEmpty()); }

TEST(Style, HeaderCommentRuleFindsViolations) {
  EXPECT_THAT(check_header_comments({{"src/plan/a.cpp", "#include <map>\n"}}), SizeIs(1));
  EXPECT_THAT(check_header_comments({{"src/plan/a.cpp", "#include <map>\n"}, {"src/plan/a.hpp", "#pragma once\n"}}),
              SizeIs(2));
  EXPECT_THAT(check_header_comments({{"src/plan/a.cpp", "#include <map>\n"}, {"src/plan/a.hpp", "// Trees.\n"}}),
              IsEmpty());
  EXPECT_THAT(check_header_comments({{"src/plan/a_test.cpp", "#include <map>\n"}}), SizeIs(1));
  EXPECT_THAT(check_header_comments({{"src/plan/a_test.cpp", "#include <map>\n"}, {"src/plan/a.cpp", "// Trees.\n"}}),
              IsEmpty());
}

TEST(Style, EveryRoomHasAShortReadme) {
  for (const auto* room : {"base", "machine", "plan", "channel", "measure", "comm", "tune", "export", "memory", "state",
                           "graph", "capi", "cli", "shims"}) {
    const auto readmes = read_files(root, std::string("src/") + room, {"README.md"});
    ASSERT_THAT(readmes, SizeIs(1)) << "src/" << room << " has no README.md";
    expect_clean(readmes, check_readme);
  }
}

TEST(Style, ReadmeRuleFindsViolations) {
  std::string lines;
  for (int i = 0; i < 15; ++i) lines += "a line\n";
  EXPECT_THAT(check_readme({"src/plan/README.md", lines}), IsEmpty());
  EXPECT_THAT(check_readme({"src/plan/README.md", lines + "one more\n"}), SizeIs(1));
}

TEST(Style, NothingIsLeftUnfinished) { expect_clean(all_files(), check_unfinished); }

TEST(Style, UnfinishedRuleFindsViolations) {
  EXPECT_THAT(check_unfinished({"a.cpp",
                                "int a;\n// TO"
                                "DO: more\n"}),
              ElementsAre(HasSubstr("a.cpp:2")));
  EXPECT_THAT(check_unfinished({"a.cpp",
                                "/* FIX"
                                "ME */"}),
              SizeIs(1));
  EXPECT_THAT(check_unfinished({"a.cpp", "int todos = 1;"}), IsEmpty());
}

TEST(Style, NoVolatileInPlaceOfAtomics) { expect_clean(library_files(), check_volatile); }

TEST(Style, VolatileRuleFindsViolations) {
  EXPECT_THAT(check_volatile({"a.cpp", "volatile int flag;\n"}), SizeIs(1));
  EXPECT_THAT(check_volatile({"a.cpp", "asm volatile(\"\"); volatile int flag;\n"}), SizeIs(1));
  EXPECT_THAT(check_volatile({"a.cpp", "asm volatile(\"pause\"); // not volatile\nputs(\"volatile\");\n"}), IsEmpty());
}

TEST(Style, PublicFunctionsAreDocumented) {
  expect_clean(read_files(root, "include", {".hpp", ".h"}), check_docstrings);
}

TEST(Style, DocstringRuleFindsViolations) {
  const auto complaints = [](const std::string& text) { return check_docstrings({"include/smelt/a.hpp", text}); };
  EXPECT_THAT(complaints("int frob(int a);\n"), SizeIs(1));
  EXPECT_THAT(complaints("Result<std::vector<int>> frob(const std::string& a,\n    int b = 3);\n"), SizeIs(1));
  EXPECT_THAT(complaints("/// Documented.\nint one(int a);\n\nint two(int a);\n"), SizeIs(1));
  EXPECT_THAT(complaints("/// Documented.\nint one(int a);\nint two(int a);\n"), IsEmpty());
  EXPECT_THAT(complaints("class A {\n public:\n  int size() const noexcept;\n  explicit A(int a);\n  ~A();\n private:\n"
                         "  int frob(int a);\n};\n"),
              IsEmpty());
  EXPECT_THAT(complaints("class A {\n private:\n  int frob(int a);\n public:\n  int frob(int b);\n};\n"), SizeIs(1));
  EXPECT_THAT(complaints("int frob(int a) { return a; }\nint twice(int a) {\n  return frob(a);\n}\n"), IsEmpty());
  EXPECT_THAT(complaints("extern \"C\" {\nint smelt_frob(void);\n}\n"), SizeIs(1));
}

const nlohmann::json& preset_named(const nlohmann::json& presets, const std::string& name) {
  return *std::find_if(presets.begin(), presets.end(), [&](const auto& preset) { return preset["name"] == name; });
}

TEST(Presets, WhatIsBuiltWithThreadSanitizerIsRun) {
  const auto presets = nlohmann::json::parse(std::ifstream(root + "/CMakePresets.json"));
  const std::regex filter(preset_named(presets["testPresets"], "tsan")["filter"]["include"]["name"].get<std::string>());
  for (const std::string target : preset_named(presets["buildPresets"], "tsan")["targets"]) {
    EXPECT_TRUE(std::regex_search(target, filter)) << target;
  }
}

}  // namespace
}  // namespace style
