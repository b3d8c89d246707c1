// Runs inside a virtual machine with several NUMA nodes (run_guest.sh), and checks page by page where placed arrays
// lie.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/collective/forked_ranks.hpp"
#include "machine/topology/numa.hpp"
#include "machine/topology/pages.hpp"
#include "memory/pages/cuts.hpp"
#include "shims/memory/filling.hpp"
#include "smelt/array.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

using testing::HasSubstr;

constexpr std::size_t mib = std::size_t{1} << 20;

int given(const std::string& key) {
  std::ifstream in("/proc/cmdline");
  for (std::string word; in >> word;) {
    if (word.rfind(key + "=", 0) == 0) return std::atoi(word.c_str() + key.size() + 1);
  }
  return 0;
}

/// os_index of the nodes of each kind, as the virtual machine was started.
std::vector<int> nodes_between(int first, int last) {
  std::vector<int> nodes(static_cast<std::size_t>(last - first));
  std::iota(nodes.begin(), nodes.end(), first);
  return nodes;
}
std::vector<int> homes() { return nodes_between(0, given("numa_nodes") - given("bare_nodes")); }
std::vector<int> bare() { return nodes_between(given("numa_nodes") - given("bare_nodes"), given("numa_nodes")); }
std::vector<int> memory_alone() {
  return nodes_between(given("numa_nodes"), given("numa_nodes") + given("memory_nodes"));
}

std::vector<int> pages_of(const void* memory, std::size_t bytes, std::size_t page = 4096) {
  const auto nodes = nodes_of_pages(memory, bytes, page);
  EXPECT_TRUE(nodes) << nodes.error().message;
  return nodes ? *nodes : std::vector<int>{};
}

template <class T>
std::vector<int> pages_of(const Array<T>& array, int copy = 0) {
  return pages_of(array.copy(copy).data(), array.size() * sizeof(T));
}

ArrayOptions strictly(Placement placement, PageSize pages = PageSize::base) {
  ArrayOptions options;
  options.placement = placement;
  options.pages = pages;
  options.strict = true;
  return options;
}

/// A PU of that node, pinned to by the calling thread for the scope's life.
void run_on_node(int node, const std::function<void()>& body) {
  const auto view = read_memory_view();
  const auto& pus = view.nodes[static_cast<std::size_t>(view.index_of(node))].pus;
  ASSERT_FALSE(pus.empty());
  std::thread([&] {
    ASSERT_TRUE(pin_this_thread(pus.front()));
    body();
  }).join();
}

TEST(MemoryGuest, NodesOfEachKindAreToldApart) {
  const auto view = read_memory_view();
  EXPECT_EQ(view.home_nodes(), homes());
  for (const int node : memory_alone()) {
    const auto& memory = view.nodes[static_cast<std::size_t>(view.index_of(node))];
    EXPECT_TRUE(memory.usable());
    EXPECT_TRUE(memory.pus.empty());
  }
  for (const int node : bare()) EXPECT_FALSE(view.nodes[static_cast<std::size_t>(view.index_of(node))].usable());
}

TEST(MemoryGuest, SingleNodeIsThatNode) {
  auto nodes = homes();
  for (const int node : memory_alone()) nodes.push_back(node);
  for (const int node : nodes) {
    for (const auto pages : {PageSize::base, PageSize::huge}) {
      auto options = strictly(Placement::single_node, pages);
      options.strict = pages == PageSize::base;
      options.numa_nodes = {node};
      auto array = Array<char>::create(8 * mib, options);
      ASSERT_TRUE(array) << array.error().message;
      for (const int page : pages_of(*array)) ASSERT_EQ(page, node);
      const auto where = array->where();
      ASSERT_TRUE(where);
      ASSERT_EQ(where->nodes.size(), 1u);
      EXPECT_EQ(where->nodes[0].numa_node, node);
      EXPECT_EQ(where->nodes[0].bytes, 8 * mib);
    }
  }
}

