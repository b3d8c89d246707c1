#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "machine/import/importer.hpp"
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

TEST_F(MachineDb, SaysWhichOptionsCount) {
  const auto imported = [&](double send_share, double ghz) {
    const auto machine =
        import_machine(directory_.path(), {.format = "machinedb", .send_share = send_share, .ghz = ghz});
    EXPECT_TRUE(machine) << machine.error().message;
    return machine ? *machine : Machine{};
  };
  const Machine machine = imported(0.25, 1.0);
  EXPECT_EQ(!(machine == imported(0.75, 1.0)), formats::machinedb.info.uses_send_share);
  EXPECT_EQ(!(machine == imported(0.25, 2.0)), formats::machinedb.info.uses_ghz);
}

TEST_F(MachineDb, RoundTripsTellWhatBatchesHide) {
  directory_.write("pairwise_send", "0 1 10\n1 0 12\n");
  directory_.write("pairwise_receive", "0 1 24\n1 0 36\n");
  std::filesystem::remove(directory_.path() / "lscpu_parse.txt");
  EXPECT_FALSE(import()->send_gap_ns || import()->recv_gap_ns || import()->propagation_ns) << "no round trips";
  directory_.write("pairwise_rtt", "0 1 80\n1 0 120\n");  // in the mean of both directions a message takes 50
  const auto machine = import();
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ((*machine->propagation_ns)(0, 1), 16.0);
  EXPECT_EQ((*machine->propagation_ns)(1, 0), 2.0);
  EXPECT_EQ((*machine->send_gap_ns)(0, 1), 26.0);
  EXPECT_EQ((*machine->send_gap_ns)(1, 0), 14.0);
  EXPECT_EQ((*machine->recv_gap_ns)(0, 1), 2.0);
  EXPECT_EQ((*machine->recv_gap_ns)(1, 0), 3.0);
  EXPECT_EQ((*machine->send_gap_ns)(0, 0), 0.0);
  EXPECT_TRUE(parse_machine(format_machine(*machine), "again"));
  directory_.write("pairwise_rtt", "0 1 8\n1 0 8\n");  // less than both sides are busy
  EXPECT_EQ((*import()->propagation_ns)(0, 1), 0.0);
  EXPECT_EQ((*import()->send_gap_ns)(0, 1), 10.0);
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
  directory_.write("lscpu_parse.txt",
                   "# CPU,Core,Socket,Node,L1d:L1i:L2:L3\n0,0,0,,0:0:0:0\n1,1,0,,1:1:1:0\n4,2,1,,2:2:2:1\n");
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
      {"0 1", "line 7: must be: sender receiver mean [stddev]"},
      {"0 1 10 1 1", "line 7: must be: sender"},
      {"0 1 10,5 1", "line 7: must be: sender"},
      {"0,1,10,1,1", "line 7: must be: sender"},
      {"0 1,10,1,1", "line 7: sender and receiver"},
      {"0,1,,1", "line 7: mean"},
      {"what is this\n0 1 10 1", "line 7: this is not data, but data follow: \"what is this\""},
      {"$ \n\n# exit\nexit\n0 1 10 1", "line 7: this is not data, but data follow: \"$\""},
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

TEST_F(MachineDb, NumbersAtTheirBounds) {
  directory_.write("lscpu_parse.txt", "0,65535,65535,65535,,0,0,65535,65535\n65535,0,0,0,,0,0,0,0\n");
  directory_.write("pairwise_send", "0 65535 1e12 1\n65535 0 .5\n");
  directory_.write("pairwise_receive", "0 65535 0 1\n65535 0 1 -\n");
  const auto machine = import();
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->pus[1].os_index, 65535);
  EXPECT_EQ(machine->send_ns(0, 1), 1e12);
  EXPECT_EQ(machine->send_ns(1, 0), 0.5);
  EXPECT_EQ(machine->recv_ns(0, 1), 0.0);
  EXPECT_EQ(machine->numa_nodes[1].os_index, 65535);
  expect_error(Status::invalid_argument, "0.5 GHz: makes pair 0 65535 slower", 0.5);
  ASSERT_TRUE(import(1000));
  expect_error(Status::invalid_argument, "ghz", 1000.1);
  directory_.write("pairwise_send", "0 65535 1.00001e12 1\n65535 0 1\n");
  expect_error(Status::bad_format, "line 1: mean");
  directory_.write("pairwise_send", "0 65536 1 1\n65536 0 1\n");
  expect_error(Status::bad_format, "line 1: sender and receiver");
}

