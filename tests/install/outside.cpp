// A program in C++ that uses an installed smelt through its C++ interface.
#include <atomic>
#include <cstdio>
#include <smelt/channel.hpp>
#include <smelt/communicator.hpp>
#include <smelt/machine.hpp>
#include <smelt/measure.hpp>
#include <smelt/plan.hpp>
#include <smelt/settings.hpp>

int main() {
  auto communicator = smelt::Communicator::create(2);
  if (!communicator) {
    std::fprintf(stderr, "%s\n", communicator.error().message.c_str());
    return 1;
  }
  std::atomic<int> failures{0};
  auto ran = communicator->run([&](smelt::Rank& rank) {
    const int mine = rank.rank() + 1;
    int total = 0;
    if (rank.allreduce(&mine, &total, 1, smelt::sum<int>()) != smelt::Status::ok || total != 3) ++failures;
  });
  std::printf("two ranks agree on a %s tree\n", communicator->plan(smelt::Operation::broadcast).topology.c_str());
  return ran && failures == 0 ? 0 : 1;
}
