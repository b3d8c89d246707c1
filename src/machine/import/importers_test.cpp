// Every importer that registry.def lists, on its sample and on damaged copies of it; and how formats are told apart.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "machine/import/importer.hpp"
#include "machine/limits.hpp"
#include "machine/test_support.hpp"

namespace smelt {
namespace {

std::vector<const Importer*> file_importers() {
  std::vector<const Importer*> files;
  for (const auto* each : all_importers()) {
    if (!each->info.directory) files.push_back(each);
  }
  return files;
}

class EveryImporter : public testing::TestWithParam<const Importer*> {
 protected:
  Result<Machine> parse(const std::string& text, const ImportOptions& options = {}) const {
    std::istringstream file(text);
    return GetParam()->parse(file, "dir/sample.txt", options);
  }

  /// An error must name the file, and a machine must survive being written and read.
  void expect_machine_or_error(const std::string& text) const {
    const auto machine = parse(text);
    if (!machine) {
      EXPECT_TRUE(machine.error().message.starts_with("dir/sample.txt")) << machine.error().message;
      return;
    }
    const auto again = parse_machine(format_machine(*machine), "again");
    ASSERT_TRUE(again) << again.error().message << "\nafter importing:\n" << text;
    EXPECT_EQ(*again, *machine);
  }
};

TEST_P(EveryImporter, ReadsItsSample) {
  const auto machine = parse(std::string(GetParam()->sample));
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->name, "sample");
  EXPECT_EQ(machine->method, GetParam()->info.name);
  ASSERT_GE(machine->size(), 4u) << "a sample has PUs that are near and PUs that are far from each other";
  EXPECT_TRUE(machine->has_costs());
  const auto latency_ns = [&](std::size_t i, std::size_t j) { return machine->send_ns(i, j) + machine->recv_ns(i, j); };
  double least = latency_ns(0, 1), largest = least;
  for (std::size_t i = 0; i < machine->size(); ++i) {
    for (std::size_t j = 0; j < machine->size(); ++j) {
      if (i == j) continue;
      least = std::min(least, latency_ns(i, j));
      largest = std::max(largest, latency_ns(i, j));
    }
  }
  EXPECT_GT(least, 0.0);
  EXPECT_GT(largest, 2 * least);
}

TEST_P(EveryImporter, RecognizesItsSample) {
  const test::ScopedDirectory directory;
  const auto machine = import_machine(directory.write("sample", std::string(GetParam()->sample)));
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->method, GetParam()->info.name);
}

TEST_P(EveryImporter, EveryBeginningOfTheSampleIsAMachineOrAnError) {
  const std::string sample(GetParam()->sample);
  for (std::size_t bytes = 0; bytes < sample.size(); ++bytes) expect_machine_or_error(sample.substr(0, bytes));
}

TEST_P(EveryImporter, EverySampleWithOneOtherByteIsAMachineOrAnError) {
  const std::string sample(GetParam()->sample);
  for (std::size_t at = 0; at < sample.size(); ++at) {
    for (const char other : {'\0', '\n', ' ', '-', '9', 'e', '\xff'}) {
      std::string damaged = sample;
      damaged[at] = other;
      expect_machine_or_error(damaged);
    }
  }
}

TEST_P(EveryImporter, SaysWhichOptionsCount) {
  const std::string sample(GetParam()->sample);
  const auto machine = parse(sample, {.send_share = 0.25, .ghz = 1.0});
  const auto another_share = parse(sample, {.send_share = 0.75, .ghz = 1.0});
  const auto another_rate = parse(sample, {.send_share = 0.25, .ghz = 2.0});
  ASSERT_TRUE(machine && another_share && another_rate);
  EXPECT_EQ(!(*machine == *another_share), GetParam()->info.uses_send_share);
  EXPECT_EQ(!(*machine == *another_rate), GetParam()->info.uses_ghz);
}

