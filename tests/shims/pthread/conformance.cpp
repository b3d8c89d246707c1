// POSIX's promises about barriers, as far as a program can observe them. Runs against the C library and, with the
// preload library, against smelt. With EXPECT_SHIM=1 in the environment it must be smelt.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

/// A barrier that is destroyed at the end of its scope.
class Barrier {
 public:
  explicit Barrier(unsigned count) { EXPECT_EQ(pthread_barrier_init(&barrier_, nullptr, count), 0); }
  ~Barrier() { EXPECT_EQ(pthread_barrier_destroy(&barrier_), 0); }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  /// True to the serial thread.
  bool wait() {
    const int result = pthread_barrier_wait(&barrier_);
    EXPECT_TRUE(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD) << result;
    return result == PTHREAD_BARRIER_SERIAL_THREAD;
  }

 private:
  pthread_barrier_t barrier_;
};

void in_threads(unsigned count, const std::function<void(unsigned)>& body) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (auto& thread : threads) thread.join();
}

/// Memory that processes share.
template <class T>
struct SharedMemory {
  T* const object = new (mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) T();
  ~SharedMemory() { munmap(object, sizeof(T)); }
};

void init_shared(pthread_barrier_t* barrier, unsigned count) {
  pthread_barrierattr_t attributes;
  ASSERT_EQ(pthread_barrierattr_init(&attributes), 0);
  ASSERT_EQ(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
  ASSERT_EQ(pthread_barrier_init(barrier, &attributes, count), 0);
  ASSERT_EQ(pthread_barrierattr_destroy(&attributes), 0);
}

pid_t in_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  return child;
}

void expect_success(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(PthreadBarrier, IsTheOneThatThisRunIsAbout) {
  Dl_info info = {};
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "pthread_barrier_wait"), &info), 0);
  const bool shim = std::string(info.dli_fname).find("libsmelt_pthread") != std::string::npos;
  if (std::getenv("EXPECT_SHIM") != nullptr) {
    EXPECT_TRUE(shim) << info.dli_fname;
  }
}

TEST(PthreadBarrier, RefusesACountOfZero) {
  pthread_barrier_t barrier;
  EXPECT_EQ(pthread_barrier_init(&barrier, nullptr, 0), EINVAL);
}

TEST(PthreadBarrier, RefusesACountBeyondReason) {
  pthread_barrier_t barrier;
  EXPECT_EQ(pthread_barrier_init(&barrier, nullptr, ~0u), EINVAL);
}

TEST(PthreadBarrier, OneThreadIsAlwaysTheSerialOne) {
  Barrier barrier(1);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(barrier.wait());
}

TEST(PthreadBarrier, AcceptsEveryCountUpTo1024) {
  for (unsigned count = 1; count <= 1024; ++count) Barrier barrier(count);
}

TEST(PthreadBarrier, MayBeInitialisedAgainWithAnotherCount) {
  pthread_barrier_t barrier;
  for (unsigned count = 1; count < 6; ++count) {
    ASSERT_EQ(pthread_barrier_init(&barrier, nullptr, count), 0);
    std::atomic<int> serials{0};
    in_threads(count, [&](unsigned) { serials += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD; });
    EXPECT_EQ(serials, 1);
    ASSERT_EQ(pthread_barrier_destroy(&barrier), 0);
  }
}

TEST(PthreadBarrier, NoThreadPassesBeforeTheLastArrives) {
  Barrier barrier(3);
  std::atomic<int> passed{0};
  const auto wait = [&] {
    barrier.wait();
    ++passed;
  };
  std::thread first(wait), second(wait);
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(passed, 0);
  barrier.wait();
  first.join();
  second.join();
  EXPECT_EQ(passed, 2);
}

TEST(PthreadBarrier, OneSerialThreadPerRoundForAnyCount) {
  for (const unsigned count : {2u, 3u, 7u, 16u, 64u, 257u, 1024u}) {
    const int rounds = count > 64 ? 3 : 50;
    Barrier barrier(count);
    std::vector<std::atomic<int>> serials(static_cast<std::size_t>(rounds));
    in_threads(count, [&](unsigned) {
      for (auto& each : serials) each += barrier.wait();
    });
    for (const auto& each : serials) EXPECT_EQ(each, 1) << count << " threads";
  }
}

TEST(PthreadBarrier, OrdersWritesOfThreads) {
  for (const unsigned threads : {2u, 4u}) {
    constexpr int rounds = 2000;
    Barrier barrier(threads);
    std::vector<int> written(threads);  // plain: the barrier orders
    std::atomic<int> wrong{0};
    in_threads(threads, [&](unsigned me) {
      for (int round = 1; round <= rounds; ++round) {
        written[me] = round;
        barrier.wait();
        for (const int each : written) wrong += each != round;
        barrier.wait();
      }
    });
    EXPECT_EQ(wrong, 0);
  }
}

