// All JSON that the command writes or reads, except machine files. Keys may be added, but never renamed: programs read
// them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt::cli {

using Json = nlohmann::ordered_json;

/// Text that may be from a user's file, without control characters, and not too long for a line.
std::string one_line(std::string text);

/// One key per line, with deeper levels on the same line. Arrays of objects and of arrays have one element per line.
std::string format_json(const Json& document);

/// {"name":..., "fingerprint":...}
Json machine_identity(const Machine& machine);

/// A machine file as a document, to which a command adds keys of its own.
Json machine_document(const Machine& machine);

/// What `smelt plan --json` prints.
Json plan_document(const Machine& machine, const Plan& plan, bool with_steps);

/// Reads a plan in the form of plan_document, for `machine`: PUs are found by os_index. Costs are not taken over.
/// Throws a Failure that names `origin`, key and reason.
Plan parse_plan_document(const Machine& machine, const std::string& text, const std::string& origin);

Json timeline_document(const Simulation& simulation);

/// Whether a two-phase commit ends with an allreduce by recursive doubling, not up and down its trees.
bool exchanges_votes(const Plan& plan);

const char* step_name(Step::Kind kind);

/// os_index of each rank's PU.
std::vector<int> os_indices(const Machine& machine, const Group& group);

/// Writes through a temporary file beside `file`. Throws Failure.
void write_file(const std::string& file, const std::string& text);
std::string read_file(const std::string& file);

/// A Failure if write_file could not write there now. For commands that take long before they write.
void check_writable(const std::string& file);

}  // namespace smelt::cli
