// Runs inside a virtual machine whose NUMA layout is on the kernel's command line, and checks that
// smelt finds that layout, pins to it, places memory in it, and communicates across it.
// PUs are dealt to NUMA nodes and packages in order, SMT siblings are neighbours (run_guest.sh).
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "comm/collective/collective_check.hpp"
#include "comm/collective/communicator_state.hpp"
#include "comm/collective/endpoint.hpp"
#include "comm/collective/forked_ranks.hpp"
#include "smelt/channel.hpp"
#include "smelt/communicator.hpp"
#include "smelt/machine.hpp"
#include "tune/tuner_team.hpp"

namespace {

// What the virtual machine was started with.
struct Layout {
  int packages = 0, numa_nodes = 0, cores = 0, smt = 0, mb = 0;

  int pus() const { return packages * cores * smt; }
  int node_of(int pu) const { return pu / (pus() / numa_nodes); }
  int package_of(int pu) const { return pu / (cores * smt); }
  int core_of(int pu) const { return pu / smt; }
};

const Layout& layout() {
  static const Layout value = [] {
    std::map<std::string, int> given;
    std::ifstream in("/proc/cmdline");
    for (std::string word; in >> word;) {
      const auto equals = word.find('=');
      if (equals != std::string::npos) given[word.substr(0, equals)] = std::atoi(word.c_str() + equals + 1);
    }
    return Layout{given["packages"], given["numa_nodes"], given["cores"], given["smt"], given["mb"]};
  }();
  return value;
}

smelt::Machine discovered() {
  auto machine = smelt::discover_machine();
  if (!machine) {
    ADD_FAILURE() << machine.error().message;
    return {};
  }
  return *machine;
}

// The discovered machine with costs that grow with the distance in the layout.
smelt::Machine with_costs() {
  auto machine = discovered();
  const auto n = machine.size();
  machine.send_ns = machine.recv_ns = smelt::Matrix(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const auto &a = machine.pus[i], &b = machine.pus[j];
      const double distance = a.core == b.core ? 1 : a.numa_node == b.numa_node ? 2 : a.package == b.package ? 4 : 8;
      machine.send_ns(i, j) = 10 * distance;
      machine.recv_ns(i, j) = 30 * distance;
    }
  }
  machine.method = "assumed";
  return machine;
}

// NUMA node of the page at `address`, as the kernel tells; negative if it is not there.
int node_of_page(void* address) {
  int status = -1;
  if (syscall(SYS_move_pages, 0, 1ul, &address, nullptr, &status, 0) != 0) return -1000;
  return status;
}

// Mappings of this process with a memory policy for one NUMA node: that node, and how many pages of
// the mapping lie on each node.
struct PlacedMapping {
  int wanted = -1;
  std::map<int, long> pages;
};

std::vector<PlacedMapping> placed_mappings() {
  std::vector<PlacedMapping> placed;
  std::ifstream in("/proc/self/numa_maps");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string address, policy;
    words >> address >> policy;
    const auto colon = policy.find(':');
    if (colon == std::string::npos || policy.find('=') != std::string::npos) continue;
    PlacedMapping mapping;
    mapping.wanted = std::atoi(policy.c_str() + colon + 1);
    for (std::string word; words >> word;) {
      int node;
      long pages;
      if (std::sscanf(word.c_str(), "N%d=%ld", &node, &pages) == 2) mapping.pages[node] = pages;
    }
    placed.push_back(mapping);
  }
  return placed;
}

void expect_all_pages_as_wanted(const std::vector<PlacedMapping>& placed) {
  for (const auto& mapping : placed) {
    for (const auto& [node, pages] : mapping.pages) {
      EXPECT_EQ(node, mapping.wanted) << pages << " pages of a mapping for NUMA node " << mapping.wanted;
    }
  }
}

std::set<int> nodes_with_pages(const std::vector<PlacedMapping>& placed) {
  std::set<int> nodes;
  for (const auto& mapping : placed) {
    for (const auto& [node, pages] : mapping.pages) nodes.insert(node);
  }
  return nodes;
}

