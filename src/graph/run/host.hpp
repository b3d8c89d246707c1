// Host: the threads and the memory of a program's run, behind the functions of program::Host.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "graph/storage/pages.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph_program.hpp"

namespace smelt::graph {

/// Released arrays are reused for later ones of the same size, because loops create the same arrays again.
class ArrayPool {
 public:
  void* allocate(std::size_t size_bytes);
  void release(void* array);

 private:
  std::mutex mutex_;
  std::map<void*, Pages> used_;
  std::multimap<std::size_t, Pages> free_;
};

class ProgramHost {
 public:
  /// `team` and `print` must outlive it.
  ProgramHost(ThreadTeam& team, std::uint64_t seed, std::function<void(std::string_view)> print);

  const program::Host& host() const noexcept { return host_; }

 private:
  ThreadTeam& team_;
  ArrayPool pool_;
  std::mutex print_mutex_;
  std::function<void(std::string_view)> print_;
  program::Host host_;
};

}  // namespace smelt::graph
