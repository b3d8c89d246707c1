// What programs read: the JSON of every command, its keys, and that it can be read back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "call.hpp"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char* const operations[] = {"broadcast", "reduce", "barrier", "allreduce", "two-phase-commit"};

Json plan(const Words& more) {
  Words words = {"plan", "-m", two_packages(), "--search-ms", "5", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const Call call = smelt(words);
  EXPECT_EQ(call.exit_code, 0) << call.err;
  EXPECT_EQ(call.err, "");
  return call.json();
}

// Every rank but the root is the child of exactly one.
void expect_spanning(const Json& children, int root) {
  std::multiset<int> seen = {root};
  for (const auto& list : children) {
    for (const auto& child : list) seen.insert(child.get<int>());
  }
  EXPECT_EQ(seen.size(), children.size());
  EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), children.size());
}

// The same call with the operation as a word, as --op, and as both.
std::vector<Json> by_word_and_option(const Words& call, const std::string& operation) {
  std::vector<Json> documents;
  for (const Words& named : {Words{operation}, Words{"--op", operation}, Words{operation, "--op", operation}}) {
    Words words = call;
    words.insert(words.begin() + 1, named.begin(), named.end());
    words.insert(words.end(), {"-m", two_packages(), "--json"});
    const Call made = smelt(words);
    EXPECT_EQ(made.exit_code, 0) << made.err;
    documents.push_back(made.json());
  }
  return documents;
}

TEST(Documents, AnOperationIsAWordOrAnOption) {
  for (const std::string operation : operations) {
    SCOPED_TRACE(operation);
    for (const Words& call : {Words{"plan", "--topology", "binary"}, Words{"simulate", "--topology", "binary"}}) {
      for (const Json& document : by_word_and_option(call, operation)) EXPECT_EQ(document["operation"], operation);
    }
    for (const Json& document : by_word_and_option({"compare", "--search-ms", "0"}, operation)) {
      ASSERT_EQ(document.size(), 1u);
      EXPECT_EQ(document.begin().key(), operation);
    }
  }
  for (const Json& document : by_word_and_option({"explain", "--bytes", "64"}, "allreduce")) {
    EXPECT_EQ(document["operation"], "allreduce");
  }
  EXPECT_EQ(smelt({"compare", "reduce,barrier", "-m", two_packages(), "--search-ms", "0", "--json"}).json().size(), 2u);
}

TEST(Documents, PlanHasThePromisedKeys) {
  for (const std::string operation : operations) {
    SCOPED_TRACE(operation);
    const Json document = plan({"--op", operation, "--topology", "binary", "--ranks", "0-5,9"});
    EXPECT_EQ(document["operation"], operation);
    EXPECT_EQ(document["topology"], "binary");
    EXPECT_EQ(document["pus"], Json({0, 1, 2, 3, 4, 5, 9}));
    ASSERT_TRUE(document["root"].is_number_integer());
    ASSERT_EQ(document["children"].size(), 7u);
    expect_spanning(document["children"], document["root"]);
    ASSERT_EQ(document["arrival_ns"].size(), 7u);
    ASSERT_TRUE(document["predicted_ns"].is_number());
    const Json& arrival = document["arrival_ns"];
    EXPECT_DOUBLE_EQ(*std::max_element(arrival.begin(), arrival.end()), document["predicted_ns"]);
    EXPECT_TRUE(document["lower_bound_ns"].is_null() || document["lower_bound_ns"].is_number());
    EXPECT_TRUE(document["optimal"].is_boolean());
    EXPECT_TRUE(document["search_ms"].is_number());
    EXPECT_EQ(document.contains("reduce_children"), operation != "broadcast" && operation != "reduce");
    if (document.contains("reduce_children")) expect_spanning(document["reduce_children"], document["root"]);
  }
}

