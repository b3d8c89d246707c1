// Storms of the command: processes share a map, and some are killed or stopped. The command checks the map itself, and
// Porcupine checks the recorded history.
#include <gtest/gtest.h>
#include <unistd.h>

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

INSTANTIATE_TEST_SUITE_P(Faults, StormTest, testing::Values("crash", "stop"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace smelt::state
