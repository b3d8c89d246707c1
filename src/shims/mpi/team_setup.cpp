// Settling a team: who shares a machine, a communicator of smelt for each machine, and one vote at the end.
//
// Rule: every rank goes through the same collectives of the library whatever fails on it; only then do all ranks
// decide, by one allreduce. Ranks of a machine find each other by MPI_COMM_TYPE_SHARED, by the machine's name in
// SMELT_MPI_MACHINE, and whether they can open the leader's memory, an unnamed file under /proc/<pid>/fd: so
// nothing is left behind however they end.
#include <fcntl.h>
#include <sched.h>
#include <smelt/smelt.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>

#include "shims/mpi/follow.hpp"
#include "shims/mpi/operation.hpp"
#include "shims/mpi/original.hpp"
#include "shims/mpi/progress.hpp"
#include "shims/mpi/team.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi {
namespace {

/// What a rank tells those that may share its machine.
struct Card {
  std::uint64_t machine;  ///< hash of SMELT_MPI_MACHINE
  cpu_set_t cpus;         ///< that it may use
};

/// What the first rank of a machine tells the others: where its memory is, and how to know it.
struct Invitation {
  int pid = 0;
  int fd = -1;
  char name[48] = {};
};

class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

Card own_card() noexcept {
  Card card;
  std::memset(&card, 0, sizeof card);
  const char* name = std::getenv("SMELT_MPI_MACHINE");
  card.machine = std::hash<std::string_view>{}(name != nullptr ? name : "");
  CPU_ZERO(&card.cpus);
  (void)sched_getaffinity(0, sizeof card.cpus, &card.cpus);
  return card;
}

int create_memory(Invitation& invitation) noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::snprintf(invitation.name, sizeof invitation.name, "smelt-mpi-%d-%llx", static_cast<int>(getpid()),
                static_cast<unsigned long long>(now));
  const int fd = memfd_create(invitation.name, MFD_CLOEXEC);
  invitation.pid = getpid();
  invitation.fd = fd;
  return fd;
}

/// The leader's memory; -1 if it cannot be had here.
int open_memory(const Invitation& invitation) noexcept {
  if (invitation.fd < 0) return -1;
  char path[64], target[128] = {};
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", invitation.pid, invitation.fd);
  // A process with that number that is another one has no file of that name.
  if (readlink(path, target, sizeof target - 1) < 0 || std::strstr(target, invitation.name) == nullptr) return -1;
  return ::open(path, O_RDWR | O_CLOEXEC);
}

/// Where ranks are that have been bound: for each a PU that it may use, shared as little as possible. Empty where
/// all may run on the same PUs: then smelt spreads them.
std::vector<int> places_of(const std::vector<Card>& cards) {
  const bool bound = std::any_of(cards.begin(), cards.end(),
                                 [&](const Card& card) { return CPU_EQUAL(&card.cpus, &cards[0].cpus) == 0; });
  const bool one = CPU_COUNT(&cards[0].cpus) == 1;
  std::vector<int> places, used(CPU_SETSIZE, 0);
  if (!bound && !one) return places;
  for (const Card& card : cards) {
    int best = -1;
    for (int pu = 0; pu < CPU_SETSIZE; ++pu) {
      if (CPU_ISSET(pu, &card.cpus) == 0) continue;
      if (best < 0 || used[static_cast<std::size_t>(pu)] < used[static_cast<std::size_t>(best)]) best = pu;
    }
    if (best < 0) return {};
    ++used[static_cast<std::size_t>(best)];
    places.push_back(best);
  }
  return places;
}

