// Topologies as hwloc exports them, which stand in for the hardware (HWLOC_XMLFILE). hwloc reads the file; what it makes
// of it must be a machine or an error here.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "fuzz.hpp"

namespace {

struct File {
  File() { setenv("HWLOC_XMLFILE", path.c_str(), 1); }
  ~File() { unlink(path.c_str()); }
  const std::string path = "/dev/shm/smelt-fuzz-" + std::to_string(getpid()) + ".xml";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const File file;
  std::ofstream(file.path, std::ios::binary) << smelt::fuzz::text_of(data, size);
  auto machine = smelt::discover_machine();
  if (!machine) smelt::fuzz::check_message(machine.error().message);
  if (machine) smelt::fuzz::require(!machine->pus.empty() && !machine->has_costs(), "no machine");
  return 0;
}
