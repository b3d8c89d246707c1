// The C interface, collectives. Each call becomes a smelt::Collective, and is checked where C allows more than C++.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "capi/handles.hpp"

namespace {

using smelt::Collective;
using smelt::Operation;
using smelt::Status;
using smelt::capi::fail_argument;
using smelt::capi::guarded;
using smelt::capi::number_of;

static_assert(SMELT_BROADCAST == static_cast<int>(Operation::broadcast));
static_assert(SMELT_REDUCE == static_cast<int>(Operation::reduce));
static_assert(SMELT_BARRIER == static_cast<int>(Operation::barrier));
static_assert(SMELT_ALLREDUCE == static_cast<int>(Operation::allreduce));
static_assert(SMELT_TWO_PHASE_COMMIT == static_cast<int>(Operation::two_phase_commit));
static_assert(SMELT_SCATTER == static_cast<int>(Operation::scatter));
static_assert(SMELT_GATHER == static_cast<int>(Operation::gather));
static_assert(SMELT_ALLGATHER == static_cast<int>(Operation::allgather));
static_assert(SMELT_ALLTOALL == static_cast<int>(Operation::alltoall));
static_assert(SMELT_REDUCE_SCATTER == static_cast<int>(Operation::reduce_scatter));
static_assert(SMELT_SCAN == static_cast<int>(Operation::scan));
static_assert(SMELT_EXSCAN == static_cast<int>(Operation::exscan));
static_assert(smelt::operation_count == SMELT_EXSCAN + 1);
static_assert(smelt::operation_count == SMELT_SCATTERV);
static_assert(SMELT_LOOSE == static_cast<int>(smelt::Sync::loose));
static_assert(SMELT_STRICT == static_cast<int>(smelt::Sync::strict));

// ---- operators ------------------------------------------------------------------------------

template <class T>
smelt::Reduction arithmetic(int op) {
  switch (op) {
    case SMELT_SUM: return smelt::sum<T>();
    case SMELT_PRODUCT: return smelt::product<T>();
    case SMELT_MIN: return smelt::minimum<T>();
    case SMELT_MAX: return smelt::maximum<T>();
    default: return {};
  }
}

template <class T>
smelt::Reduction integer(int op) {
  switch (op) {
    case SMELT_BIT_AND: return smelt::bit_and<T>();
    case SMELT_BIT_OR: return smelt::bit_or<T>();
    case SMELT_BIT_XOR: return smelt::bit_xor<T>();
    default: return arithmetic<T>(op);
  }
}

/// An empty Reduction (which the collectives refuse) for a pair that makes no sense.
smelt::Reduction builtin(int type, int op) {
  switch (type) {
    case SMELT_INT8: return integer<signed char>(op);
    case SMELT_INT16: return integer<std::int16_t>(op);
    case SMELT_INT32: return integer<std::int32_t>(op);
    case SMELT_INT64: return integer<std::int64_t>(op);
    case SMELT_UINT8: return integer<std::uint8_t>(op);
    case SMELT_UINT16: return integer<std::uint16_t>(op);
    case SMELT_UINT32: return integer<std::uint32_t>(op);
    case SMELT_UINT64: return integer<std::uint64_t>(op);
    case SMELT_FLOAT: return arithmetic<float>(op);
    case SMELT_DOUBLE: return arithmetic<double>(op);
    default: return {};
  }
}

smelt::Reduction user_operator(size_t element_bytes, smelt_combine combine, void* context, int commutative) {
  return {element_bytes, combine, context, commutative != 0};
}

// ---- running --------------------------------------------------------------------------------

int refused(const char* name, const char* what) noexcept {
  return guarded([&] { return fail_argument(name, what); });
}

bool needs_operator(Operation operation) {
  switch (operation) {
    case Operation::reduce:
    case Operation::allreduce:
    case Operation::reduce_scatter:
    case Operation::scan:
    case Operation::exscan: return true;
    default: return false;
  }
}

/// The reason for which the collectives have refused these arguments.
std::string reason(const Collective& call, int size) {
  if (call.root < 0 || call.root >= size) return fmt::format("root {} is not in 0..{}", call.root, size - 1);
  if (call.reduction.combine == nullptr && needs_operator(call.operation)) {
    return "no operator, or one that this type does not have";
  }
  if (call.element_bytes == 0) return "elements have 0 bytes";
  if (call.reduction.combine != nullptr && call.reduction.element_bytes != call.element_bytes) {
    return "element_bytes is not the size of the operator's type";
  }
  if (call.operation == Operation::two_phase_commit && (call.vote == nullptr || call.committed == nullptr)) {
    return "vote or committed is NULL";
  }
  return fmt::format("{}: a buffer that this rank needs is NULL", smelt::to_string(call.operation));
}

int refused(const char* name, const Collective& call, int size) noexcept {
  return guarded([&] { return fail_argument(name, reason(call, size)); });
}

int run(const char* name, smelt_rank* rank, const Collective& call) noexcept {
  if (rank == nullptr) return refused(name, "rank is NULL");
  const Status status = rank->value.run(call);
  if (status == Status::invalid_argument) [[unlikely]]
    return refused(name, call, rank->value.size());
  return static_cast<int>(status);
}

/// A vote in C, and the place for its outcome. Its address is fixed while a call refers to it.
struct VoteCallback {
  int (*vote)(const void*, void*) = nullptr;
  void* context = nullptr;
  int* committed = nullptr;
  bool all = false;