/// The communicator of a machine's ranks. The meeting has a thread of its own, while this one keeps the library
/// going: a rank that has not come yet may wait for that.
void meet(Team& team, int fd, const std::vector<int>& places) {
  smelt_options options{};
  options.keep_affinity = 1;
  options.any_thread = 1;
  options.idle = make_progress;
  options.pus = places.empty() ? nullptr : places.data();
  options.pu_count = places.size();
  prepare_progress();
  std::atomic<bool> over{false};
  int status = SMELT_IO_ERROR;
  std::thread meeting([&] {
    status = smelt_communicator_create_shared_fd(fd, team.local_size, &team.local_rank, 1, &options,
                                                 &team.communicator);
    over.store(true, std::memory_order_release);  // pairs with the load below; join() orders the rest
  });
  while (!over.load(std::memory_order_acquire)) {
    make_progress(nullptr);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  meeting.join();
  if (status == SMELT_OK) (void)smelt_communicator_attach(team.communicator, team.local_rank, &team.local);
}

/// Fills in who is where. `leader`: this machine's first rank.
void survey(Team& team, int leader) {
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
    for (int rank = 0; rank < team.size; ++rank) {
      if (team.machine_of[static_cast<std::size_t>(rank)] == machine) team.by_machine.push_back(rank);
    }
  }
  team.in_blocks = std::is_sorted(team.by_machine.begin(), team.by_machine.end());
}

/// The ranks of comm that share this one's machine, as a communicator of the library, in the order of comm.
MPI_Comm find_neighbours(Team& team, std::vector<Card>& cards) {
  MPI_Comm shared = MPI_COMM_NULL, neighbours = MPI_COMM_NULL;
  PMPI_Comm_split_type(team.comm, MPI_COMM_TYPE_SHARED, team.rank, MPI_INFO_NULL, &shared);
  const Card own = own_card();
  int size = 0;
  PMPI_Comm_size(shared, &size);
  cards.resize(static_cast<std::size_t>(size));
  original.Allgather(&own, sizeof own, MPI_BYTE, cards.data(), sizeof own, MPI_BYTE, shared);
  int color = 0;  // the first rank with the same name
  while (cards[static_cast<std::size_t>(color)].machine != own.machine) ++color;
  PMPI_Comm_split(shared, color, team.rank, &neighbours);
  PMPI_Comm_free(&shared);
  std::erase_if(cards, [&](const Card& card) { return card.machine != own.machine; });
  return neighbours;
}

bool enabled() noexcept { return !switched_off("SMELT_MPI"); }

/// Of one machine's ranks, all of which call. Whether this one got what it needs.
bool connect(Team& team, const std::vector<Card>& cards) {
  (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // where Yama is strict: neighbours read long messages
  Invitation invitation;
  const Descriptor created(team.leads() ? create_memory(invitation) : -1);
  original.Bcast(&invitation, sizeof invitation, MPI_BYTE, 0, team.neighbours);
  const Descriptor opened(team.leads() ? -1 : open_memory(invitation));
  int able = (team.leads() ? invitation.fd : opened.get()) >= 0 && enabled() ? 1 : 0, all = 0;
  original.Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, team.neighbours);
  if (all == 0) return false;
  try {
    meet(team, team.leads() ? created.get() : opened.get(), places_of(cards));
  } catch (const std::system_error&) {  // no thread
  }
  return team.local != nullptr;
}

}  // namespace

void settle(Team& team) noexcept {
  team.why = "a communicator that smelt could not be built for";
  enum { able, lonely, counting, followed, answers };
  int mine[answers] = {}, all[answers] = {};
  try {
    std::vector<Card> cards;
    team.neighbours = find_neighbours(team, cards);
    PMPI_Comm_rank(team.neighbours, &team.local_rank);
    PMPI_Comm_size(team.neighbours, &team.local_size);
    int leader = team.rank;
    original.Bcast(&leader, 1, MPI_INT, 0, team.neighbours);
    survey(team, leader);
    const bool alone = team.local_size == 1;
    mine[able] = alone ? enabled() : connect(team, cards);
    mine[lonely] = alone ? 1 : 0;
    mine[counting] = verbose() ? 1 : 0;
    mine[followed] = mine[able] != 0 && follow_library(advance_flights) ? 1 : 0;
    if (team.machines > 1) PMPI_Comm_split(team.comm, team.leads() ? 0 : MPI_UNDEFINED, team.rank, &team.leaders);
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

}  // namespace smelt::shims::mpi
