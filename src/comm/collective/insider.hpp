// What other rooms see of a rank and of a communicator, and how they make communicators.
#pragma once

#include <memory>
#include <utility>

#include "comm/collective/communicator_state.hpp"
#include "smelt/communicator.hpp"

namespace smelt::comm {

struct TunerAccess {
  static Endpoint& endpoint(Rank& rank) noexcept { return *rank.endpoint_; }
  static Communicator communicator(std::shared_ptr<CommunicatorState> state) { return Communicator(std::move(state)); }
  static const std::shared_ptr<CommunicatorState>& state(const Communicator& communicator) noexcept {
    return communicator.state_;
  }
};

}  // namespace smelt::comm
