// Porcupine on histories, through the program in linearizable/, which is built at the first use.
#pragma once

#include <string>
#include <vector>

#include "checker.hpp"

namespace smelt::state {

/// The reason why it cannot be used here, or "": Go is not installed, or its module is not available. Builds it once.
const std::string& porcupine_is_missing();

/// Each history's verdict. `picture`: an HTML file for the first that is violated; "": none.
/// Requires that it is not missing.
std::vector<Verdict> check_with_porcupine(const std::vector<std::vector<Event>>& histories, double limit_s = 60.0,
                                          const std::string& picture = "");

}  // namespace smelt::state
