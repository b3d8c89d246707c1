// The cache of measured machines: one file per fingerprint, and one for each set of PUs that was measured by a process
// that may not use the others, as in a container.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "machine/fingerprint.hpp"
#include "machine/known_hardware.hpp"
#include "smelt/machine.hpp"
#include "smelt/settings.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

fs::path cache_directory() {
  if (const auto chosen = setting_value("SMELT_CACHE_DIR"); !chosen.empty()) return chosen;
  // The XDG base directory rules: a relative path is as good as none.
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && xdg[0] == '/') return fs::path(xdg) / "smelt";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return fs::path(home) / ".cache" / "smelt";
  return fmt::format("/tmp/smelt-{}", getuid());
}

const Pu* find_pu(const Machine& machine, int os_index) {
  const int index = machine.index_of(os_index);
  return index < 0 ? nullptr : &machine.pus[static_cast<std::size_t>(index)];
}

/// Empty if the cached model covers what this process may use of the hardware; `hardware` null: of what it describes.
std::string lack(const Machine& cached, const Machine* hardware, const Allowance& allowance) {
  for (const int os_index : allowance.pus) {
    const bool there = hardware == nullptr || find_pu(*hardware, os_index) != nullptr;
    if (there && find_pu(cached, os_index) == nullptr) return fmt::format("PU {} was not measured", os_index);
  }
  return cached.has_costs() ? "" : "it holds no costs";
}

/// Empty if the cached model describes the hardware.
std::string difference(const Machine& cached, const Machine& hardware) {
  if (cached.fingerprint != hardware.fingerprint) return "the hardware has changed";
  for (const auto& pu : cached.pus) {
    const auto* present = find_pu(hardware, pu.os_index);
    if (present == nullptr || *present != pu) return fmt::format("PU {} has changed", pu.os_index);
  }
  return "";
}

/// The model of a machine that has been discovered before, if nothing speaks against it.
std::optional<Machine> load_known_machine(const Allowance& allowance) {
  const auto fingerprint = known_fingerprint();
  if (fingerprint.empty()) return std::nullopt;
  auto cached = load_machine(cache_path(fingerprint));
  const bool fits = cached && is_known_hardware(*cached) && lack(*cached, nullptr, allowance).empty();
  return fits ? std::optional(*std::move(cached)) : std::nullopt;
}

fs::path hardware_path(const std::string& fingerprint) {
  auto file = cache_path(fingerprint);
  return file.replace_extension("hardware.json");
}

/// This machine without costs: as save_hardware() has kept it, or else discovered.
Result<Machine> find_hardware() {
  if (const auto fingerprint = known_fingerprint(); !fingerprint.empty()) {
    auto saved = load_machine(hardware_path(fingerprint));
    if (saved && !saved->has_costs() && is_known_hardware(*saved)) return saved;
  }
  return discover_machine();
}

/// The model in the file, if it fits.
Result<Machine> load_fitting(const fs::path& file, const Machine& hardware, const Allowance& allowance) {
  auto cached = load_machine(file);
  if (!cached) return cached;
  auto changed = difference(*cached, hardware);
  if (changed.empty()) changed = lack(*cached, &hardware, allowance);
  if (changed.empty()) return cached;
  return make_error(Status::not_found, "{}: does not fit this machine: {}; measure it again", file.string(), changed);
}

/// The models of parts of that machine, in the order of their names.
std::vector<fs::path> parts_of(const std::string& fingerprint) {
  const auto whole = cache_path(fingerprint);
  const auto prefix = whole.stem().string() + "-";
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator each(whole.parent_path(), failed), end; !failed && each != end; each.increment(failed)) {
    const auto& file = each->path();
    if (file.filename().string().starts_with(prefix) && file.extension() == ".json") files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The cached model of that hardware, if one fits.
Result<Machine> load_model_of(const Machine& hardware, const Allowance& allowance) {
  auto model = load_fitting(cache_path(hardware.fingerprint), hardware, allowance);
  // Earlier versions kept models of parts there, too.
  if (model ? model->size() < hardware.size() : model.error().status == Status::not_found) {
    for (const auto& file : parts_of(hardware.fingerprint)) {
      auto part = load_fitting(file, hardware, allowance);
      if (part && (!model || part->size() >= model->size())) model = std::move(part);
    }
  }
  if (model) remember_hardware(hardware);
  return model;
}

/// load_cached_machine(). On failure, `hardware` is the machine if that could be found.
Result<Machine> load_fitting_model(std::optional<Machine>& hardware) {
  auto allowance = discover_allowance();
  if (!allowance) return allowance.error();
  if (auto known = load_known_machine(*allowance)) return *std::move(known);
  auto found = find_hardware();
  if (!found) return found;
  hardware = *std::move(found);
  return load_model_of(*hardware, *allowance);
}

}  // namespace

fs::path cache_path(const std::string& fingerprint) {
  std::string name = fingerprint.empty() ? "unknown" : fingerprint;
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  std::replace_if(
      name.begin(), name.end(), [&](char c) { return !is_plain(static_cast<unsigned char>(c)); }, '_');
  return cache_directory() / (name + ".json");
}

fs::path cached_machine_path(const Machine& measured) {
  const auto hardware = find_hardware();
  const auto whole = cache_path(measured.fingerprint);
  if (!hardware || measured.size() >= hardware->size()) return whole;
  return whole.parent_path() / fmt::format("{}-{}.json", whole.stem().string(), fingerprint_of("", measured));
}

Result<void> save_cached_machine(const Machine& measured) {
  const auto file = cached_machine_path(measured);
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  if (failed) {
    return make_error(Status::io_error, "{}: cannot create: {}", file.parent_path().string(), failed.message());
  }
  return save_machine(measured, file);
}

Result<Machine> load_cached_machine() {
  std::optional<Machine> hardware;
  return load_fitting_model(hardware);
}

Result<Machine> load_machine_or_hardware() {
  std::optional<Machine> hardware;
  auto model = load_fitting_model(hardware);
  if (model) return model;
  return hardware ? Result<Machine>(*std::move(hardware)) : discover_machine();
}

void save_hardware(const Machine& discovered) noexcept {
  try {
    if (discovered.fingerprint.empty()) return;
    const auto model = load_machine(cache_path(discovered.fingerprint));
    if (model && model->has_costs() && difference(*model, discovered).empty()) return;
    const auto file = hardware_path(discovered.fingerprint);
    if (const auto saved = load_machine(file); saved && *saved == discovered) return;
    std::error_code ignored;
    fs::create_directories(file.parent_path(), ignored);
    (void)save_machine(discovered, file);
  } catch (const std::exception&) {  // no memory: not kept
  }
}

}  // namespace smelt
