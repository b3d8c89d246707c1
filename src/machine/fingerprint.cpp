// The fingerprint is FNV-1a (64 bits) over a line of text: the CPU model, then per PU its ids.
#include "machine/fingerprint.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

namespace smelt {
namespace {

std::string count_of(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

std::string fingerprint_of(std::string_view cpu_model, const Machine& machine) {
  std::string text(cpu_model);
  text += fmt::format("|{}", machine.numa_nodes.size());
  for (const auto& pu : machine.pus) {
    text += fmt::format("|{},{},{},{},{},{},{}", pu.os_index, pu.core, pu.package, pu.numa_node, pu.l2, pu.l3,
                        pu.efficiency_class);
  }
  return fmt::format("{:016x}", fnv1a(text));
}

std::string shape_of(const Machine& machine) {
  std::map<int, std::size_t> pus_of_core;
  std::map<int, std::set<int>> cores_of_package;
  for (const auto& pu : machine.pus) {
    ++pus_of_core[pu.core];
    cores_of_package[pu.package].insert(pu.core);
  }
  const auto packages = cores_of_package.size();
  const auto cores = pus_of_core.size();
  bool regular = packages > 0;
  for (const auto& [core, pus] : pus_of_core) regular &= pus * cores == machine.pus.size();
  for (const auto& [package, members] : cores_of_package) regular &= members.size() * packages == cores;
  if (!regular) {
    return fmt::format("{}, {}, {}", count_of(packages, "package"), count_of(cores, "core"),
                       count_of(machine.pus.size(), "PU"));
  }
  return fmt::format("{} x {} x {}", count_of(packages, "package"), count_of(cores / packages, "core"),
                     count_of(machine.pus.size() / cores, "PU"));
}

}  // namespace smelt
