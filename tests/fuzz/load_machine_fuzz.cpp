// libFuzzer target: the readers of foreign files. The first byte chooses the reader, the rest is
// the file. A machine that was accepted must survive being written and read again.
//
//   'c'        core-to-core table
//   anything   machine file; the byte is part of it
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "machine/import_core_to_core.hpp"
#include "smelt/machine.hpp"

namespace {

void require(bool holds, const char* what, const std::string& detail = {}) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, detail.c_str());
  std::abort();
}

void check(const smelt::Result<smelt::Machine>& machine) {
  if (!machine) {
    const auto& message = machine.error().message;
    require(message.rfind("fuzz: ", 0) == 0, "the message names no file", message);
    require(message.find('\n') == std::string::npos, "the message has several lines", message);
    return;
  }
  require(machine->has_costs() || machine->send_ns.empty(), "half a machine");
  const auto again = smelt::parse_machine(smelt::format_machine(*machine), "again");
  require(static_cast<bool>(again), "not readable again", again ? "" : again.error().message);
  require(*again == *machine, "changed by being written and read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!text.empty() && text.front() == 'c') {
    std::istringstream csv(text.substr(1));
    check(smelt::parse_core_to_core(csv, "fuzz", 0.25));
  } else {
    check(smelt::parse_machine(text, "fuzz"));
  }
  return 0;
}