TEST(Documents, ACommitMayExchangeItsVotes) {
  const Json document = plan({"--op", "two-phase-commit", "--ranks", "0,1", "--steps"});
  EXPECT_EQ(document["votes"], "recursive doubling");
  EXPECT_FALSE(document.contains("reduce_children"));
  expect_spanning(document["children"], document["root"]);
  const Call call = smelt({"simulate", "-m", two_packages(), "--plan", "-", "--json"}, document.dump());
  ASSERT_EQ(call.exit_code, 0) << call.err;
  EXPECT_NEAR(call.json()["total_ns"].get<double>(), document["predicted_ns"].get<double>(), 1e-6);

  Json other = document;
  other["votes"] = "by letter";
  const Call refused = smelt({"simulate", "-m", two_packages(), "--plan", "-"}, other.dump());
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("votes"), std::string::npos) << refused.err;
}

TEST(Documents, DisseminationHasNoTree) {
  const Json document = plan({"--op", "barrier", "--topology", "dissemination", "--ranks", "0-3", "--steps"});
  const Json nobody = Json::array();
  EXPECT_EQ(document["children"], Json::array({nobody, nobody, nobody, nobody}));
  EXPECT_EQ(document["steps"].size(), 4u);
  EXPECT_EQ(document["steps"][0][0]["kind"], "send");
}

TEST(Documents, RootIsObeyed) {
  EXPECT_EQ(plan({"--root", "3"})["root"], 3);
  EXPECT_EQ(plan({"--op", "reduce", "--root", "0"})["root"], 0);
}

TEST(Documents, RanksAreInTheGivenOrder) {
  EXPECT_EQ(plan({"--ranks", "9,3-1"})["pus"], Json({9, 3, 2, 1}));
  EXPECT_EQ(plan({"--ranks", "cores"})["pus"].size(), 8u);
  EXPECT_EQ(plan({})["pus"].size(), 16u);
}

TEST(Documents, SimulateRepeatsThePlan) {
  for (const std::string operation : operations) {
    for (const std::string topology : {"best", "cluster", "dissemination"}) {
      if (topology == "dissemination" && operation != "barrier" && operation != "allreduce") continue;
      SCOPED_TRACE(operation + " " + topology);
      const Json planned = plan({"--op", operation, "--topology", topology});
      const Call call = smelt({"simulate", "-m", two_packages(), "--plan", "-", "--json"}, planned.dump());
      ASSERT_EQ(call.exit_code, 0) << call.err;
      const Json simulated = call.json();
      EXPECT_EQ(simulated["operation"], operation);
      ASSERT_EQ(simulated["arrival_ns"].size(), planned["arrival_ns"].size());
      for (std::size_t rank = 0; rank < planned["arrival_ns"].size(); ++rank) {
        EXPECT_NEAR(simulated["arrival_ns"][rank].get<double>(), planned["arrival_ns"][rank].get<double>(), 1e-6);
      }
      EXPECT_NEAR(simulated["total_ns"].get<double>(), planned["predicted_ns"].get<double>(), 1e-6);
      EXPECT_TRUE(simulated["completion_ns"].is_number());
      ASSERT_FALSE(simulated["timeline"].empty());
      for (const char* key : {"rank", "kind", "peer", "start_ns", "end_ns"}) {
        EXPECT_TRUE(simulated["timeline"][0].contains(key)) << key;
      }
    }
  }
}

TEST(Documents, APlanRunsOnAnotherMachine) {
  const std::string slow = scratch() + "/slow.json";
  ASSERT_EQ(
      smelt({"synth", "--packages", "2", "--cores", "4", "--smt", "2", "--remote-ns", "2200", "-o", slow}).exit_code,
      0);
  const Json planned = plan({"--topology", "sequential", "--root", "0"});
  const Json there = smelt({"simulate", "-m", slow, "--plan", "-", "--json"}, planned.dump()).json();
  EXPECT_GT(there["total_ns"].get<double>(), planned["predicted_ns"].get<double>());
}

