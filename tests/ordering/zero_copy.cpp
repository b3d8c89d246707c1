// Ticks and lent buffers: TICK_* and BUFFER_* in comm/ordering.hpp.
#include "comm/collective/link.hpp"
#include "stress.hpp"

namespace {

using namespace smelt;
using namespace smelt::channel;
using namespace smelt::stress;

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
  const Memory memory = zeroed(ump_bytes(capacity));
  comm::DirectReads read;
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
  return verdict(repeated([] { return stress_ticks() + stress_lending(); }));
}
