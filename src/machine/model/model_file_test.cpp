#include "machine/model/model_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

#include "machine/test_support.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;
using test::ScopedDirectory;

Machine small_machine() {
  auto machine =
      synthesize_machine({.packages = 2, .numa_per_package = 1, .cores = 2, .smt = 2, .l3 = 1, .jitter = 0.3});
  EXPECT_TRUE(machine);
  return *machine;
}

Machine full_machine() {
  auto machine = small_machine();
  const auto n = machine.size();
  Matrix odd(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) odd(i, j) = i == j ? 0.0 : 1.0 / static_cast<double>(1 + i * n + j);
  }
  machine.rtt_ns = machine.propagation_ns = machine.exchange_ns = machine.send_spread = machine.recv_spread = odd;
  machine.send_gap_ns = machine.recv_gap_ns = odd;
  machine.call_ns = 10.1;
  machine.switch_ns = 2250.5;
  machine.barrier_call_ns = 3.25;
  machine.process_switch_ns = 3000.25;
  machine.rewrite_share = 0.3;
  machine.combine_rewrite_share = 2.5;
  machine.source_ns_per_kib = 44.5;
  machine.process_pages_ns_per_kib = 101.5;
  machine.change_ns_per_kib = 0.0;
  machine.near_source_ns_per_kib = 130.5;
  machine.near_bytes = 49152.0;
  machine.recv_row_ns = {200.5, 90.25, 50.0};
  machine.counter_ns = 61.25;
  machine.combine_share = {1.0, 1.5, 1.75};
  machine.chunk_contention = {1.0, 1.9};
  machine.recv_burst_ns = {100.0, 7.5};
  machine.fan_out_ns = {0.0, 90.5, 100.25};
  machine.lines_ns = {75.0, 140.0, 150.5};
  machine.poll_ns = {1.5, 1e-7, 0.0};
  machine.send_burst_ns = {20.0, 0.1, 1e-7, 123456789.123};
  machine.page_sizes_bytes = {4096, 2097152, 1ull << 40};
  machine.numa_nodes[1].memory_bytes = 0xffffffffffffffffu;
  machine.tsc_ghz = 2.0999999999999996;
  machine.measured_at = "2026-01-02T03:04:05Z";
  machine.name = "quotes \" and \\ and \n and \xc3\xa9";
  machine.pus[0].efficiency_class = 1;
  return test::with_copies(std::move(machine));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A machine of two PUs, with the parts that a test wants to spoil.
struct Text {
  std::string schema = R"("smelt-machine/1")";
  std::string name = R"("two")";
  std::string pus = R"([{"os_index": 0}, {"os_index": 1}])";
  std::string send = "[[0, 1], [1, 0]]";
  std::string recv = "[[0, 2], [2, 0]]";
  std::string more = {};

  std::string json() const {
    return "{\"schema\": " + schema + ", \"name\": " + name + ", \"pus\": " + pus + ", \"send_ns\": " + send +
           ", \"recv_ns\": " + recv + more + "}";
  }
};

TEST(ModelFile, RoundTripsExactly) {
  const auto machine = full_machine();
  const auto text = format_machine(machine);
  const auto again = parse_machine(text, "memory");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, machine);
  EXPECT_EQ(format_machine(*again), text);
}

TEST(ModelFile, RoundTripsWithoutProcessCopies) {
  auto machine = full_machine();
  machine.copy->process.reset();
  const auto again = parse_machine(format_machine(machine), "memory");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, machine);
}

TEST(ModelFile, RoundTripsCopiesOfOnePu) {
  const auto one = synthesize_machine({.cores = 1});
  ASSERT_TRUE(one);
  const auto machine = test::with_copies(*one);
  const auto again = parse_machine(format_machine(machine), "memory");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, machine);
}

TEST(ModelFile, RoundTripsWithoutCosts) {
  auto machine = small_machine();
  machine.send_ns = machine.recv_ns = Matrix();
  const auto again = parse_machine(format_machine(machine), "memory");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, machine);
}

TEST(ModelFile, HoldsTheKeysThatOthersRead) {
  const auto text = format_machine(full_machine());
  for (const auto* key : {"schema", "name", "fingerprint", "pus", "os_index", "core", "package", "numa_node", "l3",
                          "send_ns", "recv_ns", "rtt_ns", "send_burst", "tsc_ghz", "measured_at", "method"}) {
    EXPECT_NE(text.find('"' + std::string(key) + "\":"), std::string::npos) << key;
  }
}

TEST(ModelFile, HandWrittenMinimum) {
  const auto machine = parse_machine(Text().json(), "memory");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->name, "two");
  EXPECT_EQ(machine->send_ns(0, 1), 1.0);
  EXPECT_EQ(machine->pus[0].package, machine->pus[1].package);
  EXPECT_EQ(machine->pus[0].numa_node, machine->pus[1].numa_node);
  EXPECT_EQ(machine->pus[0].l3, machine->pus[1].l3);
  EXPECT_NE(machine->pus[0].core, machine->pus[1].core);
  EXPECT_FALSE(machine->rtt_ns);
  EXPECT_FALSE(machine->call_ns);
  EXPECT_FALSE(machine->barrier_call_ns || machine->process_switch_ns || machine->rewrite_share);
  EXPECT_FALSE(machine->combine_rewrite_share);
  EXPECT_FALSE(machine->source_ns_per_kib || machine->change_ns_per_kib || machine->counter_ns);
  EXPECT_FALSE(machine->switch_ns || machine->send_gap_ns || machine->recv_gap_ns);
  EXPECT_TRUE(machine->lines_ns.empty() && machine->recv_burst_ns.empty() && machine->poll_ns.empty());
}

TEST(ModelFile, KeysInAnyOrderAndUnknownOnes) {
  const auto machine = parse_machine(
      R"({"send_ns": [[0]], "x": {"y": [1, {"z": null}], "send_ns": []}, "recv_ns": [[0]],
          "pus": [{"vendor": ["a", {}], "os_index": 7, "note": "hi"}], "rtt_ns": null, "send_burst": null, "call_ns": null,
          "tsc_ghz": null, "measured_at": null, "name": "n", "schema": "smelt-machine/1", "last": [[]]})",
      "memory");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->pus[0].os_index, 7);
}

