#include "call.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "smelt-cli-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

// In the child: the environment that every test starts from.
void set_environment(const Words& environment) {
  for (const char* name :
       {"SMELT_WAIT", "SMELT_TIMEOUT", "SMELT_REVALIDATE", "SMELT_CACHE_DIR", "NO_COLOR", "COLORTERM", "COLUMNS"})
    unsetenv(name);
  setenv("TERM", "xterm-256color", 1);
  setenv("XDG_CACHE_HOME", (scratch() + "/cache").c_str(), 1);
  setenv("SMELT", SMELT_COMMAND, 1);
  for (const auto& entry : environment) putenv(strdup(entry.c_str()));
}

[[noreturn]] void execute(const Words& words) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

int exit_code_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool drain(int descriptor, std::string& text) {
  char buffer[1 << 14];
  const auto count = read(descriptor, buffer, sizeof buffer);
  if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
  return count > 0;
}

Call call(const Words& words, const std::string& input, const Words& environment) {
  scratch();
  // The input comes from a file, so that a command which does not read it cannot block us.
  const std::string input_file = scratch_file("stdin", input);
  std::array<int, 2> out{}, err{};
  if (pipe(out.data()) != 0 || pipe(err.data()) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    if (freopen(input_file.c_str(), "r", stdin) == nullptr) _exit(126);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (const int each : {out[0], out[1], err[0], err[1]}) close(each);
    set_environment(environment);
    execute(words);
  }
  close(out[1]);
  close(err[1]);
  Call result;
  std::array<pollfd, 2> files = {pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}};
  for (int open = 2; open > 0;) {
    if (poll(files.data(), files.size(), -1) < 0) break;
    for (auto& file : files) {
      if (file.fd < 0 || file.revents == 0) continue;
      if (drain(file.fd, file.fd == out[0] ? result.out : result.err)) continue;
      file.fd = -1;
      --open;
    }
  }
  close(out[0]);
  close(err[0]);
  result.exit_code = exit_code_of(child);
  return result;
}

Words with_command(const Words& words) {
  Words all = {SMELT_COMMAND};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

}  // namespace

Json Call::json() const {
  Json document = Json::parse(out, nullptr, false);
  EXPECT_FALSE(document.is_discarded()) << out.substr(0, 400) << err;
  return document.is_discarded() ? Json() : document;
}

Call smelt(const Words& words, const std::string& input, const Words& environment) {
  return call(with_command(words), input, environment);
}

Call smelt_on_terminal(const Words& words, const Words& environment) {
  scratch();
  int terminal = -1;
  winsize size{};
  size.ws_col = 100;
  size.ws_row = 40;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    set_environment(environment);
    execute(with_command(words));
  }
  Call result;
  while (drain(terminal, result.out)) {}
  close(terminal);
  result.exit_code = exit_code_of(child);
  return result;
}

Call shell(const std::string& script) { return call({"/bin/sh", "-c", script}, "", {}); }

const std::string& scratch() {
  static const Scratch directory;
  return directory.path;
}

std::string scratch_file(const std::string& name, const std::string& content) {
  const std::string path = scratch() + "/" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

const std::string& two_packages() {
  static const std::string file = [] {
    const std::string path = scratch() + "/two.json";
    const Call made = smelt({"synth", "--packages", "2", "--cores", "4", "--smt", "2", "--name", "two", "-o", path});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return path;
  }();
  return file;
}

void expect_one_line(const Call& call, int exit_code, const std::string& says) {
  EXPECT_EQ(call.exit_code, exit_code) << call.err;
  EXPECT_EQ(call.out, "");
  EXPECT_THAT(call.err, testing::StartsWith("smelt: "));
  EXPECT_THAT(call.err, testing::HasSubstr(says));
  EXPECT_EQ(std::count(call.err.begin(), call.err.end(), '\n'), 1) << call.err;
}
