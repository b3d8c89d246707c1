// smelt tune and smelt explain: what they say, what they write, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "call.hpp"

namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Tune, RefusesInvalidOptions) {
  const struct {
    Words words;
    int exit_code;
    std::string says;
  } mistakes[] = {
      {{"tune", "--ops", "allredcue"}, 2, "did you mean 'allreduce'?"},
      {{"tune", "--ops", "barrier"}, 2, "no operation with a choice"},
      {{"tune", "--sync", "lose"}, 2, "must be loose or strict"},
      {{"tune", "--ranks", "1"}, 2, "2 to 1024"},
      {{"tune", "--for", "thread"}, 2, "--for thread: must be threads, processes or both"},
      {{"tune", "--for", ","}, 2, "--for ',': empty"},
      {{"tune", "--ops", ","}, 2, "--ops ',': empty"},
      {{"tune", "--sync", ",,"}, 2, "--sync ',,': empty"},
      {{"tune", "a.json"}, 2, "a.json: files are named with --compare alone"},
      {{"tune", "--compare", "a.json"}, 2, "name two profiles"},
      {{"tune", "--compare", "/none/a", "/none/b"}, 1, "/none/a: cannot open"},
      {{"tune", "--time", "soon"}, 2, "such as 30s"},
      {{"tune", "--most", "2GiB"}, 2, "--most 2GiB"},
      {{"tune", "--tme", "1s"}, 2, "did you mean '--time'?"},
      {{"tune"}, 1, "run `smelt measure`"},
  };
  for (const auto& mistake : mistakes) {
    SCOPED_TRACE(testing::PrintToString(mistake.words));
    expect_one_line(smelt(mistake.words), mistake.exit_code, mistake.says);
  }
}

/// A cache with a model of this machine, made once.
const std::string& measured_cache() {
  static const std::string directory = [] {
    const std::string made = scratch() + "/tuned";
    const auto measured = smelt({"measure", "--quick", "--budget", "1s", "--json"}, "", {"SMELT_CACHE_DIR=" + made});
    EXPECT_EQ(measured.exit_code, 0) << measured.err;
    return made;
  }();
  return directory;
}

TEST(Tune, RefusesFilesThatItCouldNotWrite) {
  const std::string nowhere = scratch() + "/no/such/directory/x";
  const Call call =
      shell("SMELT_CACHE_DIR=" + measured_cache() + " timeout -s KILL 20 $SMELT tune --time 1h -o " + nowhere);
  expect_one_line(call, 1, nowhere + ": cannot write");
}

TEST(Tune, TwoAtOnceKeepTheResultsOfBoth) {
  const std::string cache = scratch() + "/two tunes";
  std::filesystem::copy(measured_cache(), cache);
  std::filesystem::remove_all(cache + "/ended");
  const auto tune = [](const std::string& operation) {
    return "$SMELT tune --time 1s --most 1K --ranks 2 --for threads --sync loose --ops " + operation + " >/dev/null";
  };
  const Call both = shell("export SMELT_CACHE_DIR='" + cache + "'; " + tune("allreduce") + " & " + tune("reduce") +
                          "; wait; ls '" + cache + "'");
  EXPECT_EQ(both.err, "");
  EXPECT_EQ(std::count(both.out.begin(), both.out.end(), '\n'), 2) << "the model and the profile: " << both.out;
  for (const char* operation : {"allreduce", "reduce"}) {
    const auto told =
        smelt({"explain", operation, "--bytes", "8", "--ranks", "2", "--json"}, "", {"SMELT_CACHE_DIR=" + cache});
    EXPECT_EQ(told.json()["from"], "profile") << operation;
  }
}

// Writing to a pipe waits for its reader.
TEST(Tune, CtrlCEndsTheWaitForAReader) {
  const Call call = shell("cd " + scratch() + " && mkfifo pipe; export SMELT_CACHE_DIR=" + measured_cache() +
                          "; timeout -s INT -k 9 8 $SMELT tune --time 100ms --most 8 --ranks 2 --for threads "
                          "--sync loose --ops reduce -o pipe; timeout -s INT -k 9 2 $SMELT synth -o pipe; echo done");
  EXPECT_EQ(call.out, "done\n");
  EXPECT_THAT(call.err, HasSubstr("interrupted: the profile was not saved"));
  EXPECT_THAT(call.err, testing::Not(HasSubstr("Killed")));
}

