// Importer of the original research prototype's measurements: a directory with
//
//   *_send, *_receive, optionally *_rtt    "sender receiver mean stddev", one line per ordered
//                                          pair of PUs, in cycles; blank lines and # comments
//   lscpu_parse.txt                        `lscpu -p`: CPU,Core,Socket,Node,,L1d,L1i,L2,L3, or
//                                          with the caches in one field, L1d:L1i:L2:L3
//
// The machine has the PUs that were measured. Where a NUMA node is not given it is the package,
// where an L3 is not given the NUMA node. Without lscpu_parse.txt nothing is known of the layout:
// every PU is a core of its own, and all are in one package, one NUMA node and under one L3.
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>

#include "base/error.hpp"
#include "machine/fingerprint.hpp"
#include "machine/limits.hpp"
#include "machine/text.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_line_bytes = 4096;

struct Sample {
  int sender, receiver;
  double cycles;
};

/// One of the three kinds of measurement.
struct Samples {
  fs::path file;
  std::vector<Sample> lines;
};

Error line_error(const fs::path& file, std::size_t line, const std::string& reason) {
  return make_error(Status::bad_format, "{}: line {}: {}", file.string(), line, reason);
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (auto word : split(line, ' ')) {
    for (auto part : split(word, '\t')) {
      if (!part.empty()) words.push_back(part);
    }
  }
  return words;
}

std::optional<int> parse_id(std::string_view text) {
  const auto value = parse_number(text);
  if (!value || *value < 0.0 || *value > max_id || *value != std::floor(*value)) return std::nullopt;
  return static_cast<int>(*value);
}

Result<Sample> parse_sample(const fs::path& file, std::size_t line, std::string_view text) {
  const auto words = words_of(text);
  if (words.size() != 4) return line_error(file, line, "must be: sender receiver mean stddev");
  const auto sender = parse_id(words[0]);
  const auto receiver = parse_id(words[1]);
  if (!sender || !receiver) return line_error(file, line, fmt::format("sender and receiver must be PU ids of 0..{}", max_id));
  const auto mean = parse_number(words[2]);
  if (!mean || *mean < 0.0 || *mean > max_cost_ns) {
    return line_error(file, line, fmt::format("mean must be 0..{} cycles", max_cost_ns));
  }
  if (!parse_number(words[3])) return line_error(file, line, "stddev must be a number");
  return Sample{*sender, *receiver, *mean};
}

Result<Samples> read_samples(const fs::path& file) {
  Samples samples{file, {}};
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return make_error(Status::io_error, "{}: cannot open", file.string());
  LineReader lines(stream, max_line_bytes);
  while (const auto line = lines.next()) {
    const auto text = trimmed(*line);
    if (text.empty() || text.front() == '#') continue;
    auto sample = parse_sample(file, lines.line(), text);
    if (!sample) return sample.error();
    if (samples.lines.size() >= std::size_t{max_pus} * max_pus) return line_error(file, lines.line(), "too many pairs");
    samples.lines.push_back(*sample);
  }
  if (lines.too_long()) return line_error(file, lines.line(), fmt::format("longer than {} bytes", max_line_bytes));
  if (lines.failed()) return make_error(Status::io_error, "{}: cannot read", file.string());
  if (samples.lines.empty()) return make_error(Status::bad_format, "{}: holds no measurements", file.string());
  return samples;
}

/// The one file of the directory whose name ends in `suffix`; an empty path if there is none.
Result<fs::path> find_file(const fs::path& directory, std::string_view suffix) {
  fs::path found;
  std::error_code problem;
  for (fs::directory_iterator entry(directory, problem), end; !problem && entry != end; entry.increment(problem)) {
    const auto name = entry->path().filename().string();
    std::error_code ignored;
    if (!name.ends_with(suffix) || !entry->is_regular_file(ignored)) continue;
    if (!found.empty()) {
      return make_error(Status::bad_format, "{}: several files end in {}: {} and {}", directory.string(), suffix,
                        std::min(found.filename().string(), name), std::max(found.filename().string(), name));
    }
    found = entry->path();
  }
  if (problem) {
    const auto status = problem == std::errc::permission_denied ? Status::permission_denied : Status::not_found;
    return make_error(status, "{}: cannot read this directory: {}", directory.string(), problem.message());
  }
  return found;
}

Result<std::optional<Samples>> find_samples(const fs::path& directory, std::string_view suffix, bool required) {
  auto file = find_file(directory, suffix);
  if (!file) return file.error();
  if (file->empty()) {
    if (!required) return std::optional<Samples>();
    return make_error(Status::not_found, "{}: no file whose name ends in {}", directory.string(), suffix);
  }
  auto samples = read_samples(*file);
  if (!samples) return samples.error();
  return std::optional<Samples>(std::move(*samples));
}

