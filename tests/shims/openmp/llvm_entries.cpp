// Functions of LLVM's runtime that newer versions have and other compilers than clang call (flang, Intel's): called by
// hand as those do, with the preload library and without it. Prints the cases whose functions the runtime lacks; status
// 1 if one failed.
//
//   llvm_entries [name...]      only the cases whose name begins so
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "check.hpp"

using Microtask = void (*)(std::int32_t* global, std::int32_t* bound, ...);

/// One loop of a nest, as the runtime wants it: lower0 + lower1 * outer to upper0 + upper1 * outer.
struct Bounds {
  std::int32_t type, counter_type, comparison, outer;
  std::int64_t lower0, lower1, upper0, upper1, step;
  std::uint64_t trips;
};

extern "C" {
std::int32_t __kmpc_global_thread_num(void*);
void __kmpc_barrier(void*, std::int32_t);
std::int32_t __kmpc_single(void*, std::int32_t);
void __kmpc_end_single(void*, std::int32_t);
[[gnu::weak]] void __kmpc_fork_call_if(void*, std::int32_t, Microtask, std::int32_t, void*);
[[gnu::weak]] void* __kmpc_copyprivate_light(void*, std::int32_t, void*);
[[gnu::weak]] std::int32_t __kmpc_sections_init(void*, std::int32_t);
[[gnu::weak]] std::int32_t __kmpc_next_section(void*, std::int32_t, std::int32_t);
[[gnu::weak]] void __kmpc_end_sections(void*, std::int32_t);
[[gnu::weak]] std::int32_t __kmpc_for_collapsed_init(void*, std::int32_t, Bounds*, Bounds*, std::int32_t,
                                                     std::int32_t*);
[[gnu::weak]] void __kmpc_push_num_threads_strict(void*, std::int32_t, std::int32_t, int, const char*);
[[gnu::weak]] void __kmpc_push_num_threads_list(void*, std::int32_t, std::uint32_t, std::int32_t*);
[[gnu::weak]] void __kmpc_push_num_threads_list_strict(void*, std::int32_t, std::uint32_t, std::int32_t*, int,
                                                       const char*);
[[gnu::weak]] void __kmpc_set_thread_limit(void*, std::int32_t, std::int32_t);
}

namespace {

struct Location {
  std::int32_t reserved = 0, flags = 0x2, more = 0, length = 0;
  const char* source = ";file;function;1;1;;";
} location;

std::int32_t thread() { return __kmpc_global_thread_num(&location); }

const int sizes[] = {2, 3, 4};

/// Regions in a row, as many as make a hot team pay: what follows finds one.
void warm_up(int n) {
  for (int round = 0; round < 20; ++round) {
    int members = 0;
#pragma omp parallel num_threads(n)
#pragma omp single
    members = omp_get_num_threads();
    CHECK(members == n);
  }
}

// ---- parallel if() ---------------------------------------------------------------------------------

struct Region {
  std::atomic<int> members{0}, wrong{0};
  int size = 0, expected = 0;
  bool nests = false;
};

void region_body(std::int32_t* global, std::int32_t*, void* argument) {
  Region& region = *static_cast<Region*>(argument);
  ++region.members;
  region.wrong += omp_get_num_threads() != region.expected || omp_get_thread_num() >= region.expected;
  __kmpc_barrier(&location, *global);
  region.wrong += region.members != region.expected;
  __kmpc_barrier(&location, *global);
  if (region.nests) {
    Region inner;
    inner.expected = 1;
    __kmpc_fork_call_if(&location, 1, reinterpret_cast<Microtask>(region_body), 0, &inner);
    region.wrong += inner.members != 1 || inner.wrong != 0 || inner.size != 1;
    region.wrong += omp_get_num_threads() != region.expected;
    __kmpc_barrier(&location, *global);
  }
  if (__kmpc_single(&location, *global) != 0) {
    region.size = omp_get_num_threads();
    __kmpc_end_single(&location, *global);
  }
  __kmpc_barrier(&location, *global);
}

std::atomic<int> calls{0};
void body_without_arguments(std::int32_t*, std::int32_t*) { ++calls; }

void fork_call_if() {
  const int usual = omp_get_max_threads();
  for (int round = 0; round < 60; ++round) {
    const bool all = round % 4 != 3;
    warm_up(usual);
    Region region;
    region.expected = all ? usual : 1;
    region.nests = round % 3 == 1;
    __kmpc_fork_call_if(&location, 1, reinterpret_cast<Microtask>(region_body), all, &region);
    CHECK(region.members == region.expected && region.wrong == 0 && region.size == region.expected);
    CHECK(!omp_in_parallel() && omp_get_level() == 0);
    calls = 0;
    // Where the condition does not hold, LLVM 18 itself reads its first shared variable from address 0.
    if (all) {
      __kmpc_fork_call_if(&location, 0, reinterpret_cast<Microtask>(body_without_arguments), 1, nullptr);
      CHECK(calls == region.expected);
    }
    if (round % 5 == 0) CHECK(team_size_now() == usual);
  }
}

// ---- worksharing -----------------------------------------------------------------------------------

void copyprivate_light() {
  for (int n : sizes) {
    std::atomic<int> wrong{0};
    std::atomic<bool> tasked{false};
    warm_up(n);
#pragma omp parallel num_threads(n)
    {
      for (int round = 0; round < 40; ++round) {
        const std::int32_t own = thread();
        int value = -1;
        void* data = nullptr;
        if (__kmpc_single(&location, own) != 0) {
          value = round;
          data = &value;
          __kmpc_end_single(&location, own);
        }
        const void* const handed = __kmpc_copyprivate_light(&location, own, data);
        if (data == nullptr) value = *static_cast<const int*>(handed);
        __kmpc_barrier(&location, own);
        wrong += value != round;
        if (round == 30 && omp_get_thread_num() == n - 1) {
#pragma omp task shared(tasked)
          tasked = true;
        }
      }
    }
    CHECK(wrong == 0 && tasked);
    warm_up(n);
    int alone = 7;
    CHECK(__kmpc_copyprivate_light(&location, thread(), &alone) == &alone);
  }
}

/// The sections that this thread runs; -1: it is alone, so they are not divided.
int sections_here(std::vector<std::atomic<int>>& hits) {
  const auto count = static_cast<std::int32_t>(hits.size());
  const std::int32_t own = thread();
  if (__kmpc_sections_init(&location, own) == 0) return -1;
  int ran = 0;
  for (std::int32_t i = __kmpc_next_section(&location, own, count); i < count;
       i = __kmpc_next_section(&location, own, count)) {
    ++hits[static_cast<std::size_t>(i)];
    ++ran;
  }
  __kmpc_end_sections(&location, own);
  return ran;
}

void sections() {
  for (int n : sizes) {
    for (int round = 0; round < 20; ++round) {
      std::vector<std::atomic<int>> hits(7);
      std::atomic<int> ran{0};
      warm_up(n);
#pragma omp parallel num_threads(n)
      {
        for (int turn = 0; turn < 3; ++turn) ran += sections_here(hits);
#pragma omp barrier
      }
      CHECK(ran == 21);
      for (auto& hit : hits) CHECK(hit == 3);
      CHECK(sections_here(hits) == -1);
    }
  }
}

/// How often this thread runs each iteration of the triangle 0 <= j <= i < length.
void count_triangle(std::vector<std::atomic<int>>& seen, std::int64_t length) {
  constexpr std::int32_t type_int64 = 7, less_or_equal = 0;
  Bounds nest[2] = {{type_int64, type_int64, less_or_equal, 0, 0, 0, length - 1, 0, 1, 0},
                    {type_int64, type_int64, less_or_equal, 0, 0, 0, 0, 1, 1, 0}};
  Bounds part[2] = {};
  std::int32_t last = 0;
  if (__kmpc_for_collapsed_init(&location, thread(), nest, part, 2, &last) == 0) return;
  const auto place = [&](std::int64_t i, std::int64_t j) { return i * length + j; };
  const auto first = place(part[0].lower0, part[1].lower0), final = place(part[0].upper0, part[1].upper0);
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      if (place(i, j) >= first && place(i, j) <= final) ++seen[static_cast<std::size_t>(place(i, j))];
    }
  }
}