TEST_P(EveryImporter, OptionsHaveLimits) {
  const test::ScopedDirectory directory;
  const auto file = directory.write("sample", std::string(GetParam()->sample));
  const std::string format(GetParam()->info.name);
  EXPECT_TRUE(import_machine(file, {.format = format, .send_share = 1.0}));
  EXPECT_TRUE(import_machine(file, {.format = format, .send_share = 0.0}));
  EXPECT_FALSE(import_machine(file, {.format = format, .send_share = 1.5}));
  EXPECT_FALSE(import_machine(file, {.format = format, .send_share = -0.5}));
  EXPECT_FALSE(import_machine(file, {.format = format, .ghz = 0.0}));
  EXPECT_TRUE(import_machine(file, {.format = format, .ghz = max_ghz}));
  EXPECT_FALSE(import_machine(file, {.format = format, .ghz = 1.001 * max_ghz}));
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryImporter, testing::ValuesIn(file_importers()), [](const auto& info) {
  std::string name(info.param->info.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Importers, HaveDifferentNamesAndDescriptions) {
  std::set<std::string_view> names;
  for (const auto& info : importers()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.content.empty()) << info.name;
  }
}

TEST(Importers, AnUnknownFormatIsNamedBesideTheKnownOnes) {
  const auto machine = import_machine("x.csv", {.format = "core-to-cor"});
  ASSERT_FALSE(machine);
  EXPECT_NE(machine.error().message.find("core-to-cor: no such format"), std::string::npos);
  EXPECT_NE(machine.error().message.find("machinedb"), std::string::npos);
}

TEST(Importers, ADirectoryIsNoFile) {
  const test::ScopedDirectory directory;
  const auto machine = import_machine(directory.path(), {.format = "core-to-core"});
  ASSERT_FALSE(machine);
  EXPECT_NE(machine.error().message.find("is a directory"), std::string::npos);
}

TEST(Importers, APipeIsRecognizedAndReadToItsEnd) {
  constexpr std::size_t size = 60;  // more than is read ahead
  std::string table;
  for (std::size_t row = 0; row < size; ++row) {
    for (std::size_t column = 0; column < size; ++column) {
      table += (column < row ? "50" : "") + std::string(column + 1 < size ? "," : "\n");
    }
  }
  const test::ScopedDirectory directory;
  const auto pipe = directory.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << table; });
  const auto machine = import_machine(pipe);
  writer.join();
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->size(), size);
  EXPECT_EQ(machine->method, "core-to-core");
}

TEST(C2clat, PusKeepTheirNumbersAndGnuplotCommandsAreIgnored) {
  std::istringstream file(
      "set title \"Inter-core one-way data latency between CPU cores\"\n$data << EOD\n"
      " CPU    1    3\n   1    0   40\n   3   60    0\nEOD\nplot '$data' matrix\n");
  const auto machine = formats::c2clat.parse(file, "plot.txt", {.send_share = 0.5});
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->pus[1].os_index, 3);
  EXPECT_DOUBLE_EQ(machine->send_ns(0, 1), 20.0);
  EXPECT_DOUBLE_EQ(machine->recv_ns(1, 0), 30.0);
}

TEST(C2clat, LatenciesLieWithinTheirBounds) {
  const auto parse = [](const std::string& latency) {
    std::istringstream file("$data << EOD\n CPU 0 1\n 0 0 " + latency + "\n 1 60 0\nEOD\n");
    return formats::c2clat.parse(file, "plot.txt", {.send_share = 0.5});
  };
  for (const char* good : {"0", "0.5", "1e12"}) EXPECT_TRUE(parse(good)) << good << ": " << parse(good).error().message;
  for (const char* wrong : {"-1", "-0.001", "1.001e12", "nan", "inf", "x"}) {
    const auto machine = parse(wrong);
    ASSERT_FALSE(machine) << wrong;
    EXPECT_EQ(machine.error().message, "plot.txt: line 3: the latency to PU 1 must be 0..1000000000000 ns") << wrong;
  }
}

}  // namespace
}  // namespace smelt
