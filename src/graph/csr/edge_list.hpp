// EdgeList: edges in the order of a file or generator, before they become a graph.
//
// One thread fills a Part for each piece of input. Parts consist of blocks of fixed size, so that they grow without
// copies and are freed block by block while the graph is built.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/storage/pages.hpp"

namespace smelt::graph {

/// No payload.
struct NoPayload {};

template <class NodeId, class Payload>
struct Edge {
  NodeId from;
  NodeId to;
  [[no_unique_address]] Payload payload;
};

template <class NodeId, class Payload>
class EdgeList {
 public:
  using Edge = graph::Edge<NodeId, Payload>;

  struct Block {
    Pages memory;
    std::size_t count = 0;
    std::uint64_t from_offset = 0;  ///< to be added to `from`
    bool real = false;              ///< weights are doubles, not whole numbers

    Edge* edges() const noexcept { return memory.as<Edge>(); }
  };

  class Part {
   public:
    /// False if out of memory.
    bool add(Edge edge) {
      if (next_ == end_ && !grow()) return false;
      *next_++ = edge;
      return true;
    }

    /// Calls f(edge) for all edges added so far.
    template <class F>
    void for_each(F&& f) {
      close();
      for (auto& block : blocks_) std::for_each_n(block.edges(), block.count, f);
    }

    /// `from_offset` and `real` of all its blocks.
    std::vector<Block> take(std::uint64_t from_offset, bool real) {
      close();
      for (auto& block : blocks_) {
        block.from_offset = from_offset;
        block.real = real;
      }
      return std::move(blocks_);
    }

   private:
    static constexpr std::size_t first_bytes = std::size_t{4} << 10;
    static constexpr std::size_t most_bytes = std::size_t{512} << 10;

    void close() noexcept {
      if (!blocks_.empty()) blocks_.back().count = static_cast<std::size_t>(next_ - blocks_.back().edges());
    }

    bool grow() {
      close();
      bytes_ = blocks_.empty() ? first_bytes : std::min(most_bytes, bytes_ * 4);
      auto memory = Pages::allocate(bytes_, Pages::Use::passing);
      if (!memory) return false;
      blocks_.push_back({*std::move(memory)});
      next_ = blocks_.back().edges();
      end_ = next_ + bytes_ / sizeof(Edge);
      return true;
    }

    std::vector<Block> blocks_;
    Edge* next_ = nullptr;
    Edge* end_ = nullptr;
    std::size_t bytes_ = 0;
  };

  void append(Part& part, std::uint64_t from_offset = 0, bool real = false) {
    for (auto& block : part.take(from_offset, real)) {
      count_ += block.count;
      blocks_.push_back(std::move(block));
    }
  }

  std::uint64_t count() const noexcept { return count_; }
  std::vector<Block>& blocks() noexcept { return blocks_; }
  const std::vector<Block>& blocks() const noexcept { return blocks_; }

 private:
  std::vector<Block> blocks_;
  std::uint64_t count_ = 0;
};

}  // namespace smelt::graph
