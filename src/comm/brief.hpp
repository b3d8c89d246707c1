// Brief: a schedule for messages of a few lines each, run by blocking calls without what long messages need: chunks,
// extents, and a state from which to go on later.
//
//   move of the schedule   ->   step: the channels are known, addresses are base[buffer] + at * block bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "channel/line.hpp"
#include "comm/link.hpp"
#include "smelt/collective.hpp"
#include "smelt/schedule.hpp"

namespace smelt::comm {

class Endpoint;

class Brief {
 public:
  /// Translates this rank's schedule; empty if it does more than send, receive, copy and combine.
  static Brief compile(Endpoint& endpoint, const Recipe& recipe, const Schedule& schedule, Operation operation);

  /// Whether every message of that call is that short, and all ranks know it.
  bool fits(const Collective& call) const noexcept {
    const std::size_t bytes = call.count * call.element_bytes;
    return !steps_.empty() && bytes != 0 && bytes <= most_bytes_ && call.in_blocks.counts == nullptr &&
           call.out_blocks.counts == nullptr && (call.operation != Operation::alltoall || call.in != call.out);
  }

  /// Runs a call that fits. False: interrupted, the communicator is broken.
  bool run(Endpoint& endpoint, const Collective& call) const noexcept;

 private:
  static constexpr std::size_t most_lines = 16;  ///< of a message

  /// Blocks at .. at+count-1 of a buffer.
  struct Place {
    Buffer buffer = Buffer::none;
    std::uint16_t at = 0, count = 1;
  };
  struct Step {
    Move::Kind kind{};
    bool theirs_first = false;
    Place from{}, with{}, to{};
    Link* out = nullptr;
    Link* in = nullptr;
  };
  struct Frame;
  static bool send(Endpoint& endpoint, Link& link, const std::byte* data, std::size_t bytes) noexcept;
  static bool receive(Endpoint& endpoint, Link& link, std::byte* data, std::size_t bytes) noexcept;

  std::vector<Step> steps_;
  std::size_t most_bytes_ = 0;  ///< of a vector or block
};

}  // namespace smelt::comm
