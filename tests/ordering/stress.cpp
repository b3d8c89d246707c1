// A short stress of both transports, the flat barrier, gates, meetings of two, ticks and lent buffers for
// ThreadSanitizer: small rings, so that slots are reused all the time. Built once as it is and once for every name in
// channel/ordering.hpp and comm/ordering.hpp with that order weakened; the sanitizer must stay silent on the first and
// report a data race on all others.
#include <chrono>
#include <cstdio>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "channel/fastforward.hpp"
#include "channel/ump.hpp"
#include "comm/flat_barrier.hpp"
#include "comm/gate.hpp"
#include "comm/link.hpp"
#include "comm/team.hpp"

namespace {

using namespace smelt;
using namespace smelt::channel;

constexpr std::uint32_t capacity = 4;
constexpr std::uint64_t messages = 2000;

struct FreeAligned {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{separation_bytes}); }
};

/// Sends `messages` numbers from one thread to another. Returns how many arrived wrong.
template <class Sender, class Receiver>
std::uint64_t stress(std::size_t bytes) {
  std::unique_ptr<std::byte[], FreeAligned> memory(new (std::align_val_t{separation_bytes}) std::byte[bytes]());
  std::thread producer([&] {
    Sender sender(memory.get(), capacity);
    Waiter waiter;
    for (std::uint64_t i = 0; i < messages; ++i) sender.send(&i, sizeof i, waiter);
  });
  Receiver receiver(memory.get(), capacity);
  Waiter waiter;
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < messages; ++i) {
    std::uint64_t got = 0;
    receiver.recv(&got, sizeof got, waiter);
    wrong += got != i;
  }
  producer.join();
  return wrong;
}