// PUs in any order, and those of the layout in another one.
TEST_F(MachineDb, PusInAnyOrder) {
  directory_.write("pairwise_send", "9 2 92 1\n2 9 29 1\n5 2 52 1\n2 5 25 1\n5 9 59 1\n9 5 95 1\n9 9 1 1\n");
  directory_.write("pairwise_receive", "2 9 1 1\n9 2 2 1\n5 2 3 1\n2 5 4 1\n9 5 5 1\n5 9 6 1\n");
  directory_.write("lscpu_parse.txt", "9,4,1,3,,1,1,8,2\n7,0,0,0,,0,0,0,0\n2,4,1,3,,1,1,8,2\n5,1,0,0,,0,0,1,1\n");
  const auto machine = import();
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->pus,
            (std::vector<Pu>{{.os_index = 2, .core = 1, .package = 1, .numa_node = 1, .l2 = 1, .l3 = 1},
                             {.os_index = 5, .core = 0, .package = 0, .numa_node = 0, .l2 = 0, .l3 = 0},
                             {.os_index = 9, .core = 1, .package = 1, .numa_node = 1, .l2 = 1, .l3 = 1}}));
  EXPECT_EQ(machine->send_ns(0, 2), 29);
  EXPECT_EQ(machine->send_ns(2, 1), 95);
  EXPECT_EQ(machine->recv_ns(1, 2), 6);
  ASSERT_EQ(machine->numa_nodes.size(), 2u);
  EXPECT_EQ(machine->numa_nodes[0].os_index, 0);
  EXPECT_EQ(machine->numa_nodes[1].os_index, 3);
  EXPECT_EQ(machine->tsc_ghz, 0.0);
}

TEST_F(MachineDb, MissingPairs) {
  directory_.write("pairwise_receive", "0 1 10 1\n1 0 12 1\n0 4 40 2.5\n4 0 42 2\n4 1 46 0.5\n");
  expect_error(Status::bad_format, "pairwise_receive: pair 1 4 is missing");
  directory_.write("pairwise_receive", all_pairs + std::string("0 2 1 1\n"));
  expect_error(Status::bad_format, "pairwise_receive: PU 2 is not in the file of sends");
  directory_.write("pairwise_receive", "\n# nothing\n");
  expect_error(Status::bad_format, "pairwise_receive: holds no measurements");
  directory_.write("pairwise_send", "# nothing\n");
  expect_error(Status::bad_format, "pairwise_send: holds no measurements");
}

TEST_F(MachineDb, NoRoundTripsAreNoMistake) {
  directory_.write("pairwise_rtt", "# nothing\n");
  const auto machine = import();
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_FALSE(machine->rtt_ns);
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
  expect_error(Status::bad_format, "line 1: the PU's id is missing");
}

TEST_F(MachineDb, ALayoutOfSomethingElse) {
  directory_.write("lscpu_parse.txt", "bash: lscpu: command not found\n");
  expect_error(Status::bad_format, "lscpu_parse.txt: lists no PU");
  directory_.write("lscpu_parse.txt", std::string(5000, '1'));
  expect_error(Status::bad_format, "lscpu_parse.txt: line 1: longer than 4096 bytes");
  directory_.write("pairwise_send", std::string(5000, '1'));
  expect_error(Status::bad_format, "pairwise_send: line 1: longer than 4096 bytes");
}

/// What the importer makes of the files as they are.
Machine imported(const std::filesystem::path& directory) {
  auto machine = import_machinedb(directory);
  EXPECT_TRUE(machine) << (machine ? "" : machine.error().message);
  return machine ? *machine : Machine();
}

std::string with_all_replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string utf16(const std::string& text) {
  std::string wide = "\xff\xfe";
  for (const char c : text) wide += {c, '\0'};
  return wide;
}

