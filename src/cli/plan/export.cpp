// smelt export: tuning files for other runtimes, derived from the model.
#include "smelt/export.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

constexpr int most_ranks = 4096;

struct ExportFlags {
  std::string runtime;
  std::string ranks;
  std::string model;
  std::string output;
  bool json = false;
  ExportOptions options;
};

Runtime parse_runtime_name(const std::string& text) {
  std::vector<std::string> names;
  for (Runtime each : runtimes()) names.push_back(to_string(each));
  if (text.empty()) fail_usage("for which runtime? Name one with --for ({})", fmt::join(names, ", "));
  auto runtime = parse_runtime(text);
  if (!runtime) {
    fail_usage("--for {}: no such runtime{} (one of {})", text, suggestion(text, names), fmt::join(names, ", "));
  }
  return *runtime;
}

/// "4": that many ranks, placed as MPI launchers and OpenMP do it, on distinct cores first. Other texts as for --ranks
/// elsewhere.
Group select_ranks(const Machine& machine, const std::string& text) {
  const bool is_count =
      !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
  if (!is_count && !text.empty()) return select_group(machine, text);
  const int count = text.empty() ? 0 : parse_integer("--ranks", text, 2, most_ranks);
  Allowance everything;
  for (const auto& pu : machine.pus) everything.pus.push_back(pu.os_index);
  std::sort(everything.pus.begin(), everything.pus.end());
  return take(default_group(machine, everything, count));
}

Json choices_document(const RuntimeSettings& settings) {
  Json list = Json::array();
  for (const auto& each : settings.choices) {
    list.push_back({{"operation", to_string(each.operation)},
                    {"from_bytes", each.from_bytes},
                    {"algorithm", each.algorithm},
                    {"default", each.default_algorithm},
                    {"predicted_ns", each.predicted_ns},
                    {"default_ns", each.default_ns}});
  }
  return list;
}

std::string with_file_name(std::string usage, const std::string& name) {
  if (name.empty()) return usage;
  for (std::size_t at = usage.find("FILE"); at != std::string::npos; at = usage.find("FILE", at + name.size())) {
    // Matches the whole word, not the end of a variable's name such as ..._JSON_FILE.
    if (at > 0 && usage[at - 1] == '_') {
      at += 4 - name.size();
      continue;
    }
    usage.replace(at, 4, name);
  }
  return usage;
}

std::string describe(const RuntimeSettings& settings) {
  const auto decided = std::count_if(settings.choices.begin(), settings.choices.end(),
                                     [](const ExportedChoice& each) { return !each.algorithm.empty(); });
  if (settings.choices.empty()) return "";
  return decided == 0 ? "The model finds nothing that it is sure to improve: all stays with the runtime.\n"
                      : fmt::format("{} range{} of sizes decided.\n", decided, decided == 1 ? "" : "s");
}

void run(const ExportFlags& arguments) {
  const Runtime runtime = parse_runtime_name(arguments.runtime);
  const Machine machine = load_model(arguments.model);
  const Group group = select_ranks(machine, arguments.ranks);
  const RuntimeSettings settings = take(export_settings(machine, group, runtime, arguments.options));
  // A shell looks for a file that is named without a directory in those of PATH.
  const bool bare = !arguments.output.empty() && arguments.output.find('/') == std::string::npos;
  const std::string usage = with_file_name(settings.usage, (bare ? "./" : "") + arguments.output);
  if (!arguments.output.empty()) write_file(arguments.output, settings.text);
  if (arguments.json) {
    return print(format_json({{"runtime", to_string(runtime)},
                              {"pus", os_indices(machine, group)},
                              {"settings", settings.text},
                              {"usage", usage},
                              {"choices", choices_document(settings)},
                              {"machine", machine_identity(machine)}}));
  }
  if (arguments.output.empty()) print(settings.text);
  flush_output();
  std::fprintf(stderr, "%sUse it so:\n%s", describe(settings).c_str(), usage.c_str());
}

}  // namespace

void add_export(Parser& parser) {
  auto arguments = std::make_shared<ExportFlags>();
  Command command = parser.add("export", "Write a tuning file for another runtime, derived from the model");
  command.text("--for", arguments->runtime, "RUNTIME", "openmpi, mpich, mpich-posix, ucc, libomp or xhc");
  command.text("--ranks", arguments->ranks, "N", "how many ranks, or which PUs: 0-7, all (default: one per core)");
  add_model_option(command, arguments->model);
  command.text("-o,--output", arguments->output, "FILE", "file to write; default: standard output");
  command.number("--margin", arguments->options.margin, 0, 0.99,
                 "least predicted gain over the default for a setting (default 0.2)");
  command.number("--message-ns", arguments->options.message_overhead_ns, 0, 1e6,
                 "overhead of the runtime per send and per receive, in ns (default 150)");
  command.flag("--json", arguments->json, "the settings and each decision as JSON");
  command.footer(
      "  openmpi      rules file of Open MPI 4.1 (coll_tuned)\n"
      "  mpich        selection file of MPICH 4.0\n"
      "  mpich-posix  the same for its shared-memory device, if it is built with one\n"
      "  ucc          environment of UCC (TL/UCP)\n"
      "  libomp       environment of LLVM's OpenMP\n"
      "  xhc          environment of Open MPI 5 (coll/xhc)\n\n"
      "Decisions that the model is not sure of are left to the runtime.\n\n"
      "Examples:\n"
      "  smelt export --for openmpi -o rules.conf\n"
      "  smelt export --for mpich --ranks 16 -m big.json -o mpich.json\n"
      "  smelt export --for libomp > omp.env; set -a; . ./omp.env\n");
  command.action([arguments] { run(*arguments); });
}

}  // namespace smelt::cli
