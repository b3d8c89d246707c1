// Graph programs: for any text, the front end ends, with messages that point into the text. A program without errors is
// explained and becomes C++, the same each time.
#include <algorithm>

#include "fuzz.hpp"
#include "smelt/green_marl.hpp"

namespace {

using smelt::fuzz::require;
namespace graph = smelt::graph;

void check_messages(const graph::GreenMarl& program, std::string_view text) {
  const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n')) + 1;
  bool errors = false;
  for (const auto& message : program.messages()) {
    smelt::fuzz::check_message(message.text);
    require(message.line >= 1 && message.line <= lines, "a message about a line that is not there", message.text);
    require(message.column >= 1 && message.column <= static_cast<int>(text.size()) + 1, "a message about no column",
            message.text);
    errors |= message.severity == graph::Message::Severity::error;
  }
  require(errors != program.good(), "neither good nor wrong");
  require(program.formatted_messages().empty() == program.messages().empty(), "messages are not shown");
}

void check_code(const graph::GreenMarl& program, const graph::CompileOptions& options) {
  const auto code = program.cpp(options);
  require(!code.empty(), "no code");
  require(code == program.cpp(options), "other code for the same program");
  for (const auto& decision : program.decisions(options)) smelt::fuzz::check_message(decision.text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(smelt::fuzz::text_of(data, size));
  const auto program = graph::GreenMarl::parse("fuzz.gm", text);
  check_messages(program, text);
  if (!program.good()) return 0;
  for (const auto& procedure : program.procedures()) {
    for (const auto& array : program.arrays(procedure.name)) {
      require(!array.name.empty() && !array.reads.empty() && !array.writes.empty(), "an array without formulas",
              array.name);
    }
  }
  program.main_procedure();
  graph::CompileOptions options;
  check_code(program, options);
  options.neighbours =
      size % 2 == 0 ? graph::CompileOptions::Neighbours::push : graph::CompileOptions::Neighbours::pull;
  options.fuse = size % 3 != 0;
  options.precompute = size % 5 != 0;
  options.merge = size % 7 != 0;
  check_code(program, options);
  return 0;
}
