#include "graph/reference.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <unordered_map>
#include <utility>

namespace bench::reference {
namespace {

/// Memory that no thread has touched: the loops that fill it determine its placement.
template <class T>
std::unique_ptr<T[]> untouched(std::size_t size) {
  return std::unique_ptr<T[]>(new T[size]);
}

template <class T>
bool swap_if(T& place, T expected, T desired) {
  return std::atomic_ref<T>(place).compare_exchange_strong(expected, desired, std::memory_order_relaxed);
}

class Bitmap {
 public:
  explicit Bitmap(std::size_t size) : words_((size + 63) / 64), bits_(untouched<std::uint64_t>(words_)) {}
  void clear() {
#pragma omp parallel for
    for (std::size_t i = 0; i < words_; ++i) bits_[i] = 0;
  }
  bool has(std::size_t i) const { return (bits_[i / 64] >> i % 64 & 1) != 0; }
  void set(std::size_t i) { bits_[i / 64] |= std::uint64_t{1} << i % 64; }
  void set_shared(std::size_t i) {
    std::atomic_ref<std::uint64_t>(bits_[i / 64]).fetch_or(std::uint64_t{1} << i % 64, std::memory_order_relaxed);
  }
  void swap(Bitmap& other) { bits_.swap(other.bits_); }

 private:
  std::size_t words_;
  std::unique_ptr<std::uint64_t[]> bits_;
};

/// Nodes in the order of their discovery; a window of them is the frontier.
class Queue {
 public:
  explicit Queue(std::size_t capacity) : nodes_(untouched<Node>(capacity)) {}
  void push(Node node) { nodes_[in_++] = node; }
  bool empty() const { return first_ == last_; }
  std::size_t size() const { return last_ - first_; }
  const Node* begin() const { return nodes_.get() + first_; }
  const Node* end() const { return nodes_.get() + last_; }
  void advance() {
    first_ = last_;
    last_ = in_;
  }
  void restart() { first_ = last_ = in_ = 0; }
  void append(const std::vector<Node>& found) {
    const std::size_t at = std::atomic_ref<std::size_t>(in_).fetch_add(found.size(), std::memory_order_relaxed);
    std::copy(found.begin(), found.end(), nodes_.get() + at);
  }

 private:
  std::unique_ptr<Node[]> nodes_;
  std::size_t in_ = 0, first_ = 0, last_ = 0;
};

/// A thread's finds, handed to the queue in bulk.
class Finds {
 public:
  explicit Finds(Queue& queue) : queue_(queue) { found_.reserve(capacity); }
  ~Finds() { queue_.append(found_); }
  void push(Node node) {
    if (found_.size() == capacity) {
      queue_.append(found_);
      found_.clear();
    }
    found_.push_back(node);
  }

