// Replicated log: ranks agree on one sequence of commands, and go on when any of them are killed.
//
//   auto log = smelt::ReplicatedLog::create(*comm);
//   auto replica = log->attach(rank);
//   replica->append(&command, sizeof command);                 // ok: it is in the log, for good
//   for (smelt::Entry entry; replica->next(&entry) == smelt::Status::ok;) apply(entry);   // the same order everywhere
//
// A replicated data structure takes one more line (Replicated, below).
//
// Promise: appends are linearizable. Every replica delivers each command once, in the same order, without gaps. After
// an append has returned ok, all live replicas deliver its command, whichever ranks die;
// docs/reference/replicated-log.md.
//
// Source: 1Paxos, [Smelt16] 5.6. The log is in shared memory that outlives the ranks, and acts as the acceptor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "smelt/communicator.hpp"
#include "smelt/error.hpp"
#include "smelt/map_algorithms.hpp"

namespace smelt {

struct LogOptions {
  /// "1paxos": a leader orders the commands, and any other replica can replace it. "broadcast": a fixed sequencer,
  /// whose end breaks the log.
  std::string algorithm = "1paxos";
  /// "cas": any replica replaces a leader alone, and one that lives is enough. "paxos": a majority of the replicas must
  /// agree, and be up to date before a live one is evicted; so the log waits rather than losing its state. Needs 3
  /// replicas or more, and `faults` other than none.
  std::string configuration = "cas";
  std::vector<int> replicas;      ///< ranks that hold a replica, and append; empty: all
  std::optional<int> leader;      ///< the first leader; unset: the replica nearest to the others by the model
  std::optional<Faults> faults;   ///< faults that are survived; unset: crash over processes, none over threads
  double suspect_after_s = 0.02;  ///< Faults::stop: a leader that delays others this long is replaced
  /// A live replica is evicted if the log waits for it and it has delivered nothing for this long: always with
  /// Faults::stop, otherwise if it can return by a snapshot and two others are up to date. Safety depends on neither
  /// time.
  double evict_after_s = 0.1;
  std::uint32_t entries = 1 << 14;  ///< slots of the log, of 1 to 32 commands each; a power of 2 from 64 to 2^20
  std::uint32_t requests =
      1 << 10;  ///< of one rank that may be under way or unread by others; a power of 2 from 2 to 2^16
  std::uint32_t command_bytes = 56;  ///< of the largest command; 1 to 65535. 56 take one cache line
  std::string wait;                  ///< spin|yield|sleep|auto; empty: SMELT_WAIT
  /// create_shared(): the log outlives its processes, until remove_log(). See there.
  bool keep = false;
};

/// One command of the log.
struct Entry {
  std::uint64_t index = 0;     ///< its place in the log, from 0
  int client = 0;              ///< rank that appended it
  std::uint64_t request = 0;   ///< its number among that rank's, from 1
  const void* data = nullptr;  ///< 8-byte aligned; valid until the replica's next call
  std::size_t bytes = 0;
};

/// A started append.
struct Ticket {
  std::uint64_t request = 0;
};

/// The state of the log, as seen by this replica.
struct LogConfiguration {
  std::uint64_t epoch = 0;    ///< counts changes of the leader, from 1
  int leader = -1;            ///< -1: none at the moment
  std::vector<int> replicas;  ///< up-to-date replicas, which are neither dead nor evicted
};

/// The functions of a replica's state. With `apply`, commands are delivered during the replica's calls, as soon as they
/// are known; without it, they are delivered by next().
/// Must be deterministic: the same commands lead to the same state, independent of process, addresses, time and hash
/// seeds. An exception that leaves one of them ends the process.
struct StateMachine {
  void* context = nullptr;
  void (*apply)(void* context, const Entry& entry) = nullptr;
  /// Set both or none. `save` appends the whole state to `bytes`; `load` replaces the state by one that another replica
  /// saved. They allow an evicted replica to return. Called between two commands.
  void (*save)(void* context, std::vector<std::byte>& bytes) = nullptr;
  void (*load)(void* context, std::span<const std::byte> bytes) = nullptr;
};

namespace state::log {
class Space;
class Replica;
}  // namespace state::log

/// One rank's replica; used by one thread at a time. Destroying it gives the rank up. Started commands for which it has
/// not waited may still be executed.
///
/// Progress is made only during calls, and only for the roles of the caller's rank. A leader orders nothing outside of
/// calls, and deaths are noticed only during calls. A rank that has nothing else to do calls serve().
///
/// Calls return ok, or: broken (the log cannot go on: failure() tells why), invalid_argument (failure() tells what).
/// Cost: no lock, no allocation, no system call unless it waits. Snapshots and configuration() allocate.
class Replica {
 public:
  Replica(Replica&&) noexcept;
  Replica& operator=(Replica&&) noexcept;
  ~Replica();

