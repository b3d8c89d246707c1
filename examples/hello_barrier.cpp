// Four ranks say hello, one after the other: a barrier separates their turns.
#include <cstdio>
#include <smelt/communicator.hpp>

int main() {
  auto communicator = smelt::Communicator::create(4);  // four ranks, on distinct cores where there are as many
  if (!communicator) {
    std::fprintf(stderr, "%s\n", communicator.error().message.c_str());
    return 1;
  }
  int turns = 0;  // no atomic: the barriers order all accesses to it
  auto ran = communicator->run([&](smelt::Rank& rank) {
    for (int turn = 0; turn < rank.size(); ++turn) {
      if (turn == rank.rank()) {
        std::printf("hello from rank %d of %d\n", rank.rank(), rank.size());
        ++turns;
      }
      rank.barrier();
    }
  });
  return ran && turns == 4 ? 0 : 1;
}