TEST(Documents, CompareRanksEveryTree) {
  const Call call = smelt({"compare", "-m", two_packages(), "--search-ms", "2", "--json"});
  ASSERT_EQ(call.exit_code, 0) << call.err;
  const auto document = nlohmann::ordered_json::parse(call.out);
  ASSERT_EQ(document.size(), 5u);
  for (const char* operation : operations) {
    SCOPED_TRACE(operation);
    const auto& ranking = document.at(operation);
    EXPECT_GE(ranking.size(), 8u);
    ASSERT_TRUE(ranking.contains("best"));
    double before = 0;
    for (const auto& [topology, ns] : ranking.items()) {
      EXPECT_GE(ns.get<double>(), before) << topology;
      EXPECT_LE(ranking["best"].get<double>(), ns.get<double>() * (1 + 1e-9)) << topology;
      before = ns.get<double>();
    }
  }
  const Json some = smelt({"compare", "-m", two_packages(), "--op", "reduce", "--search-ms", "0", "--json"}).json();
  EXPECT_EQ(some.size(), 1u);
}

TEST(Documents, CompareRanksMaps) {
  const Json document =
      smelt({"compare", "--maps", "-m", two_packages(), "--lookups", "0.9,1", "--keys", "1e5", "--json"}).json();
  EXPECT_EQ(document["platform"]["replicas"], 2);
  ASSERT_EQ(document["panels"].size(), 2u);
  EXPECT_EQ(document["panels"][1]["load"]["lookups"], 1.0);
  const Json& panel = document["panels"][0];
  EXPECT_EQ(panel["load"]["lookups"], 0.9);
  EXPECT_EQ(panel["load"]["keys"], 1e5);
  EXPECT_EQ(panel["axis"], "cores");
  EXPECT_EQ(panel["cores"], 16);
  EXPECT_EQ(panel["x"].back(), 16);
  EXPECT_EQ(panel["algorithms"].size(), 7u) << "all that are linearizable";
  for (const auto& [name, curve] : panel["algorithms"].items()) {
    ASSERT_EQ(curve["per_s"].size(), panel["x"].size()) << name;
    EXPECT_GT(curve["per_s"].back(), 0.0) << name;
    EXPECT_EQ(curve["servers"].back() > 0, name != "rep_2pc" && name != "shared" && name != "kv") << name;
  }
  EXPECT_EQ(panel["ranges"][0]["from_lookups"], 0.0);
}

TEST(Documents, CompareDrawsThePublishedFigures) {
  const Json all = smelt({"compare", "--maps", "--figure", "all", "--json"}).json();
  std::set<std::string> names;
  for (const auto& panel : all["panels"]) names.insert(panel["name"]);
  EXPECT_THAT(names,
              testing::ElementsAre("3.19a", "3.19b", "3.20a", "3.20b", "3.20c", "3.20d", "3.20e", "3.20f", "3.21a",
                                   "3.21b", "3.22a", "3.22b", "3.23a", "3.23b", "3.24a", "3.24b", "3.24c"));
  const auto last = [&](const std::string& figure, const std::string& algorithm) {
    for (const auto& panel : all["panels"]) {
      if (panel["name"] == figure) return panel["algorithms"][algorithm]["per_s"].back().get<double>() / 1e6;
    }
    return 0.0;
  };
  EXPECT_NEAR(last("3.20f", "rep_local"), 1930, 2);
  EXPECT_NEAR(last("3.20a", "part_simple"), 1194, 2);
  EXPECT_NEAR(last("3.21a", "rep_local"), 684, 1);
  EXPECT_GT(last("3.21b", "part_caching"), last("3.21b", "rep_local"));
  EXPECT_NEAR(last("3.22b", "part_caching"), 2758, 30);
  EXPECT_NEAR(last("3.23b", "rep_sc"), 2774, 2);
  EXPECT_GT(last("3.24a", "colocated"), last("3.24a", "part_simple"));
  EXPECT_EQ(all["panels"][0]["axis"], "servers");
  EXPECT_EQ(all["panels"][0]["x"].size(), 35u);
  EXPECT_EQ(smelt({"compare", "--maps", "--figure", "3.20", "--json"}).json()["panels"].size(), 6u);
}