TEST(MemoryGuest, WithoutANameItIsTheThreadsOwn) {
  for (const int node : homes()) {
    run_on_node(node, [&] {
      auto array = Array<char>::create(mib, strictly(Placement::single_node));
      ASSERT_TRUE(array) << array.error().message;
      for (const int page : pages_of(*array)) ASSERT_EQ(page, node);
    });
  }
  for (const int node : bare()) {
    run_on_node(node, [&] {
      auto array = Array<char>::create(mib, strictly(Placement::single_node));
      ASSERT_TRUE(array) << array.error().message;
      EXPECT_NE(pages_of(*array).front(), node);
    });
  }
}

TEST(MemoryGuest, InterleavedPagesTakeTurns) {
  const auto nodes = homes();
  auto array = Array<char>::create(8 * mib + 4096, strictly(Placement::interleaved));
  ASSERT_TRUE(array) << array.error().message;
  const auto pages = pages_of(*array);
  for (std::size_t i = 0; i + 1 < pages.size(); ++i) {
    const auto at = std::find(nodes.begin(), nodes.end(), pages[i]);
    ASSERT_NE(at, nodes.end());
    const int next = at + 1 == nodes.end() ? nodes.front() : *(at + 1);
    ASSERT_EQ(pages[i + 1], next) << "page " << i + 1;
  }
}

TEST(MemoryGuest, PartsLieWithTheirOwnersUpToPageBoundaries) {
  const auto nodes = homes();
  auto options = strictly(Placement::partitioned);
  options.cuts = {0, 1000, 300'000, 777'777};
  auto array = Array<std::int32_t>::create(1'000'003, options);
  ASSERT_TRUE(array) << array.error().message;
  std::vector<int> owners;
  for (int part = 0; part < array->parts(); ++part) {
    owners.push_back(array->numa_node_of_part(part));
    EXPECT_EQ(owners.back(), nodes[static_cast<std::size_t>(part) % nodes.size()]);
  }
  const auto pages = pages_of(*array);
  for (const auto& run : memory::page_runs(options.cuts, owners, array->size(), 4, 4096)) {
    for (std::size_t at = run.first_byte; at < run.last_byte; at += 4096) ASSERT_EQ(pages[at / 4096], run.node) << at;
  }
}

TEST(MemoryGuest, EveryNodeHasItsReplicaAndFindsIt) {
  const auto nodes = homes();
  auto array = Array<int>::create(mib, strictly(Placement::replicated));
  ASSERT_TRUE(array) << array.error().message;
  ASSERT_EQ(array->copies(), static_cast<int>(nodes.size()));
  array->fill(42);
  for (int copy = 0; copy < array->copies(); ++copy) {
    for (const int page : pages_of(*array, copy)) ASSERT_EQ(page, nodes[static_cast<std::size_t>(copy)]);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    run_on_node(nodes[i], [&] {
      EXPECT_EQ(array->local().data(), array->copy(static_cast<int>(i)).data());
      EXPECT_EQ(array->local()[mib - 1], 42);
    });
  }
  for (const int node : bare()) run_on_node(node, [&] { EXPECT_EQ(array->local()[7], 42); });
}

/// One rank per node with PUs and memory.
Communicator rank_per_node() {
  const auto view = read_memory_view();
  auto machine = discover_machine();
  machine->send_ns = machine->recv_ns = Matrix(machine->size(), 50.0);
  Group group;
  for (std::size_t i = 0; i < machine->size(); ++i) machine->send_ns(i, i) = machine->recv_ns(i, i) = 0.0;
  for (const int node : homes()) {
    group.pus.push_back(machine->index_of(view.nodes[static_cast<std::size_t>(view.index_of(node))].pus.front()));
  }
  CommunicatorOptions options;
  options.search_ms = 0;
  options.profile = "none";
  auto communicator = Communicator::create(*machine, group, options);
  EXPECT_TRUE(communicator) << communicator.error().message;
  return *std::move(communicator);
}

