// The core-to-core importer over any stream, for tests and fuzzing.
#pragma once

#include <istream>
#include <string>

#include "smelt/machine.hpp"

namespace smelt {

/// As import_core_to_core; `origin` stands for the file name in errors.
Result<Machine> parse_core_to_core(std::istream& csv, const std::string& origin, double send_share);

}  // namespace smelt
