// Space: a process's view of a replicated log: its memory, its members, and the detection of deaths.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/segment.hpp"
#include "comm/group/membership.hpp"
#include "comm/group/rendezvous.hpp"
#include "smelt/replicated_log.hpp"
#include "state/log/kept.hpp"
#include "state/log/layout.hpp"

namespace smelt::comm {
class CommunicatorState;
}

namespace smelt::state::log {

class Space {
 public:
  static Result<std::shared_ptr<Space>> create(const std::shared_ptr<comm::CommunicatorState>& communicator,
                                               const LogOptions& options);
  static Result<std::shared_ptr<Space>> create_shared(const std::string& name, int size, std::span<const int> ranks,
                                                      const LogOptions& options, double timeout_s);
  ~Space();

  const Layout& layout() const noexcept { return layout_; }
  const Shape& shape() const noexcept { return layout_.head().shape; }
  int size() const noexcept { return static_cast<int>(shape().ranks); }
  bool processes() const noexcept { return processes_; }
  bool own(int rank) const noexcept;
  const WaitConfig& wait_config() const noexcept { return wait_; }
  comm::Membership& members() noexcept { return *members_; }
  /// Null: the log ends with its last process.
  Kept* kept() const noexcept { return kept_.get(); }

  /// Checks for ended processes, at most about ten thousand times per second.
  void look_for_deaths() noexcept {
    if (watch_) watch_->check();
  }
  /// Whether the rank has left.
  bool gone(int rank) const noexcept { return !members_->present(rank); }

 private:
  Space() = default;
  static comm::Prepare preparation(const Shape& shape, const std::function<void(std::byte*)>& place);
  Result<comm::Rendezvous> meet(const std::string& name, int size, std::span<const int> ranks, const Shape& shape,
                                bool keep, double timeout_s);
  Result<void> open(const LogOptions& options, int parallelism, std::span<const int> ranks);

  Segment segment_;                             ///< of threads
  std::shared_ptr<Kept> kept_;                  ///< LogOptions::keep
  std::optional<comm::Rendezvous> rendezvous_;  ///< of processes
  std::optional<comm::Membership> members_;
  std::optional<comm::FailureDetector> watch_;
  std::vector<int> own_ranks_;
  Layout layout_;
  WaitConfig wait_;
  bool processes_ = false;
};

}  // namespace smelt::state::log
