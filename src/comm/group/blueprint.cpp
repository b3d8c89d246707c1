#include "comm/group/blueprint.hpp"

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

std::string format_blueprint(const Blueprint& blueprint) {
  Json plans = Json::array();
  for (int i = 0; i < operation_count && has_tree_plan(static_cast<Operation>(i)); ++i) {
    const Plan& plan = blueprint.plans[i];
    plans.push_back({{"topology", plan.topology},
                     {"reduce", to_json(plan.reduce_tree)},
                     {"broadcast", to_json(plan.broadcast_tree)},
                     {"reason", plan.reason}});
  }
  const Json json = {{"machine", Json::parse(format_machine(blueprint.machine))},
                     {"group", blueprint.group.pus},
                     {"topology", blueprint.options.topology},
                     {"barrier", blueprint.options.barrier},
                     {"algorithm", blueprint.options.algorithm},
                     {"search_ms", blueprint.options.search_ms},
                     {"late_ns", blueprint.options.late_ns},
                     {"plans", plans},
                     {"parallelism", blueprint.parallelism},
                     {"profile", blueprint.profile}};
  return json.dump();
}

Result<Blueprint> parse_blueprint(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    Blueprint blueprint;
    auto machine = parse_machine(json.at("machine").dump(), "the communicator's blueprint");
    if (!machine) return machine.error();
    blueprint.machine = std::move(*machine);
    blueprint.group.pus = json.at("group").get<std::vector<int>>();
    blueprint.options.topology = json.at("topology").get<std::string>();
    blueprint.options.barrier = json.at("barrier").get<std::string>();
    blueprint.options.algorithm = json.at("algorithm").get<std::string>();
    blueprint.options.search_ms = json.at("search_ms").get<double>();
    blueprint.options.late_ns = json.at("late_ns").get<std::vector<double>>();
    blueprint.parallelism = json.at("parallelism").get<int>();
    blueprint.profile = json.at("profile").get<std::string>();
    for (std::size_t i = 0; i < json.at("plans").size(); ++i) {
      const Json& each = json.at("plans")[i];
      const auto operation = static_cast<Operation>(i);
      plan::Problem problem(blueprint.machine, blueprint.group, operation);
      plan::Solution solution{each.at("topology").get<std::string>(), tree_from(each.at("reduce")),
                              tree_from(each.at("broadcast")), 0.0};
      auto plan = plan::make_plan_of(problem, blueprint.group, std::move(solution), false);
      if (!plan) return plan.error();
      plan->reason = each.at("reason").get<std::string>();
      blueprint.plans[i] = std::move(*plan);
    }
    return blueprint;
  } catch (const Json::exception& wrong) {
    return make_error(Status::bad_format, "the communicator's blueprint, from a process of another version: {}",
                      wrong.what());
  }
}

}  // namespace smelt::comm