TEST(ModelFile, WhatIsLeftOutIsFilledIn) {
  Text text;
  text.pus = R"([{"os_index": 3, "core": 4}, {"os_index": 1, "package": 2}])";
  const auto machine = parse_machine(text.json(), "memory");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->pus[0], (Pu{.os_index = 3, .core = 4, .package = 0, .numa_node = 0, .l2 = 4, .l3 = 0}));
  EXPECT_EQ(machine->pus[1], (Pu{.os_index = 1, .core = 5, .package = 2, .numa_node = 2, .l2 = 5, .l3 = 2}));
  text.pus = R"([{"os_index": 0, "numa_node": 7, "efficiency_class": 3}, {"os_index": 1, "l3": 9, "l2": 8}])";
  const auto other = parse_machine(text.json(), "memory");
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->pus[0],
            (Pu{.os_index = 0, .core = 0, .package = 0, .numa_node = 7, .l2 = 0, .l3 = 7, .efficiency_class = 3}));
  EXPECT_EQ(other->pus[1], (Pu{.os_index = 1, .core = 1, .package = 0, .numa_node = 0, .l2 = 8, .l3 = 9}));
}

TEST(ModelFile, IdsOfTheWholeMachineStayAsTheyAre) {
  Text text;
  text.pus =
      R"([{"os_index": 0, "core": 5, "package": 1, "l2": 6, "l3": 7}, {"os_index": 1, "core": 3, "package": 0, "l2": 0, "l3": 0}])";
  const auto machine = parse_machine(text.json(), "memory");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->pus[0], (Pu{.os_index = 0, .core = 5, .package = 1, .numa_node = 1, .l2 = 6, .l3 = 7}));
  EXPECT_EQ(machine->pus[1], (Pu{.os_index = 1, .core = 3, .package = 0, .numa_node = 0, .l2 = 0, .l3 = 0}));
}

TEST(ModelFile, IdsCountedPerPackageAreToldApart) {
  Text text;
  text.pus =
      R"([{"os_index": 0, "core": 0, "package": 0, "l3": 0}, {"os_index": 1, "core": 0, "package": 1, "l3": 0}])";
  const auto machine = parse_machine(text.json(), "memory");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_NE(machine->pus[0].core, machine->pus[1].core);
  EXPECT_NE(machine->pus[0].l3, machine->pus[1].l3);
  EXPECT_NE(machine->pus[0].l2, machine->pus[1].l2);
}

TEST(ModelFile, EveryPrefixIsAnError) {
  const auto text = format_machine(full_machine());
  for (std::size_t length = 0; length + 2 < text.size(); length += 1 + length / 97) {
    const auto machine = parse_machine(std::string_view(text).substr(0, length), "cut.json");
    ASSERT_FALSE(machine) << length;
    EXPECT_EQ(machine.error().status, Status::bad_format);
    EXPECT_EQ(machine.error().message.rfind("cut.json: ", 0), 0u) << machine.error().message;
    EXPECT_EQ(machine.error().message.find('\n'), std::string::npos);
  }
}

struct Bad {
  const char* what;
  Text text;
  const char* key_and_reason;  ///< part of the message
};

/// The costs of copies between those two PUs, with a key replaced or, without a value, left out.
std::string copies(const std::string& key = "", const std::string& value = "") {
  const std::pair<const char*, const char*> parts[] = {{"chunk_bytes", "1024"},
                                                       {"cached_bytes", "2048"},
                                                       {"shared_bytes", "4096"},
                                                       {"memory_bytes", "8192"},
                                                       {"startup_ns", "[[1, 2], [3, 4]]"},
                                                       {"chunk_ns_per_kib", "[[1, 2], [3, 4]]"},
                                                       {"cached_ns_per_kib", "[[1, 2], [3, 4]]"},
                                                       {"shared_ns_per_kib", "[[1, 2], [3, 4]]"},
                                                       {"memory_ns_per_kib", "[[1, 2], [3, 4]]"},
                                                       {"cached_contention", "[1, 1.5]"},
                                                       {"shared_contention", "[1, 1.5]"},
                                                       {"memory_contention", "[1, 2]"},
                                                       {"add_ns_per_kib", "5"},
                                                       {"process_call_ns", "6"},
                                                       {"process_ns_per_kib", "7"}};
  std::string text = ", \"copy\": {\"unknown\": {\"x\": [1, {}]}";
  for (const auto& [name, usual] : parts) {
    const auto shown = key == name ? value : usual;
    if (!shown.empty()) text += fmt::format(", \"{}\": {}", name, shown);
  }
  return text + "}";
}

TEST(ModelFile, ReadsCopies) {
  const auto machine = parse_machine(Text{.more = copies() + ", \"tsc_ghz\": 2"}.json(), "memory");
  ASSERT_TRUE(machine) << machine.error().message;
  ASSERT_TRUE(machine->copy && machine->copy->process);
  EXPECT_EQ(machine->copy->startup_ns(1, 0), 3.0);
  EXPECT_EQ(machine->copy->memory_ns_per_kib(1, 1), 4.0);
  EXPECT_EQ(machine->copy->memory_contention, (std::vector<double>{1, 2}));
  EXPECT_EQ(machine->copy->process->ns_per_kib, 7.0);
  EXPECT_EQ(machine->tsc_ghz, 2.0) << "what comes after it";
  const auto none = parse_machine(Text{.more = ", \"copy\": null"}.json(), "memory");
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(none->copy);
}

// ---- memory -------------------------------------------------------------------------------

Machine with_memory() {
  auto machine = full_machine();
  const auto nodes = machine.numa_nodes.size();
  MemoryCosts costs;
  double value = 1.25;
  for (const auto& field : memory_matrix_fields()) {
    costs.*field.memory = Matrix(nodes, value);
    (costs.*field.memory)(0, nodes - 1) = 0.0;
    value *= 3;
  }
  for (const auto& field : memory_number_fields()) costs.*field.memory = value *= 1.5;
  for (const auto& field : memory_list_fields()) costs.*field.memory = {value, value * 2};
  machine.memory = costs;
  return machine;
}

