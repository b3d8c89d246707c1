// Parts of the maps over ranks, each alone: messages, their queue, places of channels, links, local tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <limits>
#include <optional>
#include <random>
#include <set>

#include "base/patience_test_util.hpp"
#include "state/over_ranks/links.hpp"
#include "state/over_ranks/local_table.hpp"
#include "state/over_ranks/member.hpp"
#include "state/over_ranks/settings_of_tests.hpp"

namespace smelt::state::over_ranks {
namespace {

constexpr Geometry geometry = map_detail::geometry_of(12, 20);  // keys of 2 words, values of 3

// ---- messages -------------------------------------------------------------------------------

void expect_equal(const Message& one, const Message& other) {
  EXPECT_EQ(one.kind, other.kind);
  EXPECT_EQ(one.operation, other.operation);
  EXPECT_EQ(one.number, other.number);
  EXPECT_EQ(one.flags, other.flags);
  EXPECT_EQ(one.client, other.client);
  EXPECT_EQ(one.stamp, other.stamp);
  const auto expect_same = [](Bytes a, Bytes b) {
    EXPECT_EQ(a.data() == nullptr, b.data() == nullptr);
    EXPECT_EQ(a, b);
  };
  expect_same(one.key, other.key);
  expect_same(one.value, other.value);
  expect_same(one.expected, other.expected);
}

Message head_of_a_message() {
  Message message;
  message.kind = Kind::unfreeze;
  message.operation = Operation::fetch_add;
  message.number = Number::f128;
  message.flags = 0xff;
  message.client = 1023;
  message.stamp = ~std::uint64_t{0} - 1;
  return message;
}

TEST(Messages, OfWordsComeBackAsTheyWere) {
  const Coding coding(geometry, false);
  EXPECT_EQ(coding.most_words(), 2u + 2 + 2 * 3);
  const Word key[] = {1, 2}, value[] = {3, 4, 5}, expected[] = {6, 7, 8};
  std::vector<Word> words(1);
  for (int parts = 0; parts < 8; ++parts) {
    Message message = head_of_a_message();
    if ((parts & 1) != 0) message.key = bytes_of(key, 2);
    if ((parts & 2) != 0) message.value = bytes_of(value, 3);
    if ((parts & 4) != 0) message.expected = bytes_of(expected, 3);
    const std::size_t count = coding.encode(message, words);
    EXPECT_EQ(count, 2u + ((parts & 1) != 0 ? 2 : 0) + ((parts & 2) != 0 ? 3 : 0) + ((parts & 4) != 0 ? 3 : 0));
    EXPECT_GE(words.size(), count);
    expect_equal(coding.decode(words.data()), message);
  }
}

TEST(Messages, OfStringsComeBackAsTheyWere) {
  const Coding coding(geometry, true);
  const std::size_t lengths[] = {0, 1, 7, 8, 9, 255, 65535, 65536};
  std::vector<Word> words;
  const auto text = [](std::size_t bytes, char letter) { return std::string(bytes, letter); };
  for (const std::size_t a : lengths) {
    for (const std::size_t b : lengths) {
      const std::string key = text(a, 'k'), value = text(b, 'v'), expected = text(a / 2 + b / 2, 'e');
      for (int parts = 0; parts < 8; ++parts) {
        Message message = head_of_a_message();
        if ((parts & 1) != 0) message.key = key;
        if ((parts & 2) != 0) message.value = value;
        if ((parts & 4) != 0) message.expected = expected;
        words.assign(words.size(), ~Word{0});
        const std::size_t count = coding.encode(message, words);
        const auto of = [](Bytes bytes) { return (bytes.size() + 7) / 8; };
        ASSERT_EQ(count, 3 + of(message.key) + of(message.value) + of(message.expected));
        ASSERT_NO_FATAL_FAILURE(expect_equal(coding.decode(words.data()), message));
      }
    }
  }
}

TEST(Messages, TellAnswers) {
  for (int bits = 0; bits < 8; ++bits) {
    const MapAnswer answer{(bits & 1) != 0 ? Status::out_of_memory : Status::ok, (bits & 2) != 0, (bits & 4) != 0};
    Message message;
    message.flags = flags_of(answer) | Message::may_copy;
    EXPECT_EQ(message.answer().status, answer.status);
    EXPECT_EQ(message.answer().found, answer.found);
    EXPECT_EQ(message.answer().changed, answer.changed);
  }
  for (const auto& [operation, tells] : {std::pair{Operation::get, true},
                                         {Operation::put, false},
                                         {Operation::insert, false},
                                         {Operation::erase, false},
                                         {Operation::compare_exchange, true},
                                         {Operation::fetch_add, true}}) {
    EXPECT_EQ(tells_value(operation), tells);
  }
}

TEST(Messages, WaitInOrder) {
  MessageQueue queue;
  std::deque<std::vector<Word>> reference;
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(queue.empty(), reference.empty());
    if (random() % 5 < (i / 100 % 2 == 0 ? 3 : 2)) {
      std::vector<Word> words(random() % 5);
      for (Word& word : words) word = random();
      queue.push(words.data(), words.size());
      reference.push_back(words);
    } else if (!reference.empty()) {
      std::size_t count = 0;
      const Word* words = queue.front(&count);
      ASSERT_EQ(std::vector<Word>(words, words + count), reference.front());
      queue.pop();
      reference.pop_front();
    }
  }
}

/// A queue that is never empty does not grow with what has passed through it.
TEST(Messages, WaitInTheSameMemory) {
  MessageQueue queue;
  const Word words[] = {1, 2, 3};
  std::set<const Word*> places;
  std::size_t count = 0;
  for (int i = 0; i < 5; ++i) queue.push(words, 3);
  for (int i = 0; i < 10'000; ++i) {
    queue.push(words, 3);
    places.insert(queue.front(&count));
    queue.pop();
  }
  EXPECT_LT(places.size(), 100u);
}

// ---- places ---------------------------------------------------------------------------------

TEST(GroupShape, SpreadsServersOverTheRanks) {
  for (std::uint32_t ranks = 1; ranks <= 17; ++ranks) {
    for (std::uint32_t servers = 1; servers <= ranks; ++servers) {
      Shape shape;
      shape.ranks = ranks, shape.servers = servers;
      std::set<int> serving;
      for (std::uint32_t i = 0; i < servers; ++i) {
        const int server = shape.server(i);
        EXPECT_EQ(server, static_cast<int>(i * ranks / servers));
        serving.insert(server);
      }
      EXPECT_EQ(serving.size(), servers);
      EXPECT_EQ(*serving.begin(), 0);
      for (int rank = 0; rank < static_cast<int>(ranks); ++rank) {
        EXPECT_EQ(shape.serves(rank), serving.contains(rank)) << rank << " of " << ranks << ", " << servers;
        EXPECT_EQ(shape.replica_of(rank), *std::prev(serving.upper_bound(rank)));
      }
    }
  }
  Shape none;
  none.ranks = 4;
  EXPECT_FALSE(none.serves(0));
}

TEST(GroupShape, DividesKeysEvenly) {
  for (const std::uint32_t servers : {1u, 2u, 3u, 7u}) {
    std::vector<int> keys(servers);
    for (std::uint64_t key = 0; key < 7000; ++key) ++keys[server_of(map_detail::hash_words(&key, 1), servers)];
    for (const int count : keys) EXPECT_NEAR(count, 7000.0 / servers, 700.0 / servers) << servers;
  }
  EXPECT_EQ(server_of(0, 7), 0u);
  EXPECT_EQ(server_of(Word{0xffffffff} << 16, 7), 6u);
  EXPECT_EQ(server_of(Word{0x7fffffff} << 16 | 0xffff, 2), 0u);
  EXPECT_EQ(server_of(Word{0x80000000} << 16, 2), 1u);
}

/// Which ranks have channels, for 5 ranks of which 0 and 2 serve, in a tree 0 -> 1, 2; 1 -> 3, 4.
std::set<std::pair<int, int>> links_of(Algorithm algorithm, std::uint32_t servers) {
  Shape shape;
  shape.ranks = 5, shape.servers = servers, shape.algorithm = algorithm, shape.channel_lines = 64;
  std::vector<std::byte> memory(std::size_t{1} << 20);
  const Layout layout(memory.data(), shape, {-1, 0, 0, 1, 1});
  EXPECT_LE(layout.bytes(), memory.size());
  std::set<std::pair<int, int>> links;
  std::size_t end = sizeof(Head) + 5 * sizeof(std::int32_t), parts = 0;
  for (int to = 0; to < 5; ++to) {
    const auto place = static_cast<std::size_t>(layout.part_begin(to) - memory.data());
    EXPECT_EQ(place % 4096, 0u);
    EXPECT_GE(place, end);
    EXPECT_LT(place, end + 4096);
    end = place + sizeof(over_ranks::Part);
    parts += layout.part_bytes(to);
    for (int from = 0; from < 5; ++from) {
      const std::byte* const channel = layout.channel(from, to);
      if (channel == nullptr) continue;
      const auto begin = static_cast<std::size_t>(channel - memory.data());
      EXPECT_GE(begin, end);
      EXPECT_EQ(begin % separation_bytes, 0u);
      end = begin + channel::ump_bytes(64);
      links.emplace(from, to);
    }
    EXPECT_LE(end, place + layout.part_bytes(to));
  }
  const auto first = static_cast<std::size_t>(layout.part_begin(0) - memory.data());
  EXPECT_EQ(first + parts, layout.bytes());
  for (const auto& [from, to] : links) EXPECT_TRUE(links.contains({to, from}));
  return links;
}

TEST(GroupLayout, LinksThoseWhoSpeak) {
  using Links = std::set<std::pair<int, int>>;
  const auto both = [](const Links& one_way) {
    Links all = one_way;
    for (const auto& [a, b] : one_way) all.emplace(b, a);
    return all;
  };
  const Links with_servers = both({{0, 1}, {0, 2}, {0, 3}, {0, 4}, {2, 1}, {2, 3}, {2, 4}});
  EXPECT_EQ(links_of(Algorithm::part_simple, 2), with_servers);
  EXPECT_EQ(links_of(Algorithm::part_caching, 2), with_servers);
  EXPECT_EQ(links_of(Algorithm::kv, 2), both({{0, 1}, {2, 3}, {2, 4}}));
  const Links with_tree = both({{0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 3}, {1, 4}});
  for (const auto algorithm : {Algorithm::rep_remote, Algorithm::rep_local, Algorithm::rep_sc}) {
    EXPECT_EQ(links_of(algorithm, 1), with_tree);
  }
  EXPECT_EQ(links_of(Algorithm::rep_2pc, 0).size(), 20u);
}

// ---- links ----------------------------------------------------------------------------------

class TwoLinks : public testing::Test {
 protected:
  TwoLinks() {
    shape_.ranks = 2, shape_.servers = 1, shape_.algorithm = Algorithm::rep_2pc, shape_.channel_lines = 8;
    shape_.geometry = geometry, shape_.strings = 1;
    const std::size_t bytes = Layout(nullptr, shape_, {-1, 0}).bytes();
    memory_.resize(bytes / 8 + 512);
    auto* begin = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory_.data()) + 4095) / 4096 * 4096);
    layout_ = Layout(begin, shape_, {-1, 0});
    layout_.head().shape = shape_;
    one_.emplace(layout_, 0);
    other_.emplace(layout_, 1);
  }

  /// A message of so many lines of seven words; its stamp is its number.
  static Message message(std::uint64_t number, std::size_t lines, std::string& text) {
    text.assign((lines * 7 - 3) * 8, static_cast<char>('a' + number % 26));
    Message made;
    made.stamp = number;
    made.value = text;
    return made;
  }

  Shape shape_;
  std::vector<std::uint64_t> memory_;
  Layout layout_;
  std::optional<Links> one_, other_;
};

