// Every registered importer that reads a file. Seeds: their samples, and the files in corpus/importers.
#include <algorithm>
#include <sstream>

#include "fuzz.hpp"
#include "machine/import/importer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto* importer : smelt::all_importers()) {
    if (importer->info.directory) continue;
    std::istringstream file{std::string(smelt::fuzz::text_of(data, size))};
    smelt::fuzz::check_machine_or_error(importer->parse(file, "fuzz", {}), "fuzz: ");
  }
  return 0;
}

/// Replaces every hundredth input by a sample, so that an importer needs no files of its own in the corpus.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  const auto& importers = smelt::all_importers();
  const auto sample = importers[seed / 100 % importers.size()]->sample;
  if (seed % 100 != 0 || sample.empty() || sample.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(sample.begin(), sample.end(), data);
  return LLVMFuzzerMutate(data, sample.size(), most);
}
