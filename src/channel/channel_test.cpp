// The public channel, on both transports.
#include "smelt/channel.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
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

TEST_P(ChannelTest, AnEndTakenByAnotherProcessIsTaken) {
  auto channel = *Channel::create_memfd(options_of(GetParam()));
  auto attached = *Channel::attach(channel.fd());
  auto sender = channel.sender();
  ASSERT_TRUE(sender);
  EXPECT_FALSE(attached.sender());
  EXPECT_TRUE(attached.receiver());
  EXPECT_FALSE(channel.receiver());
}

// Of what is refused: a copy of a channel's memory that lacks its last byte.
TEST_P(ChannelTest, IsRefusedWhereItIsCutShort) {
  for (const std::uint32_t capacity : {4u, 64u, 1024u}) {
    auto channel = *Channel::create_memfd(options_of(GetParam(), capacity));
    const std::size_t ump = 2 * 384 + 2 * 64 * std::size_t{capacity}, fastforward = 256 + 64 * std::size_t{capacity};
    const std::size_t whole = 256 + (GetParam() == Transport::ump ? ump : fastforward);
    Bytes content(whole);
    ASSERT_EQ(pread(channel.fd(), content.data(), whole, 0), static_cast<ssize_t>(whole));
    for (const std::size_t size : {whole, whole - 1, std::size_t{256}, std::size_t{255}}) {
      const int fd = memfd_create("copy", MFD_CLOEXEC);
      ASSERT_EQ(pwrite(fd, content.data(), size, 0), static_cast<ssize_t>(size));
      const auto attached = Channel::attach(fd);
      EXPECT_EQ(static_cast<bool>(attached), size == whole) << size << " of " << whole;
      if (!attached) {
        EXPECT_EQ(attached.error().status, Status::bad_format);
        EXPECT_EQ(attached.error().message.find("not a smelt channel: too short") != std::string::npos, size == 255);
      }
      close(fd);
    }
  }
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

/// The memory of a channel, as any process sees it that attaches to it.
class Memory {
 public:
  explicit Memory(const Channel& channel) {
    struct stat status = {};
    EXPECT_EQ(fstat(channel.fd(), &status), 0);
    size_ = static_cast<std::size_t>(status.st_size);
    data_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ, MAP_SHARED, channel.fd(), 0));
  }
  ~Memory() { munmap(data_, size_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::size_t size() const { return size_; }
  template <class T>
  T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, data_ + offset, sizeof value);
    return value;
  }
  Bytes bytes(std::size_t offset, std::size_t count) const { return {data_ + offset, data_ + offset + count}; }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

constexpr std::uint64_t header_of(std::uint32_t stamp, std::uint32_t tag, std::size_t size) {
  return std::uint64_t{stamp} << 32 | tag << 6 | size;
}

void expect_header(const Memory& memory, Transport transport, std::uint32_t capacity) {
  EXPECT_EQ(memory.at<std::uint64_t>(0), 0x6c6e68632d6c6d73u) << "magic number";
  EXPECT_EQ(memory.at<std::uint32_t>(8), 3u) << "a new layout has a new version, and this test";
  EXPECT_EQ(memory.at<std::uint32_t>(12), static_cast<std::uint32_t>(transport));
  EXPECT_EQ(memory.at<std::uint32_t>(16), capacity);
}

// Processes of one version rely on it: where the rings are, how messages are cut, and how the cells are entered and
// left.
TEST(ChannelLayout, OfUmp) {
  auto channel = *Channel::create_memfd(options_of(Transport::ump, 16));
  auto sender = *channel.sender();
  const Memory memory(channel);
  constexpr std::size_t lines = 256 + 384, cells = 256 + 384 + 16 * 64 + 384;
  EXPECT_GE(memory.size(), cells + 64 * 16);
  expect_header(memory, Transport::ump, 16);
  const auto line = [&](std::size_t number) { return memory.at<std::uint64_t>(lines + 64 * number); };
  const auto cell = [&](std::size_t number) { return memory.at<std::uint64_t>(cells + 16 * number); };

  const auto shortest = message_of(3, 1), longest = message_of(160, 2), single = message_of(20, 3);
  ASSERT_EQ(sender.send(shortest.data(), shortest.size()), Status::ok);
  EXPECT_EQ(line(0), header_of(1, 0, 3));
  EXPECT_EQ(memory.bytes(lines + 8, 3), shortest);
  ASSERT_EQ(sender.send(longest.data(), longest.size()), Status::ok);
  EXPECT_EQ(line(1), header_of(3, 1, 56)) << "the first of several";
  EXPECT_EQ(memory.at<std::uint64_t>(lines + 64 + 8), longest.size());
  EXPECT_EQ(memory.bytes(lines + 64 + 16, 48), Bytes(longest.begin(), longest.begin() + 48));
  EXPECT_EQ(line(2), header_of(5, 2, 56));
  EXPECT_EQ(line(3), header_of(7, 2, 56));
  EXPECT_EQ(memory.bytes(lines + 3 * 64 + 8, 56), Bytes(longest.end() - 56, longest.end()));
  EXPECT_EQ(line(4), 0u);

  const std::uint64_t value = 7;
  for (int i = 0; i < 7; ++i) ASSERT_EQ(sender.send(&value, sizeof value), Status::ok);
  EXPECT_EQ(line(10), header_of(21, 0, 8));
  EXPECT_EQ(line(11), 0u);
  ASSERT_EQ(sender.send(&value, sizeof value), Status::ok);
  EXPECT_EQ(line(11), header_of(23, 3, 8)) << "the eighth small one says that cells follow";
  ASSERT_EQ(sender.send(&value, sizeof value), Status::ok);
  EXPECT_EQ(line(12), 0u);
  EXPECT_EQ(cell(0), header_of(1, 0, 8));
  EXPECT_EQ(memory.at<std::uint64_t>(cells + 8), value);
  ASSERT_EQ(sender.send(single.data(), single.size()), Status::ok);
  EXPECT_EQ(cell(1), header_of(3, 4, 0)) << "back to the lines";
  EXPECT_EQ(line(12), header_of(25, 0, 20));
}

