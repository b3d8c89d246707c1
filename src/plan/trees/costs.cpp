#include "plan/trees/costs.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace smelt::plan {

namespace {

// Nothing is known about two ranks on a machine of one PU; any positive constant ranks the trees alike.
constexpr double lone_pu_ns = 10.0;

bool has_duplicates(const Group& group) {
  std::vector<int> sorted = group.pus;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

// Small enough that the lines of a tile's rows stay in the first-level cache.
constexpr int tile = 32;

using Tile = std::array<float, tile * tile>;

// Costs of the messages from ranks [from, from + rows) to ranks [to, to + columns).
class TileReader {
 public:
  explicit TileReader(const RankCosts& ranks) : pus_(ranks.group().pus) {
    adjacent_ = true;
    for (std::size_t i = 1; i < pus_.size(); ++i) adjacent_ = adjacent_ && pus_[i] == pus_[i - 1] + 1;
  }

  void read(const Matrix& matrix, int from, int rows, int to, int columns, Tile& out) const {
    for (int row = 0; row < rows; ++row) {
      const double* costs = matrix.row(static_cast<std::size_t>(pus_[from + row]));
      float* line = &out[row * tile];
      if (adjacent_) {
        for (int column = 0; column < columns; ++column) line[column] = static_cast<float>(costs[pus_[to] + column]);
      } else {
        for (int column = 0; column < columns; ++column) line[column] = static_cast<float>(costs[pus_[to + column]]);
      }
    }
  }

 private:
  const std::vector<int>& pus_;
  bool adjacent_;
};

void turn(Tile& values) {
  for (int row = 0; row < tile; ++row) {
    for (int column = 0; column < row; ++column) std::swap(values[row * tile + column], values[column * tile + row]);
  }
}

}  // namespace

RankCosts::RankCosts(const Machine& machine, const Group& group) : machine_(&machine), group_(&group) {
  shares_pus_ = has_duplicates(group);
  if (!shares_pus_) return;
  double cheapest = std::numeric_limits<double>::infinity();
  shared_send_ = shared_recv_ = lone_pu_ns;
  for (const int a : group.pus) {
    for (const int b : group.pus) {
      if (a == b) continue;
      const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
      const double sum = machine.send_ns(i, j) + machine.recv_ns(i, j);
      if (sum >= cheapest) continue;
      cheapest = sum;
      shared_send_ = machine.send_ns(i, j);
      shared_recv_ = machine.recv_ns(i, j);
    }
  }
}

// The table of a broadcast runs along the machine's rows. That of a reduction is turned around,
// tile by tile, so that neither side is walked across its rows.
CostTable::CostTable(const DirectedCosts& costs) : size_(costs.size()) {
  const auto cells = static_cast<std::size_t>(size_) * static_cast<std::size_t>(size_);
  send_ = std::make_unique_for_overwrite<float[]>(cells);
  latency_ = std::make_unique_for_overwrite<float[]>(cells);
  const RankCosts& ranks = costs.ranks();
  const Machine& machine = ranks.machine();
  const bool turned = costs.direction() == Direction::reduce;
  const TileReader reader(ranks);
  Tile send{}, latency{}, between{};
  for (int top = 0; top < size_; top += tile) {
    const int rows = std::min(tile, size_ - top);
    for (int left = 0; left < size_; left += tile) {
      const int columns = std::min(tile, size_ - left);
      const auto read = [&](const Matrix& matrix, Tile& out) {
        turned ? reader.read(matrix, left, columns, top, rows, out)
               : reader.read(matrix, top, rows, left, columns, out);
        if (turned) turn(out);
      };
      read(turned ? machine.recv_ns : machine.send_ns, send);
      read(turned ? machine.send_ns : machine.recv_ns, latency);
      if (machine.propagation_ns) {
        read(*machine.propagation_ns, between);
        for (std::size_t i = 0; i < between.size(); ++i) latency[i] += between[i];
      }
      for (int row = 0; row < rows; ++row) {
        std::copy_n(&send[row * tile], columns, &send_[index(top + row, left)]);
        std::copy_n(&latency[row * tile], columns, &latency_[index(top + row, left)]);
      }
    }
  }
  if (ranks.shares_pus()) fill_shared(costs);
  for (int rank = 0; rank < size_; ++rank) send_[index(rank, rank)] = latency_[index(rank, rank)] = 0.0F;
}

void CostTable::fill_shared(const DirectedCosts& costs) {
  const std::vector<int>& pus = costs.ranks().group().pus;
  for (int p = 0; p < size_; ++p) {
    for (int c = 0; c < size_; ++c) {
      if (pus[p] != pus[c]) continue;
      send_[index(p, c)] = static_cast<float>(costs.send(p, c));
      latency_[index(p, c)] = static_cast<float>(costs.latency(p, c));
    }
  }
}

}  // namespace smelt::plan
