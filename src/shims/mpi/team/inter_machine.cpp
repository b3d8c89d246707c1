#include "shims/mpi/team/inter_machine.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <mutex>
#include <new>
#include <numeric>
#include <utility>

#include "shims/mpi/original.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

// The calls whose operators the library uses, by the datatype that it passes to `bridge`, since MPI_User_function has
// no context argument.
constinit std::mutex bridging;
using Bridges = std::vector<std::pair<MPI_Datatype, const smelt_call*>>;
Bridges& bridges() {  // guarded by `bridging`; never destroyed
  static Bridges& all = *new Bridges;
  return all;
}

const smelt_call& call_of(MPI_Datatype type) {
  const std::lock_guard lock(bridging);
  return *std::find_if(bridges().begin(), bridges().end(), [&](const auto& each) {
            return each.first == type;
          })->second;
}

/// An MPI_User_function: inout = in (op) inout, on elements that are contiguous bytes for the library.
void bridge(void* in, void* inout, int* count, MPI_Datatype* type) {
  const smelt_call& call = call_of(*type);
  const auto n = static_cast<std::size_t>(*count);
  if (call.commutative != 0) return call.combine(inout, in, n, call.context);
  const std::size_t bytes = n * call.element_bytes;
  const std::unique_ptr<std::byte[]> left(new std::byte[bytes]);
  std::memcpy(left.get(), in, bytes);
  call.combine(left.get(), inout, n, call.context);
  std::memcpy(inout, left.get(), bytes);
}

std::size_t element_bytes(const TranslatedCall& task) {
  return task.by.layout != nullptr ? task.by.element_bytes() : std::size_t{1};
}

using Sizes = std::vector<std::size_t>;

std::size_t sum(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}); }

/// Offsets of consecutive blocks.
Sizes begins(const Sizes& sizes) {
  Sizes offsets(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), std::size_t{0});
  return offsets;
}

bool all_same(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [&](std::size_t each) { return each == sizes[0]; });
}

constexpr int leader = 0;  ///< rank of the leader within its machine

int number(std::size_t bytes) { return static_cast<int>(bytes); }

std::unique_ptr<std::byte[]> room(std::size_t bytes) { return std::unique_ptr<std::byte[]>(new std::byte[bytes + 1]); }

}  // namespace

InterMachineReduction::InterMachineReduction(const TranslatedCall& task) : op_(task.by.op), type_(task.by.type) {
  if (task.by.raw() && !task.by.user) return;
  const std::lock_guard lock(bridging);
  bridges().reserve(bridges().size() + 1);
  own_ = true;
  original.Op_create(bridge, task.call.commutative, &op_);
  original.Type_contiguous(number(task.call.element_bytes), MPI_BYTE, &type_);
  original.Type_commit(&type_);
  bridges().emplace_back(type_, &task.call);
}

InterMachineReduction::~InterMachineReduction() {
  if (!own_) return;
  {
    const std::lock_guard lock(bridging);
    std::erase_if(bridges(), [&](const auto& each) { return each.first == type_; });
  }
  original.Op_free(&op_);
  original.Type_free(&type_);
}

// ---- the steps of each operation ------------------------------------------------------------

InterMachineCollective::InterMachineCollective(MpiTeam& team, TranslatedCall& task)
    : team_(team), task_(task), call_(task.call) {
  root_machine_ = team.machine_of[static_cast<std::size_t>(call_.root)];
  at_root_ = root_machine_ == team.machine;
  root_local_ = team.local_of[static_cast<std::size_t>(call_.root)];
  switch (call_.operation) {
    case SMELT_BARRIER: barrier(); break;
    case SMELT_BROADCAST: broadcast(); break;
    case SMELT_REDUCE: reduce(); break;
    case SMELT_ALLREDUCE: allreduce(); break;
    case SMELT_GATHER: gather(); break;
    case SMELT_SCATTER: scatter(); break;
    case SMELT_REDUCE_SCATTER:
    case SMELT_REDUCE_SCATTERV: reduce_scatter(); break;
    case SMELT_ALLGATHERV: allgatherv(); break;
    case SMELT_ALLTOALL: alltoall(); break;
    default: allgather(); break;
  }
}

/// Bytes of one block per rank of a machine.
std::size_t InterMachineCollective::blocks_of(int machine) const {
  return block() * static_cast<std::size_t>(team_.machine_size[static_cast<std::size_t>(machine)]);
}