TEST(Documents, ExplainMapNamesAMapAndTheReason) {
  const Words words = {"explain", "map", "--lookups", "0.99", "--keys", "1e6", "-m", two_packages(), "--json"};
  const Json document = smelt(words).json();
  EXPECT_EQ(document["map"]["lookups"], 0.99);
  EXPECT_EQ(document["map"]["keys"], 1e6);
  EXPECT_EQ(document["map"]["bytes_per_key"], 64);
  EXPECT_EQ(document["cores"], 8);
  EXPECT_EQ(document["from"], "model");
  EXPECT_EQ(document["algorithm"], document["candidates"][0]["algorithm"]);
  EXPECT_EQ(document["candidates"].size(), 7u);
  ASSERT_EQ(document["left_out"].size(), 1u);
  EXPECT_EQ(document["left_out"][0], Json({{"algorithm", "rep_sc"}, {"reason", "only sequential"}}));
  double before = document["candidates"][0]["per_s"];
  for (const auto& each : document["candidates"]) {
    EXPECT_LE(each["per_s"], before);
    before = each["per_s"];
    for (const char* key : {"clients", "servers", "clients_per_s", "lookup_ns", "update_ns", "overlapped_ns", "limit",
                            "consistency", "survives", "waits_for_everyone"}) {
      EXPECT_TRUE(each.contains(key)) << key;
    }
  }
  const Json strict =
      smelt({"explain", "map", "--faults", "stop", "--bytes", "100", "--ranks", "4", "-m", two_packages(), "--json"})
          .json();
  EXPECT_EQ(strict["candidates"].size(), 1u);
  EXPECT_EQ(strict["map"]["bytes_per_key"], 256);
  EXPECT_EQ(strict["cores"], 4);
  const Json far = smelt({"explain", "map", "--platform", "tile-gx", "--json"}).json();
  EXPECT_EQ(far["platform"]["name"], "tile-gx");
  EXPECT_EQ(far["cores"], 36);
  EXPECT_EQ(far["left_out"].size(), 2u);
}

TEST(Documents, SimulateLogComparesTreesAndSequences) {
  const Json document = smelt({"simulate", "log", "-m", two_packages(), "--replicas", "8,12", "--json"}).json();
  ASSERT_EQ(document["log"].size(), 8u);
  const Json& first = document["log"][0];
  EXPECT_EQ(first["algorithm"], "1paxos");
  EXPECT_EQ(first["replicas"], 8);
  EXPECT_NE(first["leader_pu"], first["acceptor_pu"]);
  EXPECT_GT(first["per_s"], 0.0);
  EXPECT_TRUE(document["log"][2]["acceptor_pu"].is_null()) << "a broadcast has none";
}

TEST(Documents, BenchMeasuresMapsBesideTheModel) {
  const Json document =
      smelt({"bench", "map", "-m", two_packages(), "--threads", "2", "--only", "shared,rep_sc,kv", "--lookups", ".9",
             "--keys", "10", "--skew", "0,.99", "--starts", "1", "--time", "60ms", "--json"})
          .json();
  ASSERT_EQ(document["cells"].size(), 2u);
  const Json& cell = document["cells"][0];
  ASSERT_EQ(cell["results"].size(), 3u);
  for (const auto& each : cell["results"]) {
    EXPECT_GT(each["per_s"], 0.0);
    EXPECT_GT(each["predicted_per_s"], 0.0);
  }
  EXPECT_GE(cell["chosen_ratio"], 1.0);
}

TEST(Documents, BenchMeasuresTheLog) {
  const Json document =
      smelt({"bench", "log", "-m", two_packages(), "--threads", "2", "--starts", "1", "--time", "80ms", "--json"})
          .json();
  ASSERT_EQ(document["results"].size(), 8u);
  for (const auto& each : document["results"]) EXPECT_GT(each["per_s"], 0.0);
}

