// Importer of core-to-core latency tables.
//
//   ,,              row i, column j < i: one-way latency between PU i and PU j, in ns
//   17.7,,          diagonal and upper triangle: empty
//   19.1,17.5,
//
// Full tables are read as well: a number above the diagonal is the latency of that direction. The
// diagonal is not used. There is no topology in the file: clusters.cpp infers it.
//
// What programs make of such a table is the same table: semicolons (then numbers may have decimal commas) or tabs for
// commas, quoted fields, # comments, a first row and a first column with the numbers of the PUs.
#include "machine/import/core_to_core.hpp"

#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "machine/import/importer.hpp"
#include "machine/limits.hpp"
#include "machine/text.hpp"

namespace smelt {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{max_full_pus} * 64;

/// Whether a field is the title of row or column `index`: "3", "cpu3", "Core 3".
bool is_title(std::string_view field, std::size_t index) {
  const auto digits = field.find_first_of("0123456789");
  if (digits == std::string_view::npos || field.find_first_of(".,-+") < digits) return false;
  return field.substr(digits) == fmt::format("{}", index);
}

/// Reads the table cell by cell; NaN where a cell is empty.
class TableReader {
 public:
  TableReader(std::istream& csv, const std::string& origin) : lines_(csv, max_line_bytes), origin_(origin) {}

  Result<Matrix> read() {
    std::vector<double> cells;
    while (const auto line = lines_.next()) {
      if (is_between_rows(*line)) continue;
      if (rows_ == width_ && width_ != 0)
        return fail(0, fmt::format("more rows than the first row has fields ({})", width_));
      const auto fields = fields_of(*line);
      if (width_ == 0 && !titled_ && has_titles(fields)) {
        titled_ = true;
        continue;
      }
      if (auto row = read_row(fields, cells); !row) return row.error();
    }
    if (lines_.too_long()) return fail(0, fmt::format("longer than {} bytes; not a latency table", max_line_bytes));
    if (lines_.failed()) return make_error(Status::io_error, "{}: cannot read", origin_);
    if (rows_ == 0) return make_error(Status::bad_format, "{}: the file is empty", origin_);
    if (rows_ != width_) {
      return fail(0, fmt::format("the table ends after {} rows, but its rows have {} fields", rows_, width_));
    }
    return Matrix(width_, std::move(cells));
  }

 private:
  Error fail(std::size_t column, const std::string& reason) const {
    const auto place = column == 0 ? std::string() : fmt::format(", column {}", column);
    return make_error(Status::bad_format, "{}: line {}{}: {}", origin_, lines_.line(), place, reason);
  }

  /// Comments, and empty lines but between rows. Tabs alone are a row of empty fields.
  bool is_between_rows(std::string_view line) const {
    if (line.starts_with('#')) return true;
    const bool outside = rows_ == 0 || rows_ == width_;
    return outside && trimmed(line).empty() && (rows_ != 0 || line.find('\t') == std::string_view::npos);
  }

  std::vector<std::string_view> fields_of(std::string_view line) {
    if (separator_ == 0) {
      separator_ = ',';
      if (line.find(',') == std::string_view::npos && line.find('\t') != std::string_view::npos) separator_ = '\t';
      if (line.find(';') != std::string_view::npos) separator_ = ';';
    }
    auto fields = split(line, separator_);
    for (auto& field : fields) {
      field = trimmed(field);
      if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
        field = trimmed(field.substr(1, field.size() - 2));
    }
    return fields;
  }

  /// A corner, and then the numbers of two PUs or more: no row of latencies begins like that.
  static bool has_titles(const std::vector<std::string_view>& fields) {
    if (fields.size() < 3 || parse_number(fields.front())) return false;
    for (std::size_t i = 1; i < fields.size(); ++i) {
      if (!is_title(fields[i], i - 1)) return false;
    }
    return true;
  }

  Result<void> read_row(std::vector<std::string_view> fields, std::vector<double>& cells) {
    const std::size_t shift = titled_ ? 2 : 1;  // from the index of a field to its column in the file
    if (titled_) {
      if (!is_title(fields.front(), rows_))
        return fail(1, fmt::format("must be the title of PU {}, is \"{}\"", rows_, shown(fields.front())));
      fields.erase(fields.begin());
    }
    if (rows_ == 0) width_ = fields.size();
    if (width_ == 0 || width_ > max_full_pus)
      return fail(0, fmt::format("{} fields, but a table has 1 to {}", fields.size(), max_full_pus));
    for (std::size_t column = 0; column < fields.size(); ++column) {
      if (column >= width_) return fail(column + shift, fmt::format("more fields than the first row's {}", width_));
      auto value = read_field(fields[column], column, shift);
      if (!value) return value.error();
      cells.push_back(*value);
    }
    if (fields.size() != width_)
      return fail(0, fmt::format("{} fields, but the first row has {}", fields.size(), width_));
    ++rows_;
    return {};
  }

  Result<double> read_field(std::string_view field, std::size_t column, std::size_t shift) const {
    if (field.empty()) {
      if (column < rows_) return fail(column + shift, "no latency; the lower triangle must be complete");
      return std::nan("");
    }
    std::string text(field);
    if (const auto comma = text.find(','); comma != std::string::npos) text[comma] = '.';  // no separator here
    const auto value = parse_number(text);
    if (!value || *value < 0.0 || *value > max_cost_ns) {
      return fail(column + shift, fmt::format("must be a latency of 0..{} ns, is \"{}\"", max_cost_ns, shown(field)));
    }
    return *value;
  }

  LineReader lines_;
  const std::string& origin_;
  char separator_ = 0;   ///< known from the first row on
  bool titled_ = false;  ///< first row and first column are titles
  std::size_t rows_ = 0;
  std::size_t width_ = 0;
};

/// Directions that the table leaves out are those of the lower triangle.
void complete(Matrix& table) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    table(i, i) = 0.0;
    for (std::size_t j = 0; j < i; ++j) {
      if (std::isnan(table(j, i))) table(j, i) = table(i, j);
    }
  }
}

std::vector<int> counted_up(std::size_t pus) {
  std::vector<int> numbers(pus);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

Result<Machine> parse_core_to_core(std::istream& csv, const std::string& origin, double send_share) {
  if (!(send_share >= 0.0 && send_share <= 1.0)) {
    return make_error(Status::invalid_argument, "send share: must be 0..1, is {}", send_share);
  }
  try {
    auto table = TableReader(csv, origin).read();
    if (!table) return table.error();
    complete(*table);
    return machine_of_latencies(*table, std::filesystem::path(origin).stem().string(), "core-to-core",
                                counted_up(table->size()), send_share);
  } catch (const std::exception& problem) {
    return make_error(Status::out_of_memory, "{}: cannot import: {}", origin, problem.what());
  }
}

const Importer formats::core_to_core = {
    .info = {.name = "core-to-core",
             .content = "CSV, n rows of n fields, lower triangle = one-way latency in ns",
             .directory = false,
             .uses_send_share = true,
             .uses_ghz = false},
    .parse = [](std::istream& file, const std::string& origin,
                const ImportOptions& options) { return parse_core_to_core(file, origin, options.send_share); },
    .sample = ",,,\n30,,,\n110,110.5,,\n110,110,30,\n",
};

Result<Machine> import_core_to_core(const std::filesystem::path& csv, double send_share) {
  return import_machine(csv, {.format = "core-to-core", .send_share = send_share});
}

}  // namespace smelt