  int rank() const noexcept;

  /// Appends `bytes` bytes at `command`, and returns when it is part of the log and known here. `*index`: its place;
  /// unknown_index if it is covered by a snapshot that this replica has been given meanwhile.
  /// Errors: invalid_argument also if this replica does not read: with entries / 2 slots to deliver, call next() first.
  /// Then the command has not been appended, or (if it was started) still may be.
  Status append(const void* command, std::size_t bytes, std::uint64_t* index = nullptr) noexcept;

  /// The same in parts: any number up to LogOptions::requests under way. Waits while all of these are in use. A
  /// rank's commands are executed in the order in which they were started. `command` may be reused at once. A leader
  /// decides those that it has started when there are 32 of them, or in its next call of another kind.
  Status start(const void* command, std::size_t bytes, Ticket* ticket) noexcept;
  Status test(Ticket ticket, bool* done, std::uint64_t* index = nullptr) noexcept;
  Status wait(Ticket ticket, std::uint64_t* index = nullptr) noexcept;
  static constexpr std::uint64_t unknown_index = UINT64_MAX;

  /// The next command, if there is one (`*there`). The call means that the previous command has been applied.
  Status next(Entry* entry, bool* there) noexcept;
  /// The next command; waits for it.
  Status next(Entry* entry) noexcept;

  /// Sets `*index` such that every command whose append returned before this call, on any rank, has a smaller index.
  /// Once a replica has delivered all of these, reads of its state are linearizable.
  /// Cost: a load that hits the cache unless a command has been appended.
  Status read_point(std::uint64_t* index) noexcept;
  /// With `apply`: waits until all entries below `index` have been applied here.
  Status catch_up(std::uint64_t index) noexcept;
  /// Index of the next entry to be delivered here.
  std::uint64_t delivered() const noexcept;

  /// Commands that this rank has started; of a log that was kept, those of its former processes, too.
  std::uint64_t started() const noexcept;

  /// Does what the roles of this rank have to do now, without waiting, and looks for deaths.
  Status progress() noexcept;
  /// The same until `stop`. Without `apply`, commands are discarded, so this rank has no state then.
  Status serve(const std::atomic<bool>& stop) noexcept;
  Status serve(bool (*stop)(void* context), void* context) noexcept;

  LogConfiguration configuration() const;
  /// The reason why the last call failed, one line.
  std::string failure() const;

 private:
  friend class ReplicatedLog;
  explicit Replica(std::unique_ptr<state::log::Replica> replica);
  std::unique_ptr<state::log::Replica> replica_;
};

/// The log: its memory and its members. Movable; replicas keep it alive.
class ReplicatedLog {
 public:
  /// Over the ranks of a communicator, threads or processes. Each process of it calls this once for each log, in the
  /// same order, with the same options (those of the process that comes first count). Memory: entries x 8 bytes, and
  /// for each rank requests x (8 + command_bytes) rounded up to lines, on its NUMA node. Errors: invalid_argument
  /// (options), out_of_memory, broken (a rank died while they met), timed_out.
  static Result<ReplicatedLog> create(const Communicator& communicator, const LogOptions& options = {});

  /// Over processes of one user, without a communicator: the others call the same with the same name and size; this
  /// process brings `ranks`. A segment in /dev/shm (mode 0600) whose name is gone when this returns.
  ///
  /// With LogOptions::keep, the log stays in /dev/shm under its name when all its processes have ended, however they
  /// ended, and `size` processes that call this again continue it: all that was acknowledged is there, and each replica
  /// is given the newest state that was saved and then the entries after it. `entries`, `requests`, `command_bytes` and
  /// `replicas` are the same each time. Needs a StateMachine with `apply`, `save` and `load`: the leader saves the
  /// state when half of the log's slots are full or a client's requests are used up. Memory: twice the saved state.
  /// Does not survive a restart of the machine. Errors: also broken (processes that use it live), bad_format (of
  /// another version).
  static Result<ReplicatedLog> create_shared(const std::string& name, int size, std::span<const int> ranks,
                                             const LogOptions& options = {}, double timeout_s = 60.0);

