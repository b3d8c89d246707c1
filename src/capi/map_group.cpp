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
  GroupParts parts;
  std::optional<StringMapGroup> strings{};  ///< in place of `parts`
};

struct smelt_map_rank {
  Geometry geometry;
  std::unique_ptr<GroupMember> member{};
  std::optional<smelt_map> shared{};       ///< in place of `member`
  std::optional<StringMapRank> strings{};  ///< in place of both
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
  result.keep = options.keep != 0;
  return result;
}

/// Fills `*group` by `make(strings)`, which is MapGroup's or StringMapGroup's creation.
template <class Make, class MakeStrings>
int make_group_as(std::size_t key_bytes, std::size_t value_bytes, smelt_map_group** group, Make make,
                  MakeStrings make_strings) {
  if (key_bytes == SMELT_MAP_STRINGS && value_bytes == SMELT_MAP_STRINGS) {
    Result<StringMapGroup> made = make_strings();
    if (!made) return fail(made.error());
    *group = new smelt_map_group{{}, {}, std::move(*made)};
    return SMELT_OK;
  }
  if (key_bytes == 0 || value_bytes == 0 || key_bytes > most_bytes || value_bytes > most_bytes - key_bytes) {
    return fail_argument("smelt_map_group_create",
                         "a key and its value have 1 byte each at least, and 4096 together at most; or both are "
                         "SMELT_MAP_STRINGS");
  }
  const Geometry geometry = geometry_of(key_bytes, value_bytes);
  Result<GroupParts> made = make(geometry);
  if (!made) return fail(made.error());
  *group = new smelt_map_group{geometry, std::move(*made)};
  return SMELT_OK;
}

using Copied = smelt::capi::CopiedWords<std::tuple_size_v<Words>>;

int check(const char* call, const smelt_map_rank* rank, const void* key, const void* value) {
  if (rank == nullptr || key == nullptr || value == nullptr) {
    return fail_argument(call, "rank, key and value must not be NULL");
  }
  return rank->strings ? fail_argument(call, "the map has strings: call smelt_map_rank_*_string") : SMELT_OK;
}
int check_strings(const char* call, const smelt_map_rank* rank, const void* key, const void* value) {
  if (rank == nullptr || key == nullptr || value == nullptr) {
    return fail_argument(call, "rank, key and value must not be NULL");
  }
  return rank->strings ? SMELT_OK : fail_argument(call, "the map has keys and values of fixed sizes, not strings");
}

std::string_view text(const void* bytes, std::size_t count) { return {static_cast<const char*>(bytes), count}; }

/// Remembers why a call failed.
int answer(const smelt_map_rank* rank, Status status) noexcept {
  if (status == Status::ok) return SMELT_OK;
  return guarded([&] {
    std::string why = rank->member ? rank->member->failure() : rank->strings ? rank->strings->failure() : "";
    if (why.empty()) {
      why = status == Status::invalid_argument ? "map: a key or value is longer than 65536 bytes"
                                               : "map: there is no room for another key";
    }
    remember(why.c_str());
    return static_cast<int>(status);
  });
}

MapAnswer call(const smelt_map_rank* rank, map_detail::Operation operation, const void* key,
               const Word* value = nullptr, const Word* expected = nullptr, Word* result = nullptr) noexcept {
  const auto value_of = [&](const Word* words) {
    return words == nullptr ? Bytes() : bytes_of(words, rank->geometry.value_words);
  };
  const Copied words(key, rank->geometry.key_bytes, rank->geometry.key_words);
  GroupCall asked;
  asked.operation = operation;
  asked.number = operation == map_detail::Operation::fetch_add ? Number::i64 : Number::none;
  asked.hash = hash_words(words.data(), rank->geometry.key_words);
  asked.key = bytes_of(words.data(), rank->geometry.key_words);
  asked.value = value_of(value);
  asked.expected = value_of(expected);
  asked.result.words = result;
  return rank->member->call(asked);
}

}  // namespace