TEST(Documents, CompletionCostsMore) {
  const Words words = {"plan", "-m", two_packages(), "--topology", "binary", "--root", "0", "--json"};
  Words with = words;
  with.push_back("--completion");
  EXPECT_GT(smelt(with).json()["predicted_ns"].get<double>(), smelt(words).json()["predicted_ns"].get<double>());
}

TEST(Documents, MachinesGoThroughPipes) {
  const Call made = smelt({"synth", "--cores", "4", "--name", "piped"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.json()["schema"], "smelt-machine/1");
  const Json shown = smelt({"show", "-", "--json"}, made.out).json();
  EXPECT_EQ(shown["name"], "piped");
  EXPECT_EQ(shown["send_ns"].size(), 4u);
  ASSERT_FALSE(shown["classes"].empty());
  EXPECT_EQ(smelt({"plan", "-m", "-", "--search-ms", "0", "--json"}, made.out).json()["machine"]["name"], "piped");
  EXPECT_EQ(smelt({"show", "-"}, smelt({"show", "-", "--json"}, made.out).out).exit_code, 0);
}

TEST(Documents, SynthTakesCostsPerLevel) {
  const Json machine = smelt({"synth", "--packages", "2", "--cores", "2", "--smt", "2", "--smt-ns", "8", "--l3-ns",
                              "40", "--remote-ns", "400", "--send-share", "0.5"})
                           .json();
  ASSERT_EQ(machine["pus"].size(), 8u);
  EXPECT_DOUBLE_EQ(machine["send_ns"][0][1].get<double>(), 4);
  EXPECT_DOUBLE_EQ(machine["send_ns"][0][2].get<double>(), 20);
  EXPECT_DOUBLE_EQ(machine["recv_ns"][0][7].get<double>(), 200);
}

TEST(Documents, ImportReadsTheKindFromThePath) {
  const std::string csv = scratch_file("four.csv", ",,,\n20,,,\n100,100,,\n100,100,20,\n");
  const std::string file = scratch() + "/four.json";
  const Call text = smelt({"import", csv, "-o", file});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr(file));
  const Json machine = smelt({"import", "core-to-core", csv, "--send-share", "0.5", "--json"}).json();
  EXPECT_EQ(machine["method"], "core-to-core");
  EXPECT_DOUBLE_EQ(machine["send_ns"][0][1].get<double>(), 10);
  EXPECT_DOUBLE_EQ(machine["recv_ns"][0][3].get<double>(), 50);
}

TEST(Documents, ImportReadsStandardInput) {
  const std::string table = "   CPU    0    1\n     0    0   40\n     1   40    0\n";  // as c2clat prints it
  for (const Words& words : {Words{"import", "-", "--json"}, {"import", "c2clat", "-", "--json"}}) {
    const Json machine = smelt(words, table).json();
    EXPECT_EQ(machine["method"], "c2clat");
    EXPECT_DOUBLE_EQ(machine["send_ns"][0][1].get<double>(), 10);
  }
  expect_one_line(smelt({"import", "-"}, ""), 1, "/dev/stdin: the file is empty");
  expect_one_line(smelt({"import", "memory", "-", "-m", "-"}, "{}"), 2, "standard input is the machine already");
}

TEST(Documents, SettingsListTheTable) {
  const Json document = smelt({"settings", "--json"}, "", {"SMELT_WAIT=yield"}).json();
  EXPECT_TRUE(document["problems"].empty());
  const auto& list = document["settings"];
  const auto wait =
      std::find_if(list.begin(), list.end(), [](const Json& each) { return each["name"] == "SMELT_WAIT"; });
  ASSERT_NE(wait, list.end());
  EXPECT_EQ((*wait)["value"], "yield");
  EXPECT_EQ((*wait)["set"], true);
}

