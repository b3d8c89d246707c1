// The C interface, set-up: handles hold C++ values, errors become a status and a line per thread.
#include "smelt/smelt.h"

#include <cstring>
#include <string>
#include <utility>

#include "capi/handles.hpp"
#include "comm/group/default_model.hpp"
#include "smelt/measure.hpp"
#include "smelt/plan.hpp"

namespace {

using smelt::Error;
using smelt::Result;
using smelt::Status;
using smelt::capi::fail;
using smelt::capi::fail_argument;
using smelt::capi::guarded;
using smelt::capi::hand_out;

static_assert(SMELT_OK == static_cast<int>(Status::ok));
static_assert(SMELT_INVALID_ARGUMENT == static_cast<int>(Status::invalid_argument));
static_assert(SMELT_NOT_FOUND == static_cast<int>(Status::not_found));
static_assert(SMELT_IO_ERROR == static_cast<int>(Status::io_error));
static_assert(SMELT_BAD_FORMAT == static_cast<int>(Status::bad_format));
static_assert(SMELT_OUT_OF_MEMORY == static_cast<int>(Status::out_of_memory));
static_assert(SMELT_NOT_SUPPORTED == static_cast<int>(Status::not_supported));
static_assert(SMELT_PERMISSION_DENIED == static_cast<int>(Status::permission_denied));
static_assert(SMELT_TIMED_OUT == static_cast<int>(Status::timed_out));
static_assert(SMELT_BROKEN == static_cast<int>(Status::broken));

thread_local std::string last_error;

Result<smelt::Group> group_of(const smelt::Machine& machine, const int* os_indices, int ranks) {
  if (os_indices == nullptr) return smelt::whole_machine(machine);
  if (ranks <= 0) return Error{Status::invalid_argument, "the number of ranks must be positive"};
  return smelt::make_group(machine, std::span(os_indices, static_cast<std::size_t>(ranks)));
}

smelt::CommunicatorOptions translate(const smelt_options& from) {
  smelt::CommunicatorOptions to;
  if (from.topology != nullptr) to.topology = from.topology;
  if (from.barrier != nullptr) to.barrier = from.barrier;
  if (from.wait != nullptr) to.wait = from.wait;
  if (from.timeout_s != 0.0) to.timeout_s = from.timeout_s < 0.0 ? 0.0 : from.timeout_s;
  if (from.search_ms != 0.0) to.search_ms = from.search_ms < 0.0 ? 0.0 : from.search_ms;
  to.pin = from.keep_affinity == 0;
  if (from.algorithm != nullptr) to.algorithm = from.algorithm;
  if (from.profile != nullptr) to.profile = from.profile;
  if (from.late_ns != nullptr) to.late_ns.assign(from.late_ns, from.late_ns + from.late_count);
  if (from.pus != nullptr) to.pus.assign(from.pus, from.pus + from.pu_count);
  to.any_thread = from.any_thread != 0;
  to.idle = from.idle;
  to.poll = from.poll;
  to.idle_context = from.idle_context;
  if (from.revalidate != 0) to.revalidate = from.revalidate > 0;
  return to;
}

Result<smelt::Communicator> create(const smelt_machine* machine, const int* os_indices, int ranks,
                                   const smelt::CommunicatorOptions& options) {
  if (os_indices == nullptr && machine == nullptr) return smelt::Communicator::create(ranks, options);
  smelt::Machine own;
  if (machine == nullptr) {
    auto usual = smelt::comm::default_model();
    if (!usual) return usual.error();
    own = std::move(*usual);
  }
  const smelt::Machine& model = machine != nullptr ? machine->value : own;
  if (os_indices != nullptr) {
    auto group = group_of(model, os_indices, ranks);
    if (!group) return group.error();
    return smelt::Communicator::create(model, *group, options);
  }
  auto allowance = smelt::discover_allowance();
  if (!allowance) return allowance.error();
  auto group = smelt::default_group(model, *allowance, ranks > 0 ? ranks : 0);
  if (!group) return group.error();
  return smelt::Communicator::create(model, *group, options);
}

}  // namespace

int smelt::capi::fail(const Error& error) {
  last_error = error.message;
  return static_cast<int>(error.status);
}

int smelt::capi::fail_argument(const char* call, const std::string& what) {
  return fail(make_error(Status::invalid_argument, "{}: {}", call, what));
}

void smelt::capi::remember(const char* message) noexcept {
  try {
    last_error = message;
  } catch (const std::exception&) {
    last_error.clear();
  }
}

