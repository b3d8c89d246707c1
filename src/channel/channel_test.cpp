// The public channel, on both transports.
#include "smelt/channel.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace smelt {
namespace {

using Bytes = std::vector<unsigned char>;

ChannelOptions options_of(Transport transport, std::uint32_t capacity = 64, const char* wait = "auto") {
  ChannelOptions options;
  options.transport = transport;
  options.capacity = capacity;
  options.wait = wait;
  return options;
}

Bytes message_of(std::size_t size, std::uint64_t number) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(number * 131 + i * 7 + (i >> 8));
  return bytes;
}

/// The size of message `number` in a reproducible mix: runs of small ones, lines, long ones.
std::size_t mixed_size(std::uint64_t number) {
  std::minstd_rand random(static_cast<unsigned>(number / 20 + 1));
  random.discard(3);
  switch (random() % 4) {
    case 0: return 8;
    case 1: return number % 9;
    case 2: return number % 57;
    default: return number % 700;
  }
}

void send_mix(Sender& sender, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto message = message_of(mixed_size(i), i);
    ASSERT_EQ(sender.send(message.data(), message.size()), Status::ok);
  }
}

void recv_mix(Receiver& receiver, std::uint64_t count) {
  Bytes buffer(1000);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::size_t size = 0;
    ASSERT_EQ(receiver.recv(buffer.data(), buffer.size(), &size), Status::ok);
    const auto expected = message_of(mixed_size(i), i);
    ASSERT_EQ(size, expected.size()) << i;
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), buffer.begin())) << i;
  }
}

class ChannelTest : public testing::TestWithParam<Transport> {};
INSTANTIATE_TEST_SUITE_P(Transports, ChannelTest, testing::Values(Transport::ump, Transport::fastforward),
                         [](const auto& info) { return info.param == Transport::ump ? "Ump" : "FastForward"; });

TEST_P(ChannelTest, CarriesEverySize) {
  auto channel = *Channel::create(options_of(GetParam(), 16));
  auto sender = *channel.sender();
  auto receiver = *channel.receiver();
  const std::size_t sizes[] = {0, 1, 7, 8, 9, 48, 55, 56, 57, 104, 105, 112, 113, 1000, 100'000, 0, 8};
  std::thread producer([&] {
    std::uint64_t number = 0;
    for (const auto size : sizes) {
      const auto message = message_of(size, number++);
      EXPECT_EQ(sender.send(message.data(), size), Status::ok);
    }
  });
  std::uint64_t number = 0;
  for (const auto size : sizes) {
    Bytes buffer(100'001, 0xee);
    std::size_t got = 0;
    EXPECT_EQ(receiver.recv(buffer.data(), buffer.size(), &got), Status::ok);
    EXPECT_EQ(got, size);
    EXPECT_EQ(Bytes(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size)), message_of(size, number++));
    EXPECT_EQ(buffer[size], 0xee);
  }
  producer.join();
}

TEST_P(ChannelTest, MixedSizesInOrderInEveryWaitMode) {
  for (const char* wait : {"auto", "spin", "yield", "sleep"}) {
    for (std::uint32_t capacity : {1u, 2u, 64u}) {
      auto channel = *Channel::create(options_of(GetParam(), capacity, wait));
      auto sender = *channel.sender();
      auto receiver = *channel.receiver();
      // A spinning end on a PU that it shares holds the other one up for whole time slices.
      const std::uint64_t count = std::string_view(wait) == "spin" ? 100 : 600;
      std::thread producer([&] { send_mix(sender, count); });
      recv_mix(receiver, count);
      producer.join();
    }
  }
}

TEST_P(ChannelTest, NonBlockingCallsNeverWait) {
  auto channel = *Channel::create(options_of(GetParam(), 4));
  auto sender = *channel.sender();
  auto receiver = *channel.receiver();
  std::uint64_t value = 0;
  EXPECT_FALSE(receiver.can_recv());
  EXPECT_EQ(receiver.try_recv(&value, sizeof value), std::nullopt);
  for (int round = 0; round < 50; ++round) {  // long enough to go through all ways of sending
    std::uint64_t sent = 0, got = 0;
    while (sender.try_send(&sent, sizeof sent)) ++sent;
    EXPECT_GE(sent, 4u);
    EXPECT_FALSE(sender.try_send(&sent, sizeof sent));
    while (receiver.can_recv()) {
      ASSERT_EQ(receiver.try_recv(&value, sizeof value), sizeof value);
      EXPECT_EQ(value, got++);
    }
    EXPECT_EQ(receiver.try_recv(&value, sizeof value), std::nullopt);
    EXPECT_EQ(got, sent);
    EXPECT_TRUE(sender.can_send());
    if (round % 3 != 0) continue;
    const auto longest = message_of(sender.max_try_bytes(), 5);
    Bytes buffer(longest.size() + 1);
    EXPECT_FALSE(sender.try_send(buffer.data(), buffer.size()));
    ASSERT_TRUE(sender.try_send(longest.data(), longest.size()));
    EXPECT_FALSE(sender.can_send());
    EXPECT_TRUE(receiver.can_recv());
    ASSERT_EQ(receiver.try_recv(buffer.data(), buffer.size()), longest.size());
    buffer.pop_back();
    EXPECT_EQ(buffer, longest);
    EXPECT_FALSE(receiver.can_recv());
  }
}

TEST_P(ChannelTest, TooSmallBufferLeavesTheMessage) {
  auto channel = *Channel::create(options_of(GetParam()));
  auto sender = *channel.sender();
  auto receiver = *channel.receiver();
  for (const std::size_t size : {8u, 56u, 500u, 8u}) {
    for (int repeat = 0; repeat < 12; ++repeat) {
      const auto message = message_of(size, size);
      ASSERT_EQ(sender.send(message.data(), size), Status::ok);
      Bytes small(size - 1, 0xee), buffer(size);
      std::size_t got = 0;
      EXPECT_EQ(receiver.recv(small.data(), small.size(), &got), Status::invalid_argument);
      EXPECT_EQ(got, size);
      EXPECT_EQ(small, Bytes(size - 1, 0xee));
      EXPECT_EQ(receiver.try_recv(small.data(), small.size()), size);
      EXPECT_EQ(receiver.recv(buffer.data(), buffer.size(), &got), Status::ok);
      EXPECT_EQ(buffer, message);
    }
  }
}

TEST_P(ChannelTest, NotifyIsAnEmptyMessage) {
  auto channel = *Channel::create(options_of(GetParam()));
  auto sender = *channel.sender();
  auto receiver = *channel.receiver();
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(sender.notify(), Status::ok);
    std::size_t size = 1;
    EXPECT_EQ(receiver.recv(nullptr, 0, &size), Status::ok);
    EXPECT_EQ(size, 0u);
  }
}

