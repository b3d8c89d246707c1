// Lowering: what the moves of a rank come to for messages of one size: operations with their costs, all that the
// simulator of schedules needs to know of them. Moves that neither wait for others nor let them go on become part of
// the operation before them.
//
//   send        send_ns + what streams after the first line        receive  propagation_ns + recv_ns + stream
//   work        get and put: copy_ns(source, self), process_copy_ns; combine: combine_ns
//   post/await  a line that one rank writes and others read: the cost of a message
//
// Equations: docs/reference/model.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/schedule/schedule_internal.hpp"
#include "plan/trees/costs.hpp"
#include "smelt/schedule.hpp"

namespace smelt::plan {

constexpr double payload_bytes = 56.0;  ///< of a line of a channel
/// What a line of a stream costs, as part of a lone message (docs/reference/model.md).
constexpr double line_share = 0.2;

/// What a rank pays to get a PU that another rank has: a context switch.
constexpr double switch_ns = 1000.0;

struct LoweredOp {
  enum class Kind : std::uint8_t { work, send, receive, post, await, await_body, flush, reuse_stage };
  Kind kind = Kind::work;
  bool lent = false;         ///< of a message: where the data is, instead of the data
  bool exchanged = false;    ///< send: the receive of the same peer is next; receive: exchange_ns counts
  int peer = -1;             ///< send: to; receive, await: from
  int tick = 0;              ///< post, await
  double line_ns = 0.0;      ///< send: of the sender; receive: of the receiver; await: of looking
  double way_ns = 0.0;       ///< send: propagation; await: of a message; receive: of saying that lent data is read
  double stream_ns = 0.0;    ///< send: lines after the first; receive: storing them, at least
  double exchange_ns = 0.0;  ///< receive, if exchanged
  double after_ns = 0.0;     ///< work that follows
  double least_ns() const;   ///< that it takes, whatever the others do
};

/// Of one rank.
struct LoweredProgram {
  struct Reader {
    int rank;
    double way_ns;  ///< of its word that it is done
  };
  struct Put {
    int owner;
    double bytes;  ///< in all chunks, into its result
  };
  std::vector<LoweredOp> begin, body, tail, last, end;  ///< last: of the last chunk, if that is shorter; else empty
  std::vector<Reader> readers;                   ///< of its stage
  std::vector<Put> puts;
  int ticks = 0;  ///< per chunk
  std::size_t chunks = 1, tail_chunks = 0;
  double set_up_ns = 0.0;                                                            ///< before the first operation
  double begin_ns = 0.0, body_ns = 0.0, tail_ns = 0.0, last_ns = 0.0, end_ns = 0.0;  ///< least of each part

  /// At least that long is the rank busy.
  double least_ns() const {
    const std::size_t tails = tail_chunks > 0 ? tail_chunks - 1 : 0, bodies = chunks - 1 - tails;
    return set_up_ns + begin_ns + static_cast<double>(bodies) * body_ns + static_cast<double>(tails) * tail_ns +
           last_ns + end_ns;
  }
};

class Lowering {
 public:
  Lowering(const Machine& machine, const Group& group, const Reach& reach);

  /// For what follows. The request must live as long.
  void choose(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes);
  /// What a rank does; reuses the memory of `program`.
  void lower(int rank, LoweredProgram& program);
  /// What it costs `owner` to read so many bytes of its result that `writer` has put there, beyond what its own would.
  double fetch_ns(int writer, int owner, double bytes) const;

  int ranks() const { return group_.size(); }
  bool crowded() const { return crowded_; }  ///< some ranks share a PU
  std::size_t pu(int rank) const { return static_cast<std::size_t>(group_.pus[static_cast<std::size_t>(rank)]); }

 private:
  void note_put(const Move& move, double bytes);
  void add_shared(const Move& move, std::vector<LoweredOp>& ops);
  double put_ns(const Move& move);
  double spared_by_put_ns(int peer, double bytes) const;
  double lower_part(const std::vector<Move>& moves, std::size_t chunk, std::vector<LoweredOp>& ops);
  void add(const Move& move, std::vector<LoweredOp>& ops);
  void add_work(double ns, std::vector<LoweredOp>& ops) const;
  void add_send(int peer, double bytes, std::vector<LoweredOp>& ops) const;
  void add_receive(int source, double bytes, bool combine, std::vector<LoweredOp>& ops);
  double bytes_of(const Area& area) const;
  double own_copy_ns(double bytes);
  double transfer_ns(int from, int to, double bytes, bool staged, bool combine);
  double reclaim_ns(double bytes) const;
  double stream_ns(int from, int to, double bytes) const;
  bool lends(double bytes) const;
  template <class Cost>
  double part_ns(double bytes, Cost cost) const;

  const Machine& machine_;
  const Group& group_;
  RankCosts costs_;
  Reach reach_;
  int copiers_ = 1;
  bool crowded_ = false;
  // Of the request.
  const ScheduleRequest* request_ = nullptr;
  Operation operation_ = Operation::broadcast;
  bool rank_blocks_ = false;
  std::size_t length_ = 0, element_bytes_ = 1;
  double whole_bytes_ = 0.0;  ///< of a buffer
  // Of the rank.
  Schedule schedule_;
  Chunking cutting_;
  int rank_ = 0;
  bool cut_ = false;          ///< into several chunks
  std::size_t elements_ = 0;  ///< of the chunk
  Area just_read_;            ///< of this chunk, by the rank itself
  std::vector<LoweredProgram::Put>* puts_ = nullptr;
  struct CopyCost {
    double bytes = -1.0, ns = 0.0;
  };
  CopyCost known_whole_, known_part_;  ///< what was copied last in the rank's memory
};

}  // namespace smelt::plan