TEST(ModelFile, MemoryRoundTrips) {
  const auto machine = with_memory();
  const auto again = parse_machine(format_machine(machine), "memory");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, machine);
}

TEST(ModelFile, MemoryThatDoesNotFitTheMachineIsRefused) {
  const auto expect = [](const Machine& machine, const std::string& says) {
    const auto read = parse_machine(format_machine(machine), "f");
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message, testing::HasSubstr(says));
  };
  auto machine = with_memory();
  machine.memory->read_gbs = Matrix(7, 1.0);
  expect(machine, "memory.read_gbs: is 7 x 7");
  machine = with_memory();
  machine.memory->walk_ns.push_back(1);
  expect(machine, "memory.walk_ns: has 3 entries");
  machine = with_memory();
  machine.memory->page_bytes[1] = machine.memory->page_bytes[0];
  expect(machine, "memory.page_bytes[1]");
  auto text = format_machine(with_memory());
  text = replaced(text, "\"interleaved_gbs\"", "\"interleaved_gbps\"");
  const auto missing = parse_machine(text, "f");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "f: memory.interleaved_gbs: missing");
}

TEST(ModelFile, EachKeyOfCopiesIsMissed) {
  for (const std::string key :
       {"chunk_bytes", "cached_bytes", "shared_bytes", "memory_bytes", "startup_ns", "chunk_ns_per_kib",
        "cached_ns_per_kib", "shared_ns_per_kib", "memory_ns_per_kib", "cached_contention", "shared_contention",
        "memory_contention", "add_ns_per_kib", "process_call_ns", "process_ns_per_kib"}) {
    const auto machine = parse_machine(Text{.more = copies(key)}.json(), "f");
    ASSERT_FALSE(machine) << key;
    EXPECT_EQ(machine.error().message, "f: copy." + key + ": missing");
  }
}

class BadMachine : public testing::TestWithParam<Bad> {};

TEST_P(BadMachine, NamesFileKeyAndReason) {
  const auto machine = parse_machine(GetParam().text.json(), "dir/bad.json");
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().status, Status::bad_format);
  EXPECT_EQ(machine.error().message.rfind("dir/bad.json: ", 0), 0u) << machine.error().message;
  EXPECT_NE(machine.error().message.find(GetParam().key_and_reason), std::string::npos) << machine.error().message;
  EXPECT_LT(machine.error().message.size(), 400u);
}

const std::string deep(100000, '[');
const std::string long_text(1 << 20, 'x');

