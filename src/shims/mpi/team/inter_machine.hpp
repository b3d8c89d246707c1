// Collectives across machines: smelt within each machine, the library between their leaders.
#pragma once

#include <smelt/smelt.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/calls/translated_call.hpp"
#include "shims/mpi/team/team.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

/// Whether the operation can be done this way at a reasonable cost. The same on all ranks.
bool spans_machines(const MpiTeam& team, const TranslatedCall& task) noexcept;
inline constexpr const char* not_across = "an operation between machines";

/// The operator and datatype with which the library combines: its own if it knows the layout of the elements, otherwise
/// those of the call.
class InterMachineReduction {
 public:
  /// Throws std::bad_alloc.
  explicit InterMachineReduction(const TranslatedCall& task);
  InterMachineReduction(const InterMachineReduction&) = delete;
  InterMachineReduction& operator=(const InterMachineReduction&) = delete;
  ~InterMachineReduction();
  MPI_Op op() const { return op_; }
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Op op_;
  MPI_Datatype type_;
  bool own_ = false;
};

/// A collective across machines in progress: the sequence of this rank's steps. A rank runs all of them, or as many as
/// possible without waiting. In the latter case, the collectives of a team must finish in the order of their starts.
///
/// After a failed step the following steps of this rank do nothing. A failure of smelt breaks its communicator on the
/// whole machine. The library handles its own failures.
class InterMachineCollective {
 public:
  /// `team` and `task` must live until it is over. Throws std::bad_alloc.
  InterMachineCollective(MpiTeam& team, TranslatedCall& task);
  InterMachineCollective(const InterMachineCollective&) = delete;
  InterMachineCollective& operator=(const InterMachineCollective&) = delete;
  ~InterMachineCollective();

  /// Runs all steps.
  void run() noexcept;

  /// Must be called before advance(). Returns the status of smelt's part, the same on all ranks except for
  /// SMELT_OUT_OF_MEMORY.
  int prepare() noexcept;
  /// Runs steps as far as possible without waiting. Returns whether it is over.
  bool advance() noexcept;

  /// Once it is over: an MPI error code. MPI_ERR_OTHER: smelt has failed; see status().
  int code() const noexcept { return code_; }
  int status() const noexcept { return status_; }

 private:
  using Library = std::function<int(MPI_Request*)>;  ///< blocking if the request is null
  using Here = std::function<void()>;
  using Step = std::variant<smelt_call, Library, Here>;
  using Memory = std::unique_ptr<std::byte[]>;
  using Sizes = std::vector<std::size_t>;

  bool top() const { return call_.root == team_.rank; }
  bool fine() const { return code_ == MPI_SUCCESS; }
  std::size_t block() const { return call_.count; }
  std::size_t blocks_of(int machine) const;
  Sizes sizes_here(const Sizes& sizes) const;
  smelt_call local_call(smelt_operation operation, const void* in, void* out, int root = 0) const;

  // These add steps.
  void local(const smelt_call& call);
  void broadcast_local(void* data, std::size_t bytes, int root);
  void between_leaders(Library call);
  void gather_local(const void* in, void* out, const Sizes& sizes);
  void scatter_local(const void* in, void* out, const Sizes& sizes);
  void hand_on(void* data, std::size_t bytes, int from, int to);
  void copy_if_alone(void* to, const void* from, std::size_t bytes);
  void barrier();
  void broadcast();
  void reduce();
  void allreduce();
  void gather();
  void scatter();
  void reduce_scatter();
  void allgather();
  void allgatherv();
  void alltoall();

  void lay_out();
  void lay_out(const Sizes& sizes);
  void sort(const std::byte* by_machine, std::byte* by_rank) const;
  void unsort(const std::byte* by_rank, std::byte* by_machine) const;
  void unsort(const std::byte* by_rank, std::byte* by_machine, const Sizes& sizes) const;
  void exchanged(const std::byte* by_machine, std::byte* by_rank) const;
  void to_exchange(const std::byte* by_rank, std::byte* by_machine) const;
  void fail_by(int status) noexcept;
  void begin(const Step& step) noexcept;
  bool over(const Step& step) noexcept;

  MpiTeam& team_;
  TranslatedCall& task_;
  smelt_call& call_;
  int root_machine_, root_local_;
  bool at_root_;

  std::optional<InterMachineReduction> between_;
  Memory own_, all_;
  std::vector<int> counts_, offsets_;  ///< of each machine's blocks, for the leaders

  std::deque<Sizes> kept_;  ///< arrays that calls point to

  std::vector<Step> steps_;
  std::size_t at_ = 0;
  bool begun_ = false;                 ///< the step at `at_` was started
  std::vector<smelt_request*> works_;  ///< prepared requests of the steps that smelt runs
  MPI_Request request_ = MPI_REQUEST_NULL;
  int code_ = MPI_SUCCESS;
  int status_ = SMELT_OK;
};

/// Runs a whole collective across machines: code() and, returned, status(). Throws std::bad_alloc.
int run_across(MpiTeam& team, TranslatedCall& task, int* code);

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
