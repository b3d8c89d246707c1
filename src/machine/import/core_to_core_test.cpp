#include "machine/import/core_to_core.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "machine/import/clusters.hpp"
#include "machine/test_support.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

Result<Machine> parse(const std::string& csv, double share = 0.25) {
  std::istringstream stream(csv);
  return parse_core_to_core(stream, "dir/table.csv", share);
}

std::string to_csv(const Machine& machine) {
  std::ostringstream csv;
  for (std::size_t i = 0; i < machine.size(); ++i) {
    for (std::size_t j = 0; j < machine.size(); ++j) {
      if (j < i) csv << machine.send_ns(i, j) + machine.recv_ns(i, j);
      csv << (j + 1 < machine.size() ? "," : "\n");
    }
  }
  return csv.str();
}

/// How many blocks an id makes, and the size of the smallest and the largest.
struct Blocks {
  std::size_t count, smallest, largest;
  bool operator==(const Blocks&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Blocks& blocks) {
  return out << blocks.count << " blocks of " << blocks.smallest << ".." << blocks.largest;
}

Blocks blocks(const Machine& machine, int Pu::*id) {
  std::map<int, std::size_t> sizes;
  for (const auto& pu : machine.pus) ++sizes[pu.*id];
  Blocks result{sizes.size(), machine.size(), 0};
  for (const auto& [block, size] : sizes) {
    result.smallest = std::min(result.smallest, size);
    result.largest = std::max(result.largest, size);
  }
  return result;
}

TEST(CoreToCore, LowerTriangleServesBothDirections) {
  const auto machine = parse(",,\n40,,\n80,100,\n");
  ASSERT_TRUE(machine) << machine.error().message;
  ASSERT_EQ(machine->size(), 3u);
  EXPECT_DOUBLE_EQ(machine->send_ns(0, 2), 20.0);
  EXPECT_DOUBLE_EQ(machine->send_ns(2, 0), 20.0);
  EXPECT_DOUBLE_EQ(machine->recv_ns(1, 2), 75.0);
  EXPECT_EQ(machine->send_ns(1, 1), 0.0);
  EXPECT_EQ(machine->name, "table");
  EXPECT_EQ(machine->method, "core-to-core");
}

TEST(CoreToCore, SendShare) {
  const auto machine = parse(",\n80,\n", 0.75);
  ASSERT_TRUE(machine);
  EXPECT_DOUBLE_EQ(machine->send_ns(1, 0), 60.0);
  EXPECT_DOUBLE_EQ(machine->recv_ns(1, 0), 20.0);
  for (const double bad : {-0.1, 1.1, std::nan("")}) {
    const auto refused = parse(",\n80,\n", bad);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, Status::invalid_argument);
  }
  EXPECT_TRUE(parse(",\n80,\n", 0.0));
  EXPECT_TRUE(parse(",\n80,\n", 1.0));
}

TEST(CoreToCore, UpperTriangleIsTheOtherDirection) {
  const auto machine = parse("0,44\n40,0\n");
  ASSERT_TRUE(machine);
  EXPECT_DOUBLE_EQ(machine->send_ns(0, 1), 11.0);
  EXPECT_DOUBLE_EQ(machine->send_ns(1, 0), 10.0);
}

TEST(CoreToCore, WindowsLineEndsBlanksAndEmptyLines) {
  const auto plain = parse(",\n40.5,\n");
  for (const auto* text : {",\r\n40.5,\r\n", ",\n40.5,", " , \n 40.5 , \n\n\n", ",\r\n40.5,\r\n\r\n"}) {
    const auto machine = parse(text);
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(*machine, *plain);
  }
}

