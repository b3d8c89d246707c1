// Importer of the original research prototype's measurements: a directory with
//
//   *_send, *_receive, optionally *_rtt    "sender receiver mean stddev", one line per ordered
//                                          pair of PUs, in cycles; blank lines and # comments
//   *lscpu_parse                           `lscpu -p`: CPU,Core,Socket,Node,,L1d,L1i,L2,L3, or
//                                          with the caches in one field, L1d:L1i:L2:L3
//
// The machine has the PUs that were measured. If a NUMA node is not given, the package replaces it; if an L3 is not
// given, the NUMA node does. Without lscpu_parse the layout is unknown: every PU is a core of its own, and all are in
// one package, one NUMA node and under one L3.
//
// Files are read as people capture them. Names may end in .txt, .csv or .dat. The echoed command or a line of titles
// may precede the data, and a prompt may follow it. A column may be missing. A measurement that was not possible may be
// an empty file. A line among the data that is no data is an error.
//
// A number in a file never causes an allocation by itself: a machine of n PUs takes n * (n - 1) lines.
#include "machine/import/machinedb.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "base/error.hpp"
#include "machine/fingerprint.hpp"
#include "machine/import/importer.hpp"
#include "machine/limits.hpp"
#include "machine/text.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_line_bytes = 4096;

/// Misses that a core has under way: its line fill buffers, as for copies (docs/reference/model.md, Copies).
constexpr double misses_at_once = 12.0;

struct Sample {
  int sender, receiver;
  double cycles;
};

/// One of the three kinds of measurement.
struct Samples {
  std::string file;
  std::vector<Sample> lines;
};

Error line_error(const std::string& file, std::size_t line, const std::string& reason) {
  return make_error(Status::bad_format, "{}: line {}: {}", file, line, reason);
}

bool is_data(std::string_view text) {
  const char first = text.front();
  return (first >= '0' && first <= '9') || first == '-' || first == '.' || first == ',';
}

/// Passes the lines of a file that are data to `data` and the others to `other`, trimmed and with their numbers. Skips
/// empty lines. Comments may appear anywhere. Other lines, such as the shell's echo of the command, a line of titles or
/// a prompt, may appear before the first and after the last line of data.
template <class Data, class Other>
Result<void> read_lines(std::istream& stream, const std::string& file, const Data& data, const Other& other) {
  LineReader lines(stream, max_line_bytes);
  bool any = false;
  std::optional<Error> stranger;  // the first other line after data
  while (const auto line = lines.next()) {
    const auto text = trimmed(*line);
    if (text.empty()) continue;
    if (is_data(text)) {
      if (stranger) return *stranger;
      any = true;
      if (auto read = data(lines.line(), text); !read) return read;
      continue;
    }
    other(text);
    if (any && !stranger && text.front() != '#') {
      stranger = line_error(file, lines.line(), fmt::format("this is not data, but data follow: \"{}\"", shown(text)));
    }
  }
  if (lines.too_long()) return line_error(file, lines.line(), fmt::format("longer than {} bytes", max_line_bytes));
  if (lines.failed()) return make_error(Status::io_error, "{}: cannot read", file);
  return {};
}

/// Separated by commas or by blanks. "1 2 3,5 4" is neither.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  if (line.find(',') != std::string_view::npos) {
    for (const auto part : split(line, ',')) words.push_back(trimmed(part));
    return words;
  }
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

/// Several samples have a deviation. One sample may have none, or "nan". It is not used.
bool is_deviation(std::string_view text) {
  return text.empty() || text == "nan" || text == "-nan" || text == "-" || parse_number(text).has_value();
}

Result<Sample> parse_sample(const std::string& file, std::size_t line, std::string_view text) {
  const auto words = words_of(text);
  if (words.size() != 3 && words.size() != 4) return line_error(file, line, "must be: sender receiver mean [stddev]");
  const auto sender = parse_id(words[0]);
  const auto receiver = parse_id(words[1]);
  if (!sender || !receiver)
    return line_error(file, line, fmt::format("sender and receiver must be PU ids of 0..{}", max_id));
  const auto mean = parse_number(words[2]);
  if (!mean || *mean < 0.0 || *mean > max_cost_ns) {
    return line_error(file, line, fmt::format("mean must be 0..{} cycles", max_cost_ns));
  }
  if (words.size() == 4 && !is_deviation(words[3])) return line_error(file, line, "stddev must be a number");
  return Sample{*sender, *receiver, *mean};
}

