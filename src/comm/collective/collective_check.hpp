// Runs one collective on all ranks of a communicator and holds the result against a straightforward
// computation. For tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "comm/collective/collective_reference.hpp"
#include "smelt/collective.hpp"
#include "smelt/communicator.hpp"
#include "smelt/schedule.hpp"

namespace smelt::test {

/// How much to test (docs/how-to/run-the-tests.md): a number from the environment.
inline std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

/// How a collective is called.
enum class CallStyle { blocking, started, persistent };

/// Elements that begin so many bytes into a page. Cleared and copied as a whole: where nothing is optimized, vectors
/// take several calls for each element.
class PlacedElements {
 public:
  using Element = Contributions::Element;

  explicit PlacedElements(std::size_t into_page) : into_page_(into_page), memory_(nullptr, Free{into_page}) {}

  /// `count` zeros.
  void clear(std::size_t count) {
    allocate(count);
    if (count != 0) std::memset(data(), 0, count * sizeof(Element));
  }
  void copy(const PlacedElements& other) {
    allocate(other.count_);
    if (count_ != 0) std::memcpy(data(), other.data(), count_ * sizeof(Element));
  }
  Element* data() { return memory_.get(); }
  const Element* data() const { return memory_.get(); }

 private:
  struct Free {
    std::size_t into_page;
    void operator()(Element* elements) const { std::free(reinterpret_cast<std::byte*>(elements) - into_page); }
  };

  void allocate(std::size_t count) {
    constexpr std::size_t page_bytes = 4096;
    if (count == count_) return;  // a call may have their address
    memory_.reset();
    count_ = count;
    if (count == 0) return;
    const auto pages = (into_page_ + count * sizeof(Element)) / page_bytes + 1;
    void* const memory = std::aligned_alloc(page_bytes, pages * page_bytes);
    if (memory == nullptr) throw std::bad_alloc();
    memory_.reset(reinterpret_cast<Element*>(static_cast<std::byte*>(memory) + into_page_));
  }

  std::size_t into_page_, count_ = 0;
  std::unique_ptr<Element[], Free> memory_;
};

struct Case {
  Operation operation = Operation::broadcast;
  std::size_t count = 0;  ///< elements of 8 bytes: of the vector, or per block
  int root = 0;
  Sync sync = Sync::loose;
  CallStyle style = CallStyle::blocking;
  bool in_place = false;
  bool at_rest = false;
  std::size_t apart = 0;   ///< bytes that each rank's buffers lie further in their pages than those of the one before
  bool irregular = false;  ///< blocks of up to `count` elements: by turns all, about half, none, a third
  Reduction reduction{};
};

/// Allgathers by puts of less than a chunk, of whole ones and of several with a rest: candidate_recipes() has chunks of
/// 256 KiB for blocks that are longer.
inline constexpr const char* puts_in_chunks = "allgather_put+direct+chunk=262144";
inline std::vector<Case> around_chunks_of_puts() {
  std::vector<Case> cases;
  constexpr std::size_t chunk = 262144 / 8;
  for (const std::size_t count : {chunk - 1, chunk, chunk + 1, 2 * chunk, 3 * chunk + 7, 5 * chunk - 1}) {
    Case one{.operation = Operation::allgather, .count = count};
    one.sync = cases.size() % 4 == 3 ? Sync::strict : Sync::loose;
    one.style = static_cast<CallStyle>(cases.size() % 3);
    cases.push_back(one);
    one.in_place = true;
    cases.push_back(one);
  }
  return cases;
}

/// Long results of data at rest, at addresses within a line.
inline std::vector<Case> long_results_at_rest(int ranks) {
  std::vector<Case> cases;
  std::vector<std::size_t> counts = {(std::size_t{1} << 17) + 3};
#ifndef SMELT_SANITIZED  // the same accesses, to other addresses
  counts.push_back(150001);
#endif
  for (const Operation operation : {Operation::broadcast, Operation::reduce, Operation::allreduce, Operation::scatter,
                                    Operation::gather, Operation::allgather, Operation::alltoall}) {
    for (const std::size_t count : counts) {
      Case one{.operation = operation, .count = count, .at_rest = true, .apart = 24, .reduction = sum<std::uint64_t>()};
      one.root = static_cast<int>(cases.size()) % ranks;
      one.style = static_cast<CallStyle>(cases.size() % 3);
      cases.push_back(one);
      one.irregular = has_rank_blocks(operation);
      one.in_place = !one.irregular;
      cases.push_back(one);
    }
  }
  return cases;
}

/// "allreduce of 300, root 2, strict, in place"
inline std::string describe(const Case& one) {
  return std::string(to_string(one.operation)) + " of " + std::to_string(one.count) + ", root " +
         std::to_string(one.root) + (one.sync == Sync::strict ? ", strict" : "") + (one.in_place ? ", in place" : "") +
         (one.at_rest ? ", at rest" : "") + (one.irregular ? ", irregular" : "") +
         (one.apart != 0 ? ", pages apart" : "") + (one.reduction.reproducible ? ", reproducible" : "") +
         (one.reduction.commutative ? "" : ", in order");
}

/// One rank's part; makes its own input out of `salt`, which differs from call to call.
class CollectiveCheck {
 public:
  using Element = Contributions::Element;

