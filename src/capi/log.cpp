// The C interface, replicated logs.
#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "capi/handles.hpp"
#include "smelt/replicated_log.hpp"

struct smelt_log {
  smelt::ReplicatedLog value;
};

struct smelt_replica {
  std::unique_ptr<smelt_log_machine> machine;  ///< what the callbacks of `value` refer to
  smelt::Replica value;
};

using smelt::capi::fail;
using smelt::capi::fail_argument;
using smelt::capi::guarded;
using smelt::capi::hand_out;
using smelt::capi::remember;
using smelt::capi::StopQuestion;

namespace {

smelt::LogOptions translate(const smelt_log_options& options) {
  smelt::LogOptions result;
  if (options.algorithm != nullptr) result.algorithm = options.algorithm;
  if (options.replicas != nullptr) result.replicas.assign(options.replicas, options.replicas + options.replica_count);
  if (options.set_leader != 0) result.leader = options.leader;
  if (options.faults != SMELT_FAULTS_DEFAULT) {
    result.faults = static_cast<smelt::Faults>(options.faults - SMELT_FAULTS_NONE);
  }
  if (options.suspect_after_s != 0) result.suspect_after_s = options.suspect_after_s;
  if (options.evict_after_s != 0) result.evict_after_s = options.evict_after_s;
  if (options.entries != 0) result.entries = options.entries;
  if (options.requests != 0) result.requests = options.requests;
  if (options.command_bytes != 0) result.command_bytes = options.command_bytes;
  if (options.wait != nullptr) result.wait = options.wait;
  result.keep = options.keep != 0;
  if (options.configuration != nullptr) result.configuration = options.configuration;
  return result;
}

static_assert(static_cast<int>(smelt::Faults::none) == SMELT_FAULTS_NONE - SMELT_FAULTS_NONE);
static_assert(static_cast<int>(smelt::Faults::crash) == SMELT_FAULTS_CRASH - SMELT_FAULTS_NONE);
static_assert(static_cast<int>(smelt::Faults::stop) == SMELT_FAULTS_STOP - SMELT_FAULTS_NONE);
static_assert(smelt::Replica::unknown_index == SMELT_UNKNOWN_INDEX);

/// What translate() cannot say.
int check(const char* call, const smelt_log_options& options) {
  if (options.replicas == nullptr && options.replica_count != 0) {
    return fail_argument(call, "replicas is NULL, but replica_count is not 0");
  }
  return smelt::capi::check_faults(call, options.faults);
}

smelt_log_entry in_c(const smelt::Entry& entry) {
  return {entry.index, entry.client, entry.request, entry.data, entry.bytes};
}

void apply(void* context, const smelt::Entry& entry) {
  const auto& machine = *static_cast<smelt_log_machine*>(context);
  const smelt_log_entry translated = in_c(entry);
  machine.apply(machine.context, &translated);
}

void save(void* context, std::vector<std::byte>& bytes) {
  const auto& machine = *static_cast<smelt_log_machine*>(context);
  const auto write = [](void* sink, const void* data, size_t count) {
    const auto* begin = static_cast<const std::byte*>(data);
    auto& to = *static_cast<std::vector<std::byte>*>(sink);
    to.insert(to.end(), begin, begin + count);
  };
  machine.save(machine.context, write, &bytes);
}

void load(void* context, std::span<const std::byte> bytes) {
  const auto& machine = *static_cast<smelt_log_machine*>(context);
  machine.load(machine.context, bytes.data(), bytes.size());
}

/// Remembers why a call failed.
int answer(const smelt_replica* replica, smelt::Status status) noexcept {
  if (status == smelt::Status::ok) return SMELT_OK;
  return guarded([&] {
    remember(replica->value.failure().c_str());
    return static_cast<int>(status);
  });
}

int no_replica(const char* call, const char* why = "replica is NULL") noexcept {
  return guarded([&] { return fail_argument(call, why); });
}

}  // namespace

int smelt_log_create(const smelt_communicator* communicator, const smelt_log_options* options, smelt_log** log) {
  return guarded([&] {
    if (communicator == nullptr || log == nullptr)
      return fail_argument("smelt_log_create", "communicator or log is NULL");
    const smelt_log_options given = options != nullptr ? *options : smelt_log_options{};
    if (const int status = check("smelt_log_create", given); status != SMELT_OK) return status;
    return hand_out(smelt::ReplicatedLog::create(communicator->value, translate(given)), log);
  });
}

int smelt_log_create_shared(const char* name, int size, const int* ranks, int count, const smelt_log_options* options,
                            smelt_log** log) {
  return guarded([&] {
    if (name == nullptr || ranks == nullptr || count <= 0 || log == nullptr) {
      return fail_argument("smelt_log_create_shared", "name, ranks or log is NULL, or count is not positive");
    }
    const smelt_log_options given = options != nullptr ? *options : smelt_log_options{};
    if (const int status = check("smelt_log_create_shared", given); status != SMELT_OK) return status;
    return hand_out(smelt::ReplicatedLog::create_shared(name, size, std::span(ranks, static_cast<std::size_t>(count)),
                                                        translate(given), given.timeout_s > 0 ? given.timeout_s : 60.0),
                    log);
  });
}

int smelt_log_remove(const char* name) {
  return guarded([&] {
    if (name == nullptr) return fail_argument("smelt_log_remove", "name is NULL");
    const auto removed = smelt::remove_log(name);
    return removed ? static_cast<int>(SMELT_OK) : fail(removed.error());
  });
}

