// The public channel: a header that describes the memory, followed by one or two rings.
//
//   +0    ChannelHeader: magic, version, transport, capacity, who took the ends (end_owner.hpp)
//   +256  FastForward ring of lines (fastforward.hpp), or
//         UMP ring of lines and behind it a UMP ring of cells (ump.hpp)
//
// A message of up to 56 bytes is one line with tag `whole`. A longer one is a line with tag
// `first`, whose payload is the total size (8 bytes) and the first 48 bytes, and then lines of 56
// bytes with tag `more`.
//
// UMP sends a run of small messages through cells, four to a line: the last message in a line
// before that has tag `last_line` and tells the receiver to go on in the cells; a cell with tag
// `leave` carries no message and sends it back to the lines.
#include "smelt/channel.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.hpp"
#include "base/segment.hpp"
#include "channel/end_owner.hpp"
#include "channel/fastforward.hpp"
#include "channel/ump.hpp"
#include "machine/topology/memory.hpp"

namespace smelt {
namespace channel {
namespace {

constexpr std::uint64_t magic = 0x6c6e68632d6c6d73;  // "sml-chnl"
constexpr std::uint32_t layout_version = 3;
constexpr std::uint32_t max_capacity = 1u << 20;

enum Tag : std::uint32_t { whole = 0, first, more, last_line, leave };
constexpr std::size_t first_payload = line_payload - sizeof(std::uint64_t);

struct ChannelHeader {
  std::atomic<std::uint64_t> magic;  ///< written last: the rest is complete once it is there
  std::uint32_t version;
  std::uint32_t transport;
  std::uint32_t capacity;
  std::atomic<std::uint32_t> sender_taken;
  std::atomic<std::uint32_t> receiver_taken;
  EndOwner sender, receiver;
};
constexpr std::size_t ring_offset = 256;
static_assert(sizeof(ChannelHeader) <= ring_offset);

/// The number of cells that occupy as much memory as the lines.
constexpr std::uint32_t cells_of(std::uint32_t capacity) { return capacity * (sizeof(Line) / sizeof(Cell)); }

std::size_t ring_bytes(Transport transport, std::uint32_t capacity) {
  if (transport == Transport::fastforward) return fastforward_bytes(capacity);
  return ump_bytes(capacity) + ump_bytes<Cell>(cells_of(capacity));
}

/// Lines of a message, including the word with its length.
constexpr std::size_t lines_of_message(std::size_t bytes) {
  if (bytes <= line_payload) return 1;
  return 1 + (bytes - first_payload + line_payload - 1) / line_payload;
}

}  // namespace

struct ChannelShared {
  Segment segment;
  WaitConfig wait;
  ChannelEnds ends;

  ChannelShared(Segment memory, const WaitConfig& waiting) : segment(std::move(memory)), wait(waiting) {
    ends.use_file(segment.fd());
  }
  ChannelHeader& header() const { return *reinterpret_cast<ChannelHeader*>(segment.data()); }
  std::byte* ring() const { return segment.data() + ring_offset; }
  Transport transport() const { return static_cast<Transport>(header().transport); }
};

/// The ring that holds the next message.
enum class Route : std::uint8_t { lines, cells, fastforward, broken };

/// The reasons for an end to stop waiting: the program's interrupt, or the departure of the other end.
struct WaitInterrupt {
  OwnedEnd end;
  bool (*program)(void*) = nullptr;
  void* context = nullptr;
  bool alone = false;  ///< the other end has left

  WaitInterrupt(End end, ChannelShared& shared, Waiter& waiter)
      : end(end, shared.ends, end_owner(end, shared),
            end_owner(end == End::sender ? End::receiver : End::sender, shared)) {
    waiter.set_interrupt(ask, this);
  }
  static EndOwner& end_owner(End end, ChannelShared& shared) {
    return end == End::sender ? shared.header().sender : shared.header().receiver;
  }

