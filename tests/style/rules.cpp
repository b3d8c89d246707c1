#include "rules.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace style {
namespace {

using Names = std::set<std::string>;

// What a room may include besides itself. capi may include anything above it; cli and bench see
// what a user sees (and the harness that both share); shims see the C interface alone.
const std::map<std::string, Names>& table() {
  static const std::map<std::string, Names> rooms = {
      {"base", {}},
      {"machine", {"base"}},
      {"plan", {"base", "machine"}},
      {"channel", {"base", "machine"}},
      {"measure", {"base", "machine", "channel", "plan", "comm"}},
      {"comm", {"base", "machine", "plan", "channel"}},
      {"tune", {"base", "machine", "plan", "channel", "comm", "measure"}},
      {"export", {"base", "machine", "plan"}},
      {"memory", {"base", "machine", "comm"}},
      {"state", {"base", "machine", "plan", "channel", "comm"}},
      {"graph", {"base", "memory"}},
      {"capi", {"base", "machine", "plan", "export", "channel", "measure", "comm", "tune", "memory", "state", "graph"}},
      {"cli", {"bench"}},
      {"shims", {}},
  };
  return rooms;
}

// What an inner room may include of its own room. "" stands for the files that are in none. Tests see the whole room.
const std::map<std::string, std::map<std::string, Names>>& inner_table() {
  static const std::map<std::string, std::map<std::string, Names>> rooms = {
      {"machine", {{"", {}}, {"topology", {""}}, {"model", {""}}, {"import", {"", "topology"}}}},
      {"plan",
       {{"", {"trees", "schedule", "algorithms", "simulator", "profile"}},
        {"trees", {}},
        {"schedule", {"trees"}},
        {"algorithms", {"schedule"}},
        {"simulator", {"trees", "schedule"}},
        {"profile", {}}}},
      {"comm", {{"", {}}, {"group", {""}}, {"collective", {"", "group"}}, {"fork_join", {""}}}},
      {"memory",
       {{"", {}}, {"choice", {}}, {"pages", {}}, {"copies", {"pages"}}, {"array", {"choice", "pages", "copies"}}}},
      {"state", {{"", {"model"}}, {"model", {""}}, {"log", {""}}, {"map", {""}}, {"over_ranks", {""}}}},
  };
  return rooms;
}

// Which room a public header belongs to.
std::string room_of_header(const std::string& name) {
  static const std::map<std::string, std::string> rooms = {
      {"error.hpp", "base"},       {"settings.hpp", "base"},
      {"machine.hpp", "machine"},  {"plan.hpp", "plan"},
      {"channel.hpp", "channel"},  {"floor.hpp", "base"},
      {"measure.hpp", "measure"},  {"communicator.hpp", "comm"},
      {"schedule.hpp", "plan"},    {"collective.hpp", "plan"},
      {"profile.hpp", "plan"},     {"export.hpp", "export"},
      {"tune.hpp", "tune"},        {"inspect.hpp", "comm"},
      {"exact_sum.hpp", "comm"},   {"map_algorithms.hpp", "state"},
      {"map_model.hpp", "state"},  {"replicated_log.hpp", "state"},
      {"map.hpp", "state"},        {"map_table.hpp", "state"},
      {"map_group.hpp", "state"},  {"log_model.hpp", "state"},
      {"smelt.h", "capi"},         {"former_names.h", "capi"},
      {"array.hpp", "memory"},     {"placement.hpp", "memory"},
      {"graph.hpp", "graph"},      {"graph_program.hpp", "graph"},
      {"green_marl.hpp", "graph"}, {"graph_algorithms.hpp", "graph"},
  };
  const auto found = rooms.find(name);
  return found == rooms.end() ? "" : found->second;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string trimmed(const std::string& line) {
  const auto first = line.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

std::string at(const File& file, std::size_t line) { return file.path + ":" + std::to_string(line + 1) + ": "; }

// The code of a line: without a trailing comment and without what stands in string literals.
std::string code_of(const std::string& line) {
  std::string code;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      if (line.compare(i, 2, "//") == 0) break;
      code += line[i];
    }
  }
  return code;
}

// The room that a file is in, "" for a file that the table does not speak of.
std::string room_of(const std::string& path) {
  if (starts_with(path, "include/smelt/")) return room_of_header(path.substr(14));
  static const std::regex in_room("src/([a-z]+)/.*");
  std::smatch match;
  return std::regex_match(path, match, in_room) ? match[1].str() : "";
}

// The inner room of "room/inner/file", "" for "room/file".
std::string inner_of(const std::string& path) {
  const auto first = path.find('/');
  const auto last = path.rfind('/');
  return first == last ? "" : path.substr(first + 1, last - first - 1);
}

bool is_test(const std::string& path) {
  return path.find("_test.") != std::string::npos || path.find("_test_util.") != std::string::npos;
}

Names inner_rooms(const std::string& room) {
  Names names;
  const auto rooms = inner_table().find(room);
  if (rooms == inner_table().end()) return names;
  for (const auto& [name, allowed] : rooms->second) {
    if (!name.empty()) names.insert(name);
  }
  return names;
}

// What is wrong with including `included`, "room/file" or "room/inner/file", in a file of the same room; "" for
// nothing.
std::string complaint_inside(const std::string& room, const std::string& path, const std::string& included) {
  const auto rooms = inner_table().find(room);
  const std::string from = inner_of(path.substr(std::string("src/").size())), to = inner_of(included);
  if (rooms == inner_table().end() || from == to || is_test(path)) return "";
  const auto entry = rooms->second.find(from);
  if (entry == rooms->second.end()) return room + "/" + from + " is not in the table of inner rooms";
  return entry->second.count(to) > 0 ? "" : room + "/" + from + " may not include " + included;
}

bool is_public_header(const std::string& path) { return starts_with(path, "include/"); }

// An accessor says by its name what it returns: `int size() const noexcept;`, in C
// `int smelt_machine_size(const smelt_machine* machine);`. So does what frees a handle.
bool needs_docstring(const std::string& declaration) {
  static const std::regex function(R"(^[\w:<>,*&\s\[\]]*?[\w:>*&\]]\s+[*&]*(\w+)\s*\(([^]*)\)[\w\s]*;.*)");
  static const std::regex accessor(R"(.*\(\)\s*(const)?\s*(noexcept)?\s*;.*)");
  static const std::regex defined_here(R"(.*\)\s*(const)?\s*(noexcept)?\s*\{.*)");
  static const std::regex c_accessor(R"(.*\(const smelt_\w+\* \w+\);.*)");
  static const std::regex c_free(R"(void smelt_\w+_free\(.*)");
  static const std::regex not_ours(R"(^(friend|using|typedef|return|#|static_assert|class|struct|enum)\b.*)");
  if (!std::regex_match(declaration, function)) return false;
  if (std::regex_match(declaration, not_ours) || std::regex_match(declaration, defined_here)) return false;
  if (declaration.find("operator") != std::string::npos || declaration.find('~') != std::string::npos) return false;
  if (starts_with(declaration, "explicit ")) return false;
  if (std::regex_match(declaration, c_accessor) || std::regex_match(declaration, c_free)) return false;
  const bool member_accessor = declaration.find("() const") != std::string::npos;
  return !(member_accessor && std::regex_match(declaration, accessor));
}

}  // namespace

