// Writes machine files: one key per line, one PU and one matrix row per line, numbers in the
// shortest form that reads back as the same double. A matrix by class is written as its classes and residuals.
//
// Saving goes through a new file in the same directory: create (never an existing name), write,
// fsync, rename. Whatever fails before the rename, the old file is untouched.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "machine/limits.hpp"
#include "machine/model/model_file.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

/// Collects text; with a file descriptor behind it, hands it on in large pieces.
class Output {
 public:
  explicit Output(int descriptor = -1) : descriptor_(descriptor) {}

  void text(std::string_view part) {
    text_ += part;
    if (descriptor_ >= 0 && text_.size() >= piece_bytes) flush();
  }

  void number(double value) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text({digits, static_cast<std::size_t>(end - digits)});
  }

  void quoted(const std::string& value) {
    text(nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  /// 0, or the errno of the first write that failed.
  int flush() {
    std::size_t done = 0;
    while (problem_ == 0 && done < text_.size()) {
      const auto count = write(descriptor_, text_.data() + done, text_.size() - done);
      if (count >= 0) {
        done += static_cast<std::size_t>(count);
      } else if (errno != EINTR) {
        problem_ = errno;
      }
    }
    text_.clear();
    return problem_;
  }

  std::string take() { return std::move(text_); }

 private:
  static constexpr std::size_t piece_bytes = 1u << 20;
  int descriptor_;
  int problem_ = 0;
  std::string text_;
};

void write_pus(const Machine& machine, Output& out) {
  out.text("  \"pus\": [");
  const char* separator = "\n    ";
  for (const auto& pu : machine.pus) {
    out.text(separator);
    out.text(fmt::format(
        R"({{"os_index": {}, "core": {}, "package": {}, "numa_node": {}, "l2": {}, "l3": {}, "efficiency_class": {}}})",
        pu.os_index, pu.core, pu.package, pu.numa_node, pu.l2, pu.l3, pu.efficiency_class));
    separator = ",\n    ";
  }
  out.text("\n  ],\n");
}

void write_numa_nodes(const Machine& machine, Output& out) {
  out.text("  \"numa_nodes\": [");
  const char* separator = "\n    ";
  for (const auto& node : machine.numa_nodes) {
    out.text(separator);
    out.text(fmt::format(R"({{"os_index": {}, "memory_bytes": {}}})", node.os_index, node.memory_bytes));
    separator = ",\n    ";
  }
  out.text("\n  ],\n");
}

template <class Numbers>
void write_numbers(const char* key, const Numbers& numbers, Output& out) {
  out.text(fmt::format("  \"{}\": [", key));
  const char* separator = "";
  for (const auto number : numbers) {
    out.text(separator);
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(number)>>) {
      out.number(number);
    } else {
      out.text(fmt::format("{}", number));
    }
    separator = ",";
  }
  out.text("],\n");
}

/// {"package": 27.5, "package+core": 2.5, "own": 0, "residuals": {"pu": [[0,5,30], ...]}}
void write_classes(const char* key, const CostsByClass& costs, Output& out) {
  const Places& places = costs.places();
  out.text(fmt::format("  \"{}\": {{", key));
  const char* separator = "";
  for (int pair = 0; pair < places.kinds() * places.kinds() * shared_count; ++pair) {
    const int kinds = pair / shared_count, a = kinds / places.kinds(), b = kinds % places.kinds();
    const auto shared = static_cast<SharedUnits>(pair % shared_count);
    const double cost = costs.class_cost(a, b, shared);
    if (std::isnan(cost)) continue;
    out.text(fmt::format("{}\"{}\": ", separator, class_key(places, a, b, shared)));
    out.number(cost);
    separator = ", ";
  }
  if (costs.own() != 0.0) {
    out.text(fmt::format("{}\"own\": ", separator));
    out.number(costs.own());
  }
  bool any = false;
  for (int level = 0; level <= pu_level; ++level) {
    if (costs.residuals(level).empty()) continue;
    const char* opening = any ? "," : ", \"residuals\": {";
    any = true;
    out.text(fmt::format("{}\n    \"{}\": [", opening, unit_names[static_cast<std::size_t>(level)]));
    int row = -1;
    for (const Residual& one : costs.residuals(level)) {
      out.text(row < 0 ? "\n      [" : row == one.from ? ",[" : ",\n      [");
      row = one.from;
      out.text(fmt::format("{},{},", one.from, one.to));
      out.number(one.cost);
      out.text("]");
    }
    out.text("]");
  }
  out.text(any ? "}}" : "}");
}