TEST(Explain, RefusesNonsense) {
  const struct {
    Words words;
    int exit_code;
    std::string says;
  } mistakes[] = {
      {{"explain"}, 2, "explain what?"},
      {{"explain", "allreduce"}, 2, "--bytes: say how much"},
      {{"explain", "alreduce", "--bytes", "8"}, 2, "did you mean 'allreduce'?"},
      {{"explain", "barrier", "--bytes", "8"}, 2, "no operation with a choice"},
      {{"explain", "allreduce", "--bytes", "8x"}, 2, "--bytes 8x"},
      {{"explain", "allreduce", "--bytes", "8", "--sync", "both"}, 2, "must be loose or strict"},
      {{"explain", "allreduce", "--bytes", "8", "--ranks", "1"}, 2, "between 2 and"},
      {{"explain", "allreduce", "--bytes", "8", "--late", "1"}, 2, "--late and --late-ns go together"},
      {{"explain", "reduce", "--bytes", "8", "--ranks", "4", "-m", two_packages(), "--late", "4", "--late-ns", "9"},
       2,
       "there are ranks 0-3"},
      {{"explain", "allreduce", "--algorithms"}, 2, "leave out allreduce"},
      {{"explain", "allreduce", "--bytes", "8"}, 1, "run `smelt measure`"},
      {{"explain", "allreduce", "--bytes", "8", "-m", two_packages(), "--profile", "/none/x"},
       1,
       "/none/x: cannot open"},
      {{"explain", "allreduce", "--bytes", "8", "-m", two_packages(), "--profile",
        scratch_file("bad.profile.json", "{}")},
       1,
       "bad.profile.json: schema: missing"},
  };
  for (const auto& mistake : mistakes) {
    SCOPED_TRACE(testing::PrintToString(mistake.words));
    expect_one_line(smelt(mistake.words), mistake.exit_code, mistake.says);
  }
}