TEST(MemoryGuest, RanksHaveTheirPartsAndReplicasAtHome) {
  const auto nodes = homes();
  auto communicator = rank_per_node();
  const int ranks = communicator.size();
  auto parts = Array<int>::create(mib, communicator, strictly(Placement::partitioned));
  auto replicas = Array<int>::create(10'000, communicator, strictly(Placement::writable_replicas));
  ASSERT_TRUE(parts && replicas);
  ASSERT_EQ(parts->parts(), ranks);
  ASSERT_TRUE(communicator.run([&](Rank& rank) {
    EXPECT_EQ(parts->numa_node_of_part(rank.rank()), nodes[static_cast<std::size_t>(rank.rank())]);
    const auto own = replicas->local();
    std::fill(own.begin(), own.end(), rank.rank() + 1);
    ASSERT_EQ(replicas->sync(rank, sum<int>()), Status::ok);
    EXPECT_EQ(own[9'999], ranks * (ranks + 1) / 2);
    const auto mine = static_part(own.size(), static_cast<std::size_t>(rank.rank()), static_cast<std::size_t>(ranks));
    std::fill_n(own.begin() + static_cast<std::ptrdiff_t>(mine.first), mine.size(), -rank.rank());
    ASSERT_EQ(replicas->publish(rank, mine), Status::ok);
    for (int other = 0; other < ranks; ++other) {
      const auto theirs = static_part(own.size(), static_cast<std::size_t>(other), static_cast<std::size_t>(ranks));
      ASSERT_EQ(own[theirs.first], -other);
      ASSERT_EQ(own[theirs.last - 1], -other);
    }
    rank.barrier();
  }));
  auto frames = PerThread<int>::create(communicator, 1);
  ASSERT_TRUE(frames);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(pages_of(&(*frames)[rank], sizeof(int)).front(), nodes[static_cast<std::size_t>(rank)]);
  }
}

TEST(MemoryGuest, BestFollowsHints) {
  ArrayOptions options;
  options.hints = {.access = AccessPattern::random, .read_only = true, .reads_per_element = 100, .phases = 100};
  auto table = Array<int>::create(4 * mib, options);
  ASSERT_TRUE(table);
  // Threads of a node without memory have no near copy: they are the slowest ones, with or without replicas.
  const auto expected = bare().empty() ? Placement::replicated : Placement::interleaved;
  EXPECT_EQ(table->placement(), homes().size() > 1 ? expected : Placement::single_node);
  options.hints = {.loop_index = true, .reads_per_element = 10};
  auto own = Array<int>::create(4 * mib, options);
  ASSERT_TRUE(own);
  EXPECT_EQ(own->placement(), homes().size() > 1 ? Placement::partitioned : Placement::single_node);
  // Not said to be read-only: never replicas, in whose copies writes would get lost.
  options.hints = {.access = AccessPattern::random, .reads_per_element = 100};
  auto written = Array<int>::create(4 * mib, options);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->copies(), 1);
}

TEST(MemoryGuest, AFullNodeIsAnErrorOrAFallbackAndNothingIsLeft) {
  const int node = homes().back();
  const auto free_before = read_memory_view().available_bytes(node);
  const std::size_t too_much = free_before + 8 * mib;
  auto options = strictly(Placement::single_node);
  options.numa_nodes = {node};
  options.name = "large";
  const auto strict = Array<char>::create(too_much, options);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().status, Status::out_of_memory);
  EXPECT_THAT(strict.error().message, HasSubstr("large: "));
  options.strict = false;
  if (homes().size() > 1) {
    auto elsewhere = Array<char>::create(too_much, options);
    ASSERT_TRUE(elsewhere) << elsewhere.error().message;
    const auto where = elsewhere->where();
    ASSERT_TRUE(where);
    EXPECT_GT(where->nodes.size(), 1u);
    EXPECT_EQ(where->absent_bytes, 0u);
    EXPECT_THAT(elsewhere->explain(), HasSubstr("some pages lie on other NUMA nodes"));
  }
  EXPECT_GT(read_memory_view().available_bytes(node) + 64 * mib, free_before);
}