TEST(ChannelLayout, OfFastForward) {
  auto channel = *Channel::create_memfd(options_of(Transport::fastforward, 16));
  auto sender = *channel.sender();
  auto receiver = *channel.receiver();
  const Memory memory(channel);
  EXPECT_GE(memory.size(), 256 + 256 + 16 * 64u);
  expect_header(memory, Transport::fastforward, 16);
  std::uint64_t value = 7;
  for (int i = 0; i < 12; ++i) ASSERT_EQ(sender.send(&value, sizeof value), Status::ok);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(memory.at<std::uint64_t>(512 + 64 * i), header_of(1, 0, 8));
  ASSERT_EQ(receiver.recv(&value, sizeof value), Status::ok);
  EXPECT_EQ(memory.at<std::uint64_t>(512), 0u) << "empty again";
  EXPECT_EQ(memory.at<std::uint64_t>(512 + 64), header_of(1, 0, 8));
}

TEST(ChannelLayout, OtherMessagesEndARunOfSmallOnes) {
  auto channel = *Channel::create_memfd(options_of(Transport::ump, 64));
  auto sender = *channel.sender();
  const Memory memory(channel);
  const auto line = [&](std::size_t number) { return memory.at<std::uint64_t>(256 + 384 + 64 * number); };
  const Bytes other(57);
  std::size_t sent = 0;
  for (const std::size_t size : {20u, 56u, 57u, 9u}) {
    for (int i = 0; i < 7; ++i, ++sent) ASSERT_EQ(sender.send(other.data(), 8), Status::ok);
    ASSERT_EQ(sender.send(other.data(), size), Status::ok);
    sent += size > 56 ? 2 : 1;
  }
  for (std::size_t i = 0; i < sent; ++i)
    EXPECT_NE(line(i), header_of(static_cast<std::uint32_t>(2 * i + 1), 3, 8)) << i;
  for (int i = 0; i < 8; ++i) ASSERT_EQ(sender.send(other.data(), 1), Status::ok);
  EXPECT_EQ(line(sent + 7), header_of(static_cast<std::uint32_t>(2 * (sent + 7) + 1), 3, 1));
}

TEST_P(ChannelTest, TrySendSendsAllOrNothing) {
  constexpr std::uint32_t capacity = 8;
  const Bytes data(600);
  for (const auto& [bytes, lines] :
       {std::pair{9u, 1u}, {56u, 1u}, {57u, 2u}, {104u, 2u}, {105u, 3u}, {160u, 3u}, {161u, 4u}, {440u, 8u}}) {
    for (std::uint32_t room = 0; room <= capacity; ++room) {
      auto channel = *Channel::create(options_of(GetParam(), capacity));
      auto sender = *channel.sender();
      EXPECT_EQ(sender.max_try_bytes(), 440u);
      for (std::uint32_t i = room; i < capacity; ++i) ASSERT_TRUE(sender.try_send(data.data(), 56));
      EXPECT_EQ(sender.can_send(), room > 0);
      EXPECT_EQ(sender.try_send(data.data(), bytes), lines <= room) << bytes << " bytes in " << room << " lines";
    }
  }
  for (const auto& [small, most] : {std::pair{1u, 56u}, {2u, 104u}, {4u, 216u}}) {
    auto channel = *Channel::create(options_of(GetParam(), small));
    EXPECT_EQ(channel.sender()->max_try_bytes(), most);
    EXPECT_EQ(channel.capacity(), small);
    EXPECT_EQ(channel.transport(), GetParam());
  }
}