TEST(Explain, AnotherMachineByTheModel) {
  const auto call = smelt({"explain", "allreduce", "--bytes", "8192", "--ranks", "4", "-m", two_packages(), "--json"});
  ASSERT_EQ(call.exit_code, 0) << call.err;
  const auto document = call.json();
  EXPECT_EQ(document["operation"], "allreduce");
  EXPECT_EQ(document["bytes"], 8192);
  EXPECT_EQ(document["ranks"], 4);
  EXPECT_EQ(document["pus"].size(), 4u);
  EXPECT_EQ(document["from"], "model");
  EXPECT_TRUE(document["measured_ns"].is_null());
  EXPECT_GE(document["predicted_ns"].get<double>(), document["floor_ns"].get<double>()) << "a floor is a floor";
  ASSERT_GT(document["candidates"].size(), 2u);
  double before = 0.0;
  for (const auto& each : document["candidates"]) {
    // Those that cut are taken for 5 % slower than they are predicted, messages in lines for half as long again.
    const auto recipe = each["recipe"].get<std::string>();
    const bool in_lines = recipe.find("+channels") != std::string::npos && recipe.find("_tree") == std::string::npos;
    const bool cuts = recipe.find("chunk=") != std::string::npos;
    const double taken_for = each["predicted_ns"].get<double>() * (in_lines ? 1.5 : cuts ? 1.05 : 1.0);
    EXPECT_GE(taken_for, before) << "best first";
    EXPECT_GE(each["predicted_ns"].get<double>(), document["floor_ns"].get<double>());
    before = taken_for;
  }
  EXPECT_GT(document["alternatives"].size(), 0u);
  const auto text = smelt({"explain", "allreduce", "--bytes", "8K", "--ranks", "4", "-m", two_packages(), "--all"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  for (const char* word :
       {"8 KiB, loose", "predicted", "measured    not yet", "floor", "runner-up", "Other ranks", "All candidates"}) {
    EXPECT_THAT(text.out, HasSubstr(word));
  }
}

// Operations in which two ranks share the one copy that there is to make.
TEST(Explain, TheFloorLiesBelowEveryCandidate) {
  for (const std::string operation : {"broadcast", "exscan", "gather", "allreduce"}) {
    for (const std::string size : {"8", "64K", "16MiB"}) {
      const auto document =
          smelt({"explain", operation, "--bytes", size, "--ranks", "2", "-m", two_packages(), "--json"}).json();
      const double floor_ns = document["floor_ns"].get<double>();
      EXPECT_GT(floor_ns, 0.0);
      for (const auto& each : document["candidates"]) {
        EXPECT_GE(each["predicted_ns"].get<double>() * (1.0 + 1e-9), floor_ns)
            << operation << " " << size << " " << each;
      }
    }
  }
  const auto text = smelt({"explain", "broadcast", "--bytes", "16MiB", "--ranks", "2", "-m", two_packages()});
  EXPECT_THAT(text.out, HasSubstr("16 MiB from rank to rank, shared by 2 PUs"));
}

TEST(Explain, ProcessesAndLateRanks) {
  const Words call = {"explain", "broadcast", "--bytes", "64K", "--ranks", "16", "-m", two_packages(), "--json"};
  const auto with = [&](const Words& more) {
    Words words = call;
    words.insert(words.end(), more.begin(), more.end());
    const auto told = smelt(words);
    EXPECT_EQ(told.exit_code, 0) << told.err;
    return told.json();
  };
  const auto threads = with({}), processes = with({"--processes"});
  EXPECT_FALSE(threads["processes"].get<bool>());
  EXPECT_TRUE(processes["processes"].get<bool>());
  const auto names = [](const Json& document) {
    std::vector<std::string> whats;
    for (const auto& each : document["alternatives"]) whats.push_back(each["what"]);
    return whats;
  };
  EXPECT_THAT(names(threads), testing::IsSupersetOf({"as processes", "two on each PU", "8 ranks", "32 ranks"}));
  EXPECT_THAT(names(processes), testing::Contains("as threads of one process"));

  const auto late = with({"--late", "3", "--late-ns", "50000"});
  EXPECT_EQ(late["late_ns"][3], 50000.0);
  EXPECT_GE(late["predicted_ns"].get<double>(), 50000.0) << "nobody is done before the last one comes";
  EXPECT_GE(late["unaware"]["predicted_ns"].get<double>(), 50000.0);
  EXPECT_EQ(late["unaware"]["recipe"], threads["recipe"]);
}

TEST(Explain, ListsTheAlgorithms) {
  const auto document = smelt({"explain", "--algorithms", "--json"}).json();
  ASSERT_GT(document["algorithms"].size(), 20u);
  for (const auto& each : document["algorithms"]) {
    EXPECT_NE(each["description"], "");
    EXPECT_GT(each["access"].size(), 0u);
  }
  EXPECT_THAT(smelt({"explain", "--algorithms"}).out, HasSubstr("allreduce_ring"));
}

TEST(Tune, WritesAProfileThatExplainReads) {
  const Words here = {"SMELT_CACHE_DIR=" + measured_cache()};
  const auto tuned =
      smelt({"tune", "--time", "2s", "--ops", "allreduce", "--sync", "loose", "--most", "4K", "--ranks", "2", "--json"},
            "", here);
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  const auto document = tuned.json();
  EXPECT_FALSE(document["interrupted"].get<bool>());
  ASSERT_GT(document["cells"].size(), 0u);
  EXPECT_EQ(document["cells"][0]["from_bytes"], 8);
  EXPECT_TRUE(std::filesystem::exists(document["file"].get<std::string>()));
  EXPECT_GT(document["cells"][0]["floor"]["work_ns"].get<double>(), 0.0);
  EXPECT_GT(document["rounds"], 0);
  EXPECT_TRUE(document["retaken"].is_number_integer());
  EXPECT_EQ(smelt({"show", "--floor", "--json"}, "", here).json()["profile"]["tables"], 2) << "threads and processes";

  const auto explained = smelt({"explain", "allreduce", "--bytes", "8", "--ranks", "2", "--json"}, "", here).json();
  EXPECT_EQ(explained["from"], "profile");
  EXPECT_EQ(explained["recipe"], document["cells"][0]["recipe"]);
  EXPECT_EQ(smelt({"explain", "broadcast", "--bytes", "8", "--ranks", "2", "--json"}, "", here).json()["from"],
            "model");

  const auto file = document["file"].get<std::string>();
  const auto cells = document["cells"];
  EXPECT_TRUE(std::any_of(cells.begin(), cells.end(), [](const auto& each) { return each["processes"]; }));
  const auto process =
      smelt({"explain", "allreduce", "--bytes", "8", "--ranks", "2", "--processes", "--json"}, "", here);
  EXPECT_EQ(process.json()["from"], "profile");
  const auto compared = smelt({"tune", "--compare", file, file, "--json"}, "", here);
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_EQ(compared.json()["agreement"], 1.0);
  EXPECT_EQ(compared.json()["same"], compared.json()["cells"]);
  EXPECT_THAT(smelt({"tune", "--compare", file, file}, "", here).out, StartsWith("100.0 % of "));

  // Results of another run are added; results of the same operation are replaced.
  const auto more = smelt({"tune", "--time", "1s", "--ops", "reduce", "--sync", "loose", "--most", "4K", "--ranks", "2",
                           "--for", "threads"},
                          "", here);
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_THAT(more.out, HasSubstr("Profile in "));
  for (const char* operation : {"allreduce", "reduce"}) {
    const auto again = smelt({"explain", operation, "--bytes", "8", "--ranks", "2", "--json"}, "", here).json();
    EXPECT_EQ(again["from"], "profile") << operation;
  }
}

}  // namespace
