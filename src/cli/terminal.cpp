#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/command.hpp"

namespace smelt::cli {
namespace {

bool has_value(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

std::string_view value_of(const char* name) { return has_value(name) ? std::getenv(name) : ""; }

int columns_of(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return std::clamp<int>(size.ws_col, 40, 400);
  const int wanted = has_value("COLUMNS") ? std::atoi(std::getenv("COLUMNS")) : 0;
  return wanted > 0 ? std::clamp(wanted, 40, 400) : 100;
}

Screen inspect_stdout() {
  Screen result;
  result.terminal = isatty(STDOUT_FILENO) == 1;
  result.colour = result.terminal && !has_value("NO_COLOR") && value_of("TERM") != "dumb";
  const auto depth = value_of("COLORTERM");
  result.true_colour = depth == "truecolor" || depth == "24bit";
  result.columns = columns_of(STDOUT_FILENO);
  return result;
}

// The nearest colour of the 6 x 6 x 6 cube.
int cube_index(Colour colour) {
  const auto level = [](int value) { return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40; };
  return 16 + 36 * level(colour.red) + 6 * level(colour.green) + level(colour.blue);
}

std::string colour_sequence(int kind, Colour colour) {
  if (!screen().colour) return {};
  if (screen().true_colour) return fmt::format("\x1b[{};2;{};{};{}m", kind, colour.red, colour.green, colour.blue);
  return fmt::format("\x1b[{};5;{}m", kind, cube_index(colour));
}

void check_written(bool good) {
  if (good) return;
  if (errno == EPIPE) throw OutputClosed{};
  fail("standard output: cannot write: {}", std::strerror(errno));
}

}  // namespace

const Screen& screen() {
  static const Screen value = inspect_stdout();
  return value;
}

void print(std::string_view text) {
  errno = 0;
  check_written(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

void flush_output() {
  errno = 0;
  check_written(std::fflush(stdout) == 0);
}

void print_error(std::string_view text) {
  std::string line = "smelt: ";
  for (const char c : text) {
    const bool printable = static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
    if (printable || (c == '\n' && line.back() != ' ')) line += printable ? c : ' ';
  }
  while (line.back() == ' ') line.pop_back();
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string styled(Style style, std::string_view text) {
  if (!screen().colour || style == Style::plain) return std::string(text);
  const char* code = "0";
  switch (style) {
    case Style::plain: break;
    case Style::title: code = "1;36"; break;
    case Style::strong: code = "1"; break;
    case Style::faint: code = "2"; break;
    case Style::good: code = "32"; break;
    case Style::warn: code = "33"; break;
    case Style::bad: code = "31"; break;
    case Style::accent: code = "36"; break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

Colour heat_colour(double heat) {
  static constexpr Colour stops[] = {{52, 16, 96},   {62, 74, 137},  {38, 130, 142},
                                     {53, 183, 121}, {170, 220, 50}, {253, 231, 37}};
  constexpr int last = static_cast<int>(std::size(stops)) - 1;
  const double position = std::clamp(heat, 0.0, 1.0) * last;
  const int below = std::min(static_cast<int>(position), last - 1);
  const double part = position - below;
  const auto mix = [&](int from, int to) { return static_cast<int>(std::lround(from + (to - from) * part)); };
  const Colour &a = stops[below], &b = stops[below + 1];
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

std::string foreground(Colour colour) { return colour_sequence(38, colour); }
std::string background(Colour colour) { return colour_sequence(48, colour); }
std::string reset_colour() { return screen().colour ? "\x1b[0m" : ""; }

std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t used = text_width(text);
  return std::string(text) + std::string(width > used ? width - used : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t used = text_width(text);
  return std::string(width > used ? width - used : 0, ' ') + std::string(text);
}

std::string repeat(std::string_view text, std::size_t times) {
  std::string result;
  while (times-- > 0) result += text;
  return result;
}

std::string format_time(double ns) {
  if (!std::isfinite(ns)) return "?";
  if (ns < 100) return fmt::format("{:.1f} ns", ns);
  if (ns < 9999.5) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.1f} µs", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.1f} s", ns / 1e9);
}

std::string format_bytes(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return bytes == std::floor(bytes) ? fmt::format("{:.0f} {}", bytes, units[unit])
                                    : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string index_ranges(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  std::string result;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i + 1;
    while (end < values.size() && values[end] == values[end - 1] + 1) ++end;
    if (!result.empty()) result += ',';
    result += end - i > 1 ? fmt::format("{}-{}", values[i], values[end - 1]) : fmt::format("{}", values[i]);
    i = end;
  }
  return result;
}

std::string first_lines(const std::string& text, std::size_t most) {
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  if (lines <= most + 1) return text;
  std::size_t end = 0;
  for (std::size_t line = 0; line < most; ++line) end = text.find('\n', end) + 1;
  return text.substr(0, end) +
         styled(Style::faint, fmt::format("  ... {} more lines: --all prints them\n", lines - most));
}

std::string bar(double fraction, std::size_t cells) {
  static constexpr const char* parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clean = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  const auto eighths = static_cast<std::size_t>(std::lround(clean * static_cast<double>(cells) * 8));
  return repeat("█", eighths / 8) + parts[eighths % 8];
}

void Table::header(const std::vector<std::string>& names) {
  std::vector<Cell> cells;
  for (const auto& name : names) cells.emplace_back(name, Style::faint);
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(alignment_.size());
  for (const auto& cells : rows_) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], text_width(cells[i].text));
  }
  std::string result;
  for (const auto& cells : rows_) {
    std::string line(indent_, ' ');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const bool last = i + 1 == cells.size();
      const auto& [text, style] = cells[i];
      if (alignment_[i] == 'r') {
        line += std::string(widths[i] - text_width(text), ' ') + styled(style, text);
      } else {
        line += styled(style, text) + std::string(last ? 0 : widths[i] - text_width(text), ' ');
      }
      if (!last) line += "  ";
    }
    while (line.ends_with(' ')) line.pop_back();
    result += line + '\n';
  }
  return result;
}

ProgressBar::ProgressBar() {
  visible_ = isatty(STDERR_FILENO) == 1 && value_of("TERM") != "dumb";
  if (visible_) columns_ = static_cast<std::size_t>(columns_of(STDERR_FILENO));
}

void ProgressBar::update(const std::string& phase, double fraction, double eta_s) {
  if (!visible_) return;
  const double done = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  const std::string tail = eta_s < 0 || !std::isfinite(eta_s)
                               ? fmt::format(" {:3.0f} %", done * 100)
                               : fmt::format(" {:3.0f} %  {:.0f} s left", done * 100, eta_s);
  constexpr std::size_t cells = 28;
  const std::size_t room = columns_ - std::min(columns_, cells + tail.size() + 6);
  const std::string head = pad_right(phase.substr(0, room), std::min<std::size_t>(room, 24));
  const std::string filled = bar(done, cells);
  const bool colour = !has_value("NO_COLOR");
  fmt::print(stderr, "\r\x1b[K{} {}{}{}{}{}", head, colour ? "\x1b[36m" : "", filled,
             repeat("░", cells - text_width(filled)), colour ? "\x1b[0m" : "", tail);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) {
    std::fputs("\r\x1b[K", stderr);
    std::fflush(stderr);
  }
  drawn_ = false;
}

}  // namespace smelt::cli
