// Arrays that processes share, at the same address in all of them.
//
//   rank 0        plans, creates the copies, places their pages, and then gives them names in /dev/shm
//   all           open the copies; then the names are removed
//   all           agree on an address that is free in all processes and map there: the near copy of a replicated array
//
// So the same address leads to different copies in different processes: replication by page tables ([Kaestle16] 4.4.1).
// After every step, all ranks know whether all of them succeeded. Otherwise all undo what they did.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>

#include "base/error.hpp"
#include "machine/text.hpp"
#include "memory/array/storage.hpp"

namespace smelt::memory {
namespace {

constexpr int most_addresses = 16;  ///< number of attempts
constexpr const char* no_huge_pages = "small pages: /dev/shm is mounted without huge ones (mount option huge=)";

/// The place of a rank.
struct Place {
  std::int64_t pid = 0;
  std::int64_t node = 0;
};

/// The decisions of rank 0.
struct Decision {
  std::int64_t status = 0;
  std::int64_t placement = 0;
  std::int64_t pages = 0;
  std::int64_t node = 0;
  std::int64_t missing = 0;  ///< huge pages that were asked for
};

/// Ok on all ranks, or an error on all ranks: this rank's own, or one that says that another rank had one.
Result<void> agree(Rank& rank, const std::string& name, const Result<void>& own) {
  const int mine = own ? 0 : static_cast<int>(own.error().status);
  int worst = 0;
  const Status status = rank.allreduce(&mine, &worst, 1, minimum<int>());
  if (status != Status::ok) return Error{status, rank.failure()};
  if (!own) return own;
  if (worst == 0) return {};
  return make_error(static_cast<Status>(worst), "{}: another rank could not take part: {}", name,
                    status_string(static_cast<Status>(worst)));
}

Result<std::vector<Place>> meet(Rank& rank, const std::string& name) {
  std::vector<Place> places(static_cast<std::size_t>(rank.size()));
  const Place own{getpid(), current_numa_node()};
  if (const Status status = rank.allgather(&own, places.data(), sizeof own); status != Status::ok) {
    return Error{status, rank.failure()};
  }
  std::set<std::int64_t> pids;
  for (const auto& place : places) {
    if (pids.insert(place.pid).second) continue;
    return make_error(
        Status::invalid_argument,
        "{}: process {} has several ranks; a shared array takes one per process, threads of one process need none",
        name, place.pid);
  }
  return places;
}

Result<void> check_name(const std::string& name) {
  if (!name.empty() && name.size() <= 100 && name.find('/') == std::string::npos &&
      name.find('\0') == std::string::npos) {
    return {};
  }
  return make_error(Status::invalid_argument, "shared array '{}': a name has 1 to 100 characters without '/'",
                    shown(name));
}

/// By the process of rank 0, too: what one that was killed has left there is in nobody's way.
std::string segment_name(const std::string& name, std::int64_t creator, std::size_t copy) {
  return fmt::format("/smelt-array-{}.{}.{}.{}", geteuid(), name, creator, copy);
}

/// Names in /dev/shm that are removed at the end of the scope.
class Names {
 public:
  ~Names() {
    for (const auto& name : names_) (void)Segment::remove_named(name);
  }
  Result<void> give(Segment& segment, std::string name) {
    const auto given = segment.give_name(name);
    if (!given) return given.error();
    if (!*given) return make_error(Status::io_error, "'/dev/shm{}' exists already", name);
    names_.push_back(std::move(name));
    return {};
  }