  static bool ask(const void* proposal, void* self) {
    const auto& vote_callback = *static_cast<VoteCallback*>(self);
    return vote_callback.vote(proposal, vote_callback.context) != 0;
  }
  void publish() const {
    if (committed != nullptr) *committed = all ? 1 : 0;
  }
};

// ---- blocks of different sizes --------------------------------------------------------------

bool nothing(const std::size_t* counts, std::size_t count, int size) {
  return counts == nullptr ? count == 0 : std::all_of(counts, counts + size, [](auto each) { return each == 0; });
}

bool has_in_blocks(Operation operation) {
  return operation == Operation::scatter || operation == Operation::alltoall || operation == Operation::reduce_scatter;
}

bool has_out_blocks(Operation operation) {
  return operation == Operation::gather || operation == Operation::alltoall || operation == Operation::allgather;
}

/// The error in a call with different block sizes, as far as this rank knows the sizes, or nullptr.
const char* fault_of_blocks(const Collective& call, int size, int rank) {
  const bool top = rank == call.root;
  const Operation what = call.operation;
  const bool reads = what != Operation::scatter || top, writes = what != Operation::gather || top;
  const auto whole = [](const smelt::Blocks& blocks) { return blocks.counts != nullptr && blocks.offsets != nullptr; };
  if ((has_in_blocks(what) && reads && !whole(call.in_blocks)) ||
      (has_out_blocks(what) && writes && !whole(call.out_blocks))) {
    return "counts or offsets is NULL";
  }
  const auto* in_counts = reads ? call.in_blocks.counts : nullptr;
  const auto* out_counts = writes ? call.out_blocks.counts : nullptr;
  if ((reads && call.in == nullptr && !nothing(in_counts, call.count, size)) ||
      (writes && call.out == nullptr && !nothing(out_counts, call.count, size))) {
    return "a buffer that this rank needs is NULL";
  }
  // A rank's block for itself has the same size on both sides.
  const auto sent = in_counts != nullptr ? in_counts[rank] : call.count;
  const auto received = out_counts != nullptr ? out_counts[rank] : call.count;
  return reads && writes && sent != received ? "the size of the own block differs between in and out" : nullptr;
}

int run_uneven(const char* name, smelt_rank* rank, const Collective& call) noexcept {
  if (rank == nullptr) return refused(name, "rank is NULL");
  const char* fault = fault_of_blocks(call, rank->value.size(), rank->value.rank());
  return fault != nullptr ? refused(name, fault) : run(name, rank, call);
}

// ---- calls as values ------------------------------------------------------------------------

/// The operation without V: same data, blocks of one size. Other operations are returned unchanged.
int without_v(int operation) {
  switch (operation) {
    case SMELT_SCATTERV: return SMELT_SCATTER;
    case SMELT_GATHERV: return SMELT_GATHER;
    case SMELT_ALLGATHERV: return SMELT_ALLGATHER;
    case SMELT_ALLTOALLV: return SMELT_ALLTOALL;
    case SMELT_REDUCE_SCATTERV: return SMELT_REDUCE_SCATTER;
    default: return operation;
  }
}

/// Bytes of a type; 0 for an unknown one.
std::size_t size_of_type(int type) {
  static_assert(SMELT_INT8 == 0 && SMELT_UINT8 == 4 && SMELT_FLOAT == 8 && SMELT_DOUBLE == 9);
  constexpr std::size_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
  return type >= 0 && type < static_cast<int>(std::size(sizes)) ? sizes[type] : 0;
}

/// Fills in the blocks. Returns the error, or nullptr.
const char* translate_blocks(const smelt_call& from, int size, int rank, Collective& to) {
  to.in_blocks = {from.in_counts, from.in_offsets};
  to.out_blocks = {from.out_counts, from.out_offsets};
  const bool in = from.in_counts != nullptr || from.in_offsets != nullptr;
  const bool out = from.out_counts != nullptr || from.out_offsets != nullptr;
  if (!to.uneven)
    return in || out ? "counts and offsets are for SMELT_SCATTERV and the other operations with a V" : nullptr;
  if ((in && !has_in_blocks(to.operation)) || (out && !has_out_blocks(to.operation))) {
    return "this operation has no blocks of different sizes on that side";
  }
  return fault_of_blocks(to, size, rank);
}

/// Translates the call to C++. Returns the error, or nullptr; C++ checks the rest.
const char* translate(const smelt_call& from, int size, int rank, VoteCallback& vote_callback, Collective& to) {
  const int named = number_of(from.operation), operation = without_v(named);
  const int type = number_of(from.type), sync = number_of(from.sync);
  if (operation < 0 || operation >= smelt::operation_count) return "no such operation";
  if (sync != SMELT_LOOSE && sync != SMELT_STRICT) return "no such synchronization";
  if (size_of_type(type) == 0) return "no such type";
  to.operation = static_cast<Operation>(operation);
  to.uneven = named != operation;
  to.sync = static_cast<smelt::Sync>(sync);
  to.at_rest = from.at_rest != 0;
  to.in = from.in;
  to.out = from.out;
  to.count = from.count;
  to.element_bytes = from.element_bytes != 0 ? from.element_bytes : size_of_type(type);
  to.root = from.root;
  if (needs_operator(to.operation)) {
    to.reduction = from.combine != nullptr
                       ? user_operator(to.element_bytes, from.combine, from.context, from.commutative)
                       : builtin(type, number_of(from.op));
    to.reduction.reproducible = from.reproducible != 0;
  }
  if (to.operation == Operation::two_phase_commit) {
    vote_callback = {from.vote, from.vote_context, from.committed};
    to.count *= to.element_bytes;
    to.element_bytes = 1;
    to.vote = from.vote != nullptr ? &VoteCallback::ask : nullptr;
    to.vote_context = &vote_callback;
    to.committed = from.committed != nullptr ? &vote_callback.all : nullptr;
  }
  return translate_blocks(from, size, rank, to);
}

}  // namespace

