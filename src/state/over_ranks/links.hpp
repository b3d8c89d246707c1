// A rank's channels to and from others. Sending never waits: messages for a full channel are queued and sent later. So
// a waiting rank continues to receive, and a cycle of full channels cannot cause a deadlock.
#pragma once

#include <vector>

#include "channel/ump.hpp"
#include "state/over_ranks/layout.hpp"
#include "state/over_ranks/message.hpp"

namespace smelt::state::over_ranks {

class Links {
 public:
  Links(const Layout& layout, int rank) : layout_(layout), coding_(layout.head().shape.geometry), rank_(rank) {
    const Shape& shape = layout_.head().shape;
    const int ranks = static_cast<int>(shape.ranks);
    out_.resize(static_cast<std::size_t>(ranks));
    for (int other = 0; other < ranks; ++other) {
      if (std::byte* from = layout_.channel(other, rank)) {
        in_.push_back({channel::UmpReceiver(from, shape.channel_lines), other});
      }
      if (std::byte* to = layout_.channel(rank, other)) {
        out_[static_cast<std::size_t>(other)].sender = channel::UmpSender(to, shape.channel_lines);
      }
    }
    sent_.resize(coding_.most_words());
    received_.resize(up(coding_.most_words(), line_words) + line_words);
  }

  const Coding& coding() const noexcept { return coding_; }
  bool none() const noexcept { return in_.empty(); }

  /// Sends to a connected rank, or to this one.
  void post(int to, const Message& message) noexcept {
    const std::size_t words = coding_.encode(message, sent_.data());
    if (to == rank_) return own_.push(sent_.data(), words);
    Out& out = out_[static_cast<std::size_t>(to)];
    if (!out.kept.empty() || !put(out, sent_.data(), words)) {
      out.kept.push(sent_.data(), words);
      ++kept_;
    }
    unpark(layout_.part(to).bell);
  }

  bool all_sent() const noexcept { return kept_ == 0; }

  /// Sends queued messages as far as there is room.
  void flush() noexcept {
    if (kept_ == 0) return;
    for (std::size_t to = 0; to < out_.size(); ++to) {
      while (!out_[to].kept.empty()) {
        std::size_t words = 0;
        const Word* message = out_[to].kept.front(&words);
        if (!put(out_[to], message, words)) break;
        out_[to].kept.pop();
        --kept_;
        unpark(layout_.part(static_cast<int>(to)).bell);
      }
    }
  }

  /// Calls handle(from, message) for each available message. Returns whether there was one. `handle` may post.
  template <class Handle>
  bool poll(Handle&& handle) noexcept {
    bool any = !own_.empty();
    for (In& in : in_) {
      for (int i = 0; i < most_at_once && take(in); ++i) {
        any = true;
        handle(in.from, coding_.decode(received_.data()));
      }
    }
    while (!own_.empty()) {
      std::size_t words = 0;
      const Word* message = own_.front(&words);
      std::copy(message, message + words, received_.data());
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
  };
  struct Out {
    channel::UmpSender sender;
    MessageQueue kept;
  };

  /// Sends all lines or none. A message is complete as soon as its last line has arrived.
  static bool put(Out& out, const Word* words, std::size_t count) noexcept {
    const auto lines = static_cast<std::uint32_t>((count + line_words - 1) / line_words);
    if (!out.sender.can_send(lines)) return false;
    for (std::uint32_t line = 0; line < lines; ++line) {
      const std::size_t bytes = std::min(line_words, count - line * line_words) * sizeof(Word);
      channel::copy_payload(out.sender.payload(), reinterpret_cast<const std::byte*>(words + line * line_words), bytes);
      out.sender.commit(bytes, line == 0 ? lines : 0);
    }
    return true;
  }

  bool take(In& in) noexcept {
    channel::UmpReceiver& receiver = in.receiver;
    if (!receiver.can_recv()) return false;
    const std::uint32_t lines = receiver.tag();
    if (lines > 1 && !receiver.can_recv(lines)) return false;  // its sender is about to write the others, or has died
    for (std::uint32_t line = 0; line < lines; ++line) {
      std::memcpy(received_.data() + line * line_words, receiver.payload(), receiver.size());
      receiver.release();
    }
    return true;
  }

  const Layout& layout_;
  Coding coding_;
  int rank_;
  std::vector<In> in_;
  std::vector<Out> out_;
  MessageQueue own_;
  std::size_t kept_ = 0;  ///< messages
  std::vector<Word> sent_, received_;
};

}  // namespace smelt::state::over_ranks