  ReplicatedLog(ReplicatedLog&&) noexcept;
  ReplicatedLog& operator=(ReplicatedLog&&) noexcept;
  ~ReplicatedLog();

  int size() const noexcept;  ///< ranks, with and without a replica

  /// Makes the calling thread the replica of `rank`, which must belong to this process. Once for each rank. All
  /// replicas must attach, since a full log waits for all of them. If the thread ends before the Replica is destroyed,
  /// it counts as dead.
  Result<Replica> attach(int rank, const StateMachine& machine = {});

 private:
  explicit ReplicatedLog(std::shared_ptr<state::log::Space> space);
  std::shared_ptr<state::log::Space> space_;
};

/// A log that was kept, as it stands.
struct LogState {
  std::string name;
  int ranks = 0, replicas = 0;
  std::uint32_t entries = 0, requests = 0, command_bytes = 0;
  std::uint64_t epoch = 0;
  int leader = -1;              ///< -1: none at the moment
  std::uint64_t appended = 0;   ///< entries since the beginning: the index of the next one
  std::uint64_t saved = 0;      ///< of them are in the saved state
  std::size_t state_bytes = 0;  ///< of the saved state; 0: none yet
  std::size_t memory_bytes = 0;
  std::vector<std::int64_t> processes;  ///< that live and use it
};

/// The logs of this user that were kept, by name. Takes no part in them.
Result<std::vector<LogState>> list_logs();
/// Errors: not_found, bad_format.
Result<LogState> inspect_log(const std::string& name);
/// Frees a kept log that no process uses. Errors: not_found, broken (it is in use).
Result<void> remove_log(const std::string& name);

/// How a structure is written to bytes and read back, for snapshots. There is one for trivially copyable types,
/// strings, pairs, containers of these, and types with `void save(std::vector<std::byte>&) const` and `void
/// load(std::span<const std::byte>)`. Specialize it for others.
template <class T>
struct Snapshot {
  static constexpr bool available = false;
};

template <class T>
concept HasSnapshot = Snapshot<T>::available;

template <class T>
concept SavesItself = requires(const T& saved, T& loaded, std::vector<std::byte>& out, std::span<const std::byte> in) {
  saved.save(out);
  loaded.load(in);
};

namespace replicated_detail {

// The elements of maps have constant keys. Whether they are trivially copyable depends on the standard library.
template <class T>
inline constexpr bool has_constant_key = false;
template <class A, class B>
inline constexpr bool has_constant_key<std::pair<const A, B>> = true;

template <class T>
concept IsItsBytes = std::is_trivially_copyable_v<T> && !has_constant_key<T>;

}  // namespace replicated_detail

template <class T>
requires(replicated_detail::IsItsBytes<T> && !SavesItself<T>) struct Snapshot<T> {
  static constexpr bool available = true;
  static void save(const T& value, std::vector<std::byte>& out) {
    const auto* bytes = reinterpret_cast<const std::byte*>(std::addressof(value));
    out.insert(out.end(), bytes, bytes + sizeof value);
  }
  /// Takes what it reads from the front of `in`.
  static void load(T& value, std::span<const std::byte>& in) {
    std::memcpy(std::addressof(value), in.data(), sizeof value);
    in = in.subspan(sizeof value);
  }
};

template <SavesItself T>
struct Snapshot<T> {
  static constexpr bool available = true;
  static void save(const T& value, std::vector<std::byte>& out) {
    std::vector<std::byte> own;
    value.save(own);
    Snapshot<std::uint64_t>::save(own.size(), out);
    out.insert(out.end(), own.begin(), own.end());
  }
  static void load(T& value, std::span<const std::byte>& in) {
    std::uint64_t bytes = 0;
    Snapshot<std::uint64_t>::load(bytes, in);
    value.load(in.first(bytes));
    in = in.subspan(bytes);
  }
};

template <class A, class B>
requires(HasSnapshot<std::remove_const_t<A>>&& HasSnapshot<B> &&
         !replicated_detail::IsItsBytes<std::pair<A, B>>) struct Snapshot<std::pair<A, B>> {
  using WithoutConst = std::pair<std::remove_const_t<A>, B>;  // the keys of maps are const where they lie
  static constexpr bool available = true;
  static void save(const std::pair<A, B>& value, std::vector<std::byte>& out) {
    Snapshot<std::remove_const_t<A>>::save(value.first, out);
    Snapshot<B>::save(value.second, out);
  }
  static void load(WithoutConst& value, std::span<const std::byte>& in) {
    Snapshot<std::remove_const_t<A>>::load(value.first, in);
    Snapshot<B>::load(value.second, in);
  }
};

namespace replicated_detail {

template <class T>
struct WithoutConst {
  using type = T;
};
template <class A, class B>
struct WithoutConst<std::pair<A, B>> {
  using type = std::pair<std::remove_const_t<A>, B>;
};

template <class T, class... Commands>
struct CommandList {
  using Types = std::tuple<Commands...>;
};
template <class T>
struct CommandList<T> {
  using Types = std::tuple<typename T::Command>;
};

template <class T, class Command>
decltype(auto) execute(T& value, const Command& command) {
  if constexpr (std::is_invocable_v<const Command&, T&>) {
    return command(value);
  } else {
    return value.apply(command);
  }
}

}  // namespace replicated_detail

/// Containers, strings among them: the number of elements, then these.
template <class T>
requires(!std::is_trivially_copyable_v<T> && !SavesItself<T> && HasSnapshot<typename T::value_type> &&
         requires(T & container, typename T::value_type value) {
           container.insert(container.end(), value);
         }) struct Snapshot<T> {
  static constexpr bool available = true;
  static void save(const T& value, std::vector<std::byte>& out) {
    Snapshot<std::uint64_t>::save(value.size(), out);
    for (const auto& element : value) Snapshot<typename T::value_type>::save(element, out);
  }
  static void load(T& value, std::span<const std::byte>& in) {
    value.clear();
    std::uint64_t count = 0;
    Snapshot<std::uint64_t>::load(count, in);
    for (; count != 0; --count) {
      typename replicated_detail::WithoutConst<typename T::value_type>::type element{};
      Snapshot<typename T::value_type>::load(element, in);
      value.insert(value.end(), std::move(element));
    }
  }
};

/// A deterministic sequential data structure with a copy on every replica. It is linearizable and survives the same
/// faults as the log.
///
///   struct Put { int key, value; void operator()(std::map<int, int>& map) const { map[key] = value; } };
///
///   auto map = smelt::Replicated<std::map<int, int>, Put>::attach(*log, rank);
///   map->update(Put{1, 2});                                             // on every replica, once, in the same order
///   int value = *map->read([](const auto& map) { return map.at(1); });  // sees all updates that returned before
///
/// Commands: default-constructible, trivially copyable, with `operator()(T&) const`, or T has `apply(const Command&)`;
/// their size + 1 is at most LogOptions::command_bytes. Without any named, `typename T::Command`. All replicas begin
/// with equal structures. A replica that was evicted comes back if there is a Snapshot<T>. Used by one thread at a
/// time.
template <class T, class... Commands>
class Replicated {
  using Types = typename replicated_detail::CommandList<T, Commands...>::Types;
  template <class Command>
  using Answer =
      std::remove_cvref_t<decltype(replicated_detail::execute(std::declval<T&>(), std::declval<const Command&>()))>;

