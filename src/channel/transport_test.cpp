// UMP and FastForward endpoints: content and order, full and empty rings, wrapping counters.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <tuple>
#include <vector>

#include "base/segment.hpp"
#include "channel/fastforward.hpp"
#include "channel/ump.hpp"

namespace smelt::channel {
namespace {

struct Ump {
  using Sender = UmpSender;
  using Receiver = UmpReceiver;
  static std::size_t bytes(std::uint32_t capacity) { return ump_bytes(capacity); }
};
struct FastForward {
  using Sender = FastForwardSender;
  using Receiver = FastForwardReceiver;
  static std::size_t bytes(std::uint32_t capacity) { return fastforward_bytes(capacity); }
};

/// Zeroed memory for one channel, shared with children.
template <class Transport>
struct Link {
  explicit Link(std::uint32_t ring) : capacity(ring), memory(*Segment::anonymous(Transport::bytes(ring))) {}
  typename Transport::Sender sender() const { return {memory.data(), capacity}; }
  typename Transport::Receiver receiver() const { return {memory.data(), capacity}; }

  std::uint32_t capacity;
  Segment memory;
};

struct Message {
  std::uint64_t number;
  std::array<std::uint64_t, 6> filling;

  static Message make(std::uint64_t number) {
    Message message{number, {}};
    for (std::size_t i = 0; i < message.filling.size(); ++i) message.filling[i] = number * 0x9e3779b97f4a7c15u + i;
    return message;
  }
  bool operator==(const Message&) const = default;
};
static_assert(sizeof(Message) == line_payload);

template <class Sender>
bool send_numbered(Sender sender, std::uint64_t count, const WaitConfig& config) {
  Waiter waiter(config);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto message = Message::make(i);
    if (!sender.send(&message, sizeof message, waiter)) return false;
  }
  return true;
}

template <class Receiver>
bool recv_numbered(Receiver receiver, std::uint64_t count, const WaitConfig& config) {
  Waiter waiter(config);
  for (std::uint64_t i = 0; i < count; ++i) {
    Message message = {};
    if (!receiver.recv(&message, sizeof message, waiter) || message != Message::make(i)) return false;
  }
  return !receiver.can_recv();
}

template <class T>
class TransportTest : public testing::Test {};
using Transports = testing::Types<Ump, FastForward>;
TYPED_TEST_SUITE(TransportTest, Transports);

TYPED_TEST(TransportTest, HoldsItsCapacityAndNoMore) {
  for (std::uint32_t capacity : {1u, 2u, 4u, 64u}) {
    Link<TypeParam> link(capacity);
    auto sender = link.sender();
    auto receiver = link.receiver();
    // Round by round from different places: an idle channel always has room for `capacity`.
    for (std::uint32_t round = 0; round < 5; ++round) {
      EXPECT_TRUE(sender.can_send(capacity));
      EXPECT_FALSE(sender.can_send(capacity + 1));
      for (std::uint64_t i = 0; i < capacity; ++i) ASSERT_TRUE(sender.try_send(&i, sizeof i));
      std::uint64_t surplus = 99;
      EXPECT_FALSE(sender.try_send(&surplus, sizeof surplus));
      for (std::uint64_t i = 0; i < capacity; ++i) {
        std::uint64_t got = 0;
        ASSERT_TRUE(receiver.try_recv(&got, sizeof got));
        EXPECT_EQ(got, i);
      }
      EXPECT_FALSE(receiver.can_recv());
      EXPECT_FALSE(receiver.try_recv(&surplus, sizeof surplus));
      const std::uint64_t one = 1;  // moves the place by one
      ASSERT_TRUE(sender.try_send(&one, sizeof one));
      ASSERT_TRUE(receiver.try_recv(&surplus, sizeof surplus));
      EXPECT_FALSE(receiver.poll());
    }
  }
}

TEST(FastForward, AReceiverKnowsTheCapacity) {
  for (const std::uint32_t capacity : {1u, 2u, 64u}) {
    const Link<FastForward> link(capacity);
    EXPECT_EQ(FastForwardReceiverSide(link.memory.data(), capacity).capacity(), capacity);
  }
}

TYPED_TEST(TransportTest, ToExpectMessagesChangesNothing) {
  Link<TypeParam> link(8);
  auto sender = link.sender();
  auto receiver = link.receiver();
  const auto content = [&] {
    return std::vector<std::byte>(link.memory.data(), link.memory.data() + link.memory.size());
  };
  for (std::uint64_t sent = 0; sent < 8; ++sent) {  // with less and less room, at the end none
    for (std::size_t bytes : {std::size_t{0}, line_payload, 2 * line_payload, 8 * line_payload, std::size_t{1} << 40}) {
      const auto before = content();
      sender.expect(bytes);
      EXPECT_EQ(content(), before) << bytes;
    }
    ASSERT_TRUE(sender.try_send(&sent, sizeof sent));
  }
  sender.expect(2 * line_payload);
  for (std::uint64_t i = 0, got = 99; i < 8; ++i) {
    ASSERT_TRUE(receiver.try_recv(&got, sizeof got));
    EXPECT_EQ(got, i);
  }
}

TYPED_TEST(TransportTest, CarriesEverySizeAndTag) {
  Link<TypeParam> link(4);
  auto sender = link.sender();
  auto receiver = link.receiver();
  Waiter waiter;
  std::array<unsigned char, line_payload> out, in;
  for (std::size_t size = 0; size <= line_payload; ++size) {
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<unsigned char>(size * 31 + i);
    const auto tag = static_cast<std::uint32_t>(size * 1000003) & max_tag;
    ASSERT_TRUE(sender.send(out.data(), size, waiter, tag));
    ASSERT_NE(receiver.peek(waiter), nullptr);
    EXPECT_EQ(receiver.size(), size);
    EXPECT_EQ(receiver.tag(), tag);
    in.fill(0xee);
    ASSERT_TRUE(receiver.recv(in.data(), size, waiter));
    EXPECT_TRUE(std::equal(in.begin(), in.begin() + size, out.begin())) << size;
    EXPECT_TRUE(std::all_of(in.begin() + size, in.end(), [](auto byte) { return byte == 0xee; })) << size;
  }
}

TYPED_TEST(TransportTest, NotifyCarriesNothing) {
  Link<TypeParam> link(2);
  auto sender = link.sender();
  auto receiver = link.receiver();
  Waiter waiter;
  ASSERT_TRUE(sender.notify(waiter));
  ASSERT_TRUE(receiver.can_recv());
  EXPECT_EQ(receiver.size(), 0u);
  EXPECT_TRUE(receiver.recv(nullptr, 0, waiter));
  EXPECT_FALSE(receiver.can_recv());
}

TYPED_TEST(TransportTest, InterruptLeavesTheChannelIntact) {
  Link<TypeParam> link(1);
  auto sender = link.sender();
  auto receiver = link.receiver();
  Waiter impatient;
  impatient.set_interrupt([](void*) { return true; }, nullptr);
  std::uint64_t value = 1;
  EXPECT_FALSE(receiver.recv(&value, sizeof value, impatient));
  EXPECT_EQ(receiver.peek(impatient), nullptr);
  ASSERT_TRUE(sender.send(&value, sizeof value, impatient));
  value = 2;
  EXPECT_FALSE(sender.send(&value, sizeof value, impatient));
  ASSERT_TRUE(receiver.recv(&value, sizeof value, impatient));
  EXPECT_EQ(value, 1u);
  EXPECT_FALSE(receiver.can_recv());
}

TYPED_TEST(TransportTest, ThreadsSeeSequenceAndContent) {
  for (const auto mode : {WaitMode::automatic, WaitMode::spin, WaitMode::yield, WaitMode::sleep}) {
    for (std::uint32_t capacity : {1u, 2u, 64u}) {
      if (mode == WaitMode::spin && capacity < 64) continue;  // a time slice per message where PUs are shared
      Link<TypeParam> link(capacity);
      WaitConfig config;
      config.mode = mode;
      const std::uint64_t count = capacity < 64 ? 1000 : 10000;
      std::thread producer([&] { EXPECT_TRUE(send_numbered(link.sender(), count, config)); });
      EXPECT_TRUE(recv_numbered(link.receiver(), count, config));
      producer.join();
    }
  }
}

TYPED_TEST(TransportTest, ManyPairsOnFewPus) {
  for (int pairs : {2, 8, 32}) {
    std::vector<Link<TypeParam>> links;
    for (int i = 0; i < pairs; ++i) links.emplace_back(16u);
    const auto config = make_wait_config(2 * pairs, 2, "auto");
    std::vector<std::thread> threads;
    for (auto& link : links) {
      threads.emplace_back([&] { EXPECT_TRUE(send_numbered(link.sender(), 2000, config)); });
      threads.emplace_back([&] { EXPECT_TRUE(recv_numbered(link.receiver(), 2000, config)); });
    }
    for (auto& thread : threads) thread.join();
  }
}

TYPED_TEST(TransportTest, ProcessesSeeSequenceAndContent) {
  for (const auto mode : {WaitMode::automatic, WaitMode::sleep}) {
    Link<TypeParam> link(16);
    WaitConfig config;
    config.mode = mode;
    config.across_processes = true;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(send_numbered(link.sender(), 5000, config) ? 0 : 1);
    EXPECT_TRUE(recv_numbered(link.receiver(), 5000, config));
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(Ump, CountersWrap) {
  for (std::uint32_t before : {1u, 5u, 64u}) {
    for (std::uint32_t wrap : {0u, 1u << 31}) {  // of the counters; of the stamps
      constexpr std::uint32_t capacity = 8;
      auto memory = *Segment::anonymous(ump_bytes(capacity));
      const std::uint32_t first = wrap - before;
      reinterpret_cast<UmpControl*>(memory.data())->acknowledged = first;
      UmpSender sender(memory.data(), capacity, first);
      UmpReceiver receiver(memory.data(), capacity, first);
      for (std::uint64_t i = 0; i < 2 * capacity; ++i) EXPECT_EQ(sender.try_send(&i, sizeof i), i < capacity);
      std::uint64_t expected = 0, got = 0;
      while (receiver.try_recv(&got, sizeof got)) EXPECT_EQ(got, expected++);
      EXPECT_EQ(expected, capacity);
      for (std::uint64_t i = 0; i < 200; ++i) {
        ASSERT_TRUE(sender.try_send(&i, sizeof i));
        ASSERT_TRUE(receiver.try_recv(&got, sizeof got));
        EXPECT_EQ(got, i);
        EXPECT_FALSE(receiver.poll());
      }
    }
  }
}

TEST(Ump, ReceiverNeverWritesASlot) {
  constexpr std::uint32_t capacity = 4;
  auto memory = *Segment::anonymous(ump_bytes(capacity));
  UmpSender sender(memory.data(), capacity);
  UmpReceiver receiver(memory.data(), capacity);
  const std::uint64_t value = 7;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(sender.try_send(&value, sizeof value));
  const auto* slots = memory.data() + sizeof(UmpControl);
  const std::vector<std::byte> before(slots, slots + capacity * sizeof(Line));
  std::uint64_t got;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(receiver.try_recv(&got, sizeof got));
  EXPECT_FALSE(receiver.poll());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), slots));
}

