#include "plan/trees/problem.hpp"

#include "plan/trees/builders.hpp"

namespace smelt::plan {

const CostTable& Problem::table(Direction direction) {
  auto& table = tables_[direction == Direction::broadcast ? 0 : 1];
  if (!table) table.emplace(exact(direction));
  return *table;
}

const CostTable& Problem::published_table() {
  if (ranks_.between() == nullptr && !ranks_.has_gaps(Direction::broadcast)) return table(Direction::broadcast);
  if (!published_table_) published_table_.emplace(DirectedCosts(published_, Direction::broadcast));
  return *published_table_;
}

int Problem::cheapest_root() {
  if (!cheapest_root_) {
    cheapest_root_ = cheapest_sender(table(operation_ == Operation::reduce ? Direction::reduce : Direction::broadcast));
  }
  return *cheapest_root_;
}

int Problem::published_root() {
  if (!published_root_) published_root_ = cheapest_sender(published_table());
  return *published_root_;
}

}  // namespace smelt::plan
