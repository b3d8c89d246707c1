// Importer of the output of Intel's Memory Latency Checker.
//
//   Measuring idle latencies for random access (in ns)...
//                   Numa node
//   Numa node            0       1        columns: NUMA nodes of the memory
//          0          81.2   139.5        rows: NUMA nodes of the PUs
//          1         140.1    81.0
//   ...
//   Measuring Memory Bandwidths between nodes within system
//   Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)
//   ...                                   the same table
//
// Everything else is skipped. "-" is a pair that was not measured.
#include <vector>

#include "base/error.hpp"
#include "machine/import/memory_figures.hpp"
#include "machine/text.hpp"

namespace smelt {
namespace {

constexpr std::size_t max_line_bytes = 1 << 16;
constexpr double mb_per_gb = 1000.0;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    const auto end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

class MlcReader {
 public:
  MlcReader(std::istream& text, const Machine& machine, const std::string& origin)
      : lines_(text, max_line_bytes), figures_(machine), origin_(origin) {}

  Result<Machine> read() {
    while (const auto line = lines_.next()) {
      if (auto taken = take(*line); !taken) return taken.error();
    }
    if (lines_.failed()) return make_error(Status::io_error, "{}: cannot read", origin_);
    if (lines_.too_long()) return fail(fmt::format("longer than {} bytes", max_line_bytes));
    if (!figures_.any()) {
      return make_error(Status::bad_format,
                        "{}: neither a table of idle latencies nor one of bandwidths between nodes, as Intel's mlc "
                        "prints them, and no HMAT",
                        origin_);
    }
    return std::move(figures_).finish();
  }

 private:
  enum class Table { none, latencies, bandwidths };

  Error fail(const std::string& reason) const {
    return make_error(Status::bad_format, "{}: line {}: {}", origin_, lines_.line(), reason);
  }

  Result<void> take(std::string_view line) {
    if (line.find("idle latencies") != std::string_view::npos) return begin(Table::latencies);
    if (line.find("Bandwidths between nodes") != std::string_view::npos) return begin(Table::bandwidths);
    if (table_ == Table::none) return {};
    const auto words = words_of(line);
    if (words.size() >= 2 && words[0] == "Numa" && words[1] == "node") return take_header(words);
    if (columns_.empty()) return {};
    // What begins with no number comes after the table.
    const auto row = words.empty() ? std::nullopt : parse_number(words[0]);
    if (!row) return begin(Table::none);
    return take_row(*row, words);
  }

  Result<void> begin(Table table) {
    table_ = table;
    columns_.clear();
    return {};
  }

  Result<std::size_t> node(std::string_view word) const {
    const auto number = parse_number(word);
    const int found = number ? figures_.node(*number) : -1;
    if (found >= 0) return static_cast<std::size_t>(found);
    return fail(fmt::format("'{}' is no NUMA node of the machine", shown(word)));
  }

  Result<void> take_header(const std::vector<std::string_view>& words) {
    for (std::size_t i = 2; i < words.size(); ++i) {
      auto column = node(words[i]);
      if (!column) return column.error();
      columns_.push_back(*column);
    }
    return {};
  }

  Result<void> take_row(double number, const std::vector<std::string_view>& words) {
    const auto row = node(words[0]);
    if (!row) return row.error();
    if (words.size() != columns_.size() + 1) {
      return fail(fmt::format("{} values for node {}, but {} columns", words.size() - 1, number, columns_.size()));
    }
    auto& costs = figures_.costs();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (words[i + 1] == "-") continue;
      const auto value = parse_number(words[i + 1]);
      const bool sane = value && (table_ == Table::latencies ? figures_.put_latency(*row, columns_[i], *value)
                                                             : figures_.put_bandwidth(costs.read_all_gbs, *row,
                                                                                      columns_[i], *value / mb_per_gb));
      if (!sane) return fail(fmt::format("'{}' is no figure of memory", shown(words[i + 1])));
    }
    return {};
  }

  LineReader lines_;
  MemoryFigures figures_;
  const std::string& origin_;
  Table table_ = Table::none;
  std::vector<std::size_t> columns_;
};

}  // namespace

Result<Machine> parse_mlc(std::istream& text, const Machine& machine, const std::string& origin) {
  return MlcReader(text, machine, origin).read();
}

}  // namespace smelt
