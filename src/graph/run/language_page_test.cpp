// Compiles each example of docs/reference/graph-language.md, runs it on the page's graph, and compares its output with
// the page.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "graph/language/builtins.hpp"
#include "smelt/graph.hpp"
#include "smelt/green_marl.hpp"

namespace smelt::graph {
namespace {

std::string page() {
  std::ifstream file(std::string(SMELT_SOURCE_DIR) + "/docs/reference/graph-language.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The fenced blocks of one kind.
std::vector<std::string> blocks(const std::string& text, const std::string& kind) {
  std::vector<std::string> found;
  const std::string mark = "```" + kind + "\n";
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const auto first = at + mark.size();
    found.push_back(text.substr(first, text.find("```", first) - first));
  }
  return found;
}

/// The page lists edges in the order of their numbers.
std::pair<Graph, Column> page_graph(const std::string& edges) {
  std::vector<std::uint64_t> from, to;
  std::vector<std::int32_t> weight;
  std::istringstream words(edges);
  std::uint64_t a = 0, b = 0;
  for (std::int32_t w = 0; words >> a >> b >> w;) {
    from.push_back(a);
    to.push_back(b);
    weight.push_back(w);
  }
  return {*make_graph(4, from, to), Column::of<std::int32_t>("weight", weight)};
}

TEST(LanguagePage, ExamplesPrintWhatThePageSays) {
  const auto text = page();
  const auto programs = blocks(text, "green-marl"), outputs = blocks(text, "output"), edges = blocks(text, "edges");
  ASSERT_EQ(edges.size(), 1u);
  ASSERT_GE(programs.size(), 9u);
  ASSERT_EQ(programs.size(), outputs.size());
  std::string whole;
  for (const auto& each : programs) whole += each;
  const auto program = GreenMarl::parse("graph-language.md", whole);
  ASSERT_TRUE(program.good()) << program.formatted_messages();
  const auto compiled = program.compile(4, 4);
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto [graph, weights] = page_graph(edges.front());
  const std::regex name("\nProcedure ([a-z]+)");
  for (std::size_t i = 0; i < programs.size(); ++i) {
    std::smatch found;
    const std::string example = "\n" + programs[i];
    ASSERT_TRUE(std::regex_search(example, found, name)) << example;
    for (const int threads : {1, 3}) {
      Arguments arguments;
      arguments.graphs.emplace("G", graph);
      if (found[1] == "reductions") arguments.columns.emplace("weight", weights);
      RunOptions options;
      options.threads = threads;
      const auto result = compiled->run(found[1], arguments, options);
      ASSERT_TRUE(result) << found[1] << ": " << result.error().message;
      EXPECT_EQ(result->printed, outputs[i]) << found[1] << " with " << threads << " threads";
    }
  }
}

TEST(LanguagePage, HasEveryFunction) {
  const auto text = page();
  for (const auto& each : language::builtin_functions()) {
    EXPECT_TRUE(std::regex_search(text, std::regex("`" + std::string(each.name) + "[`(]"))) << each.name;
  }
}

}  // namespace
}  // namespace smelt::graph
