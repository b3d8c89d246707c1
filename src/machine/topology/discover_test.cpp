#include <gtest/gtest.h>

#include <map>
#include <set>

#include "machine/test_support.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

using test::ScopedDirectory;
using test::ScopedEnv;

std::size_t count_ids(const Machine& machine, int Pu::*id) {
  std::set<int> ids;
  for (const auto& pu : machine.pus) ids.insert(pu.*id);
  return ids.size();
}

Machine discover_synthetic(const char* description) {
  const ScopedEnv synthetic("HWLOC_SYNTHETIC", description);
  auto machine = discover_machine();
  EXPECT_TRUE(machine) << machine.error().message;
  return machine ? *machine : Machine();
}

TEST(Discover, ThisMachine) {
  const auto machine = discover_machine();
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_FALSE(machine->pus.empty());
  EXPECT_FALSE(machine->name.empty());
  EXPECT_EQ(machine->fingerprint.size(), 16u);
  EXPECT_FALSE(machine->has_costs());
  ASSERT_FALSE(machine->numa_nodes.empty());
  EXPECT_FALSE(machine->page_sizes_bytes.empty());
  for (const auto& pu : machine->pus) EXPECT_LT(pu.numa_node, static_cast<int>(machine->numa_nodes.size()));
  EXPECT_EQ(*discover_machine(), *machine);
}

TEST(Discover, ContainsEveryPuOfTheAllowance) {
  const auto machine = discover_machine();
  const auto allowance = discover_allowance();
  ASSERT_TRUE(machine && allowance);
  for (const int pu : allowance->pus) EXPECT_GE(machine->index_of(pu), 0) << pu;
  EXPECT_EQ(machine->index_of(-1), -1);
}

// Nor one that was removed, although its number is still in memory.
TEST(Machine, FindsOnlyItsOwnPus) {
  Machine machine;
  for (int pu = 0; pu < 4; ++pu) machine.pus.push_back({.os_index = 10 + pu});
  for (int pu = 0; pu < 4; ++pu) EXPECT_EQ(machine.index_of(10 + pu), pu);
  EXPECT_EQ(machine.index_of(14), -1);
  machine.pus.pop_back();
  EXPECT_EQ(machine.index_of(13), -1);
}

TEST(Discover, FourPackages) {
  const auto machine = discover_synthetic("package:4 [numa(memory=1073741824)] l3:1 l2:2 core:1 pu:2");
  EXPECT_EQ(machine.size(), 16u);
  EXPECT_EQ(count_ids(machine, &Pu::package), 4u);
  EXPECT_EQ(count_ids(machine, &Pu::numa_node), 4u);
  EXPECT_EQ(count_ids(machine, &Pu::l3), 4u);
  EXPECT_EQ(count_ids(machine, &Pu::l2), 8u);
  EXPECT_EQ(count_ids(machine, &Pu::core), 8u);
  EXPECT_EQ(machine.numa_nodes.size(), 4u);
  EXPECT_EQ(machine.numa_nodes[3].memory_bytes, 1u << 30);
  EXPECT_EQ(machine.pus[5].package, 1);
  EXPECT_NE(machine.name.find("4 packages x 2 cores x 2 PUs"), std::string::npos) << machine.name;
}

TEST(Discover, SiblingsAreFoundWhereverTheyAreNumbered) {
  const auto machine = discover_synthetic("package:2 core:4 pu:2(indexes=0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15)");
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(machine.pus[i].os_index, i);
    EXPECT_EQ(machine.pus[i].core, machine.pus[i + 8].core);
    EXPECT_EQ(machine.pus[i].package, i / 4);
  }
}

TEST(Discover, WithoutL3TheL2IsTheSharedCache) {
  const auto machine = discover_synthetic("package:1 l2:4 core:2 pu:1");
  EXPECT_EQ(count_ids(machine, &Pu::l3), 4u);
  EXPECT_EQ(machine.pus[0].l3, machine.pus[1].l3);
  EXPECT_NE(machine.pus[1].l3, machine.pus[2].l3);
}

TEST(Discover, WithoutAnyCachesOrCores) {
  const auto machine = discover_synthetic("pu:3");
  EXPECT_EQ(machine.size(), 3u);
  EXPECT_EQ(count_ids(machine, &Pu::core), 3u);
  EXPECT_EQ(count_ids(machine, &Pu::l3), 3u);
  EXPECT_EQ(count_ids(machine, &Pu::package), 1u);
  EXPECT_EQ(count_ids(machine, &Pu::numa_node), 1u);
}

