// Storms of the command: processes share a map, and some are killed or stopped. The command checks the map itself, and
// Porcupine checks the recorded history.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "checker.hpp"
#include "porcupine.hpp"

namespace smelt::state {
namespace {

namespace fs = std::filesystem;

int rounds() {
  const char* text = std::getenv("SMELT_TEST_DEATHS");
  return text == nullptr ? 24 : std::max(1, std::atoi(text) / 8);
}

Event::Kind kind_of(const std::string& name) {
  static constexpr const char* names[] = {"get", "put", "erase", "insert", "compare_exchange", "fetch_add"};
  const auto* found = std::find(std::begin(names), std::end(names), name);
  EXPECT_NE(found, std::end(names)) << name;
  return static_cast<Event::Kind>(found - std::begin(names));
}

std::vector<Event> read_history(const fs::path& path) {
  std::vector<Event> history;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Event event;
    std::string kind;
    words >> event.client >> event.begin >> event.end >> kind >> event.key >> event.argument >> event.expected >>
        event.done >> event.result;
    EXPECT_TRUE(words) << line;
    event.kind = kind_of(kind);
    history.push_back(event);
  }
  return history;
}

class StormTest : public testing::TestWithParam<const char*> {};

TEST_P(StormTest, MapsKeepTheirPromise) {
  const fs::path folder = fs::temp_directory_path() / ("smelt-storm-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string command = std::string("'") + SMELT_COMMAND + "' storm map --rounds " + std::to_string(rounds()) +
                              " --faults " + GetParam() + " --histories '" + folder.string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::vector<std::vector<Event>> histories;
  for (const auto& entry : fs::directory_iterator(folder)) histories.push_back(read_history(entry.path()));
  fs::remove_all(folder);
  ASSERT_EQ(histories.size(), static_cast<std::size_t>(rounds()));
  if (!porcupine_is_missing().empty()) GTEST_SKIP() << porcupine_is_missing();
  EXPECT_EQ(check_with_porcupine(histories), std::vector(histories.size(), Verdict::holds));
}

/// A storm of 1000 rounds is killed within one of them. Whether a process that it started is still there, and no
/// zombie.
bool outlives_its_storm(const std::string& kind) {
  const std::string script = std::string("'") + SMELT_COMMAND + "' storm " + kind +
                             " --rounds 1000 > /dev/null 2>&1 & pid=$!; sleep 0.5; "
                             "until read -r children < /proc/$pid/task/$pid/children; test -n \"$children\"; "
                             "do kill -0 $pid || exit 1; sleep 0.001; done; "
                             "kill -KILL $pid; sleep 0.5; for child in $children; do "
                             "if readlink /proc/$child/exe; then kill -KILL $child; exit 3; fi; done";
  const int status = std::system(script.c_str());
  EXPECT_NE(WEXITSTATUS(status), 1) << "the storm was over, and no process was seen";
  return WEXITSTATUS(status) == 3;
}

TEST(Storm, ItsProcessesEndWithIt) {
  EXPECT_FALSE(outlives_its_storm("map"));
  EXPECT_FALSE(outlives_its_storm("log"));
}

/// A storm is interrupted while the map of its fourth round is there, which is kept.
bool leaves_file_behind(const std::string& signal) {
  const std::string script = std::string("'") + SMELT_COMMAND +
                             "' storm map --rounds 1000 --values 8 > /dev/null 2>&1 & pid=$!; "
                             "file=/dev/shm/smelt-map.storm-$pid-3; "
                             "until test -e $file; do kill -0 $pid || exit 1; sleep 0.001; done; kill -" +
                             signal + " $pid; wait $pid; test $? -gt 128 || exit 1; ! rm $file 2> /dev/null || exit 3";
  const int status = std::system(script.c_str());
  EXPECT_NE(WEXITSTATUS(status), 1) << "the storm was not interrupted";
  return WEXITSTATUS(status) == 3;
}

TEST(Storm, LeavesNoFileIfItIsInterrupted) {
  EXPECT_FALSE(leaves_file_behind("TERM"));
  std::signal(SIGHUP, SIG_DFL);  // not as `nohup` leaves it
  EXPECT_FALSE(leaves_file_behind("HUP"));
}

INSTANTIATE_TEST_SUITE_P(Faults, StormTest, testing::Values("crash", "stop"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace smelt::state
