#include "machine/import/memory_figures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace smelt {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// NUMA nodes 0 and 1 with PUs, node 2 without.
Machine three_nodes() {
  Machine machine;
  machine.name = "three";
  for (int node = 0; node < 3; ++node) machine.numa_nodes.push_back({node, 1ull << 30});
  for (int pu = 0; pu < 4; ++pu) machine.pus.push_back({.os_index = pu, .core = pu, .numa_node = pu / 2});
  return machine;
}

void expect_survives_its_file(const Machine& machine) {
  const auto again = parse_machine(format_machine(machine), "again");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, machine);
}

// ---- HMAT ----

std::string bytes_of(std::uint64_t value, std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}

std::string locality(unsigned data_type, std::uint64_t base, const std::vector<unsigned>& initiators,
                     const std::vector<unsigned>& targets, const std::vector<unsigned>& entries, unsigned flags = 0) {
  std::string body;
  for (const auto each : initiators) body += bytes_of(each, 4);
  for (const auto each : targets) body += bytes_of(each, 4);
  for (const auto each : entries) body += bytes_of(each, 2);
  return bytes_of(1, 4) + bytes_of(32 + body.size(), 4) + bytes_of(flags, 1) + bytes_of(data_type, 1) + bytes_of(0, 2) +
         bytes_of(initiators.size(), 4) + bytes_of(targets.size(), 4) + bytes_of(0, 4) + bytes_of(base, 8) + body;
}

std::string hmat(unsigned revision, const std::string& structures) {
  return "HMAT" + bytes_of(40 + structures.size(), 4) + bytes_of(revision, 1) + std::string(31, '\0') + structures;
}

Result<Machine> parsed(const std::string& table) { return parse_hmat(table, three_nodes(), "table"); }

TEST(Hmat, LatenciesAndBandwidthsOfMemoryGoToTheirPairs) {
  const auto proximity = bytes_of(0, 4) + bytes_of(40, 4) + std::string(32, '\x7f');  // type 0: skipped
  const auto machine = parsed(hmat(2, proximity + locality(1, 1000, {0, 1}, {0, 1, 2}, {80, 140, 250, 141, 81, 260}) +
                                          locality(4, 100, {0, 1}, {0, 1, 2}, {1000, 400, 0, 410, 1010, 0xffff}) +
                                          locality(5, 100, {1}, {2}, {90})));
  ASSERT_TRUE(machine) << machine.error().message;
  const auto& memory = *machine->memory;
  EXPECT_DOUBLE_EQ(memory.latency_ns(0, 0), 80);
  EXPECT_DOUBLE_EQ(memory.latency_ns(0, 1), 140);
  EXPECT_DOUBLE_EQ(memory.latency_ns(1, 0), 141);
  EXPECT_DOUBLE_EQ(memory.latency_ns(1, 2), 260);
  EXPECT_DOUBLE_EQ(memory.latency_ns(2, 0), 0);
  EXPECT_DOUBLE_EQ(memory.read_all_gbs(0, 0), 100);
  EXPECT_DOUBLE_EQ(memory.read_all_gbs(1, 0), 41);
  EXPECT_DOUBLE_EQ(memory.read_all_gbs(0, 2), 0);
  EXPECT_DOUBLE_EQ(memory.read_all_gbs(1, 2), 0);
  EXPECT_DOUBLE_EQ(memory.write_all_gbs(1, 2), 9);
  EXPECT_DOUBLE_EQ(memory.write_all_gbs(0, 0), 0);
  EXPECT_EQ(machine->pus, three_nodes().pus);
  expect_survives_its_file(*machine);
}

TEST(Hmat, FiguresOfReadsCountMoreThanThoseOfAccesses) {
  const auto machine = parsed(hmat(2, locality(1, 1000, {0}, {0}, {80}) + locality(0, 1000, {0}, {0, 1}, {99, 150}) +
                                          locality(3, 1, {0}, {0}, {5000})));
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_DOUBLE_EQ(machine->memory->latency_ns(0, 0), 80);
  EXPECT_DOUBLE_EQ(machine->memory->latency_ns(0, 1), 150);
  EXPECT_DOUBLE_EQ(machine->memory->read_all_gbs(0, 0), 5);
  EXPECT_DOUBLE_EQ(machine->memory->write_all_gbs(0, 0), 5);
}

TEST(Hmat, Revision1CountsTenthsOfNanoseconds) {
  const auto machine = parsed(hmat(1, locality(1, 10, {0}, {0}, {85})));
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_DOUBLE_EQ(machine->memory->latency_ns(0, 0), 85);
}