  CollectiveCheck(const Case& what, int ranks, int rank, std::uint64_t salt)
      : case_(what),
        n_(static_cast<std::size_t>(ranks)),
        rank_(rank),
        contributions_(salt),
        in_(static_cast<std::size_t>(rank) * what.apart),
        out_(static_cast<std::size_t>(rank) * what.apart + what.apart / 16 * sizeof(Element)) {
    offsets_.resize(n_ + 1);
    counts_.resize(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      counts_[i] = what.irregular ? irregular_count(i) : what.count;
      offsets_[i + 1] = offsets_[i] + counts_[i];
    }
  }

  std::size_t irregular_count(std::size_t block) const {
    const auto count = case_.count;
    const std::size_t by_turns[] = {count, std::min(count, count / 2 + 1), 0, count / 3};
    return by_turns[(block + static_cast<std::size_t>(case_.root)) % 4];
  }

  /// In two parts, between which other communicators may be used.
  Request start(Rank& rank) {
    Collective call = describe();
    call.sync = case_.sync;
    call.at_rest = case_.at_rest;
    return rank.start(call);
  }
  bool finish(Request& request, std::string& problem) {
    if (const Status status = request.wait(); status == Status::ok) return verify(problem);
    problem = "a started collective failed";
    return false;
  }

  /// Calls the collective; false, with a message, if a status or the result is wrong.
  bool run(Rank& rank, std::string& problem) {
    Collective call = describe();
    call.sync = case_.sync;
    call.at_rest = case_.at_rest;
    return judge(rank, invoke(rank, call), problem);
  }

  /// The same by a request that earlier calls like it have used, on their buffers; made if there is none.
  bool run_again(Rank& rank, std::optional<Request>& request, std::string& problem) {
    Collective call = describe();
    call.sync = case_.sync;
    call.at_rest = case_.at_rest;
    if (!request) request.emplace(rank.prepare(call));
    return judge(rank, request->run(call.in, call.out), problem);
  }

 private:
  bool judge(Rank& rank, Status status, std::string& problem) const {
    if (status != Status::ok) {
      problem = std::string("status ") + status_string(status) + " " + rank.failure();
      return false;
    }
    return verify(problem);
  }

  std::size_t own_count() const { return counts_[static_cast<std::size_t>(rank_)]; }
  void fill_blocks(PlacedElements& to) const {
    for (std::size_t b = 0; b < n_; ++b) {
      contributions_.write(rank_, static_cast<int>(b), to.data() + offsets_[b], counts_[b]);
    }
  }

