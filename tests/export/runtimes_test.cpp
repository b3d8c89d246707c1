// The runtimes accept exported settings without complaint and obey them.
//
// The machine is made up, with as many PUs as ranks. The question is not what is fast here, but whether a runtime does
// what the file says. A preloaded library (spy.c) reports which algorithms are called; these are the runtime's own
// functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

struct Output {
  int status = -1;
  std::string text;  // stdout and stderr
};

Output shell(const std::string& command) {
  Output output;
  std::FILE* pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.text.append(buffer.data(), count);
  }
  output.status = pclose(pipe);
  return output;
}

class Runtimes : public testing::Test {
 protected:
  Runtimes() {
    std::string name = (std::filesystem::temp_directory_path() / "smelt-export-XXXXXX").string();
    folder = mkdtemp(name.data());
  }
  ~Runtimes() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

  std::string file(const std::string& name) const { return folder + "/" + name; }

  /// Settings for a made-up machine of `cores` cores.
  std::string exported(const std::string& runtime, int cores, const std::string& options = "") const {
    const std::string machine = file("machine.json"), settings = file(runtime);
    const auto made = shell(std::string(SMELT_COMMAND) + " synth --cores " + std::to_string(cores) + " -o " + machine);
    EXPECT_EQ(made.status, 0) << made.text;
    const auto written = shell(std::string(SMELT_COMMAND) + " export --for " + runtime + " -m " + machine + " -o " +
                               settings + " " + options);
    EXPECT_EQ(written.status, 0) << written.text;
    return settings;
  }

  static std::string content(const std::string& name) {
    std::ifstream stream(name);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }

  static std::set<std::string> spied(const std::string& text) {
    std::set<std::string> names;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (const auto at = line.find("spy "); at != std::string::npos) names.insert(line.substr(at + 4));
    }
    return names;
  }

  std::string folder;
};

class OpenMpi : public Runtimes {
 protected:
  void SetUp() override {
    if (std::string(OPENMPI_PROGRAM).empty()) GTEST_SKIP() << "Open MPI is not installed";
  }
  Output run(const std::string& settings, int ranks, const std::string& sizes) const {
    std::string command = std::string(OPENMPI_LAUNCHER) + " --oversubscribe --bind-to none -x LD_PRELOAD=" OPENMPI_SPY;
    if (geteuid() == 0) command += " --allow-run-as-root";
    if (!settings.empty()) {
      command += " --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename " + settings;
    }
    return shell(command + " -n " + std::to_string(ranks) + " " OPENMPI_PROGRAM " 3 " + sizes);
  }
};

TEST_F(OpenMpi, RunsTheAlgorithmsOfTheRules) {
  const std::string settings = exported("openmpi", 4);
  ASSERT_THAT(content(settings), HasSubstr("modified_bruck")) << "the model changed; choose another operation";
  const auto before = run("", 4, "8");
  const auto after = run(settings, 4, "8");
  ASSERT_EQ(before.status, 0) << before.text;
  ASSERT_EQ(after.status, 0) << after.text;
  EXPECT_THAT(spied(before.text), Not(Contains("alltoall_intra_bruck")));
  EXPECT_THAT(spied(after.text), Contains("alltoall_intra_bruck"));
  EXPECT_THAT(spied(before.text), Contains("alltoall_intra_linear_sync"));
  EXPECT_THAT(spied(after.text), Not(Contains("alltoall_intra_linear_sync")));
}

TEST_F(OpenMpi, DecidesByItselfForOtherNumbersOfRanks) {
  const std::string settings = exported("openmpi", 4);
  for (int ranks : {2, 3, 5}) {
    const auto before = run("", ranks, "8 4096");
    const auto after = run(settings, ranks, "8 4096");
    ASSERT_EQ(after.status, 0) << after.text;
    EXPECT_EQ(spied(before.text), spied(after.text)) << ranks << " ranks";
  }
}

class Mpich : public Runtimes {
 protected:
  void SetUp() override {
    if (std::string(MPICH_PROGRAM).empty()) GTEST_SKIP() << "MPICH, or its static library, is not installed";
  }
  Output run(const std::string& settings, int ranks, const std::string& sizes) const {
    const std::string variable = settings.empty() ? "" : "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=" + settings + " ";
    return shell(variable + MPICH_LAUNCHER + " -n " + std::to_string(ranks) + " " MPICH_PROGRAM " 3 " + sizes);
  }
};

TEST_F(Mpich, RunsTheAlgorithmsOfTheFile) {
  const std::string settings = exported("mpich", 4);
  ASSERT_THAT(content(settings), HasSubstr("\"comm_size<=4\"")) << "nothing was decided";
  const auto before = run("", 4, "64");
  const auto after = run(settings, 4, "64");
  ASSERT_EQ(before.status, 0) << before.text;
  ASSERT_EQ(after.status, 0) << after.text;
  EXPECT_THAT(spied(before.text), Contains("MPIR_Allreduce_intra_reduce_scatter_allgather"));
  EXPECT_THAT(spied(after.text), Not(Contains("MPIR_Allreduce_intra_reduce_scatter_allgather")));
  EXPECT_THAT(spied(after.text), Contains("MPIR_Allreduce_intra_recursive_doubling"));
}

TEST_F(Mpich, DecidesAsBeforeForOtherNumbersOfRanks) {
  const std::string settings = exported("mpich", 4);
  for (int ranks : {2, 3}) {
    const auto before = run("", ranks, "8 4096");
    const auto after = run(settings, ranks, "8 4096");
    ASSERT_EQ(after.status, 0) << after.text;
    EXPECT_EQ(spied(before.text), spied(after.text)) << ranks << " ranks";
  }
}

TEST_F(Runtimes, LibompUnderstandsItsBarriers) {
  if (std::string(LIBOMP_PROGRAM).empty()) GTEST_SKIP() << "LLVM's OpenMP runtime is not installed";
  const std::string settings = exported("libomp", 16, "--margin 0");
  const std::string text = content(settings);
  ASSERT_THAT(text, HasSubstr("KMP_PLAIN_BARRIER=")) << "nothing was decided";
  const auto ran =
      shell("set -a; . " + settings + "; KMP_SETTINGS=1 OMP_PLACES=threads OMP_PROC_BIND=false " LIBOMP_PROGRAM);
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_THAT(ran.text, Not(HasSubstr("Warning")));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("KMP_")) continue;
    const auto at = line.find('=');
    // The settings in effect follow those that the user gave: NAME='VALUE'.
    EXPECT_THAT(ran.text, HasSubstr(line.substr(0, at) + "='" + line.substr(at + 1) + "'")) << line;
  }
}

}  // namespace
