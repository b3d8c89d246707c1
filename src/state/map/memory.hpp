// Memory of tables: private, or shared by all processes that know a name.
//
//   not kept   a memfd "smelt-map:NAME", which others find through /proc/<pid>/fd of its users. The kernel frees it when
//              the last user ends, however it ends
//   kept       /dev/shm/smelt-map.NAME
//
//   | header | blocks: overflow buckets, strings -> | ... reach / 2 | table | table of twice the size | ... |
//
// Every process maps the whole `reach` once. Pages are added as parts come into use, so that no process has to map
// again when the table grows.
#pragma once

#include <functional>

#include "base/segment.hpp"
#include "smelt/map.hpp"

namespace smelt::map_detail {

/// A map that processes share: its file descriptor and the processes that have it open.
struct FoundMap {
  std::string name;
  bool kept = false;
  int fd = -1;  ///< owned
};

/// Calls `visit(name, fd)` for the memfds PREFIX + NAME that this user's processes have open, or only for those of one
/// name, until it returns false. It owns the descriptor. One memfd may be visited several times.
void for_each_memfd(std::string_view prefix, const std::string& only,
                    const std::function<bool(const std::string& name, int fd)>& visit);

class Memory final : public Table {
 public:
  Memory() = default;
  ~Memory() override;

  /// Reserves address space and maps `fd` there; -1: private memory.
  Result<void> map(int fd, Word reach);
  /// The same for reading only, without becoming a member.
  Result<void> map_to_look(int fd, Word reach) {
    const auto mapped = map(fd, reach);
    shared_ = false;
    return mapped;
  }
  /// Initializes an empty map.
  Result<void> format(const std::string& name, const Geometry& geometry, const MapOptions& options, bool strings);
  /// Joins a map that others may use already.
  Result<void> enter();

  /// Whether the file still has all memory that its header says is in use, and the header is one that maps write. Of a
  /// kept map that nobody uses, also whether the chains can be followed. The caller holds the lock of the name. Errors:
  /// bad_format.
  Result<void> whole() const;

  MapState state() const;

 private:
  bool is_possible() const;
  bool is_followed_safely() const;

  void* reserved_ = nullptr;
  std::size_t reserved_bytes_ = 0;
  Word reach_ = 0;
};

}  // namespace smelt::map_detail
