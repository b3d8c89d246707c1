// Two threads and two channels: a number goes back and forth and grows.
#include <cstdio>
#include <smelt/channel.hpp>
#include <thread>

int main() {
  auto there = smelt::Channel::create();
  auto back = smelt::Channel::create();
  if (!there || !back) {
    std::fprintf(stderr, "%s\n", (there ? back : there).error().message.c_str());
    return 1;
  }
  const int rounds = 10'000;
  std::thread echo([in = there->receiver(), out = back->sender()]() mutable {
    for (int round = 0; round < rounds; ++round) {
      long number = 0;
      in->recv(&number, sizeof number);
      ++number;
      out->send(&number, sizeof number);
    }
  });
  auto out = there->sender();
  auto in = back->receiver();
  long number = 0;
  for (int round = 0; round < rounds; ++round) {
    out->send(&number, sizeof number);
    in->recv(&number, sizeof number);
  }
  echo.join();
  std::printf("after %d round trips: %ld\n", rounds, number);
  return number == rounds ? 0 : 1;
}