TEST(Discover, SubNumaClusters) {
  const auto machine = discover_synthetic("package:2 l3:1 group:4 [numa] core:4 pu:1");
  EXPECT_EQ(count_ids(machine, &Pu::l3), 2u);
  EXPECT_EQ(count_ids(machine, &Pu::numa_node), 8u);
  EXPECT_EQ(count_ids(machine, &Pu::package), 2u);
}

TEST(Discover, TwoMemoriesPerPackageTakesTheFirst) {
  const auto machine = discover_synthetic("[numa(memory=8GB)] [numa(memory=1GB)] package:1 core:4 pu:1");
  EXPECT_EQ(machine.numa_nodes.size(), 2u);
  for (const auto& pu : machine.pus) EXPECT_EQ(pu.numa_node, 0);
}

TEST(Discover, ManyPus) {
  const auto machine = discover_synthetic("package:8 [numa] l3:16 core:16 pu:2");
  EXPECT_EQ(machine.size(), 4096u);
  EXPECT_EQ(count_ids(machine, &Pu::core), 2048u);
}

TEST(Discover, MorePusThanSupportedIsAnError) {
  const ScopedEnv synthetic("HWLOC_SYNTHETIC", "package:17 core:512 pu:2");
  const auto machine = discover_machine();
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().status, Status::not_supported);
  EXPECT_NE(machine.error().message.find("17408"), std::string::npos);
}

// Package 0 has PUs 0 and 1 and an idle PU 2 that is offline, node 1 has memory but no PU, node 2
// has a PU but no memory; PU 0 is a fast core, the others are slow ones.
constexpr const char* odd_machine = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000b" complete_cpuset="0x0000000f" allowed_cpuset="0x0000000b" nodeset="0x00000007" complete_nodeset="0x00000007" allowed_nodeset="0x00000007" gp_index="1">
    <object type="NUMANode" os_index="1" cpuset="0x0" complete_cpuset="0x0" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="20" local_memory="4294967296">
      <page_type size="4096" count="1048576"/>
      <page_type size="2097152" count="0"/>
    </object>
    <object type="Package" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000007" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3">
      <info name="CPUModel" value="Odd CPU"/>
      <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000007" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="21" local_memory="1073741824">
        <page_type size="4096" count="262144"/>
      </object>
      <object type="Core" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4">
        <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5"/>
      </object>
      <object type="Core" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="6">
        <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="7"/>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="8">
      <info name="CPUModel" value="Odd CPU"/>
      <object type="NUMANode" os_index="2" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="22" local_memory="0"/>
      <object type="Core" os_index="0" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="9">
        <object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="10"/>
      </object>
    </object>
  </object>
  <cpukind cpuset="0x0000000a" forced_efficiency="0"><info name="CoreType" value="IntelAtom"/></cpukind>
  <cpukind cpuset="0x00000001" forced_efficiency="1"><info name="CoreType" value="IntelCore"/></cpukind>
</topology>
)";

TEST(Discover, OddMachineFromXml) {
  const ScopedDirectory directory;
  const ScopedEnv xml("HWLOC_XMLFILE", directory.write("odd.xml", odd_machine).c_str());
  const auto machine = discover_machine();
  ASSERT_TRUE(machine) << machine.error().message;
  ASSERT_EQ(machine->size(), 3u);
  EXPECT_EQ(machine->pus[2].os_index, 3);
  EXPECT_EQ(machine->name, "Odd CPU, 2 packages, 3 cores, 3 PUs");
  ASSERT_EQ(machine->numa_nodes.size(), 3u);
  std::map<int, std::uint64_t> memory;
  for (const auto& node : machine->numa_nodes) memory[node.os_index] = node.memory_bytes;
  EXPECT_EQ(memory, (std::map<int, std::uint64_t>{{0, 1u << 30}, {1, 4ull << 30}, {2, 0}}));
  EXPECT_EQ(machine->numa_nodes[machine->pus[0].numa_node].os_index, 0);
  EXPECT_EQ(machine->numa_nodes[machine->pus[2].numa_node].os_index, 2);
  EXPECT_GT(machine->pus[0].efficiency_class, machine->pus[1].efficiency_class);
  EXPECT_EQ(machine->pus[1].efficiency_class, machine->pus[2].efficiency_class);
  EXPECT_EQ(machine->page_sizes_bytes, (std::vector<std::uint64_t>{4096, 2097152}));
}

std::string with_replaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

Machine discover_xml(const std::string& text) {
  const ScopedDirectory directory;
  const ScopedEnv xml("HWLOC_XMLFILE", directory.write("machine.xml", text).c_str());
  auto machine = discover_machine();
  EXPECT_TRUE(machine) << machine.error().message;
  return machine ? *machine : Machine();
}

