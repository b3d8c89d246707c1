#include "checker.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <ostream>
#include <sstream>
#include <unordered_set>

namespace smelt::state {
namespace {

using Value = std::optional<std::uint64_t>;
constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

std::uint64_t end_of(const Event& event) { return event.end == 0 ? never : event.end; }

/// Searches for an order, one event after the other, and remembers states that failed.
class Search {
 public:
  Search(const std::vector<Event>& history, bool by_time, std::size_t most_states)
      : by_time_(by_time), most_states_(most_states) {
    std::map<int, std::vector<Event>> by_client;
    for (const auto& event : history) by_client[event.client].push_back(event);
    for (auto& [client, events] : by_client) {
      std::ranges::stable_sort(events, {}, &Event::begin);
      clients_.push_back(std::move(events));
    }
    next_.resize(clients_.size());
  }

  Verdict run() {
    const bool found = step();
    return found ? Verdict::holds : states_ > most_states_ ? Verdict::unknown : Verdict::violated;
  }

 private:
  const Event* head(std::size_t client) const {
    return next_[client] < clients_[client].size() ? &clients_[client][next_[client]] : nullptr;
  }

  bool over() const {
    for (std::size_t client = 0; client < clients_.size(); ++client) {
      const Event* event = head(client);
      if (event != nullptr && event->end != 0) return false;
    }
    return true;
  }

  /// The next event must have begun before the end of every remaining event.
  std::uint64_t deadline() const {
    std::uint64_t earliest = never;
    for (std::size_t client = 0; by_time_ && client < clients_.size(); ++client) {
      if (const Event* event = head(client)) earliest = std::min(earliest, end_of(*event));
    }
    return earliest;
  }

  std::string state() const {
    std::ostringstream text;
    for (const auto at : next_) text << at << ' ';
    for (const auto& [key, value] : values_) {
      if (value) text << key << '=' << *value << ' ';
    }
    return text.str();
  }

  bool step() {
    if (over()) return true;
    if (++states_ > most_states_ || !tried_.insert(state()).second) return false;
    const std::uint64_t latest = deadline();
    for (std::size_t client = 0; client < clients_.size(); ++client) {
      const Event* event = head(client);
      if (event == nullptr || event->begin > latest) continue;
      Value& value = values_[event->key];
      const Value before = value;
      if (follows(*event, value)) {
        ++next_[client];
        if (step()) return true;
        --next_[client];
      }
      values_[event->key] = before;
    }
    return false;
  }

  bool by_time_;
  std::size_t most_states_, states_ = 0;
  std::vector<std::vector<Event>> clients_{};
  std::vector<std::size_t> next_{};
  std::map<std::uint64_t, Value> values_{};
  std::unordered_set<std::string> tried_{};
};

}  // namespace

std::ostream& operator<<(std::ostream& out, Verdict verdict) {
  return out << (verdict == Verdict::holds ? "holds" : verdict == Verdict::violated ? "violated" : "unknown");
}

bool follows(const Event& event, Value& value) {
  const bool open = event.end == 0;  // no answer that could be wrong
  const Value before = value;
  switch (event.kind) {
    case Event::Kind::get: return open || (event.done ? before == Value(event.result) : !before);
    case Event::Kind::put: value = event.argument; return true;
    case Event::Kind::erase: value.reset(); return open || event.done == before.has_value();
    case Event::Kind::insert:
      if (!before) value = event.argument;
      return open || event.done == !before;
    case Event::Kind::compare_exchange: {
      const bool equal = before == Value(event.expected);
      if (equal) value = event.argument;
      return open || (event.done == equal && event.result == before.value_or(Event::absent));
    }
    case Event::Kind::fetch_add:
      value = before.value_or(0) + event.argument;
      return open || event.result == before.value_or(0);
  }
  return false;
}

Verdict check_sequential(const std::vector<Event>& history, std::size_t most_states) {
  return Search(history, false, most_states).run();
}

Verdict check_linearizable(const std::vector<Event>& history, std::size_t most_states) {
  std::map<std::uint64_t, std::vector<Event>> by_key;
  for (const auto& event : history) by_key[event.key].push_back(event);
  Verdict all = Verdict::holds;
  for (const auto& [key, events] : by_key) {
    const Verdict one = Search(events, true, most_states).run();
    if (one == Verdict::violated) return one;
    if (one == Verdict::unknown) all = one;
  }
  return all;
}

std::string check_witness(const std::vector<WitnessedEvent>& history) {
  const auto wrong = [](const WitnessedEvent& at, const std::string& what) {
    return "client " + std::to_string(at.event.client) + ", key " + std::to_string(at.event.key) + ", index " +
           std::to_string(at.index) + ": " + what;
  };
  std::map<std::uint64_t, std::vector<const WitnessedEvent*>> updates;  // by key, in the order of the log
  std::unordered_set<std::uint64_t> taken;
  for (const auto& at : history) {
    if (at.event.kind == Event::Kind::get) continue;
    if (!taken.insert(at.index).second) return wrong(at, "two updates at one index");
    updates[at.event.key].push_back(&at);
  }
  std::map<std::uint64_t, std::vector<Value>> values;  // after each of them
  for (auto& [key, list] : updates) {
    std::ranges::sort(list, {}, &WitnessedEvent::index);
    Value value;
    for (const auto* at : list) {
      if (!follows(at->event, value)) return wrong(*at, "the update's answer is not that of the log");
      values[key].push_back(value);
    }
  }
  std::map<int, std::uint64_t> place;  // the position of each client: before this entry
  for (const auto& at : history) {
    auto& now = place[at.event.client];
    if (at.index < now) return wrong(at, "goes back, from " + std::to_string(now));
    const bool update = at.event.kind != Event::Kind::get;
    now = at.index + (update ? 1 : 0);
    if (update) continue;
    const auto& list = updates[at.event.key];
    const auto after = std::ranges::lower_bound(list, at.index, {}, &WitnessedEvent::index);
    Value value =
        after == list.begin() ? Value() : values[at.event.key][static_cast<std::size_t>(after - list.begin()) - 1];
    if (!follows(at.event, value)) return wrong(at, "a lookup returned something else than the last update before it");
  }
  return "";
}

std::string format_history(const std::vector<Event>& history) {
  static constexpr const char* kinds[] = {"get", "put", "erase", "insert", "compare_exchange", "fetch_add"};
  std::ostringstream out;
  for (const auto& event : history) {
    out << event.client << ' ' << event.begin << ' ' << event.end << ' ' << kinds[static_cast<int>(event.kind)] << ' '
        << event.key << ' ' << event.argument << ' ' << event.expected << ' ' << event.done << ' ' << event.result
        << '\n';
  }
  return out.str();
}

}  // namespace smelt::state