// A barrier knows a count, not identities: six threads meet in pairs, as they come.
TEST(PthreadBarrier, AnyThreadsMayTakePart) {
  constexpr int waits = 6000;
  Barrier barrier(2);
  std::atomic<int> left{waits}, serials{0};
  in_threads(6, [&](unsigned) {
    while (left.fetch_sub(1) > 0) serials += barrier.wait();
  });
  EXPECT_EQ(serials, waits / 2);
}

TEST(PthreadBarrier, ThreadsOfOneRoundNeedNotComeBack) {
  Barrier barrier(3);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> serials{0};
    in_threads(3, [&](unsigned) { serials += barrier.wait(); });
    EXPECT_EQ(serials, 1);
  }
}

// Whoever `destroys` does so at once, and takes the memory away while others may still be on their way out.
void destroy_right_after(unsigned threads, bool serial_destroys) {
  constexpr std::size_t rounds = 200;
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<pthread_barrier_t*> barriers(rounds);
  std::vector<std::atomic<bool>> destroyed(rounds);
  for (auto& barrier : barriers) {
    void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    barrier = new (memory) pthread_barrier_t;
    ASSERT_EQ(pthread_barrier_init(barrier, nullptr, threads), 0);
  }
  in_threads(threads, [&](unsigned) {
    for (std::size_t i = 0; i < rounds; ++i) {
      const bool serial = pthread_barrier_wait(barriers[i]) == PTHREAD_BARRIER_SERIAL_THREAD;
      if (serial != serial_destroys || destroyed[i].exchange(true)) continue;
      EXPECT_EQ(pthread_barrier_destroy(barriers[i]), 0);
      munmap(barriers[i], page);
    }
  });
}

TEST(PthreadBarrier, TheSerialThreadMayDestroyAtOnce) {
  for (const unsigned threads : {2u, 4u, 9u}) destroy_right_after(threads, true);
}

TEST(PthreadBarrier, AnyOtherThreadMayDestroyAtOnce) {
  for (const unsigned threads : {2u, 4u, 9u}) destroy_right_after(threads, false);
}

TEST(PthreadBarrier, ManyAtOnce) {
  constexpr unsigned threads = 4;
  constexpr int rounds = 40;
  std::vector<pthread_barrier_t> barriers(300);
  for (auto& barrier : barriers) ASSERT_EQ(pthread_barrier_init(&barrier, nullptr, threads), 0);
  std::atomic<int> serials{0};
  in_threads(threads, [&](unsigned) {
    for (int round = 0; round < rounds; ++round) {
      for (auto& barrier : barriers) serials += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    }
  });
  EXPECT_EQ(serials, rounds * static_cast<int>(barriers.size()));
  // More rounds than the others, so that times can be compared (SMELT_VERBOSE=1).
  in_threads(threads, [&](unsigned) {
    for (int round = 0; round < 1100; ++round) pthread_barrier_wait(&barriers.front());
  });
  for (auto& barrier : barriers) EXPECT_EQ(pthread_barrier_destroy(&barrier), 0);
}

TEST(PthreadBarrier, SixtyFourThreadsOnFewPus) {
  constexpr unsigned threads = 64;
  constexpr int rounds = 200;
  Barrier barrier(threads);
  std::vector<int> written(threads);
  std::atomic<int> serials{0}, wrong{0};
  in_threads(threads, [&](unsigned me) {
    for (int round = 1; round <= rounds; ++round) {
      written[me] = round;
      serials += barrier.wait();
      wrong += written[(me + 1) % threads] != round;
      serials += barrier.wait();
    }
  });
  EXPECT_EQ(serials, 2 * rounds);
  EXPECT_EQ(wrong, 0);
}

TEST(PthreadBarrier, LateThreadsFindSleepersAwake) {
  Barrier barrier(3);
  in_threads(3, [&](unsigned me) {
    for (unsigned round = 0; round < 12; ++round) {
      if (round % 3 == me) std::this_thread::sleep_for(8ms);
      barrier.wait();
    }
  });
}

struct SharedState {
  pthread_barrier_t barrier;
  std::atomic<int> serials{0};
  int written[5] = {};
};

