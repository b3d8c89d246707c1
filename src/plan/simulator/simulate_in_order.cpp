// The part of the simulator of schedules for ranks that have a PU each and read out of the same caches.
//
// A cache hands out to all who read out of it at once, to each the same share of what it can. Of a short read all lines
// are asked for at once, and the cache hands them out before those of reads that begin later. So how long a read takes
// depends on who else reads. The kernel, which copies out of other processes, lets one reader after the other use a
// page. Events are taken in the order of time:
//
//   turn    a rank runs up to its next read, which begins then, or until it must wait
//   share   the first of those who read out of a cache is done, and the others go on faster
//   done    a rank is done with reading what another one had read before
//
// Equations: docs/reference/model.md.
#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/simulator/simulate_schedule.hpp"

namespace smelt::plan {
namespace {

/// Lines that a core asks for at once, in bytes: 48 of them, as many as the L2 caches of server cores may wait for.
constexpr double asked_at_once_bytes = 48 * 64;
/// How much of what a PU wrote last its caches keep, relative to CopyCosts::cached_bytes, which is as a rule three
/// eighths of its second cache.
constexpr double written_kept = 2.0;

}  // namespace

class ScheduleSimulator::SharedSources {
 public:
  explicit SharedSources(ScheduleSimulator& simulator)
      : simulator_(simulator), sources_(simulator.machine_.size()), began_ns_(simulator.ranks_.size(), 0.0) {}

  void run() {
    simulator_.awaiting_.assign(simulator_.ranks_.size(), {});
    for (int number = 0; number < static_cast<int>(simulator_.ranks_.size()); ++number) goes_on(number, 0.0);
    while (!events_.empty() && !simulator_.too_late_) {
      const Event event = events_.top();
      events_.pop();
      switch (event.kind) {
        case Event::Kind::turn: take(event.at_ns, event.number); break;
        case Event::Kind::share: share(event.at_ns, event.number, event.version); break;
        case Event::Kind::done: end_read(event.at_ns, event.number); break;
      }
    }
  }

 private:
  struct Event {
    enum class Kind : std::uint8_t { turn, share, done };
    double at_ns;
    Kind kind;
    int number;  ///< of the rank, or of the PU that has the cache
    std::uint64_t version = 0;
    bool operator>(const Event& other) const {
      return std::tie(at_ns, kind, number) > std::tie(other.at_ns, other.kind, other.number);
    }
  };
  struct Read {
    int number;
    double left = 1.0;  ///< part
    double alone_ns, source_ns, pages_ns;
    std::uint64_t area;
  };
  struct Source {
    std::vector<Read> reads;
    std::unordered_map<std::uint64_t, int> readers{};  ///< of the same area
    double since_ns = 0.0;                             ///< when `left` was true
    double busy_ns = 0.0;                              ///< until when it hands out to short reads
    std::uint64_t version = 0;                         ///< of its event
    double copied_bytes = 0.0;                         ///< by the PU itself, into its first cache
  };
  /// What some rank has begun to read.
  struct Known {
    bool there = false;                               ///< it has read all
    std::vector<std::pair<int, double>> followers{};  ///< who read it meanwhile, and when they could be done
  };

  Rank& at(int number) { return simulator_.ranks_[static_cast<std::size_t>(number)]; }
  void goes_on(int number, double ready_ns) {
    events_.push({std::max(at(number).clock, ready_ns), Event::Kind::turn, number});
  }

  void take(double now_ns, int number) {
    Rank& rank = at(number);
    for (bool due = true;;) {
      if (rank.at == rank.stop) {
        if (!simulator_.next_part(rank)) return;
        continue;
      }
      const LoweredOp& op = *rank.at;
      if (op.shares_source()) {
        const double ready_ns = simulator_.ready_ns(number, rank, op);
        if (ready_ns != never_ns) {
          return due && ready_ns <= now_ns ? begin_read(now_ns, number, op) : goes_on(number, ready_ns);
        }
      }
      if (!simulator_.perform(number, rank, op)) {
        const int awaited = rank.awaited < 0 ? number : rank.awaited;
        simulator_.awaiting_[static_cast<std::size_t>(awaited)].push_back(number);
        return;
      }
      due = false;
      if (!finish(number, rank)) return;
    }
  }

  /// False: it takes too long.
  bool finish(int number, Rank& rank) {
    simulator_.finish_operation(number, rank, [&](int other, double ready_ns) { goes_on(other, ready_ns); });
    if (rank.clock + rank.least_after_ns > simulator_.most_ns_ * rounding) simulator_.too_late_ = true;
    return !simulator_.too_late_;
  }

