// Where tables live: memory of this process, or of all processes that know a name.
//
//   not kept   a memfd "smelt-map:NAME", found through /proc/<pid>/fd of those that use it: when the last of them ends,
//              however it ends, the kernel frees it
//   kept       /dev/shm/smelt-map.NAME
//
//   | header | blocks: overflow buckets, strings -> | ... reach / 2 | table | table of twice the size | ... |
//
// Every process maps all of `reach` once; memory is put behind the parts that are in use, so that nobody has to map
// anything again when the table grows.
#pragma once

#include "base/segment.hpp"
#include "smelt/map.hpp"

namespace smelt::map_detail {

/// A map that processes share, as its file descriptor and those who have it.
struct FoundMap {
  std::string name;
  bool kept = false;
  int fd = -1;  ///< owned
};

class Memory final : public Table {
 public:
  Memory() = default;
  ~Memory() override;

  /// Sets aside address space and maps `fd` there; -1: memory of this process.
  Result<void> map(int fd, Word reach);
  /// The same to look at it alone: takes no part, and leaves nothing.
  Result<void> map_to_look(int fd, Word reach) {
    const auto mapped = map(fd, reach);
    shared_ = false;
    return mapped;
  }
  /// Lays out an empty map.
  Result<void> format(const std::string& name, const Geometry& geometry, const MapOptions& options, bool strings);
  /// Takes part in a map that others may use already.
  Result<void> enter();

  MapState state() const;

 private:
  void* reserved_ = nullptr;
  std::size_t reserved_bytes_ = 0;
  Word reach_ = 0;
};

}  // namespace smelt::map_detail
