// Block: the untyped part of smelt::Array. Copies and fills run on threads on the nodes of the target's pages.
#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "memory/array/storage.hpp"
#include "memory/copies/copies.hpp"

namespace smelt {

struct Transfer::State {
  std::vector<std::byte> value{};  ///< the fill value
  std::unique_ptr<memory::NodeWorkers> workers{};
};

/// Creates Transfers.
class memory_access {
 public:
  static Transfer make() {
    Transfer transfer;
    transfer.state_ = std::make_unique<Transfer::State>();
    return transfer;
  }
  static std::vector<std::byte>& value(Transfer& transfer) { return transfer.state_->value; }
  static void start(Transfer& transfer, const MemoryView& view, std::vector<memory::NodeTask> tasks) {
    transfer.state_->workers = std::make_unique<memory::NodeWorkers>(view, std::move(tasks));
  }
};

Transfer::Transfer() noexcept = default;
Transfer::Transfer(Transfer&&) noexcept = default;
Transfer& Transfer::operator=(Transfer&&) noexcept = default;
Transfer::~Transfer() { wait(); }

bool Transfer::test() noexcept { return state_ == nullptr || state_->workers == nullptr || state_->workers->done(); }

void Transfer::wait() noexcept {
  if (state_ != nullptr && state_->workers != nullptr) state_->workers->wait();
}

const char* to_string(PageSize size) noexcept {
  constexpr const char* names[] = {"best", "base", "huge", "reserved_2mib", "reserved_1gib"};
  const auto index = static_cast<std::size_t>(size);
  return index < std::size(names) ? names[index] : "?";
}

Result<PageSize> parse_page_size(std::string_view name) {
  std::string names;
  for (int i = 0; i <= static_cast<int>(PageSize::reserved_1gib); ++i) {
    const auto size = static_cast<PageSize>(i);
    if (name == to_string(size)) return size;
    names += fmt::format("{}{}", i == 0 ? "" : ", ", to_string(size));
  }
  return make_error(Status::invalid_argument, "'{}' is no page size (one of {})", shown(name), names);
}

namespace memory {
namespace {

constexpr std::size_t least_threaded_bytes = std::size_t{4} << 20;  ///< starting threads does not pay below this size
constexpr std::size_t line_bytes = 64;

/// A whole copy as runs. If the places of its pages are unknown, the runs alternate between the participating nodes.
std::vector<PageRun> runs_or_shares(const Layout& layout, const Copy& copy) {
  if (!copy.runs.empty()) return copy.runs;
  return page_runs(static_cuts(layout.count, layout.nodes.size()), layout.nodes, layout.count, layout.element_bytes,
                   layout.pages.bytes);
}

/// A task for each piece of each copy: work(to, offset, bytes).
template <class Work>
std::vector<NodeTask> tasks_for(Storage& storage, const MemoryView& view, const Work& work) {
  std::vector<NodeTask> tasks;
  for (auto& copy : storage.copies) {
    for (const auto& piece :
         pieces_of(runs_or_shares(storage.layout, copy), view, storage.layout.element_bytes, line_bytes)) {
      std::byte* const to = copy.data + piece.first_byte;
      const std::size_t bytes = piece.last_byte - piece.first_byte, offset = piece.first_byte;
      tasks.push_back({piece.node, [=] { work(to, offset, bytes); }});
    }
  }
  return tasks;
}

std::string describe(const Layout& layout) {
  std::string nodes;
  for (const int node : layout.nodes) nodes += fmt::format("{}{}", nodes.empty() ? "" : ",", node);
  const char* kind = layout.pages.kind == PageKind::transparent ? "transparent huge"
                     : layout.pages.kind == PageKind::reserved  ? "reserved"
                                                                : "small";
  std::string text = fmt::format("{}: {} bytes, {} on NUMA node {}", layout.name, layout.size_bytes(),
                                 to_string(layout.placement), nodes);
  if (layout.copies() > 1) text += fmt::format(", {} copies", layout.copies());
  if (!layout.copy_nodes.empty()) text += ", one per last-level cache";
  return text + fmt::format(", {} pages of {}", kind, page_size_name(layout.pages.bytes));
}

}  // namespace

std::vector<int> nodes_of(const Communicator& communicator) {
  const auto view = read_memory_view();
  std::vector<int> nodes;
  for (const int pu : communicator.group().pus) {
    nodes.push_back(view.node_of_pu(communicator.machine().pus[static_cast<std::size_t>(pu)].os_index));
  }
  return nodes;
}

std::vector<int> home_nodes() { return read_memory_view().home_nodes(); }
int this_node() noexcept { return current_numa_node(); }

Block::Block(std::unique_ptr<Storage> storage) noexcept
    : storage_(std::move(storage)),
      data_(storage_->data()),
      count_(storage_->layout.count),
      single_(storage_->copies.size() == 1 || storage_->near_copy.data() != nullptr) {}
Block::Block(Block&&) noexcept = default;
Block& Block::operator=(Block&&) noexcept = default;
Block::~Block() = default;

namespace {

Result<std::unique_ptr<Storage>> make_storage(std::size_t count, std::size_t element_bytes, const ArrayOptions& options,
                                              std::vector<int> part_nodes, const Communicator* communicator) {
  const auto view = read_memory_view();
  auto layout = plan_layout(count, element_bytes, options, std::move(part_nodes), view);
  if (!layout) return layout.error();
  if (options.replica_per == ReplicaPer::cache && layout->has_replicas()) {
    if (communicator != nullptr) {
      replicate_by_cache(*layout, communicator->machine(), communicator->group().pus, view);
    } else {
      const auto machine = discover_machine();
      if (!machine) return make_error(machine.error().status, "{}: {}", options.name, machine.error().message);
      replicate_by_cache(*layout, *machine, whole_machine(*machine).pus, view);
    }
  }
  return Storage::create(*std::move(layout), view);
}

}  // namespace

Result<Block> Block::create(std::size_t count, std::size_t element_bytes, const ArrayOptions& options) {
  auto storage = make_storage(count, element_bytes, options, {}, nullptr);
  if (!storage) return storage.error();
  return Block(*std::move(storage));
}

Result<Block> Block::create(std::size_t count, std::size_t element_bytes, const Communicator& communicator,
                            ArrayOptions options) {
  auto storage = make_storage(count, element_bytes, options, nodes_of(communicator), &communicator);
  if (!storage) return storage.error();
  return Block(*std::move(storage));
}

std::size_t Block::element_bytes() const noexcept { return storage_->layout.element_bytes; }
int Block::copies() const noexcept { return static_cast<int>(storage_->copies.size()); }
std::byte* Block::copy(int index) const noexcept { return storage_->copies[static_cast<std::size_t>(index)].data; }
std::byte* Block::near_copy() const noexcept { return copy(storage_->near_here()); }
int Block::parts() const noexcept { return static_cast<int>(storage_->layout.cuts.size()); }
Placement Block::placement() const noexcept { return storage_->layout.placement; }
bool Block::same_address() const noexcept { return storage_->same_address; }

IndexRange Block::part(int index) const noexcept {
  return part_of(storage_->layout.cuts, static_cast<std::size_t>(index), count_);
}

int Block::numa_node_of_part(int index) const noexcept {
  return storage_->layout.part_nodes[static_cast<std::size_t>(index)];
}

std::string Block::explain() const {
  std::string text = describe(storage_->layout);
  for (const auto& note : storage_->layout.notes) text += "\n" + note;
  return text;
}

Result<PageLocations> Block::where(int copy) const {
  if (copy < 0 || copy >= copies()) {
    return make_error(Status::invalid_argument, "{}: copy {} of {}", storage_->layout.name, copy, copies());
  }
  const auto& layout = storage_->layout;
  const std::byte* const data = storage_->copies[static_cast<std::size_t>(copy)].data;
  const auto unit = static_cast<std::size_t>(read_page_support().base_bytes);
  const auto nodes = nodes_of_pages(data, layout.size_bytes(), unit);
  if (!nodes) return make_error(nodes.error().status, "{}: {}", layout.name, nodes.error().message);
  PageLocations found{.page_bytes = layout.pages.bytes};
  std::map<int, std::uint64_t> bytes;
  for (std::size_t page = 0; page < nodes->size(); ++page) {
    const std::size_t size = std::min(unit, layout.size_bytes() - page * unit);
    ((*nodes)[page] < 0 ? found.absent_bytes : bytes[(*nodes)[page]]) += size;
  }
  for (const auto& [node, share] : bytes) found.nodes.push_back({node, share});
  found.huge_bytes = huge_bytes_in(data, layout.size_bytes());
  return found;
}

Transfer Block::start_copy(const void* from) {
  const auto* const source = static_cast<const std::byte*>(from);
  const auto copy = [source](CopyMethod method) {
    return
        [source, method](std::byte* to, std::size_t offset, std::size_t bytes) { method(to, source + offset, bytes); };
  };
  if (storage_->layout.size_bytes() < least_threaded_bytes) {
    for (auto& each : storage_->copies) copy_by_library(each.data, source, storage_->layout.size_bytes());
    return {};
  }
  const auto view = read_memory_view();
  auto transfer = memory_access::make();
  memory_access::start(transfer, view, tasks_for(*storage_, view, copy(best_copy_method())));
  return transfer;
}

Transfer Block::start_fill(const void* value, Fill fill) {
  if (storage_->layout.size_bytes() < least_threaded_bytes) {
    for (auto& each : storage_->copies)
      fill(each.data, storage_->layout.size_bytes(), value, storage_->layout.element_bytes);
    return {};
  }
  const auto view = read_memory_view();
  auto transfer = memory_access::make();
  auto& kept = memory_access::value(transfer);
  const auto* const bytes = static_cast<const std::byte*>(value);
  kept.assign(bytes, bytes + storage_->layout.element_bytes);
  const void* const element = kept.data();
  const std::size_t element_bytes = storage_->layout.element_bytes;
  const auto fill_piece = [=](std::byte* to, std::size_t, std::size_t size) { fill(to, size, element, element_bytes); };
  memory_access::start(transfer, view, tasks_for(*storage_, view, fill_piece));
  return transfer;
}

}  // namespace memory
}  // namespace smelt
