#include "smelt/measure.hpp"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "measure/campaign.hpp"
#include "measure/channel_timer.hpp"

namespace smelt {
namespace {

std::string utc_now() {
  const auto now = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
}

/// This machine, reduced to the PUs that the process may use: the others cannot be measured.
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

Result<Machine> measure_usable(const MeasureOptions& options) {
  auto machine = usable_machine();
  if (!machine) return machine;
  measure::ChannelTimer timer(*machine, options.quick);
  auto measured = measure::run_campaign(*machine, timer, options);
  if (!measured) return measured;
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
  // A cache that cannot be written costs a measurement next time; the model is good all the same.
  const auto file = cache_path(machine->fingerprint);
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  (void)save_machine(*machine, file);
  return machine;
}

}  // namespace smelt
