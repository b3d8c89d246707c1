// Turns of the benchmarks of maps: clients, threads or processes, that begin together on PUs of their own.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <new>
#include <thread>
#include <vector>

namespace bench::turns {

using Clock = std::chrono::steady_clock;

/// What the process may use, before any of its threads is bound to less.
inline const cpu_set_t allowed = [] {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  return set;
}();

/// Binds the calling thread to the PU of a client; round again when there are more clients than PUs.
inline void pin(int client) {
  cpu_set_t one;
  CPU_ZERO(&one);
  int at = client % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && at-- == 0) CPU_SET(cpu, &one);
  }
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/// Memory that the children of this process see, zero at first.
template <class T>
T& shared_memory() {
  void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    _exit(1);
  }
  return *new (memory) T{};
}

/// Where clients wait for each other.
struct Gate {
  std::atomic<int> waiting;
  void open_for(int clients) { waiting.store(clients); }
  void pass() {
    waiting.fetch_sub(1);
    while (waiting.load() > 0) sched_yield();
  }
};

/// Runs `body(client)` in each of the clients, and `meanwhile()` here. False if one of the processes failed.
template <class Body, class Meanwhile>
bool run_clients(int clients, bool processes, Body&& body, Meanwhile&& meanwhile) {
  std::vector<std::thread> threads;
  std::vector<pid_t> children;
  for (int i = 0; i < clients; ++i) {
    if (!processes) {
      threads.emplace_back([&body, i] { body(i); });
    } else if (const pid_t child = fork(); child == 0) {
      body(i);
      _exit(0);
    } else {
      children.push_back(child);
    }
  }
  meanwhile();
  for (auto& thread : threads) thread.join();
  bool well = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    well = well && status == 0;
  }
  return well;
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace bench::turns
