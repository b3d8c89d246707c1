// The one table of environment settings. Arguments win over the environment, the environment
// over the defaults written here.
#pragma once

#include <string>
#include <vector>

namespace smelt {

struct Setting {
  const char* name;           ///< of the environment variable, SMELT_*
  const char* default_value;  ///< what holds when it is unset
  const char* description;    ///< one line, with the unit and the accepted values
};

/// Every SMELT_* variable that the library reads, by name.
const std::vector<Setting>& settings();

/// The value in force: the environment's, or the default. Empty for an unknown name.
std::string setting_value(const std::string& name);

/// Problems with the environment, one line each: unknown SMELT_* names and values out of range.
std::vector<std::string> check_settings();

}  // namespace smelt
