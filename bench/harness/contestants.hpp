// Who takes part in a benchmark: smelt with every tree, the floor, and the peers on this machine.
#pragma once

#include <string>
#include <vector>

#include "harness/contest.hpp"
#include "harness/worker.hpp"

namespace smelt::bench {

/// The operations that can be benchmarked: barrier, broadcast, reduce, allreduce, scatter, gather,
/// allgather, alltoall, reduce-scatter, scan, exscan, two-phase-commit, channel.
const std::vector<std::string>& benchmarks();

struct ContestantList {
  std::vector<Contestant> contestants;
  std::vector<LeftOut> absent;  ///< peers that are not installed, with what to install
};

/// Whether smelt runs an operation along a tree that `trees` of list_contestants can choose.
bool runs_along_trees(const std::string& operation);

/// Whether a contestant's name is smelt with another synchronization ("smelt/loose", "smelt/strict"), planned for the
/// rank that is late ("smelt/late"), or looks like a recipe of the operation, such as "smelt/allreduce_ring". These
/// take part when they are asked for.
bool names_variant(const std::string& name, const std::string& operation);

/// Contestants for `team` (all of it but its name); of ranks that are processes, smelt and MPI.
/// `trees`: names out of topologies() that smelt is run with besides its own choice. `program`:
/// the smelt executable, which serves as worker for smelt's contestants and the floor
/// (`program bench --worker ...`, see run_smelt_worker); peers are looked for in
/// ../libexec/smelt/peers beside its directory. `only`: if not empty, the names to keep; the
/// floor always stays.
ContestantList list_contestants(const WorkerSpec& team, const std::vector<std::string>& trees,
                                const std::string& program, const std::vector<std::string>& only = {});

}  // namespace smelt::bench
