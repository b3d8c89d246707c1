// Collectives through the C interface: results, calls as values, requests, what is refused and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "smelt/smelt.h"

extern "C" {
int c99_collectives(smelt_rank* rank);
int c99_bad_enums(smelt_rank* rank);
}

namespace {

using testing::HasSubstr;

/// Runs `body` in `size` ranks.
template <class Body>
void in_ranks(int size, const char* algorithm, Body body) {
  smelt_options options{};
  options.keep_affinity = 1;
  options.search_ms = -1;
  options.timeout_s = 20;
  options.algorithm = algorithm;
  const std::vector<int> pus(static_cast<std::size_t>(size), 0);
  smelt_communicator* comm = nullptr;
  ASSERT_EQ(smelt_communicator_create(nullptr, pus.data(), size, &options, &comm), SMELT_OK) << smelt_last_error();
  const auto call = [](smelt_rank* rank, void* context) { (*static_cast<Body*>(context))(rank); };
  EXPECT_EQ(smelt_communicator_run(comm, call, &body), SMELT_OK) << smelt_last_error();
  smelt_communicator_free(comm);
}

TEST(CCollectives, FromC99) {
  for (const int size : {3, 4, 5}) {
    in_ranks(size, nullptr, [](smelt_rank* rank) { EXPECT_EQ(c99_collectives(rank), 0) << "line of c99_test.c"; });
  }
}

TEST(CCollectives, RanksThatDoNotKnowTheSizesAgreeOnTheAlgorithm) {
  // One that only blocks of equal size can take: ranks that took them for equal would use it.
  for (const char* algorithm : {"scatter_binomial+channels", "gather_binomial+channels"}) {
    in_ranks(5, algorithm, [](smelt_rank* rank) { EXPECT_EQ(c99_collectives(rank), 0); });
  }
}

TEST(CCollectives, TheChosenAlgorithmIsUsedAndABadOneRefused) {
  in_ranks(3, "allreduce_slices+staged", [](smelt_rank* rank) { EXPECT_EQ(c99_collectives(rank), 0); });
  smelt_options options{};
  options.algorithm = "allreduce_nonsense";
  smelt_communicator* comm = nullptr;
  EXPECT_NE(smelt_communicator_create(nullptr, nullptr, 2, &options, &comm), SMELT_OK);
  EXPECT_THAT(smelt_last_error(), HasSubstr("allreduce_nonsense"));
}

TEST(CCollectives, LatenessIsOneNumberPerRank) {
  const double late_ns[] = {0, 0, 5000};
  const int pus[] = {0, 0, 0};
  smelt_options options{};
  options.late_ns = late_ns;
  options.late_count = 3;
  smelt_communicator* comm = nullptr;
  EXPECT_EQ(smelt_communicator_create(nullptr, pus, 3, &options, &comm), SMELT_OK) << smelt_last_error();
  smelt_communicator_free(comm);
  options.late_count = 2;
  EXPECT_EQ(smelt_communicator_create(nullptr, pus, 3, &options, &comm), SMELT_INVALID_ARGUMENT);
}

/// (a, b) stands for x -> a x + b: composing such functions does not commute.
void compose(void* accumulator, const void* operand, size_t count, void* context) {
  ++*static_cast<int*>(context);
  auto* to = static_cast<std::uint64_t*>(accumulator);
  const auto* from = static_cast<const std::uint64_t*>(operand);
  for (size_t i = 0; i < 2 * count; i += 2) {
    to[i + 1] += to[i] * from[i + 1];
    to[i] *= from[i];
  }
}

TEST(CCollectives, UserOperatorsGetTheirContextAndTheirOrder) {
  in_ranks(4, nullptr, [](smelt_rank* rank) {
    const auto me = static_cast<std::uint64_t>(smelt_rank_number(rank));
    std::uint64_t in[2] = {me + 2, me + 1}, out[2] = {0, 0};
    int calls = 0;
    smelt_call call{};
    call.operation = SMELT_SCAN;
    call.in = in;
    call.out = out;
    call.count = 1;
    call.element_bytes = sizeof in;
    call.combine = compose;
    call.context = &calls;
    EXPECT_EQ(smelt_run(rank, &call), SMELT_OK);
    std::uint64_t a = 1, b = 0;
    for (std::uint64_t r = 0; r <= me; ++r) {
      b += a * (r + 1);
      a *= r + 2;
    }
    EXPECT_EQ(out[0], a);
    EXPECT_EQ(out[1], b);
    if (me > 0) {
      EXPECT_GT(calls, 0);
    }
  });
}

TEST(CCollectives, UnevenBlocksAsValues) {
  in_ranks(3, nullptr, [](smelt_rank* rank) {
    const int me = smelt_rank_number(rank);
    const size_t counts[] = {2, 0, 1}, offsets[] = {0, 2, 2};
    const int all[] = {10, 11, 12};
    int got[2] = {-1, -1};
    smelt_call call{};
    call.operation = SMELT_SCATTERV;
    call.type = SMELT_INT32;
    call.root = 2;
    call.out = got;
    call.count = counts[me];
    if (me == 2) {
      call.in = all;
      call.in_counts = counts;
      call.in_offsets = offsets;
    }
    EXPECT_EQ(smelt_run(rank, &call), SMELT_OK) << smelt_last_error();
    EXPECT_EQ(got[0], me == 0 ? 10 : me == 1 ? -1 : 12);
    EXPECT_EQ(got[1], me == 0 ? 11 : -1);

    smelt_call sum{};
    sum.operation = SMELT_REDUCE_SCATTERV;
    sum.type = SMELT_INT32;
    sum.in = all;
    sum.in_counts = counts;
    sum.in_offsets = offsets;
    sum.out = got;
    sum.count = counts[me];
    EXPECT_EQ(smelt_run(rank, &sum), SMELT_OK) << smelt_last_error();
    EXPECT_EQ(got[0], me == 0 ? 30 : me == 1 ? -1 : 36);
  });
}

smelt_call addition(const double* in, double* out, size_t count) {
  smelt_call call{};
  call.operation = SMELT_ALLREDUCE;
  call.in = in;
  call.out = out;
  call.count = count;
  call.type = SMELT_DOUBLE;
  return call;
}

TEST(CRequests, OverlapRunInOrderAndEndInAnyOrder) {
  in_ranks(3, nullptr, [](smelt_rank* rank) {
    constexpr std::size_t n = 5000;
    std::vector<double> in[3], out[3];
    smelt_request* requests[3] = {};
    for (std::size_t k = 0; k < 3; ++k) {
      in[k].assign(n, smelt_rank_number(rank) + static_cast<double>(k));
      out[k].assign(n, 0);
      const auto call = addition(in[k].data(), out[k].data(), n);
      ASSERT_EQ(smelt_start(rank, &call, &requests[k]), SMELT_OK) << smelt_last_error();
    }
    int mine = 1, all = 0;  // a blocking one comes after them
    EXPECT_EQ(smelt_allreduce(rank, &mine, &all, 1, SMELT_INT32, SMELT_SUM), SMELT_OK);
    EXPECT_EQ(all, 3);
    for (const std::size_t k : {2, 0, 1}) {
      int done = 0;
      EXPECT_EQ(smelt_request_test(requests[k], &done), SMELT_OK);
      EXPECT_EQ(done, 1);
      EXPECT_EQ(smelt_request_wait(requests[k]), SMELT_OK);
      EXPECT_EQ(out[k], std::vector<double>(n, 3.0 + 3.0 * static_cast<double>(k)));
      smelt_request_free(requests[k]);
    }
  });
}

TEST(CRequests, PersistentRequestsRestartOnlyAfterCompletion) {
  std::atomic<bool> tried{false};
  in_ranks(2, nullptr, [&](smelt_rank* rank) {
    const int me = smelt_rank_number(rank);
    double in = 0, out = 0;
    const auto call = addition(&in, &out, 1);
    smelt_request* request = nullptr;
    ASSERT_EQ(smelt_prepare(rank, &call, &request), SMELT_OK);
    EXPECT_EQ(smelt_request_wait(request), SMELT_OK);  // nothing is under way
    for (int turn = 0; turn < 200; ++turn) {
      in = turn + me;
      if (turn == 100 && me == 1) {
        // Rank 0 cannot be through before this.
        while (!tried) std::this_thread::yield();
      }
      ASSERT_EQ(smelt_request_start(request), SMELT_OK);
      if (turn == 100 && me == 0) {
        EXPECT_EQ(smelt_request_start(request), SMELT_INVALID_ARGUMENT);
        EXPECT_THAT(smelt_last_error(), HasSubstr("under way"));
        tried = true;
      }
      ASSERT_EQ(smelt_request_wait(request), SMELT_OK);
      ASSERT_EQ(out, 2.0 * turn + 1);
    }
    smelt_request_free(request);
    // Freed while under way: it is waited for.
    ASSERT_EQ(smelt_start(rank, &call, &request), SMELT_OK);
    smelt_request_free(request);
    EXPECT_EQ(out, 2.0 * 199 + 1);
  });
}

TEST(CRequests, RunOnOtherBuffersAndRefuseOnesThatWereNotPrepared) {
  in_ranks(2, nullptr, [&](smelt_rank* rank) {
    double in[3] = {1, 2, 3}, out[3] = {};
    const auto call = addition(in, out, 1);
    smelt_request* request = nullptr;
    ASSERT_EQ(smelt_prepare(rank, &call, &request), SMELT_OK);
    for (int turn = 0; turn < 6; ++turn) {
      ASSERT_EQ(smelt_request_run(request, &in[turn % 3], &out[turn % 3]), SMELT_OK);
      EXPECT_EQ(out[turn % 3], 2 * in[turn % 3]);
      EXPECT_EQ(smelt_request_run(request, nullptr, out), SMELT_INVALID_ARGUMENT);
      EXPECT_THAT(smelt_last_error(), HasSubstr("NULL"));
    }
    smelt_request_free(request);
  });
}

TEST(CRequests, ReproducibleSumsHaveTheBitsOfTheOrderByRank) {
  const double parts[] = {1e16, 1.0, -1e16, 1.0, 3.0};
  const double wanted = (((parts[0] + parts[1]) + parts[2]) + parts[3]) + parts[4];
  for (const char* algorithm :
       {static_cast<const char*>(nullptr), "allreduce_flat+staged", "allreduce_slices+direct"}) {
    in_ranks(5, algorithm, [&](smelt_rank* rank) {
      for (const std::size_t count : {1, 3000}) {
        const std::vector<double> in(count, parts[smelt_rank_number(rank)]);
        std::vector<double> out(count);
        auto call = addition(in.data(), out.data(), count);
        call.reproducible = 1;
        EXPECT_EQ(smelt_run(rank, &call), SMELT_OK);
        EXPECT_EQ(out, std::vector<double>(count, wanted));
      }
    });
  }
}

TEST(CRefusals, BadEnumsFromC99) {
  in_ranks(1, nullptr, [](smelt_rank* rank) { EXPECT_EQ(c99_bad_enums(rank), 0) << "line of c99_test.c"; });
}

TEST(CRefusals, NullHandlesSayWhichCall) {
  smelt_request* request = nullptr;
  smelt_call call{};
  int done = 0, word = 0;
  const size_t one[] = {0};
  const auto names = [](int status, const char* name) {
    return status == SMELT_INVALID_ARGUMENT && std::string(smelt_last_error()).starts_with(std::string(name) + ": ");
  };
  EXPECT_TRUE(names(smelt_barrier(nullptr), "smelt_barrier"));
  EXPECT_TRUE(names(smelt_broadcast(nullptr, &word, 1, 0), "smelt_broadcast"));
  EXPECT_TRUE(names(smelt_reduce(nullptr, &word, &word, 1, SMELT_INT32, SMELT_SUM, 0), "smelt_reduce"));
  EXPECT_TRUE(names(smelt_allreduce(nullptr, &word, &word, 1, SMELT_INT32, SMELT_SUM), "smelt_allreduce"));
  EXPECT_TRUE(names(smelt_reduce_user(nullptr, &word, &word, 1, 4, compose, nullptr, 0, 0), "smelt_reduce_user"));
  EXPECT_TRUE(names(smelt_allreduce_user(nullptr, &word, &word, 1, 4, compose, nullptr, 0), "smelt_allreduce_user"));
  EXPECT_TRUE(names(smelt_two_phase_commit(nullptr, &word, 1, nullptr, nullptr, &done, 0), "smelt_two_phase_commit"));
  EXPECT_TRUE(names(smelt_scatter(nullptr, &word, &word, 1, 0), "smelt_scatter"));
  EXPECT_TRUE(names(smelt_gather(nullptr, &word, &word, 1, 0), "smelt_gather"));
  EXPECT_TRUE(names(smelt_allgather(nullptr, &word, &word, 1), "smelt_allgather"));
  EXPECT_TRUE(names(smelt_alltoall(nullptr, &word, &word, 1), "smelt_alltoall"));
  EXPECT_TRUE(names(smelt_scatterv(nullptr, &word, one, one, &word, 1, 0), "smelt_scatterv"));
  EXPECT_TRUE(names(smelt_gatherv(nullptr, &word, 1, &word, one, one, 0), "smelt_gatherv"));
  EXPECT_TRUE(names(smelt_allgatherv(nullptr, &word, 1, &word, one, one), "smelt_allgatherv"));
  EXPECT_TRUE(names(smelt_alltoallv(nullptr, &word, one, one, &word, one, one), "smelt_alltoallv"));
  EXPECT_TRUE(names(smelt_reduce_scatter(nullptr, &word, &word, 1, SMELT_INT32, SMELT_SUM), "smelt_reduce_scatter"));
  EXPECT_TRUE(names(smelt_scan(nullptr, &word, &word, 1, SMELT_INT32, SMELT_SUM), "smelt_scan"));
  EXPECT_TRUE(names(smelt_exscan(nullptr, &word, &word, 1, SMELT_INT32, SMELT_SUM), "smelt_exscan"));
  EXPECT_TRUE(names(smelt_run(nullptr, &call), "smelt_run"));
  EXPECT_TRUE(names(smelt_start(nullptr, &call, &request), "smelt_start"));
  EXPECT_TRUE(names(smelt_prepare(nullptr, &call, &request), "smelt_prepare"));
  EXPECT_TRUE(names(smelt_request_start(nullptr), "smelt_request_start"));
  EXPECT_TRUE(names(smelt_request_run(nullptr, nullptr, nullptr), "smelt_request_run"));
  EXPECT_TRUE(names(smelt_request_test(nullptr, &done), "smelt_request_test"));
  EXPECT_TRUE(names(smelt_request_wait(nullptr), "smelt_request_wait"));
  smelt_request_free(nullptr);
  EXPECT_EQ(request, nullptr);
}

TEST(CApi, ReduceLocalCombinesOnTheCallingThread) {
  const double in[] = {1.5, -2.0, 4.0};
  double inout[] = {1.0, 1.0, 0.5};
  ASSERT_EQ(smelt_reduce_local(in, inout, 3, SMELT_DOUBLE, SMELT_SUM), SMELT_OK);
  EXPECT_EQ(std::vector<double>(inout, inout + 3), (std::vector<double>{2.5, -1.0, 4.5}));
  const std::uint16_t bits[] = {0x0ff0, 0x00ff};
  std::uint16_t all[] = {0xf000, 0xff00};
  ASSERT_EQ(smelt_reduce_local(bits, all, 2, SMELT_UINT16, SMELT_BIT_OR), SMELT_OK);
  EXPECT_EQ(all[0], 0xfff0);
  EXPECT_EQ(all[1], 0xffff);
  EXPECT_EQ(smelt_reduce_local(nullptr, nullptr, 0, SMELT_INT8, SMELT_MAX), SMELT_OK);
  EXPECT_EQ(smelt_reduce_local(in, inout, 3, SMELT_DOUBLE, SMELT_BIT_OR), SMELT_INVALID_ARGUMENT);
  EXPECT_TRUE(std::string(smelt_last_error()).starts_with("smelt_reduce_local: "));
  EXPECT_EQ(smelt_reduce_local(nullptr, inout, 3, SMELT_DOUBLE, SMELT_SUM), SMELT_INVALID_ARGUMENT);
}

struct Refusal {
  const char* text;
  smelt_call call;
};

/// Calls that one rank can see to be wrong, on a communicator of one rank.
std::vector<Refusal> refusals() {
  static const size_t one[] = {1}, two[] = {2}, zero[] = {0};
  static int word = 0;
  smelt_call scatter{};
  scatter.operation = SMELT_SCATTER;
  scatter.in = scatter.out = &word;
  scatter.count = 1;
  smelt_call scatterv = scatter;
  scatterv.operation = SMELT_SCATTERV;
  std::vector<Refusal> all(10, Refusal{"", scatter});
  for (std::size_t i = 2; i < 7; ++i) all[i].call = scatterv;
  all[0].text = "root 3 is not in 0..0";
  all[0].call.root = 3;
  all[1].text = "NULL";
  all[1].call.out = nullptr;
  all[2].text = "counts or offsets is NULL";
  all[2].call.in_counts = one;
  all[3].text = "on that side";
  all[3].call.out_counts = all[3].call.out_offsets = one;
  all[4].text = "own block";
  all[4].call.in_counts = two;
  all[4].call.in_offsets = zero;
  all[5].text = "NULL";
  all[5].call.in_counts = one;
  all[5].call.in_offsets = zero;
  all[5].call.in = nullptr;
  all[6].text = "counts or offsets is NULL";
  all[7].text = "vote or committed";
  all[7].call.operation = SMELT_TWO_PHASE_COMMIT;
  all[8].text = "element_bytes";
  all[8].call.operation = SMELT_ALLREDUCE;
  all[8].call.element_bytes = 2;
  all[9].text = "with a V";
  all[9].call.in_counts = all[9].call.in_offsets = zero;
  return all;
}

TEST(CRefusals, NameTheCause) {
  in_ranks(1, nullptr, [](smelt_rank* rank) {
    smelt_request* request = nullptr;
    for (const auto& [text, call] : refusals()) {
      EXPECT_EQ(smelt_run(rank, &call), SMELT_INVALID_ARGUMENT) << text;
      EXPECT_THAT(smelt_last_error(), HasSubstr(text));
      EXPECT_EQ(smelt_start(rank, &call, &request), SMELT_INVALID_ARGUMENT) << text;
      EXPECT_EQ(smelt_prepare(rank, &call, &request), SMELT_INVALID_ARGUMENT) << text;
      EXPECT_THAT(smelt_last_error(), HasSubstr(text));
    }
    EXPECT_EQ(request, nullptr);
    int word = 0;
    EXPECT_EQ(smelt_allgatherv(rank, &word, 1, &word, nullptr, nullptr), SMELT_INVALID_ARGUMENT);
    const size_t one[] = {1}, zero[] = {0};
    EXPECT_EQ(smelt_allgatherv(rank, &word, 1, nullptr, one, zero), SMELT_INVALID_ARGUMENT);
    EXPECT_EQ(smelt_barrier(rank), SMELT_OK);  // none of this has done any harm
  });
}

}  // namespace
