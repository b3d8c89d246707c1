// Names of maps over ranks that are in use (map_names.hpp).
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/process.hpp"
#include "state/map/memory.hpp"
#include "state/map_names.hpp"

namespace smelt {
namespace map_detail {
namespace {

constexpr const char* group_prefix = "smelt-map-group:";
constexpr std::uint64_t group_magic = 0x31707267706d6d73;  // "smmpgrp1"

struct GroupEntry {
  std::uint64_t magic;
  std::uint64_t process;
  char algorithm[32];
  std::int32_t ranks;
  std::uint32_t strings;
  std::uint64_t key_bytes, value_bytes;
};

}  // namespace

std::shared_ptr<const void> announce(const MapGroupState& group) {
  const auto self = ProcessId::self();
  const int fd = memfd_create((group_prefix + group.name).c_str(), MFD_CLOEXEC);
  if (fd < 0 || !self) return nullptr;
  GroupEntry entry{group_magic,     self->packed(),   {}, group.ranks, group.strings ? 1u : 0u,
                   group.key_bytes, group.value_bytes};
  std::memcpy(entry.algorithm, group.algorithm.data(), std::min(group.algorithm.size(), sizeof entry.algorithm - 1));
  (void)!pwrite(fd, &entry, sizeof entry, 0);
  return {reinterpret_cast<const void*>(static_cast<std::intptr_t>(fd) + 1), [fd](const void*) { close(fd); }};
}

}  // namespace map_detail

std::vector<MapGroupState> list_map_groups() {
  using namespace map_detail;
  std::vector<MapGroupState> all;
  for_each_memfd(group_prefix, "", [&](const std::string& name, int fd) {
    GroupEntry entry;
    const bool good = pread(fd, &entry, sizeof entry, 0) == sizeof entry && entry.magic == group_magic;
    close(fd);
    const auto process = good ? ProcessId::unpacked(entry.process) : ProcessId{};
    // A fork has its parent's descriptors, too.
    if (!good || liveness_of(process) == Liveness::dead) return true;
    entry.algorithm[sizeof entry.algorithm - 1] = 0;
    const auto is_same = [&](const MapGroupState& other) {
      return other.name == name && other.algorithm == entry.algorithm && other.ranks == entry.ranks;
    };
    auto found = std::ranges::find_if(all, is_same);
    if (found == all.end()) {
      all.push_back({name, entry.algorithm, entry.ranks, entry.strings != 0, entry.key_bytes, entry.value_bytes, {}});
      found = all.end() - 1;
    }
    if (std::ranges::find(found->processes, process.pid) == found->processes.end()) {
      found->processes.push_back(process.pid);
    }
    return true;
  });
  std::ranges::sort(all, {}, &MapGroupState::name);
  return all;
}

}  // namespace smelt