INSTANTIATE_TEST_SUITE_P(
    Table, BadMachine,
    testing::Values(
        Bad{"other schema",
            {.schema = R"("smelt-machine/3")"},
            "schema: must be \"smelt-machine/1\" or \"smelt-machine/2\", is \"smelt-machine/3\""},
        Bad{"schema no string", {.schema = "1"}, "schema: must be"},
        Bad{"schema of several lines", {.schema = R"("a\nb\u00e9")"}, "is \"a?b??\""},
        Bad{"key of several lines", {.more = R"(, "a\nb": [nonsense])"}, "a?b: not valid JSON"},
        Bad{"name no string", {.name = "[1]"}, "name: must not be an array"},
        Bad{"name null", {.name = "null"}, "name: must be a string"},
        Bad{"name not UTF-8", {.name = "\"\xff\xfe\""}, "name: not valid JSON"},
        Bad{"name very long", {.name = '"' + long_text + '"'}, "name: "},
        Bad{"no PUs", {.pus = "[]"}, "pus: a machine has at least one"},
        Bad{"pus null", {.pus = "null"}, "pus: must be an array"},
        Bad{"pus an object", {.pus = "{}"}, "pus: must not be an object"},
        Bad{"pus of numbers", {.pus = "[0, 1]"}, "pus[0]: must be an object"},
        Bad{"PU without os_index", {.pus = R"([{"os_index": 0}, {"core": 1}])"}, "pus[1]: has no os_index"},
        Bad{"duplicate PUs",
            {.pus = R"([{"os_index": 4}, {"os_index": 4}])"},
            "pus[1].os_index: 4 is a duplicate of pus[0]"},
        Bad{"negative id",
            {.pus = R"([{"os_index": 0}, {"os_index": 1, "core": -1}])"},
            "pus[1].core: must be 0..65535, is -1"},
        Bad{"absurd id",
            {.pus = R"([{"os_index": 0}, {"os_index": 99999999999999999999}])"},
            "pus[1].os_index: must be"},
        Bad{"id of 64 bits", {.pus = R"([{"os_index": 18446744073709551615}])"}, "pus[0].os_index: must be"},
        Bad{"fractional id", {.pus = R"([{"os_index": 0.5}])"}, "pus[0].os_index: must be an integer"},
        Bad{"id a string", {.pus = R"([{"os_index": "0"}])"}, "pus[0].os_index: must be an integer, is a string"},
        Bad{"id an array", {.pus = R"([{"os_index": [0]}])"}, "pus[0].os_index: must not be an array"},
        Bad{"id null", {.pus = R"([{"os_index": 0, "l3": null}])"}, "pus[0].l3: must be an integer, is null"},
        Bad{"id given twice", {.pus = R"([{"os_index": 0, "os_index": 1}])"}, "pus[0].os_index: given twice"},
        Bad{"NaN", {.send = "[[0, NaN], [1, 0]]"}, "send_ns[0][1]: not valid JSON"},
        Bad{"Infinity", {.send = "[[0, 1], [-Infinity, 0]]"}, "send_ns[1][0]: not valid JSON"},
        Bad{"overflow", {.recv = "[[0, 1e999], [1, 0]]"}, "recv_ns[0][1]: not valid JSON"},
        Bad{"huge", {.recv = "[[0, 1e300], [1, 0]]"}, "recv_ns[0][1]: must be 0.."},
        Bad{"null cell", {.recv = "[[0, null], [1, 0]]"}, "recv_ns[0][1]: must be a number, is null"},
        Bad{"text cell", {.send = R"([[0, "1"], [1, 0]])"}, "send_ns[0][1]: must be a number, is a string"},
        Bad{"boolean cell", {.send = "[[0, true], [1, 0]]"}, "send_ns[0][1]: must be a number"},
        Bad{"array cell", {.send = "[[0, [1]], [1, 0]]"}, "send_ns[0][1]: must not be an array"},
        Bad{"object cell", {.send = "[[0, {}], [1, 0]]"}, "send_ns[0][1]: must not be an object"},
        Bad{"negative", {.send = "[[0, 1], [-0.5, 0]]"}, "send_ns[1][0]: must be 0.."},
        Bad{"diagonal", {.send = "[[0, 1], [1, 3]]"}, "send_ns[1][1]: must be 0 on the diagonal, is 3"},
        Bad{"short row", {.send = "[[0, 1], [1]]"}, "send_ns[1]: not square: 1 columns"},
        Bad{"long row", {.send = "[[0, 1], [1, 0, 2]]"}, "send_ns[1][2]: not square"},
        Bad{"row missing", {.send = "[[0, 1]]"}, "send_ns: not square: 1 rows of 2 columns"},
        Bad{"row too many", {.send = "[[0, 1], [1, 0], [1, 1]]"}, "send_ns[2]: not square"},
        Bad{"no rows", {.send = "[]"}, "send_ns"}, Bad{"empty row", {.send = "[[]]"}, "send_ns[0]: an empty row"},
        Bad{"flat", {.send = "[0, 1, 1, 0]"}, "send_ns[0]: must be an array of numbers"},
        Bad{"a number", {.send = "3"}, "send_ns: must be an array, is 3"},
        Bad{"other size than pus", {.send = "[[0]]"}, "send_ns: is 1 x 1, but pus has 2 entries"},
        Bad{"one of two", {.recv = "null"}, "send_ns without recv_ns"},
        Bad{"bad optional matrix", {.more = R"(, "rtt_ns": [[0, -1], [1, 0]])"}, "rtt_ns[0][1]: must be 0.."},
        Bad{"optional matrix of other size", {.more = R"(, "exchange_ns": [[0]])"}, "exchange_ns: is 1 x 1"},
        Bad{"burst of text", {.more = R"(, "send_burst": ["a"])"}, "send_burst[0]: must be a number"},
        Bad{"burst negative", {.more = R"(, "send_burst": [1, -1])"}, "send_burst[1]: must be 0.."},
        Bad{"receive burst negative", {.more = R"(, "recv_burst": [1, -1])"}, "recv_burst[1]: must be 0.."},
        Bad{"fan-out negative", {.more = R"(, "fan_out": [0, -1])"}, "fan_out[1]: must be 0.."},
        Bad{"poll of text", {.more = R"(, "poll": ["a"])"}, "poll[0]: must be a number"},
        Bad{"share negative", {.more = R"(, "rewrite_share": -1)"}, "rewrite_share: must be 0.."},
        Bad{"switch negative", {.more = R"(, "switch_ns": -1)"}, "switch_ns: must be 0.."},
        Bad{"call negative", {.more = R"(, "call_ns": -1)"}, "call_ns: must be 0.."},
        Bad{"call too long", {.more = R"(, "call_ns": 1e13)"}, "call_ns: must be 0.."},
        Bad{"call a string", {.more = R"(, "call_ns": "short")"}, "call_ns: must be a number, is a string"},
        Bad{"call twice", {.more = R"(, "call_ns": 1, "call_ns": 1)"}, "call_ns: given twice"},
        Bad{"clock negative", {.more = R"(, "tsc_ghz": -1)"}, "tsc_ghz: must be 0.."},
        Bad{"clock a string", {.more = R"(, "tsc_ghz": "fast")"}, "tsc_ghz: must be a number or null, is a string"},
        Bad{"copies no object", {.more = ", \"copy\": 3"}, "copy: must be an object, is 3"},
        Bad{"copies an array", {.more = ", \"copy\": [1]"}, "copy: must not be an array"},
        Bad{"copies empty", {.more = ", \"copy\": {}"}, "copy.startup_ns: missing"},
        Bad{"copies twice", {.more = copies() + copies()}, "copy: given twice"},
        Bad{"copies with a key twice",
            {.more = copies("startup_ns", "[[1, 2], [3, 4]], \"startup_ns\": []")},
            "copy.startup_ns: given twice"},
        Bad{"copies null inside", {.more = copies("startup_ns", "null")}, "copy.startup_ns: must be an array, is null"},
        Bad{"copies of null bytes",
            {.more = copies("cached_bytes", "null")},
            "copy.cached_bytes: must be a number, is null"},
        Bad{"copies negative",
            {.more = copies("memory_ns_per_kib", "[[0, 1], [-1, 0]]")},
            "copy.memory_ns_per_kib[1][0]: must be 0..1000000000000, is -1"},
        Bad{"copies of text",
            {.more = copies("startup_ns", "[[\"a\", 1], [1, 1]]")},
            "copy.startup_ns[0][0]: must be a number"},
        Bad{"copies not square", {.more = copies("startup_ns", "[[1, 1], [1]]")}, "copy.startup_ns[1]: not square"},
        Bad{"copies of fewer PUs", {.more = copies("startup_ns", "[[1]]")}, "copy.startup_ns: is 1 x 1, but pus has 2"},
        Bad{"copies a nested object",
            {.more = copies("startup_ns", "{}")},
            "copy.startup_ns.package+numa_node+l3: missing"},
        Bad{"copies with objects for cells",
            {.more = copies("startup_ns", "[[{}, 1], [1, 1]]")},
            "copy.startup_ns[0][0]: must not be an object"},
        Bad{"copies of nothing",
            {.more = copies("chunk_bytes", "0")},
            "copy.chunk_bytes: must be 1..1000000000000000, is 0"},
        Bad{"copies of equal sizes",
            {.more = copies("memory_bytes", "4096")},
            "copy.memory_bytes: must be more than shared_bytes, which is 4096, is 4096"},
        Bad{"copies of falling sizes",
            {.more = copies("cached_bytes", "5000")},
            "copy.shared_bytes: must be more than cached_bytes"},
        Bad{"copies with an array for a number",
            {.more = copies("add_ns_per_kib", "[1]")},
            "copy.add_ns_per_kib: must not be an array"},
        Bad{"copies with a number for an array",
            {.more = copies("cached_contention", "1")},
            "copy.cached_contention: must be an array, is 1"},
        Bad{"contention too short",
            {.more = copies("cached_contention", "[1]")},
            "copy.cached_contention: has 1 entries, but 2 PUs need 2"},
        Bad{"contention too long",
            {.more = copies("cached_contention", "[1, 1, 1]")},
            "copy.cached_contention: has 3 entries"},
        Bad{"contention of one",
            {.more = copies("cached_contention", "[1.5, 2]")},
            "copy.cached_contention[0]: must be 1, is 1.5"},
        Bad{"contention that falls",
            {.more = copies("memory_contention", "[1, 0.5]")},
            "copy.memory_contention[1]: must be 1..1000000"},
        Bad{"contention of text",
            {.more = copies("memory_contention", "[1, true]")},
            "copy.memory_contention[1]: must be a number"},
        Bad{"process call negative", {.more = copies("process_call_ns", "-1")}, "copy.process_call_ns: must be 0.."},
        Bad{"page size 0", {.more = R"(, "page_sizes_bytes": [0])"}, "page_sizes_bytes[0]: must be a positive integer"},
        Bad{"memory negative",
            {.more = R"(, "numa_nodes": [{"os_index": 0, "memory_bytes": -1}])"},
            "numa_nodes[0].memory_bytes"},
        Bad{"node outside",
            {.pus = R"([{"os_index": 0}, {"os_index": 1, "numa_node": 1}])",
             .more = R"(, "numa_nodes": [{"os_index": 0}])"},
            "pus[1].numa_node: is 1, but numa_nodes has 1"},
        Bad{"key given twice", {.more = R"(, "send_ns": [[0, 1], [1, 0]])"}, "send_ns: given twice"},
        Bad{"deep nesting", {.more = ", \"x\": " + deep}, "x: not a machine file: nested too deeply"},
        Bad{"deep nesting in a cell", {.send = deep}, "send_ns[0][0]: must not be an array"},
        Bad{"much unknown data", {.more = ", \"x\": [0" + std::string(2 << 20, ' ') + "]"}, "not a machine file"},
        Bad{"trailing comma", {.more = ","}, "not valid JSON"},
        Bad{"something after it", {.more = "} {"}, "not valid JSON"}),
    [](const auto& info) {
      std::string name = info.param.what;
      for (auto& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

/// Of two values that differ little the first may be there and the second may not.
struct Bound {
  const char* what;
  Text good, bad;
};

std::string many(std::size_t count, const std::string& entry) {
  std::string text = "[" + entry;
  for (std::size_t i = 1; i < count; ++i) text += ", " + entry;
  return text + "]";
}

std::string nest(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(ModelFile, Bounds) {
  const std::string text(4096, 't');
  const auto pu = [](const char* key, const char* id) {
    return Text{.pus = fmt::format(R"([{{"os_index": 0}}, {{"os_index": 1, "{}": {}}}])", key, id)};
  };
  const auto more = [](const std::string& key, const std::string& value) {
    return Text{.more = ", \"" + key + "\": " + value};
  };
  const auto copied = [](const char* key, const char* value) { return Text{.more = copies(key, value)}; };
  const Bound bounds[] = {
      {"send", {.send = "[[0, 1e12], [0, 0]]"}, {.send = "[[0, 1.00001e12], [0, 0]]"}},
      {"receive", {.recv = "[[0, 0], [1e12, 0]]"}, {.recv = "[[0, 0], [1.00001e12, 0]]"}},
      {"round trip", more("rtt_ns", "[[0, 1e12], [0, 0]]"), more("rtt_ns", "[[0, 1.00001e12], [0, 0]]")},
      {"propagation", more("propagation_ns", "[[0, 1e12], [0, 0]]"), more("propagation_ns", "[[0, -1], [0, 0]]")},
      {"spread", more("send_spread", "[[0, 1e6], [0, 0]]"), more("send_spread", "[[0, 1.00001e6], [0, 0]]")},
      {"spread of receives", more("recv_spread", "[[0, 1e6], [0, 0]]"),
       more("recv_spread", "[[0, 1.00001e6], [0, 0]]")},
      {"exchange", more("exchange_ns", "[[0, 1], [1, 0]]"), more("exchange_ns", "[[0, 1], [1, 0.1]]")},
      {"call", more("call_ns", "1e12"), more("call_ns", "1.00001e12")},
      {"clock", more("tsc_ghz", "1000"), more("tsc_ghz", "1000.1")},
      {"burst", more("send_burst", "[0, 1e12]"), more("send_burst", "[0, 1.00001e12]")},
      {"bursts", more("send_burst", many(4096, "1")), more("send_burst", many(16385, "1"))},
      {"page sizes", more("page_sizes_bytes", many(64, "4096")), more("page_sizes_bytes", many(65, "4096"))},
      {"page size", more("page_sizes_bytes", "[1, 18446744073709551615]"), more("page_sizes_bytes", "[-1]")},
      {"fractional page size", more("page_sizes_bytes", "[]"), more("page_sizes_bytes", "[4096.0]")},
      {"memory", more("numa_nodes", R"([{"os_index": 65535, "memory_bytes": 18446744073709551615}])"),
       more("numa_nodes", R"([{"os_index": 65536}])")},
      {"os_index",
       {.pus = R"([{"os_index": 65535}, {"os_index": 0}])"},
       {.pus = R"([{"os_index": 65536}, {"os_index": 0}])"}},
      {"core", pu("core", "65534"), pu("core", "65536")},
      {"package", pu("package", "65535"), pu("package", "65536")},
      {"numa_node", pu("numa_node", "65535"), pu("numa_node", "65536")},
      {"l2", pu("l2", "65535"), pu("l2", "-1")},
      {"l3", pu("l3", "65535"), pu("l3", "65536")},
      {"efficiency_class", pu("efficiency_class", "65535"), pu("efficiency_class", "65536")},
      {"name", {.name = '"' + text + '"'}, {.name = '"' + text + "t\""}},
      {"fingerprint", more("fingerprint", '"' + text + '"'), more("fingerprint", "3")},
      {"key", more(text, "1"), more(text + "t", "1")},
      {"depth", more("x", nest(63)), more("x", nest(64))},
      {"objects", more("x", R"({"a": {"b": [{}]}})"), more("x", R"({"a": {"b": [{]}})")},
      {"unknown data", more("x", many(300'000, "1")), more("x", many(400'000, "1"))},
      {"unknown data of several keys", more("x", many(150'000, "1") + ", \"y\": " + many(150'000, "1")),
       more("x", many(250'000, "1") + ", \"y\": " + many(250'000, "1"))},
      {"gap", {.name = std::string(60'000, ' ') + "\"n\""}, {.name = std::string(140'000, ' ') + "\"n\""}},
      {"chunk_bytes", copied("chunk_bytes", "1"), copied("chunk_bytes", "0.99")},
      {"memory_bytes", copied("memory_bytes", "1e15"), copied("memory_bytes", "1.00001e15")},
      {"cached_bytes", copied("cached_bytes", "1024.5"), copied("cached_bytes", "1024")},
      {"shared_bytes", copied("shared_bytes", "8191"), copied("shared_bytes", "8192")},
      {"startup_ns", copied("startup_ns", "[[1e12, 0], [0, 1e12]]"), copied("startup_ns", "[[1.00001e12, 0], [0, 1]]")},
      {"add", copied("add_ns_per_kib", "1e12"), copied("add_ns_per_kib", "1.00001e12")},
      {"process call", copied("process_call_ns", "0"), copied("process_call_ns", "1.00001e12")},
      {"process pages", copied("process_ns_per_kib", "1e12"), copied("process_ns_per_kib", "-0.1")},
      {"contention", copied("shared_contention", "[1, 1e6]"), copied("shared_contention", "[1, 1.00001e6]")},
      {"no contention", copied("shared_contention", "[1, 1]"), copied("shared_contention", "[1, 0.99]")},
      {"contention of one", copied("shared_contention", "[1.0, 2]"), copied("shared_contention", "[0.99, 2]")},
  };
  for (const auto& [what, good, bad] : bounds) {
    const auto machine = parse_machine(good.json(), "good");
    EXPECT_TRUE(machine) << what << ": " << (machine ? "" : machine.error().message);
    if (machine) {
      EXPECT_EQ(*parse_machine(format_machine(*machine), "again"), *machine) << what;
    }
    EXPECT_FALSE(parse_machine(bad.json(), "bad")) << what;
  }
}

TEST(ModelFile, AsManyPusAsThereMayBe) {
  const auto text_of = [](int pus) {
    std::string entries = R"({"os_index": 0})";
    for (int i = 1; i < pus; ++i) entries += fmt::format(R"(, {{"os_index": {}}})", i);
    return Text{.pus = "[" + entries + "]", .send = "null", .recv = "null"}.json();
  };
  const auto machine = parse_machine(text_of(16384), "memory");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->size(), 16384u);
  EXPECT_EQ(parse_machine(text_of(16385), "memory").error().message, "memory: pus[16384]: more than 16384 entries");
}

TEST(ModelFile, EachRequiredKeyIsMissed) {
  for (const std::string key : {"schema", "name", "pus", "send_ns", "recv_ns"}) {
    const auto machine = parse_machine(replaced(Text().json(), '"' + key + '"', "\"other\""), "f");
    ASSERT_FALSE(machine) << key;
    EXPECT_EQ(machine.error().message.rfind("f: " + key + ": missing", 0), 0u) << machine.error().message;
  }
}

TEST(ModelFile, WhatIsNotAnObject) {
  for (const auto* text :
       {"", " ", "null", "[]", "3", "\"x\"", "{", "}", "[[[[", "{\"a\"", "{1:2}", "\xef\xbb\xbf", "\0\0\0"}) {
    const auto machine = parse_machine(text, "f");
    ASSERT_FALSE(machine) << text;
    EXPECT_EQ(machine.error().message.rfind("f: ", 0), 0u) << machine.error().message;
  }
}

// ---- files --------------------------------------------------------------------------------

class Files : public testing::Test {
 protected:
  void expect_error(const Result<Machine>& machine, Status status, const fs::path& file) {
    ASSERT_FALSE(machine);
    EXPECT_EQ(machine.error().status, status) << machine.error().message;
    EXPECT_EQ(machine.error().message.rfind(file.string() + ": ", 0), 0u) << machine.error().message;
  }
  std::size_t file_count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator()));
  }
  fs::path at(const char* name) const { return directory_.path() / name; }

  ScopedDirectory directory_;
};

