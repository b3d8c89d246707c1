// A rank's channels to and from others. Sending never waits: messages for a full channel are queued and sent later,
// line by line, since a message may be longer than its channel. So a waiting rank continues to receive, and a cycle of
// full channels cannot cause a deadlock.
//
// Invariant: a message is handled when its last line has arrived. A sender that dies in between leaves no partial
// effect.
#pragma once

#include <vector>

#include "channel/ump.hpp"
#include "state/over_ranks/layout.hpp"
#include "state/over_ranks/message.hpp"

namespace smelt::state::over_ranks {

class Links {
 public:
  Links(const Layout& layout, int rank)
      : layout_(layout), coding_(layout.head().shape.geometry, layout.head().shape.strings != 0), rank_(rank) {
    const Shape& shape = layout_.head().shape;
    const int ranks = static_cast<int>(shape.ranks);
    out_.resize(static_cast<std::size_t>(ranks));
    for (int other = 0; other < ranks; ++other) {
      if (std::byte* from = layout_.channel(other, rank)) {
        in_.push_back({channel::UmpReceiver(from, shape.channel_lines), other});
        in_.back().words.resize(up(coding_.most_words(), line_words));
      }
      if (std::byte* to = layout_.channel(rank, other)) {
        out_[static_cast<std::size_t>(other)].sender = channel::UmpSender(to, shape.channel_lines);
      }
    }
    sent_.resize(coding_.most_words());
    received_.resize(coding_.most_words());
  }

  const Coding& coding() const noexcept { return coding_; }
  bool none() const noexcept { return in_.empty(); }

  /// Sends to a connected rank, or to this one.
  void post(int to, const Message& message) noexcept {
    const std::size_t words = coding_.encode(message, sent_);
    if (to == rank_) return own_.push(sent_.data(), words);
    Out& out = out_[static_cast<std::size_t>(to)];
    if (!out.kept.empty() || !out.sender.can_send(lines_of(words))) {
      out.kept.push(sent_.data(), words);
      ++kept_;
      return;
    }
    put(out, sent_.data(), words, 0, lines_of(words));
    unpark(layout_.part(to).bell);
  }

  bool all_sent() const noexcept { return kept_ == 0; }
  /// Messages that wait for room.
  std::size_t kept() const noexcept { return kept_; }

  /// Sends queued messages as far as there is room. Returns whether it sent anything.
  bool flush() noexcept {
    bool any = false;
    for (std::size_t to = 0; kept_ != 0 && to < out_.size(); ++to) {
      const bool sent = flush(out_[to]);
      if (sent) unpark(layout_.part(static_cast<int>(to)).bell);
      any |= sent;
    }
    return any;
  }

  /// Calls handle(from, message) for each available message. Returns whether there was one. `handle` may post.
  template <class Handle>
  bool poll(Handle&& handle) noexcept {
    bool any = !own_.empty();
    for (In& in : in_) {
      for (int i = 0; i < most_at_once && take(in); ++i) {
        any = true;
        handle(in.from, coding_.decode(in.words.data()));
      }
    }
    while (!own_.empty()) {
      std::size_t words = 0;
      const Word* message = own_.front(&words);
      received_.assign(message, message + words);
      own_.pop();
      handle(rank_, coding_.decode(received_.data()));
    }
    return any;
  }

 private:
  static constexpr std::size_t line_words = channel::line_payload / sizeof(Word);
  static constexpr int most_at_once = 64;

  struct In {
    channel::UmpReceiver receiver;
    int from;
    std::vector<Word> words{};  ///< of a message that arrives
    std::uint32_t lines = 0;    ///< of it that are missing
    std::size_t used = 0;       ///< words that have arrived
  };
  struct Out {
    channel::UmpSender sender;
    MessageQueue kept;
    std::uint32_t sent = 0;  ///< lines of the first kept message
  };

  static std::uint32_t lines_of(std::size_t words) noexcept {
    return static_cast<std::uint32_t>((words + line_words - 1) / line_words);
  }

  /// Sends lines `from` to `to` of a message. The first one has the number of lines as its tag.
  static void put(Out& out, const Word* words, std::size_t count, std::uint32_t from, std::uint32_t to) noexcept {
    for (std::uint32_t line = from; line < to; ++line) {
      const std::size_t bytes = std::min(line_words, count - line * line_words) * sizeof(Word);
      channel::copy_payload(out.sender.payload(), reinterpret_cast<const std::byte*>(words + line * line_words), bytes);
      out.sender.commit(bytes, line == 0 ? lines_of(count) : 0);
    }
  }

  bool flush(Out& out) noexcept {
    bool any = false;
    while (!out.kept.empty()) {
      std::size_t words = 0;
      const Word* message = out.kept.front(&words);
      const std::uint32_t lines = lines_of(words);
      for (; out.sent < lines && out.sender.can_send(1); ++out.sent, any = true) {
        put(out, message, words, out.sent, out.sent + 1);
      }
      if (out.sent < lines) break;
      out.kept.pop();
      out.sent = 0;
      --kept_;
    }
    return any;
  }

  /// Takes lines until a message is complete.
  bool take(In& in) noexcept {
    channel::UmpReceiver& receiver = in.receiver;
    if (!receiver.can_recv()) return false;
    do {
      if (in.lines == 0) {
        in.lines = receiver.tag();
        in.used = 0;
        if (in.words.size() < in.lines * line_words) in.words.resize(in.lines * line_words);
      }
      std::memcpy(in.words.data() + in.used, receiver.payload(), receiver.size());
      in.used += line_words;
      receiver.release();
      if (--in.lines == 0) return true;
    } while (receiver.can_recv());
    unpark(layout_.part(in.from).bell);  // its sender may wait for room
    return false;
  }

  const Layout& layout_;
  Coding coding_;
  int rank_;
  std::vector<In> in_;
  std::vector<Out> out_;
  MessageQueue own_;
  std::size_t kept_ = 0;               ///< messages
  std::vector<Word> sent_, received_;  ///< a message to others; one to this rank
};

}  // namespace smelt::state::over_ranks