TYPED_TEST(TransportTest, TellsHowManyAreThere) {
  Link<TypeParam> link(8);
  auto sender = link.sender();
  auto receiver = link.receiver();
  for (int round = 0; round < 5; ++round) {
    for (std::uint32_t there = 0; there < 8; ++there) {
      for (std::uint32_t count = 1; count <= 8; ++count) EXPECT_EQ(receiver.can_recv(count), count <= there) << there;
      ASSERT_TRUE(sender.try_send(&there, sizeof there));
    }
    EXPECT_TRUE(receiver.can_recv(8));
    std::uint32_t got;
    for (int taken = 0; taken < 8; ++taken) ASSERT_TRUE(receiver.try_recv(&got, sizeof got));
    ASSERT_TRUE(sender.try_send(&got, sizeof got));  // moves the place by one
    ASSERT_TRUE(receiver.try_recv(&got, sizeof got));
    EXPECT_FALSE(receiver.poll());
  }
}

TYPED_TEST(TransportTest, RoomIsToldForAnyNumber) {
  Link<TypeParam> link(8);
  auto sender = link.sender();
  for (std::uint32_t used = 0; used <= 8; ++used) {
    for (std::uint32_t count = 1; count <= 9; ++count) EXPECT_EQ(sender.can_send(count), count + used <= 8) << used;
    static_cast<void>(sender.try_send(&used, sizeof used));
  }
}