TEST(Documents, MeasureSavesTheModel) {
  const std::string file = scratch() + "/measured.json";
  const Words cache = {"XDG_CACHE_HOME=" + scratch() + "/measured-cache"};
  const Call call = smelt({"measure", "--quick", "--budget", "3s", "-o", file, "--json"}, "", cache);
  ASSERT_EQ(call.exit_code, 0) << call.err;
  EXPECT_EQ(call.err, "") << "no progress on a pipe";
  const Json document = call.json();
  EXPECT_EQ(document["schema"], "smelt-machine/1");
  ASSERT_EQ(document["files"].size(), 2u);
  for (const auto& each : document["files"]) EXPECT_TRUE(std::filesystem::exists(each.get<std::string>())) << each;
  EXPECT_EQ(smelt({"measure", "--if-needed", "--json"}, "", cache).json()["measured"], false);
  EXPECT_EQ(smelt({"show", "--json"}, "", cache).json()["measured_at"], document["measured_at"]);
  EXPECT_EQ(smelt({"show", file}).exit_code, 0);
}

TEST(Documents, MeasureInAMaskKeepsTheModelOfAllPus) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one PU";
  const Words cache = {"XDG_CACHE_HOME=" + scratch() + "/masked-cache"};
  const Json whole = smelt({"measure", "--quick", "--budget", "1s", "--json"}, "", cache).json();
  if (whole["pus"].size() < 2) GTEST_SKIP() << "one PU";
  const std::string first = std::to_string(whole["pus"][0]["os_index"].get<int>());
  const Call part = shell("XDG_CACHE_HOME=" + scratch() + "/masked-cache taskset -c " + first +
                          " $SMELT measure --quick --budget 1s --json");
  ASSERT_EQ(part.exit_code, 0) << part.err;
  EXPECT_EQ(part.json()["pus"].size(), 1u);
  EXPECT_NE(part.json()["files"], whole["files"]);
  EXPECT_EQ(smelt({"show", "--json"}, "", cache).json()["measured_at"], whole["measured_at"]);
}

// What there is no time for is named.
TEST(Documents, MeasureSaysWhatItLeftOut) {
  const Words cache = {"XDG_CACHE_HOME=" + scratch() + "/short-cache"};
  const Call call = smelt({"measure", "--quick", "--budget", "1s", "--json"}, "", cache);
  ASSERT_EQ(call.exit_code, 0) << call.err;
  const Json document = call.json();
  ASSERT_TRUE(document.contains("left_out"));
  const auto lacks = [&](const char* key) { return !document.contains(key) || document.at(key).is_null(); };
  const std::string named = document.at("left_out").dump();
  EXPECT_EQ(named.find("memory (") != std::string::npos, lacks("memory")) << named;
  EXPECT_EQ(named.find("copies (") != std::string::npos, lacks("copy")) << named;
}

TEST(Documents, MeasureReportsDifferencesFromTheFormerModel) {
  const Words cache = {"XDG_CACHE_HOME=" + scratch() + "/differs-cache"};
  const Words words = {"measure", "--quick", "--budget", "1s", "--json"};
  const Call first = smelt(words, "", cache);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  Json document = first.json();
  const std::string file = document["files"][0];
  if (document["pus"].size() < 2) GTEST_SKIP() << "one PU";
  for (const char* key : {"measured", "elapsed_s", "files"}) document.erase(key);
  for (auto& row : document["rtt_ns"]) {
    for (auto& each : row) each = each.get<double>() * 1000;
  }
  std::ofstream(file) << document;
  const Call second = smelt(words, "", cache);
  EXPECT_EQ(second.exit_code, 0);
  EXPECT_THAT(second.err, HasSubstr("measure: PU "));
  EXPECT_THAT(second.err, HasSubstr("measure again"));
}