TEST(Discover, TheNameOfTheCpuComesFromAnyKnownKey) {
  const std::string model = R"(<info name="CPUModel" value="Odd CPU"/>)", machine = R"(gp_index="1">)";
  const auto name_with = [&](const std::string& of_package, const std::string& of_machine) {
    auto text = with_replaced(odd_machine, model, of_package);
    return discover_xml(with_replaced(text, machine, machine + of_machine)).name;
  };
  const std::string shape = ", 2 packages, 3 cores, 3 PUs";
  EXPECT_EQ(name_with("", R"(<info name="CPUModel" value=" Of the machine "/>)"), "Of the machine" + shape);
  EXPECT_EQ(name_with(R"(<info name="CPUModel" value="  "/>)", R"(<info name="CPUModel" value="M"/>)"), "M" + shape);
  EXPECT_EQ(name_with("", R"(<info name="CPUImplementer" value="0x41"/><info name="CPUPart" value="0xd40"/>)"),
            "0x41 part 0xd40" + shape);
  EXPECT_EQ(name_with("", R"(<info name="CPUImplementer" value="0x41"/>)"), "0x41" + shape);
  EXPECT_EQ(name_with(R"(<info name="CPUModel" value="N"/><info name="CPUPart" value="0xd40"/>)", ""), "N" + shape);
  EXPECT_EQ(name_with("", R"(<info name="CPUVendor" value="V"/>)"), "V" + shape);
  EXPECT_EQ(name_with("", ""), "unknown CPU" + shape);
}

TEST(Discover, KindsOfCoresWithoutAnOrderAreOneKind) {
  auto text = with_replaced(odd_machine, R"( forced_efficiency="0"><info name="CoreType" value="IntelAtom"/>)",
                            R"(><info name="A" value="1"/>)");
  text = with_replaced(text, R"( forced_efficiency="1"><info name="CoreType" value="IntelCore"/>)",
                       R"(><info name="B" value="2"/>)");
  for (const auto& pu : discover_xml(text).pus) EXPECT_EQ(pu.efficiency_class, 0);
  const auto classes = discover_xml(odd_machine);
  EXPECT_EQ(classes.pus[0].efficiency_class, 1);
  EXPECT_EQ(classes.pus[1].efficiency_class, 0);
}

TEST(Discover, PageSizesOfAllNodesOnce) {
  auto text = with_replaced(
      odd_machine, R"(<page_type size="4096" count="262144"/>)",
      R"(<page_type size="4096" count="262144"/><page_type size="1073741824" count="0"/><page_type size="0" count="0"/>)");
  EXPECT_EQ(discover_xml(text).page_sizes_bytes, (std::vector<std::uint64_t>{4096, 2097152, 1u << 30}));
}

TEST(Discover, TheSmallestNodeAroundAPuIsItsNode) {
  const auto machine = discover_synthetic("[numa(memory=8GB)] package:2 [numa(memory=1GB)] core:2 pu:1");
  ASSERT_EQ(machine.numa_nodes.size(), 3u);
  for (const auto& pu : machine.pus) {
    EXPECT_EQ(machine.numa_nodes[static_cast<std::size_t>(pu.numa_node)].memory_bytes, 1000000000u);
  }
  EXPECT_NE(machine.pus[0].numa_node, machine.pus[3].numa_node);
}

TEST(Discover, TheLargestSupportedNumberOfPus) {
  EXPECT_EQ(discover_synthetic("package:8 core:512 pu:1").size(), 4096u);
  const ScopedEnv synthetic("HWLOC_SYNTHETIC", "package:17 core:512 pu:2");
  EXPECT_EQ(discover_machine().error().status, Status::not_supported);
}

TEST(Discover, FingerprintsOfDifferentMachinesDiffer) {
  const auto one = discover_synthetic("package:2 core:4 pu:2");
  const auto same = discover_synthetic("package:2 core:4 pu:2");
  const auto more_cores = discover_synthetic("package:2 core:8 pu:1");
  const auto one_package = discover_synthetic("package:1 core:8 pu:2");
  EXPECT_EQ(one.fingerprint, same.fingerprint);
  EXPECT_NE(one.fingerprint, more_cores.fingerprint);
  EXPECT_NE(one.fingerprint, one_package.fingerprint);
}

TEST(Discover, MissingXmlFileIsAnErrorOrTheRealMachine) {
  // hwloc falls back to the hardware unless told otherwise; either way there is no crash.
  const ScopedEnv xml("HWLOC_XMLFILE", "/nonexistent/machine.xml");
  const auto machine = discover_machine();
  EXPECT_TRUE(!machine || !machine->pus.empty());
}

}  // namespace
}  // namespace smelt