/// os_index of the PUs that a file names, ascending.
std::vector<int> pus_of(const Samples& samples) {
  std::vector<bool> named(max_id + 1);
  for (const auto& sample : samples.lines) named[static_cast<std::size_t>(sample.sender)] = named[static_cast<std::size_t>(sample.receiver)] = true;
  std::vector<int> pus;
  for (int pu = 0; pu <= max_id; ++pu) {
    if (named[static_cast<std::size_t>(pu)]) pus.push_back(pu);
  }
  return pus;
}

/// All ordered pairs of `pus`, in ns.
Result<Matrix> matrix_of(const Samples& samples, const std::vector<int>& pus, double ghz) {
  std::vector<int> index(max_id + 1, -1);
  for (std::size_t i = 0; i < pus.size(); ++i) index[static_cast<std::size_t>(pus[i])] = static_cast<int>(i);
  Matrix cycles(pus.size(), std::nan(""));
  for (const auto& sample : samples.lines) {
    const int row = index[static_cast<std::size_t>(sample.sender)];
    const int column = index[static_cast<std::size_t>(sample.receiver)];
    if (row < 0 || column < 0) {
      return make_error(Status::bad_format, "{}: PU {} is not in the file of sends", samples.file.string(),
                        row < 0 ? sample.sender : sample.receiver);
    }
    if (row == column) continue;  // a PU to itself: no message
    double& cell = cycles(static_cast<std::size_t>(row), static_cast<std::size_t>(column));
    if (!std::isnan(cell) && cell != sample.cycles) {
      return make_error(Status::bad_format, "{}: pair {} {} is given twice, with {} and {} cycles",
                        samples.file.string(), sample.sender, sample.receiver, cell, sample.cycles);
    }
    cell = sample.cycles;
  }
  for (std::size_t i = 0; i < pus.size(); ++i) {
    cycles(i, i) = 0.0;
    for (std::size_t j = 0; j < pus.size(); ++j) {
      if (std::isnan(cycles(i, j))) {
        return make_error(Status::bad_format, "{}: pair {} {} is missing", samples.file.string(), pus[i], pus[j]);
      }
      cycles(i, j) /= ghz;
      if (cycles(i, j) > max_cost_ns) {
        return make_error(Status::invalid_argument, "{} GHz: makes pair {} {} slower than {} ns", ghz, pus[i], pus[j],
                          max_cost_ns);
      }
    }
  }
  return cycles;
}

// ---- layout -------------------------------------------------------------------------------

enum Column { cpu, core, socket, node, l2, l3, column_count };

/// What a line of lscpu says of a PU; -1 where it says nothing.
using Place = std::array<int, column_count>;

/// Where the fields are; -1 for a field that lscpu left out.
struct Header {
  std::array<int, column_count> field = {0, 1, 2, 3, 7, 8};
  int joined_caches = -1;  ///< of the field L1d:L1i:L2:L3

  void read(std::string_view comment) {
    const auto names = split(trimmed(comment.substr(1)), ',');
    if (names.empty() || trimmed(names.front()) != "CPU") return;  // another comment
    constexpr const char* wanted[] = {"CPU", "Core", "Socket", "Node", "L2", "L3"};
    field.fill(-1);
    joined_caches = -1;
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (int column = 0; column < column_count; ++column) {
        if (trimmed(names[i]) == wanted[column]) field[static_cast<std::size_t>(column)] = static_cast<int>(i);
      }
      if (names[i].find(':') != std::string_view::npos) joined_caches = static_cast<int>(i);
    }
  }
};

Result<Place> parse_place(const fs::path& file, std::size_t line, std::string_view text, const Header& header) {
  const auto fields = split(text, ',');
  Place place;
  place.fill(-1);
  const auto read = [&](int column, std::string_view value) {
    value = trimmed(value);
    if (value.empty() || value == "-") return true;
    const auto id = parse_id(value);
    if (id) place[static_cast<std::size_t>(column)] = *id;
    return id.has_value();
  };
  bool good = true;
  for (int column = 0; column < column_count; ++column) {
    const int where = header.field[static_cast<std::size_t>(column)];
    if (where >= 0 && where < static_cast<int>(fields.size())) {
      const auto value = fields[static_cast<std::size_t>(where)];
      if (value.find(':') == std::string_view::npos) good &= read(column, value);
    }
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto caches = split(fields[i], ':');
    if (caches.size() < 2) continue;
    if (caches.size() > 2) good &= read(l2, caches[2]);
    if (caches.size() > 3) good &= read(l3, caches[3]);
  }
  if (!good) return line_error(file, line, fmt::format("every field must be empty or an id of 0..{}", max_id));
  if (place[cpu] < 0) return line_error(file, line, "must start with the PU's id");
  return place;
}

