// Peers: the five barriers of Concurrency Kit, chosen by the contestant's name, and collectives
// through shared memory around them.
#define CK_SPINLOCK_CLH_H  // three locks whose headers are not C++; barriers do not use them
#define CK_SPINLOCK_HCLH_H
#define CK_SPINLOCK_MCS_H
extern "C" {
#include <ck_barrier.h>
}

#include <memory>
#include <vector>

#include "base/cacheline.hpp"
#include "peers/shared_memory.hpp"

namespace {

/// A thread's own state, on lines of its own.
template <class State>
struct alignas(2 * smelt::separation_bytes) Own {
  State state{};
};

class Centralized {
 public:
  explicit Centralized(int threads) : threads_(static_cast<unsigned>(threads)), own_(threads_) {
    for (auto& own : own_) own.state.sense = 0;
  }
  void wait(int rank) { ck_barrier_centralized(&barrier_, &own_[static_cast<std::size_t>(rank)].state, threads_); }

 private:
  const unsigned threads_;
  alignas(smelt::separation_bytes) ck_barrier_centralized_t barrier_ = CK_BARRIER_CENTRALIZED_INITIALIZER;
  std::vector<Own<ck_barrier_centralized_state_t>> own_;
};

/// Groups of up to four neighbouring ranks.
class Combining {
 public:
  explicit Combining(int threads)
      : groups_(static_cast<std::size_t>(threads + group_size - 1) / group_size),
        own_(static_cast<std::size_t>(threads)) {
    ck_barrier_combining_init(&barrier_, &root_.state);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const int members = std::min(group_size, threads - static_cast<int>(g) * group_size);
      ck_barrier_combining_group_init(&barrier_, &groups_[g].state, static_cast<unsigned>(members));
    }
    for (auto& own : own_) own.state.sense = ~0u;
  }
  void wait(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    ck_barrier_combining(&barrier_, &groups_[r / group_size].state, &own_[r].state);
  }

 private:
  static constexpr int group_size = 4;
  ck_barrier_combining_t barrier_{};
  Own<ck_barrier_combining_group_t> root_;
  std::vector<Own<ck_barrier_combining_group_t>> groups_;
  std::vector<Own<ck_barrier_combining_state_t>> own_;
};

class Dissemination {
 public:
  explicit Dissemination(int threads)
      : barriers_(static_cast<std::size_t>(threads)), own_(static_cast<std::size_t>(threads)) {
    const unsigned size = ck_barrier_dissemination_size(static_cast<unsigned>(threads));
    std::vector<ck_barrier_dissemination_flag_t*> rows;
    for (int t = 0; t < threads; ++t) {
      flags_.push_back(std::make_unique<ck_barrier_dissemination_flag_t[]>(size));
      rows.push_back(flags_.back().get());
    }
    ck_barrier_dissemination_init(barriers_.data(), rows.data(), static_cast<unsigned>(threads));
    for (auto& own : own_) ck_barrier_dissemination_subscribe(barriers_.data(), &own.state);
  }
  void wait(int rank) { ck_barrier_dissemination(barriers_.data(), &own_[static_cast<std::size_t>(rank)].state); }

 private:
  std::vector<ck_barrier_dissemination_t> barriers_;
  std::vector<std::unique_ptr<ck_barrier_dissemination_flag_t[]>> flags_;
  std::vector<Own<ck_barrier_dissemination_state_t>> own_;
};

class Tournament {
 public:
  explicit Tournament(int threads) : own_(static_cast<std::size_t>(threads)) {
    const unsigned size = ck_barrier_tournament_size(static_cast<unsigned>(threads));
    for (int t = 0; t < threads; ++t) {
      rounds_.push_back(std::make_unique<ck_barrier_tournament_round_t[]>(size));
      rows_.push_back(rounds_.back().get());
    }
    ck_barrier_tournament_init(&barrier_, rows_.data(), static_cast<unsigned>(threads));
    for (auto& own : own_) ck_barrier_tournament_subscribe(&barrier_, &own.state);
  }
  void wait(int rank) { ck_barrier_tournament(&barrier_, &own_[static_cast<std::size_t>(rank)].state); }

 private:
  ck_barrier_tournament_t barrier_{};
  std::vector<std::unique_ptr<ck_barrier_tournament_round_t[]>> rounds_;
  std::vector<ck_barrier_tournament_round_t*> rows_;
  std::vector<Own<ck_barrier_tournament_state_t>> own_;
};

class Mcs {
 public:
  explicit Mcs(int threads) : barriers_(static_cast<std::size_t>(threads)), own_(static_cast<std::size_t>(threads)) {
    ck_barrier_mcs_init(barriers_.data(), static_cast<unsigned>(threads));
    for (auto& own : own_) ck_barrier_mcs_subscribe(barriers_.data(), &own.state);
  }
  void wait(int rank) { ck_barrier_mcs(barriers_.data(), &own_[static_cast<std::size_t>(rank)].state); }

 private:
  std::vector<ck_barrier_mcs_t> barriers_;
  std::vector<Own<ck_barrier_mcs_state_t>> own_;
};

int serve(const smelt::bench::WorkerSpec& spec) {
  using smelt::bench::serve_shared_memory;
  if (spec.name == "ck-centralized") return serve_shared_memory<Centralized>(spec);
  if (spec.name == "ck-combining") return serve_shared_memory<Combining>(spec);
  if (spec.name == "ck-dissemination") return serve_shared_memory<Dissemination>(spec);
  if (spec.name == "ck-tournament") return serve_shared_memory<Tournament>(spec);
  if (spec.name == "ck-mcs") return serve_shared_memory<Mcs>(spec);
  return smelt::bench::fail_worker("no such barrier: " + spec.name);
}

}  // namespace

int main(int argc, char** argv) { return smelt::bench::run_peer(argc, argv, serve); }
