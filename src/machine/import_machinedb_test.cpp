#include <gtest/gtest.h>

#include <cmath>

#include "machine/test_support.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

using test::ScopedDirectory;

constexpr const char* all_pairs = "0 1 10 1\n1 0 12 1\n0 4 40 2.5\n4 0 42 2\n1 4 44 0\n4 1 46 0.5\n";
constexpr const char* lscpu =
    "# The following is the parsable format, which can be fed to other\n"
    "# programs. Each different item in every column has an unique ID\n"
    "# starting usually from zero.\n"
    "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n"
    "0,0,0,0,,0,0,0,0\n1,0,0,0,,0,0,0,0\n2,1,0,1,,1,1,1,0\n3,1,0,1,,1,1,1,0\n4,2,1,2,,2,2,2,1\n";

class MachineDb : public testing::Test {
 protected:
  MachineDb() {
    directory_.write("pairwise_send", all_pairs);
    directory_.write("pairwise_receive", std::string("# sender receiver mean stddev\n\n") + all_pairs);
    directory_.write("lscpu_parse.txt", lscpu);
  }
  Result<Machine> import(double ghz = 1.0) { return import_machinedb(directory_.path(), ghz); }
  void expect_error(Status status, const std::string& part, double ghz = 1.0) {
    const auto machine = import(ghz);
    ASSERT_FALSE(machine);
    EXPECT_EQ(machine.error().status, status) << machine.error().message;
    EXPECT_NE(machine.error().message.find(part), std::string::npos) << machine.error().message;
  }

  ScopedDirectory directory_;
};

TEST_F(MachineDb, ReadsCostsAndLayout) {
  const auto machine = import();
  ASSERT_TRUE(machine) << machine.error().message;
  ASSERT_EQ(machine->size(), 3u);
  EXPECT_EQ(machine->pus[2].os_index, 4);
  EXPECT_EQ(machine->send_ns(0, 1), 10.0);
  EXPECT_EQ(machine->send_ns(2, 1), 46.0);
  EXPECT_EQ(machine->recv_ns(1, 2), 44.0);
  EXPECT_EQ(machine->recv_ns(1, 1), 0.0);
  EXPECT_EQ(machine->pus[0].core, machine->pus[1].core);
  EXPECT_EQ(machine->pus[2].package, 1);
  EXPECT_EQ(machine->pus[2].numa_node, 1);  // dense: node 1 of the file was not measured
  EXPECT_EQ(machine->numa_nodes[1].os_index, 2);
  EXPECT_EQ(machine->pus[2].l3, 1);
  EXPECT_FALSE(machine->rtt_ns);
  EXPECT_EQ(machine->method, "machinedb");
  EXPECT_TRUE(parse_machine(format_machine(*machine), "again"));
}

TEST_F(MachineDb, ConvertsCyclesAndReadsRoundTrips) {
  directory_.write("pairwise_rtt", all_pairs);
  const auto machine = import(2.0);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->send_ns(0, 1), 5.0);
  ASSERT_TRUE(machine->rtt_ns);
  EXPECT_EQ((*machine->rtt_ns)(0, 2), 20.0);
  EXPECT_EQ(machine->tsc_ghz, 2.0);
}

TEST_F(MachineDb, TabsWindowsLineEndsAndRepeatedLines) {
  directory_.write("pairwise_send", "0\t1\t10\t1\r\n0 1  10 1\r\n1 0 12 1\r\n0 0 3 1\r\n");
  directory_.write("pairwise_receive", "0 1 10 1\n1 0 12 1\n");
  const auto machine = import();
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->size(), 2u);
  EXPECT_EQ(machine->send_ns(0, 0), 0.0);
}

TEST_F(MachineDb, CachesInOneFieldAndAnEmptyNode) {
  directory_.write("lscpu_parse.txt", "# CPU,Core,Socket,Node,L1d:L1i:L2:L3\n0,0,0,,0:0:0:0\n1,1,0,,1:1:1:0\n4,2,1,,2:2:2:1\n");
  const auto machine = import();
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->pus[0].numa_node, machine->pus[1].numa_node);
  EXPECT_NE(machine->pus[0].numa_node, machine->pus[2].numa_node);
  EXPECT_NE(machine->pus[0].l2, machine->pus[1].l2);
  EXPECT_EQ(machine->pus[0].l3, machine->pus[1].l3);
  EXPECT_NE(machine->pus[0].l3, machine->pus[2].l3);
}

