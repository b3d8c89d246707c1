// For tests of maps: random calls, each checked against a map of the standard library.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>

namespace smelt::test {

/// One random call of a map and of its reference.
template <class AnyMap, class Key, class Value, class Random, class MakeValue>
void call_both(AnyMap& map, std::map<Key, Value>& reference, Random& random, const Key& key,
               const MakeValue& make_value) {
  const auto at = reference.find(key);
  const bool there = at != reference.end();
  const Value value = make_value(random());
  switch (random() % 5) {
    case 0:
      ASSERT_EQ(map.put(key, value).found, there);
      reference[key] = value;
      break;
    case 1:
      ASSERT_EQ(map.insert(key, value).changed, !there);
      reference.emplace(key, value);
      break;
    case 2: {
      const auto answer = map.erase(key);
      ASSERT_EQ(answer.found, there);
      ASSERT_EQ(answer.changed, there);
      reference.erase(key);
      break;
    }
    case 3: {
      Value expected = there && random() % 2 == 0 ? at->second : make_value(random());
      const bool same = there && expected == at->second;
      ASSERT_EQ(map.compare_exchange(key, expected, value).changed, same);
      if (there) {
        ASSERT_EQ(expected, at->second);
      }
      if (same) at->second = value;
      break;
    }
    default: ASSERT_EQ(map.get(key), there ? std::optional<Value>(at->second) : std::nullopt);
  }
}

}  // namespace smelt::test
