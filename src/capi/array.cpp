// Arrays of the C interface: a memory::Block behind each handle.
#include "smelt/array.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

#include "capi/handles.hpp"

using namespace smelt;
using namespace smelt::capi;

struct smelt_array {
  memory::Block value;
};
struct smelt_transfer {
  Transfer value;
};
struct smelt_stealing_loop {
  StealingLoop value;
};

namespace {

/// Fills the elements by doubling the part that is filled already.
void fill_bytes(std::byte* to, std::size_t bytes, const void* value, std::size_t element_bytes) {
  if (bytes == 0) return;
  std::memcpy(to, value, element_bytes);
  for (std::size_t done = element_bytes; done < bytes;) {
    constexpr std::size_t cached_bytes = 16u << 10;  // source and target stay in the first-level cache
    const std::size_t source = std::max(std::min(done, cached_bytes / element_bytes * element_bytes), element_bytes);
    const std::size_t more = std::min(source, bytes - done);
    std::memcpy(to + done, to, more);
    done += more;
  }
}

Result<ArrayOptions> options_of(const smelt_array_options* given) {
  ArrayOptions options;
  if (given == nullptr) return options;
  const auto refuse = [](const char* what, int value) {
    return make_error(Status::invalid_argument, "smelt_array_options: {} {}: no such value", what, value);
  };
  if (given->placement < 0 || given->placement > SMELT_PLACEMENT_WRITABLE_REPLICAS)
    return refuse("placement", given->placement);
  if (given->pages < 0 || given->pages > SMELT_PAGES_RESERVED_1GIB) return refuse("pages", given->pages);
  if (given->replica_per < 0 || given->replica_per > SMELT_REPLICA_PER_CACHE)
    return refuse("replica_per", given->replica_per);
  if (given->access < 0 || given->access > SMELT_ACCESS_RANDOM) return refuse("access", given->access);
  options.placement = static_cast<Placement>(given->placement);
  options.pages = static_cast<PageSize>(given->pages);
  options.strict = given->strict != 0;
  options.replica_per = static_cast<ReplicaPer>(given->replica_per);
  options.parts = given->parts;
  if (given->numa_nodes != nullptr)
    options.numa_nodes.assign(given->numa_nodes, given->numa_nodes + given->numa_node_count);
  if (given->name != nullptr) options.name = given->name;
  options.hints.access = static_cast<AccessPattern>(given->access);
  options.hints.stride_bytes = given->stride_bytes;
  options.hints.loop_index = given->loop_index != 0;
  options.hints.read_only = given->read_only != 0;
  if (given->reads_per_element > 0) options.hints.reads_per_element = given->reads_per_element;
  options.hints.writes_per_element = given->writes_per_element;
  if (given->phases > 0) options.hints.phases = given->phases;
  return options;
}

/// make(options) as a handle.
template <class Make>
int create(const char* call, const smelt_array_options* given, smelt_array** array, Make&& make) noexcept {
  return guarded([&]() -> int {
    if (array == nullptr) return fail_argument(call, "array must not be NULL");
    const auto options = options_of(given);
    if (!options) return fail(options.error());
    return hand_out(make(*options), array);
  });
}

/// start() as a handle.
template <class Start>
int start_transfer(const char* call, smelt_array* array, const void* elements, smelt_transfer** transfer,
                   Start&& start) noexcept {
  return guarded([&]() -> int {
    if (array == nullptr || elements == nullptr || transfer == nullptr) {
      return fail_argument(call, "array, elements and transfer must not be NULL");
    }
    auto handle = std::make_unique<smelt_transfer>();  // first: what has been started must have a handle
    handle->value = start(array->value);
    *transfer = handle.release();
    return SMELT_OK;
  });
}

template <class Index>
int take(const memory::Block& array, std::size_t element_bytes, const void* indices, std::size_t count, void* to) {
  const auto* const numbers = static_cast<const Index*>(indices);
  const auto* const wrong = std::find_if(numbers, numbers + count, [&](Index at) { return at >= array.count(); });
  if (wrong != numbers + count) {
    return fail(make_error(Status::invalid_argument, "smelt_array_take: index {} at {}: the array has {} elements",
                           *wrong, wrong - numbers, array.count()));
  }
  const auto take_by = [&, from = array.local(), into = static_cast<std::byte*>(to)](auto size) {  // known or not
    memory::take_ahead(
        std::span(numbers, count), [&](Index at) { return from + at * size; },
        [&](std::size_t k, const std::byte* element) { std::memcpy(into + k * size, element, size); });
    return SMELT_OK;
  };
  switch (element_bytes) {
    case 4: return take_by(std::integral_constant<std::size_t, 4>{});
    case 8: return take_by(std::integral_constant<std::size_t, 8>{});
    default: return take_by(element_bytes);
  }
}

}  // namespace

