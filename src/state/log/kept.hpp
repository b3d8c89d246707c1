// Kept: a log that outlives its processes.
//
//   /dev/shm/smelt-log.NAME               | KeptHead | the log (layout.hpp) |
//   /dev/shm/smelt-log-state.INDEX.NAME   | StateHead | what Replica::state_here() gave |
//
// A life of the log: processes that met under its name, until the last one has ended. Each process holds a shared lock
// on the log's file, and the one that begins a life first holds it alone. So lives do not overlap, and the kernel
// returns the lock however a process ends.
//
// Invariants
//   1. A state file is complete before it has its name, and never changes.
//   2. KeptHead::index is 0 (the state at first) or names a state file that is there. It only grows.
//   3. The floor is at most KeptHead::index. So the state file and the log's slots from that index on are, together, all
//      that was decided.
// A process that is killed while it saves leaves a state file that is not named, or one that was replaced. The next
// life removes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/segment.hpp"
#include "smelt/error.hpp"
#include "smelt/replicated_log.hpp"
#include "state/log/layout.hpp"

namespace smelt::state::log {

struct KeptHead {
  Word magic;
  std::uint32_t version = 0;
  char name[196] = {};
  Word life;               ///< counts lives, from 1
  Word index;              ///< slots below it are in the state file of that name
  Word processes[nobody];  ///< by rank: ProcessId::packed() of its process in this life
};

class Kept {
 public:
  /// What a state file holds.
  struct State {
    std::uint64_t index = 0;
    std::vector<std::byte> bytes;
  };

  /// Makes the log, or begins another life of one that is there: its former processes have all ended.
  /// Errors: invalid_argument (name; the log is there with another shape), broken (it is in use), bad_format,
  /// out_of_memory, permission_denied.
  static Result<std::shared_ptr<Kept>> begin(const std::string& name, const Shape& shape);
  /// Takes part in the life that another process has begun. Errors: broken (that life has ended).
  static Result<std::shared_ptr<Kept>> join(const std::string& name, std::uint64_t life);
  /// Of a log that is there, to look at it: takes no part.
  static Result<std::shared_ptr<Kept>> look_at(const std::string& name);
  static std::vector<std::string> names();
  static Result<void> remove(const std::string& name);

  std::byte* memory() const noexcept;
  std::size_t memory_bytes() const noexcept { return segment_.size(); }
  std::uint64_t life() const noexcept { return head().life.load(std::memory_order_relaxed); }
  ~Kept();
  /// This process has the rank.
  void note_process(int rank);
  /// Of those that live.
  std::vector<std::int64_t> processes() const;

  /// Acquire: pairs with save(). The state file is there.
  std::uint64_t index() const noexcept { return head().index.load(std::memory_order_acquire); }
  /// The state of all slots below `index`. Any replica may call this at any time, also one that was late.
  Result<void> save(std::uint64_t index, std::span<const std::byte> state);
  /// The newest state. Empty: the state at first.
  Result<std::optional<State>> newest() const;

 private:
  Kept(std::string name, Segment segment) : name_(std::move(name)), segment_(std::move(segment)) {}
  static Result<std::shared_ptr<Kept>> open(const std::string& name);
  static Result<std::shared_ptr<Kept>> make(const std::string& name, const Shape& shape);
  KeptHead& head() const noexcept { return *reinterpret_cast<KeptHead*>(segment_.data()); }
  Result<void> lock_alone();
  Result<void> share_lock();
  Result<void> recover(const Shape& shape);
  void remove_states_but(std::uint64_t index) const;

  std::string name_;
  Segment segment_;
  std::vector<int> own_ranks_;
};

}  // namespace smelt::state::log
