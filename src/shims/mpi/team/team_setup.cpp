// Settling a team: groups the ranks by machine, creates a smelt communicator for each machine, and decides by one vote.
//
// Rule: every rank calls the same collectives of the library, whatever fails on it. Then all ranks decide by one
// allreduce. Ranks are on the same machine if own_rank_info() gives it the same name; then they must be able to open
// the leader's memory (async_rendezvous.hpp). On one machine no communicator of the library is created: with several
// threads that could wait for another thread's (communicators.hpp).
#include <smelt/smelt.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/nonblocking_operation.hpp"
#include "shims/mpi/pending/progress.hpp"
#include "shims/mpi/pending/progress_hook.hpp"
#include "shims/mpi/team/async_rendezvous.hpp"
#include "shims/mpi/team/communicators.hpp"
#include "shims/mpi/team/file_size.hpp"
#include "shims/mpi/team/team.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

/// Creates the communicator of a machine's ranks. Meanwhile this thread progresses the library.
void rendezvous(MpiTeam& team, int fd, const std::vector<int>& places) {
  const auto rendezvous = AsyncRendezvous::begin(fd, team.local_size, team.local_rank, places);
  while (!rendezvous->over()) {
    make_progress();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  (void)rendezvous->take(&team.communicator, &team.local);
}

/// Fills in the tables of ranks and machines. Collective.
void survey(MpiTeam& team) {
  const auto size = static_cast<std::size_t>(team.size);
  const std::uint64_t own = own_rank_info().machine;
  std::vector<std::uint64_t> names(size);
  original.Allgather(&own, sizeof own, MPI_BYTE, names.data(), sizeof own, MPI_BYTE, team.comm);
  team.machine_of.assign(size, 0);
  team.local_of.assign(size, 0);
  std::unordered_map<std::uint64_t, int> machines;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const auto next = static_cast<int>(team.machine_size.size());
    const auto [machine, is_new] = machines.emplace(names[rank], next);
    if (is_new) team.machine_size.push_back(0);
    team.machine_of[rank] = machine->second;
    team.local_of[rank] = team.machine_size[static_cast<std::size_t>(machine->second)]++;
  }
  team.machines = static_cast<int>(team.machine_size.size());
  team.machine = team.machine_of[static_cast<std::size_t>(team.rank)];
  team.local_rank = team.local_of[static_cast<std::size_t>(team.rank)];
  team.local_size = team.machine_size[static_cast<std::size_t>(team.machine)];
  for (int machine = 0; machine < team.machines; ++machine) {
    team.first_of.push_back(static_cast<int>(team.by_machine.size()));
    for (int rank = 0; rank < team.size; ++rank) {
      if (team.machine_of[static_cast<std::size_t>(rank)] == machine) team.by_machine.push_back(rank);
    }
  }
  team.first_of.push_back(team.size);
  team.in_blocks = std::is_sorted(team.by_machine.begin(), team.by_machine.end());
}

/// Creates the library's communicators that several machines need. Collective; the same result on all ranks.
bool link_machines(MpiTeam& team) {
  int able = may_create_communicators() ? 1 : 0, all = 0;
  original.Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, team.comm);
  if (all == 0) {
    team.why = "a communicator on several machines, where several threads call Open MPI";
    return false;
  }
  const Copy copy(team.comm);
  if (copy.get() == MPI_COMM_NULL) return false;  // no more communicators
  original.Comm_split(copy.get(), team.machine, team.rank, &team.neighbours);
  original.Comm_split(copy.get(), team.leads() ? 0 : MPI_UNDEFINED, team.rank, &team.leaders);
  return true;
}

/// The handles that the first rank of a machine sends to the others.
struct MachineOffer {
  MemoryHandle memory, race;
  int before_race = 0;  ///< calls_before_race(), the same for all
};

/// The files of an offer, as created by the first rank or opened by another one.
class OfferFiles {
 public:
  OfferFiles(MachineOffer& offer, bool leads, int ranks)
      : memory_(leads ? create_memory(offer.memory) : open_memory(offer.memory)),
        race_(leads ? create_memory(offer.race) : open_memory(offer.race)) {
    if (!leads) return;
    offer.before_race = calls_before_race();
    sized_ = race_.get() >= 0 && set_size(race_.get(), ServerSelection::bytes(ranks));
  }

  bool there() const {
    const auto [least, most] = std::minmax({memory_.get(), race_.get()});
    return least >= 0 && leaves_room(most) && sized_;
  }
  int memory() const { return memory_.get(); }
  int race() const { return race_.get(); }

 private:
  Descriptor memory_, race_;
  bool sized_ = true;
};

/// Collective over one machine's ranks. Returns whether this rank succeeded.
bool connect(MpiTeam& team) {
  const MPI_Comm here = team.machines > 1 ? team.neighbours : team.comm;
  const RankInfo own = own_rank_info();
  std::vector<RankInfo> infos(static_cast<std::size_t>(team.local_size));
  original.Allgather(&own, sizeof own, MPI_BYTE, infos.data(), sizeof own, MPI_BYTE, here);
  allow_reading();
  MachineOffer offer;
  std::optional<OfferFiles> files;
  if (team.leads()) files.emplace(offer, true, team.local_size);
  original.Bcast(&offer, sizeof offer, MPI_BYTE, 0, here);
  if (!team.leads()) files.emplace(offer, false, team.local_size);
  int able = files->there() && enabled() && knows_machine() ? 1 : 0, all = 0;
  original.Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, here);
  if (all == 0) return false;
  try {
    rendezvous(team, files->memory(), places_of(infos));
  } catch (const std::system_error&) {  // no thread
  }
  if (team.local == nullptr) return false;
  if (team.machines > 1 || offer.before_race == 0) return true;
  const auto before = static_cast<std::uint64_t>(offer.before_race);
  team.race = ServerSelection::open(files->race(), 0, team.local_size, team.local_rank, before);
  return team.race != nullptr;
}

}  // namespace

bool enabled() noexcept { return !switched_off("SMELT_MPI"); }

void settle(MpiTeam& team) noexcept {
  team.agreement.reset();
  team.why = "a communicator that smelt could not be built for";
  enum { able, lonely, counting, followed, answers };
  int mine[answers] = {}, all[answers] = {};
  try {
    survey(team);
    const bool alone = team.local_size == 1;
    const bool linked = team.machines == 1 || link_machines(team);
    mine[able] = linked && (alone ? enabled() : connect(team)) ? 1 : 0;
    mine[lonely] = alone ? 1 : 0;
    mine[counting] = verbose() ? 1 : 0;
    mine[followed] = mine[able] != 0 && follow_library(advance_pending) ? 1 : 0;
  } catch (const std::exception&) {
    mine[able] = 0;
  }
  original.Allreduce(mine, all, answers, MPI_INT, MPI_MIN, team.comm);
  team.sampling = all[counting] != 0;
  team.followed = all[followed] != 0;
  team.ready = all[able] != 0 && all[lonely] == 0;
  if (!team.ready || team.machines == 1) team.disconnect();
  if (!team.ready) team.detach();
  if (!enabled()) team.why = "SMELT_MPI=0";
  if (all[able] != 0 && all[lonely] != 0) team.why = "a communicator with one rank per machine";
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