TEST_F(Files, SaveAndLoad) {
  const auto machine = full_machine();
  ASSERT_TRUE(save_machine(machine, at("m.json")));
  EXPECT_EQ(*load_machine(at("m.json")), machine);
  EXPECT_EQ(file_count(), 1u);
  struct stat info;
  ASSERT_EQ(stat(at("m.json").c_str(), &info), 0);
  const auto mask = umask(0);
  umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0644 & ~mask);
}

TEST_F(Files, SaveReplacesAndKeepsLinks) {
  directory_.write("old.json", "something else");
  fs::create_symlink("old.json", at("link.json"));
  const auto machine = small_machine();
  ASSERT_TRUE(save_machine(machine, at("link.json")));
  EXPECT_TRUE(fs::is_symlink(at("link.json")));
  EXPECT_EQ(*load_machine(at("old.json")), machine);
  EXPECT_EQ(file_count(), 2u);
}

TEST_F(Files, SaveIntoNowhere) {
  const auto saved = save_machine(small_machine(), at("none/m.json"));
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().status, Status::not_found);
  EXPECT_NE(saved.error().message.find("none/m.json"), std::string::npos);
  const auto file = directory_.write("file", "x");
  EXPECT_EQ(save_machine(small_machine(), file / "m.json").error().status, Status::not_found);
  EXPECT_EQ(save_machine(small_machine(), at(std::string(300, 'm').c_str())).error().status, Status::io_error);
  if (getuid() != 0) {
    fs::create_directory(at("closed"));
    fs::permissions(at("closed"), fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_EQ(save_machine(small_machine(), at("closed/m.json")).error().status, Status::permission_denied);
  }
  EXPECT_FALSE(save_machine(small_machine(), directory_.path()));
}

