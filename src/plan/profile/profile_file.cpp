// Profile files: reader and writer.
//
//   {
//     "schema": "smelt-profile/1", "fingerprint": ..., "measured_at": ...,
//     "tables": [
//       {"operation": "allreduce", "sync": "loose", "ranks": 2, "packages": 1, ...,
//        "floor": {"line_ns": 37.1, "work_ns": 988.5},
//        "cells": [
//          {"from_bytes": 8, "recipe": "allreduce_recursive_doubling+channels", "measured_ns": 301.5, ...},
//          ...
//
// Saving: a new file in the same directory, fsync, rename. If anything fails before the rename, the old file is
// unchanged.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "smelt/profile.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* schema = "smelt-profile/1";
constexpr std::size_t most_file_bytes = 64u << 20;
constexpr std::int64_t most_ranks = 1 << 20;
constexpr double most_ns = 1e15;
constexpr std::size_t most_text_bytes = 1024;
constexpr int most_depth = 32;

// ---- reader ---------------------------------------------------------------------------------

/// Text from a file, truncated and printable, for messages.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

/// Thrown within the reader; says where and why.
struct ParseError {
  std::string message;
};

/// A JSON object of the file and its path.
class JsonObject {
 public:
  JsonObject(const Json& value, std::string path) : value_(value), path_(std::move(path)) {
    if (!value.is_object()) throw ParseError{fmt::format("{}: must be an object, is {}", path_, shown(value))};
  }

  const Json& at(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end()) throw ParseError{fmt::format("{}: missing", name(key))};
    return *found;
  }
  bool has(const char* key) const { return value_.contains(key); }

  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) fail(key, "a string");
    if (value.get_ref<const std::string&>().size() > most_text_bytes) fail(key, "shorter");
    return value.get<std::string>();
  }
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) const {
    const Json& value = at(key);
    if (!value.is_number_integer() || value > most || value < least) {
      fail(key, fmt::format("a whole number {}..{}", least, most));
    }
    return value.get<std::int64_t>();
  }
  double number(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number() || !(value.get<double>() >= 0.0 && value.get<double>() <= most_ns)) {
      fail(key, fmt::format("a number 0..{:g}", most_ns));
    }
    return value.get<double>() +
           0.0;  // 0 in place of -0, which would be written as "-0": a whole number, without a sign
  }
  bool boolean(const char* key) const {
    if (!at(key).is_boolean()) fail(key, "true or false");
    return at(key).get<bool>();
  }
  const Json& list(const char* key) const {
    if (!at(key).is_array()) fail(key, "an array");
    return at(key);
  }

  std::string name(const char* key) const { return path_.empty() ? key : path_ + "." + key; }
  [[noreturn]] void fail(const char* key, const std::string& wanted) const {
    throw ParseError{fmt::format("{}: must be {}, is {}", name(key), wanted, shown(at(key)))};
  }

 private:
  const Json& value_;
  std::string path_;
};

Recipe read_recipe(const std::string& text, Operation operation, const std::string& where) {
  auto recipe = parse_recipe(text);
  if (!recipe) throw ParseError{fmt::format("{}: {}", where, recipe.error().message)};
  for (const auto& info : algorithms()) {
    if (info.name == recipe->algorithm && info.operation != operation) {
      throw ParseError{fmt::format("{}: {} is no algorithm for {}", where, info.name, to_string(operation))};
    }
  }
  return *std::move(recipe);
}

Floor read_floor(const JsonObject& node) {
  const JsonObject floor(node.at("floor"), node.name("floor"));
  return {floor.number("line_ns"), floor.number("work_ns")};
}

ProfileCell read_cell(const JsonObject& node, const ProfileCell& table) {
  ProfileCell cell = table;
  cell.from_bytes = static_cast<std::size_t>(node.integer("from_bytes", 0, std::int64_t{1} << 60));
  cell.recipe = read_recipe(node.text("recipe"), cell.operation, node.name("recipe"));
  cell.measured_ns = node.number("measured_ns");
  cell.predicted_ns = node.number("predicted_ns");
  if (node.has("floor")) cell.floor = read_floor(node);
  if (node.has("spread")) cell.spread = node.number("spread");
  if (node.has("runner_up")) {
    cell.runner_up = node.text("runner_up");
    read_recipe(cell.runner_up, cell.operation, node.name("runner_up"));
    cell.runner_up_ns = node.number("runner_up_ns");
    cell.equal = node.boolean("equal");
  }
  if (node.has("equals")) {
    for (const auto& each : node.list("equals")) {
      if (!each.is_string()) node.fail("equals", "an array of strings");
      read_recipe(each.get<std::string>(), cell.operation, node.name("equals"));
      cell.equals.push_back(each.get<std::string>());
    }
  }
  return cell;
}

