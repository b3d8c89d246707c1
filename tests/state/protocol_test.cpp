// Every protocol in protocol/ is checked in all its states, and what it leaves out of a text, or of its own rules, is
// shown to be needed: each mutant is refuted.
//
// SMELT_TEST_PROTOCOLS=1 checks larger configurations, too; they take minutes and some GB of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace {

namespace fs = std::filesystem;

struct Model {
  std::string file, defines;
  bool holds = true;
  long least_states = 0;  ///< fewer: it does not do what it says; of a mutant, what the search comes to
  bool large = false;
};

// The smallest configurations that show the mutants, and larger ones of the protocols themselves.
const Model models[] = {
#include "protocol/models.inc"
};

struct Outcome {
  bool ran = false;
  long errors = -1, states = 0;
  std::string text{};
};

int run(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class Protocols : public testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    if (run("spin -V >/dev/null 2>&1") != 0) GTEST_SKIP() << "Spin is not installed (Debian: spin)";
    folder_ = fs::temp_directory_path() / ("smelt-protocol-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  Outcome check(const Model& model) {
    const std::string here = "cd '" + folder_.string() + "' && ";
    const std::string file = std::string(SMELT_PROTOCOLS) + "/" + model.file;
    // A search of few states takes less time than the compiler; one of very many must save memory.
    const bool few = model.least_states < 100'000;
    std::string compiler = model.large ? "cc -O2 -DCOLLAPSE" : few ? "cc -O0" : "cc -O1";
    const std::string table = model.large ? "" : " -w20";  // the default's takes longer to clear
    // What refutes a long one is found earlier from the other end.
    if (!model.holds && model.least_states > 0) compiler += " -DREVERSE";
    Outcome outcome;
    outcome.ran = run(here + "spin -a " + model.defines + " '" + file + "' >spin.txt 2>&1 && " + compiler +
                      " -w -DSAFETY -DVECTORSZ=2048 -DMEMLIM=12000 -o pan pan.c >cc.txt 2>&1") == 0 &&
                  run(here + "./pan -E -m1000000" + table + " >pan.txt 2>&1") == 0;
    outcome.text = read(folder_ / "spin.txt") + read(folder_ / "pan.txt");
    std::smatch found;
    if (std::regex_search(outcome.text, found, std::regex("errors: (\\d+)"))) outcome.errors = std::stol(found[1]);
    if (std::regex_search(outcome.text, found, std::regex("(\\d+) states, stored")))
      outcome.states = std::stol(found[1]);
    return outcome;
  }

 private:
  fs::path folder_;
};

TEST_P(Protocols, InAllTheirStates) {
  const Model& model = GetParam();
  if (model.large && std::getenv("SMELT_TEST_PROTOCOLS") == nullptr) {
    GTEST_SKIP() << "takes minutes; SMELT_TEST_PROTOCOLS=1 runs it";
  }
  const Outcome outcome = check(model);
  ASSERT_TRUE(outcome.ran) << outcome.text;
  EXPECT_EQ(outcome.errors, model.holds ? 0 : 1) << outcome.text;
  EXPECT_EQ(outcome.text.find("max search depth too small"), std::string::npos);
  EXPECT_EQ(outcome.text.find("reached -DMEMLIM"), std::string::npos);
  if (model.holds) {
    EXPECT_GE(outcome.states, model.least_states);
  } else {
    EXPECT_NE(outcome.text.find("assertion violated"), std::string::npos) << outcome.text;
  }
  RecordProperty("states", std::to_string(outcome.states));
  std::printf("%s %s: %ld states, %s\n", model.file.c_str(), model.defines.c_str(), outcome.states,
              outcome.errors == 0 ? "no violation" : "refuted");
}

std::string name_of(const testing::TestParamInfo<Model>& info) {
  const std::string text = info.param.file.substr(0, info.param.file.find('.')) + info.param.defines;
  return std::to_string(info.index) + "_" + std::regex_replace(text, std::regex("[^A-Za-z0-9]+"), "_");
}

INSTANTIATE_TEST_SUITE_P(All, Protocols, testing::ValuesIn(models), name_of);

}  // namespace
