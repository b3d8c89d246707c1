#include "state/log/shape.hpp"

#include <bit>
#include <cmath>
#include <new>
#include <string>

#include "base/error.hpp"

namespace smelt::state::log {
namespace {

bool is_power_of_two(std::uint32_t value, std::uint32_t least, std::uint32_t most) {
  return value >= least && value <= most && (value & (value - 1)) == 0;
}

Result<void> check_numbers(const LogOptions& options) {
  const auto wrong = [](const char* what, auto value, const char* range) {
    return make_error(Status::invalid_argument, "replicated log: {} is {}; it must be {}", what, value, range);
  };
  if (!is_power_of_two(options.entries, 64, 1u << 20)) {
    return wrong("entries", options.entries, "a power of 2 from 64 to 2^20");
  }
  if (!is_power_of_two(options.requests, 2, 1u << 16)) {
    return wrong("requests", options.requests, "a power of 2 from 2 to 2^16");
  }
  if (options.command_bytes < 1 || options.command_bytes > 65535) {
    return wrong("command_bytes", options.command_bytes, "from 1 to 65535");
  }
  if (!(options.suspect_after_s > 0) || !std::isfinite(options.suspect_after_s)) {
    return wrong("suspect_after_s", options.suspect_after_s, "above 0");
  }
  if (!(options.evict_after_s > 0) || !std::isfinite(options.evict_after_s)) {
    return wrong("evict_after_s", options.evict_after_s, "above 0");
  }
  if (options.algorithm != "1paxos" && options.algorithm != "broadcast") {
    return wrong("algorithm", "'" + options.algorithm + "'", "'1paxos' or 'broadcast'");
  }
  if (options.configuration != "cas" && options.configuration != "paxos") {
    return wrong("configuration", "'" + options.configuration + "'", "'cas' or 'paxos'");
  }
  if (options.keep && options.algorithm == "broadcast") {
    return make_error(Status::invalid_argument,
                      "replicated log: algorithm 'broadcast' survives nothing; take '1paxos' for a log that is kept");
  }
  return {};
}

/// Configuration "paxos": a majority agrees.
Result<void> require_majority(const LogOptions& options, Shape* shape) {
  if (options.configuration != "paxos") return {};
  if (shape->fixed != 0 || static_cast<Faults>(shape->faults) == Faults::none) {
    return make_error(
        Status::invalid_argument,
        "replicated log: configuration 'paxos' replaces leaders; it needs algorithm = '1paxos' and faults "
        "= crash or stop");
  }
  std::uint32_t replicas = 0;
  for (const std::uint64_t word : shape->replicas) replicas += static_cast<std::uint32_t>(std::popcount(word));
  if (replicas < 3) {
    return make_error(Status::invalid_argument,
                      "replicated log: a majority of {} replicas survives no death; configuration 'paxos' needs 3 or "
                      "more, 'cas' does not",
                      replicas);
  }
  shape->majority = replicas / 2 + 1;
  return {};
}

}  // namespace

Result<Shape> make_shape(int size, const LogOptions& options, Faults usual_faults, int usual_leader) {
  if (auto checked = check_numbers(options); !checked) return checked.error();
  if (size < 1 || size > nobody) {
    return make_error(Status::invalid_argument, "replicated log: {} ranks; it must be 1 to {}", size, nobody);
  }
  Shape shape;
  shape.ranks = static_cast<std::uint32_t>(size);
  shape.entries = options.entries;
  shape.requests = options.requests;
  shape.command_bytes = options.command_bytes;
  shape.faults = static_cast<std::uint32_t>(options.faults.value_or(usual_faults));
  shape.fixed = options.algorithm == "broadcast" ? 1 : 0;
  shape.suspect_after_s = options.suspect_after_s;
  shape.evict_after_s = options.evict_after_s;
  if (shape.fixed != 0 && options.faults.value_or(Faults::none) != Faults::none) {
    return make_error(Status::invalid_argument,
                      "replicated log: algorithm 'broadcast' survives nothing; leave faults unset, or take '1paxos'");
  }
  if (shape.fixed != 0) shape.faults = static_cast<std::uint32_t>(Faults::none);
  for (int rank : options.replicas) {
    if (rank < 0 || rank >= size) {
      return make_error(Status::invalid_argument, "replicated log: replicas: rank {} is not in 0 to {}", rank,
                        size - 1);
    }
    shape.replicas[rank / 64] |= std::uint64_t{1} << (rank % 64);
  }
  for (int rank = 0; options.replicas.empty() && rank < size; ++rank) {
    shape.replicas[rank / 64] |= std::uint64_t{1} << (rank % 64);
  }
  if (auto checked = require_majority(options, &shape); !checked) return checked.error();
  int leader = options.leader.value_or(usual_leader);
  if (!options.leader) {
    while (!shape.is_replica(leader)) leader = (leader + 1) % size;
  }
  if (leader < 0 || leader >= size || !shape.is_replica(leader)) {
    return make_error(Status::invalid_argument, "replicated log: leader: rank {} is no replica", leader);
  }
  shape.leader = static_cast<std::uint32_t>(leader);
  return shape;
}

void prepare(std::byte* memory, const Shape& shape, FutexScope among) {
  new (memory) Head{};
  const Layout layout(memory, shape);
  Head& head = layout.head();
  head.shape = shape;
  head.bell.scope = among;
  const Configuration first{1, static_cast<int>(shape.leader)};
  head.configuration.store(first.word(), std::memory_order_relaxed);
  head.floor.store(Floor::word(1, 0), std::memory_order_relaxed);
  for (int rank = 0; rank < static_cast<int>(shape.ranks); ++rank) {
    const Progress at_first{0, shape.is_replica(rank) ? Standing::live : Standing::out, 0};
    layout.part(rank).progress.store(at_first.word(), std::memory_order_relaxed);
  }
}

}  // namespace smelt::state::log