void collapsed() {
  constexpr std::int64_t length = 17;
  const auto check = [](const std::vector<std::atomic<int>>& seen) {
    int wrong = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t j = 0; j < length; ++j) wrong += seen[static_cast<std::size_t>(i * length + j)] != (j <= i);
    }
    CHECK(wrong == 0);
  };
  for (int n : sizes) {
    for (int round = 0; round < 10; ++round) {
      std::vector<std::atomic<int>> seen(length * length), alone(length * length);
      warm_up(n);
#pragma omp parallel num_threads(n)
      count_triangle(seen, length);
      check(seen);
      count_triangle(alone, length);  // of the program's one thread
      check(alone);
    }
  }
}

// ---- numbers of threads ----------------------------------------------------------------------------

constexpr int warning = 1;

void push_num_threads() {
  const int usual = omp_get_max_threads();
  for (int round = 0; round < 10; ++round) {
    for (int n : {3, 2, 4, 1}) {
      std::int32_t list[] = {n, 2};
      warm_up(usual);
      __kmpc_push_num_threads_strict(&location, thread(), n, warning, "strict");
      CHECK(team_size_now() == n);
      CHECK(team_size_now() == usual);
      __kmpc_push_num_threads_list(&location, thread(), 2, list);
      CHECK(team_size_now() == n);
      __kmpc_push_num_threads_list_strict(&location, thread(), 2, list, warning, "strict");
      CHECK(team_size_now() == n);
      CHECK(team_size_now() == usual);
    }
  }
}

/// Last: no hot teams afterwards.
void thread_limit() {
  warm_up(omp_get_max_threads());
  for (int round = 0; round < 3; ++round) {
    for (int limit : {2, 3, 1, 8}) {
      team_size_now();
      __kmpc_set_thread_limit(&location, thread(), limit);
      int size = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
      size = omp_get_num_threads();
      CHECK(size == std::min(limit, 4));
    }
  }
}

struct Case {
  const char* name;
  void (*run)();
  bool there;
};
const Case cases[] = {{"fork-call-if", fork_call_if, __kmpc_fork_call_if != nullptr},
                      {"copyprivate-light", copyprivate_light, __kmpc_copyprivate_light != nullptr},
                      {"sections", sections, __kmpc_sections_init != nullptr},
                      {"collapsed", collapsed, __kmpc_for_collapsed_init != nullptr},
                      {"push-num-threads", push_num_threads, __kmpc_push_num_threads_list_strict != nullptr},
                      {"thread-limit", thread_limit, __kmpc_set_thread_limit != nullptr}};

}  // namespace

int main(int argc, char** argv) {
  for (const auto& each : cases) {
    const bool chosen = argc == 1 || std::any_of(argv + 1, argv + argc, [&](const char* name) {
                          return std::strncmp(each.name, name, std::strlen(name)) == 0;
                        });
    if (!chosen) continue;
    const int before = failures;
    if (each.there) each.run();
    std::printf("%-20s %s\n", each.name, !each.there ? "not in this runtime" : failures == before ? "ok" : "FAILED");
    std::fflush(stdout);
  }
  return failures == 0 ? 0 : 1;
}