struct smelt_request {
  VoteCallback vote_callback;
  bool open = false;  ///< started, and its end has not been observed
  std::optional<smelt::Request> value;
};

namespace {

Status start(smelt_request& request) noexcept {
  const Status status = request.value->start();
  if (status != Status::ok) return status;
  request.open = true;
  return status;
}

void close(smelt_request& request) noexcept {
  if (request.open) request.vote_callback.publish();
  request.open = false;
}

/// A prepared request for a valid call. For an invalid one, an empty request with *status set.
std::unique_ptr<smelt_request> prepare(const char* name, smelt_rank* rank, const smelt_call* call,
                                       smelt_request** request, int* status) {
  if (rank == nullptr || call == nullptr || request == nullptr) {
    *status = fail_argument(name, "rank, call or request is NULL");
    return nullptr;
  }
  auto prepared = std::make_unique<smelt_request>();
  Collective translated;
  const int size = rank->value.size();
  const char* wrong = translate(*call, size, rank->value.rank(), prepared->vote_callback, translated);
  if (wrong != nullptr) {
    *status = fail_argument(name, wrong);
    return nullptr;
  }
  prepared->value.emplace(rank->value.prepare(translated));
  // It was not started: the collectives judge its arguments.
  if (prepared->value->wait() == Status::invalid_argument) {
    *status = fail_argument(name, reason(translated, size));
    return nullptr;
  }
  *status = SMELT_OK;
  return prepared;
}

}  // namespace