/// Selects the values of this machine's ranks from those of all ranks.
InterMachineCollective::Sizes InterMachineCollective::sizes_here(const Sizes& sizes) const {
  Sizes here;
  for (const int rank : team_.ranks_of(team_.machine)) here.push_back(sizes[static_cast<std::size_t>(rank)]);
  return here;
}

/// A call with the same operator and count on this machine.
smelt_call InterMachineCollective::local_call(smelt_operation operation, const void* in, void* out, int root) const {
  smelt_call call = call_;
  call.operation = operation;
  call.in = in;
  call.out = out;
  call.root = root;
  call.in_counts = call.in_offsets = nullptr;
  return call;
}

void InterMachineCollective::local(const smelt_call& call) {
  if (team_.local != nullptr) steps_.emplace_back(call);
}

void InterMachineCollective::broadcast_local(void* data, std::size_t bytes, int root) {
  smelt_call call{};
  call.operation = SMELT_BROADCAST;
  call.out = data;
  call.count = bytes;
  call.root = root;
  local(call);
}

void InterMachineCollective::between_leaders(Library call) {
  if (team_.leads()) steps_.emplace_back(std::move(call));
}

void InterMachineCollective::copy_if_alone(void* to, const void* from, std::size_t bytes) {
  if (team_.local == nullptr) steps_.emplace_back(Here([=] { std::memcpy(to, from, bytes); }));
}

/// Gathers blocks at the leader, in order. `sizes`: of this machine's ranks, in bytes.
void InterMachineCollective::gather_local(const void* in, void* out, const Sizes& sizes) {
  smelt_call call{};
  call.operation = all_same(sizes) ? SMELT_GATHER : SMELT_GATHERV;
  call.in = in;
  call.out = out;
  call.count = sizes[static_cast<std::size_t>(team_.local_rank)];
  if (call.operation == SMELT_GATHERV) {
    call.out_counts = kept_.emplace_back(sizes).data();
    call.out_offsets = kept_.emplace_back(begins(sizes)).data();
  }
  local(call);
  copy_if_alone(out, in, call.count);
}

/// The reverse: scatters blocks from the leader.
void InterMachineCollective::scatter_local(const void* in, void* out, const Sizes& sizes) {
  smelt_call call{};
  call.operation = all_same(sizes) ? SMELT_SCATTER : SMELT_SCATTERV;
  call.in = in;
  call.out = out;
  call.count = sizes[static_cast<std::size_t>(team_.local_rank)];
  if (call.operation == SMELT_SCATTERV) {
    call.in_counts = kept_.emplace_back(sizes).data();
    call.in_offsets = kept_.emplace_back(begins(sizes)).data();
  }
  local(call);
  copy_if_alone(out, in, call.count);
}

/// On the root's machine: moves data from one of its ranks to another.
void InterMachineCollective::hand_on(void* data, std::size_t bytes, int from, int to) {
  if (!at_root_ || from == to) return;
  const MPI_Comm comm = team_.neighbours;
  if (team_.local_rank == from) {
    steps_.emplace_back(Library([=](MPI_Request* request) {
      return request != nullptr ? original.Isend(data, number(bytes), MPI_BYTE, to, 0, comm, request)
                                : original.Send(data, number(bytes), MPI_BYTE, to, 0, comm);
    }));
  } else if (team_.local_rank == to) {
    steps_.emplace_back(Library([=](MPI_Request* request) {
      return request != nullptr ? original.Irecv(data, number(bytes), MPI_BYTE, from, 0, comm, request)
                                : original.Recv(data, number(bytes), MPI_BYTE, from, 0, comm, MPI_STATUS_IGNORE);
    }));
  }
}

void InterMachineCollective::barrier() {
  smelt_call call{};
  call.operation = SMELT_BARRIER;
  local(call);
  between_leaders([this](MPI_Request* request) {
    return request != nullptr ? original.Ibarrier(team_.leaders, request) : original.Barrier(team_.leaders);
  });
  local(call);
}

void InterMachineCollective::broadcast() {
  // The root's machine first, so that its leader has the data.
  if (at_root_) broadcast_local(call_.out, call_.count, root_local_);
  between_leaders([this, bytes = number(call_.count)](MPI_Request* request) {
    return request != nullptr ? original.Ibcast(call_.out, bytes, MPI_BYTE, root_machine_, team_.leaders, request)
                              : original.Bcast(call_.out, bytes, MPI_BYTE, root_machine_, team_.leaders);
  });
  if (!at_root_) broadcast_local(call_.out, call_.count, 0);
}

