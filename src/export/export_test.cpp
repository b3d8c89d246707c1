// The settings of other runtimes: that they say what the model says, in a form that the runtimes read.
#include "smelt/export.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <sstream>

#include "export/internal.hpp"
#include "export/mpich.hpp"

namespace smelt {
namespace {

using testing::HasSubstr;
using testing::Not;

Machine machine_of(int packages, int cores) {
  SynthSpec spec;
  spec.packages = packages;
  spec.cores = cores;
  return *synthesize_machine(spec);
}

RuntimeSettings settings_of(const Machine& machine, Runtime runtime, const ExportOptions& options = {}) {
  auto settings = export_settings(machine, whole_machine(machine), runtime, options);
  EXPECT_TRUE(settings) << settings.error().message;
  return settings ? *settings : RuntimeSettings{};
}

/// A rules file as Open MPI reads it: whole numbers, what follows a # to the end of the line left out.
struct Rule {
  long from_bytes, algorithm, fan_out, segment_bytes;
};
using Rules = std::map<long, std::map<long, std::vector<Rule>>>;  // by operation and communicator size

std::vector<long> numbers_of(const std::string& text) {
  std::vector<long> numbers;
  std::istringstream lines(std::regex_replace(text, std::regex("#[^\n]*"), ""));
  for (long number = 0; lines >> number;) numbers.push_back(number);
  EXPECT_TRUE(lines.eof()) << "something that is no number";
  return numbers;
}

Rules read_rules(const std::string& text) {
  const auto numbers = numbers_of(text);
  std::size_t at = 0;
  const auto next = [&] { return at < numbers.size() ? numbers[at++] : (ADD_FAILURE() << "too short", 0L); };
  Rules rules;
  for (long operations = next(); operations > 0; --operations) {
    auto& operation = rules[next()];
    for (long sizes = next(); sizes > 0; --sizes) {
      auto& list = operation[next()];
      for (long count = next(); count > 0; --count) {
        list.push_back({});
        for (long* field :
             {&list.back().from_bytes, &list.back().algorithm, &list.back().fan_out, &list.back().segment_bytes}) {
          *field = next();
        }
      }
    }
  }
  EXPECT_EQ(at, numbers.size()) << "numbers left over";
  return rules;
}

TEST(Export, NamesRuntimes) {
  for (Runtime runtime : runtimes()) {
    auto parsed = parse_runtime(to_string(runtime));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, runtime);
  }
  EXPECT_THAT(parse_runtime("slurm").error().message, HasSubstr("openmpi, mpich"));
}

TEST(Export, RefusesInvalidJobs) {
  const Machine machine = machine_of(1, 4);
  const auto group = whole_machine(machine);
  EXPECT_FALSE(export_settings(machine, Group{{0}}, Runtime::openmpi));
  EXPECT_FALSE(export_settings(machine, Group{{0, 9}}, Runtime::openmpi));
  EXPECT_FALSE(export_settings(machine, group, Runtime::openmpi, {.margin = 1.0}));
  EXPECT_FALSE(export_settings(machine, group, Runtime::openmpi, {.message_overhead_ns = std::nan("")}));
  Machine unmeasured = machine;
  unmeasured.send_ns = {};
  EXPECT_THAT(export_settings(unmeasured, group, Runtime::mpich).error().message, HasSubstr("no costs"));
}

TEST(ExportOpenMpi, RulesStartAtZeroAscendAndEndAtOtherSizes) {
  for (int cores : {2, 3, 4, 8, 16}) {
    const auto rules = read_rules(settings_of(machine_of(2, cores), Runtime::openmpi).text);
    for (const auto& [operation, sizes] : rules) {
      ASSERT_TRUE(sizes.contains(2 * cores));
      ASSERT_TRUE(sizes.contains(2 * cores + 1)) << "larger communicators would take these rules";
      for (const auto& [ranks, list] : sizes) {
        ASSERT_FALSE(list.empty());
        EXPECT_EQ(list.front().from_bytes, 0) << "Open MPI refuses the file";
        for (std::size_t i = 1; i < list.size(); ++i) EXPECT_GT(list[i].from_bytes, list[i - 1].from_bytes);
        if (ranks != 2 * cores) {
          EXPECT_EQ(list.size(), 1u);
          EXPECT_EQ(list.front().algorithm, 0);
        }
      }
    }
  }
}

TEST(ExportOpenMpi, ReductionsStayRightForOperatorsThatDoNotCommute) {
  for (int cores : {2, 4, 8, 16}) {
    for (double overhead : {0.0, 150.0, 2000.0}) {
      const auto rules = read_rules(
          settings_of(machine_of(2, cores), Runtime::openmpi, {.margin = 0.0, .message_overhead_ns = overhead}).text);
      for (const auto& [operation, safe] :
           {std::pair{2L, std::vector<long>{0, 3, 6}}, std::pair{11L, std::vector<long>{0, 1, 7}}}) {
        if (!rules.contains(operation)) continue;
        for (const auto& rule : rules.at(operation).at(2 * cores)) EXPECT_THAT(safe, testing::Contains(rule.algorithm));
      }
      for (long from_one_end : {9L, 15L}) EXPECT_FALSE(rules.contains(from_one_end)) << "gather, scatter";
    }
  }
}

TEST(ExportOpenMpi, BlocksAreCountedForAllRanksTogether) {
  const Machine machine = machine_of(2, 8);
  const auto settings = settings_of(machine, Runtime::openmpi, {.margin = 0.0});
  const auto rules = read_rules(settings.text);
  int compared = 0;
  for (const auto& choice : settings.choices) {
    if (choice.operation != Operation::alltoall || choice.algorithm.empty()) continue;
    ASSERT_TRUE(rules.contains(3));
    const auto& list = rules.at(3).at(16);
    compared += std::any_of(list.begin(), list.end(), [&](const Rule& rule) {
      return rule.from_bytes == static_cast<long>(choice.from_bytes) * 16;
    });
  }
  EXPECT_GT(compared, 0);
}

TEST(Export, ChoosesOnlyBeyondTheMargin) {
  const Machine machine = machine_of(2, 8);
  std::size_t before = SIZE_MAX;
  for (double margin : {0.0, 0.2, 0.5, 0.9}) {
    const auto settings = settings_of(machine, Runtime::openmpi, {.margin = margin});
    std::size_t chosen = 0;
    for (const auto& each : settings.choices) {
      if (each.algorithm.empty()) continue;
      ++chosen;
      EXPECT_LT(each.predicted_ns, (1.0 - margin) * each.default_ns) << each.algorithm << " at " << each.from_bytes;
      EXPECT_NE(each.algorithm, each.default_algorithm);
    }
    if (margin == 0.0) {
      EXPECT_GT(chosen, 0u);
    }
    EXPECT_LE(chosen > 0, before > 0);
    before = chosen;
  }
}

TEST(Export, LongMessagesAndEmptyOnesStayWithTheRuntime) {
  const Machine machine = machine_of(2, 8);
  for (Runtime runtime : {Runtime::openmpi, Runtime::mpich}) {
    std::map<Operation, ExportedChoice> last;
    for (const auto& each : settings_of(machine, runtime, {.margin = 0.0}).choices) {
      if (each.from_bytes == 0) {
        EXPECT_EQ(each.algorithm, "");
      }
      last[each.operation] = each;
    }
    for (const auto& [operation, each] : last) {
      if (operation != Operation::barrier) {
        EXPECT_EQ(each.algorithm, "") << to_string(operation);
      }
    }
  }
}

// Shells read these files line by line.
TEST(Export, ANameStaysWithinItsComment) {
  Machine machine = machine_of(1, 4);
  machine.name = "mine\ntouch x\r\x7f";
  for (const Runtime runtime : runtimes()) {
    const auto text = settings_of(machine, runtime).text;
    EXPECT_THAT(text, Not(HasSubstr("\ntouch"))) << to_string(runtime);
    EXPECT_EQ(text.find_first_of("\r\x7f"), std::string::npos) << to_string(runtime);
  }
}

TEST(Export, RanksThatShareAPuStayWithTheRuntime) {
  const Machine machine = machine_of(1, 2);
  const Group crowded{{0, 1, 0, 1}};
  for (Runtime runtime : runtimes()) {
    auto settings = export_settings(machine, crowded, runtime);
    ASSERT_TRUE(settings);
    for (const auto& each : settings->choices) EXPECT_EQ(each.algorithm, "") << to_string(runtime);
  }
  EXPECT_TRUE(read_rules(export_settings(machine, crowded, Runtime::openmpi)->text).empty());
}

TEST(Export, CrossoversAreWhereTheWinnerChanges) {
  const Machine machine = machine_of(2, 4);
  const ExportOptions options{.margin = 0.1, .largest_bytes = std::size_t{1} << 20};
  const Group group = whole_machine(machine);
  const plan::ExportTarget job{machine, machine, group, options};
  plan::SimulatedRace race{.operation = Operation::allreduce,
                           .contenders = {{"doubling", 0, "allreduce_recursive_doubling+channels"},
                                          {"halving", 1, "allreduce_reduce_scatter_allgather+channels"}}};
  race.default_of = [](std::size_t) { return 0; };
  auto ranges = plan::run_race(job, race);
  ASSERT_TRUE(ranges);
  const auto wins = [&](std::size_t bytes) {
    const auto time = [&](int contender, std::size_t near) {
      return *plan::predict(job, race.operation, race.contenders[contender].recipe, near);
    };
    return time(1, bytes) < 0.9 * time(0, bytes) && time(1, bytes / 2) < 0.9 * time(0, bytes / 2) &&
           time(1, 2 * bytes) < 0.9 * time(0, 2 * bytes);
  };
  int crossovers = 0;
  for (const auto& each : *ranges) {
    if (each.from_bytes <= 1 || each.from_bytes > options.largest_bytes) continue;
    ++crossovers;
    EXPECT_EQ(wins(each.from_bytes), each.winner == 1) << each.from_bytes;
    EXPECT_NE(wins(each.from_bytes - each.from_bytes / 60 - 2), each.winner == 1) << each.from_bytes;
  }
  EXPECT_GE(crossovers, 1);
}

TEST(ExportMpich, NamesEveryCollectiveAndBalancesItsBraces) {
  for (int cores : {2, 3, 8}) {
    const auto text = settings_of(machine_of(2, cores), Runtime::mpich, {.margin = 0.05}).text;
    for (const auto& each : plan::mpich_defaults()) {
      EXPECT_THAT(text, HasSubstr("\"collective=" + std::string(each.collective) + "\""));
      EXPECT_THAT(text, HasSubstr("\"algorithm=MPIR_" + std::string(each.algorithm) + "\": {}"));
    }
    EXPECT_EQ(std::count(text.begin(), text.end(), '{'), std::count(text.begin(), text.end(), '}'));
  }
}

TEST(ExportMpich, ChosenRangesAreForThatCommunicatorSizeAlone) {
  const auto settings = settings_of(machine_of(2, 4), Runtime::mpich, {.margin = 0.0});
  ASSERT_TRUE(std::any_of(settings.choices.begin(), settings.choices.end(),
                          [](const auto& each) { return !each.algorithm.empty(); }));
  EXPECT_THAT(settings.text, HasSubstr("\"comm_size<8\""));
  EXPECT_THAT(settings.text, HasSubstr("\"comm_size<=8\""));
}

TEST(ExportMpich, DeviceFileSendsCallsOnOnlyWhereMessagesWin) {
  // Messages that are far too dear.
  const auto shared = settings_of(machine_of(2, 4), Runtime::mpich_posix, {.message_overhead_ns = 100000.0});
  EXPECT_THAT(shared.text, HasSubstr("MPIDI_POSIX_mpi_bcast_release_gather"));
  EXPECT_THAT(shared.text, Not(HasSubstr("is_multi_threaded=yes")));
}

TEST(ExportUcc, SectionsFollowTheGrammar) {
  const auto text = settings_of(machine_of(2, 4), Runtime::ucc).text;
  std::smatch tune;
  ASSERT_TRUE(std::regex_search(text, tune, std::regex("UCC_TL_UCP_TUNE='([^']*)'")));
  std::istringstream sections(tune[1].str());
  const std::regex grammar(R"(([a-z_]+):([0-9]+[kM]?)-([0-9]+[kM]?|inf):\[8-8\]:inf:@([a-z_]+))");
  std::map<std::string, std::string> end;
  for (std::string section; std::getline(sections, section, '#');) {
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(section, parts, grammar)) << section;
    EXPECT_EQ(end.contains(parts[1]) ? end[parts[1]] : "0", parts[2]) << "a gap before " << section;
    end[parts[1]] = parts[3];
  }
  EXPECT_EQ(end.size(), 5u);
  EXPECT_TRUE(std::regex_search(text, std::regex("UCC_TL_UCP_BCAST_KN_RADIX=[2-8]\n")));
}

