// Shared by explain and compare for maps: platforms, loads, consistency.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "smelt/map_model.hpp"

namespace smelt::cli {

/// The options of a load, and where it runs.
struct MapArguments {
  std::string platform;  ///< empty: a machine's model
  std::string consistency = "linearizable";
  std::string faults = "none";
  double keys = 1000;
  double skew = 0.0;
  std::optional<double> hash{}, access{};
};

/// Names of the options that add_map_options() adds.
const std::vector<std::string>& map_options();
void add_map_options(Command& command, MapArguments& arguments);

/// tile-gx, intermediate, ideal.
MapPlatform parse_platform(const std::string& option, const std::string& text);
Consistency parse_consistency(const std::string& option, const std::string& text);
Faults parse_faults(const std::string& option, const std::string& text);

/// Without a share of lookups.
MapLoad load_of(const MapArguments& arguments);

/// "0.985", with enough digits to distinguish it from 1.
std::string format_share(double share);

/// {lookups, keys, skew, ...}
Json load_document(const MapLoad& load);
Json platform_document(const MapPlatform& platform);

/// `smelt explain map`.
struct ExplainMap {
  MapArguments map;
  double lookups = 0.9;
  std::size_t value_bytes = 16;
  int ranks = 0;  ///< 0: all cores of the machine
  std::string model;
  bool json = false;
};
void explain_map(const ExplainMap& arguments);

/// `smelt compare --maps`.
struct CompareMaps {
  MapArguments map;
  std::string figure;   ///< "3.20f", "3.20", "all"; empty: the load and machine of the options
  std::string lookups;  ///< list; empty: .5, .9, .99
  int cores = 0;        ///< 0: all cores of the machine, or else 128
  std::string model, ranks;
  bool json = false;
};
void compare_maps(const CompareMaps& arguments);

}  // namespace smelt::cli
