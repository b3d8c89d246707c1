// Messages between ranks of a map: operations and their results.
//
//   word 0   | parts 8 | .. | client 16 | flags 8 | number 8 | operation 8 | kind 8 |
//   word 1   stamp
//   then     the words of the key, of the value, of the expected value: those that `parts` names
//
// Seven words fit into a line of a channel. So an operation on a key of 8 and a value of 16 bytes takes one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "smelt/map_group.hpp"

namespace smelt::state::over_ranks {

using map_detail::Geometry;
using map_detail::GroupCall;
using map_detail::Number;
using map_detail::Operation;
using map_detail::Word;

/// The kind of a message. Each algorithm uses some of them.
enum class Kind : std::uint8_t {
  request,       ///< client -> server, sequencer or replica: an operation
  answer,        ///< back
  ask,           ///< client -> sequencer: how many updates are there?
  count,         ///< back
  update,        ///< down the tree: an update, numbered
  received,      ///< up the tree: all below have the updates up to the stamp
  commit,        ///< down the tree, or to all: apply
  invalidate,    ///< server -> holder of a copy
  invalidated,   ///< back
  vote_request,  ///< issuer -> all
  vote,          ///< back
  abort,         ///< issuer -> all
  committed,     ///< back
};

struct Message {
  static constexpr std::uint8_t found = 1, changed = 2, no_memory = 4, may_copy = 8, conflict = 16;

  Kind kind = Kind::request;
  Operation operation = Operation::get;
  Number number = Number::none;
  std::uint8_t flags = 0;
  int client = 0;
  std::uint64_t stamp = 0;
  const Word* key = nullptr;
  const Word* value = nullptr;
  const Word* expected = nullptr;

  MapAnswer answer() const noexcept {
    return {(flags & no_memory) != 0 ? Status::out_of_memory : Status::ok, (flags & found) != 0,
            (flags & changed) != 0};
  }
};

inline std::uint8_t flags_of(const MapAnswer& answer) noexcept {
  return static_cast<std::uint8_t>((answer.found ? Message::found : 0) | (answer.changed ? Message::changed : 0) |
                                   (answer.status == Status::ok ? 0 : Message::no_memory));
}

inline Message message_of(Kind kind, const GroupCall& call, int client, std::uint64_t stamp = 0) noexcept {
  return {kind, call.operation, call.number, 0, client, stamp, call.key, call.value, call.expected};
}

/// Words of a message and back, for keys and values of one size.
class Coding {
 public:
  explicit Coding(const Geometry& geometry) : key_words_(geometry.key_words), value_words_(geometry.value_words) {}

  std::size_t most_words() const noexcept { return 2 + key_words_ + 2 * value_words_; }

  /// Writes at most most_words() words; returns how many.
  std::size_t encode(const Message& message, Word* to) const noexcept {
    const Word parts =
        (message.key != nullptr ? 1 : 0) | (message.value != nullptr ? 2 : 0) | (message.expected != nullptr ? 4 : 0);
    to[0] = static_cast<Word>(message.kind) | static_cast<Word>(message.operation) << 8 |
            static_cast<Word>(message.number) << 16 | Word{message.flags} << 24 |
            static_cast<Word>(message.client) << 32 | parts << 56;
    to[1] = message.stamp;
    std::size_t used = 2;
    const auto add = [&](const Word* part, std::size_t words) {
      if (part == nullptr) return;
      std::memcpy(to + used, part, words * sizeof(Word));
      used += words;
    };
    add(message.key, key_words_);
    add(message.value, value_words_);
    add(message.expected, value_words_);
    return used;
  }

  /// Refers to `from`.
  Message decode(const Word* from) const noexcept {
    const Word head = from[0];
    Message message;
    message.kind = static_cast<Kind>(head & 0xff);
    message.operation = static_cast<Operation>(head >> 8 & 0xff);
    message.number = static_cast<Number>(head >> 16 & 0xff);
    message.flags = static_cast<std::uint8_t>(head >> 24);
    message.client = static_cast<int>(head >> 32 & 0xffff);
    message.stamp = from[1];
    const Word parts = head >> 56;
    const Word* next = from + 2;
    const auto take = [&](bool there, std::size_t words) {
      const Word* part = there ? next : nullptr;
      next += there ? words : 0;
      return part;
    };
    message.key = take((parts & 1) != 0, key_words_);
    message.value = take((parts & 2) != 0, value_words_);
    message.expected = take((parts & 4) != 0, value_words_);
    return message;
  }

 private:
  std::size_t key_words_, value_words_;
};

/// A queue of messages in one growing buffer. It does not allocate once it has reached its largest size.
class MessageQueue {
 public:
  bool empty() const noexcept { return head_ == words_.size(); }
  void push(const Word* words, std::size_t count) {
    if (empty()) words_.clear(), head_ = 0;
    words_.push_back(count);
    words_.insert(words_.end(), words, words + count);
  }
  const Word* front(std::size_t* count) const noexcept {
    *count = words_[head_];
    return words_.data() + head_ + 1;
  }
  void pop() noexcept { head_ += 1 + words_[head_]; }

 private:
  std::vector<Word> words_;
  std::size_t head_ = 0;
};

}  // namespace smelt::state::over_ranks