/// What containers do: these system calls fail with EPERM.
void forbid(std::initializer_list<unsigned> calls) {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const unsigned call : calls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

TEST(MemoryGuest, WhereTheKernelRefusesThatIsSaid) {
  const pid_t child = fork();
  if (child == 0) {
    forbid({SYS_mbind, SYS_move_pages});
    auto options = strictly(Placement::interleaved);
    const auto strict = Array<char>::create(mib, options);
    if (strict || strict.error().status != Status::permission_denied) _exit(1);
    options.strict = false;
    auto wish = Array<char>::create(mib, options);
    if (!wish || wish->explain().find("placed by the threads that touch it first") == std::string::npos) _exit(2);
    (*wish)[mib - 1] = 1;
    const auto where = wish->where();
    if (where || where.error().status != Status::permission_denied) _exit(3);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

TEST(MemoryGuest, ProcessesFindTheirNodesReplicaAtOneAddress) {
  const auto nodes = homes();
  const int ranks = static_cast<int>(nodes.size());
  const auto name = test::fresh_name();
  const auto view = read_memory_view();
  const auto pids = test::fork_ranks(ranks, [&](int number) {
    const int node = nodes[static_cast<std::size_t>(number)];
    if (!pin_this_thread(view.nodes[static_cast<std::size_t>(view.index_of(node))].pus.front())) return 1;
    const int mine[] = {number};
    auto options = test::options_for();
    options.timeout_s = 200;
    options.search_ms = 0;
    auto communicator = Communicator::create_shared(name, ranks, mine, options);
    if (!communicator) return 2;
    auto rank = communicator->attach(number);
    if (!rank) return 3;
    auto array = Array<int>::create_shared(*rank, "replicas", mib, strictly(Placement::replicated));
    if (!array) {
      std::printf("rank %d: %s\n", number, array.error().message.c_str());
      return 4;
    }
    if (!array->same_address()) return 5;
    if (number == 0) array->fill(7);
    rank->barrier();
    std::uint64_t least = 0;
    const auto address = reinterpret_cast<std::uint64_t>(array->data());
    rank->allreduce(&address, &least, 1, minimum<std::uint64_t>());
    if (least != address) return 6;
    if (std::accumulate(array->begin(), array->end(), 0l) != 7l * static_cast<long>(mib)) return 7;
    for (const int page : pages_of(array->data(), mib * sizeof(int))) {
      if (page != node) return 8;
    }
    rank->barrier();
    return 0;
  });
  EXPECT_EQ(test::wait_for(pids), std::vector<int>(static_cast<std::size_t>(ranks), 0));
}

TEST(MemoryGuest, SharedPagesTakeTurns) {
  const auto nodes = homes();
  const int mine[] = {0};
  auto communicator_options = test::options_for();
  communicator_options.pin = false;
  auto communicator = Communicator::create_shared(test::fresh_name(), 1, mine, communicator_options);
  ASSERT_TRUE(communicator) << communicator.error().message;
  auto rank = communicator->attach(0);
  ASSERT_TRUE(rank) << rank.error().message;
  auto options = strictly(Placement::interleaved);
  options.numa_nodes = nodes;
  auto array = Array<char>::create_shared(*rank, "turns", 4 * mib, options);
  ASSERT_TRUE(array) << array.error().message;
  std::map<int, std::size_t> pages;
  for (const int page : pages_of(*array)) ++pages[page];
  for (const int node : nodes) {
    EXPECT_NEAR(static_cast<double>(pages[node]), 1024.0 / static_cast<double>(nodes.size()), 1.0);
  }
  EXPECT_EQ(std::count(array->begin(), array->end(), '\0'), static_cast<long>(4 * mib));
}

TEST(Shim, LargeAllocationsAreInterleaved) {
  const char* mode = std::getenv("SMELT_MEMORY");
  if (mode == nullptr || std::string(mode) != "interleave") GTEST_SKIP() << "without the preload library";
  auto* const memory = static_cast<char*>(std::malloc(64 * mib));
  for (std::size_t i = 0; i < 64 * mib; i += 4096) memory[i] = 1;
  std::map<int, std::size_t> counts;
  const auto aligned = (reinterpret_cast<std::uintptr_t>(memory) + 2 * mib) / (2 * mib) * (2 * mib);
  for (const int node : pages_of(reinterpret_cast<void*>(aligned), 60 * mib)) ++counts[node];
  ASSERT_EQ(counts.size(), homes().size());
  for (const auto& [node, count] : counts) EXPECT_EQ(count, 60 * mib / 4096 / homes().size()) << node;
  std::free(memory);
}

/// What the preload library fills in a thread's place lies on the node that it is told, wherever it runs itself.
TEST(MemoryGuest, PagesAreMadeResidentOnANode) {
  constexpr std::size_t huge = 2 * mib;
  namespace filling = shims::memory;
  for (const int node : homes()) {
    run_on_node(homes()[0], [node] {
      auto* const mapped =
          static_cast<std::byte*>(mmap(nullptr, 5 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      ASSERT_NE(mapped, MAP_FAILED);
      const auto address = (reinterpret_cast<std::uintptr_t>(mapped) + huge - 1) / huge * huge;
      auto* const memory = reinterpret_cast<std::byte*>(address);
      EXPECT_EQ(filling::node_of(memory, memory + huge, huge), -1);
      EXPECT_GT(filling::timed_populate_on(node, memory, memory + 2 * huge), 0);
      EXPECT_THAT(pages_of(memory, 2 * huge), testing::Each(node));
      EXPECT_EQ(filling::node_of(memory, memory + 2 * huge, huge), node);
      // The thread's own pages lie where they would have.
      memory[2 * huge] = std::byte{1};
      EXPECT_EQ(pages_of(memory + 2 * huge, 4096), std::vector<int>{homes()[0]});
      EXPECT_EQ(filling::node_of(memory, memory + 3 * huge, huge), node == homes()[0] ? node : -1);
      // Not where the thread has a policy: that is a program's wish.
      const unsigned long mask = 1ul << homes()[0];
      ASSERT_EQ(syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 64ul), 0);
      EXPECT_EQ(filling::timed_populate_on(node, memory + 3 * huge, memory + 4 * huge), 0);
      EXPECT_THAT(pages_of(memory + 3 * huge, huge), testing::Each(testing::Lt(0)));
      ASSERT_EQ(syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0ul), 0);
      munmap(mapped, 5 * huge);
    });
  }
}

/// The nodes of the pages of an allocation of which this thread fills the first `touched` bytes, slowly, and of what is
/// filled ahead meanwhile; negative for pages that are not there.
std::vector<int> nodes_after_filling(std::size_t bytes, std::size_t touched) {
  auto* const memory = static_cast<char*>(std::malloc(bytes));
  EXPECT_NE(memory, nullptr);
  for (std::size_t at = 0; at < touched; at += 4096) {
    memory[at] = 1;
    if (at % (2 * mib) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto page = (reinterpret_cast<std::uintptr_t>(memory) + 4095) / 4096 * 4096;
  const auto nodes = pages_of(reinterpret_cast<void*>(page), bytes - 4096);
  std::free(memory);
  return nodes;
}

/// What the library makes resident ahead of a thread lies where the thread's own first touch would have put it: the
/// library's thread runs on the first node, the one that fills memory on the second.
TEST(Shim, PagesFilledAheadLieOnTheNodeOfTheThreadThatFills) {
  const char* mode = std::getenv("SMELT_MEMORY");
  if (mode == nullptr || std::string(mode) != "auto") GTEST_SKIP() << "without the preload library";
  ASSERT_GE(homes().size(), 2u);
  // In the middle of a block. What is there two blocks further on, nobody but the library has made so.
  constexpr std::size_t bytes = 160 * mib, touched = 13 * mib, ahead = touched + 4 * mib;
  run_on_node(homes()[0], [] {
    // The library's thread starts here, and stays.
    auto* const first = static_cast<volatile char*>(std::malloc(16 * mib));
    first[0] = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::free(const_cast<char*>(first));
  });
  run_on_node(homes()[1], [] {
    bool filled = false;
    // The library does so when a processor is idle: not always at the first attempt.
    for (int attempt = 0; attempt < 10 && !filled; ++attempt) {
      const auto nodes = nodes_after_filling(bytes, touched);
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        ASSERT_TRUE(nodes[i] < 0 || nodes[i] == homes()[1]) << "page " << i << " on node " << nodes[i];
      }
      filled = std::any_of(nodes.begin() + ahead / 4096, nodes.end(), [](int node) { return node >= 0; });
    }
    EXPECT_TRUE(filled) << "nothing was filled ahead of the thread";
  });
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  // Before the preload library looks: huge pages have to be asked for.
  std::ofstream("/sys/kernel/mm/transparent_hugepage/enabled") << "madvise";
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
