#include "plan/trees/costs.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "machine/costs_by_class.hpp"

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
      if (matrix.classes() != nullptr) {
        const auto sender = static_cast<std::size_t>(pus_[from + row]);
        for (int column = 0; column < columns; ++column) {
          out[row * tile + column] = static_cast<float>(matrix(sender, static_cast<std::size_t>(pus_[to + column])));
        }
        continue;
      }
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

RankCosts::RankCosts(const Machine& machine, const Group& group, CostTerms terms) : machine_(&machine), group_(&group) {
  const auto if_known = [&](const std::optional<Matrix>& costs) {
    return terms == CostTerms::all && costs ? &*costs : nullptr;
  };
  between_ = if_known(machine.propagation_ns);
  send_gaps_ = if_known(machine.send_gap_ns);
  recv_gaps_ = if_known(machine.recv_gap_ns);
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

/// Of values that are known for 1, 2, 4, ...: linear between these, and on with the rate of the last two.
static double between_known(const std::vector<double>& known, double at) noexcept {
  std::size_t k = 1;
  double before = 1.0;  // where known[k - 1] is
  for (; k + 1 < known.size() && at > 2.0 * before; ++k) before *= 2.0;
  return known[k - 1] + (at - before) * (known[k] - known[k - 1]) / before;
}

double RankCosts::more_lines(double lines) const noexcept {
  const auto& known = machine_->lines_ns;
  if (lines <= 1.0) return 0.0;
  if (known.size() < 2 || known[0] <= 0.0) return assumed_line_share * (lines - 1.0);
  return between_known(known, lines) / known[0] - 1.0;
}

double RankCosts::fan_out(int from, int to, int readers) const noexcept {
  const auto& known = machine_->fan_out_ns;
  if (readers < 2) return 0.0;
  return known.size() < 2 ? (readers - 1) * recv(from, to) : std::max(0.0, between_known(known, readers));
}

double RankCosts::least_line() const noexcept {
  const auto& known = machine_->lines_ns;
  if (known.size() < 2 || known[0] <= 0.0) return assumed_line_share;
  double length = 1.0, least = known[0];
  for (std::size_t k = 1; k < known.size(); ++k) {
    if (k + 1 == known.size()) least = std::min(least, (known[k] - known[k - 1]) / length);
    length *= 2.0;
    least = std::min(least, known[k] / length);
  }
  return least / known[0];
}

CostTable::CostTable(const DirectedCosts& costs) : costs_(costs), size_(costs.size()) {
  if (uses_classes()) {
    find_classes();
    return;
  }
  const auto cells = static_cast<std::size_t>(size_) * static_cast<std::size_t>(size_);
  send_ = std::make_unique_for_overwrite<float[]>(cells);
  latency_ = std::make_unique_for_overwrite<float[]>(cells);
  if (has_gaps()) {
    fill_exact();
  } else {
    fill_dense();
    if (costs_.ranks().shares_pus()) fill_shared();
  }
  for (int rank = 0; rank < size_; ++rank) send_[index(rank, rank)] = latency_[index(rank, rank)] = 0.0F;
}

bool CostTable::uses_classes() const {
  const Machine& machine = costs_.ranks().machine();
  return size_ > most_dense_ranks && machine.send_ns.classes() != nullptr && machine.recv_ns.classes() != nullptr &&
         (costs_.ranks().between() == nullptr || costs_.ranks().between()->classes() != nullptr);
}

// The table of a broadcast runs along the machine's rows. That of a reduction is turned around,
// tile by tile, so that neither side is walked across its rows.
void CostTable::fill_dense() {
  const RankCosts& ranks = costs_.ranks();
  const Machine& machine = ranks.machine();
  const bool turned = costs_.direction() == Direction::reduce;
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
      if (ranks.between() != nullptr) {
        read(*ranks.between(), between);
        for (std::size_t i = 0; i < between.size(); ++i) latency[i] += between[i];
      }
      for (int row = 0; row < rows; ++row) {
        std::copy_n(&send[row * tile], columns, &send_[index(top + row, left)]);
        std::copy_n(&latency[row * tile], columns, &latency_[index(top + row, left)]);
      }
    }
  }
}

// A latency beside gaps is a difference, which loses too much in float.
void CostTable::fill_exact() {
  for (int p = 0; p < size_; ++p) {
    for (int c = 0; c < size_; ++c) {
      if (p == c) continue;
      send_[index(p, c)] = static_cast<float>(costs_.send(p, c));
      latency_[index(p, c)] = static_cast<float>(costs_.latency(p, c));
    }
  }
}

void CostTable::fill_shared() {
  const std::vector<int>& pus = costs_.ranks().group().pus;
  for (int p = 0; p < size_; ++p) {
    for (int c = 0; c < size_; ++c) {
      if (pus[p] != pus[c]) continue;
      send_[index(p, c)] = static_cast<float>(costs_.send(p, c));
      latency_[index(p, c)] = static_cast<float>(costs_.latency(p, c));
    }
  }
}

