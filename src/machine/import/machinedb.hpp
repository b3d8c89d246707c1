// The importer of machinedb directories, from streams.
#pragma once

#include <istream>
#include <string>

#include "smelt/machine.hpp"

namespace smelt {

/// A file and its name, for errors; without a stream there is none.
struct MachinedbFile {
  std::string name;
  std::istream* stream = nullptr;
};

struct MachinedbFiles {
  MachinedbFile send, receive;  ///< required
  MachinedbFile rtt, lscpu;
};

/// import_machinedb() for files that are open already; `name` becomes that of the machine.
Result<Machine> parse_machinedb(const MachinedbFiles& files, const std::string& name, double ghz);

}  // namespace smelt