// What people capture means what the plain files mean.
TEST_F(MachineDb, FilesAsTheyAreCaptured) {
  const auto plain = imported(directory_.path());
  const std::string pairs = all_pairs, layout = lscpu;
  const std::string no_deviation = "0 1 10\n1 0 12\n0 4 40\n4 0 42\n1 4 44\n4 1 46\n";
  const std::pair<const char*, std::string> captured[] = {
      {"lscpu_parse.txt", "lscpu --parse\n" + layout},
      {"lscpu_parse.txt", "user@host:~$ lscpu -p=CPU,CORE\n" + layout + "user@host:~$ exit\nexit\n"},
      {"lscpu_parse.txt", "[root@host ~]# lscpu -p\r\n" + with_all_replaced(layout, "\n", "\r\n")},
      {"lscpu_parse.txt", "\xef\xbb\xbf" + layout},
      {"lscpu_parse.txt", "\xef\xbb\xbflscpu --parse\r\n" + with_all_replaced(layout, "\n", "\r\n") + "\r\n"},
      {"lscpu_parse.txt", with_all_replaced(layout, "\n", "\r")},
      {"lscpu_parse.txt", utf16("lscpu --parse\r\n" + with_all_replaced(layout, "\n", "\r\n"))},
      {"lscpu_parse.txt", with_all_replaced(layout, "# CPU", "CPU")},
      {"lscpu_parse.txt",
       with_all_replaced(layout, "CPU,Core,Socket,Node,,L1d,L1i,L2,L3", "cpu, core, socket, node,, l1d, l1i, l2, l3")},
      {"lscpu_parse.txt",
       "#Core,CPU,Socket,Node,L2,L3\n0,0,0,0,0,0\n0,1,0,0,0,0\n1,2,0,1,1,0\n1,3,0,1,1,0\n2,4,1,2,2,1\n"},
      {"pairwise_send", "sender receiver mean stddev\n" + pairs + "done\n"},
      {"pairwise_send", "\xef\xbb\xbf" + with_all_replaced(pairs, "\n", "\r\n")},
      {"pairwise_send", utf16(pairs)},
      {"pairwise_send", with_all_replaced(pairs, " ", ",")},
      {"pairwise_send", with_all_replaced(pairs, " ", ", ")},
      {"pairwise_send", no_deviation},
      {"pairwise_send", with_all_replaced(no_deviation, "\n", " nan\n")},
      {"pairwise_send", with_all_replaced(with_all_replaced(no_deviation, " ", ","), "\n", ",\n")},
      {"pairwise_rtt", ""},
      {"pairwise_rtt", "# not measured\n"},
      {"acpi.bin", ""},
      {"._pairwise_send", "what another system puts there"},
  };
  for (const auto& [name, text] : captured) {
    directory_.write("lscpu_parse.txt", lscpu);
    directory_.write("pairwise_send", all_pairs);
    directory_.write(name, text);
    auto machine = imported(directory_.path());
    EXPECT_EQ(machine, plain) << name << ":\n" << text;
  }
}

TEST_F(MachineDb, NamesWithAnEnding) {
  const auto plain = imported(directory_.path());
  for (const auto* ending : {".txt", ".csv", ".dat"}) {
    for (const auto* name : {"pairwise_send", "pairwise_receive"}) {
      std::filesystem::rename(directory_.path() / name, directory_.path() / (std::string(name) + ending));
    }
    EXPECT_EQ(imported(directory_.path()), plain) << ending;
    for (const auto* name : {"pairwise_send", "pairwise_receive"}) {
      std::filesystem::rename(directory_.path() / (std::string(name) + ending), directory_.path() / name);
    }
  }
  std::filesystem::rename(directory_.path() / "pairwise_send", directory_.path() / "pairwise_send.bak");
  expect_error(Status::not_found, "no file whose name ends in _send");
}

TEST_F(MachineDb, MissingColumnsAreFilledIn) {
  directory_.write("lscpu_parse.txt", "lscpu -p=cpu,socket\n# CPU,Socket\n0,1\n1,1\n4,3\n");
  const auto sockets = imported(directory_.path());
  EXPECT_EQ(sockets.pus[0].package, sockets.pus[1].package);
  EXPECT_NE(sockets.pus[0].package, sockets.pus[2].package);
  EXPECT_NE(sockets.pus[0].core, sockets.pus[1].core);
  EXPECT_EQ(sockets.pus[0].l3, sockets.pus[1].l3);
  EXPECT_EQ(sockets.numa_nodes[1].os_index, 3);
  // A row that was cut off: its PU has what no other has, not what has the same number elsewhere.
  directory_.write("lscpu_parse.txt",
                   "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,1,7\n1,1,0,0,,1,1,0,7\n4,0,0,7,,\n");
  const auto cut = imported(directory_.path());
  EXPECT_NE(cut.pus[2].l3, cut.pus[0].l3);
  EXPECT_NE(cut.pus[2].l2, cut.pus[0].l2);
  EXPECT_NE(cut.pus[2].l2, cut.pus[1].l2);
  directory_.write("lscpu_parse.txt", "");
  const auto nothing = imported(directory_.path());
  EXPECT_TRUE(nothing.numa_nodes.empty());
  EXPECT_EQ(nothing.pus[0].package, nothing.pus[2].package);
}

