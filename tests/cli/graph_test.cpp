// smelt graph, as a user calls it: programs checked, explained, compiled and run; graphs converted, made up and
// counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "call.hpp"

namespace {

using testing::HasSubstr;

std::string content_of(const std::string& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

const std::string& square() {
  static const std::string file =
      scratch_file("square.wel", "# a square with a diagonal\n0 1 4\n0 2 1\n1 3 5\n2 1 2\n3 0 3\n");
  return file;
}

const std::string& reach() {
  static const std::string file =
      scratch_file("reach.gm",
                   "Procedure reach(G: Graph, root: Node, len: E_P<Int>; far: N_P<Int>, n: Int) : Double {\n"
                   "  G.far = 0;\n"
                   "  InBFS (v: G.Nodes From root) v.far = Sum(e: v.OutEdges){e.len};\n"
                   "  n = Count(v: G.Nodes)(v.far > 0);\n"
                   "  Print \"edges\", G.NumEdges();\n"
                   "  Return (Double) n / 2;\n"
                   "}\n");
  return file;
}

TEST(GraphCommand, RunsAProgramOnAFile) {
  const Call call = smelt({"graph", "run", reach(), square(), "root=0"});
  EXPECT_EQ(call.exit_code, 0) << call.err;
  EXPECT_THAT(call.out, HasSubstr("edges 5\n"));
  EXPECT_THAT(call.out, HasSubstr("returned  2.0"));
  EXPECT_THAT(call.out, HasSubstr("far       5 5 2 3"));
  EXPECT_THAT(call.out, HasSubstr("program compiled in"));
}

TEST(GraphCommand, RunHasThePromisedKeys) {
  const std::string file = scratch() + "/far.txt";
  const Json document = smelt({"graph", "run", reach(), square(), "0", "len=7", "--values", "2", "--repeat", "3",
                               "--output", "far=" + file + "2", "--output", "far=" + file, "--json"})
                            .json();
  EXPECT_EQ(document["procedure"], "reach");
  EXPECT_EQ(document["returned"], 2.0);
  EXPECT_EQ(document["values"]["n"], 4);
  EXPECT_EQ(document["properties"]["far"]["values"], Json({14, 7}));
  EXPECT_EQ(document["properties"]["far"]["size"], 4);
  EXPECT_EQ(document["graphs"]["G"]["edges"], 5);
  EXPECT_EQ(document["printed"], "edges 5\n");
  EXPECT_EQ(document["run_s"].size(), 3u);
  for (const char* key : {"load_s", "compile_s", "from_cache"}) EXPECT_TRUE(document.contains(key)) << key;
  for (const auto& written : {file, file + "2"}) EXPECT_EQ(content_of(written), "14\n7\n7\n7\n");
}

TEST(GraphCommand, ProgramsOfTheLibraryNeedNoCompiler) {
  const Words no_compiler = {"PATH=/nonexistent"};
  const Json document =
      smelt({"graph", "run", "hop_dist", square(), "root=2", "--values", "all", "--json"}, "", no_compiler).json();
  EXPECT_EQ(document["properties"]["dist"]["values"], Json({3, 1, 0, 2}));
  expect_one_line(smelt({"graph", "run", reach(), square(), "root=0"}, "", no_compiler), 1, "no C++ compiler");
}

TEST(GraphCommand, CompiledProgramsAreKept) {
  const std::string cache = "SMELT_CACHE_DIR=" + scratch() + "/programs";
  const Words call = {"graph", "run", reach(), square(), "root=1", "--json"};
  EXPECT_EQ(smelt(call, "", {cache}).json()["from_cache"], false);
  EXPECT_EQ(smelt(call, "", {cache}).json()["from_cache"], true);
  Words anew = call;
  anew.push_back("--no-cache");
  EXPECT_EQ(smelt(anew, "", {cache}).json()["from_cache"], false);
}

TEST(GraphCommand, CheckShowsTheLineWithACaret) {
  const std::string file = scratch_file("wrong.gm", "Procedure p(G: Graph) {\n  Int x = G.NumNodes()\n  y = 1;\n}\n");
  const Call call = smelt({"graph", "check", file});
  EXPECT_EQ(call.exit_code, 1);
  EXPECT_THAT(call.err, HasSubstr("wrong.gm:2:22: error: expected ';' at the end of the declaration, before 'y'\n"
                                  "    2 |   Int x = G.NumNodes()\n"
                                  "      |                      ^\n"));
  const Call as_json = smelt({"graph", "check", file, "--json"});
  EXPECT_EQ(as_json.exit_code, 1);
  const Json document = Json::parse(as_json.out);
  EXPECT_EQ(document["good"], false);
  EXPECT_EQ(document["messages"][0]["line"], 2);
  EXPECT_EQ(document["messages"][0]["column"], 22);
  EXPECT_EQ(document["messages"][0]["severity"], "error");
  const Json good = smelt({"graph", "check", reach(), "--json"}).json();
  EXPECT_EQ(good["procedures"][0]["signature"],
            "reach(G: Graph, root: Node, len: E_P<Int>; far: N_P<Int>, n: Int) : Double");
}

TEST(GraphCommand, ExplainHasArraysDecisionsAndPlacements) {
  const Json document = smelt({"graph", "explain", "hop_dist", "kron:8", "--model", two_packages(), "--json"}).json();
  EXPECT_EQ(document["procedure"], "hop_dist");
  ASSERT_EQ(document["arrays"].size(), 8u);
  const auto named = [&](const char* list, const char* key, const std::string& name) {
    for (const auto& each : document[list]) {
      if (each[key] == name) return each;
    }
    return Json();
  };
  EXPECT_EQ(named("arrays", "name", "nearer")["reads"], "kE + kE + kN");
  EXPECT_EQ(named("arrays", "name", "dist")["indexed"], true);
  EXPECT_EQ(named("placements", "array", "frontier")["placement"], "partitioned");
  EXPECT_EQ(named("placements", "array", "node_idx")["placement"], "replicated");
  EXPECT_EQ(named("placements", "array", "nearer")["placement"], "interleaved");
  EXPECT_GT(document["decisions"].size(), 0u);
  EXPECT_THAT(smelt({"graph", "explain", "hop_dist"}).out, HasSubstr("kE + kE + kN"));
}

TEST(GraphCommand, CompileWritesCppAndLibraries) {
  const Call text = smelt({"graph", "compile", reach()});
  EXPECT_THAT(text.out, HasSubstr("#include <smelt/graph_program.hpp>"));
  EXPECT_THAT(text.out, HasSubstr("// 3 | InBFS (v: G.Nodes From root)"));
  const std::string file = scratch() + "/reach.cpp", library = scratch() + "/reach.so";
  EXPECT_EQ(smelt({"graph", "compile", reach(), "-o", file}).exit_code, 0);
  EXPECT_EQ(content_of(file), text.out);
  EXPECT_EQ(smelt({"graph", "compile", reach(), "-o", library}).exit_code, 0);
  EXPECT_TRUE(
      content_of(library).starts_with("\x7f"
                                      "ELF"));
}

TEST(GraphCommand, GraphsAreMadeConvertedAndCounted) {
  const std::string made = scratch() + "/k.smg";
  EXPECT_EQ(smelt({"graph", "generate", "kron:8:seed=3", made, "--in-edges"}).exit_code, 0);
  const Json first = smelt({"graph", "stats", made, "--json"}).json();
  EXPECT_EQ(first["nodes"], 256);
  EXPECT_EQ(first["symmetric"], true);
  EXPECT_EQ(first["loops"], 0);
  const std::string plain = scratch() + "/k.mtx";
  const Json converted = smelt({"graph", "convert", made, plain, "--json"}).json();
  EXPECT_EQ(converted["edges"], first["edges"]);
  EXPECT_EQ(smelt({"graph", "stats", plain, "--json"}).json()["out_degree"], first["out_degree"]);
  EXPECT_EQ(smelt({"graph", "stats", "kron:8:seed=3", "--threads", "3", "--json"}).json()["out_degree"],
            first["out_degree"]);
}

TEST(GraphCommand, MistakesCostOneLine) {
  const std::string bad = scratch_file("bad.el", "0 1\n1 x\n");
  const struct {
    Words words;
    int exit_code;
    std::string says;
  } mistakes[] = {
      {{"graph"}, 2, "graph"},
      {{"graph", "rn"}, 2, "did you mean 'run'?"},
      {{"graph", "run"}, 2, "run what?"},
      {{"graph", "run", "pagerank"}, 2, "graph"},
      {{"graph", "run", "pagerankk", "kron:4"}, 1, "no program 'pagerankk' (there are "},
      {{"graph", "run", "/nonexistent.gm", "kron:4"}, 1, "/nonexistent.gm"},
      {{"graph", "run", "hop_dist", "/nonexistent.el", "root=0"}, 1, "/nonexistent.el"},
      {{"graph", "run", "hop_dist", bad, "root=0"}, 1, "bad.el:2:"},
      {{"graph", "run", "hop_dist", "kron:4"}, 2, "needs a value for 'root: Node'"},
      {{"graph", "run", "hop_dist", "kron:4", "root=16"}, 2, "the graph has 16 nodes"},
      {{"graph", "run", "hop_dist", "kron:4", "rot=1"}, 2, "did you mean 'root'?"},
      {{"graph", "run", "hop_dist", "kron:4", "root=one"}, 2, "a number, or NIL"},
      {{"graph", "run", "hop_dist", "kron:4", "root=1", "--output", "x=y"}, 2, "no property 'x'"},
      {{"graph", "run", "hop_dist", "kron:4", "root=1", "root=2"}, 2, "root=2: 'root' has a value already"},
      {{"graph", "run", "hop_dist", "kron:4", "root=1", "2"}, 2, "root=2: 'root' has a value already"},
      {{"graph", "run", "hop_dist", "kron:x", "root=1"}, 2, "kron:x"},
      {{"graph", "run", "hop_dist", "kron:4", "root=1", "--push", "--pull"}, 2, "one of them"},
      {{"graph", "compile", "bfs", "-o", "x.py"}, 2, "must end in .cpp or .so"},
      {{"graph", "convert", "kron:4"}, 2, "convert what?"},
      {{"graph", "convert", "kron:4", scratch() + "/a.unknown"}, 2, "a.unknown"},
      {{"graph", "explain", "bfs", "--procedure", "x"}, 2, "no such procedure"},
  };
  for (const auto& mistake : mistakes) {
    SCOPED_TRACE(testing::PrintToString(mistake.words));
    const Call call = smelt(mistake.words);
    EXPECT_EQ(call.exit_code, mistake.exit_code) << call.err;
    EXPECT_THAT(call.err, HasSubstr(mistake.says));
    EXPECT_EQ(call.out, "");
  }
  EXPECT_EQ(smelt({"graph", "run", reach(), square(), "root=0", "--threads", "99999"}).exit_code, 2);
}

TEST(GraphCommand, WholeNumbersOfFilesKeepAllDigits) {
  const std::string show = scratch_file(
      "show.gm", "Procedure show(G: Graph, a: N_P<Int>, b: N_P<Long>) { For (v: G.Nodes) Print v.a, v.b; }\n");
  const auto with = [&](const std::string& a, const std::string& b) {
    return smelt({"graph", "run", show, square(), "a=@" + scratch_file("a.txt", a), "b=@" + scratch_file("b.txt", b)});
  };
  const std::string good = "0\n0\n0\n0\n";
  EXPECT_THAT(with("-INF\n# five\n5\n+INF\n-3.0\n", "9007199254740993\n-INF\n+7\ninf\n").out,
              HasSubstr("-INF 9007199254740993\n5 -INF\n+INF 7\n-3 +INF\n"));
  EXPECT_THAT(with("1e3\ntrue\n-2147483647\n2147483646\n", "-9223372036854775806\n1\n2\n3\n").out,
              HasSubstr("1000 -9223372036854775806\n1 1\n-INF 2\n2147483646 3\n"));
  EXPECT_THAT(with("1\r\n2\r\n\r\n3\r\n4\r\n", good).out, HasSubstr("1 0\n2 0\n3 0\n4 0\n"));
  for (const std::string wrong : {"1e30", "0.5", "2147483648", "-2147483649", "nan", "NIL", "x"}) {
    expect_one_line(with("1\n" + wrong + "\n2\n3\n", good), 1,
                    "a.txt:2: '" + wrong + "' is not a whole number of 32 bits, as 'a: N_P<Int>' needs");
  }
  for (const std::string wrong : {"1e30", "9007199254740994.0", "9223372036854775808", "-1e19", "0.5"}) {
    expect_one_line(with(good, "1\n" + wrong + "\n2\n3\n"), 1,
                    "b.txt:2: '" + wrong + "' is not a whole number of 64 bits, as 'b: N_P<Long>' needs");
  }
}

TEST(GraphCommand, NanIsNotNil) {
  const std::string file = scratch() + "/rank.txt";
  Words words = {"graph", "run", "pagerank", square(), "damping=nan", "tolerance=0", "max_iterations=1"};
  words.insert(words.end(), {"--output", "rank=" + file});
  EXPECT_THAT(smelt(words).out, HasSubstr("nan nan nan nan"));
  EXPECT_EQ(content_of(file), "nan\nnan\nnan\nnan\n");
  words.push_back("--json");
  EXPECT_TRUE(smelt(words).json()["properties"]["rank"]["values"][0].is_null());
}

TEST(GraphCommand, DevicesAreWrittenToAndNotReplaced) {
  const std::filesystem::path full = "/dev/full";
  if (!std::filesystem::is_character_file(full)) GTEST_SKIP() << "no /dev/full";
  for (const Words& words : {Words{"graph", "run", "hop_dist", "kron:4", "root=1", "--output", "dist=/dev/full"},
                             Words{"graph", "generate", "kron:4", "/dev/full", "--to", "edge-list"}}) {
    const Call call = smelt(words);
    EXPECT_EQ(call.exit_code, 1) << call.err;
    EXPECT_THAT(call.err, HasSubstr("/dev/full: cannot"));
    EXPECT_TRUE(std::filesystem::is_character_file(full));
  }
}

}  // namespace
