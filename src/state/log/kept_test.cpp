// Kept logs: lives, saved states, files that are damaged or of something else, and what is seen from outside.
#include "state/log/kept.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/process.hpp"
#include "state/log/shape.hpp"

namespace smelt::state::log {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> bytes_of_text(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

template <class T>
void expect_error(const Result<T>& result, Status status, const std::string& says) {
  ASSERT_FALSE(result) << "should say: " << says;
  EXPECT_EQ(result.error().status, status) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr(says));
}

class KeptLogs : public testing::Test {
 protected:
  const std::string name = "kept-test-" + std::to_string(getpid());
  const std::string file = "/dev/shm/smelt-log." + name;
  const Shape shape = shape_of([](LogOptions&) {});

  void TearDown() override {
    static_cast<void>(Kept::remove(name));
    for (const auto& each : states()) std::filesystem::remove("/dev/shm/" + each);
  }

  template <class Change>
  static Shape shape_of(Change change, int size = 3) {
    LogOptions options;
    options.entries = 64;
    options.requests = 4;
    options.leader = 1;
    change(options);
    return *make_shape(size, options, Faults::crash, 0);
  }

  std::shared_ptr<Kept> begin() const {
    auto kept = Kept::begin(name, shape);
    EXPECT_TRUE(kept) << kept.error().message;
    return kept ? *kept : nullptr;
  }

  /// Files of states whose names contain that of the test, in order.
  std::vector<std::string> states() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      const std::string each = entry.path().filename();
      if (each.starts_with("smelt-log-state.") && each.find(name) != std::string::npos) found.push_back(each);
    }
    std::ranges::sort(found);
    return found;
  }
  std::string state(int index) const { return "smelt-log-state." + std::to_string(index) + "." + name; }

  static void write_file(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    chmod(path.c_str(), 0600);
  }
  /// Changes one byte.
  static void damage(const std::string& path, std::size_t place) {
    std::fstream opened(path, std::ios::in | std::ios::out | std::ios::binary);
    opened.seekg(static_cast<std::streamoff>(place));
    const char byte = static_cast<char>(opened.get() ^ 1);
    opened.seekp(static_cast<std::streamoff>(place));
    opened.put(byte);
  }
};

