// The rules that every machine keeps, whether it was read or is about to be written.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_map>

#include "base/error.hpp"
#include "machine/limits.hpp"
#include "machine/model/copy_costs.hpp"
#include "machine/model/model_file.hpp"

namespace smelt {
namespace {

Result<void> check_cost(const MatrixField& field, const std::string& place, double cost) {
  if (cost >= 0.0 && cost <= field.max_value) return {};
  return make_error(Status::bad_format, "{}.{}: must be 0..{}, is {}", field.key, place, field.max_value, cost);
}

/// Every class that the machine has has a cost, and all costs are in range.
Result<void> check_classes(const MatrixField& field, const CostsByClass& costs) {
  const Places& places = costs.places();
  const auto occurs = places.occurring();
  for (int a = 0; a < places.kinds(); ++a) {
    for (int b = 0; b < places.kinds(); ++b) {
      for (int shared = 0; shared < shared_count; ++shared) {
        if (!occurs[static_cast<std::size_t>(a * places.kinds() + b)][static_cast<std::size_t>(shared)]) continue;
        const auto name = class_key(places, a, b, static_cast<SharedUnits>(shared));
        const double cost = costs.class_cost(a, b, static_cast<SharedUnits>(shared));
        if (std::isnan(cost)) {
          return make_error(Status::bad_format, "{}.{}: missing: the machine has such pairs", field.key, name);
        }
        if (auto checked = check_cost(field, name, cost); !checked) return checked;
      }
    }
  }
  if (auto checked = check_cost(field, "own", costs.own()); !checked) return checked;
  if (field.zero_diagonal() && costs.own() != 0.0) {
    return make_error(Status::bad_format, "{}.own: must be 0 here, is {}", field.key, costs.own());
  }
  for (int level = 0; level <= pu_level; ++level) {
    for (const Residual& one : costs.residuals(level)) {
      const auto place =
          fmt::format("residuals.{}[{} -> {}]", unit_names[static_cast<std::size_t>(level)], one.from, one.to);
      if (auto checked = check_cost(field, place, one.cost); !checked) return checked;
      if (field.zero_diagonal() && level == pu_level && one.from == one.to && one.cost != 0.0) {
        return make_error(Status::bad_format, "{}.{}: must be 0 on the diagonal, is {}", field.key, place, one.cost);
      }
    }
  }
  return {};
}

Result<void> check_matrix(const MatrixField& field, const Matrix& matrix, std::size_t pus) {
  if (matrix.size() != pus) {
    return make_error(Status::bad_format, "{}: is {} x {}, but pus has {} entries", field.key, matrix.size(),
                      matrix.size(), pus);
  }
  if (matrix.classes() != nullptr) return check_classes(field, *matrix.classes());
  for (std::size_t i = 0; i < pus; ++i) {
    for (std::size_t j = 0; j < pus; ++j) {
      const double value = matrix(i, j);
      if (!(value >= 0.0 && value <= field.max_value)) {
        return make_error(Status::bad_format, "{}[{}][{}]: must be 0..{}, is {}", field.key, i, j, field.max_value,
                          value);
      }
    }
    if (field.zero_diagonal() && matrix(i, i) != 0.0) {
      return make_error(Status::bad_format, "{}[{}][{}]: must be 0 on the diagonal, is {}", field.key, i, i,
                        matrix(i, i));
    }
  }
  return {};
}

Result<void> check_number(const char* key, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return make_error(Status::bad_format, "{}: must be {}..{}, is {}", key, least, most, value);
}

Result<void> check_slowdowns(const char* key, const std::vector<double>& slowdowns, std::size_t pus) {
  const auto levels = contention_levels(pus);
  if (slowdowns.size() != levels) {
    return make_error(Status::bad_format, "{}: has {} entries, but {} PUs need {}: for 1, 2, 4, ... and all", key,
                      slowdowns.size(), pus, levels);
  }
  if (slowdowns[0] != 1.0) return make_error(Status::bad_format, "{}[0]: must be 1, is {}", key, slowdowns[0]);
  for (std::size_t k = 1; k < levels; ++k) {
    if (slowdowns[k] >= slowdowns[k - 1] && slowdowns[k] <= max_slowdown) continue;
    return make_error(Status::bad_format, "{}[{}]: must be {}..{}: no less than before, is {}", key, k,
                      slowdowns[k - 1], max_slowdown, slowdowns[k]);
  }
  return {};
}

Result<void> check_copy(const CopyCosts& copy, const Machine& machine) {
  for (const auto& field : copy_matrix_fields()) {
    if (auto checked = check_matrix(field, copy.*field.copy, machine.size()); !checked) return checked;
  }
  for (const auto& field : copy_number_fields()) {
    if (field.process != nullptr && !copy.process) continue;
    const double value = field.process != nullptr ? *copy.process.*field.process : copy.*field.member;
    if (auto checked = check_number(field.key, value, 0.0, field.max_value); !checked) return checked;
  }
  if (auto checked = check_number("copy.chunk_bytes", copy.chunk_bytes, 1.0, max_copied_bytes); !checked) {
    return checked;
  }
  const std::pair<const char*, double> sizes[] = {{"chunk_bytes", copy.chunk_bytes},
                                                  {"cached_bytes", copy.cached_bytes},
                                                  {"shared_bytes", copy.shared_bytes},
                                                  {"memory_bytes", copy.memory_bytes}};
  const auto* const small =
      std::adjacent_find(std::begin(sizes), std::end(sizes),
                         [](const auto& one, const auto& next) { return !(next.second > one.second); });
  if (small != std::end(sizes)) {
    return make_error(Status::bad_format, "copy.{}: must be more than {}, which is {}, is {}", small[1].first,
                      small->first, small->second, small[1].second);
  }
  for (const auto& field : copy_list_fields()) {
    if (auto checked = check_slowdowns(field.key, copy.*field.member, machine.size()); !checked) return checked;
  }
  return {};
}

/// Matrices over the NUMA nodes; as many numbers in each list as there are page sizes.
Result<void> check_memory(const MemoryCosts& memory, const Machine& machine) {
  for (const auto& field : memory_matrix_fields()) {
    const Matrix& matrix = memory.*field.memory;
    if (matrix.size() != machine.numa_nodes.size()) {
      return make_error(Status::bad_format, "{}: is {} x {}, but numa_nodes has {} entries", field.key, matrix.size(),
                        matrix.size(), machine.numa_nodes.size());
    }
    if (auto checked = check_matrix(field, matrix, matrix.size()); !checked) return checked;
  }
  for (const auto& field : memory_number_fields()) {
    if (auto checked = check_number(field.key, memory.*field.memory, 0.0, field.max_value); !checked) return checked;
  }
  for (const auto& field : memory_list_fields()) {
    const auto& list = memory.*field.memory;
    if (list.empty() || list.size() != memory.page_bytes.size()) {
      return make_error(Status::bad_format, "{}: has {} entries, but memory.page_bytes has {}; at least 1", field.key,
                        list.size(), memory.page_bytes.size());
    }
    for (const double value : list) {
      if (auto checked = check_number(field.key, value, 0.0, field.max_value); !checked) return checked;
    }
  }
  for (std::size_t k = 1; k < memory.page_bytes.size(); ++k) {
    if (memory.page_bytes[k] > memory.page_bytes[k - 1]) continue;
    return make_error(Status::bad_format, "memory.page_bytes[{}]: must be more than the one before", k);
  }
  return {};
}

}  // namespace

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

std::string class_key(const Places& places, int kind_a, int kind_b, SharedUnits shared) {
  if (places.kinds() == 1) return name_of(shared);
  const auto& classes = places.efficiency_classes();
  return fmt::format("{}:{}>{}", name_of(shared), classes[static_cast<std::size_t>(kind_a)],
                     classes[static_cast<std::size_t>(kind_b)]);
}

const Matrix* MatrixField::in(const Machine& machine) const {
  if (memory != nullptr) return machine.memory ? &(*machine.memory.*memory) : nullptr;
  if (copy != nullptr) return machine.copy ? &(*machine.copy.*copy) : nullptr;
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
      {"send_gap_ns", nullptr, &Machine::send_gap_ns, max_cost_ns},
      {"recv_gap_ns", nullptr, &Machine::recv_gap_ns, max_cost_ns},
      {"send_spread", nullptr, &Machine::send_spread, max_spread},
      {"recv_spread", nullptr, &Machine::recv_spread, max_spread},
  };
  return fields;
}