TEST_P(ChannelTest, InterruptTimesOutOrBreaks) {
  auto channel = *Channel::create(options_of(GetParam(), 2));
  auto sender = *channel.sender();
  auto receiver = *channel.receiver();
  sender.set_interrupt([](void*) { return true; }, nullptr);
  receiver.set_interrupt([](void*) { return true; }, nullptr);
  std::uint64_t value = 3;
  EXPECT_EQ(receiver.recv(&value, sizeof value), Status::timed_out);
  EXPECT_EQ(sender.send(&value, sizeof value), Status::ok);
  EXPECT_EQ(sender.send(&value, sizeof value), Status::ok);
  EXPECT_EQ(sender.send(&value, sizeof value), Status::timed_out);
  EXPECT_EQ(receiver.recv(&value, sizeof value), Status::ok);
  EXPECT_EQ(receiver.recv(&value, sizeof value), Status::ok);
  EXPECT_EQ(receiver.recv(&value, sizeof value), Status::timed_out);
  const Bytes longer(1000);
  Bytes buffer(1000);
  EXPECT_EQ(sender.send(longer.data(), longer.size()), Status::broken);
  EXPECT_EQ(sender.send(&value, sizeof value), Status::broken);
  EXPECT_FALSE(sender.can_send());
  EXPECT_EQ(receiver.recv(buffer.data(), buffer.size()), Status::broken);
  EXPECT_EQ(receiver.recv(buffer.data(), buffer.size()), Status::broken);
}

TEST_P(ChannelTest, EachEndIsTakenOnce) {
  auto channel = *Channel::create(options_of(GetParam()));
  auto sender = channel.sender();
  auto receiver = channel.receiver();
  ASSERT_TRUE(sender && receiver);
  EXPECT_EQ(channel.sender().error().status, Status::invalid_argument);
  EXPECT_EQ(channel.receiver().error().status, Status::invalid_argument);
}

/// The child runs `child` and reports by its exit status whether no check failed.
template <class Child, class Parent>
void in_two_processes(Child child, Parent parent) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    child();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  parent();
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST_P(ChannelTest, ForkedProcesses) {
  auto channel = *Channel::create(options_of(GetParam(), 16));
  auto sender = *channel.sender();
  auto receiver = *channel.receiver();
  in_two_processes([&] { send_mix(sender, 1000); }, [&] { recv_mix(receiver, 1000); });
}

