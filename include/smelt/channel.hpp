// Channels: first-in first-out, reliable links of fixed capacity from one sender to one receiver,
// between threads or between processes of one machine.
//
//   auto channel = smelt::Channel::create();
//   auto receiver = channel->receiver();                        // used by one thread
//   std::thread producer([sender = channel->sender()]() mutable {
//     double value = 0.5;
//     sender.send(&value, sizeof value);
//   });
//   double got;
//   receiver.recv(&got, sizeof got);
//
// Ordering: what a thread did before it sent a message is visible to the receiver once it has received that message.
// Progress: sending waits only while the channel is full, receiving only while it is empty. With Transport::ump a
// channel may count as full from half of its capacity on, as the receiver says what it has taken every half of the
// capacity, and when it finds the channel empty. No end waits for one that has left, because it was destroyed or its
// process ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "smelt/error.hpp"

namespace smelt {

enum class Transport : std::uint32_t {
  ump = 1,          ///< the sender writes slots, the receiver acknowledges in a separate line
  fastforward = 2,  ///< slots are empty or full; the receiver empties them
};

struct ChannelOptions {
  Transport transport = Transport::ump;
  std::uint32_t capacity = 256;  ///< lines (a message of up to 56 bytes takes at most one); a power of two, 1 to 2^20
  int numa_node = -1;            ///< os_index of the NUMA node that holds the memory; -1: first touch
  std::string wait;              ///< spin|yield|sleep|auto; empty: SMELT_WAIT
  double ranks_per_pu = 1.0;     ///< threads that share a PU with an end of the channel; > 1: spin very briefly
};

namespace channel {
struct ChannelShared;
struct SenderState;
struct ReceiverState;
struct DeleteState {
  void operator()(SenderState* state) const noexcept;
  void operator()(ReceiverState* state) const noexcept;
};
}  // namespace channel

/// The sending end. Used by one thread at a time; keeps the channel's memory alive. Movable.
class Sender {
 public:
  /// Sends `bytes` bytes at `data` (any number, also 0). Waits while the channel is full.
  /// Cost: one cache line per 56 bytes. Errors: timed_out if the interrupt fired before anything was
  /// sent; broken if it fired within a message, or if the channel is full and its other end has left. After that,
  /// always broken.
  Status send(const void* data, std::size_t bytes) noexcept;

  /// A message of 0 bytes.
  Status notify() noexcept { return send(nullptr, 0); }

  /// Sends if there is room for the whole message now; else false. A message of more than
  /// max_try_bytes() never has room.
  bool try_send(const void* data, std::size_t bytes) noexcept;
  std::size_t max_try_bytes() const noexcept;

  /// Whether a message of up to 56 bytes could be sent now without waiting.
  bool can_send() noexcept;

  /// Waiting calls call `interrupt(context)` from time to time (every 20 us to 50 ms) and give up when it returns true.
  void set_interrupt(bool (*interrupt)(void*), void* context) noexcept;

 private:
  friend class Channel;
  explicit Sender(channel::SenderState* state) : state_(state) {}
  std::unique_ptr<channel::SenderState, channel::DeleteState> state_;
};

/// The receiving end. Used by one thread at a time; keeps the channel's memory alive. Movable.
class Receiver {
 public:
  /// Waits for the next message and copies it to `buffer`. `*size`, if given, is its size. A message
  /// of more than `capacity` bytes stays in the channel, nothing is copied, and invalid_argument is
  /// returned: receive it again with a buffer of *size bytes. Other errors: as Sender::send; broken if the sender has
  /// left and everything that it sent was received.
  Status recv(void* buffer, std::size_t capacity, std::size_t* size = nullptr) noexcept;

  /// The next message if one is there: its size. A size above `capacity` means that nothing was
  /// copied and the message stays. If the first of several lines of a message is there, waits for the others, which are
  /// about to arrive.
  std::optional<std::size_t> try_recv(void* buffer, std::size_t capacity) noexcept;

  /// Whether a message is there (its first line, at least).
  bool can_recv() const noexcept;

  /// As Sender::set_interrupt.
  void set_interrupt(bool (*interrupt)(void*), void* context) noexcept;

 private:
  friend class Channel;
  explicit Receiver(channel::ReceiverState* state) : state_(state) {}
  std::unique_ptr<channel::ReceiverState, channel::DeleteState> state_;
};

/// Memory and layout of a channel; hands out its two ends.
class Channel {
 public:
  /// For threads of this process and children that it forks afterwards.
  static Result<Channel> create(const ChannelOptions& options = {});

  /// Behind a file descriptor, fd(), to be passed to another process, which attaches to it.
  static Result<Channel> create_memfd(const ChannelOptions& options = {});

  /// Under a name ("/name", as shm_open(3)), for processes of the same user: mode 0600. Fails if the name exists.
  /// remove() removes the name.
  static Result<Channel> create_named(const std::string& name, const ChannelOptions& options = {});

  /// Attaches to the channel behind a descriptor, or under a name, of another process. Transport,
  /// capacity and placement are the creator's; `wait` and `ranks_per_pu` of `options` count.
  /// Errors: bad_format if the memory does not hold a channel of this version of smelt.
  static Result<Channel> attach(int fd, const ChannelOptions& options = {});
  static Result<Channel> open_named(const std::string& name, const ChannelOptions& options = {});
  static Result<void> remove(const std::string& name);

  /// The ends. Each end belongs to one process and can be taken once; taking it again is an error of the program and
  /// returns the status invalid_argument. If a process forks after taking an end, either process may use its copy, but
  /// only one of them. The process that uses it owns it: the end has left when that process gives it up or ends. Until
  /// one of them uses it, the end has left when all copies are gone.
  Result<Sender> sender();
  Result<Receiver> receiver();

  int fd() const noexcept;
  Transport transport() const noexcept;
  std::uint32_t capacity() const noexcept;

 private:
  explicit Channel(std::shared_ptr<channel::ChannelShared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<channel::ChannelShared> shared_;
};

}  // namespace smelt
