#include "smelt/measure.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <numeric>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "machine/model/copy_costs.hpp"
#include "measure/call_timer.hpp"
#include "measure/campaign.hpp"
#include "measure/channel_timer.hpp"
#include "measure/copy_campaign.hpp"
#include "measure/copy_timer.hpp"
#include "measure/node_memory.hpp"

namespace smelt {
namespace {

/// This machine, restricted to the PUs that the process may use, since others cannot be measured.
Result<Machine> usable_machine() {
  auto machine = discover_machine();
  if (!machine) return machine;
  const auto allowance = discover_allowance();
  if (!allowance) return allowance.error();
  std::erase_if(machine->pus, [&](const Pu& pu) {
    return std::find(allowance->pus.begin(), allowance->pus.end(), pu.os_index) == allowance->pus.end();
  });
  if (machine->pus.empty()) {
    return make_error(Status::not_found, "cannot measure: the affinity mask allows none of this machine's PUs");
  }
  return machine;
}

constexpr int most_tries = 3;
constexpr std::size_t least_crowd = 4, most_crowd = 16;  ///< PUs that use a cache or a line at once
constexpr double noise = 0.05;            ///< relative differences between pairs that are attributed to noise
constexpr double messages_share = 0.75;   ///< share of the budget; the rest is for copies
constexpr double copies_fraction = 0.9;   ///< reported progress once messages are done
constexpr double copies_share = 0.6;      ///< of the time after the messages; the rest is for what else is shared
constexpr double memory_fraction = 0.95;  ///< the same once copies are done, too

/// Adds what processes cost each other that read the same pages of another one. Adds nothing if the kernel refuses.
void measure_shared_pages(Machine& machine, measure::MemoryTimer& timer, std::span<const int> readers,
                          double deadline_s) {
  constexpr int count = 31;
  const auto bytes = static_cast<std::size_t>(4 * machine.copy->chunk_bytes);
  auto read = timer.time_process_source(0, readers, bytes, count, deadline_s);
  if (!read) return;
  const double all_kib = static_cast<double>(readers.size() * bytes) / 1024;
  machine.process_pages_ns_per_kib = measure::median(*std::move(read)) / all_kib;
}

/// Adds what many PUs cost each other that use the same cache or the same line at once. Adds nothing if time is short.
void measure_crowd(Machine& machine, measure::MemoryTimer& timer, double deadline_s) {
  constexpr int count = 101;
  std::vector<int> pus(std::min(machine.size(), most_crowd));
  std::iota(pus.begin(), pus.end(), 0);
  const auto readers = std::span(pus).subspan(1);
  const double chunk_bytes = machine.copy->chunk_bytes;
  // Half of the first cache, and much more than it holds.
  const double near_bytes = static_cast<double>(std::max(0L, sysconf(_SC_LEVEL1_DCACHE_SIZE)));
  const auto near_readers = readers.first(std::min<std::size_t>(4, readers.size()));
  const double near_part_bytes = std::floor(near_bytes / 2 / static_cast<double>(near_readers.size()) / 64) * 64;
  const double part_bytes = std::max(2 * chunk_bytes, 8 * near_bytes / static_cast<double>(readers.size()));
  const auto ns_per_kib = [&](std::span<const int> who, double bytes) -> std::optional<double> {
    if (!(bytes > 0.0)) return std::nullopt;
    auto took_ns = timer.time_source(0, who, static_cast<std::size_t>(bytes), count, deadline_s);
    if (!took_ns) return std::nullopt;
    return measure::median(*std::move(took_ns)) / (static_cast<double>(who.size()) * bytes / 1024);
  };
  // The rates of one moment are at times twice those of the next.
  constexpr int moments = 3;
  std::vector<double> far, near;
  for (int moment = 0; moment < moments; ++moment) {
    if (const auto ns = ns_per_kib(readers, part_bytes)) far.push_back(*ns);
    if (const auto ns = ns_per_kib(near_readers, near_part_bytes)) near.push_back(*ns);
  }
  if (!far.empty()) machine.source_ns_per_kib = measure::median(far);
  if (!near.empty()) machine.near_source_ns_per_kib = measure::median(near);
  if (machine.near_source_ns_per_kib) machine.near_bytes = near_bytes;
  measure_shared_pages(machine, timer, readers, deadline_s);
  auto counted = timer.time_counted_barriers(pus, count, deadline_s);
  if (!counted) return;
  double message_ns = 0.0;
  for (std::size_t i = 1; i < pus.size(); ++i) {
    const double way_ns = machine.propagation_ns ? (*machine.propagation_ns)(0, i) : 0.0;
    message_ns = std::max(message_ns, machine.send_ns(0, i) + way_ns + machine.recv_ns(0, i));
  }
  // The rest of a barrier is the line that all wait for in the end.
  const double waited_ns = message_ns + (machine.fan_out_ns.empty() ? 0.0 : machine.fan_out_ns.back());
  machine.counter_ns =
      std::max(0.0, measure::median(*std::move(counted)) - waited_ns) / static_cast<double>(pus.size());
}

/// Adds what it costs to combine data of another PU, to write lines that one has read, and to copy chunks at once. Adds
/// nothing if time is short. Measured on two PUs, relative to copies between them.
void measure_sharing(Machine& machine, measure::MemoryTimer& timer, double deadline_s) {
  constexpr int count = 101;
  const CopyCosts& copy = *machine.copy;
  std::vector<double> shares;
  for (const double bytes : {combine_sizes_bytes[0], combine_sizes_bytes[1], copy.cached_bytes}) {
    auto combined = timer.time_combinations(1, 0, static_cast<std::size_t>(bytes), count, deadline_s);
    const double copied_ns = copy_ns(machine, 1, 0, bytes);
    if (combined && copied_ns > 0.0) shares.push_back(measure::median(*std::move(combined)) / copied_ns);
  }
  if (shares.size() == 3) machine.combine_share = std::move(shares);
  const auto chunk = static_cast<std::size_t>(copy.chunk_bytes);
  auto rewritten = timer.time_rewrites(0, 1, chunk, count, deadline_s);
  const double read_ns = copy.chunk_ns_per_kib(1, 0) * copy.chunk_bytes / 1024;
  if (rewritten && read_ns > 0.0) {
    machine.rewrite_share = std::max(0.0, measure::median(*std::move(rewritten)) / read_ns);
  }
  // Of twice as much each combines a chunk.
  auto combined = timer.time_combined_rewrites(0, 1, 2 * chunk, count, deadline_s);
  if (combined && read_ns > 0.0) {
    machine.combine_rewrite_share = std::max(0.0, measure::median(*std::move(combined)) / read_ns);
  }
  auto changed = timer.time_changes(0, 1, chunk, count, deadline_s);
  if (changed) {
    machine.change_ns_per_kib = std::max(0.0, measure::median(*std::move(changed))) / (copy.chunk_bytes / 1024);
  }
  if (machine.size() >= least_crowd) measure_crowd(machine, timer, deadline_s);
  // Of a single chunk the copies would hardly overlap, as threads do not start at the same instant.
  if (auto slowdowns = measure::chunk_contention(machine, timer, 4 * chunk, count, deadline_s)) {
    machine.chunk_contention = *std::move(slowdowns);
  }
}

/// Adds the costs of copies. Adds none if time is short or they contradict the costs of messages; they are estimated
/// then.
Result<void> measure_copies(Machine& machine, const MeasureOptions& options, double deadline_s) {
  if (options.progress) options.progress({"copies", copies_fraction, 0.0});
  measure::MemoryTimer timer(machine);
  auto effort = measure::copy_effort(machine, options.quick);
  const double now_s = measure::monotonic_s();
  effort.more_until_s = now_s + copies_share * std::max(0.0, deadline_s - now_s);
  auto copy = measure::run_copy_campaign(machine, timer, effort, deadline_s);
  if (!copy && copy.error().status != Status::timed_out) return copy.error();
  if (copy && measure::agrees_with_messages(machine, *copy)) machine.copy = *std::move(copy);
  if (machine.copy && machine.size() > 1) measure_sharing(machine, timer, deadline_s);
  return {};
}

void leave_out(const MeasureOptions& options, std::string what, Error why) {
  if (options.left_out != nullptr) options.left_out->push_back({std::move(what), std::move(why)});
}

Error no_time() { return make_error(Status::timed_out, "no time left"); }

constexpr double memory_budget_s = 10.0;  ///< at most

/// Adds the costs of memory if there is enough time and memory.
void measure_memory(Machine& machine, const MeasureOptions& options, double deadline_s) {
  if (options.progress) options.progress({"memory", memory_fraction, 0.0});
  const double until_s = std::min(deadline_s, measure::monotonic_s() + memory_budget_s);
  auto measured = measure::measure_node_memory(machine, measure::memory_effort(options.quick), until_s);
  if (!measured) return leave_out(options, "memory", measured.error());
  machine.memory = std::move(measured->costs);
  if (measured->left_out.empty()) return;
  leave_out(options, fmt::format("memory: {}", fmt::join(measured->left_out, ", ")), no_time());
}

Result<Machine> measure_once(const Machine& machine, const MeasureOptions& options, double deadline_s) {
  measure::ChannelTimer timer(machine, options.quick);
  auto of_messages = options;
  of_messages.budget_s = (deadline_s - measure::monotonic_s()) * messages_share;
  if (options.progress) {
    of_messages.progress = [&](MeasureProgress progress) {
      progress.fraction *= copies_fraction;
      options.progress(progress);
    };
  }
  auto measured = measure::run_campaign(machine, timer, of_messages);
  if (!measured) return measured;
  if (auto copies = measure_copies(*measured, options, deadline_s); !copies) return copies.error();
  return measured;
}

Result<Machine> measure_usable(const MeasureOptions& options) {
  const double start_s = measure::monotonic_s();
  const double deadline_s = start_s + options.budget_s;
  const auto machine = usable_machine();
  if (!machine) return machine;
  auto measured = measure_once(*machine, options, deadline_s);
  // Measures again, while there is time, if the parts contradict each other.
  const double once_s = measure::monotonic_s() - start_s;
  for (int tries = 1; tries < most_tries && measured && !measured->copy; ++tries) {
    if (measure::monotonic_s() + once_s > deadline_s) break;
    auto again = measure_once(*machine, options, deadline_s);
    if (!again) break;
    measured = std::move(again);
  }
  if (!measured) return measured;
  if (!measured->copy) leave_out(options, "copies", no_time());
  if (const auto calls = measure::time_calls(*measured, options.quick, deadline_s)) {
    measured->call_ns = calls->call_ns;
    measured->barrier_call_ns = calls->barrier_ns;
  }
  measure_memory(*measured, options, deadline_s);
  if (measured->size() > most_pus_in_full) measured = with_costs_by_class(*std::move(measured), noise);
  if (options.progress) options.progress({"done", 1.0, 0.0});
  measured->tsc_ghz = ticks_per_ns();
  measured->measured_at = utc_now();
  return measured;
}

}  // namespace

Result<Machine> measure_machine(const MeasureOptions& options) {
  if (!(options.budget_s > 0.0) || !std::isfinite(options.budget_s)) {
    return make_error(Status::invalid_argument, "a measuring budget of {} s: must be a number above 0",
                      options.budget_s);
  }
  try {
    return measure_usable(options);
  } catch (const std::bad_alloc&) {
    return make_error(Status::out_of_memory, "no memory for the cost matrices of this machine");
  } catch (const std::exception& error) {
    return make_error(Status::io_error, "measuring failed: {}", error.what());
  }
}

Result<Machine> measured_machine(const MeasureOptions& options) {
  if (auto cached = load_cached_machine()) return cached;
  auto machine = measure_machine(options);
  if (!machine) return machine;
  // The model is valid even if it cannot be cached. The next run measures again.
  (void)save_cached_machine(*machine);
  return machine;
}

}  // namespace smelt