extern "C" {

int smelt_map_group_create(const smelt_communicator* communicator, size_t key_bytes, size_t value_bytes,
                           const smelt_map_group_options* options, smelt_map_group** group) {
  return guarded([&]() -> int {
    if (communicator == nullptr || group == nullptr) {
      return fail_argument("smelt_map_group_create", "communicator or group is NULL");
    }
    const smelt_map_group_options given = options != nullptr ? *options : smelt_map_group_options{};
    if (const int status = check_faults("smelt_map_group_create", given.faults); status != SMELT_OK) return status;
    const MapOptions chosen = translate(given);
    return make_group_as(
        key_bytes, value_bytes, group,
        [&](const Geometry& geometry) { return make_group(communicator->value, geometry, false, chosen); },
        [&] { return StringMapGroup::create(communicator->value, chosen); });
  });
}

int smelt_map_group_create_shared(const char* name, int size, const int* ranks, int count, size_t key_bytes,
                                  size_t value_bytes, const smelt_map_group_options* options, smelt_map_group** group) {
  return guarded([&]() -> int {
    if (name == nullptr || ranks == nullptr || count < 1 || group == nullptr) {
      return fail_argument("smelt_map_group_create_shared", "name, ranks or group is NULL, or count is not positive");
    }
    const smelt_map_group_options given = options != nullptr ? *options : smelt_map_group_options{};
    if (const int status = check_faults("smelt_map_group_create_shared", given.faults); status != SMELT_OK)
      return status;
    const MapOptions chosen = translate(given);
    const std::span<const int> own(ranks, static_cast<std::size_t>(count));
    return make_group_as(
        key_bytes, value_bytes, group,
        [&](const Geometry& geometry) { return make_group(name, size, own, geometry, false, chosen); },
        [&] { return StringMapGroup::create_shared(name, size, own, chosen); });
  });
}

void smelt_map_group_free(smelt_map_group* group) { delete group; }

const char* smelt_map_group_algorithm(const smelt_map_group* group) {
  if (group == nullptr) return "";
  return group->strings ? group->strings->algorithm().c_str() : group->parts.plan.algorithm.c_str();
}

int smelt_map_group_serves(const smelt_map_group* group, int rank) {
  if (group == nullptr) return 0;
  const auto& serving = group->strings ? group->strings->servers() : group->parts.plan.serving;
  return std::ranges::find(serving, rank) != serving.end() ? 1 : 0;
}

int smelt_map_group_attach(smelt_map_group* group, int rank, smelt_map_rank** attached) {
  return guarded([&]() -> int {
    if (group == nullptr || attached == nullptr)
      return fail_argument("smelt_map_group_attach", "group or rank is NULL");
    if (!group->strings) {
      if (const auto good = smelt::map_detail::check_rank(group->parts, rank); !good) return fail(good.error());
    }
    auto made = std::make_unique<smelt_map_rank>(smelt_map_rank{group->geometry});
    if (group->strings) {
      auto strings = group->strings->attach(rank);
      if (!strings) return fail(strings.error());
      made->strings = std::move(*strings);
    } else if (group->parts.shared) {
      made->shared = smelt_map{group->parts.shared, group->geometry};
    } else {
      auto member = group->parts.space->attach(rank);
      if (!member) return fail(member.error());
      made->member = std::move(*member);
    }
    *attached = made.release();
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
    if (rank->strings) {
      return fail_argument("smelt_map_rank_for_each_here", "the map has strings: call smelt_map_rank_for_each");
    }
    if (rank->shared) return smelt_map_for_each(&*rank->shared, 1, visit, context);
    struct Visitor {
      void (*visit)(void*, const void*, const void*);
      void* context;
    } visitor{visit, context};
    const auto pass_on = [](void* to, Bytes key, Bytes value) {
      const auto& asked = *static_cast<const Visitor*>(to);
      asked.visit(asked.context, key.data(), value.data());
    };
    rank->member->for_each_here(pass_on, &visitor);
    return SMELT_OK;
  });
}

int smelt_map_rank_for_each(smelt_map_rank* rank,
                            void (*visit)(void* context, const void* key, size_t key_bytes, const void* value,
                                          size_t value_bytes),
                            void* context) {
  return guarded([&]() -> int {
    if (rank == nullptr || visit == nullptr) return fail_argument("smelt_map_rank_for_each", "rank or visit is NULL");
    struct Visitor {
      decltype(visit) asked;
      void* context;
      const Geometry& geometry;

      void pass(const void* key, const void* value) const {
        asked(context, key, geometry.key_bytes, value, geometry.value_bytes);
      }
    } visitor{visit, context, rank->geometry};
    if (rank->strings) {
      const auto all = rank->strings->snapshot();
      for (const auto& [key, value] : all) visit(context, key.data(), key.size(), value.data(), value.size());
      return answer(rank, rank->strings->status());
    }
    if (rank->shared) {
      const auto pass_on = [](void* to, const void* key, const void* value) {
        static_cast<const Visitor*>(to)->pass(key, value);
      };
      return smelt_map_for_each(&*rank->shared, 1, pass_on, &visitor);
    }
    const auto pass_on = [](void* to, Bytes key, Bytes value) {
      static_cast<const Visitor*>(to)->pass(key.data(), value.data());
    };
    return answer(rank, rank->member->snapshot(pass_on, &visitor));
  });
}

int smelt_map_rank_get_string(smelt_map_rank* rank, const void* key, size_t key_bytes, void* value, size_t capacity,
                              size_t* value_bytes) {
  constexpr const char* name = "smelt_map_rank_get_string";
  if (const int status = check_strings(name, rank, key, key); status != SMELT_OK) return status;
  if (value == nullptr && capacity != 0) return fail_argument(name, "value is NULL");
  return guarded([&]() -> int {
    std::string found;
    if (!rank->strings->get(text(key, key_bytes), &found)) {
      const Status status = rank->strings->status();
      return status == Status::ok ? SMELT_NOT_FOUND : answer(rank, status);
    }
    if (value_bytes != nullptr) *value_bytes = found.size();
    found.copy(static_cast<char*>(value), capacity);
    return SMELT_OK;
  });
}

int smelt_map_rank_put_string(smelt_map_rank* rank, const void* key, size_t key_bytes, const void* value,
                              size_t value_bytes) {
  if (const int status = check_strings("smelt_map_rank_put_string", rank, key, value); status != SMELT_OK) {
    return status;
  }
  return guarded(
      [&]() -> int { return answer(rank, rank->strings->put(text(key, key_bytes), text(value, value_bytes)).status); });
}

int smelt_map_rank_insert_string(smelt_map_rank* rank, const void* key, size_t key_bytes, const void* value,
                                 size_t value_bytes, int* inserted) {
  if (const int status = check_strings("smelt_map_rank_insert_string", rank, key, value); status != SMELT_OK) {
    return status;
  }
  return guarded([&]() -> int {
    const MapAnswer done = rank->strings->insert(text(key, key_bytes), text(value, value_bytes));
    if (inserted != nullptr) *inserted = done.status == Status::ok && done.changed ? 1 : 0;
    return answer(rank, done.status);
  });
}

int smelt_map_rank_erase_string(smelt_map_rank* rank, const void* key, size_t key_bytes, int* erased) {
  if (const int status = check_strings("smelt_map_rank_erase_string", rank, key, key); status != SMELT_OK) {
    return status;
  }
  return guarded([&]() -> int {
    const MapAnswer done = rank->strings->erase(text(key, key_bytes));
    if (erased != nullptr) *erased = done.status == Status::ok && done.changed ? 1 : 0;
    return answer(rank, done.status);
  });
}

int smelt_map_rank_compare_exchange_string(smelt_map_rank* rank, const void* key, size_t key_bytes,
                                           const void* expected, size_t expected_bytes, const void* desired,
                                           size_t desired_bytes, int* exchanged) {
  constexpr const char* name = "smelt_map_rank_compare_exchange_string";
  if (const int status = check_strings(name, rank, key, desired); status != SMELT_OK) return status;
  if (expected == nullptr) return fail_argument(name, "expected must not be NULL");
  return guarded([&]() -> int {
    std::string wanted(text(expected, expected_bytes));
    const MapAnswer done = rank->strings->compare_exchange(text(key, key_bytes), wanted, text(desired, desired_bytes));
    if (exchanged != nullptr) *exchanged = done.status == Status::ok && done.changed ? 1 : 0;
    return done.status == Status::ok && !done.found ? SMELT_NOT_FOUND : answer(rank, done.status);
  });
}

int smelt_map_rank_progress(smelt_map_rank* rank) {
  if (rank == nullptr) return fail_argument("smelt_map_rank_progress", "rank is NULL");
  if (rank->strings) return answer(rank, rank->strings->progress());
  return rank->shared ? SMELT_OK : answer(rank, rank->member->progress());
}

int smelt_map_rank_serve(smelt_map_rank* rank, int (*stop)(void* context), void* context) {
  if (rank == nullptr || stop == nullptr) return fail_argument("smelt_map_rank_serve", "rank or stop is NULL");
  StopQuestion asked{stop, context};
  if (rank->strings) return answer(rank, rank->strings->serve(StopQuestion::is_over, &asked));
  if (!rank->shared) return answer(rank, rank->member->serve(StopQuestion::is_over, &asked));
  wait_until(StopQuestion::is_over, &asked);
  return SMELT_OK;
}

int smelt_map_rank_finish(smelt_map_rank* rank) {
  if (rank == nullptr) return fail_argument("smelt_map_rank_finish", "rank is NULL");
  if (rank->strings) return answer(rank, rank->strings->finish());
  return rank->shared ? SMELT_OK : answer(rank, rank->member->finish());
}

}  // extern "C"
