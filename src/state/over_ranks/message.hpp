// Messages between ranks of a map: operations and their results.
//
//   word 0   | parts 8 | .. | client 16 | flags 8 | number 8 | operation 8 | kind 8 |
//   word 1   stamp
//   strings  | expected bytes 20 | value bytes 20 | key bytes 20 |
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

using map_detail::Bytes;
using map_detail::bytes_of;
using map_detail::Geometry;
using map_detail::GroupCall;
using map_detail::Number;
using map_detail::Operation;
using map_detail::Target;
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
  list,          ///< client -> server or replica: send all cells, for a snapshot
  cell,          ///< back: one of them
  listed,        ///< back: that was all
  unfreeze,      ///< client -> server: updates may go on
};

struct Message {
  static constexpr std::uint8_t found = 1, changed = 2, no_memory = 4, may_copy = 8, lost = 16;

  Kind kind = Kind::request;
  Operation operation = Operation::get;
  Number number = Number::none;
  std::uint8_t flags = 0;
  int client = 0;
  std::uint64_t stamp = 0;
  Bytes key{}, value{}, expected{};  ///< those without data are absent

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

/// Whether the answer to an operation contains the former value.
inline bool tells_value(Operation operation) noexcept {
  return operation == Operation::get || operation == Operation::compare_exchange || operation == Operation::fetch_add;
}

/// The bytes of a key or a value of a map; used again for the next one.
class Buffer {
 public:
  Buffer(std::size_t words, bool strings) : words_(strings ? 0 : words), strings_(strings) {}

  Bytes bytes() const noexcept { return strings_ ? Bytes(text_) : bytes_of(words_.data(), words_.size()); }
  /// Where a table copies a value to.
  Target target() noexcept { return strings_ ? Target{nullptr, &text_} : Target{words_.data(), nullptr}; }
  void assign(Bytes bytes) noexcept { target().take(bytes); }

 private:
  std::vector<Word> words_;
  std::string text_;
  bool strings_;
};

/// Words of a message and back: keys and values of one size, or strings.
class Coding {
 public:
  Coding(const Geometry& geometry, bool strings) : geometry_(geometry), strings_(strings) {}

  /// Of a message with keys and values of one size.
  std::size_t most_words() const noexcept {
    return head_words() + geometry_.key_words + 2 * std::size_t{geometry_.value_words};
  }

  /// Writes the message; returns the number of its words. Allocates if `to` is too small.
  std::size_t encode(const Message& message, std::vector<Word>& to) const {
    const Word parts = (message.key.data() != nullptr ? 1 : 0) | (message.value.data() != nullptr ? 2 : 0) |
                       (message.expected.data() != nullptr ? 4 : 0);
    const std::size_t words =
        head_words() + words_in(message.key) + words_in(message.value) + words_in(message.expected);
    if (to.size() < words) to.resize(words);
    to[0] = static_cast<Word>(message.kind) | static_cast<Word>(message.operation) << 8 |
            static_cast<Word>(message.number) << 16 | Word{message.flags} << 24 |
            static_cast<Word>(message.client) << 32 | parts << 56;
    to[1] = message.stamp;
    if (strings_) {
      to[2] = message.key.size() | message.value.size() << length_bits | message.expected.size() << 2 * length_bits;
    }
    Word* next = to.data() + head_words();
    for (const Bytes& part : {message.key, message.value, message.expected}) {
      if (part.data() == nullptr) continue;
      const std::size_t count = words_in(part);
      if (count != 0) next[count - 1] = 0;  // the last one may be filled in part
      map_detail::copy_short(next, part);
      next += count;
    }
    return words;
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
    const Word parts = head >> 56, lengths = strings_ ? from[2] : 0;
    const Word* next = from + head_words();
    const auto take = [&](int part, std::size_t words) {
      if ((parts >> part & 1) == 0) return Bytes();
      std::size_t bytes = words * sizeof(Word);
      if (strings_) {
        bytes = lengths >> (part * length_bits) & ((Word{1} << length_bits) - 1);
        words = map_detail::words_of(bytes);
      }
      const Bytes taken(reinterpret_cast<const char*>(next), bytes);
      next += words;
      return taken;
    };
    message.key = take(0, geometry_.key_words);
    message.value = take(1, geometry_.value_words);
    message.expected = take(2, geometry_.value_words);
    return message;
  }

 private:
  static constexpr int length_bits = 20;
  static std::size_t words_in(Bytes bytes) noexcept { return map_detail::words_of(bytes.size()); }
  std::size_t head_words() const noexcept { return strings_ ? 3 : 2; }

  Geometry geometry_;
  bool strings_;
};

/// Words of a message of strings in one command of kv's log, besides a head word.
inline constexpr std::size_t piece_words = 127;

/// A queue of messages in one growing buffer. It does not allocate once it has reached its largest size.
class MessageQueue {
 public:
  bool empty() const noexcept { return head_ == words_.size(); }
  void push(const Word* words, std::size_t count) {
    if (empty()) {
      words_.clear(), head_ = 0;
    } else if (words_.size() + 1 + count > words_.capacity() && head_ >= words_.size() - head_) {
      drop_popped();
    }
    words_.push_back(count);
    words_.insert(words_.end(), words, words + count);
  }
  const Word* front(std::size_t* count) const noexcept {
    *count = words_[head_];
    return words_.data() + head_ + 1;
  }
  void pop() noexcept { head_ += 1 + words_[head_]; }

 private:
  /// Called when the buffer would have to grow, and at least half of it has been popped.
  void drop_popped() noexcept {
    words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }

  std::vector<Word> words_;
  std::size_t head_ = 0;
};

}  // namespace smelt::state::over_ranks
