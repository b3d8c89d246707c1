#include "machine/known_hardware.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "machine/fingerprint.hpp"
#include "machine/text.hpp"
#include "smelt/settings.hpp"

extern char** environ;

namespace smelt {
namespace {

struct Note {
  std::uint64_t fingerprint, state, pus;
};

// The last is the exclusive or of a note's three, so that parts of two notes do not pass for one.
constinit std::atomic<std::uint64_t> own_fingerprint{0}, own_pus{0}, own_check{0};

std::optional<std::uint64_t> parse_hex(std::string_view digits) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [last, status] = std::from_chars(digits.data(), end, value, 16);
  return digits.size() == 16 && status == std::errc() && last == end ? std::optional(value) : std::nullopt;
}

/// Of what hwloc's result depends on; nothing if the kernel does not tell.
std::optional<std::uint64_t> hash_of_state() {
  std::string text;
  for (const char* file : {"/proc/sys/kernel/random/boot_id", "/sys/devices/system/cpu/online"}) {
    const auto content = read_small_file(file);
    if (!content || content->empty()) return std::nullopt;
    text += *content;
  }
  text += read_small_file("/sys/devices/system/node/online").value_or("");
  std::uint64_t settings = 0;  // a sum: their order does not matter
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    if (std::string_view(*each).starts_with("HWLOC_")) settings += fnv1a(*each);
  }
  return fnv1a(text + std::to_string(settings));
}

std::optional<std::uint64_t> hash_of_pus(const Machine& machine) { return parse_hex(fingerprint_of("", machine)); }

std::optional<Note> note_of(const Machine& machine) {
  const auto fingerprint = parse_hex(machine.fingerprint), state = hash_of_state(), pus = hash_of_pus(machine);
  return fingerprint && state && pus ? std::optional(Note{*fingerprint, *state, *pus}) : std::nullopt;
}

/// The note, if it was made in this state.
std::optional<Note> parse_note(std::string_view text, std::uint64_t state) {
  const auto parts = split(text, '@');
  if (parts.size() != 3 || parse_hex(parts[1]) != state) return std::nullopt;
  const auto fingerprint = parse_hex(parts[0]), pus = parse_hex(parts[2]);
  return fingerprint && pus ? std::optional(Note{*fingerprint, state, *pus}) : std::nullopt;
}

std::optional<Note> known() {
  const auto state = hash_of_state();
  if (!state) return std::nullopt;
  const Note own{own_fingerprint.load(std::memory_order_relaxed), *state, own_pus.load(std::memory_order_relaxed)};
  const auto check = own_check.load(std::memory_order_relaxed);
  if (check != 0 && check == (own.fingerprint ^ own.state ^ own.pus)) return own;
  return parse_note(setting_value("SMELT_HARDWARE"), *state);
}

}  // namespace

std::string hardware_note(const Machine& discovered) {
  const auto note = note_of(discovered);
  return note ? fmt::format("{:016x}@{:016x}@{:016x}", note->fingerprint, note->state, note->pus) : "";
}

void remember_hardware(const Machine& discovered) noexcept {
  try {
    const auto note = note_of(discovered);
    if (!note) return;
    own_fingerprint.store(note->fingerprint, std::memory_order_relaxed);
    own_pus.store(note->pus, std::memory_order_relaxed);
    own_check.store(note->fingerprint ^ note->state ^ note->pus, std::memory_order_relaxed);
  } catch (const std::exception&) {  // no memory: not noted
  }
}

std::string known_fingerprint() {
  const auto note = known();
  return note ? fmt::format("{:016x}", note->fingerprint) : "";
}

bool is_known_hardware(const Machine& model) {
  const auto note = known();
  return note && parse_hex(model.fingerprint) == note->fingerprint && hash_of_pus(model) == note->pus;
}

}  // namespace smelt
