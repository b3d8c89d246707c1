// part_simple: each key belongs to one server, and every operation is a message to it and an answer.
//
//   client --request--> server of the key: does it, in the order in which requests arrive --answer--> client
//
// Linearizable: an operation takes effect when its server, which is one thread, executes it between request and answer.
// [Shahmirzadi14] figures 3.2 and 3.3, where the answer may precede the update. Here it follows, since it contains the
// former value. A batch has many pending requests; those of one key go to one server, in order.
#include <algorithm>

#include "state/over_ranks/partitioned.hpp"

namespace smelt::state::over_ranks {
namespace {

class PartSimple final : public Partitioned {
 public:
  PartSimple(std::shared_ptr<Space> space, int rank, LocalTable table)
      : Partitioned(std::move(space), rank, std::move(table)) {
    const std::size_t lines = links_.coding().most_words() / (channel::line_payload / sizeof(Word)) + 1;
    window_ = std::max<std::size_t>(shape().channel_lines / lines / 2, 1);
  }

  void run(std::span<const GroupCall> calls, std::span<MapAnswer> answers) noexcept override {
    if (!may_call()) {
      std::ranges::fill(answers, MapAnswer{status_ == Status::ok ? Status::invalid_argument : status_});
      return;
    }
    calls_ = calls;
    answers_ = answers;
    bool good = true;
    for (std::size_t i = 0; i < calls.size() && good; ++i) {
      const int server = owner_of(calls[i].hash);
      if (server == rank_) {
        answers[i] = apply(calls[i]);
        good = status_ == Status::ok;
        continue;
      }
      if (under_way_ >= window_) good = await([this] { return under_way_ < window_; });
      ++under_way_;
      links_.post(server, message_of(Kind::request, calls[i], rank_, i));
    }
    if (good) good = await([this] { return under_way_ == 0; });
    if (!good) std::ranges::fill(answers, MapAnswer{status_});
  }

 private:
  MapAnswer apply(const GroupCall& call) noexcept {
    if (is_frozen() && call.operation != Operation::get && !await([this] { return !is_frozen(); })) return {status_};
    return table_.apply(message_of(Kind::request, call, rank_), call.hash, call.result);
  }

  MapAnswer look_up(const GroupCall& call) noexcept override { return update(call); }
  MapAnswer update(const GroupCall& call) noexcept override {
    if (owner_of(call.hash) == rank_) {
      step_now_and_then();
      return apply(call);
    }
    if (is_mutant(Mutant::part_simple_returns_early) && call.operation == Operation::put) {
      links_.post(owner_of(call.hash), message_of(Kind::request, call, rank_, nobody_waits));
      return {};
    }
    MapAnswer answer;
    run(std::span(&call, 1), std::span(&answer, 1));
    return answer;
  }

  void handle(int from, const Message& message) noexcept override {
    if (is_handled(from, message)) return;
    if (message.kind == Kind::request) return accept(from, message);
    if (is_mutant(Mutant::part_simple_returns_early) && message.stamp == nobody_waits) return;
    const GroupCall& call = calls_[message.stamp];
    answers_[message.stamp] = message.answer();
    if (message.value.data() != nullptr) call.result.take(message.value);
    --under_way_;
  }

  void accept(int from, const Message& request) noexcept override {
    const MapAnswer done = table_.apply(request, table_.hash(request.key), was_.target());
    Message answer;
    answer.kind = Kind::answer;
    answer.flags = flags_of(done);
    answer.stamp = request.stamp;
    if (tells_value(request.operation) && done.found) answer.value = was_.bytes();
    links_.post(from, answer);
  }

  int missing() noexcept override {
    const int rank = Member::missing();
    if (rank < 0 || members().first_dead() >= 0) return rank;
    for (std::uint32_t i = 0; i < shape().servers; ++i) {
      if (!members().present(shape().server(i))) return shape().server(i);
    }
    return -1;
  }

  static constexpr std::uint64_t nobody_waits = ~std::uint64_t{0};

  Buffer was_ = value_buffer();
  std::span<const GroupCall> calls_;
  std::span<MapAnswer> answers_;
  std::size_t under_way_ = 0;  ///< requests without answer
  std::size_t window_ = 1;     ///< of them at most
};

}  // namespace

std::unique_ptr<Member> make_part_simple(std::shared_ptr<Space> space, int rank, LocalTable table) {
  return std::make_unique<PartSimple>(std::move(space), rank, std::move(table));
}

}  // namespace smelt::state::over_ranks