/// Two threads take turns in writing one plain number, `wait(waiter, me)` of a barrier between the turns.
template <class Wait>
std::uint64_t take_turns(Wait wait) {
  std::uint64_t number = 0;
  const auto play = [&](std::uint64_t me) {
    Waiter waiter;
    for (std::uint64_t turn = 0; turn < messages; ++turn) {
      // Left alone the two fall into step, the writer always first or always last to arrive: each
      // case hides the loss of another order.
      const bool writer = turn % 2 == me;
      const bool dawdle = turn % 8 < 2 ? !writer : turn % 8 < 4 && writer;
      if (dawdle) std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (writer) ++number;
      wait(waiter, static_cast<int>(me));
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  return messages - number;
}

std::uint64_t stress_barrier() {
  comm::FlatBarrier barrier;
  return take_turns([&](Waiter& waiter, int) { barrier.enter(2, waiter); });
}

/// Runs body(member) on the members of a team of three, the smallest that uses all its forms.
template <class Body>
std::uint64_t on_three(const Body& body) {
  std::uint64_t wrong[3] = {};
  std::vector<std::thread> others;
  for (int member = 1; member < 3; ++member) others.emplace_back([&, member] { wrong[member] = body(member); });
  wrong[0] = body(0);
  for (auto& other : others) other.join();
  return wrong[0] + wrong[1] + wrong[2];
}

/// Each member writes a number of its own, all read all of them, a barrier between the turns.
std::uint64_t stress_team_barrier(int parallelism) {
  comm::Team team(3, parallelism, WaitConfig{});
  std::uint64_t numbers[3] = {};
  return on_three([&](int me) {
    std::uint64_t wrong = 0;
    for (std::uint64_t turn = 0; turn < messages / 4; ++turn) {
      numbers[me] = turn;
      team.barrier(me);
      for (const auto number : numbers) wrong += number != turn;
      team.barrier(me);
    }
    return wrong;
  });
}

/// Member 0 hands a number out with each region and collects what the others made of it.
std::uint64_t stress_team_regions(int parallelism) {
  comm::Team team(3, parallelism, WaitConfig{});
  struct Region {
    std::uint64_t number = 0, answers[3] = {};
  } region;
  return on_three([&](int me) {
    std::uint64_t wrong = 0;
    if (me != 0) {
      for (auto work = team.receive(me); work.function != nullptr; work = team.receive(me)) {
        auto& given = *static_cast<Region*>(work.data);
        given.answers[me] = given.number;
      }
      return wrong;
    }
    for (std::uint64_t turn = 1; turn <= messages / 4; ++turn) {
      region.number = turn;
      team.fork({[](void*) {}, &region});
      team.join();
      wrong += (region.answers[1] != turn) + (region.answers[2] != turn);
    }
    team.fork({});
    return wrong;
  });
}

/// By turns each member writes a number and calls a barrier off, which sends the others to read it.
std::uint64_t stress_team_off() {
  struct Trial {
    comm::Team team{3, 3, WaitConfig{}};
    std::uint64_t number = 0;
  };
  std::vector<std::unique_ptr<Trial>> trials(messages / 10);
  for (auto& trial : trials) trial = std::make_unique<Trial>();
  return on_three([&](int me) {
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      auto& [team, number] = *trials[i];
      if (i % 3 == static_cast<std::size_t>(me)) {
        number = i;
        team.call_off(me);
      }
      wrong += team.barrier(me);
      wrong += number != i;
    }
    return wrong;
  });
}

std::uint64_t stress_gate() {
  comm::Gate gate(2);
  return take_turns([&](Waiter& waiter, int) { gate.pass(gate.arrive(), waiter); });
}

std::uint64_t stress_gate_at_once() {
  comm::Gate gate(2);
  return take_turns([&](Waiter& waiter, int) {
    if (!gate.complete()) gate.pass(gate.arrive(), waiter);
  });
}

std::uint64_t stress_team() {
  comm::Team team(2, 2, WaitConfig{});
  return take_turns([&](Waiter&, int me) { team.barrier(me); });
}

/// By turns the last one through a gate and the other one free it, while who is left is still on the way out.
std::uint64_t stress_gate_end() {
  std::vector<std::unique_ptr<comm::Gate>> gates(messages);
  for (auto& gate : gates) gate = std::make_unique<comm::Gate>(2);
  std::uint64_t wrong = 0;
  const auto play = [&](std::uint64_t* refused) {
    Waiter waiter;
    bool last_frees = false;
    for (auto& gate : gates) {
      const auto ticket = gate->arrive();
      gate->pass(ticket, waiter);
      last_frees = !last_frees;
      if (ticket.last != last_frees) continue;
      *refused += !gate->drain(waiter);
      gate.reset();
    }
  };
  std::uint64_t others = 0;
  std::thread other(play, &others);
  play(&wrong);
  other.join();
  return wrong + others;
}

/// One rank fills a plain number and raises its tick; the other reads it and raises its own.
std::uint64_t stress_ticks() {
  comm::Tick ticks[2];
  std::uint64_t stage = 0, wrong = 0;
  const auto play = [&](std::uint64_t me) {
    Waiter waiter;
    for (std::uint64_t turn = 1; turn <= messages; ++turn) {
      comm::Tick& other = ticks[1 - me];
      // The owner fills the stage again when it has been read, the reader reads it when it has been filled.
      const std::uint64_t awaited = me == 0 ? turn - 1 : turn;
      waiter.wait([&] { return other.reached(awaited); }, &other.parking);
      if (me == 0) stage = turn;
      if (me == 1) wrong += stage != turn;
      ticks[me].raise(turn);
    }
  };
  std::thread reader(play, 1);
  play(0);
  reader.join();
  return wrong;
}

/// A buffer is lent through a channel and written again once it has been given back.
std::uint64_t stress_lending() {
  std::unique_ptr<std::byte[], FreeAligned> memory(new (std::align_val_t{separation_bytes})
                                                       std::byte[ump_bytes(capacity)]());
  comm::Consumed read;
  std::uint64_t wrong = 0;
  std::thread borrower([&] {
    comm::Link link;
    link.in = UmpReceiver(memory.get(), capacity);
    link.theirs_read = &read;
    Waiter waiter;
    for (std::uint64_t i = 0; i < messages; ++i) {
      const std::uint64_t* buffer = nullptr;
      link.in.recv(&buffer, sizeof buffer, waiter);
      wrong += *buffer != i;
      link.give_back();
    }
  });
  comm::Link link;
  link.out = UmpSender(memory.get(), capacity);
  link.mine_read = &read;
  Waiter waiter;
  std::uint64_t buffer = 0;
  for (std::uint64_t i = 0; i < messages; ++i) {
    buffer = i;
    const std::uint64_t* const address = &buffer;
    link.out.send(&address, sizeof address, waiter);
    ++link.lent;
    waiter.wait([&] { return link.all_returned(); }, &read.parking);
  }
  borrower.join();
  return wrong;
}

}  // namespace

int main() {
  std::uint64_t wrong = stress<UmpSender, UmpReceiver>(ump_bytes(capacity));
  wrong += stress<CellSender, CellReceiver>(ump_bytes<Cell>(capacity));
  wrong += stress<FastForwardSender, FastForwardReceiver>(fastforward_bytes(capacity));
  wrong += stress_barrier();
  wrong += stress_gate();
  wrong += stress_gate_at_once();
  wrong += stress_gate_end();
  wrong += stress_team();
  for (const int parallelism : {3, 1}) wrong += stress_team_barrier(parallelism) + stress_team_regions(parallelism);
  wrong += stress_team_off();
  wrong += stress_ticks();
  wrong += stress_lending();
  std::printf("%s\n", wrong == 0 ? "all right" : "messages or turns were wrong");
  return wrong == 0 ? 0 : 1;
}
