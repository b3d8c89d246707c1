#include "state/log/space.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "smelt/settings.hpp"
#include "state/log/shape.hpp"

namespace smelt::state::log {
namespace {

constexpr const char* kind = "replicated log";  // what a rendezvous is about
constexpr std::uint64_t watch_interval_ns = 100'000;
/// The interval at which sleeping processes check for deaths and for a late leader.
constexpr std::uint64_t longest_sleep_ns = 1'000'000;

}  // namespace

bool Space::own(int rank) const noexcept {
  return std::find(own_ranks_.begin(), own_ranks_.end(), rank) != own_ranks_.end();
}

/// `place`, if any, sets the NUMA placement of the memory before its first touch.
comm::Prepare Space::preparation(const Shape& shape, const std::function<void(std::byte*)>& place) {
  return [shape, place]() -> Result<comm::SegmentContent> {
    const auto fill = [shape, place](std::byte* user) {
      if (place) place(user);
      prepare(user, shape, FutexScope::processes);
    };
    return comm::SegmentContent{kind, Layout::bytes(shape), fill};
  };
}

Space::~Space() {
  if (!members_) return;
  for (int rank : own_ranks_) members_->leave(rank);
}

Result<void> Space::open(const LogOptions& options, int parallelism, std::span<const int> ranks) {
  own_ranks_.assign(ranks.begin(), ranks.end());
  const auto mode = options.wait.empty() ? setting_value("SMELT_WAIT") : options.wait;
  if (!parse_wait_mode(mode)) {
    return make_error(Status::invalid_argument, "replicated log: wait mode '{}': must be spin, yield, sleep or auto",
                      mode);
  }
  wait_ = make_wait_config(size(), parallelism, mode, processes_);
  wait_.longest_sleep_ns = longest_sleep_ns;
  if (processes_) watch_.emplace(*members_, comm::FailureDetector::Method::automatic, watch_interval_ns);
  return {};
}

Result<std::shared_ptr<Space>> Space::create_shared(const std::string& name, int size, std::span<const int> ranks,
                                                    const LogOptions& options, double timeout_s) {
  if (name.empty()) return make_error(Status::invalid_argument, "replicated log: the name is empty");
  auto shape = make_shape(size, options, Faults::crash, 0);
  if (!shape) return shape.error();
  auto allowance = discover_allowance();
  if (!allowance) return allowance.error();
  comm::RendezvousOptions rendezvous_options;
  rendezvous_options.timeout_s = timeout_s;
  auto rendezvous = comm::join_rendezvous(name, size, ranks, preparation(*shape, {}), rendezvous_options);
  if (!rendezvous) return rendezvous.error();
  if (rendezvous->shared_config() != kind) {
    return make_error(Status::bad_format, "replicated log: '{}' is the name of something else", name);
  }
  std::shared_ptr<Space> space(new Space());
  space->processes_ = true;
  space->rendezvous_ = std::move(*rendezvous);
  space->members_.emplace(space->rendezvous_->membership());
  space->layout_ = Layout(space->rendezvous_->user());
  if (auto opened = space->open(options, allowance->parallelism(), ranks); !opened) return opened.error();
  return space;
}

}  // namespace smelt::state::log
