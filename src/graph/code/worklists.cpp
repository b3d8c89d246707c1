// Translates loops that remove nodes from a map in the order of its values.
#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "graph/code/writer.hpp"

namespace smelt::graph::language {

/// Translates a loop that lowers a property of neighbours until it is minimal. Its map becomes bins per thread. Returns
/// whether the loop has this form.
bool Writer::label_correction(const Statement& loop) {
  if (region_ != nullptr || !options_.bins || !deferred_.empty()) return false;
  const auto form = label_correction_of(loop);
  if (!form) return false;
  const Symbol& graph = *graph_of(form->node->type);
  const bool in = form->loop->iteration->range == Range::in_neighbours;
  const std::string begin = array(graph, in ? "r_begin" : "begin"), list = array(graph, in ? "r_node_idx" : "node_idx");
  const std::string bins = fresh(name_of(*form->map) + "_bins"), own = fresh(name_of(*form->map) + "_own");
  Region region;
  region.statement = &loop;
  region.modes[form->property] = Mode::relaxed;
  CodeLines body;
  CodeLines* outer = std::exchange(out_, &body);
  region_ = &region;
  body.set_depth(outer->depth() + 2);
  for (const auto* each : form->before) statement(*each);
  const int depth = body.depth();
  source_line(form->loop->span);
  open_iteration(*form->loop->iteration, body, form->loop->body[0].get());
  for (const auto* each : form->declarations) statement(*each);
  source_line(form->comparison->span);
  const std::string neighbour = code(*form->lowering->target->operands[0]);
  body.open(
      fmt::format("if ({}.lower({}, {}))", own, element(*form->property, neighbour), code(*form->lowering->value)));
  source_line(form->queueing->span);
  body.add(fmt::format("{}.put({}, {});", own, neighbour, code(*form->queueing->value)));
  while (body.depth() > depth) body.close();
  region_ = nullptr;
  out_ = outer;
  out_->add(fmt::format("gm::Bins<NodeId, EdgeId, {}> {}(run, {}.nodes, {}, {});",
                        cpp_type(*form->property->type.element), bins, name_of(graph), begin, list));
  out_->add(fmt::format("{}.run({}, [&](const gm::Chunk& chunk, auto& {}) {{", bins, name_of(*form->map), own));
  out_->set_depth(out_->depth() + 1);
  region_prelude(region, *out_);
  std::set<std::string> of_edges;  // ordered by name, so that the text does not depend on addresses
  for (const auto& [symbol, pointer] : region.pointers) {
    if (!in && symbol->type.is(TypeKind::edge_property) && !is_any_collection(*symbol->type.element))
      of_edges.insert(pointer);
  }
  const std::string node = name_of(*form->node);
  out_->open(fmt::format("for (NodeId {}; {}.next({}, {}{}{});)", node, own, node, region.pointers.at(form->property),
                         of_edges.empty() ? "" : ", ", fmt::join(of_edges, ", ")));
  out_->raw(body.take());
  out_->close();
  out_->close(");");
  decide(
      loop.span,
      fmt::format("'{}' ends up the same in whatever order nodes are taken out of '{}': all threads take nodes of the "
                  "same value at once, from bins of their own",
                  form->property->name, form->map->name));
  return true;
}

}  // namespace smelt::graph::language
