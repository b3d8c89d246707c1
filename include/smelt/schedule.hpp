// Schedules: the moves of every rank in a collective operation, for messages of any size.
//
// A Schedule is a list of moves over blocks of buffers. It does not depend on the length of the blocks; the
// communicator or the simulator that runs it resolves blocks to bytes.
//
//   begin            once
//   body             once per chunk; all blocks are confined to their piece number `chunk`
//   tail             instead of `body` for the last chunks: `tail_chunks`, but at most half of all
//   end              once
//
// Blocks.  Operations on a vector (broadcast, reduce, allreduce, scan, exscan) have one vector in
// each buffer, divided into `slices` blocks; a chunk is a range of the vector and is divided into slices itself.
// The other operations have one block per rank, each of which is divided into chunks.
//
// Synchronization.  Every rank has a tick that never decreases. Within a chunk, `post` gives it the values 1 ..
// ticks-1; it has the value `ticks` when the rank has finished the chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt {

enum class Buffer : std::uint8_t {
  none,
  in,     ///< the caller's input
  out,    ///< the caller's result; broadcast: the data
  work,   ///< scratch memory of this rank, holds one chunk
  stage,  ///< the rank's part of shared memory that others can read, holds one chunk per slot
};

/// Blocks first .. first+count-1 of a buffer.
struct Area {
  Buffer buffer = Buffer::none;
  int first = 0;
  int count = 0;

  bool operator==(const Area&) const = default;
};

/// Whether both ends of a get or a put copy the data, each the parts that it takes first.
enum class Share : std::uint8_t {
  none,   ///< one end copies everything
  leads,  ///< this end begins; at the end it waits for the other's tick, if that has copied anything
  helps,  ///< this end copies parts that the other has not taken yet, possibly none
};

struct Move {
  enum class Kind : std::uint8_t {
    send,              ///< `from` to `peer`; the buffer may still be read until `flush`
    recv,              ///< from `source` into `to`
    recv_combine,      ///< to = with (op) received
    exchange,          ///< send and recv at the same time
    exchange_combine,  ///< send and recv_combine at the same time
    get,               ///< copies `from`, a buffer of `source`, into `to`
    get_combine,       ///< to = with (op) `from`, a buffer of `source`
    put,               ///< copies `from` into `to`, a buffer of `peer`
    copy,              ///< own `from` into `to`
    combine,           ///< to = with (op) own `from`
    post,              ///< own tick becomes `tick`
    await,             ///< until the tick of `source` has reached `tick` of this chunk
    await_body,        ///< until `source` is done with all chunks before the tail
    flush,             ///< until everything sent has been read
  };
  Kind kind = Kind::flush;
  bool theirs_first = false;  ///< in combinations: received (op) with
  Share share = Share::none;  ///< of get and put
  int peer = -1;              ///< target rank of the data
  int source = -1;            ///< source rank of the data
  int readers = 1;            ///< await: ranks that wait for this tick at the same time
  int tick = 0;               ///< post and await; Share::leads: tick of the other end after it has helped
  Area from{}, with{}, to{};

  bool operator==(const Move&) const = default;
};

/// The moves of one rank.
struct Schedule {
  std::vector<Move> begin, body, tail, end;
  int tail_chunks = 0;     ///< chunks for which `tail` is used
  int slices = 1;          ///< blocks of a vector
  int work_blocks = 0;     ///< blocks of Buffer::work; with several slices, a multiple: one vector after another
  int stage_blocks = 0;    ///< blocks of Buffer::stage, per chunk; the same for all ranks
  int ticks = 0;           ///< per chunk, the same for all ranks; 0: ticks are not used
  bool publishes = false;  ///< other ranks access `in` and `out` of this operation
  std::vector<int> stage_readers;  ///< ranks that read this rank's stage; none: it is not filled

  bool operator==(const Schedule&) const = default;
};

/// How data is moved between ranks.
enum class Access : std::uint8_t {
  channels,  ///< line by line through channels
  staged,    ///< through the stages, one copy in and one copy out
  direct,    ///< directly between the callers' buffers: threads of a process, or process_vm_readv
};
/// "channels", "staged", "direct".
const char* to_string(Access access) noexcept;

/// An algorithm with its parameters. Text form, in profiles and on the command line:
/// "allreduce_ring", "broadcast_tree+direct+tree=k-nomial:4+chunk=65536".
struct Recipe {
  std::string algorithm{};
  Access access = Access::channels;
  std::string tree{};           ///< for algorithms on trees: name of a topology; empty: the planned tree
  std::size_t chunk_bytes = 0;  ///< of a vector, or of each block; 0: one chunk

  bool operator==(const Recipe&) const = default;
};
/// The text form, which parse_recipe reads back. Errors there: unknown names, and parameters that the algorithm
/// does not have.
std::string to_string(const Recipe& recipe);
/// Parses the text of to_string. Missing parameters have their defaults.
Result<Recipe> parse_recipe(std::string_view text);

