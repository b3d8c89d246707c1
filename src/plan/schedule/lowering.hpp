// Lowering: translates the moves of a rank, for messages of one size, into operations with costs. These are the input
// of the simulator of schedules. Moves that neither wait for other ranks nor release them become part of the preceding
// operation.
//
//   send        send_ns + stream of the lines after the first      receive  propagation_ns + recv_ns + stream
//   in a row    send_gap_ns from start to start, recv_gap_ns from end to end
//   work        get and put: copy_ns(source, self), process_copy_ns; combine: combine_ns
//   post/await  a line that one rank writes and others read: the cost of a message
//
// Equations: docs/reference/model.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/schedule/schedule_internal.hpp"
#include "plan/trees/costs.hpp"
#include "smelt/schedule.hpp"

namespace smelt::plan {

constexpr double payload_bytes = 56.0;  ///< of a line of a channel

/// Cost of a context switch to a rank that shares its PU, where it was not measured.
constexpr double assumed_switch_ns = 1000.0;

inline double known_switch_ns(const Machine& machine, bool processes) {
  const double between_threads = machine.switch_ns.value_or(assumed_switch_ns);
  return processes ? machine.process_switch_ns.value_or(between_threads) : between_threads;
}

/// How many of the PUs that have ranks copy from others at the same time. Where data goes one way, one of them only
/// gives or starts alone. `root_copies`: the root copies, one from the other.
inline int copiers_of(Operation operation, int pus, bool root_copies = false) {
  if (root_copies) return 1;
  switch (operation) {
    case Operation::scatter:
    case Operation::gather:
    case Operation::reduce:
    case Operation::scan:
    case Operation::exscan: return pus > 1 ? pus - 1 : 1;
    default: return pus;
  }
}

struct LoweredOp {
  enum class Kind : std::uint8_t { work, read, send, receive, post, await, await_body, flush, reuse_stage };
  Kind kind = Kind::work;
  bool lent = false;          ///< message: carries the address of the data instead of the data
  bool exchanged = false;     ///< send: a receive from the same peer follows; receive: costs exchange_ns
  int peer = -1;              ///< send: to; receive, await, read: from
  int tick = 0;               ///< post, await
  double line_ns = 0.0;       ///< send: time of the sender; receive: of the receiver; await: of a poll; read: alone
  double way_ns = 0.0;        ///< send: propagation; await: of a message; receive: until the lender knows of the read
  double stream_ns = 0.0;     ///< send: lines after the first; receive: lower bound for storing them
  double exchange_ns = 0.0;   ///< receive, if exchanged
  double gap_ns = 0.0;        ///< send: until the next may start; receive: beyond the receive before it
  double source_ns = 0.0;     ///< read, receive of lent data: how long the peer's caches are busy, if all is there
  double near_ns = 0.0;       ///< the same of the part in the peer's first cache, if that has copied nothing itself
  double pages_ns = 0.0;      ///< of a read by the kernel: how long the pages are busy, for each of their readers
  double again_ns = 0.0;      ///< of what another rank has read before
  double bytes = 0.0;         ///< that are read
  double buffer_bytes = 0.0;  ///< of the whole that they are part of
  Area area{};                ///< of the peer's that is read, or is lent
  double row_scale = 0.0;     ///< receive: of Machine::recv_row_ns
  double after_ns = 0.0;      ///< subsequent local work
  double least_ns() const;    ///< lower bound, whatever other ranks do
  bool shares_source() const { return source_ns > 0.0 || pages_ns > 0.0; }
};

/// The operations of one rank.
struct LoweredProgram {
  struct Reader {
    int rank;
    double way_ns;  ///< until its tick is visible to this rank
  };
  struct Put {
    int owner;
    double bytes;  ///< over all chunks, into the owner's result
  };
  struct Read {
    int owner;
    double bytes;  ///< over all chunks, out of the owner's result
  };
  std::vector<LoweredOp> begin, body, tail, last, end;  ///< last: of the last chunk, if that is shorter; else empty
  std::vector<Reader> readers;                          ///< of its stage
  std::vector<Put> puts;
  std::vector<Read> reads;
  struct Lent {
    int reader;
    double bytes;  ///< over all chunks, out of the rank's own result
  };
  std::vector<Lent> lent;
  struct Input {
    int owner;
    Area area;
    double bytes;  ///< over all chunks
  };
  std::vector<Input> inputs;    ///< of others, that the rank reads, and own ones that it lends
  double written_bytes = 0.0;   ///< over all chunks, by the rank itself into its result
  double combined_bytes = 0.0;  ///< of these, by combinations with what others have written
  int ticks = 0;                ///< per chunk
  std::size_t chunks = 1, tail_chunks = 0;
  double set_up_ns = 0.0;                                                            ///< before the first operation
  double begin_ns = 0.0, body_ns = 0.0, tail_ns = 0.0, last_ns = 0.0, end_ns = 0.0;  ///< least of each part

