// Maps of the C interface: handles, and the table's operations on keys and values of any size.
#include "smelt/map.hpp"

#include <array>
#include <cstring>
#include <memory>

#include "capi/handles.hpp"
#include "capi/map_handle.hpp"

using namespace smelt;
using namespace smelt::capi;
using namespace smelt::map_detail;

namespace {

constexpr std::size_t most_bytes = 4096;
using Words = std::array<Word, most_bytes / sizeof(Word)>;

/// Calls `body` with a shape that the compiler knows, where these sizes are common.
template <class Body>
auto with_shape(const smelt_map* map, Body body) {
  const Geometry& geometry = map->geometry;
  if (geometry == geometry_of(8, 8)) return body(FixedShape<8, 8>{});
  if (geometry == geometry_of(8, 16)) return body(FixedShape<8, 16>{});
  return body(DynamicShape{geometry});
}

using Copied = smelt::capi::CopiedWords<std::tuple_size_v<Words>>;

struct HashedKey {
  smelt_map* map;
  Copied key;
  HashedKey(const smelt_map* of, const void* bytes) noexcept
      : map(const_cast<smelt_map*>(of)), key(bytes, of->geometry.key_bytes, of->geometry.key_words) {}
  Word hash() const noexcept { return hash_words(key.data(), map->geometry.key_words); }
};

void load(Word* to, const AtomicWord* from, std::size_t words) noexcept {
  for (std::size_t i = 0; i < words; ++i) to[i] = from[i].load(std::memory_order_relaxed);
}

template <class Decide>
int update(smelt_map* map, const void* key, Decide decide) noexcept {
  const HashedKey hashed(map, key);
  const auto outcome = with_shape(
      map, [&](const auto& shape) { return map->table->update(shape, hashed.key.data(), hashed.hash(), decide); });
  if (outcome != Table::Outcome::no_memory) return SMELT_OK;
  remember("the map has no room for another key: its memory or its address space is used up");
  return SMELT_OUT_OF_MEMORY;
}

int check_handle(const char* call, const smelt_map* map, const void* key, const void* value) {
  if (map != nullptr && key != nullptr && value != nullptr) return SMELT_OK;
  return fail_argument(call, "map, key and value must not be NULL");
}

int check_sizes(const char* call, std::size_t key_bytes, std::size_t value_bytes, const void* handle) {
  if (handle == nullptr) return fail_argument(call, "map must not be NULL");
  if (key_bytes == 0 || value_bytes == 0 || key_bytes > most_bytes || value_bytes > most_bytes) {
    return fail_argument(call, "keys and values have 1 to 4096 bytes");
  }
  return SMELT_OK;
}

int hand_out_map(Result<std::shared_ptr<Table>> table, const Geometry& geometry, smelt_map** map) {
  if (!table) return fail(table.error());
  *map = new smelt_map{std::move(*table), geometry};
  return SMELT_OK;
}

template <class Find>
int find_map(const char* call, const char* name, std::size_t key_bytes, std::size_t value_bytes, smelt_map** map,
             Find find) {
  return guarded([&]() -> int {
    if (const int status = check_sizes(call, key_bytes, value_bytes, map); status != SMELT_OK) return status;
    if (name == nullptr) return fail_argument(call, "name must not be NULL");
    const Geometry geometry = geometry_of(key_bytes, value_bytes);
    return hand_out_map(find(std::string(name), geometry), geometry, map);
  });
}

}  // namespace

