// The C interface, maps over the ranks of a communicator.
#include "smelt/map_group.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "capi/handles.hpp"
#include "capi/map_handle.hpp"

using namespace smelt;
using namespace smelt::capi;
using namespace smelt::map_detail;

struct smelt_map_group {
  Geometry geometry;
  GroupPlan plan;
  std::shared_ptr<GroupSpace> space;
  std::optional<smelt_map> shared;  ///< in place of `space`
};

struct smelt_map_rank {
  Geometry geometry;
  std::unique_ptr<GroupMember> member;
  std::optional<smelt_map> shared;  ///< in place of `member`
};

namespace {

constexpr std::size_t most_bytes = 4096;  // of a key and its value, together
using Words = std::array<Word, most_bytes / sizeof(Word) + 1>;

MapOptions translate(const smelt_map_group_options& options) {
  MapOptions result;
  if (options.algorithm != nullptr) result.algorithm = options.algorithm;
  if (options.sequential != 0) result.consistency = Consistency::sequential;
  if (options.faults != SMELT_FAULTS_DEFAULT) result.faults = static_cast<Faults>(options.faults - SMELT_FAULTS_NONE);
  if (options.capacity != 0) result.capacity = options.capacity;
  result.servers = options.servers;
  result.colocate = options.dedicated_servers == 0;
  if (options.lookups != 0) result.lookups = options.lookups;
  result.keys = options.keys;
  result.skew = options.skew;
  if (options.wait != nullptr) result.wait = options.wait;
  return result;
}

/// The table that all processes of the communicator share.
Result<smelt_map> make_shared_table(const Communicator& communicator, const Geometry& geometry, MapOptions options,
                                    const GroupPlan& plan) {
  options.algorithm = "shared";
  options.faults = plan.faults;
  const std::string name = name_of_shared(communicator);
  auto table = name.empty() ? create(geometry, options) : create_shared(name, geometry, options);
  if (!table) return table.error();
  // Nobody goes on, and perhaps leaves, before all have the map.
  if (!name.empty()) {
    if (auto met = meet(communicator, name); !met) return met.error();
  }
  return smelt_map{std::move(*table), geometry};
}

Result<std::unique_ptr<smelt_map_group>> make_group(const Communicator& communicator, const Geometry& geometry,
                                                    const MapOptions& options) {
  auto plan = plan_group(communicator, geometry, options);
  if (!plan) return plan.error();
  auto group = std::make_unique<smelt_map_group>();
  group->geometry = geometry;
  group->plan = std::move(*plan);
  if (group->plan.algorithm == "shared") {
    auto table = make_shared_table(communicator, geometry, options, group->plan);
    if (!table) return table.error();
    group->shared = std::move(*table);
  } else {
    auto space = create_group(communicator, group->plan, geometry, options);
    if (!space) return space.error();
    group->space = std::move(*space);
  }
  return group;
}

using Copied = smelt::capi::CopiedWords<std::tuple_size_v<Words>>;

int check(const char* call, const smelt_map_rank* rank, const void* key, const void* value) {
  if (rank != nullptr && key != nullptr && value != nullptr) return SMELT_OK;
  return fail_argument(call, "rank, key and value must not be NULL");
}

/// Remembers why a call failed.
int answer(const smelt_map_rank* rank, Status status) noexcept {
  if (status == Status::ok) return SMELT_OK;
  return guarded([&] {
    remember(rank->member && !rank->member->failure().empty() ? rank->member->failure().c_str()
                                                              : "map: there is no room for another key");
    return static_cast<int>(status);
  });
}

MapAnswer call(const smelt_map_rank* rank, map_detail::Operation operation, const void* key,
               const Word* value = nullptr, const Word* expected = nullptr, Word* result = nullptr) noexcept {
  const Copied words(key, rank->geometry.key_bytes, rank->geometry.key_words);
  GroupCall asked;
  asked.operation = operation;
  asked.number = operation == map_detail::Operation::fetch_add ? Number::i64 : Number::none;
  asked.hash = hash_words(words.data(), rank->geometry.key_words);
  asked.key = words.data();
  asked.value = value;
  asked.expected = expected;
  asked.result = result;
  return rank->member->call(asked);
}

}  // namespace

