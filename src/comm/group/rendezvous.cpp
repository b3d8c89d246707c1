#include "comm/group/rendezvous.hpp"

#include <dirent.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/futex.hpp"
#include "base/polling.hpp"
#include "comm/group/tombstones.hpp"

namespace smelt::comm {
namespace {

constexpr std::uint64_t magic = 0x3174656d746c656d;  // "meltmet1"
constexpr std::uint32_t version = 9;
constexpr std::size_t longest_name = 200;
// The kernel maps so many bytes around a page that is read. Who reads the head must not map pages of the user region: a
// page that two processes map cannot be moved to its NUMA node any more.
constexpr std::size_t mapped_around_bytes = 64 << 10;
constexpr std::size_t most_user_bytes = std::size_t{1} << 45;
// A live member updates seen_ns within this time, also while it prepares or waits for a PU.
constexpr std::uint64_t longest_unseen_ns = 1'000'000'000;

enum class Kind : std::uint32_t {
  preparing = 0,
  gathering = 1,
  complete = 2,
  died = 3,        // the rank's process died
  gave_up = 4,     // the rank timed out
  refused = 5,     // the rank could not prepare the content
  conflict = 6,    // two processes claim the rank
  abandoned = 7,   // all try again: see the header
  called_off = 8,  // RendezvousOptions::stands
  left = 9,        // the rank will not come: RendezvousOptions::left
};

struct Phase {
  Kind kind;
  int rank;
  bool finished() const { return kind >= Kind::complete; }
};

struct SegmentHeader {
  std::atomic<std::uint64_t> magic;  // stored last, once the header is complete
  std::uint32_t version;
  std::int32_t size;
  std::int32_t creator;  // the rank that prepares
  std::uint64_t id;
  std::uint64_t expires_ns;     // on boot_ns(): when the creator times out
  std::uint32_t tells;          // not 0: a death is recorded by a tombstone
  char name[longest_name + 1];  // empty: over a descriptor
  // Written while preparing, published by the step to gathering.
  std::uint64_t shared_config_offset, shared_config_bytes, user_offset, user_bytes;
  // Written while preparing, published by the step to refused.
  std::int32_t refusal_status;
  char refusal[400];
  alignas(separation_bytes) std::atomic<std::uint32_t> phase;  // kind | rank << 8
  std::atomic<std::uint64_t> seen_ns;                          // boot_ns() when a member was last seen alive
  std::atomic<std::uint64_t> ended_ns;                         // if all members died before it ended; else 0
};

struct RendezvousRequest {
  std::string name;  // empty for a descriptor
  std::string path;  // as shm_open(3) names it
  std::string what;  // for error texts
  int size;
  std::span<const int> ranks;
  const Prepare& prepare;
  const RendezvousOptions& options;
  std::uint64_t deadline_ns;