Result<Samples> read_samples(const MachinedbFile& from) {
  Samples samples{from.name, {}};
  const auto read = read_lines(
      *from.stream, from.name,
      [&](std::size_t line, std::string_view text) -> Result<void> {
        auto sample = parse_sample(from.name, line, text);
        if (!sample) return sample.error();
        if (samples.lines.size() >= std::size_t{max_full_pus} * max_full_pus)
          return line_error(from.name, line, "too many pairs");
        samples.lines.push_back(*sample);
        return {};
      },
      [](std::string_view) {});
  if (!read) return read.error();
  return samples;
}

/// os_index of the PUs that a file names, ascending.
std::vector<int> pus_of(const Samples& samples) {
  std::vector<bool> named(max_id + 1);
  for (const auto& sample : samples.lines)
    named[static_cast<std::size_t>(sample.sender)] = named[static_cast<std::size_t>(sample.receiver)] = true;
  std::vector<int> pus;
  for (int pu = 0; pu <= max_id; ++pu) {
    if (named[static_cast<std::size_t>(pu)]) pus.push_back(pu);
  }
  return pus;
}

/// The PU or pair of `pus` that `samples` lacks. Called before anything as large as the machine is allocated.
Result<void> check_pairs(const Samples& samples, const std::vector<int>& pus) {
  const auto pairs = pus.size() * (pus.size() - 1);
  if (samples.lines.size() >= pairs) return {};
  std::set<std::pair<int, int>> given;
  for (const auto& sample : samples.lines) given.emplace(sample.sender, sample.receiver);
  for (const int sender : pus) {
    for (const int receiver : pus) {
      if (sender == receiver || given.contains({sender, receiver})) continue;
      return make_error(Status::bad_format, "{}: pair {} {} is missing", samples.file, sender, receiver);
    }
  }
  return {};
}

