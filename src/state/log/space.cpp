#include "state/log/space.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "smelt/settings.hpp"
#include "state/log/shape.hpp"

namespace smelt::state::log {
namespace {

constexpr const char* kind = "replicated log";  // what a rendezvous is about
constexpr const char* kept_kind = "kept replicated log";
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

/// A log that is kept has a file of its own; what the processes meet over tells which life of it they begin.
Result<comm::Rendezvous> Space::meet(const std::string& name, int size, std::span<const int> ranks, const Shape& shape,
                                     bool keep, double timeout_s) {
  comm::RendezvousOptions rendezvous_options;
  rendezvous_options.timeout_s = timeout_s;
  const auto begin_life = [&]() -> Result<comm::SegmentContent> {
    auto begun = Kept::begin(name, shape);
    if (!begun) return begun.error();
    kept_ = std::move(*begun);
    const auto tell = [life = kept_->life()](std::byte* user) { std::memcpy(user, &life, sizeof life); };
    return comm::SegmentContent{kept_kind, sizeof(std::uint64_t), tell};
  };
  const comm::Prepare prepare = keep ? comm::Prepare(begin_life) : preparation(shape, {});
  auto rendezvous = comm::join_rendezvous(name, size, ranks, prepare, rendezvous_options);
  if (!rendezvous) return rendezvous;
  const auto met_as = rendezvous->shared_config();
  if (met_as != kind && met_as != kept_kind) {
    return make_error(Status::bad_format, "replicated log: '{}' is the name of something else", name);
  }
  if ((met_as == kept_kind) != keep) {
    return make_error(Status::invalid_argument, "replicated log: '{}' is {}kept by others; set `keep` likewise", name,
                      keep ? "not " : "");
  }
  if (keep && !rendezvous->prepared) {
    std::uint64_t life = 0;
    std::memcpy(&life, rendezvous->user(), sizeof life);
    auto joined = Kept::join(name, life);
    if (!joined) return joined.error();
    kept_ = std::move(*joined);
  }
  for (std::size_t i = 0; keep && i < ranks.size(); ++i) kept_->note_process(ranks[i]);
  return rendezvous;
}

Result<std::shared_ptr<Space>> Space::create_shared(const std::string& name, int size, std::span<const int> ranks,
                                                    const LogOptions& options, double timeout_s) {
  if (name.empty()) return make_error(Status::invalid_argument, "replicated log: the name is empty");
  auto shape = make_shape(size, options, Faults::crash, 0);
  if (!shape) return shape.error();
  auto allowance = discover_allowance();
  if (!allowance) return allowance.error();
  std::shared_ptr<Space> space(new Space());
  auto rendezvous = space->meet(name, size, ranks, *shape, options.keep, timeout_s);
  if (!rendezvous) return rendezvous.error();
  space->processes_ = true;
  space->rendezvous_ = std::move(*rendezvous);
  space->members_.emplace(space->rendezvous_->membership());
  space->layout_ = Layout(options.keep ? space->kept_->memory() : space->rendezvous_->user());
  if (auto opened = space->open(options, allowance->parallelism(), ranks); !opened) return opened.error();
  return space;
}

}  // namespace smelt::state::log
