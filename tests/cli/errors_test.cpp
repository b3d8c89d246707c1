// Whatever a user types wrongly costs one line on stderr and the right exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "call.hpp"

namespace {

using testing::HasSubstr;

struct Mistake {
  Words words;
  int exit_code;
  std::string says;
};

Words on_two(Words words) {
  words.insert(words.end(), {"-m", two_packages()});
  return words;
}

TEST(Errors, UsageIsExitCodeTwo) {
  const Mistake mistakes[] = {
      {{"plna"}, 2, "did you mean 'plan'?"},
      {{"plan", "--opp", "reduce"}, 2, "did you mean '--op'?"},
      {{"plan", "--op"}, 2, "--op"},
      {{"plan", "--op", "brodcast"}, 2, "--op brodcast: no such operation; did you mean 'broadcast'?"},
      {{"plan", "brodcast"}, 2, "operation brodcast: no such operation; did you mean 'broadcast'?"},
      {{"plan", "--op", ""}, 2, "--op : no such operation"},
      {on_two({"plan", "reduce", "barrier"}), 2, "barrier: not understood"},
      {on_two({"plan", "--topology", "binry"}), 2, "did you mean 'binary'?"},
      {on_two({"plan", "--ranks", "0-99"}), 2, "PU 16 is not in the machine 'two', which has 0-15"},
      {on_two({"plan", "--ranks", "0,1,0"}), 2, "PU 0 is named twice"},
      {on_two({"plan", "--ranks", "0-"}), 2, "neither a number nor a range"},
      {on_two({"plan", "--ranks", ","}), 2, "empty"},
      {on_two({"plan", "--ranks", "0-999999999"}), 2, "more than"},
      {on_two({"plan", "--ranks", "0-3", "--root", "4"}), 2, "the group has ranks 0 to 3"},
      {on_two({"plan", "--root", "-1"}), 2, "must be between"},
      {on_two({"plan", "--search-ms", "soon"}), 2, "not a number"},
      {on_two({"plan", "--search-ms", "-5"}), 2, "must be between"},
      {on_two({"plan", "--search-ms", "nan"}), 2, "not a number"},
      {on_two({"plan", "--topology", "k-nomial:0", "--search-ms", "0"}), 2, "k-nomial"},
      {on_two({"plan", "--json", "--dot"}), 2, "--dot"},
      {{"synth", "--packages", "0", "--json"}, 2, "--packages 0"},
      {{"synth", "--packages", "64", "--cores", "512", "--json"}, 2, "16384"},
      {{"synth", "--cores", "1e3", "--json"}, 2, "not a whole number"},
      {{"measure", "--budget", "fast"}, 2, "such as 30s, 500ms, 2m"},
      {{"measure", "--budget", "0s"}, 2, "more than 0"},
      {{"tune", "--most", "4"}, 2, "--most 4: must be 8 bytes or more"},
      {{"inspect", "nobody-has-this-name"},
       1,
       "no process of this user holds a communicator 'nobody-has-this-name' now"},
      {{"synth", "--name", std::string(4097, 'x'), "--json"}, 2, "--name: longer than 4096 bytes"},
      {{"storm", "log", "--rounds", "0"}, 2, "--rounds 0: must be between"},
      {{"import"}, 2, "import what?"},
      {{"import", "core-to-cor", "x.csv"}, 2, "did you mean 'core-to-core'?"},
      {{"import", "x.csv", "--send-share", "2"}, 2, "between 0 and 1"},
      {{"simulate", "--plan", "x", "--op", "reduce"}, 2, "leave out --op"},
      {{"simulate", "--plan", "x", "reduce"}, 2, "leave out reduce"},
      {{"simulate", "map"}, 2, "map: no such operation"},
      {{"simulate", "--replicas", "8"}, 2, "only of log"},
      {on_two({"simulate", "log", "--op", "reduce"}), 2, "log: takes"},
      {on_two({"simulate", "log", "--replicas", "1"}), 2, "must be between"},
      {on_two({"compare", "--op", "bradcast"}), 2, "did you mean 'broadcast'?"},
      {on_two({"compare", "bradcast"}), 2, "did you mean 'broadcast'?"},
      {on_two({"compare", "--op", ","}), 2, "--op ',': names no operation"},
      {on_two({"compare", ","}), 2, "operation ',': names no operation"},
      {on_two({"compare", "--maps", "reduce"}), 2, "operation: not with --maps"},
      {on_two({"compare", "--keys", "10"}), 2, "--keys: only with --maps"},
      {on_two({"compare", "--maps", "--op", "reduce"}), 2, "--op: not with --maps"},
      {on_two({"compare", "--maps", "--lookups", "1.5"}), 2, "must be between"},
      {on_two({"compare", "--maps", "--lookups", ","}), 2, "empty"},
      {on_two({"compare", "--maps", "--lookups", ""}), 2, "empty"},
      {on_two({"compare", "--ranks", ""}), 2, "--ranks '': empty"},
      {on_two({"plan", "--ranks", ""}), 2, "--ranks '': empty"},
      {on_two({"export", "--for", "openmpi", "--ranks", ""}), 2, "--ranks"},
      {on_two({"compare", "--maps", "--platform", "ideal"}), 2, "leave out --model"},
      {on_two({"compare", "--maps", "--ranks", "0"}), 2, "compare: maps take two ranks on different PUs"},
      {{"compare", "--maps", "--platform", "ideal", "--ranks", "0-3"}, 2, "leave out --ranks"},
      {{"compare", "--maps", "--platform", "idael"}, 2, "did you mean 'ideal'?"},
      {{"compare", "--maps", "--platform", "ideal", "--consistency", "eventual"}, 2, "linearizable, sequential"},
      {{"compare", "--maps", "--platform", "ideal", "--faults", "crush"}, 2, "did you mean 'crash'?"},
      {{"compare", "--maps", "--platform", "ideal", "--cores", "0"}, 2, "must be between"},
      {{"compare", "--maps", "--figure", "4.1"}, 2, "no such figure (one of all, 3.19a"},
      {{"compare", "--maps", "--figure", "3.20", "--cores", "8"}, 2, "leave out --cores"},
      {on_two({"compare", "--maps", "--figure", "3.20f"}), 2, "leave out --model"},
      {{"compare", "--maps", "--figure", "3.20f", "--ranks", "0-3"}, 2, "leave out --ranks"},
      {{"compare", "--maps", "--figure", "3.20f", "--all"}, 2, "--all: not with --maps"},
      {on_two({"explain", "map", "--sync", "strict"}), 2, "--sync: not of a map"},
      {on_two({"explain", "reduce", "--bytes", "8", "--skew", "1"}), 2, "--skew: only of a map"},
      {on_two({"explain", "map", "--platform", "ideal"}), 2, "leave out --model"},
  };
  for (const auto& mistake : mistakes) {
    SCOPED_TRACE(testing::PrintToString(mistake.words));
    expect_one_line(smelt(mistake.words), mistake.exit_code, mistake.says);
  }
}

TEST(Errors, TwoOperationsAreOneTooMany) {
  for (const std::string command : {"plan", "simulate", "compare", "explain", "bench"}) {
    SCOPED_TRACE(command);
    expect_one_line(smelt({command, "reduce", "--op", "barrier"}), 2,
                    command + ": --op barrier: the operation is reduce already; name one");
  }
}

TEST(Errors, NamesInMachineFilesCannotControlATerminal) {
  for (const std::string words : {"show -", "plan -m -", "simulate -m -", "compare -m -", "simulate log -m -"}) {
    const Call call = shell("$SMELT synth --cores 4 --name \"$(printf 'a\\033[2Jb')\" --json | $SMELT " + words);
    EXPECT_EQ(call.exit_code, 0) << call.err;
    EXPECT_THAT(call.out, HasSubstr("a?[2Jb")) << words;
  }
}

TEST(Errors, AMachineOfOnePuHasNoReplicas) {
  expect_one_line(shell("$SMELT synth --cores 1 --json | $SMELT simulate log -m -"), 2, "it takes two replicas");
}

TEST(Errors, BenchChecksItsArguments) {
  if (!SMELT_HAS_BENCH) GTEST_SKIP() << "built without benchmarks";
  expect_one_line(smelt({"bench", "barier"}), 2, "did you mean 'barrier'?");
  expect_one_line(smelt({"bench"}), 2, "bench what?");
  expect_one_line(smelt({"bench", "queue"}), 2, "channel, all, map, log)");
  expect_one_line(smelt({"bench", "--op", "barier"}), 2, "did you mean 'barrier'?");
  expect_one_line(smelt({"bench", "map", "--only", "tree", "-m", two_packages()}), 2, "no such map");
  expect_one_line(smelt({"bench", "log", "--keys", "10"}), 2, "only of a map");
  expect_one_line(smelt({"bench", "map", "--bytes", "8"}), 2, "not of map");
  expect_one_line(smelt({"bench", "barrier", "--threads", "1"}), 2, "--threads 1");
  expect_one_line(smelt({"bench", "barrier", "--method", "guess"}), 2, "--method guess");
  for (const char* operation : {"allreduce", "reduce-scatter", "scan", "exscan"}) {
    expect_one_line(smelt({"bench", operation, "--bytes", "7"}), 2, "multiple of 8");
  }
  for (const char* size : {"8x", "-1", "2GiB", "K", "99999999999999999999"}) {
    expect_one_line(smelt({"bench", "broadcast", "--bytes", size}), 2, "--bytes");
  }
  expect_one_line(smelt({"bench", "channel", "--processes"}), 2, "between threads");
  expect_one_line(smelt({"bench", "barrier", "--processes", "-m", two_packages()}), 2, "--model");
  expect_one_line(smelt({"bench", "barrier", "--sync", "lose"}), 2, "did you mean 'loose'?");
  expect_one_line(smelt({"bench", "barrier", "--threads", "2", "--late", "2"}), 2, "--late 2");
  expect_one_line(smelt({"bench", "scan", "--algorithms", "--only", "smelt"}), 2, "give one");
  expect_one_line(smelt({"bench", "barrier", "--late-ns", "5"}), 2, "which rank");
  expect_one_line(smelt({"bench", "barrier", "--only", "smelt,pthraed", "-m", two_packages()}), 2,
                  "did you mean 'pthread'?");
}

TEST(Errors, BenchmarksRejectUnknownContestants) {
  if (!SMELT_HAS_BENCH) GTEST_SKIP() << "built without benchmarks";
  const auto refusal = [](const std::string& benchmark, const std::string& only, const std::string& says) {
    expect_one_line(
        smelt({"bench", benchmark, "--threads", "2", "--time", "100ms", "--only", only, "-m", two_packages()}), 2,
        says);
  };
  refusal("broadcast", "smelt/broadcast_nonsense", "--only smelt/broadcast_nonsense: no such contestant in broadcast");
  refusal("broadcast", "nobody,noone", "--only nobody: no such contestant");
  refusal("broadcast", "smelt,smelt/broadcast_tree,smelt/broadcast_ring",
          "--only smelt/broadcast_ring: no such contestant");
  refusal("broadcast", "smelt/broadcast_tree+dirct", "'dirct' must be channels");
  refusal("reduce", "smelt/reduce_scatter_flat", "no such contestant in reduce");
  refusal("channel", "gomp", "no such contestant in channel");
  refusal("channel", "smelt/loose", "no such contestant in channel");
  // In none of the benchmarks, before the first of them takes its time.
  refusal("all", "smelt/broadcast_tree", "no such contestant in reduce");
}

TEST(Errors, FailuresAreExitCodeOne) {
  const std::string missing = scratch() + "/missing.json";
  const std::string truncated = scratch_file("truncated.json", R"({"schema": "smelt-machine/1", "pus": [)");
  const std::string other = scratch_file("other.json", R"({"schema": "something/9"})");
  for (const std::string command : {"plan", "simulate", "compare"}) {
    expect_one_line(smelt({command}), 1, "run `smelt measure`");
    expect_one_line(smelt({command, "-m", missing}), 1, missing);
    expect_one_line(smelt({command, "-m", truncated}), 1, truncated);
  }
  expect_one_line(smelt({"show", missing}), 1, missing);
  expect_one_line(smelt({"show", other}), 1, "schema");
  expect_one_line(smelt({"show", "-"}, "junk"), 1, "standard input");
  expect_one_line(smelt({"import", missing}), 1, missing);
  expect_one_line(smelt({"synth", "-o", scratch() + "/no/such/directory/x.json"}), 1, "no/such/directory");
}

TEST(Errors, DamagedPlansAreNamed) {
  const Json good = smelt({"plan", "-m", two_packages(), "--ranks", "0-3", "--search-ms", "0", "--json"}).json();
  const auto damaged = [&](const char* key, const Json& value) {
    Json plan = good;
    plan[key] = value;
    return smelt({"simulate", "-m", two_packages(), "--plan", "-"}, plan.dump());
  };
  expect_one_line(damaged("root", 7), 1, "root: 7");
  expect_one_line(damaged("pus", {0, 1, 2, 77}), 1, "no PU 77");
  expect_one_line(damaged("children", Json::array()), 1, "children");
  expect_one_line(damaged("children", {{1}, {0}, {3}, {2}}), 1, "children");
  expect_one_line(damaged("children", {{1}, {2}, {1}, Json::array()}), 1, "children[2]");
  expect_one_line(smelt({"simulate", "-m", two_packages(), "--plan", "-"}, "{}"), 1, "missing");
  expect_one_line(smelt({"simulate", "-m", two_packages(), "--plan", "-"}, "[1,"), 1, "not JSON");
}

TEST(Errors, FilesOfArraysSayWhatIsWrongWhere) {
  const auto told = [](const std::string& top, const std::string& array) {
    const std::string file = "{" + top + "\"arrays\": [{\"elements\": 10" + array + "}]}";
    return smelt({"explain", "memory", scratch_file("arrays.json", file), "-m", two_packages()});
  };
  EXPECT_EQ(told("\"threads\": 3, ", ", \"element_bytes\": 8").exit_code, 0);
  expect_one_line(told("\"thread\": 3, ", ""), 1, "arrays.json: thread: no such key; did you mean 'threads'?");
  expect_one_line(told("\"threads\": 2.5, ", ""), 1, "threads: must be a whole number");
  expect_one_line(told("\"threads\": 1000001, ", ""), 1, "threads: must be 0 to 1000000");
  expect_one_line(told("", ", \"element_bytes\": 0"), 1, "arrays[0]: elements and element_bytes must be 1 or more");
  expect_one_line(told("", ", \"element_bytes\": 1.5"), 1, "arrays[0].element_bytes: must be a whole number");
  expect_one_line(told("", ", \"element_bytes\": 1000000000000000000"), 1, "must be at most 2^60");
  expect_one_line(told("", ", \"acces\": \"random\""), 1, "arrays[0].acces: no such key; did you mean 'access'?");
  expect_one_line(told("", ", \"access\": \"zigzag\""), 1, "'zigzag' must be one of");
  expect_one_line(told("", ", \"phases\": -1"), 1, "arrays[0].phases: must be 0 to 1e18");
}

TEST(Errors, ALostReaderIsNoError) {
  const Call call = shell("$SMELT show " + two_packages() +
                          " --json 2>&1 >/dev/null | head -c 1; "
                          "( $SMELT synth --packages 4 --cores 64 --json; echo code $? >&2 ) | head -c 1");
  EXPECT_EQ(call.err, "code 0\n");
}

TEST(Errors, HelpThatNobodyReadsIsNone) {
  for (const std::string words : {"--help", "plan --help", "--version"}) {
    const Call lost = shell("( sleep 0.2; $SMELT " + words + "; echo code $? >&2 ) | true");
    EXPECT_EQ(lost.err, "code 0\n") << words;
    const Call full = shell("$SMELT " + words + " >/dev/full; echo code $?");
    EXPECT_EQ(full.out, "code 1\n") << words;
    EXPECT_THAT(full.err, HasSubstr("standard output: cannot write")) << words;
  }
}

// The old file stays, and there is no other one.
TEST(Errors, AFullDiskLeavesTheOldSettings) {
  const Call call =
      shell("cd " + scratch() + " && mkdir full && echo old > full/x.conf && ulimit -f 0 && trap '' XFSZ; " +
            "$SMELT export --for openmpi -m " + two_packages() + " -o full/x.conf; cat full/*");
  EXPECT_EQ(call.out, "old\n");
  EXPECT_THAT(call.err, HasSubstr("full/x.conf: cannot write"));
}

TEST(Errors, StandardInputIsReadLikeAFile) {
  const Call endless = shell("ulimit -v 4000000; timeout 20 $SMELT show - </dev/zero");
  expect_one_line(endless, 1, "standard input: ");
  expect_one_line(shell("ulimit -v 4000000; timeout 20 $SMELT import - </dev/zero"), 1, "/dev/stdin: ");
  expect_one_line(shell("$SMELT show - <" + scratch()), 1, "standard input: cannot read: Is a directory");
  expect_one_line(shell("$SMELT simulate -m " + two_packages() + " --plan - <" + scratch()), 1,
                  "-: cannot read: Is a directory");
}

// Not after the time that it takes.
TEST(Errors, FilesThatCannotBeWrittenAreRefusedFirst) {
  const std::string nowhere = scratch() + "/no/such/directory/x";
  const std::string file = scratch_file("file", "");
  const std::string measure = "timeout -s KILL 20 $SMELT measure --budget 1h";
  expect_one_line(shell(measure + " -o " + nowhere), 1, nowhere + ": cannot write");
  expect_one_line(shell(measure + " -o " + scratch()), 1, scratch() + ": cannot write");
  expect_one_line(shell("export SMELT_CACHE_DIR=" + file + "/below; " + measure), 1, "below: cannot create");
}

TEST(Errors, ACacheThatCannotBeWrittenIsRefusedFirst) {
  const std::string closed = scratch() + "/closed";
  const Call made = shell("mkdir -m 500 " + closed + "; test -w " + closed);
  if (made.exit_code == 0) GTEST_SKIP() << "this user may write everywhere";
  expect_one_line(shell("export SMELT_CACHE_DIR=" + closed + "; timeout -s KILL 20 $SMELT measure --budget 1h"), 1,
                  closed + ": cannot write to this directory: Permission denied");
}

/// As in the background of a script.
TEST(Errors, AnIgnoredInterruptIsNone) {
  const std::string command = "trap '' INT TERM; export SMELT_CACHE_DIR=" + scratch() + "/interrupted; $SMELT ";
  const std::string interrupt = " & sleep 0.3; kill -INT $!; kill -TERM $!; wait $!; echo code $?";
  const Call measure = shell(command + "measure --quick --budget 1s > /dev/null" + interrupt);
  EXPECT_EQ(measure.out, "code 0\n") << measure.err;
  const Call tune = shell(command + "tune --time 1s --ranks 2 --json" + interrupt);
  EXPECT_THAT(tune.out, HasSubstr("\"interrupted\": false")) << tune.err;
}

TEST(Errors, AFullDiskIsOne) {
  const Call call = shell("$SMELT synth --cores 64 --json > /dev/full; echo code $?");
  EXPECT_EQ(call.out, "code 1\n");
  EXPECT_THAT(call.err, HasSubstr("smelt: synth: standard output: cannot write"));
}

TEST(Errors, ANameCannotPaintTheTerminal) {
  const Call call = smelt({"show", "\x1b[31mred\nline"});
  expect_one_line(call, 1, "red");
  EXPECT_EQ(call.err.find('\x1b'), std::string::npos);
}

TEST(Errors, ProblemsOfTheEnvironmentAreReported) {
  const Call wrong = smelt({"settings"}, "", {"SMELT_WAIT=never"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("SMELT_WAIT=never"));
  const Call unknown = smelt({"settings", "--json"}, "", {"SMELT_WIAT=spin"});
  EXPECT_THAT(unknown.json()["problems"].dump(), HasSubstr("SMELT_WIAT"));
}

}  // namespace
