// An end of a channel that leaves: the other one gets what was sent, then is told, and never waits for ever.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "smelt/channel.hpp"

namespace smelt {
namespace {

/// A second is promised; the machine may be busy with something else.
constexpr std::uint64_t longest_wait_ns = 5'000'000'000;

void pause_us(std::uint64_t us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

std::uint64_t seed() {
  const char* const value = std::getenv("SMELT_TEST_SEED");
  return value == nullptr ? 31 : std::strtoull(value, nullptr, 10);
}

enum class LeaveKind { destroyed, exits, killed };

struct TestCase {
  Transport transport = Transport::ump;
  std::uint32_t capacity = 16;
  std::string wait = "auto";
  std::size_t bytes = 8;
  int messages = 0;  ///< that are moved before one end leaves
  std::uint64_t late_us = 0;

  ChannelOptions options() const {
    ChannelOptions result;
    result.transport = transport;
    result.capacity = capacity;
    result.wait = wait;
    return result;
  }
  std::string describe() const {
    return std::to_string(static_cast<int>(transport)) + ", capacity " + std::to_string(capacity) + ", " + wait + ", " +
           std::to_string(messages) + " of " + std::to_string(bytes) + " bytes";
  }
};

TestCase random_case(std::mt19937_64& random) {
  const char* const waits[] = {"auto", "spin", "yield", "sleep"};
  const std::size_t sizes[] = {0, 8, 40, 56, 57, 500};
  TestCase test_case;
  test_case.transport = random() % 2 == 0 ? Transport::ump : Transport::fastforward;
  test_case.capacity = 1u << random() % 7;
  test_case.wait = waits[random() % 4];
  test_case.bytes = sizes[random() % 6];
  test_case.messages = static_cast<int>(random() % 3 * (random() % 100));
  test_case.late_us = random() % 3 * (random() % 1000);
  return test_case;
}

void send_all(Sender& sender, const TestCase& test_case) {
  std::vector<unsigned char> message(test_case.bytes);
  for (int i = 0; i < test_case.messages; ++i) {
    if (!message.empty()) message[0] = static_cast<unsigned char>(i);
    if (sender.send(message.data(), message.size()) != Status::ok) fprintf(stderr, "not sent: %d\n", i);
  }
  pause_us(test_case.late_us);
}

/// Receives what there is, and is told then. How long that took.
std::uint64_t receive_all(Receiver& receiver, const TestCase& test_case) {
  std::vector<unsigned char> message(test_case.bytes + 1);
  for (int i = 0; i < test_case.messages; ++i) {
    std::size_t size = 0;
    EXPECT_EQ(receiver.recv(message.data(), message.size(), &size), Status::ok) << test_case.describe() << ": " << i;
    EXPECT_EQ(size, test_case.bytes);
    if (test_case.bytes > 0) {
      EXPECT_EQ(message[0], static_cast<unsigned char>(i));
    }
  }
  const auto begun = monotonic_ns();
  EXPECT_EQ(receiver.recv(message.data(), message.size()), Status::broken) << test_case.describe();
  const auto waited = monotonic_ns() - begun;
  EXPECT_LT(waited, longest_wait_ns + test_case.late_us * 1000);
  EXPECT_EQ(receiver.recv(message.data(), message.size()), Status::broken);
  EXPECT_FALSE(receiver.try_recv(message.data(), message.size()));
  EXPECT_FALSE(receiver.can_recv());
  return waited;
}

/// Sends until told that nobody receives.
void send_on(Sender& sender, const TestCase& test_case) {
  const std::vector<unsigned char> message(test_case.bytes);
  Status status = Status::ok;
  int sent = -1;
  for (; status == Status::ok && sent < 100'000; ++sent) status = sender.send(message.data(), message.size());
  EXPECT_EQ(status, Status::broken) << test_case.describe();
  EXPECT_GE(sent, test_case.messages);
  EXPECT_EQ(sender.send(message.data(), message.size()), Status::broken);
  EXPECT_FALSE(sender.can_send());
  EXPECT_FALSE(sender.try_send(message.data(), message.size()));
}

void receive_some(Receiver& receiver, const TestCase& test_case) {
  std::vector<unsigned char> message(test_case.bytes + 1);
  for (int i = 0; i < test_case.messages; ++i) (void)receiver.recv(message.data(), message.size());
  pause_us(test_case.late_us);
}

/// In a child, which ends in that way.
template <class Body>
pid_t in_child(LeaveKind way, Body body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  body();
  if (way == LeaveKind::killed) raise(SIGKILL);
  while (way == LeaveKind::destroyed) pause_us(1000);  // it lives on
  _exit(0);
}

void end(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST(ChannelLeaving, ThreadsAreTold) {
  std::mt19937_64 random(seed());
  std::uint64_t longest = 0;
  for (int turn = 0; turn < 80 && !HasFailure(); ++turn) {
    const TestCase test_case = random_case(random);
    auto channel = *Channel::create(test_case.options());
    auto sender = std::make_unique<Sender>(*channel.sender());
    auto receiver = std::make_unique<Receiver>(*channel.receiver());
    if (turn % 2 == 0) {
      std::thread other([&] {
        send_all(*sender, test_case);
        sender.reset();
      });
      longest = std::max(longest, receive_all(*receiver, test_case));
      other.join();
    } else {
      std::thread other([&] {
        receive_some(*receiver, test_case);
        receiver.reset();
      });
      send_on(*sender, test_case);
      other.join();
    }
  }
  printf("seed %llu: longest wait %.1f ms\n", static_cast<unsigned long long>(seed()),
         static_cast<double>(longest) * 1e-6);
}

TEST(ProcessesLeavingAChannel, AreTold) {
  std::mt19937_64 random(seed());
  std::uint64_t longest = 0;
  for (int turn = 0; turn < 48 && !HasFailure(); ++turn) {
    const TestCase test_case = random_case(random);
    const LeaveKind way = static_cast<LeaveKind>(turn % 3);
    auto channel = *Channel::create_memfd(test_case.options());
    if (turn / 3 % 2 == 0) {
      const pid_t pid = in_child(way, [&] {
        auto sender = std::make_unique<Sender>(*channel.sender());
        send_all(*sender, test_case);
        if (way != LeaveKind::destroyed) (void)sender.release();
      });
      auto receiver = *channel.receiver();
      longest = std::max(longest, receive_all(receiver, test_case));
      end(pid);
    } else {
      const pid_t pid = in_child(way, [&] {
        auto receiver = std::make_unique<Receiver>(*channel.receiver());
        receive_some(*receiver, test_case);
        if (way != LeaveKind::destroyed) (void)receiver.release();
      });
      auto sender = *channel.sender();
      send_on(sender, test_case);
      end(pid);
    }
  }
  printf("seed %llu: longest wait %.1f ms\n", static_cast<unsigned long long>(seed()),
         static_cast<double>(longest) * 1e-6);
}

// As with pipes: both ends are there before the fork, and each process closes the one that it does not use.
TEST(ProcessesLeavingAChannel, CopiesThatAForkedProcessDoesNotUseDoNotCount) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{40}, std::size_t{300}}) {
    const TestCase test_case{.bytes = bytes, .messages = 100, .late_us = 100'000};
    auto channel = *Channel::create(test_case.options());
    auto sender = std::make_unique<Sender>(*channel.sender());
    auto receiver = std::make_unique<Receiver>(*channel.receiver());
    const pid_t pid = in_child(LeaveKind::killed, [&] {
      receiver.reset();
      pause_us(100'000);  // the parent has closed its copy of the sender long ago
      send_all(*sender, test_case);
    });
    sender.reset();
    std::vector<unsigned char> message(bytes);
    for (int i = 0; i < test_case.messages; ++i) {
      ASSERT_EQ(receiver->recv(message.data(), message.size()), Status::ok) << bytes << ", " << i;
    }
    EXPECT_EQ(receiver->recv(message.data(), message.size()), Status::broken);
    waitpid(pid, nullptr, 0);
  }
}

// The parent keeps its copy of the end that the child uses, and does not use it.
TEST(ProcessesLeavingAChannel, TheProcessThatUsesACopyOwnsTheEnd) {
  for (const auto transport : {Transport::ump, Transport::fastforward}) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{40}, std::size_t{300}}) {
      const TestCase test_case{.transport = transport, .bytes = bytes, .messages = 5};
      auto channel = *Channel::create(test_case.options());
      auto sender = *channel.sender();
      auto receiver = *channel.receiver();
      const pid_t pid = in_child(LeaveKind::killed, [&] { send_all(sender, test_case); });
      receive_all(receiver, test_case);
      waitpid(pid, nullptr, 0);
    }
  }
}

/// The child gives its copy up, or dies, before it has used it; the parent gives up its own before or after that.
void expect_the_last_copy_to_count(Channel channel, LeaveKind way, bool parent_first) {
  auto sender = std::make_unique<Sender>(*channel.sender());
  auto receiver = std::make_unique<Receiver>(*channel.receiver());
  void* const shared =
      mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const child_leaves = new (shared) std::atomic<bool>(false);
  const pid_t pid = in_child(way, [&] {
    receiver.reset();
    pause_us(parent_first ? 100'000 : 0);
    child_leaves->store(true);
    if (way == LeaveKind::destroyed) sender.reset();
    if (way != LeaveKind::destroyed) (void)sender.release();
  });
  pause_us(parent_first ? 0 : 100'000);
  sender.reset();
  std::uint64_t word = 0;
  EXPECT_EQ(receiver->recv(&word, sizeof word), Status::broken);
  EXPECT_TRUE(child_leaves->load()) << "the child still had its copy";
  end(pid);
  munmap(shared, sizeof(std::atomic<bool>));
}

TEST(ProcessesLeavingAChannel, TheLastCopyIsTheEnd) {
  for (const bool named : {false, true}) {
    for (const LeaveKind way : {LeaveKind::destroyed, LeaveKind::exits, LeaveKind::killed}) {
      for (const bool parent_first : {false, true}) {
        expect_the_last_copy_to_count(named ? *Channel::create_memfd({}) : *Channel::create({}), way, parent_first);
      }
    }
  }
}

// A program without standard input: the descriptor of the ends may be 0, or that of a lock.
TEST(ProcessesLeavingAChannel, TheLastCopyIsTheEndWithoutStandardInput) {
  const int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
  auto named = *Channel::create_memfd({});
  close(0);
  expect_the_last_copy_to_count(*Channel::create({}), LeaveKind::killed, true);
  ASSERT_EQ(fcntl(0, F_GETFD), -1);
  expect_the_last_copy_to_count(std::move(named), LeaveKind::killed, true);
  if (input >= 0) {
    dup2(input, 0);
    close(input);
  }
}

// A fork that has nothing to do with the channel, whose ends are not used between that and the end.
TEST(ProcessesLeavingAChannel, AForkForAnotherProgramChangesNothing) {
  auto channel = *Channel::create({});
  auto sender = std::make_unique<Sender>(*channel.sender());
  auto receiver = *channel.receiver();
  std::thread waiting([&] {
    std::uint64_t word = 0;
    EXPECT_EQ(receiver.recv(&word, sizeof word), Status::broken);
  });
  pause_us(10'000);
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sleep", "sleep", "100", nullptr);
    _exit(1);
  }
  pause_us(10'000);
  sender.reset();
  waiting.join();
  end(pid);
}

TEST(ProcessesLeavingAChannel, AParentThatForksOthersIsStillNoticed) {
  const TestCase test_case{.messages = 50};
  auto channel = *Channel::create_memfd(test_case.options());
  const pid_t pid = in_child(LeaveKind::killed, [&] {
    auto sender = std::make_unique<Sender>(*channel.sender());
    send_all(*sender, TestCase{.messages = 25});
    if (fork() == 0) _exit(0);
    const std::vector<unsigned char> long_one(100);
    (void)sender->send(long_one.data(), long_one.size());
    (void)sender.release();
  });
  auto receiver = *channel.receiver();
  std::vector<unsigned char> message(100);
  for (int i = 0; i < 26; ++i) ASSERT_EQ(receiver.recv(message.data(), message.size()), Status::ok);
  EXPECT_EQ(receiver.recv(message.data(), message.size()), Status::broken);
  waitpid(pid, nullptr, 0);
}

/// How often this thread has called read(2); nothing where the kernel does not count it.
std::optional<std::uint64_t> reads_of_this_thread() {
  std::ifstream file("/proc/thread-self/io");
  std::string name;
  for (std::uint64_t count = 0; file >> name >> count;) {
    if (name == "syscr:") return count;
  }
  return std::nullopt;
}

// A look is a read of /proc, far dearer than a poll.
TEST(ProcessesLeavingAChannel, ALivingOneIsLookedAtEveryTwentyMilliseconds) {
  if (!reads_of_this_thread()) GTEST_SKIP() << "this kernel does not count the reads of a thread";
  auto channel = *Channel::create_memfd(TestCase{.wait = "spin"}.options());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = in_child(LeaveKind::destroyed, [&] {
    (void)std::make_unique<Sender>(*channel.sender()).release();
    (void)!write(ends[1], "!", 1);
  });
  char taken = 0;
  ASSERT_EQ(read(ends[0], &taken, 1), 1);
  auto receiver = *channel.receiver();
  struct Wait {
    std::uint64_t begun = monotonic_ns();
    int calls = 0;
  } wait;
  receiver.set_interrupt(
      [](void* context) {
        auto& self = *static_cast<Wait*>(context);
        return ++self.calls > 10 && monotonic_ns() - self.begun > 100'000'000;
      },
      &wait);
  const auto before = *reads_of_this_thread();
  std::uint64_t word = 0;
  EXPECT_EQ(receiver.recv(&word, sizeof word), Status::timed_out);
  const auto looks = (monotonic_ns() - wait.begun) / 20'000'000 + 1;
  const auto after = *reads_of_this_thread();
  const auto of_counting = *reads_of_this_thread() - after;
  EXPECT_GE(after - before, of_counting + 1);
  EXPECT_LE(after - before, of_counting + looks);
  end(pid);
  close(ends[0]);
  close(ends[1]);
}

// Between the receiver's look at the ring and its look at the sender: everything has been sent, and the sender is gone.
TEST(ChannelLeaving, RightAfterTheLastMessageIsNotBeforeIt) {
  for (const auto transport : {Transport::ump, Transport::fastforward}) {
    for (const std::string wait : {"auto", "spin", "yield", "sleep"}) {
      const TestCase test_case{.transport = transport, .wait = wait};
      auto channel = *Channel::create(test_case.options());
      auto receiver = *channel.receiver();
      struct Last {
        std::unique_ptr<Sender> sender;
      } last{std::make_unique<Sender>(*channel.sender())};
      receiver.set_interrupt(
          [](void* context) {
            auto& sender = static_cast<Last*>(context)->sender;
            const std::uint64_t word = 7;
            if (sender != nullptr) {
              EXPECT_EQ(sender->send(&word, sizeof word), Status::ok);
            }
            sender.reset();
            return false;
          },
          &last);
      std::uint64_t word = 0;
      EXPECT_EQ(receiver.recv(&word, sizeof word), Status::ok);
      EXPECT_EQ(word, 7u);
      EXPECT_EQ(receiver.recv(&word, sizeof word), Status::broken);
    }
  }
}

}  // namespace
}  // namespace smelt