Result<std::map<int, Place>> read_places(const fs::path& file) {
  std::map<int, Place> places;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return make_error(Status::io_error, "{}: cannot open", file.string());
  LineReader lines(stream, max_line_bytes);
  Header header;
  while (const auto line = lines.next()) {
    const auto text = trimmed(*line);
    if (text.empty()) continue;
    if (text.front() == '#') {
      header.read(text);
      continue;
    }
    auto place = parse_place(file, lines.line(), text, header);
    if (!place) return place.error();
    if (!places.emplace((*place)[cpu], *place).second) {
      return line_error(file, lines.line(), fmt::format("PU {} is given twice", (*place)[cpu]));
    }
  }
  if (lines.too_long()) return line_error(file, lines.line(), fmt::format("longer than {} bytes", max_line_bytes));
  return places;
}

/// Renumbers one id of all PUs to 0, 1, ... in ascending order; the old ids by new id.
std::vector<int> make_dense(std::vector<Pu>& pus, int Pu::*id) {
  std::map<int, int> fresh;
  for (const auto& pu : pus) fresh[pu.*id] = 0;
  std::vector<int> old;
  for (auto& [before, after] : fresh) {
    after = static_cast<int>(old.size());
    old.push_back(before);
  }
  for (auto& pu : pus) pu.*id = fresh[pu.*id];
  return old;
}

Result<void> place_pus(const fs::path& directory, const std::vector<int>& os_indices, Machine& machine) {
  for (std::size_t i = 0; i < os_indices.size(); ++i) {
    const int own = static_cast<int>(i);
    machine.pus.push_back({.os_index = os_indices[i], .core = own, .package = 0, .numa_node = 0, .l2 = own, .l3 = 0});
  }
  const auto file = directory / "lscpu_parse.txt";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  auto places = read_places(file);
  if (!places) return places.error();
  int unknown_core = max_id;  // given out from above, so that it meets no core of the file
  for (auto& pu : machine.pus) {
    const auto found = places->find(pu.os_index);
    if (found == places->end()) {
      return make_error(Status::bad_format, "{}: says nothing of PU {}, which was measured", file.string(), pu.os_index);
    }
    const auto& place = found->second;
    const auto either = [&](Column column, int otherwise) {
      const int id = place[column];
      return id >= 0 ? id : otherwise;
    };
    pu.core = place[core] >= 0 ? place[core] : unknown_core--;
    pu.package = either(socket, 0);
    pu.numa_node = either(node, pu.package);
    pu.l2 = either(l2, pu.core);
    pu.l3 = either(l3, pu.numa_node);
  }
  for (const auto id : {&Pu::core, &Pu::package, &Pu::l2, &Pu::l3}) make_dense(machine.pus, id);
  for (const int old : make_dense(machine.pus, &Pu::numa_node)) machine.numa_nodes.push_back({.os_index = old});
  return {};
}

/// The last part of the path that is a name.
std::string name_of(const fs::path& directory) {
  const auto path = directory.lexically_normal();
  const auto name = path.filename().empty() ? path.parent_path().filename() : path.filename();
  return name.empty() || name == "." ? "machinedb" : name.string();
}

Result<Machine> import_directory(const fs::path& directory, double ghz) {
  auto send = find_samples(directory, "_send", true);
  if (!send) return send.error();
  auto receive = find_samples(directory, "_receive", true);
  if (!receive) return receive.error();
  auto rtt = find_samples(directory, "_rtt", false);
  if (!rtt) return rtt.error();
  const auto pus = pus_of(**send);
  if (pus.size() > max_pus) {
    return make_error(Status::bad_format, "{}: {} PUs, but at most {} are supported", (*send)->file.string(),
                      pus.size(), max_pus);
  }
  Machine machine;
  if (auto placed = place_pus(directory, pus, machine); !placed) return placed.error();
  auto send_ns = matrix_of(**send, pus, ghz);
  if (!send_ns) return send_ns.error();
  auto recv_ns = matrix_of(**receive, pus, ghz);
  if (!recv_ns) return recv_ns.error();
  machine.send_ns = std::move(*send_ns);
  machine.recv_ns = std::move(*recv_ns);
  if (*rtt) {
    auto rtt_ns = matrix_of(**rtt, pus, ghz);
    if (!rtt_ns) return rtt_ns.error();
    machine.rtt_ns = std::move(*rtt_ns);
  }
  machine.name = name_of(directory);
  machine.method = "machinedb";
  machine.tsc_ghz = ghz == 1.0 ? 0.0 : ghz;  // 1.0 says that the clock is not known
  machine.fingerprint = fingerprint_of(machine.name, machine);
  return machine;
}

}  // namespace

Result<Machine> import_machinedb(const fs::path& directory, double ghz) {
  if (!(ghz > 0.0 && ghz <= max_ghz)) {
    return make_error(Status::invalid_argument, "ghz: must be more than 0 and at most {}, is {}", max_ghz, ghz);
  }
  try {
    return import_directory(directory, ghz);
  } catch (const std::exception& problem) {
    return make_error(Status::out_of_memory, "{}: cannot import: {}", directory.string(), problem.what());
  }
}

}  // namespace smelt