TEST(PthreadBarrier, IsSharedBetweenProcesses) {
  for (const unsigned processes : {2u, 5u}) {
    constexpr int rounds = 500;
    SharedMemory<SharedState> memory;
    SharedState& shared = *memory.object;
    init_shared(&shared.barrier, processes);
    const auto play = [&](unsigned me) {
      for (int round = 1; round <= rounds; ++round) {
        shared.written[me] = round;
        shared.serials += pthread_barrier_wait(&shared.barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        EXPECT_EQ(shared.written[(me + 1) % processes], round);
        shared.serials += pthread_barrier_wait(&shared.barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
      }
    };
    std::vector<pid_t> children;
    for (unsigned i = 1; i < processes; ++i) children.push_back(in_child([&] { play(i); }));
    play(0);
    for (const pid_t child : children) expect_success(child);
    EXPECT_EQ(shared.serials, 2 * rounds);
    EXPECT_EQ(pthread_barrier_destroy(&shared.barrier), 0);
  }
}

TEST(PthreadBarrier, MayBeMappedAtAnyAddress) {
  const int fd = memfd_create("barrier", 0);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  const auto map = [fd] {
    return static_cast<pthread_barrier_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  };
  pthread_barrier_t* const here = map();
  pthread_barrier_t* const there = map();
  ASSERT_NE(here, there);
  init_shared(here, 2);
  const auto wait = [](pthread_barrier_t* barrier) {
    for (int i = 0; i < 300; ++i) pthread_barrier_wait(barrier);
  };
  const pid_t child = in_child([&] { wait(there); });
  wait(here);
  expect_success(child);
  EXPECT_EQ(pthread_barrier_destroy(here), 0);
  munmap(here, 4096);
  munmap(there, 4096);
  close(fd);
}

TEST(PthreadBarrier, ProcessesOfManyThreadsMeet) {
  SharedMemory<SharedState> memory;
  SharedState& shared = *memory.object;
  init_shared(&shared.barrier, 6);
  const auto play = [&] {
    in_threads(3, [&](unsigned) {
      for (int i = 0; i < 100; ++i)
        shared.serials += pthread_barrier_wait(&shared.barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    });
  };
  const pid_t child = in_child(play);
  play();
  expect_success(child);
  EXPECT_EQ(shared.serials, 100);
}

// Waiting at a barrier is no cancellation point: a thread that is cancelled there passes the barrier first.
TEST(PthreadBarrier, CancellationWaitsForTheNextPoint) {
  struct Scene {
    Barrier barrier{2};
    std::atomic<bool> passed{false}, went_on{false};
  } scene;
  pthread_t thread;
  const auto body = [](void* argument) -> void* {
    auto& scene = *static_cast<Scene*>(argument);
    scene.barrier.wait();
    scene.passed = true;
    pthread_testcancel();
    scene.went_on = true;
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, body, &scene), 0);
  std::this_thread::sleep_for(20ms);
  ASSERT_EQ(pthread_cancel(thread), 0);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(scene.passed);
  scene.barrier.wait();
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_TRUE(scene.passed);
  EXPECT_FALSE(scene.went_on);
}

std::atomic<int> signals{0};

TEST(PthreadBarrier, SignalHandlersRunAndTheWaitGoesOn) {
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { ++signals; };  // no SA_RESTART
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Barrier barrier(2);
  std::atomic<bool> passed{false};
  std::thread waiter([&] {
    barrier.wait();
    passed = true;
  });
  for (int i = 1; i <= 5; ++i) {
    std::this_thread::sleep_for(10ms);
    ASSERT_EQ(pthread_kill(waiter.native_handle(), SIGUSR1), 0);
    for (int ms = 0; signals < i && ms < 5000; ++ms) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(signals, i);
    EXPECT_FALSE(passed);
  }
  barrier.wait();
  waiter.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(PthreadBarrier, AForkedChildMayUseBarriersOfItsOwnAndIdleOnes) {
  Barrier idle(2);
  in_threads(2, [&](unsigned) {
    for (int i = 0; i < 100; ++i) idle.wait();
  });
  const auto play = [](Barrier& barrier) {
    std::atomic<int> serials{0};
    in_threads(2, [&](unsigned) {
      for (int i = 0; i < 100; ++i) serials += barrier.wait();
    });
    EXPECT_EQ(serials, 100);
  };
  const pid_t child = in_child([&] {
    Barrier own(2);
    play(own);
    play(idle);
  });
  play(idle);
  expect_success(child);
}

// While a thread waits, the process forks; the child knows nothing of that thread, the parent goes on.
TEST(PthreadBarrier, ForkWhileAThreadWaits) {
  Barrier barrier(2);
  std::thread waiter([&] { barrier.wait(); });
  std::this_thread::sleep_for(10ms);
  expect_success(in_child([] {
    Barrier own(1);
    own.wait();
  }));
  barrier.wait();
  waiter.join();
}

// Initialised through a look-up that does not find the preload library.
TEST(PthreadBarrier, OneThatWasInitialisedPastTheShimWorks) {
  void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  using Init = int(pthread_barrier_t*, const pthread_barrierattr_t*, unsigned);
  auto* const init = reinterpret_cast<Init*>(dlsym(library, "pthread_barrier_init"));
  if (init == nullptr) GTEST_SKIP() << "the C library keeps pthread_barrier_init elsewhere";
  pthread_barrier_t barrier;
  ASSERT_EQ(init(&barrier, nullptr, 2), 0);
  std::atomic<int> serials{0};
  in_threads(2, [&](unsigned) {
    for (int i = 0; i < 300; ++i) serials += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
  });
  EXPECT_EQ(serials, 300);
  EXPECT_EQ(pthread_barrier_destroy(&barrier), 0);
}

}  // namespace