TEST_F(TwoLinks, KeepWhatHasNoRoom) {
  std::string text;
  EXPECT_FALSE(one_->none());
  EXPECT_TRUE(one_->all_sent());
  EXPECT_FALSE(one_->flush());
  for (std::uint64_t i = 0; i < 8; ++i) one_->post(1, message(i, 1, text));
  EXPECT_TRUE(one_->all_sent()) << "the channel has eight lines";
  one_->post(1, message(8, 1, text));
  one_->post(1, message(9, 20, text));
  EXPECT_EQ(one_->kept(), 2u);
  EXPECT_FALSE(one_->flush()) << "nothing has been taken";
  std::uint64_t next = 0;
  const auto take = [&] {
    return other_->poll([&](int from, const Message& got) {
      std::string expected;
      expect_equal(got, message(next, next == 9 ? 20 : 1, expected));
      EXPECT_EQ(from, 0);
      ++next;
    });
  };
  EXPECT_TRUE(take());
  EXPECT_EQ(next, 8u);
  EXPECT_FALSE(take());
  EXPECT_TRUE(one_->flush());
  EXPECT_EQ(one_->kept(), 1u) << "the long message has been sent in part";
  EXPECT_TRUE(take());
  EXPECT_EQ(next, 9u);
  for (int i = 0; i < 10 && next < 10; ++i) {
    one_->flush();
    take();
  }
  EXPECT_EQ(next, 10u);
  EXPECT_TRUE(one_->all_sent());
  // A message after a queued one does not overtake it.
  one_->post(1, message(10, 1, text));
  EXPECT_TRUE(one_->all_sent());
}