TEST(CoreToCore, TablesSavedBySpreadsheets) {
  const auto plain = parse(",5,\n40.5,,\n80,100.25,\n");
  ASSERT_TRUE(plain) << plain.error().message;
  const std::string wide = [] {
    std::string text = "\xff\xfe";
    for (const char c : std::string(",5,\r\n40.5,,\r\n80,100.25,\r\n")) text += {c, '\0'};
    return text;
  }();
  for (const auto& text :
       {std::string("\xef\xbb\xbf,5,\n40.5,,\n80,100.25,\n"), wide, std::string(",5,\r40.5,,\r80,100.25,"),
        std::string("# what was measured\n\n,5,\n# row 1\n40.5,,\n80,100.25,\n# end\n"),
        std::string(",\t5,\n40.5,\t,\n80,\t100.25,\n"), std::string(";5;\n40,5;;\n80;100,25;\n"),
        std::string("\t5\t\n40.5\t\t\n80\t100.25\t\n"),
        std::string("\"\",\"5\",\"\"\n\"40.5\",\"\",\"\"\n\"80\",\"100.25\",\n"),
        std::string(",0,1,2\n0,,5,\n1,40.5,,\n2,80,100.25,\n"),
        std::string("cpu,cpu0,cpu1,cpu2\r\ncpu0,,5,\r\ncpu1,40.5,,\r\ncpu2,80,100.25,\r\n"),
        std::string("\t\"0\"\t\"1\"\t\"2\"\n0\t\t5\t\n1\t40,5\t\t\n2\t80\t100,25\t\n")}) {
    const auto machine = parse(text);
    ASSERT_TRUE(machine) << text << machine.error().message;
    EXPECT_EQ(*machine, *plain) << text;
  }
  for (const auto* text : {",0,1\n0,,\n1,7,\n", "\"\",\"pu0\",\"pu1\"\npu0,,\npu1,7,\n", "x,0,1\n0,,\n1,7,\n"}) {
    const auto two = parse(text);
    ASSERT_TRUE(two) << text << two.error().message;
    EXPECT_EQ(*two, *parse(",\n7,\n")) << text;
  }
  // A lower triangle separated by tabs begins with a row of blanks alone.
  const auto triangle = parse("\t\n7\t\n");
  ASSERT_TRUE(triangle) << triangle.error().message;
  EXPECT_EQ(triangle->size(), 2u);
}

struct BadTable {
  const char* csv;
  const char* part_of_message;
};

class CoreToCoreErrors : public testing::TestWithParam<BadTable> {};

TEST_P(CoreToCoreErrors, NameLineAndColumn) {
  const auto machine = parse(GetParam().csv);
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().status, Status::bad_format);
  EXPECT_EQ(machine.error().message.rfind("dir/table.csv: ", 0), 0u) << machine.error().message;
  EXPECT_NE(machine.error().message.find(GetParam().part_of_message), std::string::npos) << machine.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Table, CoreToCoreErrors,
    testing::Values(BadTable{"", "empty"}, BadTable{",,\n1,,\n2,nan,\n", "line 3, column 2: must be a latency"},
                    BadTable{",\n-1,\n", "line 2, column 1: must be a latency"},
                    BadTable{",\n1e999,\n", "line 2, column 1: must be a latency"},
                    BadTable{",\ninf,\n", "line 2, column 1"}, BadTable{",\nfast,\n", "is \"fast\""},
                    BadTable{",,\n1,,\n2,,\n", "line 3, column 2: no latency"},
                    BadTable{",,\n1,\n2,3,\n", "line 2: 2 fields, but the first row has 3"},
                    BadTable{",,\n1,,,\n2,3,\n", "line 2, column 4: more fields"},
                    BadTable{",,\n1,,\n", "line 2: the table ends after 2 rows"},
                    BadTable{",\n1,\n2,3\n", "line 3: more rows"}, BadTable{"a,b\n1,\n", "line 1, column 1"},
                    BadTable{"{\"schema\": \"smelt-machine/1\"}", "line 1"}, BadTable{",,\n\n1,,\n2,3,\n", "line 2"},
                    BadTable{",0,1,2\n0,,,\n2,1,,\n2,3,4,\n", "line 3, column 1: must be the title of PU 1, is \"2\""},
                    BadTable{",0,1,2\n0,,,\n1,x,,\n2,3,4,\n", "line 3, column 2: must be a latency"},
                    BadTable{",0,1,2\n0,,,\n1,1,,\n2,3,,\n", "line 4, column 3: no latency"},
                    BadTable{",0,1,2\n0\n", "0 fields, but a table has 1 to 4096"},
                    BadTable{",0,1,2\n", "the file is empty"}, BadTable{"\n\n# nothing\n", "the file is empty"},
                    BadTable{",0,2,1\n0,,,\n1,1,,\n", "the table ends after 3 rows"},
                    BadTable{";\n4,0,1;\n", "line 2, column 1: must be a latency"},
                    BadTable{",\n1.1e12,\n",
                             "line 2, column 1: must be a latency of 0..1000000000000 ns, is \"1.1e12\""},
                    BadTable{",0,1,2\n0,,,\n1,1,,,\n2,3,4,\n", "line 3, column 5: more fields than the first row's 3"},
                    BadTable{",cpu1,cpu2\ncpu1,,\ncpu2,7,\n", "line 1, column 2: must be a latency"},
                    BadTable{"x,0.0,1\n0,,\n1,7,\n", "line 1, column 1: must be a latency"},
                    BadTable{"x,-0,1\n0,,\n1,7,\n", "line 1, column 1: must be a latency"},
                    BadTable{",,\n1,,\n2,3,\nuser@host:~$ exit\n", "line 4: more rows"}));