  void begin_read(double now_ns, int number, const LoweredOp& op) {
    began_ns_[static_cast<std::size_t>(number)] = now_ns;
    const Rank& rank = at(number);
    const bool lent = op.kind == LoweredOp::Kind::receive;
    const Area area = lent ? simulator_.queues_.next(op.peer, number)->area : op.area;
    const std::uint64_t key = area_key(op.peer, area, rank.chunks_before + rank.chunk);
    const double alone_ns = lent ? op.stream_ns : op.line_ns;
    Source& source = sources_[simulator_.lowering_.pu(op.peer)];
    const double busy = busy_ns(source, op);
    if (op.pages_ns > 0.0) return join(now_ns, op.peer, {number, 1.0, alone_ns, busy, op.pages_ns, key});
    const auto [place, first] = known_.try_emplace(key);
    Known& known = place->second;
    if (!first && known.there) {
      events_.push({now_ns + op.again_ns, Event::Kind::done, number});
    } else if (!first) {
      known.followers.push_back({number, now_ns + op.again_ns});
    } else {
      const double source_ns = std::max(busy, near_busy_ns(source, op));
      if (op.bytes <= asked_at_once_bytes) {
        known.there = true;
        source.busy_ns = std::max(source.busy_ns, now_ns) + source_ns;
        events_.push({std::max(now_ns + alone_ns, source.busy_ns), Event::Kind::done, number});
        return;
      }
      join(now_ns, op.peer, {number, 1.0, alone_ns, source_ns, 0.0, key});
    }
  }

  /// How long the caches of a PU are busy with a read. They hold what was written last, but for what the PU's own
  /// copies have put there since: source and target.
  double busy_ns(const Source& source, const LoweredOp& op) const {
    if (op.source_ns == 0.0) return 0.0;
    const double kept_bytes = written_kept * simulator_.machine_.copy->cached_bytes - 2.0 * source.copied_bytes;
    return std::clamp(kept_bytes / op.buffer_bytes, 0.0, 1.0) * op.source_ns;
  }
  double near_busy_ns(const Source& source, const LoweredOp& op) const {
    const double near_bytes = std::max(1.0, simulator_.machine_.near_bytes.value_or(0.0));
    return std::max(0.0, 1.0 - 2.0 * source.copied_bytes / near_bytes) * op.near_ns;
  }

  /// A read that takes the longer, the more others there are.
  void join(double now_ns, int owner, const Read& read) {
    const auto pu = simulator_.lowering_.pu(owner);
    advance(sources_[pu], now_ns);
    sources_[pu].reads.push_back(read);
    ++sources_[pu].readers[read.area];
    expect(pu);
  }

  /// The share of a read that is done per nanosecond.
  static double rate(const Source& source, const Read& read) {
    const double busy_ns = static_cast<double>(source.reads.size()) * read.source_ns;
    const int same = source.readers.at(read.area);
    const double pages_busy_ns = same > 1 ? same * read.pages_ns : 0.0;
    return 1.0 / std::max({read.alone_ns, busy_ns, pages_busy_ns, 1e-9});
  }

  static void advance(Source& source, double now_ns) {
    for (Read& read : source.reads) read.left -= (now_ns - source.since_ns) * rate(source, read);
    source.since_ns = now_ns;
  }

  /// Sets the event at which the first read out of a cache is done.
  void expect(std::size_t pu) {
    Source& source = sources_[pu];
    ++source.version;
    if (source.reads.empty()) return;
    double next_ns = std::numeric_limits<double>::infinity();
    for (const Read& read : source.reads) next_ns = std::min(next_ns, std::max(0.0, read.left) / rate(source, read));
    events_.push({source.since_ns + next_ns, Event::Kind::share, static_cast<int>(pu), source.version});
  }

  void share(double now_ns, int pu, std::uint64_t version) {
    constexpr double nothing = 1e-9;
    Source& source = sources_[static_cast<std::size_t>(pu)];
    if (version != source.version) return;
    advance(source, now_ns);
    // The event is that of the read that has the least left to do, which rounding may have kept from being 0.
    const auto next = std::min_element(source.reads.begin(), source.reads.end(), [&](const Read& a, const Read& b) {
      return a.left / rate(source, a) < b.left / rate(source, b);
    });
    next->left = 0.0;
    const auto rest = std::stable_partition(source.reads.begin(), source.reads.end(),
                                            [](const Read& read) { return read.left > nothing; });
    const std::vector<Read> over(rest, source.reads.end());
    source.reads.erase(rest, source.reads.end());
    for (const Read& read : over) --source.readers[read.area];
    expect(static_cast<std::size_t>(pu));
    for (const Read& read : over) {
      Known& known = known_[read.area];
      known.there = true;
      for (const auto& [number, least_ns] : std::exchange(known.followers, {})) {
        events_.push({std::max(now_ns, least_ns), Event::Kind::done, number});
      }
      end_read(now_ns, read.number);
    }
  }

  void end_read(double now_ns, int number) {
    Rank& rank = at(number);
    const LoweredOp& op = *rank.at;
    sources_[simulator_.lowering_.pu(number)].copied_bytes += op.bytes;
    simulator_.perform(number, rank, op, now_ns - began_ns_[static_cast<std::size_t>(number)]);
    if (finish(number, rank)) goes_on(number, 0.0);
  }

  ScheduleSimulator& simulator_;
  std::vector<Source> sources_;                       ///< by PU
  std::vector<double> began_ns_;                      ///< by rank: its read
  std::unordered_map<std::uint64_t, Known> known_{};  ///< by area_key()
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_{};
};

void ScheduleSimulator::advance_in_order() { SharedSources(*this).run(); }

}  // namespace smelt::plan
