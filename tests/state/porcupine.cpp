#include "porcupine.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace smelt::state {
namespace {

struct Ran {
  int exit_code = -1;
  std::string out{};
};

Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  char buffer[4096];
  for (std::size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ran.out.append(buffer, got);
  const int status = pclose(pipe);
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

std::string build() {
  if (run("go version 2>&1").exit_code != 0) return "Go is not installed";
  const std::string go =
      std::string("cd '") + SMELT_LINEARIZABLE + "' && GOFLAGS=-buildvcs=false GOTOOLCHAIN=local go ";
  const Ran fetched = run(go + "mod download 2>&1");
  if (fetched.exit_code != 0) return "Porcupine cannot be fetched: " + fetched.out;
  const Ran built = run(go + "build -o '" + SMELT_BUILT + "' . 2>&1");
  EXPECT_EQ(built.exit_code, 0) << built.out;
  return built.exit_code == 0 ? "" : "it does not compile";
}

Verdict verdict_of(const std::string& line) {
  if (line.ends_with(": linearizable")) return Verdict::holds;
  return line.ends_with(": not linearizable") ? Verdict::violated : Verdict::unknown;
}

}  // namespace

const std::string& porcupine_is_missing() {
  static const std::string reason = build();
  return reason;
}

std::vector<Verdict> check_with_porcupine(const std::vector<std::vector<Event>>& histories, double limit_s,
                                          const std::string& picture) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("smelt-histories-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::string command = std::string("'") + SMELT_BUILT + "' -timeout " + std::to_string(limit_s) + "s";
  if (!picture.empty()) command += " -picture '" + picture + "'";
  for (std::size_t i = 0; i < histories.size(); ++i) {
    const auto file = folder / (std::to_string(i) + ".txt");
    std::ofstream(file) << format_history(histories[i]);
    command += " '" + file.string() + "'";
  }
  const Ran ran = run(command);
  std::filesystem::remove_all(folder);
  std::vector<Verdict> verdicts;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) verdicts.push_back(verdict_of(line));
  EXPECT_EQ(verdicts.size(), histories.size()) << command << "\n" << ran.out;
  EXPECT_LT(ran.exit_code, 3);
  return verdicts;
}

}  // namespace smelt::state