TEST_F(TwoLinks, TakeAFewOfOneSenderAtATime) {
  std::string text;
  for (std::uint64_t i = 0; i < 200; ++i) one_->post(0, message(i, i % 3 + 1, text));
  std::uint64_t next = 0;
  EXPECT_TRUE(one_->poll([&](int from, const Message& got) {
    EXPECT_EQ(from, 0);
    EXPECT_EQ(got.stamp, next++);
    if (got.stamp == 100) one_->post(0, message(200, 1, text));  // while it is handled
  }));
  EXPECT_EQ(next, 201u);
  EXPECT_FALSE(one_->poll([](int, const Message&) {}));
}

TEST_F(TwoLinks, CarryMessagesOfAllLengthsBothWays) {
  std::mt19937 random(3);
  std::uint64_t posted[2] = {0, 0}, taken[2] = {0, 0};
  std::vector<std::size_t> lengths[2];
  Links* const links[2] = {&*one_, &*other_};
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t me = random() % 2;
    if (random() % 3 == 0 && posted[me] < 3000) {
      lengths[me].push_back(random() % 20 == 0 ? random() % 30 + 1 : random() % 3 + 1);
      links[me]->post(static_cast<int>(1 - me), message(posted[me]++, lengths[me].back(), text));
    } else {
      links[me]->flush();
      links[me]->poll([&](int, const Message& got) {
        const std::uint64_t number = taken[1 - me]++;
        std::string expected;
        expect_equal(got, message(number, lengths[1 - me].at(number), expected));
      });
    }
  }
  for (int i = 0; i < 20'000 && (taken[0] < posted[0] || taken[1] < posted[1]); ++i) {
    for (int me = 0; me < 2; ++me) {
      links[me]->flush();
      links[me]->poll([&](int, const Message&) { ++taken[1 - me]; });
    }
  }
  EXPECT_EQ(taken[0], posted[0]);
  EXPECT_EQ(taken[1], posted[1]);
  EXPECT_TRUE(one_->all_sent() && other_->all_sent());
}