// The cells are left by a cell of their own: not before the message that goes back to the lines can be sent.
TEST(ChannelCells, AreLeftOnlyIfThereIsRoomInTheLines) {
  auto channel = *Channel::create(options_of(Transport::ump, 8));
  auto sender = *channel.sender();
  auto receiver = *channel.receiver();
  std::uint64_t value = 0;
  for (; value < 8; ++value) ASSERT_TRUE(sender.try_send(&value, sizeof value));
  ASSERT_TRUE(sender.try_send(&value, sizeof value)) << "a cell";
  EXPECT_FALSE(sender.can_send()) << "of 56 bytes none";
  const auto message = message_of(20, 3);
  EXPECT_FALSE(sender.try_send(message.data(), message.size()));
  sender.set_interrupt([](void*) { return true; }, nullptr);
  EXPECT_EQ(sender.send(message.data(), message.size()), Status::timed_out);
  std::uint64_t got = 99;
  for (std::uint64_t i = 0; i < 9; ++i) {
    ASSERT_TRUE(receiver.can_recv());
    ASSERT_EQ(receiver.try_recv(&got, sizeof got), sizeof got);
    EXPECT_EQ(got, i);
  }
  EXPECT_FALSE(receiver.can_recv()) << "the cell that leads back is no message";
  EXPECT_EQ(receiver.try_recv(&got, sizeof got), std::nullopt);
  Bytes buffer(20);
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(sender.send(message.data(), message.size()), Status::ok);
    EXPECT_TRUE(receiver.can_recv());
    ASSERT_EQ(receiver.recv(buffer.data(), buffer.size()), Status::ok);
    EXPECT_EQ(buffer, message);
  }
}

TEST(ChannelCells, AreFourToALine) {
  auto channel = *Channel::create(options_of(Transport::ump, 8));
  auto sender = *channel.sender();
  auto receiver = *channel.receiver();
  std::uint64_t value = 0, got = 0;
  for (; value < 8; ++value) ASSERT_TRUE(sender.try_send(&value, sizeof value));
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(receiver.try_recv(&got, sizeof got), sizeof got);
  for (; value < 8 + 32; ++value) {
    EXPECT_TRUE(sender.can_send());
    ASSERT_TRUE(sender.try_send(&value, sizeof value));
  }
  EXPECT_FALSE(sender.can_send());
  EXPECT_FALSE(sender.try_send(&value, sizeof value));
  EXPECT_FALSE(sender.try_send(&value, 0));
  const Bytes line(20);
  EXPECT_FALSE(sender.try_send(line.data(), line.size())) << "no cell to leave by";
  for (std::uint64_t i = 8; i < 8 + 32; ++i) {
    ASSERT_EQ(receiver.try_recv(&got, sizeof got), sizeof got);
    EXPECT_EQ(got, i);
  }
  EXPECT_FALSE(receiver.can_recv());
}

// As fewer messages than a batch are acknowledged only by a receiver that finds nothing, it takes all of them.
TEST(ChannelCells, TakeASmallMessageThatHadToWaitForRoom) {
  for (const std::size_t size : {0u, 7u, 8u, 9u}) {
    auto channel = *Channel::create_memfd(options_of(Transport::ump, 8));
    auto sender = *channel.sender();
    auto receiver = *channel.receiver();
    const Memory memory(channel);
    Bytes bytes(16);
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(sender.try_send(bytes.data(), 8));
    while (receiver.try_recv(bytes.data(), bytes.size())) {}
    for (int i = 0; i < 32; ++i) ASSERT_TRUE(sender.try_send(bytes.data(), 8));
    sender.set_interrupt(
        [](void* other) {
          for (Bytes got(16); static_cast<Receiver*>(other)->try_recv(got.data(), got.size());) {}
          return false;
        },
        &receiver);
    ASSERT_EQ(sender.send(bytes.data(), size), Status::ok);
    constexpr std::size_t cells = 256 + 384 + 8 * 64 + 384;
    const bool small = size <= 8;
    EXPECT_EQ(memory.at<std::uint64_t>(cells), header_of(65, small ? 0 : 4, small ? size : 0)) << size;
    EXPECT_EQ(receiver.try_recv(bytes.data(), bytes.size()), size);
  }
}

TEST(ChannelOptionsTest, AreChecked) {
  for (std::uint32_t capacity : {0u, 3u, 100u, 1u << 21, ~0u}) {
    EXPECT_EQ(Channel::create(options_of(Transport::ump, capacity)).error().status, Status::invalid_argument);
  }
  EXPECT_TRUE(Channel::create(options_of(Transport::ump, 1u << 20)));
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

TEST(ChannelAttach, RefusesMemoryWithoutAChannel) {
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
  auto* header = static_cast<std::uint32_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, channel.fd(), 0));
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