void InterMachineCollective::reduce() {
  const std::size_t bytes = call_.count * element_bytes(task_);
  if (team_.leads()) {
    own_ = room(bytes);
    if (at_root_ && !top()) all_ = room(bytes);
    between_.emplace(task_);
  }
  local(local_call(SMELT_REDUCE, call_.in, own_.get()));
  copy_if_alone(own_.get(), call_.in, bytes);
  void* const total = top() ? call_.out : all_.get();
  between_leaders([this, total, count = number(call_.count)](MPI_Request* request) {
    const MPI_Datatype type = between_->type();
    const MPI_Op op = between_->op();
    return request != nullptr
               ? original.Ireduce(own_.get(), total, count, type, op, root_machine_, team_.leaders, request)
               : original.Reduce(own_.get(), total, count, type, op, root_machine_, team_.leaders);
  });
  hand_on(total, bytes, leader, root_local_);
}

void InterMachineCollective::allreduce() {
  const std::size_t bytes = call_.count * element_bytes(task_);
  if (team_.leads()) {
    own_ = room(bytes);
    between_.emplace(task_);
  }
  local(local_call(SMELT_REDUCE, call_.in, own_.get()));
  copy_if_alone(own_.get(), call_.in, bytes);
  between_leaders([this, count = number(call_.count)](MPI_Request* request) {
    const MPI_Datatype type = between_->type();
    const MPI_Op op = between_->op();
    return request != nullptr ? original.Iallreduce(own_.get(), call_.out, count, type, op, team_.leaders, request)
                              : original.Allreduce(own_.get(), call_.out, count, type, op, team_.leaders);
  });
  broadcast_local(call_.out, bytes, 0);
}

void InterMachineCollective::reduce_scatter() {
  const std::size_t element = element_bytes(task_), ranks = team_.by_machine.size();
  Sizes sizes(ranks, call_.count);
  if (call_.in_counts != nullptr) std::copy_n(call_.in_counts, ranks, sizes.begin());
  smelt_call whole = local_call(SMELT_REDUCE, call_.in, nullptr);
  whole.count = sum(sizes);
  const std::size_t bytes = whole.count * element;
  if (team_.leads()) {
    own_ = room(bytes);
    all_ = room(bytes);
    lay_out(sizes);
    between_.emplace(task_);
    whole.out = own_.get();
  }
  local(whole);
  copy_if_alone(own_.get(), call_.in, bytes);
  for (std::size_t& each : sizes) each *= element;
  // Copied between the two buffers, and once more if blocks must be sorted.
  std::byte *from = own_.get(), *to = all_.get();
  if (team_.leads() && !team_.in_blocks) {
    steps_.emplace_back(Here([=, this] { unsort(own_.get(), all_.get(), sizes); }));
    std::swap(from, to);
  }
  between_leaders([=, this](MPI_Request* request) {
    const MPI_Datatype type = between_->type();
    const MPI_Op op = between_->op();
    return request != nullptr ? original.Ireduce_scatter(from, to, counts_.data(), type, op, team_.leaders, request)
                              : original.Reduce_scatter(from, to, counts_.data(), type, op, team_.leaders);
  });
  scatter_local(to, call_.out, sizes_here(sizes));
}

/// On leaders: one message per machine, with sizes in elements.
void InterMachineCollective::lay_out(const Sizes& sizes) {
  for (int machine = 0; machine < team_.machines; ++machine) {
    std::size_t all = 0;
    for (const int rank : team_.ranks_of(machine)) all += sizes[static_cast<std::size_t>(rank)];
    counts_.push_back(number(all));
  }
  offsets_.resize(counts_.size());
  std::exclusive_scan(counts_.begin(), counts_.end(), offsets_.begin(), 0);
}

void InterMachineCollective::lay_out() {
  for (int machine = 0; machine < team_.machines; ++machine) counts_.push_back(number(blocks_of(machine)));
  offsets_.resize(counts_.size());
  std::exclusive_scan(counts_.begin(), counts_.end(), offsets_.begin(), 0);
  own_ = room(blocks_of(team_.machine));
}