TEST(Hmat, CachesInFrontOfMemoryAndWriteLatenciesAreLeftOut) {
  const auto machine = parsed(hmat(2, locality(1, 1000, {0}, {0}, {20}, 1) + locality(1, 1000, {0}, {0}, {80}) +
                                          locality(2, 1000, {0}, {0}, {300}) + locality(6, 1000, {0}, {0}, {1})));
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_DOUBLE_EQ(machine->memory->latency_ns(0, 0), 80);
}

TEST(Hmat, DomainsOfOtherNumbersAreNodesInTheirOrder) {
  const auto machine = parsed(hmat(2, locality(1, 1000, {4, 7}, {4, 7, 20}, {80, 140, 250, 141, 81, 260})));
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_DOUBLE_EQ(machine->memory->latency_ns(1, 2), 260);
}

TEST(Hmat, AStructureHasRoomForAllOfItsFigures) {
  for (std::size_t initiators = 1; initiators <= 3; ++initiators) {
    for (std::size_t targets = 1; targets <= 3; ++targets) {
      const std::vector<unsigned> domains = {0, 1, 2};
      const auto end = [&](std::size_t count) { return domains.begin() + static_cast<std::ptrdiff_t>(count); };
      for (std::size_t figures = 0; figures <= initiators * targets; ++figures) {
        SCOPED_TRACE(testing::Message() << figures << " of " << initiators << " x " << targets);
        const auto machine = parsed(hmat(2, locality(1, 1000, {domains.begin(), end(initiators)},
                                                     {domains.begin(), end(targets)}, std::vector(figures, 80u))));
        ASSERT_EQ(static_cast<bool>(machine), figures == initiators * targets);
        if (!machine) {
          EXPECT_THAT(machine.error().message, HasSubstr("do not fit"));
        }
      }
    }
  }
}

TEST(Hmat, DamagedTablesAreRefusedWithThePlace) {
  const auto good = hmat(2, locality(1, 1000, {0}, {0, 1}, {80, 90}));
  ASSERT_TRUE(parsed(good));
  const auto message = [](const std::string& table) {
    const auto machine = parsed(table);
    return machine ? std::string("accepted") : machine.error().message;
  };
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(message(good.substr(0, size)), testing::StartsWith("table: byte ")) << size;
  }
  auto damaged = good;
  damaged[8] = 3;
  EXPECT_THAT(message(damaged), HasSubstr("revision 3"));
  damaged = good;
  damaged[44] = 4;
  EXPECT_THAT(message(damaged), HasSubstr("byte 44: a structure of 4 bytes"));
  damaged = good;
  damaged[44] = 127;
  EXPECT_THAT(message(damaged), HasSubstr("byte 44: a structure of 127 bytes"));
  for (const int field : {52, 56}) {  // initiators, targets
    for (const char count : {char{5}, '\x7f'}) {
      damaged = good;
      damaged[static_cast<std::size_t>(field)] = count;
      damaged[static_cast<std::size_t>(field) + 3] = count;
      EXPECT_THAT(message(damaged), HasSubstr("do not fit")) << field;
    }
  }
  EXPECT_THAT(message(hmat(2, "")), HasSubstr("no latency"));
  EXPECT_THAT(message(hmat(2, locality(1, 1000, {0}, {9}, {80}))), HasSubstr("2 proximity domains"));
}

// ---- Intel's mlc ----

constexpr char mlc_text[] =
    "Intel(R) Memory Latency Checker - v3.9a\n"
    "Measuring idle latencies for random access (in ns)...\n"
    "\t\tNuma node\n"
    "Numa node\t     0\t     1\t     2\t\n"
    "       0\t  81.2\t 139.5\t 250\t\n"
    "       1\t 140.1\t  81.0\t -\t\n"
    "\n"
    "Measuring Peak Injection Memory Bandwidths for the system\n"
    "ALL Reads        :\t222336.9\t\n"
    "\n"
    "Measuring Memory Bandwidths between nodes within system \n"
    "Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)\n"
    "Using Read-only traffic type\n"
    "\t\tNuma node\n"
    "Numa node\t     0\t     1\t\n"
    "       0\t111290.5\t34246.7\t\n"
    "       1\t34267.4\t111255.1\t\n"
    "\n"
    "Measuring Loaded Latencies for the system\n"
    " 00000\t190.33\t 221833.5\n";

Result<Machine> parsed_mlc(const std::string& text) {
  std::istringstream stream(text);
  return parse_mlc(stream, three_nodes(), "mlc.txt");
}

