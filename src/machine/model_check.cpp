// The rules that every machine keeps, whether it was read or is about to be written.
#include <cmath>
#include <unordered_map>

#include "base/error.hpp"
#include "machine/limits.hpp"
#include "machine/model_file.hpp"

namespace smelt {
namespace {

Result<void> check_pus(const Machine& machine) {
  if (machine.pus.empty()) return make_error(Status::bad_format, "pus: a machine has at least one PU");
  if (machine.pus.size() > max_pus) {
    return make_error(Status::bad_format, "pus: {} PUs, but at most {} are supported", machine.pus.size(), max_pus);
  }
  std::unordered_map<int, std::size_t> seen;
  for (std::size_t i = 0; i < machine.pus.size(); ++i) {
    const auto& pu = machine.pus[i];
    const std::pair<const char*, int> ids[] = {{"os_index", pu.os_index},
                                               {"core", pu.core},
                                               {"package", pu.package},
                                               {"numa_node", pu.numa_node},
                                               {"l2", pu.l2},
                                               {"l3", pu.l3},
                                               {"efficiency_class", pu.efficiency_class}};
    for (const auto& [key, id] : ids) {
      if (id < 0 || id > max_id) {
        return make_error(Status::bad_format, "pus[{}].{}: must be 0..{}, is {}", i, key, max_id, id);
      }
    }
    const auto [first, fresh] = seen.emplace(pu.os_index, i);
    if (!fresh) {
      return make_error(Status::bad_format, "pus[{}].os_index: {} is a duplicate of pus[{}]", i, pu.os_index,
                        first->second);
    }
    if (!machine.numa_nodes.empty() && pu.numa_node >= static_cast<int>(machine.numa_nodes.size())) {
      return make_error(Status::bad_format, "pus[{}].numa_node: is {}, but numa_nodes has {} entries", i, pu.numa_node,
                        machine.numa_nodes.size());
    }
  }
  return {};
}

Result<void> check_matrix(const MatrixField& field, const Matrix& matrix, std::size_t pus) {
  if (matrix.size() != pus) {
    return make_error(Status::bad_format, "{}: is {} x {}, but pus has {} entries", field.key, matrix.size(),
                      matrix.size(), pus);
  }
  for (std::size_t i = 0; i < pus; ++i) {
    for (std::size_t j = 0; j < pus; ++j) {
      const double value = matrix(i, j);
      if (!(value >= 0.0 && value <= field.max_value)) {
        return make_error(Status::bad_format, "{}[{}][{}]: must be 0..{}, is {}", field.key, i, j, field.max_value,
                          value);
      }
    }
    if (matrix(i, i) != 0.0) {
      return make_error(Status::bad_format, "{}[{}][{}]: must be 0 on the diagonal, is {}", field.key, i, i,
                        matrix(i, i));
    }
  }
  return {};
}

}  // namespace

const Matrix* MatrixField::in(const Machine& machine) const {
  if (required != nullptr) return (machine.*required).empty() ? nullptr : &(machine.*required);
  const auto& value = machine.*optional;
  return value ? &*value : nullptr;
}

const std::vector<MatrixField>& matrix_fields() {
  static const std::vector<MatrixField> fields = {
      {"send_ns", &Machine::send_ns, nullptr, max_cost_ns},
      {"recv_ns", &Machine::recv_ns, nullptr, max_cost_ns},
      {"rtt_ns", nullptr, &Machine::rtt_ns, max_cost_ns},
      {"propagation_ns", nullptr, &Machine::propagation_ns, max_cost_ns},
      {"exchange_ns", nullptr, &Machine::exchange_ns, max_cost_ns},
      {"send_spread", nullptr, &Machine::send_spread, max_spread},
      {"recv_spread", nullptr, &Machine::recv_spread, max_spread},
  };
  return fields;
}

Result<void> check_machine(const Machine& machine) {
  if (auto pus = check_pus(machine); !pus) return pus;
  for (const auto& field : matrix_fields()) {
    const auto* matrix = field.in(machine);
    if (matrix == nullptr) continue;
    if (auto checked = check_matrix(field, *matrix, machine.size()); !checked) return checked;
  }
  if (machine.send_ns.empty() != machine.recv_ns.empty()) {
    return make_error(Status::bad_format, "{} without {}: a machine has both or none",
                      machine.send_ns.empty() ? "recv_ns" : "send_ns", machine.send_ns.empty() ? "send_ns" : "recv_ns");
  }
  for (std::size_t k = 0; k < machine.send_burst_ns.size(); ++k) {
    if (!(machine.send_burst_ns[k] >= 0.0 && machine.send_burst_ns[k] <= max_cost_ns)) {
      return make_error(Status::bad_format, "send_burst[{}]: must be 0..{}, is {}", k, max_cost_ns,
                        machine.send_burst_ns[k]);
    }
  }
  if (!(machine.tsc_ghz >= 0.0 && machine.tsc_ghz <= max_ghz)) {
    return make_error(Status::bad_format, "tsc_ghz: must be 0..{}, is {}", max_ghz, machine.tsc_ghz);
  }
  return {};
}

}  // namespace smelt