/// All ordered pairs of `pus`, in ns.
Result<Matrix> matrix_of(const Samples& samples, const std::vector<int>& pus, double ghz) {
  if (auto complete = check_pairs(samples, pus); !complete) return complete.error();
  std::vector<int> index(max_id + 1, -1);
  for (std::size_t i = 0; i < pus.size(); ++i) index[static_cast<std::size_t>(pus[i])] = static_cast<int>(i);
  Matrix cycles(pus.size(), std::nan(""));
  for (const auto& sample : samples.lines) {
    const int row = index[static_cast<std::size_t>(sample.sender)];
    const int column = index[static_cast<std::size_t>(sample.receiver)];
    if (row < 0 || column < 0) {
      return make_error(Status::bad_format, "{}: PU {} is not in the file of sends", samples.file,
                        row < 0 ? sample.sender : sample.receiver);
    }
    if (row == column) continue;  // a PU sends itself no message
    double& cell = cycles(static_cast<std::size_t>(row), static_cast<std::size_t>(column));
    if (!std::isnan(cell) && cell != sample.cycles) {
      return make_error(Status::bad_format, "{}: pair {} {} is given twice, with {} and {} cycles", samples.file,
                        sample.sender, sample.receiver, cell, sample.cycles);
    }
    cell = sample.cycles;
  }
  for (std::size_t i = 0; i < pus.size(); ++i) {
    cycles(i, i) = 0.0;
    for (std::size_t j = 0; j < pus.size(); ++j) {
      if (std::isnan(cycles(i, j))) {
        return make_error(Status::bad_format, "{}: pair {} {} is missing", samples.file, pus[i], pus[j]);
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

/// The ids of a PU in a line of lscpu; -1 for an id that is not there.
using Place = std::array<int, column_count>;

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

/// Where the fields are; -1 for a field that lscpu left out.
struct Header {
  std::array<int, column_count> field = {0, 1, 2, 3, 7, 8};

  /// Learns the columns from a line that names them, with or without a leading #. Ignores other lines.
  void read(std::string_view line) {
    if (line.front() == '#') line.remove_prefix(1);
    constexpr std::string_view wanted[] = {"cpu", "core", "socket", "node", "l2", "l3"};
    std::array<int, column_count> found;
    found.fill(-1);
    const auto names = split(line, ',');
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto name = lower_case(trimmed(names[i]));
      for (std::size_t column = 0; column < column_count; ++column) {
        if (name == wanted[column]) found[column] = static_cast<int>(i);
      }
    }
    if (found[cpu] >= 0) field = found;
  }
};

Result<Place> parse_place(const std::string& file, std::size_t line, std::string_view text, const Header& header) {
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
  if (place[cpu] < 0) return line_error(file, line, "the PU's id is missing");
  return place;
}

Result<std::map<int, Place>> read_places(const MachinedbFile& from) {
  std::map<int, Place> places;
  Header header;
  bool any = false;
  const auto read = read_lines(
      *from.stream, from.name,
      [&](std::size_t line, std::string_view text) -> Result<void> {
        auto place = parse_place(from.name, line, text, header);
        if (!place) return place.error();
        if (places.emplace((*place)[cpu], *place).second) return {};
        return line_error(from.name, line, fmt::format("PU {} is given twice", (*place)[cpu]));
      },
      [&](std::string_view text) {
        any = true;
        header.read(text);
      });
  if (!read) return read.error();
  if (any && places.empty()) {
    return make_error(Status::bad_format, "{}: lists no PU; it must hold what `lscpu --parse` prints", from.name);
  }
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

/// A core or cache lies in one package. If an id appears in several packages, the file counts ids per package.
void separate_packages(std::vector<Pu>& pus, int Pu::*id) {
  std::map<int, int> package_of;
  bool per_package = false;
  for (const auto& pu : pus) per_package |= package_of.emplace(pu.*id, pu.package).first->second != pu.package;
  if (!per_package) return;
  std::map<std::pair<int, int>, int> fresh;
  for (auto& pu : pus) {
    const int next = static_cast<int>(fresh.size());
    pu.*id = fresh.emplace(std::pair(pu.package, pu.*id), next).first->second;
  }
}

constexpr int beyond =
    max_id + 1;  ///< added to an id that stands in for one of another kind, to meet none of that kind

Result<void> place_pus(const MachinedbFile& from, const std::vector<int>& os_indices, Machine& machine) {
  for (std::size_t i = 0; i < os_indices.size(); ++i) {
    const int own = static_cast<int>(i);
    machine.pus.push_back({.os_index = os_indices[i], .core = own, .package = 0, .numa_node = 0, .l2 = own, .l3 = 0});
  }
  if (from.stream == nullptr) return {};
  auto places = read_places(from);
  if (!places) return places.error();
  if (places->empty()) return {};  // an empty file is no information
  for (auto& pu : machine.pus) {
    const auto found = places->find(pu.os_index);
    if (found == places->end()) {
      return make_error(Status::bad_format, "{}: says nothing of PU {}, which was measured", from.name, pu.os_index);
    }
    const auto& place = found->second;
    const auto either = [&](Column column, int otherwise) { return place[column] >= 0 ? place[column] : otherwise; };
    pu.core = either(core, beyond + pu.os_index);
    pu.package = either(socket, 0);
    pu.numa_node = either(node, pu.package);
    pu.l2 = either(l2, beyond + pu.core);
    pu.l3 = either(l3, beyond + pu.numa_node);
  }
  for (const auto id : {&Pu::core, &Pu::l2, &Pu::l3}) separate_packages(machine.pus, id);
  for (const auto id : {&Pu::core, &Pu::package, &Pu::l2, &Pu::l3}) make_dense(machine.pus, id);
  for (const int old : make_dense(machine.pus, &Pu::numa_node)) machine.numa_nodes.push_back({.os_index = old});
  return {};
}

/// The last component of the path that is a name.
std::string name_of(const fs::path& directory) {
  const auto path = directory.lexically_normal();
  const auto name = path.filename().empty() ? path.parent_path().filename() : path.filename();
  return name.empty() || name == "." ? "machinedb" : name.string();
}

/// What the averages of a batch hide, told by the round trips; docs/explanation/many-core-model.md says how and why.
///
/// A lone message takes half a round trip, in the mean of both directions, or what both sides are busy, if that is
/// more. What it takes besides being received is the time in which its line leaves the sender. The next line leaves
/// after it, so this is the gap between sends, although the store buffer hides it from the first of a batch. A receiver
/// has as many misses under way as it has line fill buffers, so that a message that waits is taken in that share of a
/// receive.
void derive_overlap(Machine& machine) {
  const std::size_t n = machine.size();
  const Matrix &send = machine.send_ns, &recv = machine.recv_ns, &rtt = *machine.rtt_ns;
  Matrix propagation(n), send_gap(n), recv_gap(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double busy = send(i, j) + recv(i, j);
      const double lone = std::max(busy, (rtt(i, j) + rtt(j, i)) / 4.0);
      propagation(i, j) = lone - busy;
      send_gap(i, j) = lone - recv(i, j);
      recv_gap(i, j) = recv(i, j) / misses_at_once;
    }
  }
  machine.propagation_ns = std::move(propagation);
  machine.send_gap_ns = std::move(send_gap);
  machine.recv_gap_ns = std::move(recv_gap);
}

Result<Machine> machine_of(const Samples& send, const Samples& receive, const Samples& rtt, const MachinedbFile& lscpu,
                           const std::string& name, double ghz) {
  const auto pus = pus_of(send);
  if (pus.size() > max_full_pus) {
    return make_error(Status::bad_format, "{}: {} PUs, but at most {} are supported", send.file, pus.size(),
                      max_full_pus);
  }
  Machine machine;
  if (auto placed = place_pus(lscpu, pus, machine); !placed) return placed.error();
  auto send_ns = matrix_of(send, pus, ghz);
  if (!send_ns) return send_ns.error();
  auto recv_ns = matrix_of(receive, pus, ghz);
  if (!recv_ns) return recv_ns.error();
  machine.send_ns = std::move(*send_ns);
  machine.recv_ns = std::move(*recv_ns);
  if (!rtt.lines.empty()) {
    auto rtt_ns = matrix_of(rtt, pus, ghz);
    if (!rtt_ns) return rtt_ns.error();
    machine.rtt_ns = std::move(*rtt_ns);
    derive_overlap(machine);
  }
  machine.name = name;
  machine.method = "machinedb";
  machine.tsc_ghz = ghz == 1.0 ? 0.0 : ghz;  // 1.0: the clock is unknown
  machine.fingerprint = fingerprint_of(machine.name, machine);
  return machine;
}

/// The measurements of a file, if it exists. `required`: there must be some.
Result<Samples> samples_of(const MachinedbFile& file, bool required) {
  if (file.stream == nullptr) return Samples{};
  auto samples = read_samples(file);
  if (samples && samples->lines.empty() && required) {
    return make_error(Status::bad_format, "{}: holds no measurements", file.name);
  }
  return samples;
}

// ---- files --------------------------------------------------------------------------------

/// Whether a name ends in `suffix`, optionally followed by the ending of a text file. Names that begin with a dot
/// belong to systems that keep their own files beside others.
bool has_suffix(std::string_view name, std::string_view suffix) {
  if (name.starts_with('.')) return false;
  for (const std::string_view ending : {".txt", ".csv", ".dat"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  return name.ends_with(suffix);
}

/// The one file of the directory whose name ends in `suffix`; an empty path if there is none.
Result<fs::path> find_file(const fs::path& directory, std::string_view suffix) {
  fs::path found;
  std::error_code problem;
  for (fs::directory_iterator entry(directory, problem), end; !problem && entry != end; entry.increment(problem)) {
    const auto name = entry->path().filename().string();
    std::error_code ignored;
    if (!has_suffix(name, suffix) || !entry->is_regular_file(ignored)) continue;
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

class OpenFile {
 public:
  /// `file` may be empty.
  explicit OpenFile(const fs::path& file) : name_(file.string()) {
    if (!file.empty()) stream_.open(file, std::ios::binary);
  }
  bool good() const { return name_.empty() || stream_.is_open(); }
  MachinedbFile get() { return {name_, name_.empty() ? nullptr : &stream_}; }

 private:
  std::string name_;
  std::ifstream stream_;
};

/// The directory with the measurements of one machine: `directory` itself, or the only directory of a machine below it.
Result<fs::path> directory_of_machine(const fs::path& directory) {
  auto file = find_file(directory, "_send");
  if (!file) return file.error();
  if (!file->empty()) return directory;
  std::vector<std::string> machines;
  std::error_code problem;
  for (fs::directory_iterator entry(directory, problem), end; !problem && entry != end; entry.increment(problem)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) continue;
    const auto below = find_file(entry->path(), "_send");
    if (below && !below->empty()) machines.push_back(entry->path().filename().string());
  }
  std::sort(machines.begin(), machines.end());
  if (machines.size() == 1) return directory / machines.front();
  if (machines.empty()) {
    return make_error(Status::not_found, "{}: no file whose name ends in _send", directory.string());
  }
  return make_error(Status::invalid_argument, "{}: holds {} machines, {} to {}; name the directory of one",
                    directory.string(), machines.size(), machines.front(), machines.back());
}

Result<Machine> import_directory(const fs::path& named, double ghz) {
  const auto found = directory_of_machine(named);
  if (!found) return found.error();
  const auto& directory = *found;
  const std::pair<const char*, bool> wanted[] = {
      {"_send", true}, {"_receive", true}, {"_rtt", false}, {"lscpu_parse", false}};
  std::vector<OpenFile> files;
  for (const auto& [suffix, required] : wanted) {
    auto file = find_file(directory, suffix);
    if (!file) return file.error();
    if (file->empty() && required) {
      return make_error(Status::not_found, "{}: no file whose name ends in {}", directory.string(), suffix);
    }
    files.emplace_back(*file);
    if (!files.back().good()) return make_error(Status::io_error, "{}: cannot open", file->string());
  }
  return parse_machinedb({files[0].get(), files[1].get(), files[2].get(), files[3].get()}, name_of(directory), ghz);
}

}  // namespace

Result<Machine> parse_machinedb(const MachinedbFiles& files, const std::string& name, double ghz) {
  if (!(ghz > 0.0 && ghz <= max_ghz)) {
    return make_error(Status::invalid_argument, "ghz: must be more than 0 and at most {}, is {}", max_ghz, ghz);
  }
  try {
    auto send = samples_of(files.send, true);
    if (!send) return send.error();
    auto receive = samples_of(files.receive, true);
    if (!receive) return receive.error();
    auto rtt = samples_of(files.rtt, false);
    if (!rtt) return rtt.error();
    return machine_of(*send, *receive, *rtt, files.lscpu, name, ghz);
  } catch (const std::exception& problem) {
    return make_error(Status::out_of_memory, "{}: cannot import: {}", name, problem.what());
  }
}

const Importer formats::machinedb = {
    .info = {.name = "machinedb",
             .content = "directory with files ending in _send, _receive and _rtt (sender receiver mean stddev,\n"
                        "in cycles) and lscpu_parse.txt",
             .directory = true,
             .uses_send_share = false,
             .uses_ghz = true},
    .read = [](const fs::path& directory,
               const ImportOptions& options) { return import_machinedb(directory, options.ghz); },
};

Result<Machine> import_machinedb(const fs::path& directory, double ghz) {
  try {
    return import_directory(directory, ghz);
  } catch (const std::exception& problem) {
    return make_error(Status::out_of_memory, "{}: cannot import: {}", directory.string(), problem.what());
  }
}

}  // namespace smelt