  Collective describe() {
    const auto count = case_.count;
    const bool top = rank_ == case_.root;
    const Blocks blocks = case_.irregular ? Blocks{counts_.data(), offsets_.data()} : Blocks{};
    const auto all = offsets_[n_];
    const auto self = offsets_[static_cast<std::size_t>(rank_)];
    const int n = static_cast<int>(n_);
    Collective call;
    switch (case_.operation) {
      case Operation::broadcast:
        out_.clear(count);
        if (top) contributions_.write(rank_, 0, out_.data(), count);
        return Collective::broadcast(out_.data(), count * sizeof(Element), case_.root);
      case Operation::reduce:
      case Operation::allreduce:
      case Operation::scan:
      case Operation::exscan:
        in_.clear(count);
        contributions_.write(rank_, 0, in_.data(), count);
        out_.clear(count);
        call = Collective::reduce(in_.data(), out_.data(), count, case_.reduction, case_.root);
        call.operation = case_.operation;
        if (case_.operation != Operation::reduce) call.root = 0;
        if (case_.in_place) {
          out_.copy(in_);
          call.in = out_.data();
        }
        return call;
      case Operation::scatter:
        in_.clear(top ? all : 0);
        if (top) fill_blocks(in_);
        out_.clear(own_count());
        call = case_.irregular
                   ? Collective::scatterv(in_.data(), top ? blocks : Blocks{}, out_.data(), own_count(), case_.root)
                   : Collective::scatter(in_.data(), out_.data(), own_count(), case_.root);
        call.element_bytes = sizeof(Element);
        if (case_.in_place && top) call.out = in_.data() + self;
        return call;
      case Operation::gather:
        in_.clear(own_count());
        contributions_.write(rank_, rank_, in_.data(), own_count());
        out_.clear(top ? all : 0);
        call = case_.irregular
                   ? Collective::gatherv(in_.data(), own_count(), out_.data(), top ? blocks : Blocks{}, case_.root)
                   : Collective::gather(in_.data(), out_.data(), own_count(), case_.root);
        call.element_bytes = sizeof(Element);
        if (case_.in_place && top) {
          std::copy(in_.data(), in_.data() + own_count(), out_.data() + self);
          call.in = out_.data() + self;
        }
        return call;
      case Operation::allgather:
        in_.clear(own_count());
        contributions_.write(rank_, rank_, in_.data(), own_count());
        out_.clear(all);
        call = case_.irregular ? Collective::allgatherv(in_.data(), own_count(), out_.data(), blocks)
                               : Collective::allgather(in_.data(), out_.data(), own_count());
        call.element_bytes = sizeof(Element);
        if (case_.in_place) {
          std::copy(in_.data(), in_.data() + own_count(), out_.data() + self);
          call.in = out_.data() + self;
        }
        return call;
      case Operation::alltoall:
        in_.clear(all);
        fill_blocks(in_);
        received_.resize(n_);
        received_offsets_.resize(n_ + 1);
        for (std::size_t i = 0; i < n_; ++i) {
          received_[i] = own_count();
          received_offsets_[i + 1] = received_offsets_[i] + received_[i];
        }
        out_.clear(received_offsets_[n_]);
        call = case_.irregular ? Collective::alltoallv(in_.data(), blocks, out_.data(),
                                                       {received_.data(), received_offsets_.data()})
                               : Collective::alltoall(in_.data(), out_.data(), count);
        call.element_bytes = sizeof(Element);
        if (case_.in_place && !case_.irregular) {
          out_.copy(in_);
          call.in = out_.data();
        }
        return call;
      case Operation::reduce_scatter:
        in_.clear(all);
        fill_blocks(in_);
        out_.clear(own_count());
        call = case_.irregular
                   ? Collective::reduce_scatterv(in_.data(), blocks, out_.data(), own_count(), case_.reduction)
                   : Collective::reduce_scatter(in_.data(), out_.data(), own_count(), case_.reduction);
        if (case_.in_place) call.out = in_.data();
        return call;
      default: (void)n; return Collective::barrier();
    }
  }

  Status invoke(Rank& rank, const Collective& call) {
    if (case_.style == CallStyle::blocking) return rank.run(call);
    if (case_.style == CallStyle::started) {
      Request request = rank.start(call);
      bool done = false;
      for (int i = 0; i < 3 && !done; ++i) request.test(&done);
      return request.wait();
    }
    Request request = rank.prepare(call);
    if (const Status status = request.start(); status != Status::ok) return status;
    return request.wait();
  }

  static bool none(const std::optional<Contributions::Difference>& difference, const Element* got, const char* what,
                   std::string& problem) {
    if (!difference) return true;
    problem = std::string(what) + ": element " + std::to_string(difference->index) + " is " +
              std::to_string(got[difference->index]) + ", not " + std::to_string(difference->wanted);
    return false;
  }
  bool same(const Element* got, int from, int to, std::size_t count, const char* what, std::string& problem) const {
    return none(contributions_.difference(got, from, to, count), got, what, problem);
  }
  bool combined(const Element* got, int last, int to, std::size_t count, const char* what, std::string& problem) const {
    const auto& reduction = case_.reduction;
    return none(contributions_.difference_combined(got, last, to, count, reduction.combine, reduction.context), got,
                what, problem);
  }

