// An importer: a reader of one published format. registry.def lists all importers.
#pragma once

#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/machine.hpp"

namespace smelt {

struct Importer {
  ImporterInfo info;
  /// Whether a file that begins like this has the format. Null: a file that no other importer recognizes has it.
  bool (*recognizes)(std::string_view beginning) = nullptr;
  /// Reads a file; null for directories. Errors begin with `origin`, which stands for the file name.
  Result<Machine> (*parse)(std::istream& file, const std::string& origin, const ImportOptions& options) = nullptr;
  /// Reads a directory; null for files.
  Result<Machine> (*read)(const std::filesystem::path& directory, const ImportOptions& options) = nullptr;
  /// A complete small file of the format, for the tests.
  std::string_view sample{};
};

namespace formats {
#define IMPORTER(name) extern const Importer name;
#include "machine/import/registry.def"
#undef IMPORTER
}  // namespace formats

/// In the order of registry.def.
const std::vector<const Importer*>& all_importers();

/// A machine from one-way latencies in ns; its topology is inferred (clusters.hpp). `latency_ns`: rows are senders, the
/// diagonal is ignored. `method`: the name of the format. `os_indexes`: the number of each PU.
Machine machine_of_latencies(const Matrix& latency_ns, const std::string& name, std::string_view method,
                             const std::vector<int>& os_indexes, double send_share);

}  // namespace smelt