void read_table(const JsonObject& node, const std::string& path, Profile& profile) {
  ProfileCell table;
  auto operation = parse_operation(node.text("operation"));
  if (!operation) node.fail("operation", "the name of an operation");
  table.operation = *operation;
  const auto sync = node.text("sync");
  if (sync != "loose" && sync != "strict") node.fail("sync", "\"loose\" or \"strict\"");
  table.sync = sync == "loose" ? Sync::loose : Sync::strict;
  const auto count = [&](const char* key) { return static_cast<int>(node.integer(key, 1, most_ranks)); };
  table.shape = {count("ranks"), count("packages"), count("l3_caches"), count("ranks_per_pu"),
                 node.boolean("processes")};
  if (node.has("floor")) table.floor = read_floor(node);
  for (const auto& cell : profile.cells) {
    if (cell.operation == table.operation && cell.sync == table.sync && cell.shape == table.shape) {
      throw ParseError{path + ": a second table of the same operation, sync and group"};
    }
  }
  const Json& cells = node.list("cells");
  std::vector<ProfileCell> read;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto where = fmt::format("{}.cells[{}]", path, i);
    read.push_back(read_cell(JsonObject(cells[i], where), table));
    if (i > 0 && read[i].from_bytes <= read[i - 1].from_bytes) {
      throw ParseError{where + ".from_bytes: must be more than that of the cell before"};
    }
  }
  profile.cells.insert(profile.cells.end(), read.begin(), read.end());
}

Profile read_profile(const Json& document) {
  const JsonObject top(document, "");
  if (top.text("schema") != schema) top.fail("schema", fmt::format("\"{}\"", schema));
  Profile profile;
  profile.fingerprint = top.text("fingerprint");
  profile.measured_at = top.text("measured_at");
  const Json& tables = top.list("tables");
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto path = fmt::format("tables[{}]", i);
    read_table(JsonObject(tables[i], path), path, profile);
  }
  Profile sorted{profile.fingerprint, profile.measured_at, {}};
  sorted.merge(profile);
  return sorted;
}

/// Limits the depth, since printing a value in an error message recurses.
Json parse_json(std::string_view text) {
  return Json::parse(text, [](int depth, Json::parse_event_t, const Json&) {
    if (depth > most_depth) throw ParseError{fmt::format("nested more than {} deep", most_depth)};
    return true;
  });
}

/// "[json.exception.parse_error.101] parse error at line 1, ...": without the bracket.
std::string plain_reason(std::string_view text) {
  if (const auto bracket = text.find("] "); bracket != std::string_view::npos) text.remove_prefix(bracket + 2);
  std::string reason(text.substr(0, 160));
  for (char& c : reason) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return reason;
}

// ---- writer ---------------------------------------------------------------------------------

/// The shortest text that reads back as the same double.
std::string number_text(double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return {digits, end};
}

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string floor_text(const Floor& floor) {
  return fmt::format(R"("floor": {{"line_ns": {}, "work_ns": {}}})", number_text(floor.line_ns),
                     number_text(floor.work_ns));
}

/// `table`: the floor of the table. A cell with another floor stores its own.
std::string cell_text(const ProfileCell& cell, const Floor& table) {
  std::string text =
      fmt::format(R"({{"from_bytes": {}, "recipe": {}, "measured_ns": {}, "predicted_ns": {}, "spread": {})",
                  cell.from_bytes, quoted(to_string(cell.recipe)), number_text(cell.measured_ns),
                  number_text(cell.predicted_ns), number_text(cell.spread));
  if (cell.floor != table) text += ", " + floor_text(cell.floor);
  if (!cell.runner_up.empty()) {
    text += fmt::format(R"(, "runner_up": {}, "runner_up_ns": {}, "equal": {})", quoted(cell.runner_up),
                        number_text(cell.runner_up_ns), cell.equal);
  }
  if (!cell.equals.empty()) {
    std::vector<std::string> names;
    for (const auto& each : cell.equals) names.push_back(quoted(each));
    text += fmt::format(R"(, "equals": [{}])", fmt::join(names, ", "));
  }
  return text + "}";
}

bool same_table(const ProfileCell& a, const ProfileCell& b) {
  return a.operation == b.operation && a.sync == b.sync && a.shape == b.shape;
}

Error write_error(const fs::path& file, const char* action, int reason) {
  const auto status = reason == ENOENT || reason == ENOTDIR                    ? Status::not_found
                      : reason == EACCES || reason == EPERM || reason == EROFS ? Status::permission_denied
                                                                               : Status::io_error;
  return make_error(status, "{}: cannot {}: {}", file.string(), action, std::strerror(reason));
}

/// 0 or an errno. Closes the descriptor.
int write_and_close(int descriptor, std::string_view text) {
  int problem = 0;
  while (problem == 0 && !text.empty()) {
    const auto count = write(descriptor, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      problem = errno;
    }
  }
  if (problem == 0 && fsync(descriptor) != 0 && errno != EINVAL) problem = errno;
  if (close(descriptor) != 0 && problem == 0) problem = errno;
  return problem;
}