void InterMachineCollective::sort(const std::byte* by_machine, std::byte* by_rank) const {
  for (std::size_t i = 0; i < team_.by_machine.size(); ++i) {
    std::memcpy(by_rank + static_cast<std::size_t>(team_.by_machine[i]) * block(), by_machine + i * block(), block());
  }
}

void InterMachineCollective::unsort(const std::byte* by_rank, std::byte* by_machine) const {
  for (std::size_t i = 0; i < team_.by_machine.size(); ++i) {
    std::memcpy(by_machine + i * block(), by_rank + static_cast<std::size_t>(team_.by_machine[i]) * block(), block());
  }
}

void InterMachineCollective::unsort(const std::byte* by_rank, std::byte* by_machine, const Sizes& sizes) const {
  const Sizes offsets = begins(sizes);
  for (const int each : team_.by_machine) {
    const auto rank = static_cast<std::size_t>(each);
    std::memcpy(by_machine, by_rank + offsets[rank], sizes[rank]);
    by_machine += sizes[rank];
  }
}

void InterMachineCollective::gather() {
  const std::size_t all = block() * static_cast<std::size_t>(team_.size);
  if (team_.leads()) lay_out();
  if (at_root_ && (team_.leads() || top())) all_ = room(all);
  local(local_call(SMELT_GATHER, call_.in, own_.get()));
  copy_if_alone(own_.get(), call_.in, block());
  between_leaders([this, bytes = number(blocks_of(team_.machine))](MPI_Request* request) {
    return request != nullptr ? original.Igatherv(own_.get(), bytes, MPI_BYTE, all_.get(), counts_.data(),
                                                  offsets_.data(), MPI_BYTE, root_machine_, team_.leaders, request)
                              : original.Gatherv(own_.get(), bytes, MPI_BYTE, all_.get(), counts_.data(),
                                                 offsets_.data(), MPI_BYTE, root_machine_, team_.leaders);
  });
  hand_on(all_.get(), all, leader, root_local_);
  if (top()) steps_.emplace_back(Here([this] { sort(all_.get(), static_cast<std::byte*>(call_.out)); }));
}

void InterMachineCollective::scatter() {
  const std::size_t all = block() * static_cast<std::size_t>(team_.size);
  if (team_.leads()) lay_out();
  if (at_root_ && (team_.leads() || top())) all_ = room(all);
  if (top()) steps_.emplace_back(Here([this] { unsort(static_cast<const std::byte*>(call_.in), all_.get()); }));
  hand_on(all_.get(), all, root_local_, leader);
  between_leaders([this, bytes = number(blocks_of(team_.machine))](MPI_Request* request) {
    return request != nullptr ? original.Iscatterv(all_.get(), counts_.data(), offsets_.data(), MPI_BYTE, own_.get(),
                                                   bytes, MPI_BYTE, root_machine_, team_.leaders, request)
                              : original.Scatterv(all_.get(), counts_.data(), offsets_.data(), MPI_BYTE, own_.get(),
                                                  bytes, MPI_BYTE, root_machine_, team_.leaders);
  });
  local(local_call(SMELT_SCATTER, own_.get(), call_.out));
  copy_if_alone(call_.out, own_.get(), block());
}

void InterMachineCollective::allgather() {
  const std::size_t all = block() * static_cast<std::size_t>(team_.size);
  auto* const out = static_cast<std::byte*>(call_.out);
  if (team_.leads()) lay_out();
  if (team_.leads() && !team_.in_blocks) all_ = room(all);
  local(local_call(SMELT_GATHER, call_.in, own_.get()));
  copy_if_alone(own_.get(), call_.in, block());
  std::byte* const blocks = all_ != nullptr ? all_.get() : out;
  between_leaders([this, blocks, bytes = number(blocks_of(team_.machine))](MPI_Request* request) {
    return request != nullptr ? original.Iallgatherv(own_.get(), bytes, MPI_BYTE, blocks, counts_.data(),
                                                     offsets_.data(), MPI_BYTE, team_.leaders, request)
                              : original.Allgatherv(own_.get(), bytes, MPI_BYTE, blocks, counts_.data(),
                                                    offsets_.data(), MPI_BYTE, team_.leaders);
  });
  if (blocks != out) steps_.emplace_back(Here([=, this] { sort(blocks, out); }));
  broadcast_local(out, all, 0);
}

