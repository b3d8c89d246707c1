// Question: how long does it take to read and to write a machine file, by number of PUs?
// Method: synthetic machines, in memory; what is read back is compared with what was written.
// Expected shape: linear in the size of the file, that is, quadratic in the PUs.
#include <benchmark/benchmark.h>

#include "smelt/machine.hpp"

namespace {

smelt::Machine machine_of(int pus) {
  smelt::SynthSpec spec;
  spec.cores = pus;
  auto machine = smelt::synthesize_machine(spec);
  return machine ? *std::move(machine) : smelt::Machine{};
}

void count_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * static_cast<std::int64_t>(state.iterations()));
}

void read_machine(benchmark::State& state) {
  const smelt::Machine machine = machine_of(static_cast<int>(state.range(0)));
  const std::string text = smelt::format_machine(machine);
  for (auto _ : state) {
    auto back = smelt::parse_machine(text, "benchmark");
    if (!back || back->send_ns != machine.send_ns) {
      state.SkipWithError(back ? "another machine came back" : back.error().message.c_str());
      break;
    }
  }
  count_bytes(state, text.size());
}

void write_machine(benchmark::State& state) {
  const smelt::Machine machine = machine_of(static_cast<int>(state.range(0)));
  std::size_t bytes = 0;
  for (auto _ : state) bytes = smelt::format_machine(machine).size();
  count_bytes(state, bytes);
}

BENCHMARK(read_machine)->Arg(8)->Arg(64)->Arg(512)->Unit(benchmark::kMicrosecond);
BENCHMARK(write_machine)->Arg(8)->Arg(64)->Arg(512)->Unit(benchmark::kMicrosecond);

}  // namespace