std::vector<File> read_files(const std::string& root, const std::string& directory,
                             const std::vector<std::string>& suffixes) {
  namespace fs = std::filesystem;
  std::vector<File> files;
  const fs::path start = fs::path(root) / directory;
  if (!fs::exists(start)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(start)) {
    const std::string path = entry.path().lexically_relative(root).generic_string();
    const auto ends = [&](const std::string& suffix) {
      return path.size() >= suffix.size() && path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0;
    };
    if (!entry.is_regular_file() || std::none_of(suffixes.begin(), suffixes.end(), ends)) continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    files.push_back({path, text.str()});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

Complaints check_includes(const File& file) {
  static const std::regex quoted(R"re(^\s*#\s*include\s*"([^"]+)".*)re");
  Complaints complaints;
  const std::string room = room_of(file.path);
  const auto entry = table().find(room);
  if (entry == table().end()) return {file.path + ": belongs to no room of the include table"};
  const auto lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_match(lines[i], match, quoted)) continue;
    const std::string included = match[1];
    const auto slash = included.find('/');
    const std::string first = included.substr(0, slash);
    std::string other;
    if (slash == std::string::npos) {
      complaints.push_back(at(file, i) + "\"" + included + "\" must be written with its room");
      continue;
    }
    if (first == "smelt") {
      if (room == "cli" || (room == "shims" && included == "smelt/smelt.h")) continue;
      other = room_of_header(included.substr(slash + 1));
    } else {
      other = first;
      if (is_public_header(file.path)) {
        complaints.push_back(at(file, i) + "a public header may include public headers only, not " + included);
        continue;
      }
    }
    if (other != room && entry->second.count(other) == 0) {
      complaints.push_back(at(file, i) + room + " may not include " + included);
    } else if (other == room && first != "smelt") {
      const std::string complaint = complaint_inside(room, file.path, included);
      if (!complaint.empty()) complaints.push_back(at(file, i) + complaint);
    }
  }
  return complaints;
}

Complaints check_header_comments(const std::vector<File>& files) {
  const auto commented = [](const std::string& text) { return starts_with(text, "//") || starts_with(text, "/*"); };
  std::set<std::string> explained;  // files that another one's comment speaks for, without suffix
  for (const auto& file : files) {
    if (!commented(file.text)) continue;
    const auto dot = file.path.rfind('.');
    const std::string stem = file.path.substr(0, dot);
    explained.insert(stem + "_test");
    if (file.path.substr(dot) != ".cpp") explained.insert(stem);
    if (is_public_header(file.path)) {
      const std::string room = "src/" + room_of(file.path), name = stem.substr(stem.rfind('/'));
      explained.insert({room + name, room + name + "_test"});
      for (const auto& inner : inner_rooms(room_of(file.path))) {
        explained.insert({room + "/" + inner + name, room + "/" + inner + name + "_test"});
      }
    }
  }
  Complaints complaints;
  for (const auto& file : files) {
    if (commented(file.text) || explained.count(file.path.substr(0, file.path.rfind('.'))) > 0) continue;
    complaints.push_back(file.path + ": does not start with a comment that says what it is about");
  }
  return complaints;
}

Complaints check_readme(const File& file) {
  const auto lines = lines_of(file.text).size();
  if (lines <= 15) return {};
  return {file.path + ": has " + std::to_string(lines) + " lines; 15 are allowed"};
}

Complaints check_unfinished(const File& file) {
  static const std::regex note(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X|HA"
      "CK)\\b");
  Complaints complaints;
  const auto lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (std::regex_search(lines[i], note)) complaints.push_back(at(file, i) + "unfinished: " + trimmed(lines[i]));
  }
  return complaints;
}

Complaints check_volatile(const File& file) {
  static const std::regex assembly(R"(\b(asm|__asm__)\s+(volatile|__volatile__)\b)");
  static const std::regex word(R"(\bvolatile\b)");
  Complaints complaints;
  const auto lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string code = std::regex_replace(code_of(lines[i]), assembly, "");
    if (std::regex_search(code, word))
      complaints.push_back(at(file, i) + "volatile is no atomic: " + trimmed(lines[i]));
  }
  return complaints;
}