/// A new empty file beside `target`; its path goes to `path`. Negative errno on failure.
int create_beside(const fs::path& target, fs::path& path) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    path = target;
    path += fmt::format(".{}.{}.tmp", getpid(), attempt);
    const int descriptor = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (descriptor >= 0) return descriptor;
    if (errno != EEXIST) return -errno;
  }
  return -EEXIST;
}

Result<void> write_profile(const Profile& profile, const fs::path& file) {
  const auto text = format_profile(profile);
  // Reports now if the text could not be read again.
  if (auto checked = parse_profile(text, "profile"); !checked) {
    return make_error(Status::invalid_argument, "{}: not written: {}", file.string(), checked.error().message);
  }
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) return write_error(file, "write", EISDIR);
  const auto target = fs::is_symlink(file, ignored) ? fs::weakly_canonical(file, ignored) : file;
  fs::path temporary;
  const bool replace = !fs::exists(target, ignored) || fs::is_regular_file(target, ignored);
  const int descriptor = replace ? create_beside(target, temporary) : open(target.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor == -1) return write_error(file, "open", errno);
  if (descriptor < 0) return write_error(file, "create a file in that directory", -descriptor);
  int problem = write_and_close(descriptor, text);
  if (problem == 0 && replace && rename(temporary.c_str(), target.c_str()) != 0) problem = errno;
  if (problem == 0) return {};
  if (replace) unlink(temporary.c_str());
  return write_error(file, "write", problem);
}

}  // namespace

Result<Profile> parse_profile(std::string_view json, const std::string& origin) {
  try {
    return read_profile(parse_json(json));
  } catch (const ParseError& mistake) {
    return make_error(Status::bad_format, "{}: {}", origin, mistake.message);
  } catch (const std::bad_alloc&) {
    return make_error(Status::out_of_memory, "{}: not enough memory for this profile", origin);
  } catch (const std::exception& problem) {
    return make_error(Status::bad_format, "{}: not valid JSON: {}", origin, plain_reason(problem.what()));
  }
}

Result<Profile> load_profile(const fs::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const int reason = errno;
    const auto status = reason == ENOENT || reason == ENOTDIR ? Status::not_found
                        : reason == EACCES                    ? Status::permission_denied
                                                              : Status::io_error;
    return make_error(status, "{}: cannot open: {}", file.string(), std::strerror(reason));
  }
  std::string text;
  char part[1 << 14];
  ssize_t count = 0;
  while ((count = read(descriptor, part, sizeof part)) != 0) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 || text.size() > most_file_bytes) break;
    text.append(part, static_cast<std::size_t>(count));
  }
  const int reason = errno;
  close(descriptor);
  if (count < 0) return make_error(Status::io_error, "{}: cannot read: {}", file.string(), std::strerror(reason));
  if (count > 0) return make_error(Status::bad_format, "{}: too large for a profile", file.string());
  return parse_profile(text, file.string());
}

std::string format_profile(const Profile& profile) {
  std::string text =
      fmt::format("{{\n  \"schema\": \"{}\",\n  \"fingerprint\": {},\n  \"measured_at\": {},\n  \"tables\": [", schema,
                  quoted(profile.fingerprint), quoted(profile.measured_at));
  const ProfileCell* before = nullptr;
  Floor table_floor;
  for (const auto& cell : profile.cells) {
    if (before == nullptr || !same_table(*before, cell)) {
      const auto& shape = cell.shape;
      text += before == nullptr ? "\n" : "\n    ]},\n";
      text +=
          fmt::format(R"(    {{"operation": "{}", "sync": "{}", "ranks": {}, "packages": {}, "l3_caches": {}, )",
                      to_string(cell.operation), to_string(cell.sync), shape.ranks, shape.packages, shape.l3_caches);
      text += fmt::format("\"ranks_per_pu\": {}, \"processes\": {}, ", shape.ranks_per_pu, shape.processes);
      if (cell.floor.known()) text += floor_text(cell.floor) + ", ";
      table_floor = cell.floor;
      text += "\"cells\": [\n";
    } else {
      text += ",\n";
    }
    text += "      " + cell_text(cell, table_floor);
    before = &cell;
  }
  return text + (before == nullptr ? "]\n}\n" : "\n    ]}\n  ]\n}\n");
}

Result<void> save_profile(const Profile& profile, const fs::path& file) {
  try {
    return write_profile(profile, file);
  } catch (const std::exception& problem) {
    return make_error(Status::out_of_memory, "{}: cannot write: {}", file.string(), problem.what());
  }
}

fs::path profile_path(const std::string& fingerprint) {
  return cache_path(fingerprint).replace_extension(".profile.json");
}

}  // namespace smelt
