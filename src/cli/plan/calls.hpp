// Shared by tune and explain: operations with recipes, synchronization, sizes, groups by their size.
#pragma once

#include <string>
#include <vector>

#include "smelt/machine.hpp"
#include "smelt/plan.hpp"
#include "smelt/profile.hpp"

namespace smelt::cli {

/// One of tunable_operations(); otherwise a Failure with a suggestion.
Operation parse_tunable_operation(const std::string& option, const std::string& text);

/// "loose", "strict".
Sync parse_sync(const std::string& option, const std::string& text);

/// "8", "64K", "16MiB": up to 1 GiB.
std::size_t parse_byte_count(const std::string& option, const std::string& text);

/// "8 B", "64 KiB", "1.5 MiB".
std::string format_byte_count(std::size_t bytes);

/// A group of `ranks` ranks on a machine, placed as by communicators; 0: one per core. Respects this process's
/// allowance if the machine is this one.
Group group_of(const Machine& machine, bool own, int ranks);

/// "+12 %", or "equal".
std::string loss_text(double ns, double best_ns, bool equal);

/// `smelt tune --compare`: how far two profiles agree.
void compare_tunings(const std::vector<std::string>& files, bool json);

}  // namespace smelt::cli