TEST_F(Files, FullDiskLeavesTheOldFile) {
  const auto file = directory_.write("m.json", "old");
  // A limit on the size of files fails writes like a full disk does.
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tight = {100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto saved = save_machine(small_machine(), file);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().status, Status::io_error);
  EXPECT_EQ(content_of(file), "old");
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(Files, FullDevice) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const auto saved = save_machine(small_machine(), "/dev/full");
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().status, Status::io_error);
}

TEST_F(Files, DamagedMachineIsNotWritten) {
  const auto file = directory_.write("m.json", "old");
  auto machine = small_machine();
  machine.send_ns(1, 0) = std::numeric_limits<double>::quiet_NaN();
  auto saved = save_machine(machine, file);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().status, Status::invalid_argument);
  EXPECT_NE(saved.error().message.find("send_ns[1][0]"), std::string::npos) << saved.error().message;
  machine = small_machine();
  machine.recv_ns = Matrix(3);
  EXPECT_FALSE(save_machine(machine, file));
  machine = small_machine();
  machine.pus[1].os_index = machine.pus[0].os_index;
  EXPECT_FALSE(save_machine(machine, file));
  machine = small_machine();
  machine.name = std::string(most_text_bytes + 1, 'x');
  EXPECT_FALSE(save_machine(machine, file));
  EXPECT_EQ(content_of(file), "old");
  machine.name.pop_back();
  EXPECT_TRUE(save_machine(machine, file));
  EXPECT_TRUE(load_machine(file));
}