const std::vector<CostField>& cost_fields() {
  static const std::vector<CostField> fields = {{"call_ns", &Machine::call_ns},
                                                {"barrier_call_ns", &Machine::barrier_call_ns},
                                                {"switch_ns", &Machine::switch_ns},
                                                {"process_switch_ns", &Machine::process_switch_ns},
                                                {"rewrite_share", &Machine::rewrite_share},
                                                {"combine_rewrite_share", &Machine::combine_rewrite_share},
                                                {"source_ns_per_kib", &Machine::source_ns_per_kib},
                                                {"near_source_ns_per_kib", &Machine::near_source_ns_per_kib},
                                                {"near_bytes", &Machine::near_bytes},
                                                {"process_pages_ns_per_kib", &Machine::process_pages_ns_per_kib},
                                                {"change_ns_per_kib", &Machine::change_ns_per_kib},
                                                {"counter_ns", &Machine::counter_ns}};
  return fields;
}

const std::vector<CostListField>& cost_list_fields() {
  static const std::vector<CostListField> fields = {{"send_burst", &Machine::send_burst_ns},
                                                    {"recv_burst", &Machine::recv_burst_ns},
                                                    {"recv_row", &Machine::recv_row_ns},
                                                    {"fan_out", &Machine::fan_out_ns},
                                                    {"poll", &Machine::poll_ns},
                                                    {"lines", &Machine::lines_ns},
                                                    {"chunk_contention", &Machine::chunk_contention},
                                                    {"combine_share", &Machine::combine_share}};
  return fields;
}

