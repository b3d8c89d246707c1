// Space: a process's view of a map over ranks: its memory, its members, and the detection of deaths.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/segment.hpp"
#include "comm/group/membership.hpp"
#include "comm/group/rendezvous.hpp"
#include "smelt/map_group.hpp"
#include "smelt/replicated_log.hpp"
#include "state/over_ranks/layout.hpp"

namespace smelt::comm {
class CommunicatorState;
}

namespace smelt::state::over_ranks {

class Space final : public map_detail::GroupSpace, public std::enable_shared_from_this<Space> {
 public:
  /// `faults`: that are survived, by the options or because they leave it open.
  static Result<std::shared_ptr<Space>> create(const Communicator& communicator, const Shape& shape,
                                               const MapOptions& options, Faults faults, const std::string& name);
  ~Space() override;

  Result<std::unique_ptr<map_detail::GroupMember>> attach(int rank) override;

  const Layout& layout() const noexcept { return layout_; }
  const Shape& shape() const noexcept { return layout_.head().shape; }
  int size() const noexcept { return static_cast<int>(shape().ranks); }
  std::size_t capacity() const noexcept { return capacity_; }
  const WaitConfig& wait_config() const noexcept { return wait_; }
  comm::Membership& members() noexcept { return *members_; }
  ReplicatedLog* log() noexcept { return log_ ? &*log_ : nullptr; }

  /// Checks for ended processes, at most about ten thousand times per second.
  void look_for_deaths() noexcept {
    if (watch_) watch_->check();
  }

 private:
  Space() = default;
  Result<void> meet(comm::CommunicatorState& state, const Shape& shape, std::vector<int> parents);
  Result<void> open(comm::CommunicatorState& state, const MapOptions& options);
  Result<void> create_log(const Communicator& communicator, const MapOptions& options, Faults faults,
                          const std::string& name);

  Segment segment_;                             ///< of threads
  std::optional<comm::Rendezvous> rendezvous_;  ///< of processes
  std::optional<comm::Membership> members_;
  std::optional<comm::FailureDetector> watch_;
  std::optional<ReplicatedLog> log_;  ///< of kv
  std::vector<int> own_ranks_;
  Layout layout_;
  WaitConfig wait_;
  std::size_t capacity_ = 0;
};

}  // namespace smelt::state::over_ranks