void InterMachineCollective::allgatherv() {
  const std::size_t ranks = team_.by_machine.size();
  const Sizes sizes(call_.out_counts, call_.out_counts + ranks), offsets(call_.out_offsets, call_.out_offsets + ranks);
  const std::size_t all = sum(sizes);
  auto* const out = static_cast<std::byte*>(call_.out);
  const bool in_place = team_.in_blocks && offsets == begins(sizes);
  if (!in_place) all_ = room(all);
  std::byte* const blocks = in_place ? out : all_.get();
  const Sizes here = sizes_here(sizes);
  if (team_.leads()) {
    lay_out(sizes);
    own_ = room(sum(here));
  }
  gather_local(call_.in, own_.get(), here);
  between_leaders([this, blocks, bytes = number(sum(here))](MPI_Request* request) {
    return request != nullptr ? original.Iallgatherv(own_.get(), bytes, MPI_BYTE, blocks, counts_.data(),
                                                     offsets_.data(), MPI_BYTE, team_.leaders, request)
                              : original.Allgatherv(own_.get(), bytes, MPI_BYTE, blocks, counts_.data(),
                                                    offsets_.data(), MPI_BYTE, team_.leaders);
  });
  broadcast_local(blocks, all, leader);
  if (in_place) return;
  steps_.emplace_back(Here([=, this] {
    const std::byte* from = blocks;
    for (const int each : team_.by_machine) {
      const auto rank = static_cast<std::size_t>(each);
      std::memcpy(out + offsets[rank], from, sizes[rank]);
      from += sizes[rank];
    }
  }));
}

void InterMachineCollective::alltoall() {
  const std::size_t row = block() * static_cast<std::size_t>(team_.size);
  const std::size_t all = row * static_cast<std::size_t>(team_.local_size);
  if (team_.leads()) {
    own_ = room(all);
    all_ = room(all);
    lay_out(Sizes(team_.by_machine.size(), block() * static_cast<std::size_t>(team_.local_size)));
  }
  const Sizes rows(static_cast<std::size_t>(team_.local_size), row);
  gather_local(call_.in, own_.get(), rows);
  if (team_.leads()) steps_.emplace_back(Here([this] { to_exchange(own_.get(), all_.get()); }));
  between_leaders([this](MPI_Request* request) {
    const int *const counts = counts_.data(), *const offsets = offsets_.data();
    return request != nullptr ? original.Ialltoallv(all_.get(), counts, offsets, MPI_BYTE, own_.get(), counts, offsets,
                                                    MPI_BYTE, team_.leaders, request)
                              : original.Alltoallv(all_.get(), counts, offsets, MPI_BYTE, own_.get(), counts, offsets,
                                                   MPI_BYTE, team_.leaders);
  });
  if (team_.leads()) steps_.emplace_back(Here([this] { exchanged(own_.get(), all_.get()); }));
  scatter_local(all_.get(), call_.out, rows);
}

/// Reorders blocks for sending: from [rank here][any rank] to [machine][rank here][rank there].
void InterMachineCollective::to_exchange(const std::byte* by_rank, std::byte* by_machine) const {
  const std::size_t row = block() * static_cast<std::size_t>(team_.size);
  for (int machine = 0; machine < team_.machines; ++machine) {
    for (int local = 0; local < team_.local_size; ++local) {
      const std::byte* const from = by_rank + static_cast<std::size_t>(local) * row;
      for (const int rank : team_.ranks_of(machine)) {
        std::memcpy(by_machine, from + static_cast<std::size_t>(rank) * block(), block());
        by_machine += block();
      }
    }
  }
}

/// Reorders received blocks: from [machine][rank there][rank here] to [rank here][any rank].
void InterMachineCollective::exchanged(const std::byte* by_machine, std::byte* by_rank) const {
  const std::size_t row = block() * static_cast<std::size_t>(team_.size);
  for (const int rank : team_.by_machine) {
    for (int local = 0; local < team_.local_size; ++local) {
      std::memcpy(by_rank + static_cast<std::size_t>(local) * row + static_cast<std::size_t>(rank) * block(),
                  by_machine, block());
      by_machine += block();
    }
  }
}

// ---- taking them ----------------------------------------------------------------------------

InterMachineCollective::~InterMachineCollective() {
  for (smelt_request* const work : works_) smelt_request_free(work);
}

void InterMachineCollective::fail_by(int status) noexcept {
  status_ = status;
  if (status != SMELT_OK) code_ = MPI_ERR_OTHER;
}

