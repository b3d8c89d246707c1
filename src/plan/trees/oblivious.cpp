// Trees that know nothing of the machine. Ranks are numbered from the root: position 0 is the
// root, position i is rank (root + i) mod n.
//
//   sequential  0 sends to all                       chain     i sends to i + 1
//   binary      i sends to 2i + 1 and 2i + 2         fibonacci order k: children of order k-1, k-2
//   k-nomial    i sends to i + j k^d for 0 < j < k and every k^d below i's lowest non-zero digit
//
// Source: [Kaestle16] 5.2 (binary, Fibonacci after Knuth, sequential); k-nomial as in MPI libraries.
#include <deque>

#include "plan/trees/builders.hpp"
#include "plan/trees/rule.hpp"

namespace smelt::plan {

namespace {

// parent_of(position) for every position but 0.
template <class ParentOf>
Tree by_position(int n, int root, ParentOf parent_of) {
  Tree tree;
  tree.root = root;
  tree.children.resize(static_cast<std::size_t>(n));
  for (int position = 1; position < n; ++position) {
    tree.children[(root + parent_of(position)) % n].push_back((root + position) % n);
  }
  return tree;
}

}  // namespace

Tree sequential_tree(int n, int root) {
  return by_position(n, root, [](int) { return 0; });
}

Tree chain_tree(int n, int root) {
  return by_position(n, root, [](int position) { return position - 1; });
}

Tree binary_tree(int n, int root) {
  return by_position(n, root, [](int position) { return (position - 1) / 2; });
}

Tree k_nomial_tree(int n, int root, int radix) {
  return by_position(n, root, [radix](int position) {
    long long weight = 1;  // of the lowest non-zero digit
    while (position / weight % radix == 0) weight *= radix;
    return static_cast<int>(position - position / weight % radix * weight);
  });
}

// The smallest Fibonacci tree with at least n ranks, filled breadth first.
//
//            0            order 4
//          /   \ .
//         1     2         orders 3, 2
//        / \   /
//       3   4 5           orders 2, 1, 1
//      /
//     6                   order 1
Tree fibonacci_tree(int n, int root) {
  int order = 1;
  for (long long size = 1, smaller = 0; size < n; ++order) {
    const long long larger = 1 + size + smaller;
    smaller = size;
    size = larger;
  }
  std::vector<int> parent{-1};
  std::deque<std::pair<int, int>> open{{0, order}};  // position and order of ranks without children yet
  while (!open.empty() && static_cast<int>(parent.size()) < n) {
    const auto [position, own] = open.front();
    open.pop_front();
    for (int below = own - 1; below >= std::max(1, own - 2) && static_cast<int>(parent.size()) < n; --below) {
      open.emplace_back(static_cast<int>(parent.size()), below);
      parent.push_back(position);
    }
  }
  return by_position(n, root, [&](int position) { return parent[position]; });
}

const TreeRule rules::sequential = {
    "sequential", "the root sends to every rank (star)", false,
    [](Problem& p, Direction, int, int root) { return sequential_tree(p.size(), root); }};

const TreeRule rules::binary = {"binary", "rank i sends to 2i+1 and 2i+2", false,
                                [](Problem& p, Direction, int, int root) { return binary_tree(p.size(), root); }};

const TreeRule rules::fibonacci = {"fibonacci", "unbalanced binary tree: left subtrees are one order larger", false,
                                   [](Problem& p, Direction, int, int root) { return fibonacci_tree(p.size(), root); }};

const TreeRule rules::k_nomial = {
    "k-nomial", "binomial tree and its generalization; k-nomial:K sets the radix (default 2)", false,
    [](Problem& p, Direction, int radix, int root) { return k_nomial_tree(p.size(), root, radix); }};

const TreeRule rules::chain = {"chain", "every rank sends to the next", false,
                               [](Problem& p, Direction, int, int root) { return chain_tree(p.size(), root); }};

}  // namespace smelt::plan