TEST(Documents, BenchHasThePromisedKeys) {
  if (!SMELT_HAS_BENCH) GTEST_SKIP() << "built without benchmarks";
  const Call call =
      smelt({"bench", "barrier", "--threads", "2", "--time", "200ms", "--only", "smelt,pthread", "--json"});
  ASSERT_EQ(call.exit_code, 0) << call.err;
  const Json document = call.json();
  EXPECT_EQ(document["benchmark"], "barrier");
  EXPECT_EQ(document["threads"], 2);
  EXPECT_TRUE(document["machine"].contains("fingerprint"));
  EXPECT_TRUE(document["commit"].is_string());
  ASSERT_FALSE(document["results"].empty());
  EXPECT_EQ(document["results"][0]["name"], "smelt");
  for (const char* key : {"median_ns", "p99_ns", "spread", "floor_ratio"}) {
    EXPECT_TRUE(document["results"][0].contains(key)) << key;
  }
  EXPECT_EQ(document["processes"], false);
  EXPECT_FALSE(document.contains("late_rank"));
}

TEST(Documents, BenchReportsConfidence) {
  if (!SMELT_HAS_BENCH) GTEST_SKIP() << "built without benchmarks";
  const Call call = smelt({"bench", "barrier", "--threads", "2", "--time", "400ms", "--only", "smelt,pthread",
                           "--starts", "2", "--most-starts", "4", "--json"});
  ASSERT_EQ(call.exit_code, 0) << call.err;
  const Json document = call.json();
  EXPECT_EQ(document["reference"], "smelt");
  EXPECT_GE(document["starts"], 2);
  EXPECT_LE(document["starts"], 4);
  EXPECT_EQ(document["floors"].size(), document["starts"]);
  EXPECT_TRUE(document["floors"][0].contains("line_ns"));
  EXPECT_TRUE(document["retaken"].is_number_integer());
  EXPECT_TRUE(document["unsteady"].is_number_integer());
  ASSERT_EQ(document["results"].size(), 2u);
  EXPECT_FALSE(document["results"][0].contains("verdict"));
  const Json& rival = document["results"][1];
  EXPECT_TRUE(rival["verdict"].is_string());
  EXPECT_LE(rival["ratio"]["low"], rival["ratio"]["median"]);
  EXPECT_LE(rival["ratio"]["median"], rival["ratio"]["high"]);
  EXPECT_EQ(smelt({"bench", "barrier", "--starts", "5", "--most-starts", "4"}).exit_code, 2);
}

/// A copy of the command, whose only peer is this script.
std::string command_with_a_peer(const std::string& name, const std::string& script) {
  const std::string prefix = scratch() + "/" + name, peer = prefix + "/libexec/smelt/peers/pthread";
  std::filesystem::create_directories(prefix + "/libexec/smelt/peers");
  std::filesystem::create_directories(prefix + "/bin");
  std::filesystem::copy_file(SMELT_COMMAND, prefix + "/bin/smelt", std::filesystem::copy_options::overwrite_existing);
  std::ofstream(peer) << "#!/bin/sh\n" << script;
  std::filesystem::permissions(peer, std::filesystem::perms::owner_all);
  return prefix + "/bin/smelt";
}

/// Its peer's samples have nothing left.
std::string command_with_an_idle_peer() {
  return command_with_a_peer(
      "idle-peer",
      "echo info method loop; echo ready\n"
      "while read word number; do [ $word = quit ] && exit; echo series time 0 0 7; echo done; done\n");
}

TEST(Documents, BenchDoesNotCallNothingATime) {
  if (!SMELT_HAS_BENCH) GTEST_SKIP() << "built without benchmarks";
  const std::string bench =
      command_with_an_idle_peer() + " bench barrier --threads 2 --only pthread --starts 2 --time 100ms";
  const Call told = shell(bench + " --json");
  ASSERT_EQ(told.exit_code, 0) << told.err;
  const Json result = told.json()["results"][0];
  EXPECT_EQ(result["name"], "pthread");
  for (const char* key : {"median_ns", "p99_ns", "spread", "floor_ratio"}) EXPECT_TRUE(result[key].is_null()) << key;
  EXPECT_EQ(result["starts_ns"], Json::array({nullptr, nullptr}));
  EXPECT_FALSE(result.contains("ratio"));
  const Call shown = shell(bench);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, testing::ContainsRegex("pthread +not timed +- +- +- +-"));
  EXPECT_THAT(shown.out, testing::Not(HasSubstr("0.0 ns")));
}