// ---- local tables ---------------------------------------------------------------------------

/// Sums of all types, to be those of the type itself.
template <class T>
void expect_sums(Number number) {
  auto table = *LocalTable::create(map_detail::geometry_of(8, sizeof(T)), false, 10);
  const std::size_t words = map_detail::words_of(sizeof(T));
  const Word key = 5;
  const T terms[] = {std::numeric_limits<T>::max(), 2, static_cast<T>(-1), std::numeric_limits<T>::lowest(), 100};
  T sum{};
  bool there = false;
  for (const T term : terms) {
    std::vector<Word> of_term(words), was(words, 7);
    std::memcpy(of_term.data(), &term, sizeof term);
    Message message;
    message.operation = Operation::fetch_add;
    message.number = number;
    message.key = bytes_of(&key, 1);
    message.value = bytes_of(of_term.data(), words);
    const MapAnswer answer = table.apply(message, table.hash(message.key), {was.data(), nullptr});
    EXPECT_EQ(answer.found, there);
    EXPECT_TRUE(answer.changed);
    if (there) {
      T before;
      std::memcpy(&before, was.data(), sizeof before);
      EXPECT_EQ(before, sum);
    } else {
      EXPECT_EQ(was[0], 7u) << "there was none";
    }
    if constexpr (std::is_integral_v<T>) {
      sum = static_cast<T>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(term));
    } else {
      sum += term;
    }
    there = true;
    std::vector<Word> now(words);
    ASSERT_TRUE(table.get(message.key, table.hash(message.key), {now.data(), nullptr}));
    T found;
    std::memcpy(&found, now.data(), sizeof found);
    EXPECT_EQ(found, sum);
  }
}

