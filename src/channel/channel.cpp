// The public channel: a header that says what the memory holds, and behind it one ring.
//
//   +0    ChannelHeader: magic, version, transport, capacity, who took the ends
//   +256  UMP or FastForward ring (ump.hpp, fastforward.hpp)
//
// A message of up to 56 bytes is one line with tag `whole`. A longer one is a line with tag
// `first`, whose payload is the total size (8 bytes) and the first 48 bytes, and then lines of 56
// bytes with tag `more`.
#include "smelt/channel.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>
#include <variant>

#include "base/error.hpp"
#include "base/segment.hpp"
#include "channel/fastforward.hpp"
#include "channel/ump.hpp"

namespace smelt {
namespace channel {
namespace {

constexpr std::uint64_t magic = 0x6c6e68632d6c6d73;  // "sml-chnl"
constexpr std::uint32_t layout_version = 1;
constexpr std::uint32_t max_capacity = 1u << 20;

enum Tag : std::uint32_t { whole = 0, first = 1, more = 2 };
constexpr std::size_t first_payload = line_payload - sizeof(std::uint64_t);

struct ChannelHeader {
  std::atomic<std::uint64_t> magic;  ///< written last: the rest is complete once it is there
  std::uint32_t version;
  std::uint32_t transport;
  std::uint32_t capacity;
  std::atomic<std::uint32_t> sender_taken;
  std::atomic<std::uint32_t> receiver_taken;
};
constexpr std::size_t ring_offset = 256;
static_assert(sizeof(ChannelHeader) <= ring_offset);

std::size_t ring_bytes(Transport transport, std::uint32_t capacity) {
  return transport == Transport::ump ? ump_bytes(capacity) : fastforward_bytes(capacity);
}

constexpr std::size_t lines_of(std::size_t bytes) {
  if (bytes <= line_payload) return 1;
  return 1 + (bytes - first_payload + line_payload - 1) / line_payload;
}

}  // namespace

struct Shared {
  Segment segment;
  WaitConfig wait;

  ChannelHeader& header() const { return *reinterpret_cast<ChannelHeader*>(segment.data()); }
  std::byte* ring() const { return segment.data() + ring_offset; }
  Transport transport() const { return static_cast<Transport>(header().transport); }
};

struct SenderState {
  explicit SenderState(std::shared_ptr<Shared> channel)
      : shared(std::move(channel)), capacity(shared->header().capacity), waiter(shared->wait) {
    if (shared->transport() == Transport::ump) {
      end.emplace<UmpSender>(shared->ring(), capacity);
    } else {
      end.emplace<FastForwardSender>(shared->ring(), capacity);
    }
  }

  std::shared_ptr<Shared> shared;
  std::uint32_t capacity;
  bool broken = false;
  Waiter waiter;
  std::variant<UmpSender, FastForwardSender> end;
};

struct ReceiverState {
  explicit ReceiverState(std::shared_ptr<Shared> channel) : shared(std::move(channel)), waiter(shared->wait) {
    const auto capacity = shared->header().capacity;
    if (shared->transport() == Transport::ump) {
      end.emplace<UmpReceiver>(shared->ring(), capacity);
    } else {
      end.emplace<FastForwardReceiver>(shared->ring(), capacity);
    }
  }

