// The transports: channel/ordering.hpp.
#include "channel/fastforward.hpp"
#include "channel/ump.hpp"
#include "stress.hpp"

namespace {

using namespace smelt;
using namespace smelt::channel;
using namespace smelt::stress;

/// Sends `messages` numbers from one thread to another. Returns how many arrived wrong.
template <class Sender, class Receiver>
std::uint64_t send_numbers(std::size_t bytes) {
  const Memory memory = zeroed(bytes);
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

}  // namespace

int main() {
  return verdict(repeated([] {
    return send_numbers<UmpSender, UmpReceiver>(ump_bytes(capacity)) +
           send_numbers<CellSender, CellReceiver>(ump_bytes<Cell>(capacity)) +
           send_numbers<FastForwardSender, FastForwardReceiver>(fastforward_bytes(capacity));
  }));
}