 private:
  std::vector<std::string> names_;
};

/// The kernel leaves pages where they are if that is one of the nodes of an interleaved range: they are given back, and
/// made anew by the policy.
Result<void> take_turns(const Layout& layout, Copy& copy) {
  if (layout.placement != Placement::interleaved || layout.nodes.size() == 1) return {};
  if (madvise(copy.data, copy.segment.size(), MADV_REMOVE) != 0) return {};  // check_pages() sees where they are
  return populate(copy.data, copy.segment.size());
}

/// On rank 0: creates the memory of all copies and places its pages. It has no name yet, so that nothing is left of it
/// if this process is killed.
Result<void> make_copies(Storage& storage, const MemoryView& view) {
  Layout& layout = storage.layout;
  if (auto room = check_room(layout, view); !room) return room;
  for (std::size_t index = 0; index < layout.copies(); ++index) {
    auto segment = Segment::unnamed(layout.size_bytes());
    if (!segment) return segment.error();
    Copy copy{.data = segment->data(), .runs = layout.runs_of(index), .segment = *std::move(segment)};
    if (layout.pages.kind == PageKind::transparent) (void)madvise(copy.data, copy.segment.size(), MADV_HUGEPAGE);
    // The pages exist already, on this thread's node. They must be mapped to be moved.
    if (auto there = populate(copy.data, copy.segment.size()); !there) return there;
    if (view.nodes.size() > 1 && layout.placement != Placement::first_touch) {
      if (auto set = apply_policy(layout, copy, true); !set) return set;
      if (auto turns = take_turns(layout, copy); !turns) return turns;
      if (auto checked = verify_pages(layout, copy, view); !checked) return checked;
    }
    storage.copies.push_back(std::move(copy));
  }
  return {};
}

Result<void> give_names(Storage& storage, const std::string& name, Names& names) {
  for (std::size_t index = 0; index < storage.copies.size(); ++index) {
    if (auto given = names.give(storage.copies[index].segment, segment_name(name, getpid(), index)); !given)
      return given;
  }
  return {};
}

Result<void> open_copies(Storage& storage, const std::string& name, std::int64_t creator) {
  for (std::size_t index = 0; index < storage.layout.copies(); ++index) {
    auto segment = Segment::open_named(segment_name(name, creator, index));
    if (!segment) return segment.error();
    if (segment->size() < storage.layout.size_bytes()) {
      return make_error(Status::bad_format, "shared array '{}' has another size on rank 0", shown(name));
    }
    Copy copy{.data = segment->data(), .runs = storage.layout.runs_of(index), .segment = *std::move(segment)};
    storage.copies.push_back(std::move(copy));
  }
  return {};
}

/// Reserves `bytes` bytes at `wanted`, or at an address that the kernel chooses if that is null. Empty if they are not
/// free there.
FixedMapping reserve(void* wanted, std::size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (wanted != nullptr ? MAP_FIXED_NOREPLACE : 0);
  void* const got = mmap(wanted, bytes, PROT_NONE, flags, -1, 0);
  if (got == MAP_FAILED) return {};
  FixedMapping mapping(static_cast<std::byte*>(got), bytes);
  if (wanted != nullptr && got != wanted) return {};  // kernels before 4.17 ignore the flag
  return mapping;
}

/// An address to propose. The first attempt takes the kernel's next address. The kernel would choose the same one again
/// after a failure, so later attempts go down from there by a random distance.
FixedMapping propose(std::size_t bytes, bool first) {
  FixedMapping next = reserve(nullptr, bytes);
  if (first || next.data() == nullptr) return next;
  constexpr std::uint64_t step_bytes = std::uint64_t{2} << 20, most_steps = 1 << 17;  // 256 GiB
  const std::uint64_t steps = std::random_device()() % most_steps + bytes / step_bytes + 1;
  const auto from = reinterpret_cast<std::uint64_t>(next.data()) / step_bytes;
  if (steps >= from) return next;
  return reserve(reinterpret_cast<void*>((from - steps) * step_bytes), bytes);
}

/// Reserves `bytes` bytes at an address that is free in all processes. Empty if a few attempts find none.
Result<FixedMapping> reserve_together(Rank& rank, std::size_t bytes) {
  for (int attempt = 0; attempt < most_addresses; ++attempt) {
    const int proposer = attempt % rank.size();
    std::uint64_t address = 0;
    FixedMapping own;
    if (rank.rank() == proposer) {
      own = propose(bytes, attempt < rank.size());
      address = reinterpret_cast<std::uint64_t>(own.data());
    }
    if (const Status status = rank.broadcast(&address, sizeof address, proposer); status != Status::ok) {
      return Error{status, rank.failure()};
    }
    if (address != 0 && rank.rank() != proposer) {
      own = reserve(reinterpret_cast<void*>(address), bytes);
    }
    const int reserved = own.data() != nullptr;
    int everywhere = 0;
    if (const Status status = rank.allreduce(&reserved, &everywhere, 1, minimum<int>()); status != Status::ok) {
      return Error{status, rank.failure()};
    }
    if (everywhere != 0) return own;
  }
  return FixedMapping();
}

/// Maps this process's copy at the common address.
Result<void> map_near(Storage& storage, FixedMapping reserved, int node) {
  const auto near = static_cast<std::size_t>(storage.near(node));
  const Segment& segment = storage.copies[near].segment;
  void* const mapped =
      mmap(reserved.data(), segment.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, segment.fd(), 0);
  if (mapped == MAP_FAILED) {
    return make_error(Status::io_error, "{}: cannot map it at the common address: {}", storage.layout.name,
                      std::strerror(errno));
  }
  storage.near_copy = std::move(reserved);
  storage.near_index = static_cast<int>(near);
  return {};
}

/// Whether memory in /dev/shm may be in huge pages when it is made: a matter of how that is mounted, not of the setting
/// for private memory.
bool huge_pages_in_dev_shm() {
  const auto setting = read_small_file("/sys/kernel/mm/transparent_hugepage/shmem_enabled").value_or("");
  if (setting.find("[deny]") != std::string::npos) return false;
  if (setting.find("[force]") != std::string::npos) return true;
  bool huge = false;
  const auto mounts = read_small_file("/proc/self/mounts").value_or("");
  for (const auto line : split(mounts, '\n')) {
    if (line.find(" /dev/shm ") == std::string_view::npos) continue;
    const auto has = [line](std::string_view option) { return line.find(option) != std::string_view::npos; };
    huge = has("huge=always") || has("huge=within_size");  // the last one is on top
  }
  return huge;
}

/// On rank 0. Asks for no huge pages where there are none for shared memory; an error if the options insist on them.
Result<Layout> plan_first(std::size_t count, std::size_t element_bytes, ArrayOptions options,
                          const std::vector<int>& nodes, const MemoryView& view) {
  const PageSize wish = options.pages;
  if (huge_pages_in_dev_shm()) return plan_layout(count, element_bytes, options, nodes, view);
  if (wish == PageSize::huge && options.strict) {
    return make_error(Status::not_supported, "{}: {}", options.name, no_huge_pages);
  }
  options.pages = PageSize::base;
  auto layout = plan_layout(count, element_bytes, options, nodes, view);
  if (layout && wish == PageSize::huge) layout->notes.push_back(no_huge_pages);
  return layout;
}

/// The layout that rank 0 has decided, on all ranks.
Result<Layout> plan_together(Rank& rank, std::size_t count, std::size_t element_bytes, ArrayOptions options,
                             const std::vector<Place>& places, const MemoryView& view) {
  std::vector<int> nodes;
  for (const auto& place : places) nodes.push_back(static_cast<int>(place.node));
  if (options.pages == PageSize::reserved_1gib || options.pages == PageSize::reserved_2mib) {
    return make_error(Status::not_supported, "{}: shared arrays have no reserved pages", options.name);
  }
  if (options.replica_per != ReplicaPer::numa_node) {
    return make_error(Status::not_supported, "{}: replicas of shared arrays are one per NUMA node", options.name);
  }
  Decision decision;
  Result<Layout> layout = Layout{};
  if (rank.rank() == 0) {
    layout = plan_first(count, element_bytes, options, nodes, view);
    if (layout) {
      decision = {0, static_cast<std::int64_t>(layout->placement), layout->pages.kind == PageKind::transparent,
                  layout->nodes.front(), !layout->notes.empty() && layout->notes.back() == no_huge_pages};
    } else {
      decision.status = static_cast<std::int64_t>(layout.error().status);
    }
  }
  if (const Status status = rank.broadcast(&decision, sizeof decision); status != Status::ok) {
    return Error{status, rank.failure()};
  }
  if (rank.rank() == 0) return layout;
  if (decision.status != 0) {
    return make_error(static_cast<Status>(decision.status), "{}: rank 0 could not plan it", options.name);
  }
  options.placement = static_cast<Placement>(decision.placement);
  options.pages = decision.pages != 0 ? PageSize::huge : PageSize::base;
  if (options.placement == Placement::single_node) options.numa_nodes = {static_cast<int>(decision.node)};
  layout = plan_layout(count, element_bytes, options, nodes, view);
  if (layout && decision.missing != 0) layout->notes.push_back(no_huge_pages);
  return layout;
}

}  // namespace

Result<Block> Block::create_shared(Rank& rank, const std::string& name, std::size_t count, std::size_t element_bytes,
                                   ArrayOptions options) {
  if (auto checked = agree(rank, name, check_name(name)); !checked) return checked.error();
  const auto places = meet(rank, name);
  if (!places) return places.error();
  const auto view = read_memory_view();
  auto layout = plan_together(rank, count, element_bytes, options, *places, view);
  if (auto planned = agree(rank, name, layout ? Result<void>() : layout.error()); !planned) return planned.error();
  auto storage = std::make_unique<Storage>();
  storage->layout = *std::move(layout);
  {
    Names names;
    Result<void> made;
    if (rank.rank() == 0) made = make_copies(*storage, view);
    if (rank.rank() == 0 && made) made = give_names(*storage, name, names);
    if (auto there = agree(rank, name, made); !there) return there.error();
    Result<void> opened;
    if (rank.rank() != 0) opened = open_copies(*storage, name, places->front().pid);
    if (auto there = agree(rank, name, opened); !there) return there.error();
  }
  if (storage->layout.copies() > 1) storage->copy_of_node = nearest_copies(view, storage->layout.nodes);
  auto reserved = reserve_together(rank, storage->copies.front().segment.size());
  if (!reserved) return reserved.error();
  const int node = static_cast<int>((*places)[static_cast<std::size_t>(rank.rank())].node);
  storage->same_address = reserved->data() != nullptr;
  if (storage->same_address) {
    const auto mapped = agree(rank, name, map_near(*storage, *std::move(reserved), node));
    if (!mapped) return mapped.error();
  } else if (options.strict) {
    return make_error(Status::out_of_memory, "{}: no address is free in all processes", name);
  } else {
    storage->near_index = storage->near(node);
    storage->layout.notes.push_back("at a different address in each process: none was free in all of them");
  }
  return Block(std::move(storage));
}

}  // namespace smelt::memory