void write_matrix(const char* key, const Matrix* matrix, Output& out, const char* end = ",\n") {
  if (matrix == nullptr || matrix->empty()) {
    out.text(fmt::format("  \"{}\": null{}", key, end));
    return;
  }
  if (matrix->classes() != nullptr) {
    write_classes(key, *matrix->classes(), out);
    out.text(end);
    return;
  }
  out.text(fmt::format("  \"{}\": [", key));
  for (std::size_t i = 0; i < matrix->size(); ++i) {
    out.text(i == 0 ? "\n    [" : ",\n    [");
    for (std::size_t j = 0; j < matrix->size(); ++j) {
      if (j != 0) out.text(",");
      out.number((*matrix)(i, j));
    }
    out.text("]");
  }
  out.text("\n  ]");
  out.text(end);
}

/// The key of a field without what it lies in.
const char* last_part(const char* key) { return std::strrchr(key, '.') + 1; }

void write_copy(const Machine& machine, Output& out) {
  const auto& copy = *machine.copy;
  const char* separator = "  \"copy\": {\n";
  for (const auto& field : copy_number_fields()) {
    if (field.process != nullptr && !copy.process) continue;
    out.text(fmt::format("{}  \"{}\": ", separator, last_part(field.key)));
    out.number(field.process != nullptr ? *copy.process.*field.process : copy.*field.member);
    separator = ",\n";
  }
  out.text(",\n");
  for (const auto& field : copy_list_fields()) write_numbers(last_part(field.key), copy.*field.member, out);
  for (const auto& field : copy_matrix_fields()) {
    const bool last = &field == &copy_matrix_fields().back();
    write_matrix(last_part(field.key), field.in(machine), out, last ? "\n" : ",\n");
  }
  out.text("  },\n");
}

void write_memory(const Machine& machine, Output& out) {
  const auto& memory = *machine.memory;
  const char* separator = "  \"memory\": {\n";
  for (const auto& field : memory_number_fields()) {
    out.text(fmt::format("{}  \"{}\": ", separator, last_part(field.key)));
    out.number(memory.*field.memory);
    separator = ",\n";
  }
  out.text(",\n");
  for (const auto& field : memory_list_fields()) write_numbers(last_part(field.key), memory.*field.memory, out);
  for (const auto& field : memory_matrix_fields()) {
    const bool last = &field == &memory_matrix_fields().back();
    write_matrix(last_part(field.key), field.in(machine), out, last ? "\n" : ",\n");
  }
  out.text("  },\n");
}

bool has_classes(const Machine& machine) {
  const auto by_class = [&](const MatrixField& field) {
    const Matrix* matrix = field.in(machine);
    return matrix != nullptr && matrix->classes() != nullptr;
  };
  return std::any_of(matrix_fields().begin(), matrix_fields().end(), by_class) ||
         std::any_of(copy_matrix_fields().begin(), copy_matrix_fields().end(), by_class);
}

