// Reading the small text files of /proc and /sys, and lists of ids such as "0-3,8".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt {

/// The content of a text file of at most 16 MiB; nothing if it is not there or not readable.
std::optional<std::string> read_small_file(const std::filesystem::path& file);

/// "0-3,8" -> {0, 1, 2, 3, 8}, ascending, without duplicates; blanks and a final newline are
/// ignored; nothing if the text is anything else or names ids above limits' max_id.
std::optional<std::vector<int>> parse_id_list(std::string_view text);

/// The text without blanks, tabs, carriage returns and newlines at both ends.
std::string_view trimmed(std::string_view text);

/// The parts between separators; one (maybe empty) part for a text without any.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace smelt