void InterMachineCollective::run() noexcept {
  for (auto step = steps_.begin(); step != steps_.end() && fine(); ++step) {
    if (const auto* const call = std::get_if<smelt_call>(&*step)) fail_by(smelt_run(team_.local, call));
    if (const auto* const library = std::get_if<Library>(&*step)) code_ = (*library)(nullptr);
    if (const auto* const here = std::get_if<Here>(&*step)) (*here)();
  }
}

int run_across(MpiTeam& team, TranslatedCall& task, int* code) {
  InterMachineCollective crossing(team, task);
  crossing.run();
  *code = crossing.code();
  return crossing.status();
}

int InterMachineCollective::prepare() noexcept {
  try {
    works_.resize(steps_.size());
  } catch (const std::bad_alloc&) {
    return SMELT_OUT_OF_MEMORY;
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto* const call = std::get_if<smelt_call>(&steps_[i]);
    const int status = call != nullptr ? smelt_prepare(team_.local, call, &works_[i]) : SMELT_OK;
    if (status != SMELT_OK) return status;
  }
  return SMELT_OK;
}

void InterMachineCollective::begin(const Step& step) noexcept {
  if (std::holds_alternative<smelt_call>(step)) fail_by(smelt_request_start(works_[at_]));
  if (const auto* const library = std::get_if<Library>(&step)) code_ = (*library)(&request_);
  if (const auto* const here = std::get_if<Here>(&step)) (*here)();
}

/// Requirement: the step has begun without failing.
bool InterMachineCollective::over(const Step& step) noexcept {
  int over = std::holds_alternative<Here>(step) ? 1 : 0;
  if (std::holds_alternative<Library>(step)) code_ = original.Test(&request_, &over, MPI_STATUS_IGNORE);
  if (std::holds_alternative<smelt_call>(step)) fail_by(smelt_request_test(works_[at_], &over));
  return over != 0 || !fine();
}

bool InterMachineCollective::advance() noexcept {
  for (; at_ < steps_.size() && fine(); ++at_, begun_ = false) {
    if (!begun_) begin(steps_[at_]);
    begun_ = true;
    if (fine() && !over(steps_[at_])) return false;
  }
  return true;
}

// ---- which operations -----------------------------------------------------------------------

namespace {

/// Bytes through a leader that are copied more often than by the library.
double by_leader(const MpiTeam& team, const TranslatedCall& task) {
  const smelt_call& call = task.call;
  const auto all = [&](const std::size_t* sizes) {
    return sizes != nullptr ? std::accumulate(sizes, sizes + team.size, 0.0)
                            : static_cast<double>(call.count) * team.size;
  };
  switch (call.operation) {
    case SMELT_GATHER:
    case SMELT_SCATTER: return all(nullptr);
    case SMELT_ALLGATHERV: return all(call.out_counts);
    case SMELT_REDUCE_SCATTER:
    case SMELT_REDUCE_SCATTERV: return all(call.in_counts) * static_cast<double>(element_bytes(task));
    case SMELT_ALLTOALL: return all(nullptr) * *std::max_element(team.machine_size.begin(), team.machine_size.end());
    default: return 0;
  }
}

/// Above this size the library's own messages are faster.
constexpr double most_by_leader = 64 << 10;

/// Bytes in the largest message between leaders, of the other operations.
double most_bytes(const MpiTeam& team, const TranslatedCall& task) {
  const double vector = static_cast<double>(task.call.count) * static_cast<double>(element_bytes(task));
  return task.call.operation == SMELT_ALLGATHER ? vector * team.size : vector;
}

}  // namespace

bool spans_machines(const MpiTeam& team, const TranslatedCall& task) noexcept {
  const smelt_call& call = task.call;
  if (by_leader(team, task) > most_by_leader || most_bytes(team, task) > INT_MAX) return false;
  switch (call.operation) {
    case SMELT_BARRIER:
    case SMELT_BROADCAST:
    case SMELT_GATHER:
    case SMELT_SCATTER:
    case SMELT_ALLGATHER:
    case SMELT_ALLGATHERV:
    case SMELT_ALLTOALL: return true;
    case SMELT_REDUCE:
    case SMELT_ALLREDUCE:
    case SMELT_REDUCE_SCATTER:
    case SMELT_REDUCE_SCATTERV: return call.combine == nullptr || call.commutative != 0 || team.in_blocks;
    default: return false;
  }
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
