// Settling a team: groups the ranks by machine, creates a smelt communicator for each machine, and decides by one vote.
//
// Rule: every rank calls the same collectives of the library, whatever fails on it. Then all ranks decide by one
// allreduce. Ranks are on the same machine if they share MPI_COMM_TYPE_SHARED and the name in SMELT_MPI_MACHINE, and
// can open the leader's memory (async_rendezvous.hpp).
#include <smelt/smelt.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/nonblocking_operation.hpp"
#include "shims/mpi/pending/progress.hpp"
#include "shims/mpi/pending/progress_hook.hpp"
#include "shims/mpi/team/async_rendezvous.hpp"
#include "shims/mpi/team/communicators.hpp"
#include "shims/mpi/team/team.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

/// Creates the communicator of a machine's ranks. Meanwhile this thread progresses the library.
void rendezvous(MpiTeam& team, int fd, const std::vector<int>& places) {
  const auto rendezvous = AsyncRendezvous::begin(fd, team.local_size, team.local_rank, places);
  while (!rendezvous->over()) {
    make_progress(nullptr);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  (void)rendezvous->take(&team.communicator, &team.local);
}

/// Fills in the tables of ranks and machines. `leader`: this machine's first rank.
void survey(MpiTeam& team, int leader) {
  const auto size = static_cast<std::size_t>(team.size);
  std::vector<int> leader_of(size);
  original.Allgather(&leader, 1, MPI_INT, leader_of.data(), 1, MPI_INT, team.comm);
  team.machine_of.assign(size, 0);
  team.local_of.assign(size, 0);
  for (std::size_t rank = 0; rank < size; ++rank) {
    const auto first = static_cast<std::size_t>(leader_of[rank]);
    if (first == rank) {
      team.machine_of[rank] = static_cast<int>(team.machine_size.size());
      team.machine_size.push_back(0);
    }
    team.machine_of[rank] = team.machine_of[first];
    team.local_of[rank] = team.machine_size[static_cast<std::size_t>(team.machine_of[rank])]++;
  }
  team.machines = static_cast<int>(team.machine_size.size());
  team.machine = team.machine_of[static_cast<std::size_t>(team.rank)];
  for (int machine = 0; machine < team.machines; ++machine) {
    team.first_of.push_back(static_cast<int>(team.by_machine.size()));
    for (int rank = 0; rank < team.size; ++rank) {
      if (team.machine_of[static_cast<std::size_t>(rank)] == machine) team.by_machine.push_back(rank);
    }
  }
  team.first_of.push_back(team.size);
  team.in_blocks = std::is_sorted(team.by_machine.begin(), team.by_machine.end());
}

/// A communicator of the library for the ranks of `all` on this machine, in the order of the team.
MPI_Comm find_neighbours(const MpiTeam& team, MPI_Comm all, std::vector<RankInfo>& infos) {
  MPI_Comm shared = MPI_COMM_NULL, neighbours = MPI_COMM_NULL;
  original.Comm_split_type(all, MPI_COMM_TYPE_SHARED, team.rank, MPI_INFO_NULL, &shared);
  const RankInfo own = own_rank_info();
  int size = 0;
  original.Comm_size(shared, &size);
  infos.resize(static_cast<std::size_t>(size));
  original.Allgather(&own, sizeof own, MPI_BYTE, infos.data(), sizeof own, MPI_BYTE, shared);
  int color = 0;  // the first rank with the same name
  while (infos[static_cast<std::size_t>(color)].machine != own.machine) ++color;
  original.Comm_split(shared, color, team.rank, &neighbours);
  original.Comm_free(&shared);
  std::erase_if(infos, [&](const RankInfo& info) { return info.machine != own.machine; });
  return neighbours;
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
    sized_ = race_.get() >= 0 && ftruncate(race_.get(), static_cast<off_t>(ServerSelection::bytes(ranks))) == 0;
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
bool connect(MpiTeam& team, const std::vector<RankInfo>& infos) {
  allow_reading();
  MachineOffer offer;
  std::optional<OfferFiles> files;
  if (team.leads()) files.emplace(offer, true, team.local_size);
  original.Bcast(&offer, sizeof offer, MPI_BYTE, 0, team.neighbours);
  if (!team.leads()) files.emplace(offer, false, team.local_size);
  int able = files->there() && enabled() && knows_machine() ? 1 : 0, all = 0;
  original.Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, team.neighbours);
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
    const Copy copy(team.comm);
    if (copy.get() == MPI_COMM_NULL) throw std::bad_alloc();  // no more communicators, on all ranks alike
    std::vector<RankInfo> infos;
    team.neighbours = find_neighbours(team, copy.get(), infos);
    original.Comm_rank(team.neighbours, &team.local_rank);
    original.Comm_size(team.neighbours, &team.local_size);
    int leader = team.rank;
    original.Bcast(&leader, 1, MPI_INT, 0, team.neighbours);
    survey(team, leader);
    const bool alone = team.local_size == 1;
    mine[able] = alone ? enabled() : connect(team, infos);
    mine[lonely] = alone ? 1 : 0;
    mine[counting] = verbose() ? 1 : 0;
    mine[followed] = mine[able] != 0 && follow_library(advance_pending) ? 1 : 0;
    if (team.machines > 1) original.Comm_split(copy.get(), team.leads() ? 0 : MPI_UNDEFINED, team.rank, &team.leaders);
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