const std::vector<MatrixField>& copy_matrix_fields() {
  static const std::vector<MatrixField> fields = {
      {"copy.startup_ns", nullptr, nullptr, max_cost_ns, &CopyCosts::startup_ns},
      {"copy.chunk_ns_per_kib", nullptr, nullptr, max_cost_ns, &CopyCosts::chunk_ns_per_kib},
      {"copy.cached_ns_per_kib", nullptr, nullptr, max_cost_ns, &CopyCosts::cached_ns_per_kib},
      {"copy.shared_ns_per_kib", nullptr, nullptr, max_cost_ns, &CopyCosts::shared_ns_per_kib},
      {"copy.memory_ns_per_kib", nullptr, nullptr, max_cost_ns, &CopyCosts::memory_ns_per_kib},
  };
  return fields;
}

const std::vector<MatrixField>& memory_matrix_fields() {
  using Costs = MemoryCosts;
  static const std::vector<MatrixField> fields = {
      {"memory.latency_ns", nullptr, nullptr, max_cost_ns, nullptr, &Costs::latency_ns},
      {"memory.gather_ns", nullptr, nullptr, max_cost_ns, nullptr, &Costs::gather_ns},
      {"memory.read_gbs", nullptr, nullptr, max_gbs, nullptr, &Costs::read_gbs},
      {"memory.write_gbs", nullptr, nullptr, max_gbs, nullptr, &Costs::write_gbs},
      {"memory.read_all_gbs", nullptr, nullptr, max_gbs, nullptr, &Costs::read_all_gbs},
      {"memory.write_all_gbs", nullptr, nullptr, max_gbs, nullptr, &Costs::write_all_gbs},
  };
  return fields;
}

