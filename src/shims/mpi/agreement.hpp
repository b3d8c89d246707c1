// Agreement: how a team settles by calls that may not wait for other ranks, MPI_Ibcast and its like.
//
// All ranks have to go over to smelt at the same call, without any of them ever waiting to hear from the others. The
// place to agree without waiting is memory that all of them see, a ballot. Each rank takes these steps when it calls a
// collective on the communicator, as far as they can be taken then:
//
//   1. at the same call on all ranks: a nonblocking broadcast, of where the first rank's memory is
//   2. opens the ballot, and counts itself among those who have
//   3. all have opened it: a thread meets the others and makes smelt's communicator (meeting.hpp)
//   4. has its communicator: counts itself among those who are able
//
// From 2 on a rank notes, before each call, that it has come to that call. Who finds all of them able names the first
// call that is smelt's, one that nobody has come to (onset.hpp).
//
// A rank may take its time for step 2 or 3. Where it cannot take a step, nobody becomes able, and the calls stay the
// library's. The first call that may wait ends this: it settles the team as one without nonblocking calls
// (team_setup.cpp).
#pragma once


#include <memory>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/meeting.hpp"
#include "shims/mpi/race.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct Team;
struct Ballot;

class Agreement {
 public:
  /// Step 1.
  explicit Agreement(Team& team) noexcept;
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;
  /// On all ranks, though at different times; may wait for the first rank to have begun.
  ~Agreement();

  /// Of the call that this rank comes to: whether it is smelt's. Then the team is ready, and this is over.
  bool ours(int call) noexcept;

 private:
  enum class Step { asked, opened, meeting, able, lost };
  struct Offer {
    std::uint64_t machine;
    Invitation ballot, memory;
    int before_race;  ///< calls_before_race() of the first rank, which counts for all
  };

  void advance(int call) noexcept;
  bool open(int call) noexcept;
  void meet() noexcept;
  bool become_able() noexcept;
  bool decided(int call) noexcept;
  void win() noexcept;

  Team& team_;
  const int first_;  ///< the call with step 1
  Step step_ = Step::asked;
  Offer offer_{};
  MPI_Request request_ = MPI_REQUEST_NULL;
  Descriptor ballot_file_, memory_;
  Ballot* ballot_ = nullptr;
  std::shared_ptr<Meeting> meeting_;
  std::unique_ptr<Race> race_;
  smelt_communicator* communicator_ = nullptr;
  smelt_rank* local_ = nullptr;
};

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