TEST(Documents, BenchSaysThatNothingWasMeasured) {
  if (!SMELT_HAS_BENCH) GTEST_SKIP() << "built without benchmarks";
  const std::string command = command_with_a_peer("failing-peer", "exit 3\n");
  for (const std::string only : {"pthread", "mpich"}) {
    const Call call = shell(command + " bench barrier --threads 2 --starts 1 --time 100ms --only " + only);
    EXPECT_EQ(call.exit_code, 0);
    EXPECT_THAT(call.out, testing::EndsWith("\n\n  no contestant was measured\n"));
    EXPECT_THAT(call.out, testing::Not(HasSubstr("samples"))) << "a header without rows";
    EXPECT_THAT(call.err, HasSubstr(only == "pthread" ? "pthread: left out: exited with status 3" : "not installed"));
  }
}

TEST(Documents, ShowLooksAtTheFloorAndAdvisesToTuneAgain) {
  const std::string directory = scratch() + "/floor-cache";
  const Words cache = {"SMELT_CACHE_DIR=" + directory};
  const Call before = smelt({"show", "--floor", "--json"}, "", cache);
  ASSERT_EQ(before.exit_code, 0) << before.err;
  EXPECT_GT(before.json()["floor"]["work_ns"].get<double>(), 0.0);
  EXPECT_TRUE(before.json()["profile"].is_null());
  const Json machine = smelt({"show", "--json"}, "", cache).json();
  EXPECT_TRUE(machine["floor"].contains("line_ns"));

  const auto advised = [&](const std::string& floor) {
    std::filesystem::create_directories(directory);
    std::ofstream(directory + "/" + machine["fingerprint"].get<std::string>() + ".profile.json")
        << R"({"schema": "smelt-profile/1", "fingerprint": )" << machine["fingerprint"]
        << R"(, "measured_at": "2026-01-02T03:04:05Z", "tables": [{"operation": "allreduce", "sync": "loose", "ranks": 2, )"
        << R"("packages": 1, "l3_caches": 1, "ranks_per_pu": 1, "processes": false, )" << floor << R"("cells": [)"
        << R"({"from_bytes": 8, "recipe": "allreduce_ring+channels", "measured_ns": 300, "predicted_ns": 280}]}]})";
    return smelt({"show", "--floor"}, "", cache);
  };
  const Call moved = advised(R"("floor": {"line_ns": 1, "work_ns": 1000000}, )");
  EXPECT_THAT(moved.out, HasSubstr("tune again   1 of 1 tables"));
  EXPECT_THAT(moved.out, HasSubstr("run `smelt tune`"));
  const Json document = smelt({"show", "--floor", "--json"}, "", cache).json();
  EXPECT_EQ(document["profile"]["tune_again"], true);
  EXPECT_EQ(document["profile"]["floor"]["work_ns"], 1000000);
  const Call old = advised("");
  EXPECT_EQ(old.exit_code, 0) << "of before there were floors";
  EXPECT_THAT(old.out, HasSubstr("made before profiles kept it"));
  EXPECT_THAT(old.out, testing::Not(HasSubstr("tune again")));
  EXPECT_EQ(smelt({"show", two_packages(), "--floor"}).exit_code, 2);
}

TEST(Documents, BenchReadsSizesWithUnits) {
  if (!SMELT_HAS_BENCH) GTEST_SKIP() << "built without benchmarks";
  const Call call = smelt({"bench", "broadcast", "--bytes", "64KiB", "--threads", "2", "--time", "200ms", "--only",
                           "smelt,pthread", "--json"});
  ASSERT_EQ(call.exit_code, 0) << call.err;
  EXPECT_EQ(call.json()["bytes"], 65536);
}

}  // namespace
