// smelt import: published measurements become a machine file.
#include <memory>
#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/parser.hpp"
#include "cli/produce.hpp"

namespace smelt::cli {
namespace {

struct ImportFlags {
  std::vector<std::string> words;  // [format] path
  ImportOptions options;
  bool has_share = false;
  bool has_ghz = false;
  std::string model;
  ProduceArguments produce;
};

constexpr const char* memory_word = "memory";

const ImporterInfo* importer_named(const std::string& name) {
  for (const auto& info : importers()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const auto& info : importers()) names.emplace_back(info.name);
  names.emplace_back(memory_word);
  return names;
}

/// The file of a word of the command line.
std::string file_of(const std::string& word) { return word == "-" ? "/dev/stdin" : word; }

/// The path of the command line. Sets the format if one is named.
std::string path_of(const std::vector<std::string>& words, std::string& format) {
  if (words.empty()) fail_usage("import what? Name a file or directory of published measurements");
  if (words.size() > 2) fail_usage("{}: one file or directory at a time", words[2]);
  const auto* named = importer_named(words[0]);
  if (words.size() == 1) {
    if (named != nullptr) fail_usage("{}: name the {} to read", words[0], named->directory ? "directory" : "file");
    return file_of(words[0]);
  }
  if (named == nullptr) {
    const auto known = format_names();
    fail_usage("{}: no such format{} ({})", words[0], suggestion(words[0], known), fmt::join(known, ", "));
  }
  format = words[0];
  return file_of(words[1]);
}

/// Options that do not count for the format that was read are mistakes.
void check_options(const ImportFlags& arguments, const Machine& machine) {
  const auto* used = importer_named(machine.method);
  if (used == nullptr) return;
  if (arguments.has_share && !used->uses_send_share) fail_usage("--send-share: not for {} data", used->name);
  if (arguments.has_ghz && !used->uses_ghz) fail_usage("--ghz: not for {} data", used->name);
}

/// The machine that memory figures belong to.
Machine target(const std::string& model) {
  if (!model.empty()) return load_model(model, false);
  auto cached = load_cached_machine();
  return cached ? *std::move(cached) : take(discover_machine());
}

/// smelt import memory PATH
void run_memory(const ImportFlags& arguments) {
  if (arguments.words.size() == 1) fail_usage("memory: name the table, text or directory to read");
  if (arguments.words.size() > 2) fail_usage("{}: one file or directory at a time", arguments.words[2]);
  if (arguments.has_share) fail_usage("--send-share: not for memory data");
  if (arguments.has_ghz) fail_usage("--ghz: not for memory data");
  if (arguments.words[1] == "-" && arguments.model == "-")
    fail_usage("memory -: standard input is the machine already");
  produce(take(import_memory(file_of(arguments.words[1]), target(arguments.model))), arguments.produce);
}

void run(ImportFlags& arguments) {
  if (!arguments.words.empty() && arguments.words[0] == memory_word) return run_memory(arguments);
  if (!arguments.model.empty()) fail_usage("-m: only for memory data");
  const auto path = path_of(arguments.words, arguments.options.format);
  const auto machine = take(import_machine(path, arguments.options));
  check_options(arguments, machine);
  produce(machine, arguments.produce);
}

/// A line for each format, aligned.
std::string formats_text() {
  std::string text = "Formats (recognized by the content if not named):\n";
  for (const auto& info : importers()) {
    std::string content(info.content);
    for (auto at = content.find('\n'); at != std::string::npos; at = content.find('\n', at + 1)) {
      content.insert(at + 1, 16, ' ');
    }
    text += fmt::format("  {:<14}{}\n", info.name, content);
  }
  return text + fmt::format("  {:<14}{}\n", memory_word,
                            "what memory costs, in place of what a machine file says of it: ACPI's HMAT, the output\n"
                            "                of Intel's mlc, or a directory with access classes; never recognized");
}

}  // namespace

void add_import(Parser& parser) {
  auto arguments = std::make_shared<ImportFlags>();
  Command command = parser.add("import", "Make a machine file from published measurements");
  command.words("source", arguments->words, "SOURCE",
                "[FORMAT] PATH; the format may be left out; - for standard input");
  command.number("--send-share", arguments->options.send_share, 0, 1,
                 "formats with latencies: part of the latency that blocks the sender (default 0.25)");
  command.number("--ghz", arguments->options.ghz, 0.001, 1000,
                 "formats with cycles: cycles per ns (default 1: leave the numbers as they are)");
  command.text("-m,--model", arguments->model, "FILE", "memory: the machine that it belongs to (default: this one)");
  add_produce_options(command, arguments->produce);
  command.footer(formats_text() +
                 "\nExamples:\n"
                 "  smelt import core-to-core epyc.csv -o epyc.json\n"
                 "  smelt import machinedb sbrinz1/ --ghz 2.5 -o sbrinz1.json\n"
                 "  smelt import memory mlc.txt -m server.json -o server.json\n"
                 "  smelt import memory /sys/firmware/acpi/tables/HMAT | smelt show -\n"
                 "  c2clat | smelt import - | smelt show -\n");
  command.action([arguments, command] {
    arguments->has_share = command.given("--send-share");
    arguments->has_ghz = command.given("--ghz");
    run(*arguments);
  });
}

}  // namespace smelt::cli