TYPED_TEST(TransportTest, TakesShortMessagesInOneStep) {
  Link<TypeParam> link(4);
  auto sender = link.sender();
  auto receiver = link.receiver();
  Waiter waiter;
  std::uint64_t value = 5, got = 0;
  std::size_t size = 99;
  EXPECT_FALSE(receiver.try_take(&got, 8, size));
  ASSERT_TRUE(sender.send(&value, 8, waiter));
  EXPECT_FALSE(receiver.try_take(&got, 7, size)) << "too long for the buffer";
  ASSERT_TRUE(receiver.try_take(&got, 8, size));
  EXPECT_EQ(size, 8u);
  EXPECT_EQ(got, 5u);
  ASSERT_TRUE(sender.send(&value, 3, waiter, 1));
  EXPECT_FALSE(receiver.try_take(&got, 8, size)) << "its tag has a meaning";
  EXPECT_TRUE(receiver.can_recv());
}

TYPED_TEST(TransportTest, TheRestOfAMessageIsWaitedFor) {
  Link<TypeParam> link(4);
  auto sender = link.sender();
  auto receiver = link.receiver();
  Waiter impatient;
  impatient.set_interrupt([](void*) { return true; }, nullptr);
  std::uint64_t value = 5, got = 0;
  EXPECT_FALSE(receiver.recv_rest(&got, sizeof got, impatient));
  ASSERT_TRUE(sender.try_send(&value, sizeof value));
  ASSERT_TRUE(receiver.recv_rest(&got, sizeof got, impatient));
  EXPECT_EQ(got, 5u);
}