TEST(Guest, TheVirtualMachineIsAsOrdered) {
  ASSERT_GT(layout().pus(), 0);
  for (int node = 0; node < layout().numa_nodes; ++node) {
    std::ifstream in("/sys/devices/system/node/node" + std::to_string(node) + "/distance");
    for (int other = 0; other < layout().numa_nodes; ++other) {
      int distance = 0;
      in >> distance;
      const int per_package = layout().numa_nodes / layout().packages;
      EXPECT_EQ(distance, node == other ? 10 : node / per_package == other / per_package ? 16 : 21);
    }
  }
}

TEST(Guest, DiscoveryFindsPackagesNumaNodesCoresAndSmtSiblings) {
  const auto machine = discovered();
  ASSERT_EQ(machine.size(), static_cast<std::size_t>(layout().pus()));
  ASSERT_EQ(machine.numa_nodes.size(), static_cast<std::size_t>(layout().numa_nodes));
  std::set<int> packages, cores;
  for (const auto& a : machine.pus) {
    packages.insert(a.package);
    cores.insert(a.core);
    ASSERT_GE(a.numa_node, 0);
    ASSERT_LT(a.numa_node, layout().numa_nodes);
    EXPECT_EQ(machine.numa_nodes[static_cast<std::size_t>(a.numa_node)].os_index, layout().node_of(a.os_index));
    for (const auto& b : machine.pus) {
      EXPECT_EQ(a.package == b.package, layout().package_of(a.os_index) == layout().package_of(b.os_index));
      EXPECT_EQ(a.core == b.core, layout().core_of(a.os_index) == layout().core_of(b.os_index));
    }
  }
  EXPECT_EQ(packages.size(), static_cast<std::size_t>(layout().packages));
  EXPECT_EQ(cores.size(), static_cast<std::size_t>(layout().packages * layout().cores));
  for (std::size_t i = 1; i < machine.size(); ++i) EXPECT_LT(machine.pus[i - 1].os_index, machine.pus[i].os_index);
}

TEST(Guest, DiscoveryFindsTheMemoryOfEachNumaNode) {
  const double ordered = layout().mb * 1048576.0;  // the kernel keeps some of it for itself
  for (const auto& node : discovered().numa_nodes) {
    EXPECT_GT(static_cast<double>(node.memory_bytes), 0.7 * ordered) << "NUMA node " << node.os_index;
    EXPECT_LE(static_cast<double>(node.memory_bytes), ordered) << "NUMA node " << node.os_index;
  }
}

TEST(Guest, AllowanceFollowsTheAffinityMask) {
  std::thread([] {
    auto all = smelt::discover_allowance();
    ASSERT_TRUE(all) << all.error().message;
    std::vector<int> expected(static_cast<std::size_t>(layout().pus()));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all->pus, expected);
    EXPECT_EQ(all->cpu_quota, 0.0);
    EXPECT_EQ(all->parallelism(), layout().pus());
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(1, &mask);
    CPU_SET(layout().pus() - 1, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    auto two = smelt::discover_allowance();
    ASSERT_TRUE(two) << two.error().message;
    EXPECT_EQ(two->pus, (std::vector<int>{1, layout().pus() - 1}));
    EXPECT_EQ(two->parallelism(), 2);
  }).join();
}

TEST(Guest, DefaultGroupTakesOneRankPerCoreThenSiblings) {
  const auto machine = discovered();
  auto allowance = smelt::discover_allowance();
  ASSERT_TRUE(allowance);
  auto group = smelt::default_group(machine, *allowance);
  ASSERT_TRUE(group) << group.error().message;
  std::set<int> cores;
  for (int pu : group->pus) cores.insert(machine.pus[static_cast<std::size_t>(pu)].core);
  EXPECT_EQ(group->size(), layout().packages * layout().cores);
  EXPECT_EQ(cores.size(), group->pus.size());
  auto every_pu = smelt::default_group(machine, *allowance, layout().pus());
  ASSERT_TRUE(every_pu) << every_pu.error().message;
  EXPECT_EQ(std::set<int>(every_pu->pus.begin(), every_pu->pus.end()).size(), machine.size());
}