extern "C" {

int smelt_map_create(size_t key_bytes, size_t value_bytes, uint64_t capacity, smelt_map** map) {
  return guarded([&]() -> int {
    if (const int status = check_sizes("smelt_map_create", key_bytes, value_bytes, map); status != SMELT_OK)
      return status;
    const Geometry geometry = geometry_of(key_bytes, value_bytes);
    MapOptions options;
    options.capacity = capacity;
    return hand_out_map(create(geometry, options), geometry, map);
  });
}

int smelt_map_create_shared(const char* name, size_t key_bytes, size_t value_bytes, uint64_t capacity, unsigned flags,
                            smelt_map** map) {
  return find_map("smelt_map_create_shared", name, key_bytes, value_bytes, map,
                  [&](const std::string& called, const Geometry& geometry) -> Result<std::shared_ptr<Table>> {
                    if ((flags & ~SMELT_MAP_KEEP) != 0) {
                      return make_error(Status::invalid_argument, "smelt_map_create_shared: unknown flags");
                    }
                    MapOptions options;
                    options.capacity = capacity;
                    options.keep = (flags & SMELT_MAP_KEEP) != 0;
                    return create_shared(called, geometry, options);
                  });
}

int smelt_map_attach(const char* name, size_t key_bytes, size_t value_bytes, smelt_map** map) {
  return find_map("smelt_map_attach", name, key_bytes, value_bytes, map,
                  [](const std::string& called, const Geometry& geometry) { return attach(called, geometry); });
}

int smelt_map_open(const char* name, size_t key_bytes, size_t value_bytes, smelt_map** map) {
  return find_map("smelt_map_open", name, key_bytes, value_bytes, map,
                  [](const std::string& called, const Geometry& geometry) { return open(called, geometry); });
}

void smelt_map_free(smelt_map* map) { delete map; }

int smelt_map_remove(const char* name) {
  return guarded([&]() -> int {
    if (name == nullptr) return fail_argument("smelt_map_remove", "name must not be NULL");
    const auto removed = remove_map(name);
    return removed ? SMELT_OK : fail(removed.error());
  });
}

int smelt_map_get(const smelt_map* map, const void* key, void* value) {
  if (const int status = check_handle("smelt_map_get", map, key, value); status != SMELT_OK) return status;
  const HashedKey hashed(map, key);
  return with_shape(map, [&](const auto& shape) -> int {
    Words words;
    if (!map->table->get(shape, hashed.key.data(), hashed.hash(), words.data())) return SMELT_NOT_FOUND;
    std::memcpy(value, words.data(), shape.geometry.value_bytes);
    return SMELT_OK;
  });
}

int smelt_map_get_many(const smelt_map* map, uint64_t count, const void* keys, void* values, unsigned char* found) {
  if (count == 0) return SMELT_OK;
  if (const int status = check_handle("smelt_map_get_many", map, keys, values); status != SMELT_OK) return status;
  if (found == nullptr) return fail_argument("smelt_map_get_many", "found must not be NULL");
  constexpr std::uint64_t batch = 64;
  const auto* key = static_cast<const std::byte*>(keys);
  auto* value = static_cast<std::byte*>(values);
  for (std::uint64_t first = 0; first < count; first += batch) {
    const std::uint64_t end = std::min(first + batch, count);
    for (std::uint64_t i = first; i < end; ++i) {
      const HashedKey hashed(map, key + i * map->geometry.key_bytes);
      with_shape(map, [&](const auto& shape) { map->table->prefetch(shape, hashed.hash()); });
    }
    for (std::uint64_t i = first; i < end; ++i) {
      found[i] =
          smelt_map_get(map, key + i * map->geometry.key_bytes, value + i * map->geometry.value_bytes) == SMELT_OK;
    }
  }
  return SMELT_OK;
}

int smelt_map_put(smelt_map* map, const void* key, const void* value) {
  if (const int status = check_handle("smelt_map_put", map, key, value); status != SMELT_OK) return status;
  const Copied fresh(value, map->geometry.value_bytes, map->geometry.value_words);
  return update(map, key, [&](const AtomicWord*, const void*& words) {
    words = fresh.data();
    return Table::Act::write;
  });
}

int smelt_map_insert(smelt_map* map, const void* key, const void* value, int* inserted) {
  if (const int status = check_handle("smelt_map_insert", map, key, value); status != SMELT_OK) return status;
  const Copied fresh(value, map->geometry.value_bytes, map->geometry.value_words);
  bool free = false;
  const int status = update(map, key, [&](const AtomicWord* old, const void*& words) {
    free = old == nullptr;
    words = fresh.data();
    return free ? Table::Act::write : Table::Act::keep;
  });
  if (inserted != nullptr) *inserted = free && status == SMELT_OK;
  return status;
}

int smelt_map_erase(smelt_map* map, const void* key, int* erased) {
  if (const int status = check_handle("smelt_map_erase", map, key, key); status != SMELT_OK) return status;
  bool found = false;
  const int status = update(map, key, [&](const AtomicWord* old, const void*&) {
    found = old != nullptr;
    return found ? Table::Act::erase : Table::Act::keep;
  });
  if (erased != nullptr) *erased = found;
  return status;
}

int smelt_map_compare_exchange(smelt_map* map, const void* key, void* expected, const void* desired, int* exchanged) {
  if (const int status = check_handle("smelt_map_compare_exchange", map, key, desired); status != SMELT_OK)
    return status;
  if (expected == nullptr) return fail_argument("smelt_map_compare_exchange", "expected must not be NULL");
  const Geometry& geometry = map->geometry;
  const Copied fresh(desired, geometry.value_bytes, geometry.value_words);
  bool found = false, equal = false;
  const int status = update(map, key, [&](const AtomicWord* old, const void*& words) {
    found = old != nullptr;
    if (!found) return Table::Act::keep;
    Words now;
    load(now.data(), old, geometry.value_words);
    equal = std::memcmp(now.data(), expected, geometry.value_bytes) == 0;
    if (!equal) std::memcpy(expected, now.data(), geometry.value_bytes);
    words = fresh.data();
    return equal ? Table::Act::write : Table::Act::keep;
  });
  if (exchanged != nullptr) *exchanged = equal;
  return status != SMELT_OK || found ? status : SMELT_NOT_FOUND;
}

int smelt_map_fetch_add(smelt_map* map, const void* key, int64_t term, int64_t* before) {
  if (const int status = check_handle("smelt_map_fetch_add", map, key, key); status != SMELT_OK) return status;
  if (map->geometry.value_bytes != sizeof term) {
    return fail_argument("smelt_map_fetch_add", "the values of the map must have 8 bytes");
  }
  Word was = 0, sum = 0;
  const int status = update(map, key, [&](const AtomicWord* old, const void*& words) {
    was = old == nullptr ? 0 : old->load(std::memory_order_relaxed);
    sum = was + static_cast<Word>(term);
    words = &sum;
    return Table::Act::write;
  });
  if (before != nullptr) *before = static_cast<int64_t>(was);
  return status;
}

int smelt_map_for_each(const smelt_map* map, int at_one_moment,
                       void (*visit)(void* context, const void* key, const void* value), void* context) {
  return guarded([&]() -> int {
    if (map == nullptr || visit == nullptr)
      return fail_argument("smelt_map_for_each", "map and visit must not be NULL");
    struct Caller {
      decltype(visit) call;
      void* context;
      std::size_t key_words;
    } caller{visit, context, map->geometry.key_words};
    const Table::Visit each = [](void* to, const Word* cell) {
      const auto& self = *static_cast<Caller*>(to);
      self.call(self.context, cell, cell + self.key_words);
    };
    if (at_one_moment != 0) {
      map->table->snapshot(each, &caller);
    } else {
      map->table->for_each(each, &caller);
    }
    return SMELT_OK;
  });
}

uint64_t smelt_map_size(const smelt_map* map) {
  uint64_t count = 0;
  if (map != nullptr) map->table->for_each([](void* to, const Word*) { ++*static_cast<uint64_t*>(to); }, &count);
  return count;
}

}  // extern "C"