// Whatever program made the machine: nothing that could not be read again is written.
TEST_F(Files, NoNumberOfADamagedMachineIsWritten) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  using Spoil = std::function<void(Machine&)>;
  std::vector<std::pair<std::string, Spoil>> damages = {
      {"tsc_ghz", [&](Machine& m) { m.tsc_ghz = nan; }},
      {"call_ns", [&](Machine& m) { m.call_ns = -1; }},
      {"switch_ns", [&](Machine& m) { m.switch_ns = nan; }},
      {"barrier_call_ns", [](Machine& m) { m.barrier_call_ns = -1; }},
      {"process_switch_ns", [](Machine& m) { m.process_switch_ns = -1; }},
      {"rewrite_share", [&](Machine& m) { m.rewrite_share = nan; }},
      {"combine_rewrite_share", [](Machine& m) { m.combine_rewrite_share = -1; }},
      {"source_ns_per_kib", [&](Machine& m) { m.source_ns_per_kib = nan; }},
      {"process_pages_ns_per_kib", [](Machine& m) { m.process_pages_ns_per_kib = -1; }},
      {"change_ns_per_kib", [](Machine& m) { m.change_ns_per_kib = -1; }},
      {"counter_ns", [](Machine& m) { m.counter_ns = -1; }},
      {"near_source_ns_per_kib", [](Machine& m) { m.near_source_ns_per_kib = -1; }},
      {"near_bytes", [&](Machine& m) { m.near_bytes = nan; }},
      {"recv_row[2]", [&](Machine& m) { m.recv_row_ns[2] = nan; }},
      {"recv_burst[0]", [&](Machine& m) { m.recv_burst_ns[0] = -1; }},
      {"poll[1]", [&](Machine& m) { m.poll_ns[1] = nan; }},
      {"send_burst[3]", [&](Machine& m) { m.send_burst_ns[3] = nan; }},
      {"pus[7].numa_node: is 2", [](Machine& m) { m.pus[7].numa_node = 2; }},
      {"pus: a machine has at least one PU", [](Machine& m) { m.pus.clear(); }},
      {"recv_ns without send_ns", [](Machine& m) { m.send_ns = Matrix(); }},
      {"send_ns without recv_ns", [](Machine& m) { m.recv_ns = Matrix(); }},
      {"copy.chunk_bytes", [](Machine& m) { m.copy->chunk_bytes = 0.5; }},
      {"copy.memory_contention: has 5", [](Machine& m) { m.copy->memory_contention.push_back(9); }},
      {"copy.memory_contention[0]", [](Machine& m) { m.copy->memory_contention[0] = 1.01; }},
      {"copy.process_call_ns", [](Machine& m) { m.copy->process->call_ns = -1; }},
      {"copy.process_ns_per_kib", [&](Machine& m) { m.copy->process->ns_per_kib = nan; }},
      {"copy.add_ns_per_kib", [&](Machine& m) { m.copy->add_ns_per_kib = nan; }},
      {"copy.shared_bytes", [](Machine& m) { m.copy->shared_bytes = m.copy->cached_bytes; }},
  };
  const std::pair<const char*, int Pu::*> ids[] = {{"core", &Pu::core},
                                                   {"package", &Pu::package},
                                                   {"l2", &Pu::l2},
                                                   {"l3", &Pu::l3},
                                                   {"efficiency_class", &Pu::efficiency_class},
                                                   {"os_index", &Pu::os_index},
                                                   {"numa_node", &Pu::numa_node}};
  for (const auto& [name, member] : ids) {
    for (const int id : {-1, 65536}) {
      damages.emplace_back(std::string("pus[2].") + name, [member = member, id](Machine& m) { m.pus[2].*member = id; });
    }
  }
  const auto spoil_matrix = [&](const char* key, auto matrix_of, bool zero_diagonal) {
    for (const double value : {nan, -0.001, 1.1e12}) {
      damages.emplace_back(std::string(key) + "[7][0]", [=](Machine& m) { matrix_of(m)(7, 0) = value; });
    }
    damages.emplace_back(std::string(key) + ": is 3 x 3", [=](Machine& m) { matrix_of(m) = Matrix(3); });
    if (zero_diagonal) damages.emplace_back(std::string(key) + "[7][7]", [=](Machine& m) { matrix_of(m)(7, 7) = 1; });
  };
  spoil_matrix(
      "send_ns", [](Machine& m) -> Matrix& { return m.send_ns; }, true);
  spoil_matrix(
      "recv_ns", [](Machine& m) -> Matrix& { return m.recv_ns; }, true);
  spoil_matrix(
      "rtt_ns", [](Machine& m) -> Matrix& { return *m.rtt_ns; }, true);
  spoil_matrix(
      "propagation_ns", [](Machine& m) -> Matrix& { return *m.propagation_ns; }, true);
  spoil_matrix(
      "exchange_ns", [](Machine& m) -> Matrix& { return *m.exchange_ns; }, true);
  spoil_matrix(
      "send_spread", [](Machine& m) -> Matrix& { return *m.send_spread; }, true);
  spoil_matrix(
      "recv_spread", [](Machine& m) -> Matrix& { return *m.recv_spread; }, true);
  spoil_matrix(
      "copy.startup_ns", [](Machine& m) -> Matrix& { return m.copy->startup_ns; }, false);
  spoil_matrix(
      "copy.chunk_ns_per_kib", [](Machine& m) -> Matrix& { return m.copy->chunk_ns_per_kib; }, false);
  spoil_matrix(
      "copy.cached_ns_per_kib", [](Machine& m) -> Matrix& { return m.copy->cached_ns_per_kib; }, false);
  spoil_matrix(
      "copy.shared_ns_per_kib", [](Machine& m) -> Matrix& { return m.copy->shared_ns_per_kib; }, false);
  spoil_matrix(
      "copy.memory_ns_per_kib", [](Machine& m) -> Matrix& { return m.copy->memory_ns_per_kib; }, false);
  for (const auto& [part, spoil] : damages) {
    Machine machine = full_machine();
    spoil(machine);
    const auto saved = save_machine(machine, at("m.json"));
    ASSERT_FALSE(saved) << part;
    EXPECT_EQ(saved.error().status, Status::invalid_argument);
    EXPECT_NE(saved.error().message.find("not written: " + part), std::string::npos)
        << part << " is missing in: " << saved.error().message;
    EXPECT_EQ(file_count(), 0u);
  }
}