TEST(Guest, PinningPutsAThreadOnEachPu) {
  for (int pu = layout().pus() - 1; pu >= 0; --pu) {
    std::thread([pu] {
      auto pinned = smelt::pin_this_thread(pu);
      ASSERT_TRUE(pinned) << pinned.error().message;
      EXPECT_EQ(sched_getcpu(), pu);
      cpu_set_t mask;
      ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
      EXPECT_EQ(CPU_COUNT(&mask), 1);
      EXPECT_TRUE(CPU_ISSET(pu, &mask));
    }).join();
  }
  EXPECT_FALSE(smelt::pin_this_thread(layout().pus()));
}

// Sends messages all around the ring, so that every line of the channel has been written.
void fill(smelt::Channel& channel) {
  auto sender = channel.sender();
  auto receiver = channel.receiver();
  ASSERT_TRUE(sender) << sender.error().message;
  ASSERT_TRUE(receiver) << receiver.error().message;
  for (std::uint64_t i = 0; i < 2 * channel.capacity(); ++i) {
    std::uint64_t got = 0;
    ASSERT_EQ(sender->send(&i, sizeof i), smelt::Status::ok);
    ASSERT_EQ(receiver->recv(&got, sizeof got), smelt::Status::ok);
    ASSERT_EQ(got, i);
  }
}

TEST(Guest, ChannelMemoryLiesOnTheNumaNodeAskedFor) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const auto transport : {smelt::Transport::ump, smelt::Transport::fastforward}) {
    for (int node = 0; node < layout().numa_nodes; ++node) {
      smelt::ChannelOptions options;
      options.transport = transport;
      options.numa_node = node;
      auto channel = smelt::Channel::create_memfd(options);
      ASSERT_TRUE(channel) << channel.error().message;
      fill(*channel);
      const auto bytes = static_cast<std::size_t>(lseek(channel->fd(), 0, SEEK_END));
      ASSERT_GE(bytes, options.capacity * 64u);
      auto* memory = static_cast<char*>(mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, channel->fd(), 0));
      ASSERT_NE(memory, MAP_FAILED);
      for (std::size_t at = 0; at < bytes; at += page) EXPECT_EQ(node_of_page(memory + at), node) << "byte " << at;
      munmap(memory, bytes);
    }
  }
}

TEST(Guest, AnonymousAndNamedChannelMemoryLiesOnTheNumaNodeAskedFor) {
  for (int node = 0; node < layout().numa_nodes; ++node) {
    ASSERT_TRUE(placed_mappings().empty());
    smelt::ChannelOptions options;
    options.numa_node = node;
    for (const bool named : {false, true}) {
      auto channel = named ? smelt::Channel::create_named("/guest", options) : smelt::Channel::create(options);
      ASSERT_TRUE(channel) << channel.error().message;
      if (named) shm_unlink("/guest");
      fill(*channel);
      expect_all_pages_as_wanted(placed_mappings());
      EXPECT_EQ(nodes_with_pages(placed_mappings()), std::set<int>{node});
    }
  }
  smelt::ChannelOptions nowhere;
  nowhere.numa_node = layout().numa_nodes;
  EXPECT_FALSE(smelt::Channel::create(nowhere));
}

