// Builder: collects the moves of one rank. Each file of this folder holds one algorithm: its rule, as a function that
// adds the moves of `rank`, and its properties.
#pragma once

#include <vector>

#include "smelt/schedule.hpp"

namespace smelt::plan {

class Builder {
 public:
  Builder(const ScheduleRequest& request, int rank)
      : request(request), ranks(request.ranks), rank(rank), root(request.root), moves_(&schedule.body) {}

  const ScheduleRequest& request;
  const int ranks;
  const int rank;
  const int root;
  Schedule schedule;

  bool staged() const { return request.recipe.access == Access::staged; }
  /// This rank's distance from the root, and the rank at a distance.
  int position() const { return (rank - root + ranks) % ranks; }
  int at(int position) const { return (position % ranks + ranks + root) % ranks; }
  int neighbour(int distance) const { return ((rank + distance) % ranks + ranks) % ranks; }
  const std::vector<int>& children() const { return request.tree.children[static_cast<std::size_t>(rank)]; }
  int parent() const;

  /// Adds the following moves to that part of the schedule. Initially: the body.
  void begin() { moves_ = &schedule.begin; }
  void body() { moves_ = &schedule.body; }
  void tail() { moves_ = &schedule.tail; }
  void end() { moves_ = &schedule.end; }

  void send(int peer, Area from) { add({.kind = Move::Kind::send, .peer = peer, .from = from}); }
  void recv(int source, Area to) { add({.kind = Move::Kind::recv, .source = source, .to = to}); }
  void recv_combine(int source, Area with, Area to) {
    add({.kind = Move::Kind::recv_combine, .theirs_first = source < rank, .source = source, .with = with, .to = to});
  }
  void exchange(int peer, Area from, int source, Area to) {
    add({.kind = Move::Kind::exchange, .peer = peer, .source = source, .from = from, .to = to});
  }
  void exchange_combine(int peer, Area from, int source, Area with, Area to, bool theirs_first) {
    add({.kind = Move::Kind::exchange_combine,
         .theirs_first = theirs_first,
         .peer = peer,
         .source = source,
         .from = from,
         .with = with,
         .to = to});
  }
  void get(int source, Area from, Area to) { add({.kind = Move::Kind::get, .source = source, .from = from, .to = to}); }
  /// to = with (op) theirs, or theirs (op) with
  void get_combine(int source, Area theirs, Area with, Area to, bool theirs_first = false) {
    add({.kind = Move::Kind::get_combine,
         .theirs_first = theirs_first,
         .source = source,
         .from = theirs,
         .with = with,
         .to = to});
  }
  void put(int peer, Area from, Area to) { add({.kind = Move::Kind::put, .peer = peer, .from = from, .to = to}); }
  /// The same, shared by both ends: this one begins, and `helped` is the tick of the other after its share.
  void lead_get(int source, Area from, Area to, int helped) {
    add({.kind = Move::Kind::get, .share = Share::leads, .source = source, .tick = helped, .from = from, .to = to});
  }
  void lead_put(int peer, Area from, Area to, int helped) {
    add({.kind = Move::Kind::put, .share = Share::leads, .peer = peer, .tick = helped, .from = from, .to = to});
  }
  /// The other end's share of such a get or put.
  void help_get(int peer, Area from, Area to) {
    add({.kind = Move::Kind::put, .share = Share::helps, .peer = peer, .from = from, .to = to});
  }
  void help_put(int source, Area from, Area to) {
    add({.kind = Move::Kind::get, .share = Share::helps, .source = source, .from = from, .to = to});
  }
  void copy(Area from, Area to) {
    if (from != to) add({.kind = Move::Kind::copy, .from = from, .to = to});
  }
  /// to = with (op) from
  void combine(Area with, Area from, Area to, bool from_first = false) {
    add({.kind = Move::Kind::combine, .theirs_first = from_first, .from = from, .with = with, .to = to});
  }
  void post(int tick) { add({.kind = Move::Kind::post, .tick = tick}); }
  /// `readers`: how many ranks wait for this tick at the same time.
  void await(int source, int tick, int readers = 1) {
    if (source != rank) add({.kind = Move::Kind::await, .source = source, .readers = readers, .tick = tick});
  }
  /// All ranks but the root wait for the same tick of it.
  void await_root(int tick) { await(root, tick, ranks - 1); }
  void await_body(int source) { add({.kind = Move::Kind::await_body, .source = source}); }
  /// Every other rank, beginning with the next one, so that ranks do not all access the same one.
  void await_all(int tick) {
    for (int distance = 1; distance < ranks; ++distance) await(neighbour(distance), tick);
  }
  void flush() { add({.kind = Move::Kind::flush}); }

  /// Other ranks copy out of this rank's input and result, so no rank leaves before all are done.
  void publish(int ticks) {
    schedule.publishes = true;
    schedule.ticks = ticks;
  }
  /// Up to so many last chunks have moves of their own (the tail).
  void use_tail(int chunks) { schedule.tail_chunks = chunks; }
  /// Stages hold `blocks` blocks per chunk, the same on all ranks. `readers` read the stage of this rank, if it fills
  /// it.
  void use_stage(int blocks, int ticks, std::vector<int> readers) {
    schedule.stage_blocks = blocks;
    schedule.ticks = ticks;
    schedule.stage_readers = std::move(readers);
  }
  std::vector<int> everyone_else() const;

 private:
  void add(Move move) { moves_->push_back(move); }
  std::vector<Move>* moves_;
};

inline Area in(int first = 0, int count = 1) { return {Buffer::in, first, count}; }
inline Area out(int first = 0, int count = 1) { return {Buffer::out, first, count}; }
inline Area work(int first = 0, int count = 1) { return {Buffer::work, first, count}; }
inline Area stage(int first = 0, int count = 1) { return {Buffer::stage, first, count}; }

/// An algorithm: its properties and its rule.
struct Algorithm {
  AlgorithmInfo info;
  void (*build)(Builder& builder);
  bool in_step = true;  ///< if pipelined: ranks wait for each other in every chunk
};

int largest_power_of_two(int n);

}  // namespace smelt::plan