  static bool ask(void* self) {
    auto& interrupt = *static_cast<WaitInterrupt*>(self);
    if (interrupt.program != nullptr && interrupt.program(interrupt.context)) return true;
    return interrupt.alone = interrupt.end.peer_is_gone();
  }
};

struct alignas(separation_bytes) SenderState {
  explicit SenderState(std::shared_ptr<ChannelShared> channel)
      : waiter(channel->wait),
        capacity(channel->header().capacity),
        shared(std::move(channel)),
        interrupt(End::sender, *shared, waiter) {
    if (shared->transport() == Transport::ump) {
      lines = UmpSender(shared->ring(), capacity);
      cells = CellSender(shared->ring() + ump_bytes(capacity), cells_of(capacity));
    } else {
      fastforward = FastForwardSender(shared->ring(), capacity);
      route = Route::fastforward;
    }
  }

  Route route = Route::lines;
  std::uint8_t run = 0;  ///< consecutive small messages sent through lines
  UmpSender lines;
  CellSender cells;
  FastForwardSender fastforward;
  Waiter waiter;
  std::uint32_t capacity;
  std::shared_ptr<ChannelShared> shared;
  WaitInterrupt interrupt;
};

struct alignas(separation_bytes) ReceiverState {
  explicit ReceiverState(std::shared_ptr<ChannelShared> channel)
      : waiter(channel->wait), shared(std::move(channel)), interrupt(End::receiver, *shared, waiter) {
    const auto capacity = shared->header().capacity;
    if (shared->transport() == Transport::ump) {
      lines = UmpReceiver(shared->ring(), capacity);
      cells = CellReceiver(shared->ring() + ump_bytes(capacity), cells_of(capacity));
    } else {
      fastforward = FastForwardReceiver(shared->ring(), capacity);
      route = Route::fastforward;
    }
  }

