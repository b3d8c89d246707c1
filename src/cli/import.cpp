// smelt import: published measurements become a machine file.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/parser.hpp"
#include "cli/produce.hpp"

namespace smelt::cli {
namespace {

struct ImportFlags {
  std::vector<std::string> words;  // [kind] path
  double send_share = 0.25;
  double ghz = 1.0;
  bool has_share = false;
  bool has_ghz = false;
  std::string model;
  ProduceArguments produce;
};

enum class Kind { core_to_core, machinedb, memory };

struct Source {
  Kind kind;
  std::string path;
};

Source source_of(const ImportFlags& arguments) {
  static const std::vector<std::string> kinds = {"core-to-core", "machinedb", "memory"};
  const auto& words = arguments.words;
  if (words.empty()) fail_usage("import what? Name a core-to-core CSV file or a machinedb directory");
  if (words.size() > 2) fail_usage("{}: one file or directory at a time", words[2]);
  std::error_code ignored;
  if (words.size() == 2) {
    const auto kind = std::find(kinds.begin(), kinds.end(), words[0]);
    if (kind == kinds.end()) {
      fail_usage("{}: no such kind of data{} (core-to-core, machinedb or memory)", words[0],
                 suggestion(words[0], kinds));
    }
    return {static_cast<Kind>(kind - kinds.begin()), words[1]};
  }
  if (std::find(kinds.begin(), kinds.end(), words[0]) != kinds.end()) {
    fail_usage("{}: name the {} to read", words[0],
               words[0] == kinds[0]   ? "CSV file"
               : words[0] == kinds[1] ? "directory"
                                      : "table, text or directory");
  }
  return {std::filesystem::is_directory(words[0], ignored) ? Kind::machinedb : Kind::core_to_core, words[0]};
}

/// The machine that memory figures belong to.
Machine target(const std::string& model) {
  if (!model.empty()) return load_model(model, false);
  auto cached = load_cached_machine();
  return cached ? *std::move(cached) : take(discover_machine());
}

void run(const ImportFlags& arguments) {
  const Source source = source_of(arguments);
  if (source.kind != Kind::core_to_core && arguments.has_share) fail_usage("--send-share: only for core-to-core data");
  if (source.kind != Kind::machinedb && arguments.has_ghz) fail_usage("--ghz: only for machinedb data");
  if (source.kind != Kind::memory && !arguments.model.empty()) fail_usage("-m: only for memory data");
  switch (source.kind) {
    case Kind::core_to_core:
      return produce(take(import_core_to_core(source.path, arguments.send_share)), arguments.produce);
    case Kind::machinedb: return produce(take(import_machinedb(source.path, arguments.ghz)), arguments.produce);
    case Kind::memory: return produce(take(import_memory(source.path, target(arguments.model))), arguments.produce);
  }
}

}  // namespace

void add_import(Parser& parser) {
  auto arguments = std::make_shared<ImportFlags>();
  Command command = parser.add("import", "Make a machine file from published measurements");
  command.words("source", arguments->words, "SOURCE",
                "[core-to-core] FILE or [machinedb] DIRECTORY; the kind may be left out. Or memory FILE-OR-DIRECTORY");
  command.number("--send-share", arguments->send_share, 0, 1,
                 "core-to-core: part of the latency that blocks the sender (default 0.25)");
  command.number("--ghz", arguments->ghz, 0.001, 1000,
                 "machinedb: cycles per ns (default 1: leave the numbers as they are)");
  command.text("-m,--model", arguments->model, "FILE", "memory: the machine that it belongs to (default: this one)");
  add_produce_options(command, arguments->produce);
  command.footer(
      "core-to-core: CSV, n rows of n fields, lower triangle = one-way latency in ns.\n"
      "machinedb:    directory with files ending in _send, _receive and _rtt (sender receiver mean stddev,\n"
      "              in cycles) and lscpu_parse.txt.\n"
      "memory:       what memory costs: ACPI's HMAT, the output of Intel's mlc, or a directory with access classes.\n"
      "              It takes the place of what a machine file says of memory.\n\n"
      "Examples:\n"
      "  smelt import core-to-core epyc.csv -o epyc.json\n"
      "  smelt import machinedb sbrinz1/ --ghz 2.5 -o sbrinz1.json\n"
      "  smelt import memory mlc.txt -m server.json -o server.json\n"
      "  smelt import memory /sys/firmware/acpi/tables/HMAT | smelt show -\n"
      "  smelt import epyc.csv | smelt show -\n");
  command.action([arguments, command] {
    arguments->has_share = command.given("--send-share");
    arguments->has_ghz = command.given("--ghz");
    run(*arguments);
  });
}

}  // namespace smelt::cli