smelt::Reduction smelt::capi::builtin_reduction(int type, int op) { return builtin(type, op); }

extern "C" {

int smelt_barrier(smelt_rank* rank) {
  if (rank == nullptr) return refused("smelt_barrier", "rank is NULL");
  return static_cast<int>(rank->value.barrier());
}

int smelt_broadcast(smelt_rank* rank, void* data, size_t bytes, int root) {
  return run("smelt_broadcast", rank, Collective::broadcast(data, bytes, root));
}

int smelt_reduce(smelt_rank* rank, const void* in, void* result, size_t count, smelt_type type, smelt_op op, int root) {
  const auto reduction = builtin(number_of(type), number_of(op));
  return run("smelt_reduce", rank, Collective::reduce(in, result, count, reduction, root));
}

int smelt_allreduce(smelt_rank* rank, const void* in, void* result, size_t count, smelt_type type, smelt_op op) {
  const auto reduction = builtin(number_of(type), number_of(op));
  return run("smelt_allreduce", rank, Collective::allreduce(in, result, count, reduction));
}

int smelt_reduce_user(smelt_rank* rank, const void* in, void* result, size_t count, size_t element_bytes,
                      smelt_combine combine, void* context, int commutative, int root) {
  const auto reduction = user_operator(element_bytes, combine, context, commutative);
  return run("smelt_reduce_user", rank, Collective::reduce(in, result, count, reduction, root));
}

int smelt_allreduce_user(smelt_rank* rank, const void* in, void* result, size_t count, size_t element_bytes,
                         smelt_combine combine, void* context, int commutative) {
  const auto reduction = user_operator(element_bytes, combine, context, commutative);
  return run("smelt_allreduce_user", rank, Collective::allreduce(in, result, count, reduction));
}

int smelt_two_phase_commit(smelt_rank* rank, void* proposal, size_t bytes, int (*vote)(const void*, void*),
                           void* context, int* committed, int root) {
  if (vote == nullptr || committed == nullptr) return refused("smelt_two_phase_commit", "vote or committed is NULL");
  VoteCallback vote_callback{vote, context, committed};
  const auto call =
      Collective::two_phase_commit(proposal, bytes, &VoteCallback::ask, &vote_callback, &vote_callback.all, root);
  const int status = run("smelt_two_phase_commit", rank, call);
  vote_callback.publish();
  return status;
}

int smelt_scatter(smelt_rank* rank, const void* in, void* out, size_t block_bytes, int root) {
  return run("smelt_scatter", rank, Collective::scatter(in, out, block_bytes, root));
}

int smelt_gather(smelt_rank* rank, const void* in, void* out, size_t block_bytes, int root) {
  return run("smelt_gather", rank, Collective::gather(in, out, block_bytes, root));
}

int smelt_allgather(smelt_rank* rank, const void* in, void* out, size_t block_bytes) {
  return run("smelt_allgather", rank, Collective::allgather(in, out, block_bytes));
}

int smelt_alltoall(smelt_rank* rank, const void* in, void* out, size_t block_bytes) {
  return run("smelt_alltoall", rank, Collective::alltoall(in, out, block_bytes));
}

int smelt_scatterv(smelt_rank* rank, const void* in, const size_t* counts, const size_t* offsets, void* out,
                   size_t bytes, int root) {
  return run_uneven("smelt_scatterv", rank, Collective::scatterv(in, {counts, offsets}, out, bytes, root));
}

int smelt_gatherv(smelt_rank* rank, const void* in, size_t bytes, void* out, const size_t* counts,
                  const size_t* offsets, int root) {
  return run_uneven("smelt_gatherv", rank, Collective::gatherv(in, bytes, out, {counts, offsets}, root));
}

int smelt_allgatherv(smelt_rank* rank, const void* in, size_t bytes, void* out, const size_t* counts,
                     const size_t* offsets) {
  return run_uneven("smelt_allgatherv", rank, Collective::allgatherv(in, bytes, out, {counts, offsets}));
}

int smelt_alltoallv(smelt_rank* rank, const void* in, const size_t* in_counts, const size_t* in_offsets, void* out,
                    const size_t* out_counts, const size_t* out_offsets) {
  return run_uneven("smelt_alltoallv", rank,
                    Collective::alltoallv(in, {in_counts, in_offsets}, out, {out_counts, out_offsets}));
}

int smelt_reduce_scatter(smelt_rank* rank, const void* in, void* out, size_t count, smelt_type type, smelt_op op) {
  const auto reduction = builtin(number_of(type), number_of(op));
  return run("smelt_reduce_scatter", rank, Collective::reduce_scatter(in, out, count, reduction));
}

int smelt_scan(smelt_rank* rank, const void* in, void* out, size_t count, smelt_type type, smelt_op op) {
  return run("smelt_scan", rank, Collective::scan(in, out, count, builtin(number_of(type), number_of(op))));
}

int smelt_exscan(smelt_rank* rank, const void* in, void* out, size_t count, smelt_type type, smelt_op op) {
  return run("smelt_exscan", rank, Collective::exscan(in, out, count, builtin(number_of(type), number_of(op))));
}

int smelt_reduce_local(const void* in, void* inout, size_t count, smelt_type type, smelt_op op) {
  const smelt::Reduction reduction = builtin(number_of(type), number_of(op));
  if (reduction.combine == nullptr)
    return refused("smelt_reduce_local", "no operator, or one that this type does not have");
  if (count != 0 && (in == nullptr || inout == nullptr)) return refused("smelt_reduce_local", "in or inout is NULL");
  // All built-in operators commute, so the order of the operands does not matter.
  reduction.combine(inout, in, count, reduction.context);
  return SMELT_OK;
}

int smelt_run(smelt_rank* rank, const smelt_call* call) {
  if (rank == nullptr || call == nullptr) return refused("smelt_run", "rank or call is NULL");
  Collective translated;
  VoteCallback vote_callback;
  const char* wrong = translate(*call, rank->value.size(), rank->value.rank(), vote_callback, translated);
  if (wrong != nullptr) return refused("smelt_run", wrong);
  const int status = run("smelt_run", rank, translated);
  if (status != SMELT_INVALID_ARGUMENT) vote_callback.publish();
  return status;
}

int smelt_start(smelt_rank* rank, const smelt_call* call, smelt_request** request) {
  return guarded([&] {
    int status = SMELT_OK;
    auto prepared = prepare("smelt_start", rank, call, request, &status);
    if (prepared == nullptr) return status;
    if (start(*prepared) == Status::not_supported) return static_cast<int>(SMELT_NOT_SUPPORTED);
    *request = prepared.release();
    return status;
  });
}

int smelt_prepare(smelt_rank* rank, const smelt_call* call, smelt_request** request) {
  return guarded([&] {
    int status = SMELT_OK;
    auto prepared = prepare("smelt_prepare", rank, call, request, &status);
    if (prepared != nullptr) *request = prepared.release();
    return status;
  });
}

int smelt_request_start(smelt_request* request) {
  if (request == nullptr) return refused("smelt_request_start", "request is NULL");
  const Status status = start(*request);
  if (status == Status::invalid_argument) return refused("smelt_request_start", "the request is still under way");
  return static_cast<int>(status);
}

int smelt_request_run(smelt_request* request, const void* in, void* out) {
  if (request == nullptr) return refused("smelt_request_run", "request is NULL");
  const Status status = request->open ? Status::invalid_argument : request->value->run(in, out);
  if (status == Status::invalid_argument) [[unlikely]]
    return refused("smelt_request_run", "a buffer that this rank needs is NULL, or the request is still under way");
  request->vote_callback.publish();
  return static_cast<int>(status);
}

int smelt_request_test(smelt_request* request, int* done) {
  if (request == nullptr || done == nullptr) return refused("smelt_request_test", "request or done is NULL");
  bool over = false;
  const Status status = request->value->test(&over);
  *done = over ? 1 : 0;
  if (over) close(*request);
  return static_cast<int>(status);
}

int smelt_request_wait(smelt_request* request) {
  if (request == nullptr) return refused("smelt_request_wait", "request is NULL");
  const Status status = request->value->wait();
  close(*request);
  return static_cast<int>(status);
}

void smelt_request_free(smelt_request* request) {
  if (request == nullptr) return;
  (void)smelt_request_wait(request);
  delete request;
}

}  // extern "C"