// Every collective, from and to every root, with results that depend on each rank's part.
void use_all_collectives(smelt::Rank& rank) {
  const int n = rank.size(), me = rank.rank();
  using smelt::Status;
  ASSERT_EQ(rank.barrier(), Status::ok);
  for (int root = 0; root < n; ++root) {
    std::vector<std::uint32_t> text(100);
    for (std::size_t i = 0; i < text.size(); ++i)
      text[i] = me == root ? static_cast<std::uint32_t>(1000 * root + i) : 0;
    ASSERT_EQ(rank.broadcast(text.data(), text.size() * sizeof text[0], root), Status::ok);
    for (std::size_t i = 0; i < text.size(); ++i) ASSERT_EQ(text[i], 1000 * root + i);

    const std::int64_t mine[2] = {me + 1, 1 << me};
    std::int64_t total[2] = {-1, -1};
    ASSERT_EQ(rank.reduce(mine, total, 2, smelt::sum<std::int64_t>(), root), Status::ok);
    EXPECT_EQ(total[0], me == root ? n * (n + 1) / 2 : -1);
    EXPECT_EQ(total[1], me == root ? (1 << n) - 1 : -1);

    for (const int refuser : {-1, n / 2}) {
      int proposal = me == root ? 42 + root : 0;
      struct Voter {
        bool yes;
        int seen;
      } voter{me != refuser, 0};
      const auto vote = [](const void* proposed, void* context) {
        auto* self = static_cast<Voter*>(context);
        self->seen = *static_cast<const int*>(proposed);
        return self->yes;
      };
      bool committed = refuser >= 0;
      ASSERT_EQ(rank.two_phase_commit(&proposal, sizeof proposal, vote, &voter, &committed, root), Status::ok);
      EXPECT_EQ(voter.seen, 42 + root);
      EXPECT_EQ(committed, refuser < 0);
    }
  }
  const double part = me + 0.5;
  double low = 0, high = 0;
  ASSERT_EQ(rank.allreduce(&part, &low, 1, smelt::minimum<double>()), Status::ok);
  ASSERT_EQ(rank.allreduce(&part, &high, 1, smelt::maximum<double>()), Status::ok);
  EXPECT_EQ(low, 0.5);
  EXPECT_EQ(high, n - 0.5);
}

// Runs f on a communicator of the PUs; every rank must be on its PU.
void run_on(const smelt::Machine& machine, const smelt::Group& group, const smelt::CommunicatorOptions& options,
            const std::function<void(smelt::Rank&)>& f) {
  auto communicator = smelt::Communicator::create(machine, group, options);
  ASSERT_TRUE(communicator) << communicator.error().message;
  auto ran = communicator->run([&](smelt::Rank& rank) {
    const auto pu = static_cast<std::size_t>(group.pus[static_cast<std::size_t>(rank.rank())]);
    EXPECT_EQ(sched_getcpu(), machine.pus[pu].os_index);
    f(rank);
  });
  EXPECT_TRUE(ran) << ran.error().message;
}

// Every operation in lengths that take messages of lines, stages and single copies.
std::vector<smelt::test::Case> cases_for(int ranks) {
  std::vector<smelt::test::Case> cases;
  for (const auto operation : smelt::test::all_operations()) {
    for (const std::size_t count : {5, 300, 6000}) {
      smelt::test::Case one{.operation = operation, .count = count};
      one.root = static_cast<int>(cases.size()) % ranks;
      one.sync = count == 300 ? smelt::Sync::strict : smelt::Sync::loose;
      one.irregular = count == 300 && smelt::has_rank_blocks(operation);
      one.reduction = count == 5 ? smelt::test::matrix_product() : smelt::sum<std::uint64_t>();
      cases.push_back(one);
    }
  }
  return cases;
}

// "" if all cases are right on this rank.
std::string problem_with(smelt::Rank& rank, const std::vector<smelt::test::Case>& cases) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::string problem;
    smelt::test::CollectiveCheck checked(cases[i], rank.size(), rank.rank(), i + 1);
    if (!checked.run(rank, problem)) return smelt::test::describe(cases[i]) + ": " + problem;
  }
  return "";
}