// Twice around the ring, and whenever the receiver has nothing to do: not once for each message.
TEST(Ump, AcknowledgesHalfARingAtATime) {
  for (std::uint32_t capacity : {1u, 2u, 4u, 16u, 64u}) {
    auto memory = *Segment::anonymous(ump_bytes(capacity));
    const auto& acknowledged = reinterpret_cast<UmpControl*>(memory.data())->acknowledged;
    UmpSender sender(memory.data(), capacity);
    UmpReceiver receiver(memory.data(), capacity);
    const std::uint32_t batch = std::max(1u, capacity / 2);
    std::uint32_t value = 0;
    for (std::uint32_t taken = 1; taken <= 3 * capacity; ++taken) {
      ASSERT_TRUE(sender.try_send(&value, sizeof value));
      ASSERT_TRUE(receiver.try_recv(&value, sizeof value));
      EXPECT_EQ(acknowledged.load(), taken / batch * batch) << capacity;
    }
    ASSERT_TRUE(sender.try_send(&value, sizeof value));
    ASSERT_TRUE(receiver.try_recv(&value, sizeof value));
    EXPECT_FALSE(receiver.poll());
    EXPECT_EQ(acknowledged.load(), 3 * capacity + 1);
  }
}

template <class Slot>
void expect_blocks_of_eight_lines(std::uint32_t least_capacity) {
  constexpr std::uint32_t block = 8 * (line_bytes / sizeof(Slot));
  for (std::uint32_t capacity : {least_capacity / 2, least_capacity}) {
    auto memory = *Segment::anonymous(ump_bytes<Slot>(capacity));
    BasicSender<UmpSenderSide<Slot>> sender(memory.data(), capacity);
    UmpReceiverSide<Slot> receiver(memory.data(), capacity);
    EXPECT_EQ(receiver.capacity(), capacity);
    for (std::uint32_t round = 0; round < 3; ++round) {
      for (std::uint32_t sent = 0; sent < block; ++sent) {
        EXPECT_EQ(receiver.block_in_progress(), capacity == least_capacity) << sent << " of " << block;
        ASSERT_TRUE(sender.try_send(&sent, sizeof sent));
      }
      EXPECT_FALSE(receiver.block_in_progress()) << "all of it is there";
      for (std::uint32_t taken = 1; taken <= block; ++taken) {
        receiver.release();
        if (taken < block) {
          EXPECT_FALSE(receiver.block_in_progress()) << "amid a block";
        }
      }
      receiver.idle();
    }
  }
}

TEST(Ump, ReportsWhetherABlockIsBeingFilled) {
  expect_blocks_of_eight_lines<Line>(64);
  expect_blocks_of_eight_lines<Cell>(256);
}

TEST(Layout, HeadersHoldAllOfTheirParts) {
  EXPECT_EQ(Header::make(~0u, max_tag, 63).word, ~std::uint64_t{0});
  for (const auto& [stamp, tag, size] : {std::tuple{1u, 0u, 0u}, {0u, 1u, 0u}, {0u, 0u, 1u}, {7u, max_tag, 56u}}) {
    const Header header = Header::make(stamp, tag, size);
    EXPECT_EQ(header.stamp(), stamp);
    EXPECT_EQ(header.tag(), tag);
    EXPECT_EQ(header.size(), size);
  }
  EXPECT_EQ(max_tag, (1u << 26) - 1);
}

TEST(Layout, LinesOfAMessage) {
  EXPECT_EQ(lines_of(0), 0u);
  for (std::uint32_t lines = 1; lines < 40; ++lines) {
    EXPECT_EQ(lines_of((lines - 1) * line_payload + 1), lines);
    EXPECT_EQ(lines_of(lines * line_payload), lines);
  }
}

TEST(Layout, TakesNoMoreMemoryThanItNeeds) {
  for (std::uint32_t capacity : {2u, 64u, 1024u}) {
    EXPECT_EQ(ump_bytes(capacity), 3 * separation_bytes + capacity * line_bytes);
    EXPECT_EQ(fastforward_bytes(capacity), 2 * separation_bytes + capacity * line_bytes);
  }
  EXPECT_EQ(ump_bytes(1), 4 * separation_bytes);
  EXPECT_EQ(fastforward_bytes(1), 3 * separation_bytes);
  EXPECT_EQ(ump_bytes<Cell>(4), 4 * separation_bytes);
}

TEST(Layout, WritersKeepTheirDistance) {
  EXPECT_EQ(sizeof(UmpControl) % separation_bytes, 0u);
  EXPECT_EQ(sizeof(Parking), separation_bytes);
  EXPECT_EQ(ump_bytes(1) % separation_bytes, 0u);
  EXPECT_EQ(fastforward_bytes(1) % separation_bytes, 0u);
  EXPECT_GE(ump_bytes(64), sizeof(UmpControl) + 64 * line_bytes);
}

}  // namespace
}  // namespace smelt::channel
