#include "comm/group/shared_config.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "plan/candidates.hpp"

namespace smelt::comm {
namespace {

using Json = nlohmann::json;

Json to_json(const std::optional<Tree>& tree) {
  return tree ? Json{{"root", tree->root}, {"children", tree->children}} : Json();
}

std::optional<Tree> tree_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return Tree{json.at("root").get<int>(), json.at("children").get<std::vector<std::vector<int>>>()};
}

}  // namespace

std::string format_shared_config(const SharedConfig& shared_config) {
  Json plans = Json::array();
  for (int i = 0; i < operation_count && has_tree_plan(static_cast<Operation>(i)); ++i) {
    const Plan& plan = shared_config.plans[i];
    plans.push_back({{"topology", plan.topology},
                     {"reduce", to_json(plan.reduce_tree)},
                     {"broadcast", to_json(plan.broadcast_tree)},
                     {"reason", plan.reason}});
  }
  const Json json = {{"group", shared_config.group.pus},
                     {"topology", shared_config.options.topology},
                     {"barrier", shared_config.options.barrier},
                     {"algorithm", shared_config.options.algorithm},
                     {"search_ms", shared_config.options.search_ms},
                     {"late_ns", shared_config.options.late_ns},
                     {"plans", plans},
                     {"parallelism", shared_config.parallelism},
                     {"profile", shared_config.profile}};
  return format_machine(shared_config.machine) + '\n' + json.dump();
}

Result<SharedConfig> parse_shared_config(std::string_view text) {
  try {
    const auto machine_end = std::min(text.rfind('\n'), text.size());
    auto machine = parse_machine(text.substr(0, machine_end), "the communicator's shared configuration");
    if (!machine) return machine.error();
    const Json json = Json::parse(text.substr(machine_end));
    SharedConfig shared_config;
    shared_config.machine = std::move(*machine);
    shared_config.group.pus = json.at("group").get<std::vector<int>>();
    shared_config.options.topology = json.at("topology").get<std::string>();
    shared_config.options.barrier = json.at("barrier").get<std::string>();
    shared_config.options.algorithm = json.at("algorithm").get<std::string>();
    shared_config.options.search_ms = json.at("search_ms").get<double>();
    shared_config.options.late_ns = json.at("late_ns").get<std::vector<double>>();
    shared_config.parallelism = json.at("parallelism").get<int>();
    shared_config.profile = json.at("profile").get<std::string>();
    for (std::size_t i = 0; i < json.at("plans").size(); ++i) {
      const Json& each = json.at("plans")[i];
      const auto operation = static_cast<Operation>(i);
      plan::Problem problem(shared_config.machine, shared_config.group, operation);
      plan::Solution solution{each.at("topology").get<std::string>(), tree_from(each.at("reduce")),
                              tree_from(each.at("broadcast")), 0.0};
      auto plan = plan::make_plan_of(problem, shared_config.group, std::move(solution), false);
      if (!plan) return plan.error();
      plan->reason = each.at("reason").get<std::string>();
      shared_config.plans[i] = std::move(*plan);
    }
    return shared_config;
  } catch (const Json::exception& wrong) {
    return make_error(Status::bad_format,
                      "the communicator's shared configuration, from a process of another version: {}", wrong.what());
  }
}

}  // namespace smelt::comm