// The rank's part of the communicator's memory: "" if all pages that are there, and there are some, lie on the NUMA
// node of the rank's PU.
std::string misplaced_pages(smelt::Rank& rank) {
  const auto& state = smelt::comm::TunerAccess::endpoint(rank).state();
  const auto& pu = state.machine.pus[static_cast<std::size_t>(state.group.pus[static_cast<std::size_t>(rank.rank())])];
  const int wanted = layout().node_of(pu.os_index);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::map<int, int> pages;  // per node
  for (std::size_t at = 0; at < state.layout.part_bytes(); at += page) {
    const int node = node_of_page(state.layout.part(rank.rank()) + at);
    if (node != -ENOENT) ++pages[node];
  }
  if (pages.size() == 1 && pages.begin()->first == wanted) return "";
  std::ostringstream text;
  text << "pages of rank " << rank.rank() << ", NUMA node " << wanted << ":";
  for (const auto& [node, count] : pages) text << " " << count << " on " << node;
  return text.str();
}

TEST(Guest, CommunicatorMemoryLiesWhereItsRanksAre) {
  const auto machine = with_costs();
  const auto group = smelt::whole_machine(machine);
  ASSERT_TRUE(placed_mappings().empty());
  run_on(machine, group, {}, [](smelt::Rank& rank) {
    use_all_collectives(rank);
    EXPECT_EQ(problem_with(rank, cases_for(rank.size())), "");
    EXPECT_EQ(misplaced_pages(rank), "");
    rank.barrier();
    if (rank.rank() == 0) {
      std::set<int> all;
      for (int node = 0; node < layout().numa_nodes; ++node) all.insert(node);
      expect_all_pages_as_wanted(placed_mappings());
      EXPECT_EQ(nodes_with_pages(placed_mappings()), all);
    }
    rank.barrier();
  });
}

TEST(Guest, SchedulesAreRightAcrossNumaNodes) {
  const auto machine = with_costs();
  const auto group = smelt::whole_machine(machine);
  for (const auto* algorithm :
       {"broadcast_pipeline+staged", "broadcast_tree+direct+tree=adaptive+chunk=16384", "allreduce_hybrid+staged",
        "allreduce_slices+staged", "allreduce_slices+direct", "allreduce_ring", "alltoall_pairwise"}) {
    SCOPED_TRACE(algorithm);
    const auto recipe = smelt::parse_recipe(algorithm);
    ASSERT_TRUE(recipe) << recipe.error().message;
    smelt::CommunicatorOptions options;
    options.algorithm = algorithm;
    options.search_ms = 0;
    auto cases = cases_for(group.size());
    const std::string name = recipe->algorithm;
    std::erase_if(cases,
                  [&](const auto& one) { return !name.starts_with(std::string(to_string(one.operation)) + "_"); });
    run_on(machine, group, options, [&](smelt::Rank& rank) { EXPECT_EQ(problem_with(rank, cases), ""); });
  }
}

// Forks a process per core, each a rank; `body` must return "" in each. `victim`: a rank that dies in it, or -1.
void expect_in_processes(int victim, const std::function<std::string(smelt::Rank&)>& body) {
  const auto name = smelt::test::fresh_name();
  const int ranks = layout().packages * layout().cores;
  const auto pids = smelt::test::fork_ranks(ranks, [&](int rank) {
    const int mine[] = {rank};
    smelt::CommunicatorOptions options;
    options.search_ms = 0;
    auto communicator = smelt::Communicator::create_shared(name, ranks, mine, options);
    auto attached = communicator ? communicator->attach(rank) : communicator.error();
    const std::string problem = attached ? body(*attached) : attached.error().message;
    if (!problem.empty()) std::printf("rank %d: %s\n", rank, problem.c_str());
    std::fflush(stdout);
    return problem.empty() ? 0 : 1;
  });
  std::vector<int> wanted(static_cast<std::size_t>(ranks), 0);
  if (victim >= 0) wanted[static_cast<std::size_t>(victim)] = -SIGKILL;
  EXPECT_EQ(smelt::test::wait_for(pids), wanted);
  EXPECT_TRUE(std::filesystem::is_empty("/dev/shm"));
}