TEST(LocalTables, AddAsTheTypeDoes) {
  expect_sums<std::int8_t>(Number::i8);
  expect_sums<std::uint8_t>(Number::u8);
  expect_sums<std::int16_t>(Number::i16);
  expect_sums<std::uint16_t>(Number::u16);
  expect_sums<std::int32_t>(Number::i32);
  expect_sums<std::uint32_t>(Number::u32);
  expect_sums<std::int64_t>(Number::i64);
  expect_sums<std::uint64_t>(Number::u64);
  expect_sums<float>(Number::f32);
  expect_sums<double>(Number::f64);
  expect_sums<long double>(Number::f128);
}

TEST(LocalTables, OfStringsDoWhatMessagesSay) {
  auto table = *LocalTable::create(geometry, true, 0);
  std::string was = "untouched";
  const auto apply = [&](Operation operation, Bytes key, Bytes value, Bytes expected = {}) {
    Message message;
    message.operation = operation, message.key = key, message.value = value, message.expected = expected;
    return table.apply(message, table.hash(key), {nullptr, &was});
  };
  const auto is = [](const MapAnswer& answer, bool found, bool changed) {
    return answer.status == Status::ok && answer.found == found && answer.changed == changed;
  };
  EXPECT_TRUE(is(apply(Operation::get, "a", {}), false, false));
  EXPECT_TRUE(is(apply(Operation::put, "a", "1"), false, true));
  EXPECT_TRUE(is(apply(Operation::get, "a", {}), true, false));
  EXPECT_EQ(was, "1");
  EXPECT_TRUE(is(apply(Operation::insert, "a", "2"), true, false));
  EXPECT_TRUE(is(apply(Operation::insert, "b", ""), false, true));
  EXPECT_TRUE(is(apply(Operation::compare_exchange, "a", "3", "2"), true, false));
  EXPECT_EQ(was, "1");
  EXPECT_TRUE(is(apply(Operation::compare_exchange, "c", "3", ""), false, false));
  EXPECT_TRUE(is(apply(Operation::compare_exchange, "a", "3", "1"), true, true));
  EXPECT_TRUE(is(apply(Operation::compare_exchange, "b", "4", ""), true, true));
  EXPECT_TRUE(is(apply(Operation::put, "b", std::string(70'000 - 4464, 'x')), true, true));
  EXPECT_TRUE(is(apply(Operation::erase, "a", {}), true, true));
  EXPECT_TRUE(is(apply(Operation::erase, "a", {}), false, false));
  std::map<std::string, std::string> all;
  table.for_each([](void* to, Bytes key,
                    Bytes value) { static_cast<std::map<std::string, std::string>*>(to)->emplace(key, value); },
                 &all);
  EXPECT_EQ(all, (std::map<std::string, std::string>{{"b", std::string(65'536, 'x')}}));
}

// ---- members --------------------------------------------------------------------------------

/// Ranks that one thread moves step by step. Keys and values have one word.
class Members : public testing::Test {
 protected:
  void make(Algorithm algorithm, std::uint32_t ranks, std::uint32_t servers, Faults faults = Faults::none) {
    Shape shape;
    shape.ranks = ranks, shape.servers = servers, shape.algorithm = algorithm, shape.channel_lines = 64;
    shape.geometry = map_detail::geometry_of(8, 8);
    MapOptions options;
    options.faults = faults;
    auto made = Space::create(test::communicator(static_cast<int>(ranks)), shape, options, faults, "");
    ASSERT_TRUE(made) << made.error().message;
    space = *std::move(made);
  }
  std::unique_ptr<map_detail::GroupMember> attach(int rank) const { return *space->attach(rank); }

  static GroupCall call_of(Operation operation, const Word& key) {
    static const Word value = 7;
    GroupCall call;
    call.operation = operation;
    call.hash = map_detail::hash_words(&key, 1);
    call.key = bytes_of(&key, 1);
    if (operation != Operation::get) call.value = bytes_of(&value, 1);
    return call;
  }

  std::shared_ptr<Space> space;
};

/// It comes when the call has ended, since another rank had left, and its result is not there any more.
TEST_F(Members, GetNoAnswerAfterAFailure) {
  Word key = 0;
  while (server_of(map_detail::hash_words(&key, 1), 3) != 1) ++key;
  for (const auto algorithm : {Algorithm::part_simple, Algorithm::part_caching}) {
    for (const bool all : {false, true}) {
      ASSERT_NO_FATAL_FAILURE(make(algorithm, 3, 3));
      auto client = attach(0), server = attach(1);
      ASSERT_EQ(server->call(call_of(Operation::put, key)).status, Status::ok);
      attach(2).reset();
      Word result = 0;
      GroupCall call = call_of(Operation::get, key);
      call.result = {&result, nullptr};
      const auto visit = [](void* visited, Bytes, Bytes) { ++*static_cast<Word*>(visited); };
      const Status status = all ? client->snapshot(visit, &result) : client->call(call).status;
      EXPECT_EQ(status, Status::broken);
      EXPECT_THAT(client->failure(), testing::HasSubstr("rank 2 has left"));
      server->progress();
      client->progress();
      EXPECT_EQ(result, 0u);
    }
  }
}

/// The replica that has appended it gets it in a snapshot, where nobody says whose it is.
TEST_F(Members, OfKvSayThatAnAnswerIsLost) {
  ASSERT_NO_FATAL_FAILURE(make(Algorithm::kv, 3, 2, Faults::stop));
  auto leader = attach(0), lazy = attach(1);
  Links client(space->layout(), 2);
  const Word keys[] = {1, 2};
  ASSERT_EQ(leader->call(call_of(Operation::put, keys[0])).status, Status::ok) << "it leads now, if it did not";
  client.post(1, message_of(Kind::request, call_of(Operation::put, keys[1]), 2));
  ASSERT_EQ(lazy->progress(), Status::ok);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(leader->call(call_of(Operation::put, keys[0])).status, Status::ok);
  std::optional<std::uint8_t> flags;
  for (test::Patience limit(std::chrono::seconds(10)); !flags && !limit.is_over();) {
    lazy->progress();
    leader->progress();
    client.poll([&](int from, const Message& answer) {
      EXPECT_EQ(from, 1);
      EXPECT_EQ(answer.kind, Kind::answer);
      flags = answer.flags;
    });
  }
  EXPECT_EQ(flags, Message::lost);
  Word result = 0;
  GroupCall look = call_of(Operation::get, keys[1]);
  look.result = {&result, nullptr};
  EXPECT_TRUE(lazy->call(look).found);
  EXPECT_EQ(result, 7u) << "it was done";
}

TEST_F(Members, OfKvFailIfAnAnswerIsLost) {
  ASSERT_NO_FATAL_FAILURE(make(Algorithm::kv, 2, 1));
  auto client = attach(1);
  Message lost;
  lost.kind = Kind::answer;
  lost.flags = Message::lost;
  Links(space->layout(), 0).post(1, lost);
  const Word key = 1;
  EXPECT_EQ(client->call(call_of(Operation::put, key)).status, Status::broken);
  EXPECT_THAT(client->failure(), testing::HasSubstr("answer was lost"));
}

}  // namespace
}  // namespace smelt::state::over_ranks