/// Some megabytes of text.
Machine large_machine() {
  auto machine = synthesize_machine({.packages = 2, .cores = 128, .smt = 2, .jitter = 0.5});
  EXPECT_TRUE(machine);
  // All cells, each different from its class.
  for (auto* matrix : {&machine->send_ns, &machine->recv_ns}) {
    for (std::size_t i = 0; i < machine->size(); ++i) {
      for (std::size_t j = 0; j < machine->size(); ++j) {
        if (i != j) (*matrix)(i, j) += 0.001 * static_cast<double>((i * 512 + j) % 9973);
      }
    }
  }
  return *machine;
}

TEST_F(Files, ALargeOneIsWrittenAndReadInPieces) {
  const Machine machine = large_machine();
  ASSERT_TRUE(save_machine(machine, at("m.json")));
  const std::string text = format_machine(machine);
  EXPECT_GT(text.size(), std::size_t{3} << 20);
  EXPECT_EQ(content_of(at("m.json")), text);
  EXPECT_EQ(*load_machine(at("m.json")), machine);
  // A disk that is full in the middle.
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tight = {text.size() - 100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  EXPECT_FALSE(save_machine(machine, at("m.json")));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(content_of(at("m.json")), text);
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(Files, ThroughAPipe) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  for (const Machine& machine : {small_machine(), large_machine()}) {
    std::thread writer([&] { EXPECT_TRUE(save_machine(machine, at("pipe"))); });
    const auto read = load_machine(at("pipe"));
    writer.join();
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, machine);
  }
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(Files, ATemporaryFileOfAnotherIsLeftAlone) {
  const auto machine = small_machine();
  // The next hundred names that this process would take.
  for (int i = 0; i < 400; ++i) directory_.write(fmt::format("m.json.{}.{}.tmp", getpid(), i), "mine");
  ASSERT_TRUE(save_machine(machine, at("m.json")));
  EXPECT_EQ(*load_machine(at("m.json")), machine);
  EXPECT_EQ(file_count(), 401u);
  for (int i = 0; i < 400; ++i) {
    EXPECT_EQ(content_of(directory_.path() / fmt::format("m.json.{}.{}.tmp", getpid(), i)), "mine");
  }
}

TEST_F(Files, LoadFromOddPlaces) {
  expect_error(load_machine(at("absent.json")), Status::not_found, at("absent.json"));
  expect_error(load_machine(directory_.path()), Status::io_error, directory_.path());
  const auto file = directory_.write("m.json", "x");
  expect_error(load_machine(file / "below"), Status::not_found, file / "below");
  expect_error(load_machine("/dev/zero"), Status::bad_format, "/dev/zero");
  if (getuid() != 0) {
    fs::permissions(file, fs::perms::none);
    expect_error(load_machine(file), Status::permission_denied, file);
  }
}

/// Peak memory of this process so far, in MiB.
long peak_mib() {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

TEST_F(Files, JunkOfOneGigabyteIsRefusedEarly) {
  const std::string whole = Text().json();
  const std::string matrix_start = whole.substr(0, whole.find("[[0, 1]"));
  struct Junk {
    const char* name;
    std::string start;
    char filler;
  };
  const Junk junk[] = {{"zeros", "", '\0'},        {"blanks", "", ' '},
                       {"brackets", "", '['},      {"string", "{\"name\": \"", 'a'},
                       {"key", "{\"", 'k'},        {"digits", matrix_start + "[[0, 1", '7'},
                       {"gap", whole + "\n", ' '}, {"nested", "{\"x\": ", '['}};
  const long before = peak_mib();
  for (const auto& [name, start, filler] : junk) {
    // The junk proper is the first 4 MiB; behind it the file is a hole of zeros up to 1 GiB.
    const auto file = directory_.write(name, start + std::string(4u << 20, filler));
    ASSERT_EQ(truncate(file.c_str(), 1ll << 30), 0);
    expect_error(load_machine(file), Status::bad_format, file);
    fs::remove(file);
  }
  EXPECT_LT(peak_mib() - before, 100);
}

}  // namespace
}  // namespace smelt
