// What the command of a build for collectives only says of the commands that it lacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.hpp"
#include "cli/memory/memory.hpp"
#include "cli/parser.hpp"
#include "cli/state/bench_state.hpp"
#include "cli/state/maps.hpp"
#include "cli/state/simulate_log.hpp"

namespace smelt::cli {
namespace {

struct Answer {
  int exit_code = -1;
  std::string out, err;
};

Answer answer_to(std::vector<std::string> words) {
  Parser parser;
  add_graph(parser);
  add_state(parser);
  add_storm_log(parser);
  add_storm_map(parser);
  words.insert(words.begin(), "smelt");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  Answer answer;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  answer.exit_code = parser.run(static_cast<int>(argv.size()), argv.data());
  answer.out = testing::internal::GetCapturedStdout();
  answer.err = testing::internal::GetCapturedStderr();
  return answer;
}

TEST(LeftOut, CommandsSayWhereTheyAreInOneLineWhateverFollows) {
  const std::vector<std::vector<std::string>> calls = {{"graph"},
                                                       {"graph", "run", "pagerank", "kron:12", "--threads", "2"},
                                                       {"state", "list", "--json"},
                                                       {"storm", "map"}};
  for (const auto& words : calls) {
    const Answer answer = answer_to(words);
    EXPECT_EQ(answer.exit_code, exit_failure) << words[0];
    EXPECT_EQ(answer.out, "");
    EXPECT_THAT(answer.err, testing::MatchesRegex("smelt: " + words[0] + ": [a-z ]+ are not in this smelt, [^\n]+\n"));
    EXPECT_THAT(answer.err, testing::HasSubstr("./x build"));
  }
}

TEST(LeftOut, HelpListsThem) {
  const Answer answer = answer_to({"--help"});
  EXPECT_EQ(answer.exit_code, exit_ok);
  for (const std::string name : {"graph", "state", "storm"}) {
    EXPECT_THAT(answer.out, testing::ContainsRegex("\n  " + name + " +[^\n]+\\(not in this build\\)\n"));
  }
}

template <class Action>
std::string failure_of(Action action) {
  try {
    action();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code, exit_failure);
    return failure.message;
  }
  return "no failure";
}

TEST(LeftOut, PartsOfOtherCommandsFail) {
  using testing::StartsWith;
  EXPECT_THAT(failure_of([] { bench_maps({}); }), StartsWith("maps are not in this smelt"));
  EXPECT_THAT(failure_of([] { compare_maps({}); }), StartsWith("maps are not in this smelt"));
  EXPECT_THAT(failure_of([] { explain_map({}); }), StartsWith("maps are not in this smelt"));
  EXPECT_THAT(failure_of([] { bench_log({}); }), StartsWith("the replicated log is not in this smelt"));
  EXPECT_THAT(failure_of([] { simulate_log({}); }), StartsWith("the replicated log is not in this smelt"));
  EXPECT_THAT(failure_of([] { explain_memory({}); }), StartsWith("placed arrays are not in this smelt"));
}

}  // namespace
}  // namespace smelt::cli
