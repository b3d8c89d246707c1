// The shared map: MAP_* in smelt/map_table.hpp. A thread writes plain memory before an update. Another thread reads
// that memory once it has seen the update, in the way that each part tests.
#include "smelt/map.hpp"
#include "stress.hpp"

namespace {

using namespace smelt;
using namespace smelt::stress;

using Numbers = Map<std::uint64_t, std::uint64_t>;
constexpr std::uint64_t turns = 500, many_turns = 20'000;  // the latter where one turn seldom tells

/// One thread sets a plain number and announces it by `tell(turn)`. The other one waits for `told(turn)` and reads it.
template <class Tell, class Told>
std::uint64_t hand_over(Tell tell, Told told, std::uint64_t count = turns) {
  std::uint64_t number = 0, wrong = 0;
  std::atomic<std::uint64_t> taken{0};
  std::thread reader([&] {
    for (std::uint64_t turn = 1; turn <= count; ++turn) {
      for (int looks = 0; !told(turn); ++looks) {
        if (looks >= 100) std::this_thread::yield();  // before that it is likely to look in the middle of an update
      }
      wrong += number != turn;
      taken.store(turn, std::memory_order_release);
    }
  });
  for (std::uint64_t turn = 1; turn <= count; ++turn) {
    number = turn;
    tell(turn);
    while (taken.load(std::memory_order_acquire) != turn) std::this_thread::yield();
  }
  reader.join();
  return wrong;
}

Numbers filled() {
  auto map = *Numbers::create({.capacity = 2 * turns, .most_bytes = std::size_t{1} << 28});
  for (std::uint64_t key = 1; key <= turns; ++key) map.put(key, 0);
  return map;
}

/// An erased key: only the word of its bucket shows it. MAP_COMMIT, MAP_LOOK.
std::uint64_t stress_lookups() {
  auto map = filled();
  return hand_over([&](auto turn) { map.erase(turn); }, [&](auto turn) { return !map.contains(turn); });
}

/// The same, seen by an update. MAP_COMMIT, MAP_OWN.
std::uint64_t stress_updates() {
  auto map = filled();
  return hand_over([&](auto turn) { map.erase(turn); }, [&](auto turn) { return map.insert(turn, 1).changed; });
}

/// A value of one word, which may be seen before its owner gives the bucket up. MAP_STORE_CELL, MAP_LOAD_CELL.
std::uint64_t stress_values() {
  auto map = filled();
  return hand_over([&](auto turn) { map.put(1, turn); }, [&](auto turn) { return map.get(1) == turn; }, many_turns);
}

}  // namespace

int main() {
  return verdict(repeated([] { return stress_lookups() + stress_updates() + stress_values(); }));
}
