// Writes the seeds of load_machine_fuzz into a directory: machine files with and without every
// optional part, and a core-to-core table.
#include <cstdio>
#include <fstream>
#include <string>

#include "smelt/machine.hpp"

namespace {

bool write(const std::string& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  return static_cast<bool>(stream.flush());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::string directory = argv[1];
  auto machine = smelt::synthesize_machine({.packages = 2, .cores = 2, .jitter = 0.1});
  if (!machine) return 1;
  bool good = write(directory + "/plain.json", smelt::format_machine(*machine));
  machine->rtt_ns = machine->propagation_ns = machine->exchange_ns = machine->send_ns;
  machine->send_spread = machine->recv_spread = machine->send_ns;
  machine->send_burst_ns = {1.5, 20, 300};
  machine->page_sizes_bytes = {4096, 2097152};
  machine->measured_at = "2026-01-01T00:00:00Z";
  good &= write(directory + "/full.json", smelt::format_machine(*machine));
  good &= write(directory + "/minimal.json",
                R"({"schema":"smelt-machine/1","name":"n","pus":[{"os_index":0}],"send_ns":[[0]],"recv_ns":[[0]]})");
  good &= write(directory + "/unknown.json", R"({"x":[1,{"y":"\u00e9"}],"schema":"smelt-machine/1"})");
  good &= write(directory + "/table.csv", "c,,,\n7,,,\n20,21,,\n80,81.5,82,\n");
  return good ? 0 : 1;
}