// What stands in for a missing id is none that another PU has, not even the largest one.
TEST_F(MachineDb, MissingIdsAreNobodyElses) {
  directory_.write("lscpu_parse.txt", "0,65535,0,0,,0,0,65535,65535\n1,,0,1,,0,0,,\n4,1,0,2,,0,0,,\n");
  const auto machine = import();
  ASSERT_TRUE(machine) << machine.error().message;
  for (const auto id : {&Pu::core, &Pu::l2, &Pu::l3}) {
    EXPECT_NE(machine->pus[0].*id, machine->pus[1].*id);
    EXPECT_NE(machine->pus[0].*id, machine->pus[2].*id);
    EXPECT_NE(machine->pus[1].*id, machine->pus[2].*id);
  }
}

TEST_F(MachineDb, IdsCountedPerPackageAreToldApart) {
  directory_.write("lscpu_parse.txt",
                   "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,0,9,0,,0,0,0,0\n4,2,1,2,,2,2,2,1\n");
  const auto machine = imported(directory_.path());
  EXPECT_NE(machine.pus[0].core, machine.pus[1].core);
  EXPECT_NE(machine.pus[0].l2, machine.pus[1].l2);
  EXPECT_NE(machine.pus[0].l3, machine.pus[1].l3);
  EXPECT_EQ(*parse_machine(format_machine(machine), "again"), machine);
}

TEST_F(MachineDb, ADatabaseOfOneMachine) {
  const auto plain = imported(directory_.path());
  const ScopedDirectory database;
  std::filesystem::create_directory(database.path() / "notes");
  std::filesystem::copy(directory_.path(), database.path() / "first");
  const auto machine = imported(database.path());
  EXPECT_EQ(machine.name, "first");
  EXPECT_EQ(machine.send_ns, plain.send_ns);
  std::filesystem::copy(directory_.path(), database.path() / "second");
  const auto two = import_machinedb(database.path());
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().status, Status::invalid_argument);
  EXPECT_NE(two.error().message.find("2 machines, first to second"), std::string::npos) << two.error().message;
}

// Few lines that name many PUs: nothing as large as such a machine is made.
TEST_F(MachineDb, AMachineIsNotLargerThanItsFile) {
  std::string pairs;
  for (int pu = 0; pu < 4096; ++pu) pairs += std::to_string(pu) + " " + std::to_string((pu + 1) % 4096) + " 1\n";
  directory_.write("pairwise_send", pairs);
  directory_.write("pairwise_receive", pairs);
  std::filesystem::remove(directory_.path() / "lscpu_parse.txt");
  expect_error(Status::bad_format, "pairwise_send: pair 0 2 is missing");
  directory_.write("pairwise_send", pairs + "4096 0 1\n");
  expect_error(Status::bad_format, "pairwise_send: 4097 PUs, but at most 4096");
}

TEST(PublishedMachineDb, HasTheTopologyOfItsMachine) {
  const char* shared = std::getenv("SMELT_SHARED");
  const auto root =
      shared != nullptr ? std::filesystem::path(shared) : std::filesystem::path(SMELT_SOURCE_DIR) / "../shared";
  const auto directory = root / "machines/machinedb";
  if (!std::filesystem::exists(directory))
    GTEST_SKIP() << "no published database in " << directory << "; set SMELT_SHARED";
  const auto machine = import_machinedb(directory, 2.5);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->name, "intel-xeon-e5-v2-2x10");
  ASSERT_EQ(machine->size(), 20u);
  ASSERT_TRUE(machine->rtt_ns);
  EXPECT_EQ(machine->numa_nodes.size(), 2u);
  for (int pu = 0; pu < 20; ++pu) {
    const auto& own = machine->pus[static_cast<std::size_t>(pu)];
    EXPECT_EQ(own, (Pu{.os_index = pu, .core = pu, .package = pu / 10, .numa_node = pu / 10, .l2 = pu, .l3 = pu / 10}));
  }
  EXPECT_LT(machine->recv_ns(0, 1), machine->recv_ns(0, 10));
}

TEST_F(MachineDb, BadClock) {
  for (const double ghz : {0.0, -1.0, std::nan(""), 1e9}) expect_error(Status::invalid_argument, "ghz", ghz);
}

}  // namespace
}  // namespace smelt