TEST_F(MachineDb, ColumnsInAnotherOrder) {
  directory_.write("lscpu_parse.txt", "# CPU,Node,Socket,Core\n0,5,1,7\n1,5,1,7\n4,6,1,8\n");
  const auto machine = import();
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->numa_nodes[0].os_index, 5);
  EXPECT_EQ(machine->pus[0].core, machine->pus[1].core);
  EXPECT_EQ(machine->pus[0].package, machine->pus[2].package);
}

TEST_F(MachineDb, WithoutLayoutEverythingIsNear) {
  std::filesystem::remove(directory_.path() / "lscpu_parse.txt");
  const auto machine = import();
  ASSERT_TRUE(machine) << machine.error().message;
  for (const auto& pu : machine->pus) EXPECT_EQ(pu.numa_node, 0);
  EXPECT_NE(machine->pus[0].core, machine->pus[1].core);
}

TEST_F(MachineDb, BadLines) {
  const std::pair<const char*, const char*> lines[] = {
      {"0 1 10", "line 7: must be: sender receiver mean stddev"},
      {"0 1 10 1 1", "line 7: must be: sender"},
      {"0 1 ten 1", "line 7: mean"},
      {"0 1 nan 1", "line 7: mean"},
      {"0 1 -3 1", "line 7: mean"},
      {"0 1 10 x", "line 7: stddev"},
      {"-1 1 10 1", "line 7: sender and receiver"},
      {"0 99999999 10 1", "line 7: sender and receiver"},
      {"0 1.5 10 1", "line 7: sender and receiver"},
      {"0 1 11 1", "pair 0 1 is given twice, with 10 and 11"},
      {"0 9 11 1", "lscpu_parse.txt: says nothing of PU 9"},
  };
  for (const auto& [line, message] : lines) {
    directory_.write("pairwise_send", all_pairs + std::string(line) + "\n");
    expect_error(Status::bad_format, message);
  }
}

TEST_F(MachineDb, MissingPairs) {
  directory_.write("pairwise_receive", "0 1 10 1\n1 0 12 1\n0 4 40 2.5\n4 0 42 2\n4 1 46 0.5\n");
  expect_error(Status::bad_format, "pairwise_receive: pair 1 4 is missing");
  directory_.write("pairwise_receive", all_pairs + std::string("0 2 1 1\n"));
  expect_error(Status::bad_format, "pairwise_receive: PU 2 is not in the file of sends");
  directory_.write("pairwise_receive", "\n# nothing\n");
  expect_error(Status::bad_format, "pairwise_receive: holds no measurements");
}

TEST_F(MachineDb, MissingAndAmbiguousFiles) {
  directory_.write("other_send", all_pairs);
  expect_error(Status::bad_format, "several files end in _send: other_send and pairwise_send");
  std::filesystem::remove(directory_.path() / "other_send");
  std::filesystem::remove(directory_.path() / "pairwise_receive");
  expect_error(Status::not_found, "no file whose name ends in _receive");
  EXPECT_EQ(import_machinedb("/nonexistent").error().status, Status::not_found);
  EXPECT_EQ(import_machinedb(directory_.path() / "pairwise_send").error().status, Status::not_found);
}

TEST_F(MachineDb, BadLayoutFile) {
  directory_.write("lscpu_parse.txt", "0,0,0,0\n1,0,x,0\n4,0,0,0\n");
  expect_error(Status::bad_format, "lscpu_parse.txt: line 2");
  directory_.write("lscpu_parse.txt", "0,0,0,0\n0,0,0,0\n");
  expect_error(Status::bad_format, "line 2: PU 0 is given twice");
  directory_.write("lscpu_parse.txt", ",0,0,0\n");
  expect_error(Status::bad_format, "line 1: must start with the PU's id");
}

TEST_F(MachineDb, BadClock) {
  for (const double ghz : {0.0, -1.0, std::nan(""), 1e9}) expect_error(Status::invalid_argument, "ghz", ghz);
}

}  // namespace
}  // namespace smelt