void write_machine(const Machine& machine, Output& out) {
  const auto text_key = [&](const char* key, const std::string& value, const char* end = ",\n") {
    out.text(fmt::format("  \"{}\": ", key));
    out.quoted(value);
    out.text(end);
  };
  out.text("{\n");
  text_key("schema", has_classes(machine) ? class_schema_name : schema_name);
  text_key("name", machine.name);
  text_key("fingerprint", machine.fingerprint);
  text_key("measured_at", machine.measured_at);
  out.text("  \"tsc_ghz\": ");
  out.number(machine.tsc_ghz);
  out.text(",\n");
  write_pus(machine, out);
  if (!machine.numa_nodes.empty()) write_numa_nodes(machine, out);
  if (!machine.page_sizes_bytes.empty()) write_numbers("page_sizes_bytes", machine.page_sizes_bytes, out);
  for (const auto& field : matrix_fields()) {
    const auto* matrix = field.in(machine);
    const bool always = field.required != nullptr || field.optional == &Machine::rtt_ns;
    if (matrix != nullptr || always) write_matrix(field.key, matrix, out);
  }
  for (const auto& [key, member] : cost_fields()) {
    if (!(machine.*member)) continue;
    out.text(fmt::format("  \"{}\": ", key));
    out.number(*(machine.*member));
    out.text(",\n");
  }
  for (const auto& [key, member] : cost_list_fields()) {
    const auto& costs = machine.*member;
    if (!costs.empty()) {
      write_numbers(key, costs, out);
    } else if (member == &Machine::send_burst_ns) {  // readers of the first files expect it
      out.text(fmt::format("  \"{}\": null,\n", key));
    }
  }
  if (machine.copy) write_copy(machine, out);
  if (machine.memory) write_memory(machine, out);
  text_key("method", machine.method, "\n}\n");
}

Error write_error(const fs::path& file, const char* action, int reason) {
  const auto status = reason == ENOENT || reason == ENOTDIR                    ? Status::not_found
                      : reason == EACCES || reason == EPERM || reason == EROFS ? Status::permission_denied
                                                                               : Status::io_error;
  return make_error(status, "{}: cannot {}: {}", file.string(), action, std::strerror(reason));
}

/// Writes the machine and closes the descriptor; 0 or an errno.
int write_and_close(const Machine& machine, int descriptor, bool sync) {
  Output out(descriptor);
  write_machine(machine, out);
  int problem = out.flush();
  if (problem == 0 && sync && fsync(descriptor) != 0) problem = errno;
  if (close(descriptor) != 0 && problem == 0) problem = errno;
  return problem;
}

/// A new empty file beside `target`; its path goes to `path`. Negative errno on failure.
int create_beside(const fs::path& target, fs::path& path) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 1000; ++attempt) {
    // Relaxed: the number only has to differ, it publishes nothing.
    const auto number = counter.fetch_add(1, std::memory_order_relaxed);
    path = target;
    path += fmt::format(".{}.{}.tmp", getpid(), number);
    const int descriptor = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (descriptor >= 0) return descriptor;
    if (errno != EEXIST) return -errno;
  }
  return -EEXIST;
}

Result<void> replace_file(const Machine& machine, const fs::path& file) {
  std::error_code ignored;
  // A link is kept: what it points to is replaced.
  const auto target = fs::is_symlink(file, ignored) ? fs::weakly_canonical(file, ignored) : file;
  fs::path temporary;
  const int descriptor = create_beside(target, temporary);
  if (descriptor < 0) return write_error(file, "create a file in that directory", -descriptor);
  int problem = write_and_close(machine, descriptor, true);
  if (problem == 0 && rename(temporary.c_str(), target.c_str()) != 0) problem = errno;
  if (problem == 0) return {};
  unlink(temporary.c_str());
  return write_error(file, "write", problem);
}

}  // namespace

std::string format_machine(const Machine& machine) {
  Output out;
  write_machine(machine, out);
  return out.take();
}

Result<void> save_machine(const Machine& machine, const fs::path& file) {
  try {
    if (auto checked = check_machine(machine); !checked) {
      return make_error(Status::invalid_argument, "{}: not written: {}", file.string(), checked.error().message);
    }
    struct stat info;
    const bool exists = stat(file.c_str(), &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) return write_error(file, "write", EISDIR);
    if (!exists || S_ISREG(info.st_mode)) return replace_file(machine, file);
    // A pipe or a terminal: there is no old content to keep.
    const int descriptor = open(file.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return write_error(file, "open", errno);
    const int problem = write_and_close(machine, descriptor, false);
    return problem == 0 ? Result<void>() : write_error(file, "write", problem);
  } catch (const std::exception& problem) {
    return make_error(Status::out_of_memory, "{}: cannot write: {}", file.string(), problem.what());
  }
}

}  // namespace smelt
