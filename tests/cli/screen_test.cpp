// What people see: help, pictures, and colour on a terminal alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "call.hpp"

namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string escape = "\x1b[";

Words planning(const std::string& command, const Words& more = {}) {
  Words words = {command, "-m", two_packages(), "--search-ms", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A shell takes the directories of PATH for a file that is named without one.
TEST(Screen, TheUseOfExportedSettingsIsForAShell) {
  const Call use = shell("cd " + scratch() + " && $SMELT export --for libomp -m " + two_packages() +
                         " -o omp.env 2>use && eval \"$(sed -n 's/PROGRAM.*/env/p' use)\"");
  EXPECT_EQ(use.exit_code, 0) << use.err;
  EXPECT_THAT(use.out, HasSubstr("OMP_NUM_THREADS="));
}

TEST(Screen, EveryCommandExplainsItself) {
  for (const std::string command : {"measure", "show", "import", "synth", "plan", "simulate", "compare", "explain",
                                    "bench", "inspect", "settings"}) {
    SCOPED_TRACE(command);
    const Call help = smelt({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_THAT(help.out, HasSubstr("Usage: smelt " + command));
    EXPECT_THAT(help.out, HasSubstr("Examples:\n  smelt " + command));
    EXPECT_THAT(help.out, HasSubstr("--json"));
    EXPECT_THAT(smelt({"--help"}).out, HasSubstr("  " + command + " "));
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  }
  for (const Words& words : {Words{"storm", "log"}, Words{"storm", "map"}, Words{"state", "rm"}}) {
    EXPECT_EQ(smelt({words[0], words[1], "--help"}).out.back(), '\n') << words[0] << " " << words[1];
  }
  EXPECT_THAT(smelt({"plan", "--help"}).out, HasSubstr("0: best does not, optimal has no limit"));
  EXPECT_THAT(smelt({"--version"}).out, StartsWith("smelt "));
  EXPECT_EQ(smelt({}).exit_code, 2);
}

TEST(Screen, MapsAreDrawnAndExplained) {
  const Call chart = smelt({"compare", "--maps", "--figure", "3.20f"});
  EXPECT_EQ(chart.exit_code, 0) << chart.err;
  EXPECT_THAT(chart.out, HasSubstr("figure 3.20f: ideal, 0.99 lookups"));
  EXPECT_THAT(chart.out, HasSubstr("s part_simple   c part_caching   r rep_remote   l rep_local   2 rep_2pc"));
  EXPECT_THAT(chart.out, HasSubstr("2000 ┤"));
  EXPECT_THAT(chart.out, HasSubstr("1188 (32)"));
  EXPECT_THAT(chart.out, HasSubstr("rep_local from 0.985 lookups"));
  EXPECT_THAT(smelt_on_terminal({"compare", "--maps", "--figure", "3.20f"}).out, HasSubstr(escape));
  EXPECT_THAT(smelt({"compare", "--maps", "--figure", "3.19a"}).out, HasSubstr("by number of servers, 36 cores"));

  const Call explained = smelt({"explain", "map", "--platform", "ideal", "--ranks", "128", "--lookups", "0.99"});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("rep_local  (replicas at all clients"));
  EXPECT_THAT(explained.out, HasSubstr("of 127 clients and 1 server, limited by its clients"));
  EXPECT_THAT(explained.out, HasSubstr("shared  left out: no shared memory"));
}

TEST(Screen, NamesOfArraysDoNotControlTheTerminal) {
  const std::string file = scratch_file(
      "names.json", R"({"arrays": [{"name": "a\u001b[2J\nb \u00e9", "elements": 10, "element_bytes": 8}]})");
  const Call explained = smelt({"explain", "memory", file, "-m", two_packages()});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("  a?[2J?b \xc3\xa9  "));
  EXPECT_THAT(explained.out, HasSubstr("  a?[2J?b \xc3\xa9: "));
}

TEST(Screen, ColourIsForTerminals) {
  const Words commands[] = {
      {"show", two_packages()}, planning("plan"), planning("simulate"), planning("compare"), {"settings"}};
  for (const auto& words : commands) {
    SCOPED_TRACE(words[0]);
    EXPECT_THAT(smelt(words).out, Not(HasSubstr(escape)));
    const Call coloured = smelt_on_terminal(words);
    EXPECT_EQ(coloured.exit_code, 0) << coloured.out;
    EXPECT_THAT(coloured.out, HasSubstr(escape));
    const Call plain = smelt_on_terminal(words, {"NO_COLOR=1"});
    EXPECT_THAT(std::regex_replace(plain.out, std::regex("\r\x1b\\[K[^\r]*"), ""), Not(HasSubstr("\x1b[3")));
  }
  EXPECT_THAT(smelt_on_terminal({"show", two_packages()}, {"COLORTERM=truecolor"}).out, HasSubstr("[48;2;"));
}

TEST(Screen, AMachineWithoutFileNeedsToKnowWhereToGo) {
  const Call call = smelt_on_terminal({"synth", "--cores", "2"});
  EXPECT_EQ(call.exit_code, 2);
  EXPECT_THAT(call.out, HasSubstr("-o FILE"));
}

TEST(Screen, ShowDrawsTheMachine) {
  const std::string text = smelt({"show", two_packages()}).out;
  for (const char* part :
       {"package 0", "package 1", "PU 8-15", "4 cores × 2 PUs", "SMT siblings", "same L3", "remote package"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Screen, ShowFitsAnyMachineOnTheTerminal) {
  for (const std::string packages : {"1", "2", "8"}) {
    const Call made = smelt({"synth", "--packages", packages, "--cores", "64", "--l3", "8"});
    const Call shown = smelt({"show", "-"}, made.out, {"COLUMNS=80"});
    EXPECT_EQ(shown.exit_code, 0) << shown.err;
    std::istringstream lines(shown.out);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      const auto width = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
      EXPECT_TRUE(width <= 90 || line.find("█") == std::string::npos) << line;
    }
    EXPECT_LE(count, 150);
  }
}

TEST(Screen, ShowWithoutAModelPointsToMeasure) {
  const Call call = smelt({"show"});
  EXPECT_EQ(call.exit_code, 0) << call.err;
  EXPECT_THAT(call.out, HasSubstr("run `smelt measure`"));
  EXPECT_THAT(call.out, HasSubstr("This process may use"));
}

TEST(Screen, PlanDrawsTreesAndGivesReasons) {
  const std::string text = smelt(planning("plan", {"--op", "barrier", "--topology", "best"})).out;
  for (const char* part : {"barrier", "16 ranks", "└─ ", "├─ ", "package 1", "PU 15"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, HasSubstr("Why"));
}

TEST(Screen, ACommitOfTwoExchangesItsVotes) {
  const std::string text = smelt(planning("plan", {"--op", "two-phase-commit", "--ranks", "0,1"})).out;
  for (const char* part : {"Proposal goes down", "Votes are exchanged", "round 1"}) EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("Decision")));
  EXPECT_THAT(text, Not(HasSubstr("at most -")));
  const std::string dot = smelt(planning("plan", {"--op", "two-phase-commit", "--ranks", "0,1", "--dot"})).out;
  EXPECT_THAT(dot, HasSubstr("r1 -> r0 [label=\"1\", style=dashed]"));
}

TEST(Screen, SimulateDrawsOneLinePerRank) {
  const std::string text = smelt(planning("simulate", {"--op", "two-phase-commit", "--ranks", "0-3"})).out;
  for (const char* part : {" 0   ", " 3   ", "█", "▒", "sending"}) EXPECT_THAT(text, HasSubstr(part));
}

// digraph NAME { statements } with the four kinds of statements that Graphviz has.
void expect_graphviz(const std::string& text) {
  const std::string quoted = R"re("(?:[^"\\]|\\.)*")re", value = "(?:\\w+|" + quoted + ")";
  const std::string attributes = "\\[" + std::string("\\w+=") + value + "(?:, \\w+=" + value + ")*\\]";
  const std::regex statement("(?:\\w+(?: -> \\w+)?(?: " + attributes + ")?|\\w+=" + value + ");");
  const std::regex opening(R"((digraph|subgraph) \w+ \{)");
  std::istringstream lines(text);
  int depth = 0;
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (line == "}") {
      --depth;
    } else if (std::regex_match(line, opening)) {
      ++depth;
    } else {
      EXPECT_TRUE(std::regex_match(line, statement)) << line;
    }
  }
  EXPECT_EQ(depth, 0);
}

TEST(Screen, DotIsGraphviz) {
  for (const std::string operation : {"broadcast", "reduce", "barrier"}) {
    const Call call = smelt(planning("plan", {"--op", operation, "--dot"}));
    ASSERT_EQ(call.exit_code, 0) << call.err;
    EXPECT_THAT(call.out, StartsWith("digraph plan {\n"));
    expect_graphviz(call.out);
    EXPECT_THAT(call.out, HasSubstr(" -> "));
  }
  const Call drawn = shell("command -v dot > /dev/null || exit 0; $SMELT plan -m " + two_packages() +
                           " --op barrier --search-ms 0 --dot | dot -Tsvg | grep -q '</svg>'");
  EXPECT_EQ(drawn.exit_code, 0) << drawn.err;
}

}  // namespace