TEST_P(ChannelTest, ProcessesMeetAtADescriptor) {
  auto channel = *Channel::create_memfd(options_of(GetParam(), 16, "sleep"));
  in_two_processes(
      [&] {
        auto attached = Channel::attach(channel.fd());
        ASSERT_TRUE(attached) << attached.error().message;
        EXPECT_EQ(attached->capacity(), 16u);
        EXPECT_EQ(attached->transport(), GetParam());
        auto sender = *attached->sender();
        send_mix(sender, 300);
      },
      [&] {
        auto receiver = *channel.receiver();
        recv_mix(receiver, 300);
      });
}

TEST_P(ChannelTest, ProcessesMeetAtAName) {
  const auto name = "/smelt-test-channel-" + std::to_string(getpid());
  auto channel = Channel::create_named(name, options_of(GetParam(), 16));
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_FALSE(Channel::create_named(name, options_of(GetParam(), 16)));
  in_two_processes(
      [&] {
        auto opened = Channel::open_named(name);
        ASSERT_TRUE(opened) << opened.error().message;
        auto receiver = *opened->receiver();
        recv_mix(receiver, 300);
      },
      [&] {
        auto sender = *channel->sender();
        send_mix(sender, 300);
      });
  EXPECT_TRUE(Channel::remove(name));
  EXPECT_EQ(Channel::open_named(name).error().status, Status::not_found);
}

TEST_P(ChannelTest, ManyChannelsOnFewPus) {
  for (int pairs : {1, 8, 32}) {
    std::vector<std::thread> threads;
    for (int i = 0; i < pairs; ++i) {
      auto options = options_of(GetParam(), 16);
      options.ranks_per_pu = pairs;
      auto channel = *Channel::create(options);
      threads.emplace_back([sender = *channel.sender()]() mutable { send_mix(sender, 300); });
      threads.emplace_back([receiver = *channel.receiver()]() mutable { recv_mix(receiver, 300); });
    }
    for (auto& thread : threads) thread.join();
  }
}

TEST(ChannelOptionsTest, AreChecked) {
  for (std::uint32_t capacity : {0u, 3u, 100u, 1u << 21, ~0u}) {
    EXPECT_EQ(Channel::create(options_of(Transport::ump, capacity)).error().status, Status::invalid_argument);
  }
  EXPECT_EQ(Channel::create(options_of(static_cast<Transport>(9))).error().status, Status::invalid_argument);
  EXPECT_EQ(Channel::create(options_of(Transport::ump, 16, "nap")).error().status, Status::invalid_argument);
}

TEST(ChannelOptionsTest, PlacementNeedsAnExistingNode) {
  auto options = options_of(Transport::ump);
  options.numa_node = 0;
  EXPECT_TRUE(Channel::create(options));
  options.numa_node = 1 << 16;
  EXPECT_EQ(Channel::create(options).error().status, Status::not_found);
  const auto name = "/smelt-test-unplaced-" + std::to_string(getpid());
  EXPECT_FALSE(Channel::create_named(name, options));
  EXPECT_FALSE(Channel::remove(name));  // nothing is left behind
}

TEST(ChannelAttach, RefusesWhatIsNoChannel) {
  const int fd = memfd_create("not-a-channel", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(Channel::attach(fd).error().status, Status::bad_format);  // empty
  ASSERT_EQ(ftruncate(fd, 16), 0);
  EXPECT_EQ(Channel::attach(fd).error().status, Status::bad_format);  // shorter than a header
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  EXPECT_EQ(Channel::attach(fd).error().status, Status::bad_format);  // no magic number
  close(fd);
  EXPECT_FALSE(Channel::attach(-1));
}

TEST(ChannelAttach, RefusesDamagedHeaders) {
  auto channel = *Channel::create_memfd(options_of(Transport::ump, 16));
  auto* header = static_cast<std::uint32_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, channel.fd(), 0));
  ASSERT_NE(header, MAP_FAILED);
  for (const int word : {2, 3, 4}) {  // version, transport, capacity
    const auto old = header[word];
    for (const std::uint32_t bad : {0u, 77u, 1u << 20, ~0u}) {
      header[word] = bad;
      EXPECT_EQ(Channel::attach(channel.fd()).error().status, Status::bad_format) << word << ' ' << bad;
    }
    header[word] = old;
  }
  EXPECT_TRUE(Channel::attach(channel.fd()));
  munmap(header, 4096);
}

}  // namespace
}  // namespace smelt