 private:
  static constexpr std::size_t capacity = 1u << 14;
  Queue& queue_;
  std::vector<Node> found_;
};

// --- bfs

std::int64_t bottom_up(const Rows& graph, std::vector<Node>& parent, const Bitmap& front, Bitmap& next) {
  std::int64_t awake = 0;
  next.clear();
#pragma omp parallel for reduction(+ : awake) schedule(dynamic, 1024)
  for (Node u = 0; u < graph.num_nodes(); ++u) {
    if (parent[u] >= 0) continue;
    for (const Node v : graph.of(u)) {
      if (!front.has(v)) continue;
      parent[u] = v;
      ++awake;
      next.set_shared(u);
      break;
    }
  }
  return awake;
}

/// Degrees of what was found: parents hold the negated degree until then.
std::int64_t top_down(const Rows& graph, std::vector<Node>& parent, Queue& queue) {
  std::int64_t edges = 0;
#pragma omp parallel reduction(+ : edges)
  {
    Finds finds(queue);
#pragma omp for nowait
    for (const Node* u = queue.begin(); u < queue.end(); ++u) {
      for (const Node v : graph.of(*u)) {
        const Node before = parent[v];
        if (before >= 0 || !swap_if(parent[v], before, *u)) continue;
        finds.push(v);
        edges -= before;
      }
    }
  }
  return edges;
}

}  // namespace

std::vector<Node> bfs(const Rows& graph, Node root) {
  constexpr std::int64_t alpha = 15, beta = 18;
  const Node nodes = graph.num_nodes();
  std::vector<Node> parent(nodes);
#pragma omp parallel for
  for (Node n = 0; n < nodes; ++n) parent[n] = graph.degree(n) != 0 ? static_cast<Node>(-graph.degree(n)) : -1;
  parent[root] = root;
  Queue queue(nodes);
  queue.push(root);
  queue.advance();
  Bitmap current(nodes), front(nodes);
  current.clear();
  front.clear();
  std::int64_t to_check = static_cast<std::int64_t>(graph.neighbour.size()), frontier_edges = graph.degree(root);
  while (!queue.empty()) {
    if (frontier_edges > to_check / alpha) {
#pragma omp parallel for
      for (const Node* u = queue.begin(); u < queue.end(); ++u) front.set_shared(*u);
      std::int64_t awake = static_cast<std::int64_t>(queue.size()), before = 0;
      queue.advance();
      do {
        before = awake;
        awake = bottom_up(graph, parent, front, current);
        front.swap(current);
      } while (awake >= before || awake > nodes / beta);
#pragma omp parallel
      {
        Finds finds(queue);
#pragma omp for nowait
        for (Node n = 0; n < nodes; ++n) {
          if (front.has(n)) finds.push(n);
        }
      }
      queue.advance();
      frontier_edges = 1;
    } else {
      to_check -= frontier_edges;
      frontier_edges = top_down(graph, parent, queue);
      queue.advance();
    }
  }
#pragma omp parallel for
  for (Node n = 0; n < nodes; ++n) {
    if (parent[n] < -1) parent[n] = -1;
  }
  return parent;
}

// --- pr

std::vector<float> pr(const Rows& graph, float damping, double tolerance, int max_iterations) {
  const Node nodes = graph.num_nodes();
  const float initial = 1.0f / static_cast<float>(nodes), base = (1.0f - damping) / static_cast<float>(nodes);
  std::vector<float> score(nodes, initial);
  const auto contribution = untouched<float>(nodes);
#pragma omp parallel for
  for (Node n = 0; n < nodes; ++n) contribution[n] = initial / static_cast<float>(graph.degree(n));
  for (int iteration = 0; iteration < max_iterations; ++iteration) {
    double error = 0;
#pragma omp parallel for reduction(+ : error) schedule(dynamic, 16384)
    for (Node u = 0; u < nodes; ++u) {
      float incoming = 0;
      for (const Node v : graph.of(u)) incoming += contribution[v];
      const float before = score[u];
      score[u] = base + damping * incoming;
      error += std::fabs(score[u] - before);
      contribution[u] = score[u] / static_cast<float>(graph.degree(u));
    }
    if (error < tolerance) break;
  }
  return score;
}

// --- cc

namespace {

void link(Node u, Node v, std::vector<Node>& comp) {
  Node a = comp[u], b = comp[v];
  while (a != b) {
    const Node high = std::max(a, b), low = std::min(a, b), parent = comp[high];
    if (parent == low || (parent == high && swap_if(comp[high], high, low))) return;
    a = comp[comp[high]];
    b = comp[low];
  }
}

void compress(const Rows& graph, std::vector<Node>& comp) {
#pragma omp parallel for schedule(dynamic, 16384)
  for (Node n = 0; n < graph.num_nodes(); ++n) {
    while (comp[n] != comp[comp[n]]) comp[n] = comp[comp[n]];
  }
}

Node most_frequent(const std::vector<Node>& comp) {
  std::unordered_map<Node, int> counts(32);
  std::mt19937 random;
  std::uniform_int_distribution<Node> any(0, static_cast<Node>(comp.size()) - 1);
  for (int i = 0; i < 1024; ++i) ++counts[comp[any(random)]];
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

std::vector<Node> cc(const Rows& graph) {
  constexpr std::int64_t rounds = 2;
  const Node nodes = graph.num_nodes();
  std::vector<Node> comp(nodes);
#pragma omp parallel for
  for (Node n = 0; n < nodes; ++n) comp[n] = n;
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma omp parallel for schedule(dynamic, 16384)
    for (Node u = 0; u < nodes; ++u) {
      if (graph.degree(u) > r) link(u, graph.neighbour[graph.begin[u] + r], comp);
    }
    compress(graph, comp);
  }
  const Node largest = nodes > 0 ? most_frequent(comp) : 0;
#pragma omp parallel for schedule(dynamic, 16384)
  for (Node u = 0; u < nodes; ++u) {
    if (comp[u] == largest) continue;
    for (std::int64_t i = graph.begin[u] + rounds; i < graph.begin[u + 1]; ++i) link(u, graph.neighbour[i], comp);
  }
  compress(graph, comp);
  return comp;
}

// --- bc

std::vector<float> bc(const Rows& graph, std::span<const Node> sources) {
  const Node nodes = graph.num_nodes();
  std::vector<float> scores(nodes, 0);
  std::vector<double> paths(nodes);
  std::vector<float> deltas(nodes);
  std::vector<Node> depth(nodes);
  Bitmap successor(graph.neighbour.size());
  Queue queue(nodes);
  for (const Node source : sources) {
#pragma omp parallel for
    for (Node n = 0; n < nodes; ++n) {
      paths[n] = 0;
      depth[n] = -1;
    }
    successor.clear();
    queue.restart();
    paths[source] = 1;
    depth[source] = 0;
    queue.push(source);
    queue.advance();
    std::vector<const Node*> levels = {queue.begin()};
#pragma omp parallel
    {
      Node level = 0;
      while (!queue.empty()) {
        ++level;
        {
          Finds finds(queue);
#pragma omp for schedule(dynamic, 64) nowait
          for (const Node* u = queue.begin(); u < queue.end(); ++u) {
            for (std::int64_t i = graph.begin[*u]; i < graph.begin[*u + 1]; ++i) {
              const Node v = graph.neighbour[i];
              if (std::atomic_ref(depth[v]).load(std::memory_order_relaxed) == -1 && swap_if(depth[v], -1, level))
                finds.push(v);
              if (std::atomic_ref(depth[v]).load(std::memory_order_relaxed) != level) continue;
              successor.set_shared(static_cast<std::size_t>(i));
              std::atomic_ref(paths[v]).fetch_add(paths[*u], std::memory_order_relaxed);
            }
          }
        }
#pragma omp barrier
#pragma omp single
        {
          levels.push_back(queue.end());
          queue.advance();
        }
      }
    }
    std::fill(deltas.begin(), deltas.end(), 0.0f);
    for (std::size_t level = levels.size() - 1; level-- > 0;) {
#pragma omp parallel for schedule(dynamic, 64)
      for (const Node* u = levels[level]; u < levels[level + 1]; ++u) {
        float delta = 0;
        for (std::int64_t i = graph.begin[*u]; i < graph.begin[*u + 1]; ++i) {
          if (!successor.has(static_cast<std::size_t>(i))) continue;
          const Node v = graph.neighbour[i];
          delta += static_cast<float>(paths[*u] / paths[v]) * (1 + deltas[v]);
        }
        deltas[*u] = delta;
        if (*u != source) scores[*u] += delta;
      }
    }
  }
  return scores;
}

// --- sssp

std::vector<std::int32_t> sssp(const Rows& graph, Node root, std::int32_t delta) {
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max() / 2, fusion_limit = 1000;
  std::vector<std::int32_t> distance(graph.num_nodes(), unreachable);
  distance[root] = 0;
  const auto frontier = untouched<Node>(graph.neighbour.size() + 1);
  frontier[0] = root;
  std::size_t bin_of[2] = {0, none}, size_of[2] = {1, 0};
#pragma omp parallel
  {
    std::vector<std::vector<Node>> bins;
    const auto relax = [&](Node u) {
      for (std::int64_t i = graph.begin[u]; i < graph.begin[u + 1]; ++i) {
        const WeightedNode edge = graph.weighted[i];
        std::int32_t before = distance[edge.node];
        const std::int32_t found = distance[u] + edge.weight;
        while (found < before) {
          if (swap_if(distance[edge.node], before, found)) {
            const auto bin = static_cast<std::size_t>(found / delta);
            if (bin >= bins.size()) bins.resize(bin + 1);
            bins[bin].push_back(edge.node);
            break;
          }
          before = distance[edge.node];
        }
      }
    };
    std::size_t turn = 0;
    while (bin_of[turn & 1] != none) {
      std::size_t& bin = bin_of[turn & 1];
      std::size_t& next_bin = bin_of[(turn + 1) & 1];
      std::size_t& size = size_of[turn & 1];
      std::size_t& next_size = size_of[(turn + 1) & 1];
#pragma omp for nowait schedule(dynamic, 64)
      for (std::size_t i = 0; i < size; ++i) {
        if (distance[frontier[i]] >= delta * static_cast<std::int32_t>(bin)) relax(frontier[i]);
      }
      while (bin < bins.size() && !bins[bin].empty() && bins[bin].size() < fusion_limit) {
        const std::vector<Node> now = std::exchange(bins[bin], {});
        for (const Node u : now) relax(u);
      }
      for (std::size_t b = bin; b < bins.size(); ++b) {
        if (bins[b].empty()) continue;
#pragma omp critical
        next_bin = std::min(next_bin, b);
        break;
      }
#pragma omp barrier
#pragma omp single nowait
      {
        bin = none;
        size = 0;
      }
      if (next_bin < bins.size()) {
        auto& own = bins[next_bin];
        const std::size_t at = std::atomic_ref<std::size_t>(next_size).fetch_add(own.size(), std::memory_order_relaxed);
        std::copy(own.begin(), own.end(), frontier.get() + at);
        own.clear();
      }
      ++turn;
#pragma omp barrier
    }
  }
  return distance;
}

// --- tc

namespace {

bool is_skewed(const Rows& graph) {
  const Node nodes = graph.num_nodes();
  if (nodes == 0 || static_cast<std::int64_t>(graph.neighbour.size()) / nodes < 10) return false;
  std::mt19937 random;
  std::uniform_int_distribution<Node> any(0, nodes - 1);
  std::vector<std::int64_t> sample(std::min<std::int64_t>(1000, nodes));
  std::int64_t total = 0;
  for (auto& degree : sample) total += degree = graph.degree(any(random));
  std::sort(sample.begin(), sample.end());
  return static_cast<double>(total) / static_cast<double>(sample.size()) / 1.3 >
         static_cast<double>(sample[sample.size() / 2]);
}

Rows by_descending_degree(const Rows& graph) {
  const Node nodes = graph.num_nodes();
  std::vector<std::pair<std::int64_t, Node>> order(nodes);
#pragma omp parallel for
  for (Node n = 0; n < nodes; ++n) order[n] = {graph.degree(n), n};
  std::sort(order.begin(), order.end(), std::greater<>());
  std::vector<Node> number(nodes);
  Rows renumbered;
  renumbered.begin.resize(nodes + 1);
  for (Node n = 0; n < nodes; ++n) {
    renumbered.begin[n + 1] = renumbered.begin[n] + order[n].first;
    number[order[n].second] = n;
  }
  renumbered.neighbour.resize(graph.neighbour.size());
#pragma omp parallel for schedule(dynamic, 1024)
  for (Node n = 0; n < nodes; ++n) {
    Node* const first = renumbered.neighbour.data() + renumbered.begin[number[n]];
    Node* last = first;
    for (const Node v : graph.of(n)) *last++ = number[v];
    std::sort(first, last);
  }
  return renumbered;
}

}  // namespace

std::uint64_t tc(const Rows& given) {
  const bool skewed = is_skewed(given);
  const Rows renumbered = skewed ? by_descending_degree(given) : Rows{};
  const Rows& graph = skewed ? renumbered : given;
  std::uint64_t total = 0;
#pragma omp parallel for reduction(+ : total) schedule(dynamic, 64)
  for (Node u = 0; u < graph.num_nodes(); ++u) {
    for (const Node v : graph.of(u)) {
      if (v > u) break;
      auto at = graph.of(u).begin();
      for (const Node w : graph.of(v)) {
        if (w > v) break;
        while (*at < w) ++at;
        if (w == *at) ++total;
      }
    }
  }
  return total;
}

}  // namespace bench::reference