TEST_F(KeptLogs, HaveTheNewestState) {
  const auto kept = begin();
  EXPECT_EQ(kept->index(), 0u);
  EXPECT_FALSE(*kept->newest());
  const auto expect_newest = [&](int index, const std::string& text) {
    EXPECT_EQ(kept->index(), static_cast<std::uint64_t>(index));
    const auto found = *kept->newest();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->index, static_cast<std::uint64_t>(index));
    EXPECT_EQ(found->bytes, bytes_of_text(text));
    EXPECT_THAT(states(), ElementsAre(state(index)));
  };
  EXPECT_TRUE(kept->save(5, bytes_of_text("five")));
  expect_newest(5, "five");
  EXPECT_TRUE(kept->save(9, bytes_of_text(std::string(10'000, 'n'))));
  expect_newest(9, std::string(10'000, 'n'));
  EXPECT_TRUE(kept->save(7, bytes_of_text("late")));
  expect_newest(9, std::string(10'000, 'n'));
  EXPECT_TRUE(kept->save(9, bytes_of_text("by another replica")));
  expect_newest(9, std::string(10'000, 'n'));
  EXPECT_TRUE(kept->save(10, {}));
  expect_newest(10, "");
}

TEST_F(KeptLogs, LiveOneLifeAfterTheOther) {
  auto kept = begin();
  EXPECT_EQ(kept->life(), 1u);
  EXPECT_EQ(kept->memory_bytes(), std::filesystem::file_size(file));
  EXPECT_GE(kept->memory_bytes(), Layout::bytes(shape) + sizeof(KeptHead));
  EXPECT_TRUE(Kept::join(name, 1));
  expect_error(Kept::join(name, 2), Status::broken, "have ended; start again");
  kept->note_process(2);
  kept->note_process(0);
  EXPECT_THAT(kept->processes(), ElementsAre(getpid())) << "each once";
  expect_error(Kept::begin(name, shape), Status::broken, "in use by process " + std::to_string(getpid()));
  expect_error(Kept::remove(name), Status::broken, "in use by process");
  EXPECT_TRUE(kept->save(3, bytes_of_text("three")));
  kept.reset();
  EXPECT_THAT((*Kept::look_at(name))->processes(), testing::IsEmpty());
  kept = begin();
  EXPECT_EQ(kept->life(), 2u);
  EXPECT_EQ((*kept->newest())->bytes, bytes_of_text("three"));
  expect_error(Kept::join(name, 1), Status::broken, "have ended; start again");
  kept.reset();
  EXPECT_TRUE(Kept::remove(name));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_THAT(states(), testing::IsEmpty());
  expect_error(Kept::look_at(name), Status::not_found, name);
  EXPECT_EQ(begin()->life(), 1u);
}

TEST_F(KeptLogs, AreBegunWithTheSameShape) {
  ASSERT_NE(begin(), nullptr);
  const auto refused = [&](const Shape& other) {
    expect_error(Kept::begin(name, other), Status::invalid_argument,
                 "was kept with 3 ranks, entries = 64, requests = 4, command_bytes = 56, or with other replicas");
  };
  refused(shape_of([](LogOptions&) {}, 2));
  refused(shape_of([](LogOptions& options) { options.entries = 128; }));
  refused(shape_of([](LogOptions& options) { options.requests = 8; }));
  refused(shape_of([](LogOptions& options) { options.command_bytes = 57; }));
  refused(shape_of([](LogOptions& options) { options.replicas = {0, 1}; }));
  EXPECT_TRUE(Kept::begin(name, shape_of([](LogOptions& options) {
                            options.leader = 2;
                            options.faults = Faults::stop;
                            options.suspect_after_s = 3;
                          })));
}

/// A process that removes the log, or begins a life, holds the lock alone for a moment.
TEST_F(KeptLogs, WaitForTheirLock) {
  ASSERT_NE(begin(), nullptr);
  const int other = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(other, 0);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  std::atomic<bool> released{false};
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    released = true;
    EXPECT_EQ(flock(other, LOCK_UN), 0);
  });
  const auto joined = Kept::join(name, 1);
  EXPECT_TRUE(joined) << joined.error().message;
  EXPECT_TRUE(released.load());
  holder.join();
  ASSERT_EQ(flock(other, LOCK_SH), 0) << "the one that has joined shares it";
  expect_error(Kept::remove(name), Status::broken, "in use");
  close(other);
}

TEST_F(KeptLogs, DoNotWaitForTheirLockForEver) {
  ASSERT_NE(begin(), nullptr);
  const int other = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  expect_error(Kept::join(name, 1), Status::broken, "'" + name + "' is being removed or recovered by another process");
  close(other);
}

/// As if a new leader had taken over from all others.
TEST_F(KeptLogs, BeginALifeWithoutTheFormerOne) {
  auto kept = begin();
  ASSERT_TRUE(kept->save(6, bytes_of_text("six")));
  {
    const Layout layout(kept->memory());
    layout.head().configuration.store(Configuration{7, 2}.word());
    for (Word* const word :
         {&layout.head().wanted, &layout.head().pressed, &layout.head().looked, &layout.head().contested}) {
      word->store(4);
    }
    layout.head().floor.store(Floor::word(7, 5));
    layout.slot(3).store(99);
    for (int rank = 0; rank < 3; ++rank) {
      Part& part = layout.part(rank);
      part.progress.store(Progress{std::uint64_t(rank), Standing::out, 2}.word());
      part.returns.store(1), part.attached.store(1), part.claim.store(1), part.consent.store(1);
      part.outgoing.header.store(1);
    }
  }
  kept.reset();
  write_file("/dev/shm/" + state(4), "left by a process that was killed");
  write_file("/dev/shm/" + state(8), "likewise");
  write_file("/dev/shm/smelt-log-state.x." + name, "no number");
  write_file("/dev/shm/smelt-log-state.4.x" + name, "of another log");
  write_file("/dev/shm/smelt-log-state.4." + name + "x", "of another log");
  kept = begin();
  EXPECT_THAT(states(), testing::UnorderedElementsAre(state(6), "smelt-log-state.x." + name,
                                                      "smelt-log-state.4.x" + name, "smelt-log-state.4." + name + "x"));
  const Layout layout(kept->memory());
  EXPECT_EQ(layout.head().configuration.load(), (Configuration{8, 1}.word()));
  for (Word* const word :
       {&layout.head().wanted, &layout.head().pressed, &layout.head().looked, &layout.head().contested}) {
    EXPECT_EQ(word->load(), 0u);
  }
  EXPECT_EQ(layout.head().floor.load(), Floor::word(7, 5)) << "decisions stay";
  EXPECT_EQ(layout.slot(3).load(), 99u);
  for (int rank = 0; rank < 3; ++rank) {
    Part& part = layout.part(rank);
    EXPECT_EQ(part.progress.load(), (Progress{std::uint64_t(rank) + 1, Standing::live, 6}.word()));
    EXPECT_EQ(part.returns.load() + part.attached.load(), 0u);
    EXPECT_EQ(part.claim.load() + part.consent.load() + part.outgoing.header.load(), 0u);
  }
  layout.head().configuration.store(Configuration{most_epoch - 1, 2}.word());
  kept.reset();
  EXPECT_EQ(Configuration::of(Layout(begin()->memory()).head().configuration.load()).epoch, most_epoch);
  expect_error(Kept::begin(name, shape), Status::broken, "the epochs of '" + name + "' are used up");
}

TEST_F(KeptLogs, WithoutTheirStateAreNotBegun) {
  ASSERT_TRUE(begin()->save(6, bytes_of_text(std::string(5000, '6'))));
  const std::string path = "/dev/shm/" + state(6);
  for (const std::size_t place : {0, 8, 16 + 7}) {  // magic, index, size
    damage(path, place);
    expect_error((*Kept::look_at(name))->newest(), Status::bad_format, "is no state of a log of this version");
    expect_error(Kept::begin(name, shape), Status::bad_format, "is missing");
    damage(path, place);
    EXPECT_TRUE(Kept::begin(name, shape));
  }
  std::filesystem::resize_file(path, 4096);
  expect_error((*Kept::look_at(name))->newest(), Status::bad_format, "is no state");
  std::filesystem::resize_file(path, 0);
  EXPECT_FALSE((*Kept::look_at(name))->newest());
  std::filesystem::remove(path);
  expect_error(Kept::begin(name, shape), Status::bad_format, "'/dev/shm/" + state(6) + "' of log");
  EXPECT_TRUE(Kept::remove(name));
}

TEST_F(KeptLogs, AreNotTakenForOtherFiles) {
  ASSERT_NE(begin(), nullptr);
  const std::size_t head = (sizeof(KeptHead) + 4095) / 4096 * 4096, whole = std::filesystem::file_size(file);
  const auto expect_refused = [&] {
    for (const auto& result : {Kept::look_at(name), Kept::begin(name, shape), Kept::join(name, 1)}) {
      expect_error(result, Status::bad_format, "is no log of this version; remove it by 'smelt state rm'");
    }
  };
  // The magic number, the version, the number of ranks.
  for (const std::size_t place : {std::size_t{0}, offsetof(KeptHead, version), head + offsetof(Head, shape) + 3}) {
    damage(file, place);
    expect_refused();
    damage(file, place);
    EXPECT_TRUE(Kept::look_at(name));
  }
  std::filesystem::resize_file(file, whole - 4096);
  expect_refused();
  std::filesystem::resize_file(file, head);
  expect_refused();
  EXPECT_TRUE(Kept::remove(name));
  EXPECT_FALSE(std::filesystem::exists(file));
  for (const std::string& text : {std::string("x"), std::string(whole, 'x')}) {
    write_file(file, text);
    expect_refused();
    EXPECT_TRUE(Kept::remove(name));
    EXPECT_FALSE(std::filesystem::exists(file));
  }
  expect_error(Kept::remove(name), Status::not_found, name);
}

TEST_F(KeptLogs, HaveNamesWithLimits) {
  for (const std::string& bad : {std::string(), std::string(181, 'n'), std::string("a/b"), std::string("a\0b", 3)}) {
    expect_error(Kept::begin(bad, shape), Status::invalid_argument, "must have 1 to 180 characters without '/'");
  }
  const std::string longest = name + std::string(180 - name.size(), 'n');
  ASSERT_NE(begin(), nullptr);
  ASSERT_TRUE(Kept::begin(longest, shape));
  auto names = Kept::names();
  EXPECT_TRUE(std::ranges::is_sorted(names));
  std::erase_if(names, [&](const std::string& each) { return !each.starts_with(name); });
  EXPECT_THAT(names, ElementsAre(name, longest));
  EXPECT_TRUE(Kept::remove(longest));
}

// ---- from outside ---------------------------------------------------------------------------

/// Adds numbers.
struct Sum {
  std::uint64_t value = 0;

  StateMachine machine() {
    return {this,
            [](void* self, const Entry& entry) {
              std::uint64_t number = 0;
              std::memcpy(&number, entry.data, entry.bytes);
              static_cast<Sum*>(self)->value += number;
            },
            [](void* self, std::vector<std::byte>& bytes) {
              const auto* from = reinterpret_cast<const std::byte*>(self);
              bytes.insert(bytes.end(), from, from + sizeof(Sum));
            },
            [](void* self, std::span<const std::byte> bytes) { std::memcpy(self, bytes.data(), sizeof(Sum)); }};
  }
};

TEST_F(KeptLogs, TellHowFarTheyAre) {
  constexpr int entries = 64;
  const int ranks[] = {0, 1};
  LogOptions options;
  options.entries = entries;
  options.requests = 128;
  options.command_bytes = 9;
  options.replicas = {1};
  options.keep = true;
  std::uint64_t sum = 0, appended = 0;
  expect_error(inspect_log(name), Status::not_found, "no log '" + name + "' was kept; 'smelt state list'");
  for (std::uint64_t life = 1; life <= 3; ++life) {
    auto log = ReplicatedLog::create_shared(name, 2, ranks, options);
    ASSERT_TRUE(log) << log.error().message;
    Sum state;
    auto replica = log->attach(1, state.machine());
    ASSERT_TRUE(replica) << replica.error().message;
    std::uint64_t point = 0;
    ASSERT_EQ(replica->read_point(&point), Status::ok);
    EXPECT_EQ(point, appended);
    ASSERT_EQ(replica->catch_up(point), Status::ok);
    EXPECT_EQ(state.value, sum);
    for (int i = 1; i <= 75; ++i) {
      const std::uint64_t number = appended * appended + 1;
      ASSERT_EQ(replica->append(&number, sizeof number), Status::ok) << replica->failure();
      ++appended, sum += number;
      ASSERT_EQ(state.value, sum);
      const auto found = inspect_log(name);
      ASSERT_TRUE(found) << found.error().message;
      ASSERT_EQ(found->appended, appended);
      // Saved whenever half of the log has been filled.
      ASSERT_EQ(found->saved, appended / (entries / 2) * (entries / 2)) << appended;
      ASSERT_EQ(found->state_bytes, found->saved == 0 ? 0u : sizeof(Sum));
      ASSERT_EQ(found->memory_bytes, std::filesystem::file_size(file) + (found->saved == 0 ? 0 : sizeof(Sum) + 2 * 8));
    }
    const auto found = *inspect_log(name);
    EXPECT_EQ(found.name, name);
    EXPECT_EQ(found.ranks, 2);
    EXPECT_EQ(found.replicas, 1);
    EXPECT_EQ(found.entries, 64u);
    EXPECT_EQ(found.requests, 128u);
    EXPECT_EQ(found.command_bytes, 9u);
    EXPECT_GE(found.epoch, life);
    EXPECT_EQ(found.leader, 1);
    EXPECT_THAT(found.processes, ElementsAre(getpid()));
    const auto all = *list_logs();
    EXPECT_EQ(std::ranges::count(all, name, &LogState::name), 1);
    expect_error(remove_log(name), Status::broken, "in use");
  }
  EXPECT_EQ(inspect_log(name)->leader, -1) << "it has left";
  damage(file, 0);
  expect_error(inspect_log(name), Status::bad_format, "is no log");
  EXPECT_TRUE(remove_log(name));
  expect_error(remove_log(name), Status::not_found, "no log '" + name + "' was kept");
}

/// A floor of a later epoch comes from a later leader: this one decides nothing, and leaves the floor as it is.
TEST_F(KeptLogs, AreLedByTheLeaderOfTheLastEpoch) {
  const int ranks[] = {0};
  LogOptions options;
  options.entries = 64;
  options.keep = true;
  Sum state;
  {
    auto log = *ReplicatedLog::create_shared(name, 1, ranks, options);
    ASSERT_EQ(log.attach(0, state.machine())->append("1234567", 8), Status::ok);
  }
  auto log = *ReplicatedLog::create_shared(name, 1, ranks, options);
  const auto kept = *Kept::look_at(name);
  Head& head = Layout(kept->memory()).head();
  Word& floor = head.floor;
  const std::uint64_t epoch = Configuration::of(head.configuration.load()).epoch;
  ASSERT_GT(epoch, 1u);
  floor.store(Floor::word(epoch + 1, 0));
  auto replica = log.attach(0, state.machine());
  ASSERT_TRUE(replica) << replica.error().message;
  Ticket ticket;
  ASSERT_EQ(replica->start("1234567", 8, &ticket), Status::ok);
  bool done = false;
  for (int i = 0; i < 10; ++i) ASSERT_EQ(replica->test(ticket, &done), Status::ok);
  EXPECT_FALSE(done);
  EXPECT_EQ(floor.load(), Floor::word(epoch + 1, 0));
  floor.store(Floor::word(epoch, 0));
  EXPECT_EQ(replica->wait(ticket), Status::ok);
  EXPECT_EQ(Floor::epoch(floor.load()), epoch);
}

}  // namespace
}  // namespace smelt::state::log
