// Kept logs, looked at and removed from outside.
#include <cstring>

#include "base/error.hpp"
#include "smelt/replicated_log.hpp"
#include "state/log/kept.hpp"

namespace smelt {
namespace {

using state::log::Kept;
using state::log::Layout;

/// A log in use may change meanwhile: the numbers are of about the same moment.
Result<LogState> state_of(const std::string& name) {
  const auto kept = Kept::look_at(name);
  if (!kept) {
    if (kept.error().status != Status::not_found) return kept.error();
    return make_error(Status::not_found, "no log '{}' was kept; 'smelt state list' shows those that were", name);
  }
  const Layout layout((*kept)->memory());
  const state::log::Shape& shape = layout.head().shape;
  const auto now = state::log::Configuration::of(layout.head().configuration.load(std::memory_order_acquire));
  LogState found;
  found.name = name;
  found.ranks = static_cast<int>(shape.ranks);
  for (int rank = 0; rank < found.ranks; ++rank) found.replicas += shape.is_replica(rank) ? 1 : 0;
  found.entries = shape.entries;
  found.requests = shape.requests;
  found.command_bytes = shape.command_bytes;
  found.epoch = now.epoch;
  found.leader = now.leader == state::log::nobody ? -1 : now.leader;
  found.memory_bytes = (*kept)->memory_bytes();
  std::uint64_t slot = 0;
  const auto state = (*kept)->newest();
  if (!state) return state.error();
  if (*state) {
    slot = (*state)->index;
    for (int rank = 0; rank < found.ranks; ++rank) {
      std::uint64_t requests = 0;
      std::memcpy(&requests, (*state)->bytes.data() + static_cast<std::size_t>(rank) * sizeof requests,
                  sizeof requests);
      found.saved += requests;
    }
    found.state_bytes = (*state)->bytes.size() - shape.ranks * sizeof(std::uint64_t);
    found.memory_bytes += (*state)->bytes.size();
  }
  found.appended = found.saved;
  for (const std::uint64_t end = slot + shape.entries; slot < end; ++slot) {
    const std::uint64_t word = layout.slot(slot).load(std::memory_order_acquire);
    if (state::log::lap_of(word) != layout.lap(slot) || state::log::is_sealed(word)) break;
    found.appended += state::log::count_of(word);
  }
  found.processes = (*kept)->processes();
  return found;
}

}  // namespace

Result<std::vector<LogState>> list_logs() {
  std::vector<LogState> states;
  for (const auto& name : Kept::names()) {
    auto state = state_of(name);
    if (state) states.push_back(std::move(*state));
  }
  return states;
}

Result<LogState> inspect_log(const std::string& name) { return state_of(name); }

Result<void> remove_log(const std::string& name) {
  const auto removed = Kept::remove(name);
  if (!removed && removed.error().status == Status::not_found) {
    return make_error(Status::not_found, "no log '{}' was kept; 'smelt state list' shows those that were", name);
  }
  return removed;
}

}  // namespace smelt