  /// Lower bound on the rank's busy time.
  double least_ns() const {
    const std::size_t tails = tail_chunks > 0 ? tail_chunks - 1 : 0, bodies = chunks - 1 - tails;
    return set_up_ns + begin_ns + static_cast<double>(bodies) * body_ns + static_cast<double>(tails) * tail_ns +
           last_ns + end_ns;
  }
};

class Lowering {
 public:
  Lowering(const Machine& machine, const Group& group, const Reach& reach);

  /// Selects the request for the following calls; it must outlive them.
  void choose(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes);
  /// Lowers the moves of a rank. Reuses the memory of `program`.
  void lower(int rank, LoweredProgram& program);
  /// Additional cost for `owner` of reading bytes of its result that `writer` has put there, instead of its own.
  double fetch_ns(int writer, int owner, double bytes) const;
  /// Additional cost for `owner` of writing bytes that `reader` read in the call before; 0 where it is not known.
  double rewrite_ns(int reader, int owner, double bytes) const;
  /// The same of bytes that are the result of a combination.
  double combine_rewrite_ns(int reader, int owner, double bytes) const;

  /// Additional cost of storing to bytes that ranks of other PUs read in the call before; 0 where it is not known.
  double change_ns(double bytes) const;

  int ranks() const { return group_.size(); }
  bool crowded() const { return crowded_; }  ///< some ranks share a PU
  double switch_ns() const { return known_switch_ns(machine_, reach_.processes); }
  double call_ns(Operation operation) const { return costs_.call(operation); }
  /// Of a line that `from` has written and `to` takes; none on one PU, where it lies in the cache.
  double line_ns(int from, int to) const { return pu(from) == pu(to) ? 0.0 : costs_.message(from, to); }
  std::size_t pu(int rank) const { return static_cast<std::size_t>(group_.pus[static_cast<std::size_t>(rank)]); }

 private:
  void note_put(const Move& move, double bytes);
  void note_result(const Move& move, bool reads);
  void note_input(int owner, const Area& area, double bytes);
  void note_lent(int peer, const Area& area, double bytes);
  double of_all_chunks(double bytes) const;
  void add_shared(const Move& move, std::vector<LoweredOp>& ops);
  double put_ns(const Move& move);
  double spared_by_put_ns(int peer, double bytes) const;
  double lower_part(const std::vector<Move>& moves, std::size_t chunk, std::vector<LoweredOp>& ops);
  void add(const Move& move, std::vector<LoweredOp>& ops);
  void add_work(double ns, std::vector<LoweredOp>& ops) const;
  void add_read(int source, const Area& area, double bytes, bool combine, std::vector<LoweredOp>& ops);
  void set_source(int source, double bytes, bool staged, double alone_ns, LoweredOp& op) const;
  void add_send(int peer, const Area& area, std::vector<LoweredOp>& ops);
  void add_receive(int source, double bytes, bool combine, std::vector<LoweredOp>& ops);
  double bytes_of(const Area& area) const;
  double own_copy_ns(double bytes);
  double transfer_ns(int from, int to, double bytes, bool staged, bool combine);
  double reclaim_ns(double bytes, bool combine) const;
  double left_in_cache() const;
  double reread_ns(std::optional<double> share, int reader, int owner, double bytes) const;
  int messages_at_once(const Area& area) const;
  double stream_ns(int from, int to, double bytes, int messages) const;
  bool lends(double bytes) const;
  template <class Cost>
  double part_ns(double bytes, Cost cost) const;

  const Machine& machine_;
  const Group& group_;
  RankCosts costs_;
  Reach reach_;
  int pus_ = 1;      ///< that have ranks
  int copiers_ = 1;  ///< at the same time
  int sharers_ = 1;  ///< ranks on the fullest PU
  bool crowded_ = false;
  // State of the request.
  const ScheduleRequest* request_ = nullptr;
  Operation operation_ = Operation::broadcast;
  bool rank_blocks_ = false;
  std::size_t length_ = 0, element_bytes_ = 1;
  double whole_bytes_ = 0.0;   ///< of a buffer
  double cached_bytes_ = 0.0;  ///< of such buffers of all ranks of a PU, which share its caches
  // State of the rank.
  Schedule schedule_;
  Chunking cutting_;
  int rank_ = 0;
  bool cut_ = false;          ///< there are several chunks
  std::size_t elements_ = 0;  ///< of the chunk
  Area just_read_;            ///< part of this chunk that the rank has just read
  LoweredProgram* program_ = nullptr;
  struct CopyCost {
    double bytes = -1.0, ns = 0.0;
  };
  CopyCost known_whole_, known_part_;  ///< cached costs of the last copy within the rank's memory
};

}  // namespace smelt::plan