Complaints check_docstrings(const File& file) {
  Complaints complaints;
  bool documented = false;  // a comment stands above, with no empty line since
  bool hidden = false;      // in a private section or namespace detail
  int body = 0;             // braces open inside a function body
  std::string declaration;
  const auto lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line = trimmed(lines[i]);
    const std::string code = trimmed(code_of(line));
    if (line == "private:" || line == "protected:" || starts_with(line, "namespace detail")) hidden = true;
    if (line == "public:" || line == "};" || starts_with(line, "}  // namespace detail")) hidden = false;
    if (line.empty() || starts_with(line, "}")) documented = false;
    if (line.find("///") != std::string::npos || starts_with(line, "/*")) documented = true;
    if (body > 0 || code.empty() || code[0] == '#' || code[0] == '*' || starts_with(code, "/*")) {
      body += static_cast<int>(std::count(code.begin(), code.end(), '{') - std::count(code.begin(), code.end(), '}'));
      body = std::max(body, 0);
      continue;
    }
    declaration += (declaration.empty() ? "" : " ") + code;
    const bool function = declaration.find('(') != std::string::npos;
    if (function && code.back() == '{' && declaration.find("extern \"C\"") == std::string::npos) {
      body = 1;  // defined here: short enough to be read
      declaration.clear();
    } else if (code.back() == ';' || code.back() == '{' || code.back() == '}' || code.back() == ':') {
      if (!hidden && !documented && needs_docstring(declaration)) {
        complaints.push_back(at(file, i) + "no comment says what it does: " + declaration);
      }
      declaration.clear();
    }
  }
  return complaints;
}

}  // namespace style