const std::vector<CopyNumberField>& memory_number_fields() {
  using Costs = MemoryCosts;
  static const std::vector<CopyNumberField> fields = {
      {"memory.interleaved_gbs", max_gbs, nullptr, nullptr, &Costs::interleaved_gbs},
      {"memory.copy_memcpy_gbs", max_gbs, nullptr, nullptr, &Costs::copy_memcpy_gbs},
      {"memory.copy_nontemporal_gbs", max_gbs, nullptr, nullptr, &Costs::copy_nontemporal_gbs},
      {"memory.copy_string_gbs", max_gbs, nullptr, nullptr, &Costs::copy_string_gbs},
      {"memory.copy_threads_gbs", max_gbs, nullptr, nullptr, &Costs::copy_threads_gbs},
  };
  return fields;
}

const std::vector<CopyListField>& memory_list_fields() {
  using Costs = MemoryCosts;
  static const std::vector<CopyListField> fields = {
      {"memory.page_bytes", nullptr, &Costs::page_bytes, max_copied_bytes},
      {"memory.walk_ns", nullptr, &Costs::walk_ns, max_cost_ns},
      {"memory.gather_walk_ns", nullptr, &Costs::gather_walk_ns, max_cost_ns},
      {"memory.reach_bytes", nullptr, &Costs::reach_bytes, max_copied_bytes},
      {"memory.touch_ns_per_mib", nullptr, &Costs::touch_ns_per_mib, max_cost_ns},
  };
  return fields;
}

const std::vector<CopyNumberField>& copy_number_fields() {
  static const std::vector<CopyNumberField> fields = {
      {"copy.chunk_bytes", max_copied_bytes, &CopyCosts::chunk_bytes},
      {"copy.cached_bytes", max_copied_bytes, &CopyCosts::cached_bytes},
      {"copy.shared_bytes", max_copied_bytes, &CopyCosts::shared_bytes},
      {"copy.memory_bytes", max_copied_bytes, &CopyCosts::memory_bytes},
      {"copy.add_ns_per_kib", max_cost_ns, &CopyCosts::add_ns_per_kib},
      {"copy.process_call_ns", max_cost_ns, nullptr, &ProcessCopyCosts::call_ns},
      {"copy.process_ns_per_kib", max_cost_ns, nullptr, &ProcessCopyCosts::ns_per_kib},
  };
  return fields;
}

const std::vector<CopyListField>& copy_list_fields() {
  static const std::vector<CopyListField> fields = {
      {"copy.cached_contention", &CopyCosts::cached_contention, nullptr, max_slowdown},
      {"copy.shared_contention", &CopyCosts::shared_contention, nullptr, max_slowdown},
      {"copy.memory_contention", &CopyCosts::memory_contention, nullptr, max_slowdown},
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
  for (const auto& [key, number] : cost_fields()) {
    if (auto checked = check_number(key, (machine.*number).value_or(0.0), 0.0, max_cost_ns); !checked) return checked;
  }
  for (const auto& [key, list] : cost_list_fields()) {
    const auto& costs = machine.*list;
    for (std::size_t k = 0; k < costs.size(); ++k) {
      if (costs[k] >= 0.0 && costs[k] <= max_cost_ns) continue;
      return make_error(Status::bad_format, "{}[{}]: must be 0..{}, is {}", key, k, max_cost_ns, costs[k]);
    }
  }
  if (machine.copy) {
    if (auto checked = check_copy(*machine.copy, machine); !checked) return checked;
  }
  if (machine.memory) {
    if (auto checked = check_memory(*machine.memory, machine); !checked) return checked;
  }
  const std::pair<const char*, const std::string&> texts[] = {{"name", machine.name},
                                                              {"fingerprint", machine.fingerprint},
                                                              {"measured_at", machine.measured_at},
                                                              {"method", machine.method}};
  for (const auto& [key, text] : texts) {
    if (text.size() <= most_text_bytes) continue;
    return make_error(Status::bad_format, "{}: longer than {} bytes", key, most_text_bytes);
  }
  if (!(machine.tsc_ghz >= 0.0 && machine.tsc_ghz <= max_ghz)) {
    return make_error(Status::bad_format, "tsc_ghz: must be 0..{}, is {}", max_ghz, machine.tsc_ghz);
  }
  return {};
}

}  // namespace smelt
