// Host: the threads and the memory of a program's run, behind the functions of program::Host.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "graph/run/placed_memory.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph_program.hpp"
#include "smelt/green_marl.hpp"

namespace smelt::graph {

/// Released arrays are reused for later ones of the same size, because loops create the same arrays again.
class ArrayPool {
 public:
  explicit ArrayPool(PlacedMemory& memory) : memory_(memory) {}

  void* allocate(std::size_t size_bytes, const program::ArrayHints& hints);
  void release(void* array);

 private:
  /// What an array is for: the same for those that may take each other's memory.
  struct Kind {
    bool of_nodes;
    ArrayPlacement::Placement placement;
    auto operator<=>(const Kind&) const = default;
  };
  struct Used {
    ArrayMemory memory;
    Kind kind;
  };

  PlacedMemory& memory_;
  std::mutex mutex_;
  std::map<void*, Used> used_;
  std::map<Kind, std::multimap<std::size_t, ArrayMemory>> free_;
};

class ProgramHost {
 public:
  /// `team`, `memory` and `print` must outlive it.
  ProgramHost(ThreadTeam& team, PlacedMemory& memory, const RunOptions& options,
              std::function<void(std::string_view)> print);

  const program::Host& host() const noexcept { return host_; }

 private:
  ThreadTeam& team_;
  PlacedMemory& memory_;
  ArrayPool pool_;
  std::mutex print_mutex_;
  std::function<void(std::string_view)> print_;
  program::Host host_;
};

}  // namespace smelt::graph