  std::shared_ptr<Shared> shared;
  bool broken = false;
  Waiter waiter;
  std::variant<UmpReceiver, FastForwardReceiver> end;
};

void DeleteState::operator()(SenderState* state) const noexcept { delete state; }
void DeleteState::operator()(ReceiverState* state) const noexcept { delete state; }

namespace {

template <class Variant, class F>
decltype(auto) with_end(Variant& end, F&& f) noexcept {
  if (end.index() == 0) return f(*std::get_if<0>(&end));
  return f(*std::get_if<1>(&end));
}

/// Sends a message of several lines. False: interrupted amid it.
template <class End>
bool send_lines(End& end, const std::byte* data, std::size_t bytes, Waiter& waiter) noexcept {
  if (!end.wait_for_room(waiter)) return false;
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

template <class End>
std::size_t message_size(const End& end) noexcept {
  if (end.tag() == whole) return end.size();
  std::uint64_t total;
  std::memcpy(&total, end.payload(), sizeof total);
  return total;
}

/// Takes the message whose first line is there.
template <class End>
Status take_message(ReceiverState& state, End& end, void* buffer, std::size_t capacity, std::size_t& size) noexcept {
  size = message_size(end);
  if (size > capacity) return Status::invalid_argument;
  if (end.tag() == whole) {
    copy_payload(static_cast<std::byte*>(buffer), end.payload(), size);
    end.release();
    return Status::ok;
  }
  if (recv_lines(end, static_cast<std::byte*>(buffer), size, state.waiter)) return Status::ok;
  state.broken = true;
  return Status::broken;
}

}  // namespace
}  // namespace channel

using namespace channel;

Status Sender::send(const void* data, std::size_t bytes) noexcept {
  auto& state = *state_;
  if (state.broken) return Status::broken;
  return with_end(state.end, [&](auto& end) {
    if (bytes <= line_payload) return end.send(data, bytes, state.waiter) ? Status::ok : Status::timed_out;
    if (!end.wait_for_room(state.waiter)) return Status::timed_out;
    if (send_lines(end, static_cast<const std::byte*>(data), bytes, state.waiter)) return Status::ok;
    state.broken = true;
    return Status::broken;
  });
}

bool Sender::try_send(const void* data, std::size_t bytes) noexcept {
  auto& state = *state_;
  if (state.broken) return false;
  return with_end(state.end, [&](auto& end) {
    if (bytes <= line_payload) return end.try_send(data, bytes);
    if (bytes > max_try_bytes() || !end.can_send(static_cast<std::uint32_t>(lines_of(bytes)))) return false;
    return send_lines(end, static_cast<const std::byte*>(data), bytes, state.waiter);
  });
}

std::size_t Sender::max_try_bytes() const noexcept {
  const auto& state = *state_;
  return state.capacity == 1 ? line_payload : first_payload + (state.capacity - std::size_t{1}) * line_payload;
}

bool Sender::can_send() noexcept {
  return with_end(state_->end, [](auto& end) { return end.can_send(); });
}

void Sender::set_interrupt(bool (*interrupt)(void*), void* context) noexcept {
  state_->waiter.set_interrupt(interrupt, context);
}

Status Receiver::recv(void* buffer, std::size_t capacity, std::size_t* size) noexcept {
  auto& state = *state_;
  if (state.broken) return Status::broken;
  return with_end(state.end, [&](auto& end) {
    if (!end.wait_for_message(state.waiter)) return Status::timed_out;
    std::size_t bytes;
    const Status status = take_message(state, end, buffer, capacity, bytes);
    if (size != nullptr) *size = bytes;
    return status;
  });
}

std::optional<std::size_t> Receiver::try_recv(void* buffer, std::size_t capacity) noexcept {
  auto& state = *state_;
  if (state.broken) return std::nullopt;
  return with_end(state.end, [&](auto& end) -> std::optional<std::size_t> {
    if (!end.poll()) return std::nullopt;
    std::size_t bytes;
    if (take_message(state, end, buffer, capacity, bytes) == Status::broken) return std::nullopt;
    return bytes;
  });
}

bool Receiver::can_recv() const noexcept {
  return with_end(state_->end, [](auto& end) { return end.can_recv(); });
}

void Receiver::set_interrupt(bool (*interrupt)(void*), void* context) noexcept {
  state_->waiter.set_interrupt(interrupt, context);
}

namespace {

WaitConfig wait_config(const ChannelOptions& options, bool across_processes) {
  auto config = make_wait_config(1, 1, options.wait, across_processes);
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
Result<std::shared_ptr<Shared>> format(Result<Segment> segment, const ChannelOptions& options, bool across_processes) {
  if (!segment) return segment.error();
  auto shared = std::make_shared<Shared>();
  shared->segment = *std::move(segment);
  shared->wait = wait_config(options, across_processes);
  auto& header = shared->header();
  header.version = layout_version;
  header.transport = static_cast<std::uint32_t>(options.transport);
  header.capacity = options.capacity;
  // Partner: the load in adopt(). Publishes the header to processes that attach.
  header.magic.store(magic, std::memory_order_release);
  return shared;
}

/// Checks what another process laid out.
Result<std::shared_ptr<Shared>> adopt(Result<Segment> segment, const ChannelOptions& options) {
  if (!segment) return segment.error();
  auto shared = std::make_shared<Shared>();
  shared->segment = *std::move(segment);
  shared->wait = wait_config(options, true);
  const auto& header = shared->header();
  // Partner: the store in format().
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
  auto shared = format(Segment::anonymous(total_bytes(options)), options, true);
  if (!shared) return shared.error();
  return Channel(*std::move(shared));
}

Result<Channel> Channel::create_memfd(const ChannelOptions& options) {
  if (auto valid = check_options(options); !valid) return valid.error();
  auto shared = format(Segment::memfd(total_bytes(options)), options, true);
  if (!shared) return shared.error();
  return Channel(*std::move(shared));
}

Result<Channel> Channel::create_named(const std::string& name, const ChannelOptions& options) {
  if (auto valid = check_options(options); !valid) return valid.error();
  auto shared = format(Segment::create_named(name, total_bytes(options)), options, true);
  if (!shared) return shared.error();
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