  Route route = Route::lines;
  std::uint32_t usual_lines = 1;  ///< lines of the last message
  UmpReceiver lines;
  CellReceiver cells;
  FastForwardReceiver fastforward;
  Waiter waiter;
  std::shared_ptr<ChannelShared> shared;
  WaitInterrupt interrupt;
};

void DeleteState::operator()(SenderState* state) const noexcept { delete state; }
void DeleteState::operator()(ReceiverState* state) const noexcept { delete state; }

namespace {

constexpr std::uint8_t run_before_cells = 8;

/// The status of a wait that was given up before anything was moved.
template <class State>
Status given_up(State& state) noexcept {
  if (!state.interrupt.alone) return Status::timed_out;
  state.route = Route::broken;
  return Status::broken;
}

/// Sends a message of several lines. False: interrupted amid it.
template <class End>
bool send_lines(End& end, const std::byte* data, std::size_t bytes, Waiter& waiter) noexcept {
  end.expect(bytes);
  const std::uint64_t total = bytes;
  std::memcpy(end.payload(), &total, sizeof total);
  std::memcpy(end.payload() + sizeof total, data, first_payload);
  end.commit(line_payload, first);
  for (std::size_t at = first_payload; at < bytes; at += line_payload) {
    if (!end.send(data + at, std::min(line_payload, bytes - at), waiter, more)) return false;
  }
  return true;
}

/// Receives a message whose first line, of several, is there. False: interrupted amid it.
template <class End>
bool recv_lines(End& end, std::byte* buffer, std::size_t bytes, Waiter& waiter) noexcept {
  std::memcpy(buffer, end.payload() + sizeof(std::uint64_t), first_payload);
  end.release();
  for (std::size_t at = first_payload; at < bytes; at += line_payload) {
    if (!end.recv(buffer + at, std::min(line_payload, bytes - at), waiter)) return false;
  }
  return true;
}

/// Sends any message through lines; `wait`: also if there is no room for all of it now.
template <class End>
Status send_through(SenderState& state, End& end, const void* data, std::size_t bytes, bool wait) noexcept {
  const auto lines = static_cast<std::uint32_t>(std::min<std::size_t>(lines_of_message(bytes), max_capacity + 1));
  if (wait ? !end.wait_for_room(state.waiter) : !end.can_send(lines)) return given_up(state);
  if (lines == 1) {
    const bool small = bytes <= Cell::payload_bytes && state.route == Route::lines;
    state.run = small ? state.run + 1 : 0;
    const bool last = state.run == run_before_cells;
    copy_payload(end.payload(), static_cast<const std::byte*>(data), bytes);
    end.commit(bytes, last ? last_line : whole);
    if (last) state.route = Route::cells;
    return Status::ok;
  }
  state.run = 0;
  if (send_lines(end, static_cast<const std::byte*>(data), bytes, state.waiter)) return Status::ok;
  state.route = Route::broken;
  return Status::broken;
}

/// Sends every message that the fast paths of Sender::send could not send.
[[gnu::noinline]] Status send_otherwise(SenderState& state, const void* data, std::size_t bytes, bool wait) noexcept {
  if (state.route == Route::broken) return Status::broken;
  if (state.route == Route::fastforward) return send_through(state, state.fastforward, data, bytes, wait);
  if (state.route == Route::cells) {
    const bool small = bytes <= Cell::payload_bytes;
    if (wait ? !state.cells.wait_for_room(state.waiter) : !state.cells.can_send()) return given_up(state);
    if (small) {
      state.cells.try_send(data, bytes);
      return Status::ok;
    }
    state.cells.try_send(nullptr, 0, leave);
    state.route = Route::lines;
    state.run = 0;
  }
  return send_through(state, state.lines, data, bytes, wait);
}

template <class End>
std::size_t message_size(const End& end) noexcept {
  if (end.tag() != first) return end.size();
  std::uint64_t total;
  std::memcpy(&total, end.payload(), sizeof total);
  return total;
}

/// Receives a message whose first line is there.
template <class End>
Status take_message(ReceiverState& state, End& end, void* buffer, std::size_t capacity, std::size_t& size) noexcept {
  size = message_size(end);
  if (size > capacity) return Status::invalid_argument;
  const auto tag = end.tag();
  state.usual_lines = lines_of(size);
  if (tag == first) {
    if (recv_lines(end, static_cast<std::byte*>(buffer), size, state.waiter)) return Status::ok;
    state.route = Route::broken;
    return Status::broken;
  }
  copy_payload(static_cast<std::byte*>(buffer), end.payload(), size);
  end.release();
  if (tag == last_line) {
    end.poll();
    state.route = Route::cells;
  }
  return Status::ok;
}

/// Receives from the ring that holds the next message. Errors: not_found if there is none and `wait` is false.
[[gnu::noinline]] Status recv_next(ReceiverState& state, void* buffer, std::size_t capacity, std::size_t& size,
                                   bool wait) noexcept {
  const auto arrived = [&](auto& end) {
    return wait ? end.wait_for_message(state.waiter, state.usual_lines) : end.poll();
  };
  const auto none = [&] { return wait ? given_up(state) : Status::not_found; };
  if (state.route == Route::broken) return Status::broken;
  if (state.route == Route::fastforward) {
    if (!arrived(state.fastforward)) return none();
    return take_message(state, state.fastforward, buffer, capacity, size);
  }
  if (state.route == Route::cells) {
    if (!arrived(state.cells)) return none();
    if (state.cells.tag() != leave) return take_message(state, state.cells, buffer, capacity, size);
    state.cells.release();
    state.cells.poll();
    state.route = Route::lines;
  }
  if (!arrived(state.lines)) return none();
  return take_message(state, state.lines, buffer, capacity, size);
}

}  // namespace
}  // namespace channel

using namespace channel;

Status Sender::send(const void* data, std::size_t bytes) noexcept {
  auto& state = *state_;
  state.interrupt.end.claim();
  if (state.route == Route::cells && bytes <= Cell::payload_bytes) {
    if (state.cells.try_send(data, bytes)) [[likely]]
      return Status::ok;
  } else if (state.route == Route::lines && bytes > Cell::payload_bytes && bytes <= line_payload) {
    state.run = 0;
    if (state.lines.try_send(data, bytes)) [[likely]]
      return Status::ok;
  }
  return send_otherwise(state, data, bytes, true);
}

bool Sender::try_send(const void* data, std::size_t bytes) noexcept {
  auto& state = *state_;
  state.interrupt.end.claim();
  if (bytes <= Cell::payload_bytes && state.route == Route::cells) return state.cells.try_send(data, bytes);
  if (bytes > max_try_bytes()) return false;
  if (state.route == Route::cells && !state.lines.can_send(static_cast<std::uint32_t>(lines_of_message(bytes))))
    return false;
  return send_otherwise(state, data, bytes, false) == Status::ok;
}

std::size_t Sender::max_try_bytes() const noexcept {
  const auto& state = *state_;
  return state.capacity == 1 ? line_payload : first_payload + (state.capacity - std::size_t{1}) * line_payload;
}

bool Sender::can_send() noexcept {
  auto& state = *state_;
  switch (state.route) {
    case Route::lines: return state.lines.can_send();
    case Route::cells: return state.cells.can_send() && state.lines.can_send();
    case Route::fastforward: return state.fastforward.can_send();
    case Route::broken: return false;
  }
  return false;
}

void Sender::set_interrupt(bool (*interrupt)(void*), void* context) noexcept {
  state_->interrupt.program = interrupt;
  state_->interrupt.context = context;
}

Status Receiver::recv(void* buffer, std::size_t capacity, std::size_t* size) noexcept {
  auto& state = *state_;
  state.interrupt.end.claim();
  std::size_t bytes = 0;
  const bool taken = (state.route == Route::cells && state.cells.try_take(buffer, capacity, bytes)) ||
                     (state.route == Route::lines && state.lines.try_take(buffer, capacity, bytes));
  const Status status = taken ? Status::ok : recv_next(state, buffer, capacity, bytes, true);
  if (size != nullptr) *size = bytes;
  return status;
}

std::optional<std::size_t> Receiver::try_recv(void* buffer, std::size_t capacity) noexcept {
  state_->interrupt.end.claim();
  std::size_t bytes = 0;
  const Status status = recv_next(*state_, buffer, capacity, bytes, false);
  if (status == Status::ok || status == Status::invalid_argument) return bytes;
  return std::nullopt;
}

bool Receiver::can_recv() const noexcept {
  auto& state = *state_;
  switch (state.route) {
    case Route::cells:
      if (!state.cells.can_recv()) return false;
      if (state.cells.tag() != leave) return true;
      [[fallthrough]];
    case Route::lines: return state.lines.can_recv();
    case Route::fastforward: return state.fastforward.can_recv();
    case Route::broken: return false;
  }
  return false;
}

void Receiver::set_interrupt(bool (*interrupt)(void*), void* context) noexcept {
  state_->interrupt.program = interrupt;
  state_->interrupt.context = context;
}

namespace {

WaitConfig wait_config(const ChannelOptions& options) {
  auto config = make_wait_config(1, 1, options.wait, true);
  config.ranks_per_pu = std::max(1.0, options.ranks_per_pu);
  return config;
}

Result<void> check_options(const ChannelOptions& options) {
  if (options.transport != Transport::ump && options.transport != Transport::fastforward) {
    return make_error(Status::invalid_argument, "channel transport {}: must be ump or fastforward",
                      static_cast<std::uint32_t>(options.transport));
  }
  const auto capacity = options.capacity;
  if (capacity == 0 || capacity > max_capacity || (capacity & (capacity - 1)) != 0) {
    return make_error(Status::invalid_argument, "channel capacity {}: must be a power of two from 1 to {}", capacity,
                      max_capacity);
  }
  if (!options.wait.empty() && !parse_wait_mode(options.wait)) {
    return make_error(Status::invalid_argument, "channel wait '{}': must be spin, yield, sleep or auto", options.wait);
  }
  return {};
}

/// Lays out a channel in fresh, zeroed memory.
Result<std::shared_ptr<ChannelShared>> format(Result<Segment> segment, const ChannelOptions& options) {
  if (!segment) return segment.error();
  if (options.numa_node >= 0) {
    auto bound = bind_reserved_to_numa_node(segment->data(), segment->size(), options.numa_node);
    if (!bound) return bound.error();
  }
  auto shared = std::make_shared<ChannelShared>(*std::move(segment), wait_config(options));
  auto& header = shared->header();
  header.version = layout_version;
  header.transport = static_cast<std::uint32_t>(options.transport);
  header.capacity = options.capacity;
  // Pairs with the load in adopt(). Publishes the header to processes that attach.
  header.magic.store(magic, std::memory_order_release);
  return shared;
}

/// Checks a channel that another process has laid out.
Result<std::shared_ptr<ChannelShared>> adopt(Result<Segment> segment, const ChannelOptions& options) {
  if (!segment) return segment.error();
  auto shared = std::make_shared<ChannelShared>(*std::move(segment), wait_config(options));
  const auto& header = shared->header();
  if (shared->segment.size() < ring_offset) return make_error(Status::bad_format, "not a smelt channel: too short");
  // Pairs with the store in format().
  if (header.magic.load(std::memory_order_acquire) != magic) {
    return make_error(Status::bad_format, "not a smelt channel, or not complete yet: wrong magic number");
  }
  if (header.version != layout_version) {
    return make_error(Status::bad_format, "channel of layout version {}, this smelt has {}: use the same smelt",
                      header.version, layout_version);
  }
  ChannelOptions found;
  found.transport = shared->transport();
  found.capacity = header.capacity;
  if (auto valid = check_options(found); !valid) return Error{Status::bad_format, valid.error().message};
  if (shared->segment.size() < ring_offset + ring_bytes(found.transport, found.capacity)) {
    return make_error(Status::bad_format, "channel of {} lines in a segment of {} bytes: too short", found.capacity,
                      shared->segment.size());
  }
  return shared;
}

std::size_t total_bytes(const ChannelOptions& options) {
  return ring_offset + ring_bytes(options.transport, options.capacity);
}

}  // namespace

Result<Channel> Channel::create(const ChannelOptions& options) {
  if (auto valid = check_options(options); !valid) return valid.error();
  auto shared = format(Segment::anonymous(total_bytes(options)), options);
  if (!shared) return shared.error();
  return Channel(*std::move(shared));
}

Result<Channel> Channel::create_memfd(const ChannelOptions& options) {
  if (auto valid = check_options(options); !valid) return valid.error();
  auto shared = format(Segment::memfd(total_bytes(options)), options);
  if (!shared) return shared.error();
  return Channel(*std::move(shared));
}

Result<Channel> Channel::create_named(const std::string& name, const ChannelOptions& options) {
  if (auto valid = check_options(options); !valid) return valid.error();
  auto segment = Segment::create_named(name, total_bytes(options));
  const bool created = static_cast<bool>(segment);
  auto shared = format(std::move(segment), options);
  if (!shared) {
    if (created) static_cast<void>(Segment::remove_named(name));
    return shared.error();
  }
  return Channel(*std::move(shared));
}

Result<Channel> Channel::attach(int fd, const ChannelOptions& options) {
  auto shared = adopt(Segment::from_fd(fd), options);
  if (!shared) return shared.error();
  return Channel(*std::move(shared));
}

Result<Channel> Channel::open_named(const std::string& name, const ChannelOptions& options) {
  auto shared = adopt(Segment::open_named(name), options);
  if (!shared) return shared.error();
  return Channel(*std::move(shared));
}

Result<void> Channel::remove(const std::string& name) { return Segment::remove_named(name); }

Result<Sender> Channel::sender() {
  // Relaxed: decides who is first, publishes nothing.
  if (shared_->header().sender_taken.exchange(1, std::memory_order_relaxed) != 0) {
    return make_error(Status::invalid_argument, "the channel's sender is taken already");
  }
  return Sender(new SenderState(shared_));
}

Result<Receiver> Channel::receiver() {
  if (shared_->header().receiver_taken.exchange(1, std::memory_order_relaxed) != 0) {
    return make_error(Status::invalid_argument, "the channel's receiver is taken already");
  }
  return Receiver(new ReceiverState(shared_));
}

int Channel::fd() const noexcept { return shared_->segment.fd(); }
Transport Channel::transport() const noexcept { return shared_->transport(); }
std::uint32_t Channel::capacity() const noexcept { return shared_->header().capacity; }

}  // namespace smelt
