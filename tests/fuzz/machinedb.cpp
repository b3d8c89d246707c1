// Machinedb directories: the files send, receive, rtt and lscpu_parse.
#include "machine/import/machinedb.hpp"

#include <sstream>

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto files = smelt::fuzz::files_of(smelt::fuzz::text_of(data, size));
  std::map<std::string, std::istringstream> streams;
  const auto file = [&](const char* name) -> smelt::MachinedbFile {
    const auto found = files.find(name);
    if (found == files.end()) return {};
    return {std::string("fuzz/") + name, &streams.emplace(name, found->second).first->second};
  };
  const smelt::MachinedbFiles all = {file("send"), file("receive"), file("rtt"), file("lscpu_parse")};
  if (all.send.stream == nullptr || all.receive.stream == nullptr) return -1;
  smelt::fuzz::check_machine_or_error(smelt::parse_machinedb(all, "fuzz", 2.5), "fuzz/");
  return 0;
}