TEST(Mlc, BothTablesAreRead) {
  const auto machine = parsed_mlc(mlc_text);
  ASSERT_TRUE(machine) << machine.error().message;
  const auto& memory = *machine->memory;
  EXPECT_DOUBLE_EQ(memory.latency_ns(0, 1), 139.5);
  EXPECT_DOUBLE_EQ(memory.latency_ns(1, 0), 140.1);
  EXPECT_DOUBLE_EQ(memory.latency_ns(0, 2), 250);
  EXPECT_DOUBLE_EQ(memory.latency_ns(1, 2), 0);
  EXPECT_DOUBLE_EQ(memory.read_all_gbs(0, 0), 111.2905);
  EXPECT_DOUBLE_EQ(memory.read_all_gbs(1, 0), 34.2674);
  EXPECT_DOUBLE_EQ(memory.read_all_gbs(0, 2), 0);
  EXPECT_DOUBLE_EQ(memory.write_all_gbs(0, 0), 0);
  expect_survives_its_file(*machine);
}

TEST(Mlc, WhatIsNoTableIsRefusedWithTheLine) {
  const auto message = [](std::string text, const std::string& part, const std::string& by) {
    const auto at = text.find(part);
    text.replace(at, part.size(), by);
    const auto machine = parsed_mlc(text);
    return machine ? std::string("accepted") : machine.error().message;
  };
  EXPECT_THAT(message(mlc_text, "139.5", "fast"), HasSubstr("mlc.txt: line 5: 'fast' is no figure"));
  EXPECT_THAT(message(mlc_text, "139.5", "-3"), HasSubstr("'-3' is no figure"));
  EXPECT_THAT(message(mlc_text, "\t 139.5", ""), HasSubstr("line 5: 2 values for node 0, but 3 columns"));
  EXPECT_THAT(message(mlc_text, "     1\t     2\t\n", "     1\t     3\t\n"), HasSubstr("line 4: '3' is no NUMA node"));
  EXPECT_THAT(message(mlc_text, "       1\t 140.1", "       5\t 140.1"), HasSubstr("line 6: '5' is no NUMA node"));
  EXPECT_THAT(message(mlc_text, "34267.4", "1e300"), HasSubstr("line 17"));
  const auto none = parsed_mlc("hello\n");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("mlc"));
  EXPECT_EQ(none.error().status, Status::bad_format);
}

// ---- files and directories ----

class MemoryImport : public testing::Test {
 protected:
  MemoryImport() { fs::create_directories(directory_); }
  ~MemoryImport() override { fs::remove_all(directory_); }

  void write(const std::string& name, const std::string& content) {
    fs::create_directories((directory_ / name).parent_path());
    std::ofstream(directory_ / name, std::ios::binary) << content;
  }

  const fs::path directory_ = fs::path(testing::TempDir()) / "smelt-memory-import";
};

TEST_F(MemoryImport, TheContentTellsTheKind) {
  write("mlc.txt", mlc_text);
  write("HMAT", hmat(2, locality(1, 1000, {0}, {0}, {80})));
  for (const auto& [name, latency] : {std::pair{"mlc.txt", 81.2}, std::pair{"HMAT", 80.0}}) {
    const auto machine = import_memory(directory_ / name, three_nodes());
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_DOUBLE_EQ(machine->memory->latency_ns(0, 0), latency);
  }
}

TEST_F(MemoryImport, AccessClassesOfTheNearestNodesWithPus) {
  for (const std::string level : {"access0", "access1"}) {
    const std::string path = "node2/" + level + "/initiators/";
    write(path + "node1/here", "");
    write(path + "read_latency", level == "access1" ? "250\n" : "1\n");
    write(path + "read_bandwidth", "30000\n");
    write(path + "write_bandwidth", "12000\n");
  }
  write("node0/access0/initiators/node0/here", "");
  write("node0/access0/initiators/read_latency", "90\n");
  write("node17/access0/initiators/read_latency", "5\n");
  const auto machine = import_memory(directory_, three_nodes());
  ASSERT_TRUE(machine) << machine.error().message;
  const auto& memory = *machine->memory;
  EXPECT_DOUBLE_EQ(memory.latency_ns(1, 2), 250);
  EXPECT_DOUBLE_EQ(memory.read_all_gbs(1, 2), 30);
  EXPECT_DOUBLE_EQ(memory.write_all_gbs(1, 2), 12);
  EXPECT_DOUBLE_EQ(memory.latency_ns(0, 2), 0);
  EXPECT_DOUBLE_EQ(memory.latency_ns(0, 0), 90);
  write("node0/access0/initiators/read_latency", "soon\n");
  const auto damaged = import_memory(directory_, three_nodes());
  ASSERT_FALSE(damaged);
  EXPECT_THAT(damaged.error().message, HasSubstr("read_latency"));
}

TEST_F(MemoryImport, WhatIsNotThereIsSaid) {
  const auto missing = import_memory(directory_ / "nothing", three_nodes());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().status, Status::not_found);
  const auto empty = import_memory(directory_, three_nodes());
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("no access classes"));
  Machine bare = three_nodes();
  bare.numa_nodes.clear();
  const auto nowhere = import_memory(directory_, bare);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().status, Status::invalid_argument);
}

}  // namespace
}  // namespace smelt
