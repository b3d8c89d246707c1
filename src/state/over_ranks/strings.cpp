// StringMapGroup and StringMapRank.
#include "smelt/map_group.hpp"
#include "state/strings_in_tables.hpp"

namespace smelt {

Result<StringMapGroup> StringMapGroup::made(Result<map_detail::GroupParts> group) {
  if (!group) return group.error();
  return StringMapGroup(*std::move(group));
}

Result<StringMapGroup> StringMapGroup::create(const Communicator& communicator, const MapOptions& options) {
  return made(map_detail::make_group(communicator, map_detail::text::geometry, true, options));
}

Result<StringMapGroup> StringMapGroup::create_shared(const std::string& name, int size, std::span<const int> ranks,
                                                     const MapOptions& options) {
  return made(map_detail::make_group(name, size, ranks, map_detail::text::geometry, true, options));
}

Result<StringMapRank> StringMapGroup::attach(int rank) {
  if (const auto good = map_detail::check_rank(group_, rank); !good) return good.error();
  if (group_.shared) return StringMapRank(rank, StringMap(group_.shared));
  auto member = group_.space->attach(rank);
  if (!member) return member.error();
  return StringMapRank(rank, *std::move(member));
}

MapAnswer StringMapRank::call(map_detail::Operation operation, std::string_view key, std::string_view value,
                              std::string_view expected, std::string* result) {
  if (key.size() > most_string_bytes || value.size() > most_string_bytes) return {Status::invalid_argument};
  // Without data, there would be no key or value.
  const auto present = [](std::string_view text) { return text.data() == nullptr ? std::string_view("") : text; };
  map_detail::GroupCall call;
  call.operation = operation;
  call.key = present(key);
  call.hash = map_detail::hash_text(key);
  const bool has_value = operation != map_detail::Operation::get && operation != map_detail::Operation::erase;
  if (has_value) call.value = present(value);
  if (operation == map_detail::Operation::compare_exchange) call.expected = present(expected);
  call.result.text = result;
  return member_->call(call);
}

bool StringMapRank::get(std::string_view key, std::string* value) {
  if (shared_) return shared_->get(key, value);
  const MapAnswer answer = call(map_detail::Operation::get, key, {}, {}, value);
  return answer.status == Status::ok && answer.found;
}

std::optional<std::string> StringMapRank::get(std::string_view key) {
  std::optional<std::string> value(std::in_place);
  if (!get(key, &*value)) value.reset();
  return value;
}

MapAnswer StringMapRank::put(std::string_view key, std::string_view value) {
  return shared_ ? shared_->put(key, value) : call(map_detail::Operation::put, key, value);
}

MapAnswer StringMapRank::insert(std::string_view key, std::string_view value) {
  return shared_ ? shared_->insert(key, value) : call(map_detail::Operation::insert, key, value);
}

MapAnswer StringMapRank::erase(std::string_view key) {
  return shared_ ? shared_->erase(key) : call(map_detail::Operation::erase, key);
}

MapAnswer StringMapRank::compare_exchange(std::string_view key, std::string& expected, std::string_view desired) {
  if (shared_) return shared_->compare_exchange(key, expected, desired);
  if (expected.size() > most_string_bytes) return {Status::invalid_argument};
  std::string was;
  const MapAnswer answer = call(map_detail::Operation::compare_exchange, key, desired, expected, &was);
  if (answer.status == Status::ok && answer.found && !answer.changed) expected = std::move(was);
  return answer;
}

namespace {

using Strings = std::vector<std::pair<std::string, std::string>>;

void add_to(void* all, map_detail::Bytes key, map_detail::Bytes value) {
  static_cast<Strings*>(all)->emplace_back(key, value);
}

}  // namespace

Strings StringMapRank::here() const {
  if (shared_) return shared_->snapshot();
  Strings all;
  member_->for_each_here(add_to, &all);
  return all;
}

Strings StringMapRank::snapshot() {
  if (shared_) return shared_->snapshot();
  Strings all;
  if (member_->snapshot(add_to, &all) != Status::ok) all.clear();
  return all;
}

Status StringMapRank::serve(const std::atomic<bool>& stop) noexcept {
  const auto is_set = [](void* flag) {
    return static_cast<const std::atomic<bool>*>(flag)->load(std::memory_order_acquire);
  };
  return serve(is_set, const_cast<std::atomic<bool>*>(&stop));
}

Status StringMapRank::serve(bool (*stop)(void* context), void* context) noexcept {
  if (!shared_) return member_->serve(stop, context);
  map_detail::wait_until(stop, context);
  return Status::ok;
}

}  // namespace smelt