TEST(CoreToCore, Bounds) {
  EXPECT_TRUE(parse(",\n1e12,\n"));
  EXPECT_TRUE(parse(",\n0,\n"));
  // As wide as a table may be: its second row is missed, not its width.
  const auto widest = parse(std::string(4095, ',') + "\n");
  ASSERT_FALSE(widest);
  EXPECT_NE(widest.error().message.find("the table ends after 1 rows, but its rows have 4096 fields"),
            std::string::npos);
  const auto too_wide = parse(std::string(4096, ',') + "\n");
  EXPECT_NE(too_wide.error().message.find("4097 fields"), std::string::npos);
}

// Latencies of the two directions count half each for what the machine looks like.
TEST(CoreToCore, TheTwoDirectionsAreOneForTheTopology) {
  const auto machine = parse("0,10,90,90\n12,0,90,90\n70,70,0,4\n70,70,20,0\n");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->pus[0].core, machine->pus[1].core);
  EXPECT_EQ(machine->pus[2].core, machine->pus[3].core) << "12 ns on average";
  EXPECT_NE(machine->pus[0].core, machine->pus[2].core);
  EXPECT_DOUBLE_EQ(machine->send_ns(2, 3), 1.0);
  EXPECT_DOUBLE_EQ(machine->recv_ns(3, 2), 15.0);
  EXPECT_EQ(machine->pus[3].os_index, 3);
}

TEST(CoreToCore, MoreThan4096PusOrEndlessLines) {
  const auto wide = parse(std::string(5000, ','));
  ASSERT_FALSE(wide);
  EXPECT_NE(wide.error().message.find("5001 fields, but a table has 1 to 4096"), std::string::npos);
  const auto endless = parse(std::string(1 << 20, '1'));
  ASSERT_FALSE(endless);
  EXPECT_NE(endless.error().message.find("line 1: longer than"), std::string::npos) << endless.error().message;
}

TEST(CoreToCore, FilesThatAreNotThere) {
  EXPECT_EQ(import_core_to_core("/nonexistent/x.csv").error().status, Status::not_found);
  EXPECT_EQ(import_core_to_core("/tmp").error().status, Status::invalid_argument);
}

// ---- inference ----------------------------------------------------------------------------

TEST(Clusters, UniformLatenciesHaveNoLevels) {
  const auto machine = synthesize_machine({.cores = 64, .jitter = 0.25});
  const auto imported = parse(to_csv(*machine));
  ASSERT_TRUE(imported);
  EXPECT_EQ(blocks(*imported, &Pu::core), (Blocks{64, 1, 1}));
  EXPECT_EQ(blocks(*imported, &Pu::l3), (Blocks{1, 64, 64}));
  EXPECT_EQ(blocks(*imported, &Pu::package), (Blocks{1, 64, 64}));
}

TEST(Clusters, FindsTheNestOfASyntheticMachine) {
  const auto machine = synthesize_machine({.packages = 2,
                                           .numa_per_package = 2,
                                           .cores = 16,
                                           .smt = 2,
                                           .l3 = 4,
                                           .smt_ns = 8,
                                           .l3_ns = 25,
                                           .numa_ns = 60,
                                           .package_ns = 110,
                                           .remote_ns = 220,
                                           .jitter = 0.1});
  const auto imported = parse(to_csv(*machine));
  ASSERT_TRUE(imported);
  for (std::size_t i = 0; i < machine->size(); ++i) {
    EXPECT_EQ(imported->pus[i].core, machine->pus[i].core);
    EXPECT_EQ(imported->pus[i].l3, machine->pus[i].l3);
    EXPECT_EQ(imported->pus[i].numa_node, machine->pus[i].numa_node);
    EXPECT_EQ(imported->pus[i].package, machine->pus[i].package);
  }
}

TEST(Clusters, ASlowPairDoesNotSplitALevel) {
  auto machine = synthesize_machine({.packages = 2, .cores = 8, .smt = 2, .smt_ns = 7, .jitter = 0.05});
  machine->send_ns(1, 0) *= 2;  // siblings of one core, disturbed while they were measured
  machine->recv_ns(1, 0) *= 2;
  const auto imported = parse(to_csv(*machine));
  ASSERT_TRUE(imported);
  EXPECT_EQ(blocks(*imported, &Pu::core), (Blocks{16, 2, 2}));
  EXPECT_EQ(blocks(*imported, &Pu::package), (Blocks{2, 16, 16}));
}