 public:
  static Result<Replicated> attach(ReplicatedLog& log, int rank, T initial = T()) {
    auto core = std::make_unique<Core>(std::move(initial));
    StateMachine machine{core.get(), &Core::apply, nullptr, nullptr};
    if constexpr (HasSnapshot<T>) {
      machine.save = &Core::save;
      machine.load = &Core::load;
    }
    auto replica = log.attach(rank, machine);
    if (!replica) return replica.error();
    core->replica.emplace(*std::move(replica));
    core->requests = core->replica->started();
    return Replicated(std::move(core));
  }

  /// Executes the command on all replicas and returns its result on this one.
  /// Errors: those of Replica::append. After `broken`, other replicas may have executed the command or not. not_found:
  /// it was executed, but this replica got its effect by a snapshot without the result.
  template <class Command>
  Result<Answer<Command>> update(const Command& command) {
    static_assert(std::is_trivially_copyable_v<Command>, "commands are copied byte by byte");
    std::byte bytes[sizeof(Command) + 1];
    std::memcpy(bytes, &command, sizeof command);
    bytes[sizeof command] = static_cast<std::byte>(kind_of<Command>());
    std::optional<Slot<Answer<Command>>> answer;
    core_->answer = &answer;
    core_->awaited = core_->requests + 1;
    Ticket ticket;
    Status status = core_->replica->start(bytes, sizeof bytes, &ticket);
    if (status == Status::ok) {
      core_->requests = ticket.request;
      std::uint64_t index = 0;
      status = core_->replica->wait(ticket, &index);
      if (status == Status::ok && index != Replica::unknown_index) status = core_->replica->catch_up(index + 1);
    }
    core_->answer = nullptr;
    if (status != Status::ok) return Error{status, core_->replica->failure()};
    if constexpr (std::is_void_v<Answer<Command>>) {
      return {};
    } else {
      if (!answer) return Error{Status::not_found, "replicated: the answer was lost with an eviction"};
      return std::move(*answer);
    }
  }