extern "C" {

int smelt_map_group_create(const smelt_communicator* communicator, size_t key_bytes, size_t value_bytes,
                           const smelt_map_group_options* options, smelt_map_group** group) {
  return guarded([&]() -> int {
    constexpr const char* name = "smelt_map_group_create";
    if (communicator == nullptr || group == nullptr) return fail_argument(name, "communicator or group is NULL");
    if (key_bytes == 0 || value_bytes == 0 || key_bytes > most_bytes || value_bytes > most_bytes - key_bytes) {
      return fail_argument(name, "a key and its value have 1 byte each at least, and 4096 together at most");
    }
    auto made = make_group(communicator->value, geometry_of(key_bytes, value_bytes),
                           translate(options != nullptr ? *options : smelt_map_group_options{}));
    if (!made) return fail(made.error());
    *group = made->release();
    return SMELT_OK;
  });
}

void smelt_map_group_free(smelt_map_group* group) { delete group; }

const char* smelt_map_group_algorithm(const smelt_map_group* group) {
  return group == nullptr ? "" : group->plan.algorithm.c_str();
}

int smelt_map_group_serves(const smelt_map_group* group, int rank) {
  return group != nullptr && std::ranges::find(group->plan.serving, rank) != group->plan.serving.end() ? 1 : 0;
}

int smelt_map_group_attach(smelt_map_group* group, int rank, smelt_map_rank** attached) {
  return guarded([&]() -> int {
    if (group == nullptr || attached == nullptr)
      return fail_argument("smelt_map_group_attach", "group or rank is NULL");
    if (group->shared) {
      *attached = new smelt_map_rank{group->geometry, nullptr, group->shared};
      return SMELT_OK;
    }
    auto member = group->space->attach(rank);
    if (!member) return fail(member.error());
    *attached = new smelt_map_rank{group->geometry, std::move(*member), std::nullopt};
    return SMELT_OK;
  });
}

void smelt_map_rank_free(smelt_map_rank* rank) { delete rank; }

int smelt_map_rank_get(smelt_map_rank* rank, const void* key, void* value) {
  if (const int status = check("smelt_map_rank_get", rank, key, value); status != SMELT_OK) return status;
  if (rank->shared) return smelt_map_get(&*rank->shared, key, value);
  Words found;
  const MapAnswer got = call(rank, map_detail::Operation::get, key, nullptr, nullptr, found.data());
  if (got.status != Status::ok) return answer(rank, got.status);
  if (!got.found) return SMELT_NOT_FOUND;
  std::memcpy(value, found.data(), rank->geometry.value_bytes);
  return SMELT_OK;
}

int smelt_map_rank_put(smelt_map_rank* rank, const void* key, const void* value) {
  if (const int status = check("smelt_map_rank_put", rank, key, value); status != SMELT_OK) return status;
  if (rank->shared) return smelt_map_put(&*rank->shared, key, value);
  const Copied fresh(value, rank->geometry.value_bytes, rank->geometry.value_words);
  return answer(rank, call(rank, map_detail::Operation::put, key, fresh.data()).status);
}

int smelt_map_rank_insert(smelt_map_rank* rank, const void* key, const void* value, int* inserted) {
  if (const int status = check("smelt_map_rank_insert", rank, key, value); status != SMELT_OK) return status;
  if (rank->shared) return smelt_map_insert(&*rank->shared, key, value, inserted);
  const Copied fresh(value, rank->geometry.value_bytes, rank->geometry.value_words);
  const MapAnswer done = call(rank, map_detail::Operation::insert, key, fresh.data());
  if (inserted != nullptr) *inserted = done.status == Status::ok && done.changed ? 1 : 0;
  return answer(rank, done.status);
}

int smelt_map_rank_erase(smelt_map_rank* rank, const void* key, int* erased) {
  if (const int status = check("smelt_map_rank_erase", rank, key, key); status != SMELT_OK) return status;
  if (rank->shared) return smelt_map_erase(&*rank->shared, key, erased);
  const MapAnswer done = call(rank, map_detail::Operation::erase, key);
  if (erased != nullptr) *erased = done.status == Status::ok && done.changed ? 1 : 0;
  return answer(rank, done.status);
}

int smelt_map_rank_compare_exchange(smelt_map_rank* rank, const void* key, void* expected, const void* desired,
                                    int* exchanged) {
  constexpr const char* name = "smelt_map_rank_compare_exchange";
  if (const int status = check(name, rank, key, desired); status != SMELT_OK) return status;
  if (expected == nullptr) return fail_argument(name, "expected must not be NULL");
  if (rank->shared) return smelt_map_compare_exchange(&*rank->shared, key, expected, desired, exchanged);
  const Copied fresh(desired, rank->geometry.value_bytes, rank->geometry.value_words);
  const Copied wanted(expected, rank->geometry.value_bytes, rank->geometry.value_words);
  Words was;
  const MapAnswer done =
      call(rank, map_detail::Operation::compare_exchange, key, fresh.data(), wanted.data(), was.data());
  if (exchanged != nullptr) *exchanged = done.status == Status::ok && done.changed ? 1 : 0;
  if (done.status != Status::ok) return answer(rank, done.status);
  if (!done.found) return SMELT_NOT_FOUND;
  if (!done.changed) std::memcpy(expected, was.data(), rank->geometry.value_bytes);
  return SMELT_OK;
}

int smelt_map_rank_fetch_add(smelt_map_rank* rank, const void* key, int64_t term, int64_t* before) {
  constexpr const char* name = "smelt_map_rank_fetch_add";
  if (const int status = check(name, rank, key, key); status != SMELT_OK) return status;
  if (rank->geometry.value_bytes != sizeof term) return fail_argument(name, "the values of the map must have 8 bytes");
  if (rank->shared) return smelt_map_fetch_add(&*rank->shared, key, term, before);
  const Copied fresh(&term, sizeof term, rank->geometry.value_words);
  Words was;
  const MapAnswer done = call(rank, map_detail::Operation::fetch_add, key, fresh.data(), nullptr, was.data());
  if (done.status == Status::ok && before != nullptr) {
    *before = 0;
    if (done.found) std::memcpy(before, was.data(), sizeof *before);
  }
  return answer(rank, done.status);
}

int smelt_map_rank_for_each_here(const smelt_map_rank* rank,
                                 void (*visit)(void* context, const void* key, const void* value), void* context) {
  return guarded([&]() -> int {
    if (rank == nullptr || visit == nullptr) {
      return fail_argument("smelt_map_rank_for_each_here", "rank or visit is NULL");
    }
    if (rank->shared) return smelt_map_for_each(&*rank->shared, 1, visit, context);
    struct Visitor {
      void (*visit)(void*, const void*, const void*);
      void* context;
      std::size_t key_words;
    } visitor{visit, context, rank->geometry.key_words};
    const auto pass_on = [](void* to, const Word* cell) {
      const auto& asked = *static_cast<const Visitor*>(to);
      asked.visit(asked.context, cell, cell + asked.key_words);
    };
    rank->member->for_each_here(pass_on, &visitor);
    return SMELT_OK;
  });
}

int smelt_map_rank_progress(smelt_map_rank* rank) {
  if (rank == nullptr) return fail_argument("smelt_map_rank_progress", "rank is NULL");
  return rank->shared ? SMELT_OK : answer(rank, rank->member->progress());
}

int smelt_map_rank_serve(smelt_map_rank* rank, int (*stop)(void* context), void* context) {
  if (rank == nullptr || stop == nullptr) return fail_argument("smelt_map_rank_serve", "rank or stop is NULL");
  StopQuestion asked{stop, context};
  if (!rank->shared) return answer(rank, rank->member->serve(StopQuestion::is_over, &asked));
  wait_until(StopQuestion::is_over, &asked);
  return SMELT_OK;
}

int smelt_map_rank_finish(smelt_map_rank* rank) {
  if (rank == nullptr) return fail_argument("smelt_map_rank_finish", "rank is NULL");
  return rank->shared ? SMELT_OK : answer(rank, rank->member->finish());
}

}  // extern "C"