  /// Ranks of a communicator need no tombstones, and neither do users of a descriptor, who cannot arrive later.
  bool tells() const { return !options.gone && !options.stands; }
};

// Empty: try again from the start.
using Attempt = Result<std::optional<Rendezvous>>;
Attempt again() { return std::optional<Rendezvous>(); }

constexpr std::size_t membership_offset =
    (sizeof(SegmentHeader) + separation_bytes - 1) / separation_bytes * separation_bytes;

std::size_t head_bytes(int size) { return membership_offset + Membership::bytes(size); }

SegmentHeader& header_of(const Segment& segment) { return *reinterpret_cast<SegmentHeader*>(segment.data()); }

Membership members_of(const Segment& segment) {
  return {segment.data() + membership_offset, static_cast<int>(header_of(segment).size)};
}

Phase phase_of(const SegmentHeader& head) {
  // Pairs with step(): a thread that sees a phase sees what was written in the previous one.
  const std::uint32_t word = head.phase.load(std::memory_order_acquire);
  return {static_cast<Kind>(word & 0xff), static_cast<int>(word >> 8)};
}

// Changes the phase from `from` to `to`, unless another process was faster. Phases that can be left have rank 0.
bool step(SegmentHeader& head, Kind from, Kind to, int rank = 0) {
  auto word = static_cast<std::uint32_t>(from);
  return head.phase.compare_exchange_strong(word,
                                            static_cast<std::uint32_t>(to) | static_cast<std::uint32_t>(rank) << 8,
                                            std::memory_order_acq_rel, std::memory_order_acquire);
}

// Records that a member was alive just now. Never decreases: a process may be descheduled after it has read the clock.
void note_time(SegmentHeader& head) {
  const std::uint64_t now = boot_ns();
  std::uint64_t seen = head.seen_ns.load(std::memory_order_relaxed);
  while (seen < now && !head.seen_ns.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {}
}

// Ends a rendezvous that has not ended yet.
void fail(SegmentHeader& head, Kind kind, int rank = 0) {
  if (!step(head, Kind::preparing, kind, rank)) step(head, Kind::gathering, kind, rank);
}

void sleep_ns(long ns) {
  const timespec pause = {0, ns};
  nanosleep(&pause, nullptr);
}

// ---- An existing rendezvous under a name

bool is_rendezvous(const Segment& segment) {
  if (segment.size() < sizeof(SegmentHeader)) return false;
  const SegmentHeader& head = header_of(segment);
  // Pairs with found(), which stores the fields first.
  if (head.magic.load(std::memory_order_acquire) != magic || head.version != version) return false;
  return head.size >= 1 && head.size <= Membership::most_ranks && segment.size() >= head_bytes(head.size);
}

bool anybody_lives(const Membership& members) {
  if (!members.same_namespaces()) return true;  // as far as can be told from here
  for (int rank = 0; rank < members.ranks(); ++rank) {
    if (members.present(rank) && liveness_of(members.process(rank)) != Liveness::dead) return true;
  }
  return false;
}

// Whether it cannot succeed any more. If so, it has ended for all members when this returns.
bool has_ended(const Segment& segment) {
  SegmentHeader& head = header_of(segment);
  Membership members = members_of(segment);
  if (phase_of(head).finished()) return true;
  if (anybody_lives(members)) return false;
  // A process that joins meanwhile reads the phase after joining.
  for (int rank = 0; rank < members.ranks(); ++rank) {
    // Also those that another process is marking, which may not have recorded the first death yet.
    const MemberState state = members.state(rank);
    const bool died = state == MemberState::present && liveness_of(members.process(rank)) == Liveness::dead;
    if (died || state == MemberState::dead) members.mark_dead(rank);
  }
  const int dead = members.first_dead();
  // Recorded once, by the first process that finds it. A later time would count processes that were started since,
  // for a new attempt, among the audience.
  std::uint64_t unknown = 0;
  head.ended_ns.compare_exchange_strong(
      unknown, std::min(boot_ns(), head.seen_ns.load(std::memory_order_relaxed) + longest_unseen_ns),
      std::memory_order_relaxed);
  fail(head, head.tells != 0 && dead >= 0 ? Kind::died : Kind::abandoned, std::max(dead, 0));
  return true;
}

// The rendezvous that a complete header describes, if its parts lie within the segment.
Result<Rendezvous> content_of(Segment whole, const std::string& what) {
  const SegmentHeader& head = header_of(whole);
  Rendezvous rendezvous;
  rendezvous.size = head.size;
  rendezvous.membership_offset = membership_offset;
  rendezvous.shared_config_offset = head.shared_config_offset;
  rendezvous.shared_config_bytes = head.shared_config_bytes;
  rendezvous.user_offset = head.user_offset;
  rendezvous.user_bytes = head.user_bytes;
  rendezvous.id = head.id;
  rendezvous.name.assign(head.name, strnlen(head.name, longest_name));
  const bool ordered = rendezvous.shared_config_offset == head_bytes(rendezvous.size) &&
                       rendezvous.shared_config_bytes <= whole.size() && rendezvous.user_bytes <= whole.size() &&
                       rendezvous.user_offset >= rendezvous.shared_config_offset + rendezvous.shared_config_bytes &&
                       rendezvous.user_offset <= whole.size() - rendezvous.user_bytes;
  if (!ordered)
    return make_error(Status::bad_format, "{}: its content lies outside of its {} bytes", what, whole.size());
  rendezvous.segment = std::move(whole);
  return rendezvous;
}

std::vector<int> absent_ranks(const Membership& members) {
  std::vector<int> absent;
  for (int rank = 0; rank < members.ranks(); ++rank) {
    if (members.state(rank) == MemberState::absent) absent.push_back(rank);
  }
  return absent;
}

Error died(const std::string& what, const Membership& members, int rank) {
  return make_error(Status::broken, "rank {} of {} died (process {}) before all ranks had come; start all ranks again",
                    rank, what, members.process(rank).pid);
}

std::string prefix() { return fmt::format("/smelt-{}-", geteuid()); }
std::string named(const std::string& name) { return fmt::format("rendezvous '{}'", name); }

// Removes the name of a rendezvous that has ended, after recording a tombstone for the ranks that have yet to arrive.
// False: another process did.
bool bury(const std::string& name, Segment& segment) {
  const auto removed = segment.take_name(prefix() + name, [&] {
    const SegmentHeader& head = header_of(segment);
    const Membership members = members_of(segment);
    const Phase phase = phase_of(head);
    if (phase.kind != Kind::died || head.tells == 0) return;
    const std::uint64_t unseen_ns = head.ended_ns.load(std::memory_order_relaxed);
    const std::uint64_t ended_ns = unseen_ns != 0 ? unseen_ns : head.seen_ns.load(std::memory_order_relaxed);
    const Tombstone tombstone{name, head.id, ended_ns, head.expires_ns, died(named(name), members, phase.rank)};
    record_tombstone(tombstone, absent_ranks(members));
  });
  return removed && *removed;
}

// ---- Participants

bool contains(std::span<const int> ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

class Participant {
 public:
  Participant(const RendezvousRequest& request, Segment segment)
      : request_(request), segment_(std::move(segment)), head_(header_of(segment_)), members_(members_of(segment_)) {}

  /// Joins with the ranks of this process. Empty: done. A value or an error: the attempt is over.
  std::optional<Attempt> claim();
  /// Prepares the content, as the creator.
  void prepare();
  /// Ends a rendezvous that was begun too early.
  void abandon();
  /// Waits for the outcome and acts on it.
  Attempt attend();

 private:
  Result<void> furnish();
  void refuse(const Error& error);
  void look_around(FailureDetector& watch);
  int missing() const;
  bool all_settled();
  Attempt conclude();
  Result<Rendezvous> open_rendezvous();
  Error reason(Phase phase) const;
  Attempt try_again();
  void give_up_name();

  const RendezvousRequest& request_;
  Segment segment_;
  SegmentHeader& head_;
  Membership members_;
  bool prepared_ = false;
};

void Participant::give_up_name() {
  if (!request_.name.empty()) bury(request_.name, segment_);
}

Attempt Participant::try_again() {
  give_up_name();
  if (!request_.name.empty()) return again();
  const Phase phase = phase_of(head_);
  if (phase.kind == Kind::died) return died(request_.what, members_, phase.rank);
  return make_error(Status::broken, "{} was used by a rendezvous that has ended; pass a fresh one", request_.what);
}

std::optional<Attempt> Participant::claim() {
  for (const int rank : request_.ranks) {
    if (members_.state(rank) == MemberState::absent) continue;
    const ProcessId holder = members_.process(rank);
    const bool dead = holder.pid != 0 && members_.same_namespaces() && liveness_of(holder) == Liveness::dead;
    if (dead && !request_.options.gone) {
      // The rank died and was started again before the others noticed. Their rendezvous has ended.
      members_.mark_dead(rank);
      fail(head_, Kind::died, rank);
      return try_again();
    }
    return make_error(Status::invalid_argument,
                      "rank {} of {} is taken by process {}; give every rank to one process only", rank, request_.what,
                      holder.pid);
  }
  for (std::size_t i = 0; i < request_.ranks.size(); ++i) {
    const auto joined = members_.join(request_.ranks[i]);
    if (joined) continue;
    // Ranks that have joined cannot be withdrawn: another process may have counted them.
    if (i > 0) fail(head_, Kind::conflict, request_.ranks[i]);
    for (const int own : request_.ranks.first(i)) members_.leave(own);
    if (i > 0) give_up_name();
    return joined.error();
  }
  // It may have ended between finding and joining it. Then this process gets the same outcome; it cannot be complete
  // without these ranks.
  const Phase phase = phase_of(head_);
  if (!phase.finished() || phase.kind == Kind::complete) return std::nullopt;
  Attempt end = conclude();
  if (!request_.name.empty()) acknowledge_tombstone(request_.name, head_.id, request_.ranks);
  return end;
}

void Participant::prepare() {
  prepared_ = true;
  try {
    if (const auto done = furnish(); !done) return refuse(done.error());
  } catch (const std::bad_alloc&) {  // the others wait
    return refuse({Status::out_of_memory, "no memory"});
  }
  step(head_, Kind::preparing, Kind::gathering);
}

Result<void> Participant::furnish() {
  const auto provision = request_.prepare();
  if (!provision) return provision.error();
  if (provision->user_bytes > most_user_bytes) {
    return make_error(Status::invalid_argument, "{} bytes of user region: at most {} are possible",
                      provision->user_bytes, most_user_bytes);
  }
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  head_.shared_config_offset = head_bytes(request_.size);
  head_.shared_config_bytes = provision->shared_config.size();
  head_.user_offset = (head_.shared_config_offset + head_.shared_config_bytes + page - 1) / page * page;
  if (provision->place) head_.user_offset += mapped_around_bytes;
  head_.user_bytes = provision->user_bytes;
  auto whole = Segment::from_fd(segment_.fd());
  if (!whole) return whole.error();
  if (const auto grown = whole->grow(head_.user_offset + head_.user_bytes); !grown) return grown.error();
  std::copy(provision->shared_config.begin(), provision->shared_config.end(),
            reinterpret_cast<char*>(whole->data() + head_.shared_config_offset));
  if (provision->place) provision->place(whole->data() + head_.user_offset);
  return {};
}

void Participant::abandon() {
  fail(head_, Kind::abandoned);
  for (const int rank : request_.ranks) members_.leave(rank);
  give_up_name();
}

void Participant::refuse(const Error& error) {
  head_.refusal_status = static_cast<std::int32_t>(error.status);
  const std::size_t length = std::min(error.message.size(), sizeof head_.refusal - 1);
  std::copy_n(error.message.begin(), length, head_.refusal);
  step(head_, Kind::preparing, Kind::refused, head_.creator);
}

bool Participant::all_settled() {
  const auto& gone = request_.options.gone;
  for (int rank = 0; rank < members_.ranks(); ++rank) {
    const MemberState state = members_.state(rank);
    if (state == MemberState::present || (gone && state == MemberState::dead)) continue;
    if (!gone || state != MemberState::absent || !gone(rank)) return false;
  }
  for (int rank = 0; gone && rank < members_.ranks(); ++rank) {
    if (members_.state(rank) == MemberState::absent) members_.mark_absent_dead(rank);
  }
  return true;
}

void Participant::look_around(FailureDetector& watch) {
  const Kind kind = phase_of(head_).kind;
  note_time(head_);
  if (watch.check()) {
    note_time(head_);  // not before the death; published by the step to `died`
    if (!request_.options.gone) fail(head_, Kind::died, members_.first_dead());
    // In the next attempt that rank counts as gone.
    if (kind == Kind::preparing && members_.state(head_.creator) == MemberState::dead) fail(head_, Kind::abandoned);
  }
  if (kind == Kind::gathering && all_settled()) step(head_, Kind::gathering, Kind::complete);
  if (const auto& stands = request_.options.stands; stands && !stands()) fail(head_, Kind::called_off);
  if (const int rank = missing(); rank >= 0) fail(head_, Kind::left, rank);
  if (monotonic_ns() >= request_.deadline_ns) fail(head_, Kind::gave_up, request_.ranks[0]);
}

/// A rank that has not joined and will not come, -1 if there is none.
int Participant::missing() const {
  for (int rank = 0; request_.options.left && rank < members_.ranks(); ++rank) {
    if (members_.state(rank) != MemberState::absent || !request_.options.left(rank)) continue;
    // Checked again: it may have joined, and left after completion.
    if (members_.state(rank) == MemberState::absent) return rank;
  }
  return -1;
}

Attempt Participant::attend() {
  FailureDetector watch(members_);
  const PollingPause pause(1'000'000);
  while (!phase_of(head_).finished()) {
    look_around(watch);
    if (phase_of(head_).finished()) break;
    pause.sleep();
  }
  return conclude();
}

Attempt Participant::conclude() {
  const Phase phase = phase_of(head_);
  if (phase.kind == Kind::complete) {
    give_up_name();
    auto rendezvous = open_rendezvous();
    if (rendezvous) return std::optional<Rendezvous>(std::move(*rendezvous));
    for (const int rank : request_.ranks) members_.mark_dead(rank);  // the others rely on it
    return rendezvous.error();
  }
  const Error error = reason(phase);
  for (const int rank : request_.ranks) members_.leave(rank);
  if (phase.kind == Kind::abandoned) return try_again();
  give_up_name();
  return error;
}

Result<Rendezvous> Participant::open_rendezvous() {
  auto whole = Segment::from_fd(segment_.fd());
  if (!whole) return whole.error();
  auto rendezvous = content_of(std::move(*whole), request_.what);
  if (rendezvous) rendezvous->prepared = prepared_;
  return rendezvous;
}

Error Participant::reason(Phase phase) const {
  const auto& what = request_.what;
  switch (phase.kind) {
    case Kind::died: return died(what, members_, phase.rank);
    case Kind::called_off: {
      const auto stands = request_.options.stands ? request_.options.stands() : Result<void>();
      if (!stands) return stands.error();
      return make_error(Status::broken, "{} was called off by another rank", what);
    }
    case Kind::left: return make_error(Status::broken, "{}: rank {} has left before it came", what, phase.rank);
    case Kind::gave_up: {
      const std::string absent = fmt::format("{}", fmt::join(absent_ranks(members_), ", "));
      if (absent.empty()) {
        return make_error(Status::timed_out,
                          "{}: rank {} gave up waiting for rank {} to prepare it; allow a longer timeout", what,
                          phase.rank, head_.creator);
      }
      return make_error(
          Status::timed_out,
          "{}: of {} ranks these have not come: {}; rank {} gave up waiting; start them sooner or allow a "
          "longer timeout",
          what, members_.ranks(), absent, phase.rank);
    }
    case Kind::refused: {
      const std::string text(head_.refusal, strnlen(head_.refusal, sizeof head_.refusal));
      return make_error(static_cast<Status>(head_.refusal_status), "{}: rank {} could not prepare it: {}", what,
                        phase.rank, text);
    }
    default:
      return make_error(Status::invalid_argument, "rank {} of {} was brought by two processes; give it to one only",
                        phase.rank, what);
  }
}

// ---- Rendezvous under a name

// Writes the head of a new rendezvous into zeroed memory.
Result<void> found(const RendezvousRequest& request, Segment& segment) {
  SegmentHeader& head = header_of(segment);
  head.version = version;
  head.size = request.size;
  head.creator = request.ranks[0];
  head.expires_ns = boot_ns() + (request.deadline_ns - std::min(request.deadline_ns, monotonic_ns()));
  head.tells = request.tells() ? 1 : 0;
  std::copy_n(request.name.begin(), std::min(request.name.size(), longest_name), head.name);
  head.seen_ns.store(boot_ns(), std::memory_order_relaxed);
  if (getrandom(&head.id, sizeof head.id, 0) != sizeof head.id) head.id = monotonic_ns();
  auto members = members_of(segment);
  for (const int rank : request.ranks) {
    if (auto joined = members.join(rank); !joined) return joined.error();
  }
  head.magic.store(magic, std::memory_order_release);  // pairs with is_rendezvous()
  return {};
}

// A rendezvous that ended before this process arrived.
std::optional<Error> told(const RendezvousRequest& request) {
  return request.tells() ? consume_tombstone(request.name, request.ranks) : std::nullopt;
}

Attempt begin_named(const RendezvousRequest& request) {
  remove_stale_rendezvous();
  auto segment = Segment::unnamed(head_bytes(request.size));
  if (!segment) return segment.error();
  if (const auto founded = found(request, *segment); !founded) return founded.error();
  const auto given = segment->give_name(request.path);
  if (!given) return given.error();
  if (!*given) return again();
  Participant participant(request, std::move(*segment));
  if (auto tombstone = told(request)) {
    participant.abandon();
    return std::move(*tombstone);
  }
  participant.prepare();
  return participant.attend();
}

// Joins an existing rendezvous. `segment` holds one (is_rendezvous()).
Attempt take_part(const RendezvousRequest& request, Segment segment) {
  const int its_size = header_of(segment).size;
  if (its_size != request.size) {
    return make_error(Status::invalid_argument, "{} is for {} ranks, this process says {}: all must say the same",
                      request.what, its_size, request.size);
  }
  Participant participant(request, std::move(segment));
  if (auto over = participant.claim()) return std::move(*over);
  return participant.attend();
}

// The name is looked up before the tombstones: see the header.
Attempt attempt_named(const RendezvousRequest& request) {
  auto segment = Segment::open_named(request.path);
  if (!segment && segment.error().status != Status::not_found) return segment.error();
  if (segment && !is_rendezvous(*segment)) {
    return make_error(Status::bad_format, "'/dev/shm{}' is no rendezvous of this version of smelt; remove it",
                      request.path);
  }
  if (segment && has_ended(*segment)) {
    bury(request.name, *segment);
    return again();
  }
  if (auto tombstone = told(request)) return std::move(*tombstone);
  return segment ? take_part(request, std::move(*segment)) : begin_named(request);
}

// Locks the memory behind a descriptor. A holder that gets no processor is waited for like a rank that has yet to come.
Result<void> lock_until(Segment& segment, std::uint64_t deadline_ns) {
  for (;;) {
    auto locked = segment.lock();
    if (locked || locked.error().status != Status::timed_out || monotonic_ns() >= deadline_ns) return locked;
  }
}

Attempt attempt_fd(const RendezvousRequest& request, int fd) {
  auto segment = Segment::reopen(fd, head_bytes(request.size));
  if (!segment) return segment.error();
  // Membership::join() does it, too; but it can take the kernel seconds on a busy machine, and here the lock is not
  // held.
  enable_heavy_barrier();
  // Under the lock the memory is either unused or holds a rendezvous. A creator that was killed here leaves the magic
  // number 0, and ranks that the next one finds dead.
  if (const auto locked = lock_until(*segment, request.deadline_ns); !locked) return locked.error();
  const std::uint64_t content = header_of(*segment).magic.load(std::memory_order_acquire);
  const auto founded = content == 0 ? found(request, *segment) : Result<void>();
  segment->unlock();
  if (!founded) return founded.error();
  if (content == 0) {
    Participant participant(request, std::move(*segment));
    participant.prepare();
    return participant.attend();
  }
  if (!is_rendezvous(*segment))
    return make_error(Status::bad_format, "{} holds something other than a rendezvous", request.what);
  if (has_ended(*segment)) {
    const Phase phase = phase_of(header_of(*segment));
    if (phase.kind == Kind::died) return died(request.what, members_of(*segment), phase.rank);
    return make_error(Status::broken, "{} was used by a rendezvous that has ended; pass a fresh one", request.what);
  }
  return take_part(request, std::move(*segment));
}

Result<void> check(int size, std::span<const int> ranks, const RendezvousOptions& options, const std::string& what) {
  if (size < 1 || size > Membership::most_ranks) {
    return make_error(Status::invalid_argument, "{}: {} ranks; must be 1 to {}", what, size, Membership::most_ranks);
  }
  if (ranks.empty()) return make_error(Status::invalid_argument, "{}: this process brings no rank", what);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size) {
      return make_error(Status::invalid_argument, "{}: rank {} is not in 0 to {}", what, ranks[i], size - 1);
    }
    if (contains(ranks.first(i), ranks[i])) {
      return make_error(Status::invalid_argument, "{}: rank {} is listed twice", what, ranks[i]);
    }
  }
  if (!(options.timeout_s > 0.0)) {
    return make_error(Status::invalid_argument, "{}: timeout of {} s; must be above 0", what, options.timeout_s);
  }
  return {};
}

std::uint64_t deadline_ns(double timeout_s) {
  constexpr double longest_s = 1e9;
  return monotonic_ns() + static_cast<std::uint64_t>(std::min(timeout_s, longest_s) * 1e9);
}

}  // namespace

Result<Rendezvous> join_rendezvous(const std::string& name, int size, std::span<const int> ranks,
                                   const Prepare& prepare, const RendezvousOptions& options) {
  if (name.empty() || name.size() > longest_name || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return make_error(Status::invalid_argument, "name '{}' of a rendezvous: must be 1 to {} bytes without '/'", name,
                      longest_name);
  }
  const std::string what = named(name);
  if (const auto valid = check(size, ranks, options, what); !valid) return valid.error();
  const RendezvousRequest request{name,  prefix() + name, what,    size,
                                  ranks, prepare,         options, deadline_ns(options.timeout_s)};
  for (;;) {
    if (options.stands) {
      if (const auto stands = options.stands(); !stands) return stands.error();
    }
    auto attempt = attempt_named(request);
    if (!attempt) return attempt.error();
    if (*attempt) return std::move(**attempt);
    if (monotonic_ns() >= request.deadline_ns) {
      return make_error(Status::timed_out, "{}: others keep ending it; start all ranks again", what);
    }
    sleep_ns(50'000);
  }
}

Result<Rendezvous> join_rendezvous_fd(int fd, int size, std::span<const int> ranks, const Prepare& prepare,
                                      const RendezvousOptions& options) {
  const std::string what = fmt::format("rendezvous over file descriptor {}", fd);
  if (const auto valid = check(size, ranks, options, what); !valid) return valid.error();
  const RendezvousRequest request{{}, {}, what, size, ranks, prepare, options, deadline_ns(options.timeout_s)};
  auto attempt = attempt_fd(request, fd);
  if (!attempt) return attempt.error();
  if (*attempt) return std::move(**attempt);
  return make_error(Status::broken, "{} has ended; pass a fresh descriptor", what);
}

std::optional<Rendezvous> inspect_rendezvous(Segment segment) {
  if (!is_rendezvous(segment) || phase_of(header_of(segment)).kind != Kind::complete) return std::nullopt;
  auto rendezvous = content_of(std::move(segment), {});
  if (!rendezvous) return std::nullopt;
  return std::move(*rendezvous);
}

int remove_stale_rendezvous() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/dev/shm"), closedir);
  if (directory == nullptr) return 0;
  const std::string start = prefix().substr(1);
  int removed = 0;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name.compare(0, start.size(), start) != 0) continue;
    auto segment = Segment::open_named("/" + name);
    if (!segment || !is_rendezvous(*segment) || !has_ended(*segment)) continue;
    if (bury(name.substr(start.size()), *segment)) ++removed;
  }
  return removed;
}

}  // namespace smelt::comm
