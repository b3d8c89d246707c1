// Agreement: how a team settles by calls that may not wait for other ranks, MPI_Ibcast and its like.
//
// All ranks have to go over to smelt at the same call, without any of them ever waiting to hear from the others. The
// place to agree without waiting is memory that all of them see, a shared record. Each rank takes these steps when it
// calls a collective on the communicator, as far as they can be taken then:
//
//   1. at the same call on all ranks: a nonblocking broadcast, of where the first rank's memory is
//   2. opens the shared record, and counts itself among those who have
//   3. all have opened it: a thread meets the others and makes smelt's communicator (async_rendezvous.hpp)
//   4. has its communicator: counts itself among those who are able
//
// From 2 on a rank notes, before each call, that it has come to that call. Who finds all of them able names the first
// call that is smelt's, one that nobody has come to (switch_point.hpp).
//
// A rank may take its time for step 2 or 3. Where it cannot take a step, nobody becomes able, and the calls stay the
// library's. The first call that may wait ends this: it settles the team as one without nonblocking calls
// (team_setup.cpp).
#pragma once


#include <memory>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/async_rendezvous.hpp"
#include "shims/mpi/server_selection.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct MpiTeam;
struct SharedAgreement;

class Agreement {
 public:
  /// Step 1.
  explicit Agreement(MpiTeam& team) noexcept;
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;
  /// On all ranks, though at different times; may wait for the first rank to have begun.
  ~Agreement();

  /// Of the call that this rank comes to: whether it is smelt's. Then the team is ready, and this is over.
  bool ours(int call) noexcept;

 private:
  enum class Step { asked, opened, rendezvous, able, lost };
  struct AgreementOffer {
    std::uint64_t machine;
    MemoryHandle shared, memory;
    int before_race;  ///< calls_before_race() of the first rank, which counts for all
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