void CostTable::find_classes() {
  const Machine& machine = costs_.ranks().machine();
  const bool turned = costs_.direction() == Direction::reduce;
  const auto seen = [&](const Matrix& matrix) {
    return std::make_shared<const CostsByClass>(turned ? matrix.classes()->transposed() : *matrix.classes());
  };
  send_classes_ = seen(turned ? machine.recv_ns : machine.send_ns);
  latency_classes_ = seen(turned ? machine.send_ns : machine.recv_ns);
  if (costs_.ranks().between() != nullptr) between_classes_ = seen(*costs_.ranks().between());
  const auto regular = [](const Classes& costs) { return !costs || !costs->has_residuals(); };
  if (!regular(send_classes_) || !regular(latency_classes_) || !regular(between_classes_)) return;
  if (costs_.ranks().shares_pus() || has_gaps()) return;
  const int kinds = send_classes_->places().kinds();
  for (int pair = 0; pair < kinds * kinds * shared_count; ++pair) {
    const auto cost = [&](const Classes& costs) {
      return static_cast<float>(costs->class_cost(pair / shared_count / kinds, pair / shared_count % kinds,
                                                  static_cast<SharedUnits>(pair % shared_count)));
    };
    const float latency = between_classes_ ? cost(latency_classes_) + cost(between_classes_) : cost(latency_classes_);
    edge_classes_.push_back(cost(send_classes_) + latency);
  }
}

// In float as the dense tables have it, so that both lead to the same trees.
float CostTable::class_send(int parent, int child) const {
  return parent == child ? 0.0F : static_cast<float>(costs_.send(parent, child));
}

float CostTable::class_latency(int parent, int child) const {
  if (parent == child) return 0.0F;
  if (has_gaps()) return static_cast<float>(costs_.latency(parent, child));
  const std::vector<int>& pus = costs_.ranks().group().pus;
  const auto from = static_cast<std::size_t>(pus[parent]), to = static_cast<std::size_t>(pus[child]);
  if (from == to) return static_cast<float>(costs_.latency(parent, child));
  const auto own = static_cast<float>((*latency_classes_)(from, to));
  return between_classes_ ? own + static_cast<float>((*between_classes_)(from, to)) : own;
}

void CostTable::add_row(const CostsByClass& classes, int parent, std::vector<float>& row) const {
  const std::vector<int>& pus = costs_.ranks().group().pus;
  thread_local std::vector<double> costs;  // of all PUs of the machine
  costs.resize(classes.size());
  classes.copy_row(static_cast<std::size_t>(pus[parent]), costs.data());
  for (int child = 0; child < size_; ++child) row[child] += static_cast<float>(costs[pus[child]]);
}

const float* CostTable::class_row(int parent, bool send, std::vector<float>& row) const {
  row.assign(static_cast<std::size_t>(size_), 0.0F);
  if (has_gaps()) {
    for (int child = 0; child < size_; ++child) {
      row[child] = send ? class_send(parent, child) : class_latency(parent, child);
    }
    return row.data();
  }
  add_row(send ? *send_classes_ : *latency_classes_, parent, row);
  if (!send && between_classes_) add_row(*between_classes_, parent, row);
  if (costs_.ranks().shares_pus()) {
    const std::vector<int>& pus = costs_.ranks().group().pus;
    for (int child = 0; child < size_; ++child) {
      if (pus[child] == pus[parent]) row[child] = send ? class_send(parent, child) : class_latency(parent, child);
    }
  }
  row[parent] = 0.0F;
  return row.data();
}

const float* CostTable::send_row(int parent, std::vector<float>& row) const {
  return send_ ? send_.get() + index(parent, 0) : class_row(parent, true, row);
}

const float* CostTable::latency_row(int parent, std::vector<float>& row) const {
  return latency_ ? latency_.get() + index(parent, 0) : class_row(parent, false, row);
}

const float* CostTable::edge_row(int parent, std::vector<float>& row) const {
  row.resize(static_cast<std::size_t>(size_));
  if (edge_classes_.empty()) {
    thread_local std::vector<float> sends, latencies;
    const float *send = send_row(parent, sends), *latency = latency_row(parent, latencies);
    for (int child = 0; child < size_; ++child) row[child] = send[child] + latency[child];
    return row.data();
  }
  const std::vector<int>& pus = costs_.ranks().group().pus;
  const Places& places = send_classes_->places();
  thread_local std::vector<SharedUnits> shared;
  shared.resize(places.size());
  places.shared_row(static_cast<std::size_t>(pus[parent]), shared.data());
  const float* classes =
      &edge_classes_[static_cast<std::size_t>(places.kind(pus[parent]) * places.kinds() * shared_count)];
  if (places.kinds() == 1) {
    for (int child = 0; child < size_; ++child) row[child] = classes[shared[pus[child]]];
  } else {
    for (int child = 0; child < size_; ++child) {
      row[child] = classes[places.kind(pus[child]) * shared_count + shared[pus[child]]];
    }
  }
  row[parent] = 0.0F;
  return row.data();
}

}  // namespace smelt::plan