TEST(ExportLibomp, LinesFollowTheGrammar) {
  const auto text = settings_of(machine_of(4, 8), Runtime::libomp, {.margin = 0.05}).text;
  EXPECT_THAT(text, HasSubstr("OMP_NUM_THREADS=32\n"));
  const std::regex grammar(
      "#.*|OMP_[A-Z_]+=.+|KMP_(PLAIN|FORKJOIN|REDUCTION)_BARRIER=[1-6],[1-6]|"
      "KMP_(PLAIN|FORKJOIN|REDUCTION)_BARRIER_PATTERN=(linear|tree|hyper),(linear|tree|hyper)");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(std::regex_match(line, grammar)) << line;
}

TEST(ExportXhc, LevelsAreThoseThatTheCostsShow) {
  const auto flat = settings_of(machine_of(1, 8), Runtime::xhc).text;
  EXPECT_THAT(flat, HasSubstr("coll_xhc_hierarchy=flat\n"));
  EXPECT_THAT(flat, Not(HasSubstr("chunk_size=")));
  const auto two = settings_of(machine_of(2, 8), Runtime::xhc).text;
  // One L3, NUMA node and package each: one level, named once.
  EXPECT_TRUE(std::regex_search(two, std::regex("coll_xhc_hierarchy=l3\nOMPI_MCA_coll_xhc_chunk_size=[0-9]+\n")))
      << two;
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 8;
  spec.l3 = 2;
  EXPECT_THAT(settings_of(*synthesize_machine(spec), Runtime::xhc).text, HasSubstr("coll_xhc_hierarchy=l3,"));
}

}  // namespace
}  // namespace smelt
