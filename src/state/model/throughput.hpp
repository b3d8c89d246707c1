// The costs of each algorithm by the equations of docs/reference/map-model.md, before they are combined.
//
// An operation takes the client's time and possibly a server's. A client that waits for an answer is idle and handles
// messages of other clients' updates ("interrupts" in the text). The interrupts that do not fit are added.
#pragma once

#include <array>

#include "smelt/map_model.hpp"

namespace smelt::state {

/// A duration in cycles, and its number per operation.
struct Periods {
  double cycles = 0.0;
  double count = 0.0;
};

/// What an operation costs, in cycles.
struct MapCosts {
  double client_lookup = 0.0;           ///< T^c_lup
  double client_update = 0.0;           ///< T^c_upd, with all interrupts
  double server_lookup = 0.0;           ///< T^s_lup
  double server_update = 0.0;           ///< T^s_upd
  std::array<Periods, 2> idle{};        ///< T_idle, n_idle
  std::array<Periods, 2> interrupts{};  ///< T_int, n_int
  double lost = 0.0;    ///< a client's time per operation in which it serves others or waits for such a one
  double serial = 0.0;  ///< time per operation in a resource that all operations use one after the other
};

struct MapDefinition;

/// One question to the model.
struct MapSetting {
  const MapPlatform& platform;
  const MapLoad& load;
  int clients;
  int servers;
};

MapCosts part_simple_costs(const MapSetting& setting);
MapCosts part_caching_costs(const MapSetting& setting);
MapCosts rep_remote_costs(const MapSetting& setting);
MapCosts rep_local_costs(const MapSetting& setting);
MapCosts rep_2pc_costs(const MapSetting& setting);
MapCosts rep_sc_costs(const MapSetting& setting);
MapCosts shared_costs(const MapSetting& setting);
MapCosts kv_costs(const MapSetting& setting);

/// Software costs of part_caching: to keep account of a copy, per miss and per update; of an operation at the server.
struct PartCachingSoftware {
  double copying = 0.0;
  double lookup = 0.0;
  double update = 0.0;
};
/// The issuer of an update has dropped its own copy.
MapCosts part_caching_as_built_costs(const MapSetting& setting, const PartCachingSoftware& software);
/// The equations of smelt's implementation, for platforms with `software_cycle`.
MapCosts as_built_costs(const MapDefinition& map, const MapSetting& setting);
/// o_lup, o_upd of a table with all keys; o_pre.
double access_of(const MapSetting& setting);
double hash_of(const MapSetting& setting);

/// O_c: cycles per operation of interrupts that fall into idle periods, at most. (3.14) to (3.17), (3.24), (3.25).
double overlap(const MapCosts& costs);

}  // namespace smelt::state