  bool verify(std::string& problem) const {
    const bool top = rank_ == case_.root;
    const auto count = case_.count;
    const int last = static_cast<int>(n_) - 1;
    const Element* out = out_.data();
    switch (case_.operation) {
      case Operation::broadcast: return same(out, case_.root, 0, count, "broadcast", problem);
      case Operation::reduce:
      case Operation::allreduce:
        if (case_.operation == Operation::reduce && !top) return true;
        return combined(out, last, 0, count, "reduction", problem);
      case Operation::scan: return combined(out, rank_, 0, count, "scan", problem);
      case Operation::exscan: return rank_ == 0 || combined(out, rank_ - 1, 0, count, "scan", problem);
      case Operation::scatter: {
        const Element* got = case_.in_place && top ? in_.data() + offsets_[static_cast<std::size_t>(rank_)] : out;
        return same(got, case_.root, rank_, own_count(), "scatter", problem);
      }
      case Operation::gather:
      case Operation::allgather:
        if (case_.operation == Operation::gather && !top) return true;
        for (std::size_t b = 0; b < n_; ++b) {
          const int from = static_cast<int>(b);
          if (!same(out + offsets_[b], from, from, counts_[b], "gather", problem)) return false;
        }
        return true;
      case Operation::alltoall:
        for (std::size_t b = 0; b < n_; ++b) {
          const int from = static_cast<int>(b);
          if (!same(out + received_offsets_[b], from, rank_, own_count(), "alltoall", problem)) return false;
        }
        return true;
      case Operation::reduce_scatter:
        return combined(case_.in_place ? in_.data() : out, last, rank_, own_count(), "reduce_scatter", problem);
      default: return true;
    }
  }

  const Case case_;
  std::size_t n_;
  int rank_;
  Contributions contributions_;
  std::vector<std::size_t> counts_, offsets_, received_, received_offsets_;
  PlacedElements in_, out_;
};

/// That of multiply_matrices(): associative, not commutative.
inline Reduction matrix_product() {
  Reduction reduction{};
  reduction.element_bytes = 8;
  reduction.combine = multiply_matrices;
  reduction.commutative = false;
  return reduction;
}

/// Operations that CollectiveCheck knows.
inline const std::vector<Operation>& all_operations() {
  static const std::vector<Operation> all = {
      Operation::broadcast, Operation::reduce,   Operation::allreduce,      Operation::scatter, Operation::gather,
      Operation::allgather, Operation::alltoall, Operation::reduce_scatter, Operation::scan,    Operation::exscan};
  return all;
}

/// Random operations on a communicator of at least 6 ranks and two overlapping parts of it, the same row on every
/// rank; in every fourth turn one is under way on the whole while a part has another. "": all results are right.
inline std::string random_sequence(Rank& whole, std::uint64_t seed, std::uint64_t turns) {
  const int low[] = {0, 1, 2, 3}, high[] = {5, 3, 4};
  std::vector<Rank> parts;
  Rank *in_low = nullptr, *in_high = nullptr;
  parts.reserve(2);
  if (whole.rank() <= 3) in_low = &parts.emplace_back(std::move(*whole.subgroup(low)));
  if (whole.rank() >= 3 && whole.rank() <= 5) in_high = &parts.emplace_back(std::move(*whole.subgroup(high)));
  const struct {
    Rank* rank;
    int size;
  } places[] = {{&whole, whole.size()}, {in_low, 4}, {in_high, 3}};
  std::mt19937_64 random(seed);
  const auto any_case = [&](int size) {
    Case one{.operation = all_operations()[random() % all_operations().size()],
             .count = (std::size_t{1} << random() % 13) + random() % 3 - 1};
    one.root = static_cast<int>(random() % static_cast<std::uint64_t>(size));
    one.sync = random() % 4 == 0 ? Sync::strict : Sync::loose;
    one.style = static_cast<CallStyle>(random() % 3);
    one.in_place = random() % 2 == 0;
    one.at_rest = random() % 3 == 0;
    one.irregular = random() % 3 == 0 && has_rank_blocks(one.operation);
    one.reduction = random() % 2 == 0 ? matrix_product() : sum<std::uint64_t>();
    return one;
  };
  for (std::uint64_t turn = 1; turn <= turns; ++turn) {
    const auto& place = places[random() % 3];
    const bool overlapped = turn % 4 == 0;
    const Case around = any_case(whole.size()), one = any_case(place.size);
    std::string problem;
    CollectiveCheck outer(around, whole.size(), whole.rank(), turn + 1'000'000);
    std::optional<Request> request;
    if (overlapped) request = outer.start(whole);
    if (place.rank != nullptr) {
      CollectiveCheck checked(one, place.size, place.rank->rank(), turn);
      checked.run(*place.rank, problem);
    }
    if (overlapped && problem.empty()) outer.finish(*request, problem);
    if (!problem.empty()) {
      return "turn " + std::to_string(turn) + ", " + to_string(one.operation) +
             (overlapped ? std::string(" inside of ") + to_string(around.operation) : "") + ": " + problem;
    }
  }
  return "";
}

}  // namespace smelt::test
