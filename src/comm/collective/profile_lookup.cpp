#include "comm/collective/profile_lookup.hpp"

#include <filesystem>
#include <mutex>

#include "base/error.hpp"
#include "smelt/settings.hpp"

namespace smelt::comm {
namespace {

namespace fs = std::filesystem;

/// The last cached profile that was read: communicators are made again and again on one machine.
struct CachedProfile {
  fs::path file;
  fs::file_time_type written{};
  std::uintmax_t bytes = 0;
  std::optional<Profile> profile{};
};

std::optional<Profile> cached_profile(const Machine& machine) {
  static std::mutex mutex;
  static CachedProfile last;
  const auto file = profile_path(machine.fingerprint);
  std::error_code missing;
  const auto written = fs::last_write_time(file, missing);
  if (missing) return std::nullopt;
  const auto bytes = fs::file_size(file, missing);
  const std::lock_guard lock(mutex);
  if (last.file != file || last.written != written || last.bytes != bytes) {
    auto read = load_profile(file);
    last = {file, written, bytes, std::nullopt};
    if (read && read->fingerprint == machine.fingerprint) last.profile = std::move(*read);
  }
  return last.profile;
}

Result<std::optional<Profile>> whole_profile_for(const Machine& machine, const CommunicatorOptions& options) {
  if (options.profile == "none") return std::optional<Profile>();
  if (options.profile.empty()) {
    const bool fits = !machine.fingerprint.empty() && options.topology == "best";
    return fits ? cached_profile(machine) : std::nullopt;
  }
  auto read = load_profile(options.profile);
  if (!read) return read.error();
  if (read->fingerprint != machine.fingerprint) {
    return make_error(Status::invalid_argument, "{}: fingerprint: of another machine ('{}', not '{}'); tune this one",
                      options.profile, read->fingerprint, machine.fingerprint);
  }
  return std::optional(std::move(*read));
}

}  // namespace

Result<std::optional<Profile>> profile_for(const Machine& machine, const Group& group,
                                           const CommunicatorOptions& options) {
  try {
    auto profile = whole_profile_for(machine, options);
    if (profile && *profile) {
      std::erase_if((*profile)->cells, [&](const auto& cell) { return cell.shape.ranks != group.size(); });
    }
    return profile;
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "communicator: no memory for the profile"};
  }
}

bool wants_revalidation(const CommunicatorOptions& options) {
  return options.revalidate.value_or(setting_value("SMELT_REVALIDATE") == "1");
}

}  // namespace smelt::comm
