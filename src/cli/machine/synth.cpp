// smelt synth: makes up a machine.
#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/parser.hpp"
#include "cli/produce.hpp"

namespace smelt::cli {
namespace {

constexpr int max_count = 4096;
constexpr double max_ns = 1e9;

struct SynthFlags {
  SynthSpec spec;
  std::string name;
  ProduceArguments produce;
};

void run(const SynthFlags& arguments) {
  if (arguments.name.size() > most_text_bytes) fail_usage("--name: longer than {} bytes", most_text_bytes);
  Machine machine = take(synthesize_machine(arguments.spec));
  if (!arguments.name.empty()) machine.name = arguments.name;
  produce(machine, arguments.produce);
}

void add_costs(Command& command, SynthSpec& spec) {
  const auto level = [&](const char* option, double& cost, const char* what) {
    command.number(option, cost, 0, max_ns, fmt::format("one-way latency, {} (default {:g})", what, cost));
  };
  level("--smt-ns", spec.smt_ns, "PUs of one core");
  level("--l3-ns", spec.l3_ns, "cores of one L3");
  level("--numa-ns", spec.numa_ns, "L3s of one NUMA node");
  level("--package-ns", spec.package_ns, "NUMA nodes of one package");
  level("--remote-ns", spec.remote_ns, "packages");
  command.number("--send-share", spec.send_share, 0, 1, "part of it that blocks the sender (default 0.25)");
  command.number("--jitter", spec.jitter, 0, 0.99, "relative difference between pairs, such as 0.1 (default 0)");
}

}  // namespace

void add_synth(Parser& parser) {
  auto arguments = std::make_shared<SynthFlags>();
  auto& spec = arguments->spec;
  Command command = parser.add("synth", "Make a synthetic machine, to plan for hardware that is not at hand");
  command.integer("--packages", spec.packages, 1, max_count, "packages (default 1)");
  command.integer("--numa,--numa-per-package", spec.numa_per_package, 1, max_count,
                  "NUMA nodes per package (default 1)");
  command.integer("--cores", spec.cores, 1, max_count, "cores per package (default 8)");
  command.integer("--smt", spec.smt, 1, max_count, "PUs per core (default 1)");
  command.integer("--l3", spec.l3, 1, max_count, "L3 caches per package (default 1)");
  add_costs(command, spec);
  command.value(
      "--seed", "N",
      [arguments = arguments.get()](const std::string& text) {
        arguments->spec.seed = static_cast<std::uint64_t>(parse_integer("--seed", text, 0, 999999999));
      },
      "of the jitter: same seed, same machine (default 1)");
  command.text("--name", arguments->name, "TEXT", "name of the machine");
  add_produce_options(command, arguments->produce);
  command.footer(
      "At most 16384 PUs. All costs in ns.\n\n"
      "Examples:\n"
      "  smelt synth --packages 2 --cores 16 --smt 2 -o two.json\n"
      "  smelt synth --packages 8 --cores 64 --smt 2 --l3 8 --remote-ns 350 --jitter 0.1 -o big.json\n"
      "  smelt synth --cores 8 | smelt plan -m -\n");
  command.action([arguments] { run(*arguments); });
}

}  // namespace smelt::cli
