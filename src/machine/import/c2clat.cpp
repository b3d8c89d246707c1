// Importer of what c2clat prints (https://github.com/rigtorp/c2clat).
//
//    CPU    0    2    4       the numbers of the PUs
//      0    0   26   71       row i, column j: one-way latency between them, in ns; the diagonal is not used
//      2   26    0   70
//      4   71   70    0
//
// `c2clat -p` prints the same table among commands of gnuplot: lines before the header and after the last row are
// ignored. There is no topology in the file; clusters.cpp infers it.
#include <algorithm>

#include "base/error.hpp"
#include "machine/import/importer.hpp"
#include "machine/limits.hpp"
#include "machine/text.hpp"

namespace smelt {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{max_full_pus} * 64;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (const auto word : split(line, ' ')) {
    if (!trimmed(word).empty()) words.push_back(trimmed(word));
  }
  return words;
}

/// The number of a PU; nothing if the text is anything else.
std::optional<int> pu_number(std::string_view text) {
  const auto ids = parse_id_list(text);
  if (!ids || ids->size() != 1) return {};
  return ids->front();
}

/// The numbers of the PUs in a header; empty if the line is none.
std::vector<int> header_of(std::string_view line) {
  const auto words = words_of(line);
  std::vector<int> pus;
  if (words.empty() || words.front() != "CPU") return {};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto number = pu_number(words[i]);
    if (!number) return {};
    pus.push_back(*number);
  }
  return pus;
}

bool recognizes(std::string_view beginning) {
  const auto lines = split(beginning, '\n');
  return std::any_of(lines.begin(), lines.end(), [](std::string_view line) { return !header_of(line).empty(); });
}

class Reader {
 public:
  Reader(std::istream& file, const std::string& origin) : lines_(file, max_line_bytes), origin_(origin) {}

  Result<void> read() {
    while (pus_.empty()) {
      const auto line = lines_.next();
      if (!line) return fail("there is no line \"CPU\" with the numbers of the PUs");
      pus_ = header_of(*line);
    }
    auto sorted = pus_;
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
      return fail(fmt::format("PU {} is given twice", *twice));
    if (pus_.size() > max_full_pus)
      return fail(fmt::format("{} PUs, but a table has 1 to {}", pus_.size(), max_full_pus));
    latency_ = Matrix(pus_.size());
    for (std::size_t row = 0; row < pus_.size(); ++row) {
      const auto line = lines_.next();
      if (!line) return fail(fmt::format("the table ends after {} of {} rows", row, pus_.size()));
      if (auto good = read_row(row, words_of(*line)); !good) return good.error();
    }
    return {};
  }

  const std::vector<int>& pus() const { return pus_; }
  const Matrix& latency_ns() const { return latency_; }

 private:
  Error fail(const std::string& reason) const {
    return make_error(Status::bad_format, "{}: line {}: {}", origin_, lines_.line(), reason);
  }

  Result<void> read_row(std::size_t row, const std::vector<std::string_view>& words) {
    if (words.size() != pus_.size() + 1 || pu_number(words.front()) != pus_[row])
      return fail(fmt::format("must be PU {} and {} latencies", pus_[row], pus_.size()));
    for (std::size_t column = 0; column < pus_.size(); ++column) {
      const auto value = parse_number(words[column + 1]);
      if (!value || *value < 0.0 || *value > max_cost_ns)
        return fail(fmt::format("the latency to PU {} must be 0..{} ns", pus_[column], max_cost_ns));
      latency_(row, column) = *value;
    }
    return {};
  }

  LineReader lines_;
  const std::string& origin_;
  std::vector<int> pus_;
  Matrix latency_;
};

Result<Machine> parse(std::istream& file, const std::string& origin, const ImportOptions& options) {
  Reader table(file, origin);
  if (auto good = table.read(); !good) return good.error();
  return machine_of_latencies(table.latency_ns(), std::filesystem::path(origin).stem().string(), "c2clat", table.pus(),
                              options.send_share);
}

}  // namespace

const Importer formats::c2clat = {
    .info = {.name = "c2clat",
             .content = "what c2clat prints, one-way latencies in ns",
             .directory = false,
             .uses_send_share = true,
             .uses_ghz = false},
    .recognizes = recognizes,
    .parse = parse,
    .sample =
        " CPU    0    2    4    6\n"
        "   0    0   26   71   72\n"
        "   2   26    0   70   71\n"
        "   4   71   70    0   25\n"
        "   6   72   71   25    0\n",
};

}  // namespace smelt
