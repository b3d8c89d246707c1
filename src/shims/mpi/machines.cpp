#include "shims/mpi/machines.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>

#include "shims/mpi/original.hpp"

namespace smelt::shims::mpi {
namespace {

/// The operator of smelt's call under way, for the library: it has no place for a context.
constinit thread_local const smelt_call* under_way = nullptr;

/// An MPI_User_function: inout = in (op) inout, on elements that are a run of bytes to the library.
void bridge(void* in, void* inout, int* count, MPI_Datatype*) {
  const smelt_call& call = *under_way;
  const auto n = static_cast<std::size_t>(*count);
  if (call.commutative != 0) return call.combine(inout, in, n, call.context);
  const std::size_t bytes = n * call.element_bytes;
  const std::unique_ptr<std::byte[]> left(new std::byte[bytes]);
  std::memcpy(left.get(), in, bytes);
  call.combine(left.get(), inout, n, call.context);
  std::memcpy(inout, left.get(), bytes);
}

/// What the library combines with: its own operator and type where elements lie as it knows them, else `bridge`.
class Between {
 public:
  explicit Between(const Task& task) : op_(task.by.op), type_(task.by.type) {
    under_way = &task.call;
    if (task.by.layout->predefined && !task.by.user) return;
    own_ = true;
    PMPI_Op_create(bridge, task.call.commutative, &op_);
    PMPI_Type_contiguous(static_cast<int>(task.call.element_bytes), MPI_BYTE, &type_);
    PMPI_Type_commit(&type_);
  }
  Between(const Between&) = delete;
  Between& operator=(const Between&) = delete;
  ~Between() {
    if (!own_) return;
    PMPI_Op_free(&op_);
    original.Type_free(&type_);
  }
  MPI_Op op() const { return op_; }
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Op op_;
  MPI_Datatype type_;
  bool own_ = false;
};

std::size_t element_bytes(const Task& task) {
  return task.by.layout != nullptr ? task.by.element_bytes() : std::size_t{1};
}

/// One collective on its way across machines. Each step does nothing once one has failed on this rank; a failure
/// of smelt breaks its communicator on the whole machine, and one of the library is the library's to handle.
class Crossing {
 public:
  Crossing(Team& team, Task& task) : team_(team), task_(task), call_(task.call) {
    root_machine_ = team.machine_of[static_cast<std::size_t>(call_.root)];
    at_root_ = root_machine_ == team.machine;
    root_local_ = team.local_of[static_cast<std::size_t>(call_.root)];
  }

  int run(int* status);

 private:
  bool top() const { return call_.root == team_.rank; }
  bool fine() const { return code_ == MPI_SUCCESS; }
  int number(std::size_t bytes) const { return static_cast<int>(bytes); }
  std::size_t block() const { return call_.count; }
  /// Bytes of one block per rank, of a machine or of all.
  std::size_t blocks_of(int machine) const {
    return block() * static_cast<std::size_t>(team_.machine_size[static_cast<std::size_t>(machine)]);
  }

  void local(smelt_call call) {
    if (!fine() || team_.local == nullptr) return;
    status_ = smelt_run(team_.local, &call);
    if (status_ != SMELT_OK) code_ = MPI_ERR_OTHER;
  }
  void library(int code) {
    if (fine()) code_ = code;
  }
  std::byte* room(std::unique_ptr<std::byte[]>& memory, std::size_t bytes) {
    memory.reset(new std::byte[bytes + 1]);
    return memory.get();
  }
  smelt_call local_call(smelt_operation operation, const void* in, void* out, int root = 0) const;

  void broadcast_local(void* data, std::size_t bytes, int root) {
    smelt_call call{};
    call.operation = SMELT_BROADCAST;
    call.out = data;
    call.count = bytes;
    call.root = root;
    local(call);
  }
  void barrier();
  void broadcast();
  void reduce();
  void allreduce();
  void gather();
  void scatter();
  void allgather();
  void send_to_root(const void* data, std::size_t bytes);
  void receive_from_leader(void* data, std::size_t bytes);
  void layout(std::vector<int>& counts, std::vector<int>& offsets) const;
  void sort(const std::byte* by_machine, std::byte* by_rank) const;
  void unsort(const std::byte* by_rank, std::byte* by_machine) const;