void smelt_log_free(smelt_log* log) { delete log; }

int smelt_log_attach(smelt_log* log, int rank, const smelt_log_machine* machine, smelt_replica** replica) {
  return guarded([&] {
    if (log == nullptr || replica == nullptr) return fail_argument("smelt_log_attach", "log or replica is NULL");
    auto own = std::make_unique<smelt_log_machine>(machine != nullptr ? *machine : smelt_log_machine{});
    smelt::StateMachine callbacks{own.get()};
    if (own->apply != nullptr) callbacks.apply = apply;
    if (own->save != nullptr) callbacks.save = save;
    if (own->load != nullptr) callbacks.load = load;
    auto attached = log->value.attach(rank, callbacks);
    if (!attached) return fail(attached.error());
    *replica = new smelt_replica{std::move(own), *std::move(attached)};
    return static_cast<int>(SMELT_OK);
  });
}

void smelt_replica_free(smelt_replica* replica) { delete replica; }

int smelt_log_append(smelt_replica* replica, const void* command, size_t bytes, uint64_t* index) {
  if (replica == nullptr) return no_replica("smelt_log_append");
  return answer(replica, replica->value.append(command, bytes, index));
}

int smelt_log_start(smelt_replica* replica, const void* command, size_t bytes, uint64_t* ticket) {
  if (replica == nullptr || ticket == nullptr) {
    return no_replica("smelt_log_start", "replica or ticket is NULL");
  }
  smelt::Ticket started;
  const smelt::Status status = replica->value.start(command, bytes, &started);
  *ticket = started.request;
  return answer(replica, status);
}

int smelt_log_test(smelt_replica* replica, uint64_t ticket, int* done, uint64_t* index) {
  if (replica == nullptr || done == nullptr) {
    return no_replica("smelt_log_test", "replica or done is NULL");
  }
  bool over = false;
  const smelt::Status status = replica->value.test({ticket}, &over, index);
  *done = over ? 1 : 0;
  return answer(replica, status);
}

int smelt_log_wait(smelt_replica* replica, uint64_t ticket, uint64_t* index) {
  if (replica == nullptr) return no_replica("smelt_log_wait");
  return answer(replica, replica->value.wait({ticket}, index));
}

int smelt_log_next(smelt_replica* replica, smelt_log_entry* entry, int* there) {
  if (replica == nullptr || entry == nullptr) {
    return no_replica("smelt_log_next", "replica or entry is NULL");
  }
  smelt::Entry next;
  bool found = true;
  const smelt::Status status = there != nullptr ? replica->value.next(&next, &found) : replica->value.next(&next);
  if (there != nullptr) *there = found ? 1 : 0;
  *entry = in_c(next);
  return answer(replica, status);
}

int smelt_log_read_point(smelt_replica* replica, uint64_t* index) {
  if (replica == nullptr || index == nullptr) {
    return no_replica("smelt_log_read_point", "replica or index is NULL");
  }
  return answer(replica, replica->value.read_point(index));
}

int smelt_log_catch_up(smelt_replica* replica, uint64_t index) {
  if (replica == nullptr) return no_replica("smelt_log_catch_up");
  return answer(replica, replica->value.catch_up(index));
}

uint64_t smelt_log_delivered(const smelt_replica* replica) {
  return replica == nullptr ? 0 : replica->value.delivered();
}

uint64_t smelt_log_started(const smelt_replica* replica) { return replica == nullptr ? 0 : replica->value.started(); }

int smelt_log_progress(smelt_replica* replica) {
  if (replica == nullptr) return no_replica("smelt_log_progress");
  return answer(replica, replica->value.progress());
}

int smelt_log_serve(smelt_replica* replica, int (*stop)(void* context), void* context) {
  if (replica == nullptr || stop == nullptr) {
    return no_replica("smelt_log_serve", "replica or stop is NULL");
  }
  StopQuestion asked{stop, context};
  return answer(replica, replica->value.serve(StopQuestion::is_over, &asked));
}

int smelt_log_configuration(const smelt_replica* replica, uint64_t* epoch, int* leader, int* replicas, int capacity,
                            int* count) {
  return guarded([&] {
    if (replica == nullptr) return fail_argument("smelt_log_configuration", "replica is NULL");
    const smelt::LogConfiguration now = replica->value.configuration();
    if (epoch != nullptr) *epoch = now.epoch;
    if (leader != nullptr) *leader = now.leader;
    if (count != nullptr) *count = static_cast<int>(now.replicas.size());
    for (int i = 0; replicas != nullptr && i < std::min(capacity, static_cast<int>(now.replicas.size())); ++i) {
      replicas[i] = now.replicas[static_cast<std::size_t>(i)];
    }
    return static_cast<int>(SMELT_OK);
  });
}

size_t smelt_log_failure(const smelt_replica* replica, char* text, size_t bytes) {
  std::size_t length = 0;
  guarded([&] {
    if (replica == nullptr) return fail_argument("smelt_log_failure", "replica is NULL");
    const std::string failure = replica->value.failure();
    length = failure.size();
    if (text != nullptr && bytes > 0) {
      const std::size_t copied = std::min(length, bytes - 1);
      std::memcpy(text, failure.data(), copied);
      text[copied] = '\0';
    }
    return static_cast<int>(SMELT_OK);
  });
  return length;
}
