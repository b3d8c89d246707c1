// Processes share a map of prices. One of them is killed in the middle of its work; the others go on at once, and every
// price that they find is whole.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <smelt/map.hpp>
#include <string>

struct Quote {
  double bid, ask;
};
using Prices = smelt::Map<std::uint64_t, Quote>;

// What each process does.
static int trade(const std::string& name, std::uint64_t seed, bool dies) {
  auto prices = Prices::create_shared(name, {.capacity = 1000});
  if (!prices) return 1;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const std::uint64_t share = (i * 2654435761 + seed) % 500;
    const double bid = static_cast<double>(i % 1000);
    if (!prices->put(share, {bid, bid + 1})) return 1;
    const auto other = prices->get((share + 7) % 500);
    if (other && other->ask != other->bid + 1) return 1;
    if (dies && i == 100'000) std::raise(SIGKILL);
  }
  return 0;
}

int main() {
  const std::string name = "prices-" + std::to_string(getpid());
  for (std::uint64_t i = 0; i < 3; ++i) {
    if (fork() == 0) _exit(trade(name, i, i == 0));
  }
  int status = 0, good = 0, killed = 0;
  while (wait(&status) > 0) {
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }
  std::printf("%d killed, %d finished\n", killed, good);
  return killed == 1 && good == 2 ? 0 : 1;
}