  Team& team_;
  Task& task_;
  smelt_call& call_;
  int root_machine_ = 0, root_local_ = 0;
  bool at_root_ = false;
  int code_ = MPI_SUCCESS;
  int status_ = SMELT_OK;
};

/// The same operator and count, on this machine.
smelt_call Crossing::local_call(smelt_operation operation, const void* in, void* out, int root) const {
  smelt_call call = call_;
  call.operation = operation;
  call.in = in;
  call.out = out;
  call.root = root;
  return call;
}

void Crossing::barrier() {
  smelt_call call{};
  call.operation = SMELT_BARRIER;
  local(call);
  if (team_.leads() && fine()) library(original.Barrier(team_.leaders));
  local(call);
}

void Crossing::broadcast() {
  // The root's machine first, so that its leader has the data.
  if (at_root_) broadcast_local(call_.out, call_.count, root_local_);
  if (team_.leads() && fine()) {
    library(original.Bcast(call_.out, number(call_.count), MPI_BYTE, root_machine_, team_.leaders));
  }
  if (!at_root_) broadcast_local(call_.out, call_.count, 0);
}

void Crossing::send_to_root(const void* data, std::size_t bytes) {
  if (fine()) library(PMPI_Send(data, number(bytes), MPI_BYTE, root_local_, 0, team_.neighbours));
}

void Crossing::receive_from_leader(void* data, std::size_t bytes) {
  if (fine()) library(PMPI_Recv(data, number(bytes), MPI_BYTE, 0, 0, team_.neighbours, MPI_STATUS_IGNORE));
}

void Crossing::reduce() {
  const std::size_t bytes = call_.count * element_bytes(task_);
  std::unique_ptr<std::byte[]> part_memory, total_memory;
  std::byte* const part = team_.leads() ? room(part_memory, bytes) : nullptr;
  local(local_call(SMELT_REDUCE, call_.in, part));
  if (team_.local == nullptr) std::memcpy(part, call_.in, bytes);
  std::byte* total = nullptr;
  if (team_.leads() && at_root_) total = top() ? static_cast<std::byte*>(call_.out) : room(total_memory, bytes);
  if (team_.leads() && fine()) {
    const Between between(task_);
    library(original.Reduce(part, total, number(call_.count), between.type(), between.op(), root_machine_,
                            team_.leaders));
  }
  if (at_root_ && team_.leads() && !top()) send_to_root(total, bytes);
  if (top() && !team_.leads()) receive_from_leader(call_.out, bytes);
}

void Crossing::allreduce() {
  const std::size_t bytes = call_.count * element_bytes(task_);
  std::unique_ptr<std::byte[]> memory;
  std::byte* const part = team_.leads() ? room(memory, bytes) : nullptr;
  local(local_call(SMELT_REDUCE, call_.in, part));
  if (team_.local == nullptr) std::memcpy(part, call_.in, bytes);
  if (team_.leads() && fine()) {
    const Between between(task_);
    library(original.Allreduce(part, call_.out, number(call_.count), between.type(), between.op(), team_.leaders));
  }
  broadcast_local(call_.out, bytes, 0);
}

/// Where the blocks of each machine lie, for the leaders.
void Crossing::layout(std::vector<int>& counts, std::vector<int>& offsets) const {
  for (int machine = 0; machine < team_.machines; ++machine) counts.push_back(number(blocks_of(machine)));
  offsets.resize(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
}

void Crossing::sort(const std::byte* by_machine, std::byte* by_rank) const {
  for (std::size_t i = 0; i < team_.by_machine.size(); ++i) {
    std::memcpy(by_rank + static_cast<std::size_t>(team_.by_machine[i]) * block(), by_machine + i * block(), block());
  }
}

void Crossing::unsort(const std::byte* by_rank, std::byte* by_machine) const {
  for (std::size_t i = 0; i < team_.by_machine.size(); ++i) {
    std::memcpy(by_machine + i * block(), by_rank + static_cast<std::size_t>(team_.by_machine[i]) * block(), block());
  }
}

void Crossing::gather() {
  const std::size_t all = block() * static_cast<std::size_t>(team_.size);
  std::unique_ptr<std::byte[]> own_memory, all_memory;
  std::byte* const own = team_.leads() ? room(own_memory, blocks_of(team_.machine)) : nullptr;
  local(local_call(SMELT_GATHER, call_.in, own));
  if (team_.local == nullptr) std::memcpy(own, call_.in, block());
  std::byte* blocks = nullptr;
  if (at_root_ && (team_.leads() || top())) blocks = room(all_memory, all);
  if (team_.leads() && fine()) {
    std::vector<int> counts, offsets;
    layout(counts, offsets);
    library(original.Gatherv(own, number(blocks_of(team_.machine)), MPI_BYTE, blocks, counts.data(), offsets.data(),
                             MPI_BYTE, root_machine_, team_.leaders));
  }
  if (at_root_ && team_.leads() && !top()) send_to_root(blocks, all);
  if (top() && !team_.leads()) receive_from_leader(blocks, all);
  if (top() && fine()) sort(blocks, static_cast<std::byte*>(call_.out));
}

void Crossing::scatter() {
  const std::size_t all = block() * static_cast<std::size_t>(team_.size);
  std::unique_ptr<std::byte[]> own_memory, all_memory;
  std::byte* blocks = nullptr;
  if (at_root_ && (team_.leads() || top())) blocks = room(all_memory, all);
  if (top()) unsort(static_cast<const std::byte*>(call_.in), blocks);
  if (top() && !team_.leads()) library(PMPI_Send(blocks, number(all), MPI_BYTE, 0, 0, team_.neighbours));
  if (at_root_ && team_.leads() && !top()) {
    library(PMPI_Recv(blocks, number(all), MPI_BYTE, root_local_, 0, team_.neighbours, MPI_STATUS_IGNORE));
  }
  std::byte* const own = team_.leads() ? room(own_memory, blocks_of(team_.machine)) : nullptr;
  if (team_.leads() && fine()) {
    std::vector<int> counts, offsets;
    layout(counts, offsets);
    library(original.Scatterv(blocks, counts.data(), offsets.data(), MPI_BYTE, own,
                              number(blocks_of(team_.machine)), MPI_BYTE, root_machine_, team_.leaders));
  }
  local(local_call(SMELT_SCATTER, own, call_.out));
  if (team_.local == nullptr) std::memcpy(call_.out, own, block());
}

void Crossing::allgather() {
  const std::size_t all = block() * static_cast<std::size_t>(team_.size);
  std::unique_ptr<std::byte[]> own_memory, all_memory;
  std::byte* const own = team_.leads() ? room(own_memory, blocks_of(team_.machine)) : nullptr;
  local(local_call(SMELT_GATHER, call_.in, own));
  if (team_.local == nullptr) std::memcpy(own, call_.in, block());
  auto* const out = static_cast<std::byte*>(call_.out);
  std::byte* const blocks = team_.in_blocks || !team_.leads() ? out : room(all_memory, all);
  if (team_.leads() && fine()) {
    std::vector<int> counts, offsets;
    layout(counts, offsets);
    library(original.Allgatherv(own, number(blocks_of(team_.machine)), MPI_BYTE, blocks, counts.data(),
                                offsets.data(), MPI_BYTE, team_.leaders));
    if (blocks != out && fine()) sort(blocks, out);
  }
  broadcast_local(out, all, 0);
}

int Crossing::run(int* status) {
  switch (call_.operation) {
    case SMELT_BARRIER:
      barrier();
      break;
    case SMELT_BROADCAST:
      broadcast();
      break;
    case SMELT_REDUCE:
      reduce();
      break;
    case SMELT_ALLREDUCE:
      allreduce();
      break;
    case SMELT_GATHER:
      gather();
      break;
    case SMELT_SCATTER:
      scatter();
      break;
    default:
      allgather();
      break;
  }
  *status = status_;
  return code_;
}

/// Bytes in the largest message between leaders.
double most_bytes(const Team& team, const Task& task) {
  const double vector = static_cast<double>(task.call.count) * static_cast<double>(element_bytes(task));
  const bool blocks = task.call.operation == SMELT_GATHER || task.call.operation == SMELT_SCATTER ||
                      task.call.operation == SMELT_ALLGATHER;
  return blocks ? vector * team.size : vector;
}

}  // namespace

bool spans_machines(const Team& team, const Task& task) noexcept {
  const smelt_call& call = task.call;
  if (most_bytes(team, task) > INT_MAX) return false;
  switch (call.operation) {
    case SMELT_BARRIER:
    case SMELT_BROADCAST:
      return true;
    case SMELT_REDUCE:
    case SMELT_ALLREDUCE:
      return call.combine == nullptr || call.commutative != 0 || team.in_blocks;
    case SMELT_GATHER:
    case SMELT_SCATTER:
    case SMELT_ALLGATHER:
      return true;
    default:
      return false;
  }
}

int run_across(Team& team, Task& task, int* status) noexcept {
  try {
    return Crossing(team, task).run(status);
  } catch (const std::bad_alloc&) {
    return MPI_ERR_NO_MEM;
  }
}

}  // namespace smelt::shims::mpi