  /// Calls f(const T&) on this replica after all updates that returned before this call, on any rank.
  /// Cost: no message and no write; waits only until this replica has executed these updates.
  template <class F>
  auto read(F f) -> Result<std::remove_cvref_t<std::invoke_result_t<F, const T&>>> {
    std::uint64_t index = 0;
    Status status = core_->replica->read_point(&index);
    if (status == Status::ok) status = core_->replica->catch_up(index);
    if (status != Status::ok) return Error{status, core_->replica->failure()};
    return f(std::as_const(core_->value));
  }

  /// The present state of this replica: sequentially consistent, not linearizable.
  const T& local() const noexcept { return core_->value; }
  /// For progress(), serve(), configuration().
  Replica& replica() noexcept { return *core_->replica; }

 private:
  template <class A>
  using Slot = std::conditional_t<std::is_void_v<A>, std::monostate, A>;

  struct Core {
    explicit Core(T initial) : value(std::move(initial)) {}

    static void apply(void* context, const Entry& entry) {
      auto& core = *static_cast<Core*>(context);
      const auto kind = static_cast<std::size_t>(static_cast<const std::byte*>(entry.data)[entry.bytes - 1]);
      const bool own = entry.client == core.rank() && entry.request == core.awaited && core.answer != nullptr;
      dispatch(core, kind, entry.data, own, std::make_index_sequence<std::tuple_size_v<Types>>());
    }
    static void save(void* context, std::vector<std::byte>& bytes) {
      if constexpr (HasSnapshot<T>) Snapshot<T>::save(static_cast<Core*>(context)->value, bytes);
    }
    static void load(void* context, std::span<const std::byte> bytes) {
      if constexpr (HasSnapshot<T>) Snapshot<T>::load(static_cast<Core*>(context)->value, bytes);
    }
    int rank() const noexcept { return replica ? replica->rank() : -1; }

    T value;
    std::uint64_t requests = 0, awaited = 0;
    void* answer = nullptr;  ///< std::optional of what the awaited command returns
    std::optional<Replica> replica;
  };

  explicit Replicated(std::unique_ptr<Core> core) : core_(std::move(core)) {}

  template <class Command, std::size_t kind = 0>
  static constexpr std::size_t kind_of() {
    static_assert(kind < std::tuple_size_v<Types>, "this command is not among those of the Replicated");
    if constexpr (std::is_same_v<std::tuple_element_t<kind, Types>, Command>) {
      return kind;
    } else {
      return kind_of<Command, kind + 1>();
    }
  }

  template <std::size_t... kinds>
  static void dispatch(Core& core, std::size_t kind, const void* data, bool own, std::index_sequence<kinds...>) {
    ((kind == kinds ? run<std::tuple_element_t<kinds, Types>>(core, data, own) : void()), ...);
  }

  template <class Command>
  static void run(Core& core, const void* data, bool own) {
    Command command;
    std::memcpy(&command, data, sizeof command);
    if constexpr (std::is_void_v<Answer<Command>>) {
      replicated_detail::execute(core.value, command);
    } else {
      Answer<Command> answer = replicated_detail::execute(core.value, command);
      if (own) *static_cast<std::optional<Answer<Command>>*>(core.answer) = std::move(answer);
    }
  }

  std::unique_ptr<Core> core_;
};

}  // namespace smelt