extern "C" {

int smelt_array_create(size_t count, size_t element_bytes, const smelt_array_options* options, smelt_array** array) {
  return create("smelt_array_create", options, array,
                [&](const ArrayOptions& wanted) { return memory::Block::create(count, element_bytes, wanted); });
}

int smelt_array_create_on(const smelt_communicator* communicator, size_t count, size_t element_bytes,
                          const smelt_array_options* options, smelt_array** array) {
  return create("smelt_array_create_on", options, array, [&](const ArrayOptions& wanted) -> Result<memory::Block> {
    if (communicator == nullptr)
      return Error{Status::invalid_argument, "smelt_array_create_on: communicator must not be NULL"};
    return memory::Block::create(count, element_bytes, communicator->value, wanted);
  });
}

int smelt_array_create_shared(smelt_rank* rank, const char* name, size_t count, size_t element_bytes,
                              const smelt_array_options* options, smelt_array** array) {
  return create("smelt_array_create_shared", options, array, [&](const ArrayOptions& wanted) -> Result<memory::Block> {
    if (rank == nullptr || name == nullptr) {
      return Error{Status::invalid_argument, "smelt_array_create_shared: rank and name must not be NULL"};
    }
    return memory::Block::create_shared(rank->value, name, count, element_bytes, wanted);
  });
}

void smelt_array_free(smelt_array* array) { delete array; }

size_t smelt_array_count(const smelt_array* array) { return array == nullptr ? 0 : array->value.count(); }
int smelt_array_copies(const smelt_array* array) { return array == nullptr ? 0 : array->value.copies(); }
int smelt_array_parts(const smelt_array* array) { return array == nullptr ? 0 : array->value.parts(); }
void* smelt_array_data(const smelt_array* array) { return array == nullptr ? nullptr : array->value.data(); }
void* smelt_array_local(const smelt_array* array) { return array == nullptr ? nullptr : array->value.local(); }

void* smelt_array_copy(const smelt_array* array, int copy) {
  return array == nullptr || copy < 0 || copy >= array->value.copies() ? nullptr : array->value.copy(copy);
}

int smelt_array_part(const smelt_array* array, int part, size_t* first, size_t* last, int* numa_node) {
  if (array == nullptr || part < 0 || part >= array->value.parts()) {
    return guarded([] { return fail_argument("smelt_array_part", "there is no such part"); });
  }
  const IndexRange range = array->value.part(part);
  if (first != nullptr) *first = range.first;
  if (last != nullptr) *last = range.last;
  if (numa_node != nullptr) *numa_node = array->value.numa_node_of_part(part);
  return SMELT_OK;
}

int smelt_array_fill(smelt_array* array, const void* element) {
  return guarded([&]() -> int {
    if (array == nullptr || element == nullptr)
      return fail_argument("smelt_array_fill", "array and element must not be NULL");
    array->value.start_fill(element, fill_bytes).wait();
    return SMELT_OK;
  });
}

int smelt_array_copy_from(smelt_array* array, const void* elements) {
  return guarded([&]() -> int {
    if (array == nullptr || elements == nullptr) {
      return fail_argument("smelt_array_copy_from", "array and elements must not be NULL");
    }
    array->value.start_copy(elements).wait();
    return SMELT_OK;
  });
}

int smelt_array_start_fill(smelt_array* array, const void* element, smelt_transfer** transfer) {
  return start_transfer("smelt_array_start_fill", array, element, transfer,
                        [&](memory::Block& block) { return block.start_fill(element, fill_bytes); });
}

int smelt_array_start_copy_from(smelt_array* array, const void* elements, smelt_transfer** transfer) {
  return start_transfer("smelt_array_start_copy_from", array, elements, transfer,
                        [&](memory::Block& block) { return block.start_copy(elements); });
}

int smelt_transfer_test(smelt_transfer* transfer, int* done) {
  return guarded([&]() -> int {
    if (transfer == nullptr || done == nullptr)
      return fail_argument("smelt_transfer_test", "transfer and done must not be NULL");
    *done = transfer->value.test() ? 1 : 0;
    return SMELT_OK;
  });
}

int smelt_transfer_wait(smelt_transfer* transfer) {
  return guarded([&]() -> int {
    if (transfer == nullptr) return fail_argument("smelt_transfer_wait", "transfer must not be NULL");
    transfer->value.wait();
    return SMELT_OK;
  });
}

void smelt_transfer_free(smelt_transfer* transfer) { delete transfer; }

int smelt_array_take(const smelt_array* array, const void* indices, int index_bytes, size_t count, void* to) {
  return guarded([&]() -> int {
    if (array == nullptr || (count > 0 && (indices == nullptr || to == nullptr)))
      return fail_argument("smelt_array_take", "array, indices and to must not be NULL");
    if (index_bytes != 4 && index_bytes != 8) return fail_argument("smelt_array_take", "index_bytes must be 4 or 8");
    const std::size_t element_bytes = array->value.element_bytes();
    return index_bytes == 4 ? take<std::uint32_t>(array->value, element_bytes, indices, count, to)
                            : take<std::uint64_t>(array->value, element_bytes, indices, count, to);
  });
}

int smelt_stealing_loop_create(const smelt_array* array, size_t grain, smelt_stealing_loop** loop) {
  return guarded([&]() -> int {
    if (array == nullptr || loop == nullptr || grain == 0) {
      return fail_argument("smelt_stealing_loop_create", "array and loop must not be NULL, grain at least 1");
    }
    *loop = new smelt_stealing_loop{StealingLoop(array->value, grain)};
    return SMELT_OK;
  });
}

int smelt_stealing_loop_next(smelt_stealing_loop* loop, int part, size_t* first, size_t* last) {
  if (loop == nullptr || first == nullptr || last == nullptr || part < 0 || part >= loop->value.parts()) return 0;
  IndexRange piece;
  if (!loop->value.next(part, &piece)) return 0;
  *first = piece.first;
  *last = piece.last;
  return 1;
}

void smelt_stealing_loop_free(smelt_stealing_loop* loop) { delete loop; }

int smelt_array_where(const smelt_array* array, int copy, int capacity, int* nodes, uint64_t* bytes, int* count,
                      uint64_t* absent_bytes, uint64_t* huge_bytes) {
  return guarded([&]() -> int {
    if (array == nullptr || count == nullptr || (capacity > 0 && (nodes == nullptr || bytes == nullptr))) {
      return fail_argument("smelt_array_where", "array, count, nodes and bytes must not be NULL");
    }
    const auto found = array->value.where(copy);
    if (!found) return fail(found.error());
    *count = static_cast<int>(found->nodes.size());
    for (int i = 0; i < std::min(*count, capacity); ++i) {
      nodes[i] = found->nodes[static_cast<std::size_t>(i)].numa_node;
      bytes[i] = found->nodes[static_cast<std::size_t>(i)].bytes;
    }
    if (absent_bytes != nullptr) *absent_bytes = found->absent_bytes;
    if (huge_bytes != nullptr) *huge_bytes = found->huge_bytes;
    return SMELT_OK;
  });
}

int smelt_array_sync(smelt_rank* rank, smelt_array* array, smelt_type type, smelt_op op) {
  const Reduction reduction = builtin_reduction(number_of(type), number_of(op));
  const bool fits = rank != nullptr && array != nullptr && reduction.combine != nullptr;
  const Status status = fits ? array->value.sync(rank->value, reduction) : Status::invalid_argument;
  if (status != Status::invalid_argument) return static_cast<int>(status);
  return guarded(
      [] { return fail_argument("smelt_array_sync", "rank or array is NULL, or type and op do not fit the array"); });
}

int smelt_array_publish(smelt_rank* rank, smelt_array* array, size_t first, size_t last) {
  const bool fits = rank != nullptr && array != nullptr;
  const Status status = fits ? array->value.publish(rank->value, {first, last}) : Status::invalid_argument;
  if (status != Status::invalid_argument) return static_cast<int>(status);
  return guarded(
      [] { return fail_argument("smelt_array_publish", "rank and array must not be NULL, first <= last <= count"); });
}

int smelt_array_explain(const smelt_array* array, char* text, size_t capacity) {
  return guarded([&]() -> int {
    if (array == nullptr || (text == nullptr && capacity > 0))
      return fail_argument("smelt_array_explain", "array and text must not be NULL");
    const std::string lines = array->value.explain();
    if (capacity == 0) return SMELT_OK;
    const size_t length = std::min(lines.size(), capacity - 1);
    std::memcpy(text, lines.data(), length);
    text[length] = '\0';
    return SMELT_OK;
  });
}

}  // extern "C"