struct AlgorithmInfo {
  std::string name{};  ///< <operation>_<algorithm>
  Operation operation = Operation::broadcast;
  std::string description{};
  std::vector<Access> access{};
  bool keeps_rank_order = true;  ///< combines in rank order, as operators that do not commute require
  bool canonical_order = false;  ///< combines as ((0 op 1) op 2) op ..., for all parameters
  bool power_of_two = false;     ///< requires a power of two as group size
  bool uses_tree = false;
  bool pipelined = false;        ///< takes a chunk size
  bool stages = false;           ///< uses stages with every access: elements must not be larger than a slot
  bool irregular = false;        ///< works if only the two ends of a message know its size
  bool irregular_pairs = false;  ///< works between two ranks, which both know all sizes
};

/// Every algorithm, by operation.
const std::vector<AlgorithmInfo>& algorithms();

/// Whether bytes are counted per rank (scatter, gather, allgather, alltoall, reduce_scatter) or for a vector.
bool has_rank_blocks(Operation operation) noexcept;

/// Everything that a schedule depends on, except the rank.
struct ScheduleRequest {
  Recipe recipe{};
  int ranks = 1;
  int root = 0;
  Tree tree{};                 ///< rooted at `root`; for algorithms on trees
  std::vector<int> parents{};  ///< of the tree
  std::vector<int> domains{};  ///< per rank: its cache domain; for hybrid algorithms
};

/// Completes a request from a machine and a group: the tree that the recipe names, rooted at `root`, and
/// the domains. `start_ns`, if not empty, is when each rank enters, for which the planned tree is made.
/// Errors: unknown algorithm or tree, access or group size that it does not have.
Result<ScheduleRequest> make_request(const Machine& machine, const Group& group, const Recipe& recipe, int root = 0,
                                     std::span<const double> start_ns = {});

/// The schedule of `rank`. The request must come from make_request.
Schedule make_schedule(const ScheduleRequest& request, int rank);

/// Every recipe worth trying for an operation on `bytes` bytes (of the vector, or of each block), among those that
/// `access` allows. `in_rank_order`: only recipes for operators that do not commute.
std::vector<Recipe> candidate_recipes(Operation operation, int ranks, std::size_t bytes, std::span<const Access> access,
                                      bool in_rank_order = false);

/// How the memory of the ranks is connected.
struct Reach {
  std::size_t slot_bytes = 32 * 1024;  ///< size of a slot of a stage
  int slots = 8;                       ///< slots of a stage
  bool processes = false;              ///< direct access is process_vm_readv
  /// The callers' buffers were not written recently and are not read soon, so copies find them in memory like the
  /// rank's own data.
  bool at_rest = false;
};

struct ScheduleTimes {
  std::vector<double> finish_ns;  ///< per rank
  double total_ns = 0.0;          ///< maximum of finish_ns
};

/// Runs the schedules of all ranks against the model. `bytes` as in candidate_recipes, in elements of
/// `element_bytes`; `start_ns`, if not empty, is when each rank enters. Many chunks are extrapolated from the
/// first ones. Errors: a schedule that deadlocks.
Result<ScheduleTimes> simulate(const Machine& machine, const Group& group, const ScheduleRequest& request,
                               std::size_t bytes, std::size_t element_bytes = 1, const Reach& reach = {},
                               std::span<const double> start_ns = {});

/// A lower bound for all schedules on the model: the larger of two bounds.
struct ScheduleFloor {
  double message_ns = 0.0;   ///< the cheapest message, for the rank for which that is most expensive
  double work_ns = 0.0;      ///< necessary copies and combinations, in equal shares
  double moved_bytes = 0.0;  ///< between ranks, all together
  int pus = 0;               ///< PUs that share the work

  double total_ns() const noexcept { return message_ns < work_ns ? work_ns : message_ns; }
};

/// For `bytes` as in candidate_recipes. All 0 if there is nothing to do, or if all ranks are on one PU.
/// Requirements: the machine has costs. Cost: some n * n / 10 microseconds.
ScheduleFloor schedule_floor(const Machine& machine, const Group& group, Operation operation, std::size_t bytes,
                             int root = 0);

/// Whether two requests for the same ranks expand to the same schedule for `bytes` as in candidate_recipes: every rank
/// makes the same moves with the same pieces in the same way. Most trees of two ranks do.
bool same_schedule(const ScheduleRequest& a, const ScheduleRequest& b, std::size_t bytes, const Reach& reach = {});

struct RankedRecipe {
  Recipe recipe;
  double predicted_ns = 0.0;
};

/// The candidates by predicted time, best first.
Result<std::vector<RankedRecipe>> rank_recipes(const Machine& machine, const Group& group, Operation operation,
                                               std::size_t bytes, std::span<const Access> access,
                                               const Reach& reach = {}, int root = 0,
                                               std::span<const double> start_ns = {});

}  // namespace smelt