TEST(Clusters, LevelsNestAndNumbersStartAtTheFirstMember) {
  const auto machine = synthesize_machine({.packages = 4, .cores = 8, .smt = 2, .l3 = 2, .smt_ns = 5, .jitter = 0.05});
  Matrix latency(machine->size());
  for (std::size_t i = 0; i < machine->size(); ++i) {
    for (std::size_t j = 0; j < machine->size(); ++j) latency(i, j) = machine->send_ns(i, j) + machine->recv_ns(i, j);
  }
  const auto levels = find_levels(latency);
  ASSERT_EQ(levels.size(), 3u);
  for (std::size_t level = 0; level < levels.size(); ++level) {
    int highest = -1;
    for (std::size_t i = 0; i < latency.size(); ++i) {
      EXPECT_LE(levels[level][i], highest + 1);
      highest = std::max(highest, levels[level][i]);
      for (std::size_t j = 0; level > 0 && j < i; ++j) {
        if (levels[level - 1][i] == levels[level - 1][j]) {
          EXPECT_EQ(levels[level][i], levels[level][j]);
        }
      }
    }
  }
}

TEST(Clusters, DegenerateTables) {
  EXPECT_TRUE(parse("\n,\n").error().status == Status::bad_format);
  EXPECT_EQ(parse("0").operator bool(), true);
  const auto pair = parse(",\n7,\n");
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->pus[0].core, pair->pus[1].core);
  const auto cores = parse(",\n50,\n");
  ASSERT_TRUE(cores);
  EXPECT_NE(cores->pus[0].core, cores->pus[1].core);
  EXPECT_TRUE(parse(",,,\n0,,,\n0,0,,\n0,0,0,\n"));
  EXPECT_TRUE(parse(",,,\n1e-300,,,\n1e12,1,,\n0,1e-9,3,\n"));
}

// ---- published tables ---------------------------------------------------------------------

struct Published {
  const char* file;
  Blocks core, l2, l3, numa_node, package;
};

class PublishedMachine : public testing::TestWithParam<Published> {};

TEST_P(PublishedMachine, HasTheTopologyOfItsCpu) {
  const char* shared = std::getenv("SMELT_SHARED");
  const auto directory = (shared != nullptr ? fs::path(shared) : fs::path(SMELT_SOURCE_DIR) / "../shared") / "machines";
  const auto& expected = GetParam();
  if (!fs::exists(directory / expected.file))
    GTEST_SKIP() << "no published tables in " << directory << "; set SMELT_SHARED";
  const auto machine = import_core_to_core(directory / expected.file);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(blocks(*machine, &Pu::core), expected.core);
  EXPECT_EQ(blocks(*machine, &Pu::l2), expected.l2);
  EXPECT_EQ(blocks(*machine, &Pu::l3), expected.l3);
  EXPECT_EQ(blocks(*machine, &Pu::numa_node), expected.numa_node);
  EXPECT_EQ(blocks(*machine, &Pu::package), expected.package);
}

INSTANTIATE_TEST_SUITE_P(
    All, PublishedMachine,
    testing::Values(
        Published{"amd-ryzen-9-5950x.csv", {16, 2, 2}, {16, 2, 2}, {2, 16, 16}, {2, 16, 16}, {1, 32, 32}},
        Published{"amd-epyc-7773x.csv", {64, 2, 2}, {64, 2, 2}, {8, 16, 16}, {8, 16, 16}, {1, 128, 128}},
        Published{"amd-ryzen-threadripper-3960x.csv", {24, 2, 2}, {24, 2, 2}, {8, 6, 6}, {8, 6, 6}, {1, 48, 48}},
        Published{"aws-graviton3.csv", {64, 1, 1}, {64, 1, 1}, {1, 64, 64}, {1, 64, 64}, {1, 64, 64}},
        Published{"dual-intel-xeon-e5-2680-v4.csv", {28, 2, 2}, {28, 2, 2}, {2, 28, 28}, {2, 28, 28}, {2, 28, 28}},
        Published{"dual-intel-xeon-gold-6242.csv", {32, 2, 2}, {32, 2, 2}, {2, 32, 32}, {2, 32, 32}, {2, 32, 32}},
        // Eight fast cores of two PUs, eight slow ones of one, under one L3.
        Published{"intel-core-i9-12900k.csv", {16, 1, 2}, {16, 1, 2}, {1, 24, 24}, {1, 24, 24}, {1, 24, 24}},
        // Tiles of two cores around an L2, and no L3.
        Published{"intel-xeon-phi-7210.csv", {64, 1, 1}, {32, 2, 2}, {32, 2, 2}, {1, 64, 64}, {1, 64, 64}}),
    [](const auto& info) {
      std::string name = fs::path(info.param.file).stem();
      for (auto& c : name) c = c == '-' ? '_' : c;
      return name;
    });

}  // namespace
}  // namespace smelt
