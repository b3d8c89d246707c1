// Agreement: how the ranks of a team agree to use smelt within calls that must not wait for other ranks (MPI_Ibcast
// etc).
//
// All ranks must change to smelt at the same call, without ever waiting for each other. They agree through a record in
// shared memory. When a rank calls a collective on the communicator, it takes those of these steps that are possible:
//
//   1. at the same call on all ranks: a nonblocking broadcast of the handle of the first rank's memory
//   2. opens the shared record, and increments its count of ranks that have
//   3. once all have opened it: a thread creates smelt's communicator with the others (async_rendezvous.hpp)
//   4. once it has its communicator: increments the count of ranks that are able
//
// From step 2 on, a rank records each call that it reaches. A rank that finds all ranks able names the first call that
// smelt serves, one that no rank has reached yet (switch_point.hpp).
//
// Steps 2 and 3 may be delayed. If a rank cannot take a step, the ranks never all become able, and the library serves
// the calls. The first call that may wait ends this: it settles the team as if there were no nonblocking calls
// (team_setup.cpp).
#pragma once

#include <memory>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/server_selection.hpp"
#include "shims/mpi/team/async_rendezvous.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct MpiTeam;
struct SharedAgreement;

class Agreement {
 public:
  /// Step 1.
  explicit Agreement(MpiTeam& team) noexcept;
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;
  /// Called on all ranks, but at different times. May wait until the first rank has begun.
  ~Agreement();

  /// Whether smelt serves the call that this rank has reached. If so, the team is ready and the agreement is over.
  bool ours(int call) noexcept;

 private:
  enum class Step { asked, opened, rendezvous, able, lost };
  struct AgreementOffer {
    std::uint64_t machine;
    MemoryHandle shared, memory;
    int before_race;  ///< calls_before_race() of the first rank, used by all
  };

  void advance(int call) noexcept;
  bool open(int call) noexcept;
  void rendezvous() noexcept;
  bool become_able() noexcept;
  bool decided(int call) noexcept;
  void win() noexcept;

  MpiTeam& team_;
  const int first_;  ///< the call with step 1
  Step step_ = Step::asked;
  AgreementOffer offer_{};
  MPI_Request request_ = MPI_REQUEST_NULL;
  Descriptor shared_file_, memory_;
  SharedAgreement* shared_ = nullptr;
  std::shared_ptr<AsyncRendezvous> rendezvous_;
  std::unique_ptr<ServerSelection> race_;
  smelt_communicator* communicator_ = nullptr;
  smelt_rank* local_ = nullptr;
};

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