TEST(Guest, ProcessesCommunicateAcrossNumaNodesAndTheirMemoryLiesWhereTheyAre) {
  expect_in_processes(-1, [](smelt::Rank& rank) {
    // Every process plans by itself, which takes seconds here: one length for most.
    auto cases = cases_for(rank.size());
    std::erase_if(cases, [](const auto& one) {
      return one.count != 6000 && one.operation != smelt::Operation::allreduce &&
             one.operation != smelt::Operation::gather;
    });
    const std::string problem = problem_with(rank, cases);
    return problem.empty() ? misplaced_pages(rank) : problem;
  });
}

TEST(Guest, SurvivorsOfAProcessOnAnotherNumaNodeGoOn) {
  const int victim = layout().packages * layout().cores - 2;
  expect_in_processes(victim, [victim](smelt::Rank& rank) -> std::string {
    rank.barrier();
    if (rank.rank() == victim) raise(SIGKILL);
    if (rank.barrier() != smelt::Status::broken) return "nobody noticed";
    auto survivor = rank.shrink();
    if (!survivor) return survivor.error().message;
    auto cases = cases_for(survivor->size());
    cases.resize(3);
    const std::string problem = problem_with(*survivor, cases);
    return problem.empty() ? misplaced_pages(*survivor) : problem;
  });
}

TEST(Guest, CollectivesAreRightOnEveryKindOfTree) {
  const auto machine = with_costs();
  const auto group = smelt::whole_machine(machine);
  for (const auto* topology : {"best", "sequential", "binary", "cluster", "adaptive-optimized"}) {
    SCOPED_TRACE(topology);
    smelt::CommunicatorOptions options;
    options.topology = topology;
    run_on(machine, group, options, use_all_collectives);
  }
}

TEST(Guest, NoRankLeavesABarrierBeforeAllHaveEntered) {
  const auto machine = with_costs();
  const auto group = smelt::whole_machine(machine);
  for (const auto* barrier : {"tree", "dissemination", "flat"}) {
    SCOPED_TRACE(barrier);
    smelt::CommunicatorOptions options;
    options.barrier = barrier;
    std::atomic<int> entered{0};
    run_on(machine, group, options, [&](smelt::Rank& rank) {
      for (int round = 1; round <= 20; ++round) {
        entered.fetch_add(1, std::memory_order_relaxed);
        ASSERT_EQ(rank.barrier(), smelt::Status::ok);
        ASSERT_GE(entered.load(std::memory_order_relaxed), round * rank.size());
      }
    });
  }
}

TEST(Guest, SubgroupsPerNumaNodeAndAcrossThem) {
  const auto machine = with_costs();
  run_on(machine, smelt::whole_machine(machine), {}, [&](smelt::Rank& rank) {
    const int per_node = rank.size() / layout().numa_nodes, me = rank.rank();
    std::vector<int> neighbours, across;
    for (int other = 0; other < rank.size(); ++other) {
      if (other / per_node == me / per_node) neighbours.push_back(other);
      if (other % per_node == me % per_node) across.insert(across.begin(), other);
    }
    for (const auto& members : {neighbours, across}) {
      auto subgroup = rank.subgroup(members);
      ASSERT_TRUE(subgroup) << subgroup.error().message;
      ASSERT_EQ(subgroup->size(), static_cast<int>(members.size()));
      ASSERT_EQ(members[static_cast<std::size_t>(subgroup->rank())], me);
      use_all_collectives(*subgroup);
      const int mine = me;
      int total = 0;
      ASSERT_EQ(subgroup->allreduce(&mine, &total, 1, smelt::sum<int>()), smelt::Status::ok);
      EXPECT_EQ(total, std::accumulate(members.begin(), members.end(), 0));
    }
    use_all_collectives(rank);
  });
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto& l = layout();
  std::printf("%d packages, %d NUMA nodes, %d cores per package, %d PUs per core, %d MB per NUMA node\n", l.packages,
              l.numa_nodes, l.cores, l.smt, l.mb);
  return RUN_ALL_TESTS();
}