extern "C" {

const char* smelt_status_string(int status) { return smelt::status_string(static_cast<Status>(status)); }
const char* smelt_last_error(void) { return last_error.c_str(); }
const char* smelt_version(void) { return "0.1.0"; }

int smelt_machine_discover(smelt_machine** machine) {
  return guarded([&] {
    if (machine == nullptr) return fail_argument("smelt_machine_discover", "machine is NULL");
    return hand_out(smelt::discover_machine(), machine);
  });
}

int smelt_machine_measured(double budget_s, smelt_machine** machine) {
  return guarded([&] {
    if (machine == nullptr) return fail_argument("smelt_machine_measured", "machine is NULL");
    smelt::MeasureOptions options;
    if (budget_s > 0.0) options.budget_s = budget_s;
    return hand_out(smelt::measured_machine(options), machine);
  });
}

int smelt_machine_load(const char* file, smelt_machine** machine) {
  return guarded([&] {
    if (file == nullptr || machine == nullptr) return fail_argument("smelt_machine_load", "file or machine is NULL");
    return hand_out(smelt::load_machine(file), machine);
  });
}

int smelt_machine_save(const smelt_machine* machine, const char* file) {
  return guarded([&] {
    if (file == nullptr || machine == nullptr) return fail_argument("smelt_machine_save", "file or machine is NULL");
    const auto saved = smelt::save_machine(machine->value, file);
    return saved ? static_cast<int>(SMELT_OK) : fail(saved.error());
  });
}

void smelt_machine_free(smelt_machine* machine) { delete machine; }
int smelt_machine_size(const smelt_machine* machine) {
  return machine == nullptr ? 0 : static_cast<int>(machine->value.size());
}

int smelt_machine_costs(const smelt_machine* machine, int sender, int receiver, double* send_ns, double* recv_ns) {
  return guarded([&] {
    if (machine == nullptr) return fail_argument("smelt_machine_costs", "machine is NULL");
    const int size = smelt_machine_size(machine);
    if (sender < 0 || sender >= size || receiver < 0 || receiver >= size) {
      return fail_argument("smelt_machine_costs", "sender and receiver are indices from 0 to size - 1");
    }
    if (!machine->value.has_costs()) {
      return fail({Status::not_found, "smelt_machine_costs: this machine has not been measured"});
    }
    const auto i = static_cast<std::size_t>(sender);
    const auto j = static_cast<std::size_t>(receiver);
    if (send_ns != nullptr) *send_ns = machine->value.send_ns(i, j);
    if (recv_ns != nullptr) *recv_ns = machine->value.recv_ns(i, j);
    return static_cast<int>(SMELT_OK);
  });
}

int smelt_plan(const smelt_machine* machine, const int* os_indices, int ranks, smelt_operation operation,
               const char* topology, int root, double search_ms, int* parents, int* chosen_root, double* predicted_ns) {
  return guarded([&] {
    if (machine == nullptr) return fail_argument("smelt_plan", "machine is NULL");
    if (operation < SMELT_BROADCAST || operation > SMELT_TWO_PHASE_COMMIT) {
      return fail_argument("smelt_plan", "no such operation");
    }
    auto group = group_of(machine->value, os_indices, ranks);
    if (!group) return fail(group.error());
    smelt::PlanOptions options;
    if (topology != nullptr) options.topology = topology;
    if (root >= 0) options.root = root;
    options.search_ms = search_ms;
    auto plan = smelt::make_plan(machine->value, *group, static_cast<smelt::Operation>(operation), options);
    if (!plan) return fail(plan.error());
    if (parents != nullptr) {
      const auto& tree = operation == SMELT_REDUCE ? plan->reduce_tree : plan->broadcast_tree;
      const auto list = tree ? tree->parents() : std::vector<int>(static_cast<std::size_t>(group->size()), -1);
      std::copy(list.begin(), list.end(), parents);
    }
    if (chosen_root != nullptr) *chosen_root = plan->root;
    if (predicted_ns != nullptr) *predicted_ns = plan->predicted_ns;
    return static_cast<int>(SMELT_OK);
  });
}

int smelt_communicator_create(const smelt_machine* machine, const int* os_indices, int ranks,
                              const smelt_options* options, smelt_communicator** communicator) {
  return guarded([&] {
    if (communicator == nullptr) return fail_argument("smelt_communicator_create", "communicator is NULL");
    const auto translated = translate(options != nullptr ? *options : smelt_options{});
    return hand_out(create(machine, os_indices, ranks, translated), communicator);
  });
}

int smelt_communicator_create_shared(const char* name, int size, int rank, const smelt_options* options,
                                     smelt_communicator** communicator) {
  return smelt_communicator_create_shared_ranks(name, size, &rank, 1, options, communicator);
}

int smelt_communicator_create_shared_ranks(const char* name, int size, const int* ranks, int count,
                                           const smelt_options* options, smelt_communicator** communicator) {
  return guarded([&] {
    if (name == nullptr || ranks == nullptr || count <= 0 || communicator == nullptr) {
      return fail_argument("smelt_communicator_create_shared",
                           "name, ranks or communicator is NULL, or count is not positive");
    }
    const auto translated = translate(options != nullptr ? *options : smelt_options{});
    const std::span own(ranks, static_cast<std::size_t>(count));
    return hand_out(smelt::Communicator::create_shared(name, size, own, translated), communicator);
  });
}

int smelt_communicator_create_shared_fd(int fd, int size, const int* ranks, int count, const smelt_options* options,
                                        smelt_communicator** communicator) {
  return guarded([&] {
    if (fd < 0 || ranks == nullptr || count <= 0 || communicator == nullptr) {
      return fail_argument("smelt_communicator_create_shared_fd",
                           "ranks or communicator is NULL, or fd is negative, or count is not positive");
    }
    const auto translated = translate(options != nullptr ? *options : smelt_options{});
    const std::span own(ranks, static_cast<std::size_t>(count));
    return hand_out(smelt::Communicator::create_shared(fd, size, own, translated), communicator);
  });
}

void smelt_communicator_free(smelt_communicator* communicator) { delete communicator; }
int smelt_communicator_size(const smelt_communicator* communicator) {
  return communicator == nullptr ? 0 : communicator->value.size();
}

int smelt_communicator_run(smelt_communicator* communicator, void (*f)(smelt_rank*, void*), void* context) {
  return guarded([&] {
    if (communicator == nullptr || f == nullptr) {
      return fail_argument("smelt_communicator_run", "communicator or f is NULL");
    }
    const auto done = communicator->value.run([&](smelt::Rank& rank) {
      smelt_rank handle{std::move(rank)};
      f(&handle, context);
      rank = std::move(handle.value);
    });
    return done ? static_cast<int>(SMELT_OK) : fail(done.error());
  });
}

int smelt_communicator_attach(smelt_communicator* communicator, int rank, smelt_rank** attached) {
  return guarded([&] {
    if (communicator == nullptr || attached == nullptr) {
      return fail_argument("smelt_communicator_attach", "communicator or attached is NULL");
    }
    return hand_out(communicator->value.attach(rank), attached);
  });
}

void smelt_rank_free(smelt_rank* rank) { delete rank; }
int smelt_rank_number(const smelt_rank* rank) { return rank == nullptr ? -1 : rank->value.rank(); }
int smelt_rank_size(const smelt_rank* rank) { return rank == nullptr ? 0 : rank->value.size(); }

int smelt_rank_subgroup(smelt_rank* rank, const int* members, int count, smelt_rank** subgroup) {
  return guarded([&] {
    if (rank == nullptr || members == nullptr || subgroup == nullptr || count <= 0) {
      return fail_argument("smelt_rank_subgroup", "rank, members or subgroup is NULL, or count is not positive");
    }
    return hand_out(rank->value.subgroup(std::span(members, static_cast<std::size_t>(count))), subgroup);
  });
}

int smelt_rank_shrink(smelt_rank* rank, smelt_rank** survivor) {
  return guarded([&] {
    if (rank == nullptr || survivor == nullptr) return fail_argument("smelt_rank_shrink", "rank or survivor is NULL");
    return hand_out(rank->value.shrink(), survivor);
  });
}

size_t smelt_rank_failure(const smelt_rank* rank, char* text, size_t bytes) {
  size_t length = 0;
  guarded([&] {
    if (rank == nullptr) return fail_argument("smelt_rank_failure", "rank is NULL");
    const std::string failure = rank->value.failure();
    length = failure.size();
    if (text != nullptr && bytes > 0) {
      const size_t copied = std::min(length, bytes - 1);
      std::memcpy(text, failure.data(), copied);
      text[copied] = '\0';
    }
    return static_cast<int>(SMELT_OK);
  });
  return length;
}

}  // extern "C"
