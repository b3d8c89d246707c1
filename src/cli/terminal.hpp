// Text output: properties of stdout, colour, widths, tables, the progress bar.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::cli {

/// Properties of stdout.
struct Screen {
  bool terminal = false;
  bool colour = false;       ///< a terminal, and neither NO_COLOR nor TERM=dumb
  bool true_colour = false;  ///< 24 bits, by COLORTERM; 256 colours otherwise
  int columns = 100;
};
const Screen& screen();

/// Thrown when the reader of stdout is gone (`smelt show | head`): the command stops without an error.
struct OutputClosed {};

/// Writes to stdout. Throws OutputClosed on a closed pipe, Failure if writing fails.
void print(std::string_view text);
void flush_output();

/// One line on stderr, "smelt: <text>", made printable.
void print_error(std::string_view text);

enum class Style { plain, title, strong, faint, good, warn, bad, accent };

/// The text in that style, or unchanged if stdout has no colour.
std::string styled(Style style, std::string_view text);

struct Colour {
  int red, green, blue;
};
/// From dark violet (0) to bright yellow (1), with evenly increasing lightness.
Colour heat_colour(double heat);
std::string foreground(Colour colour);
std::string background(Colour colour);
std::string reset_colour();

/// The number of columns of a text: code points, not bytes. Without escape sequences.
std::size_t text_width(std::string_view text);
std::string pad_right(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);
std::string repeat(std::string_view text, std::size_t times);

/// "812 ns", "3.41 µs", "27.0 ms".
std::string format_time(double ns);
/// "64.0 GiB".
std::string format_bytes(double bytes);
/// {0,1,2,3,9} -> "0-3,9".
std::string index_ranges(std::vector<int> values);
/// The first lines of a text, followed by the number of omitted lines and the option that prints them.
std::string first_lines(const std::string& text, std::size_t most);
/// A bar of `cells` columns, filled from the left to `fraction`, to an eighth of a column.
std::string bar(double fraction, std::size_t cells);

/// Rows of cells in columns as wide as their widest cell.
class Table {
 public:
  struct Cell {
    Cell(std::string text, Style style = Style::plain) : text(std::move(text)), style(style) {}
    Cell(const char* text, Style style = Style::plain) : text(text), style(style) {}
    std::string text;
    Style style;
  };

  /// One letter per column: 'l' left, 'r' right aligned.
  explicit Table(std::string alignment, std::size_t indent = 2) : alignment_(std::move(alignment)), indent_(indent) {}

  void header(const std::vector<std::string>& names);
  void row(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;

 private:
  std::string alignment_;
  std::size_t indent_;
  std::vector<std::vector<Cell>> rows_;
};

/// One line on stderr that is redrawn; no output if stderr is no terminal.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// eta_s < 0: unknown.
  void update(const std::string& phase, double fraction, double eta_s);
  void clear();

 private:
  bool visible_ = false;
  bool drawn_ = false;
  std::size_t columns_ = 80;
};

}  // namespace smelt::cli
