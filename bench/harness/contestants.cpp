#include "harness/contestants.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"

namespace smelt::bench {
namespace {

enum class Launch { direct, openmpi, mpich };

/// What a peer can do.
enum class Serves { collectives, broadcast, allreduce, channel };

struct Peer {
  const char* name;
  const char* program;  ///< file in the directory of peers
  Serves serves;
  Launch launch;
  const char* packages;  ///< of Debian, needed to build it
};

constexpr Peer peers[] = {
    {"memcpy", "bandwidth", Serves::broadcast, Launch::direct, "g++"},
    {"vector-add", "bandwidth", Serves::allreduce, Launch::direct, "g++"},
    {"pthread", "pthread", Serves::collectives, Launch::direct, "libc6-dev"},
    {"std-barrier", "std-barrier", Serves::collectives, Launch::direct, "libstdc++-12-dev"},
    {"gomp", "gomp", Serves::collectives, Launch::direct, "g++"},
    {"libomp", "libomp", Serves::collectives, Launch::direct, "clang-14 libomp-14-dev"},
    {"ck-dissemination", "ck", Serves::collectives, Launch::direct, "libck-dev"},
    {"ck-mcs", "ck", Serves::collectives, Launch::direct, "libck-dev"},
    {"ck-tournament", "ck", Serves::collectives, Launch::direct, "libck-dev"},
    {"ck-centralized", "ck", Serves::collectives, Launch::direct, "libck-dev"},
    {"ck-combining", "ck", Serves::collectives, Launch::direct, "libck-dev"},
    {"openmpi", "openmpi", Serves::collectives, Launch::openmpi, "libopenmpi-dev openmpi-bin"},
    {"mpich", "mpich", Serves::collectives, Launch::mpich, "libmpich-dev mpich"},
    {"boost-spsc", "boost-spsc", Serves::channel, Launch::direct, "libboost-dev"},
    {"moodycamel-spsc", "moodycamel-spsc", Serves::channel, Launch::direct, "libreaderwriterqueue-dev"},
    {"moodycamel-concurrent", "moodycamel-concurrent", Serves::channel, Launch::direct, "libconcurrentqueue-dev"},
    {"tbb-bounded", "tbb-bounded", Serves::channel, Launch::direct, "libtbb-dev"},
};

/// Among ranks that are processes, those of MPI; the references are threads then too, and say how fast
/// the memory is.
bool takes_part(const Peer& peer, const WorkerSpec& team) {
  switch (peer.serves) {
    case Serves::broadcast: return team.operation == "broadcast";
    case Serves::allreduce: return team.operation == "allreduce";
    case Serves::channel: return team.operation == "channel";
    case Serves::collectives: return team.operation != "channel" && (!team.processes || peer.launch != Launch::direct);
  }
  return false;
}

bool in_path(const std::string& program) {
  const char* path = getenv("PATH");
  std::string directories = path != nullptr ? path : "";
  for (std::size_t at = 0; at <= directories.size();) {
    const std::size_t colon = std::min(directories.find(':', at), directories.size());
    if (access((directories.substr(at, colon - at) + "/" + program).c_str(), X_OK) == 0) return true;
    at = colon + 1;
  }
  return false;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Both launchers leave pinning to the harness; with more ranks than PUs the ranks are told to
/// yield, which both recommend for that case. Their files go where the parent removes them.
Contestant launched(const Peer& peer, const std::string& program, const WorkerSpec& spec) {
  Contestant contestant;
  contestant.name = peer.name;
  const std::string ranks = std::to_string(spec.threads);
  if (peer.launch == Launch::openmpi) {
    contestant.argv = {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", ranks};
    contestant.environment = {"TMPDIR={scratch}", "OMPI_MCA_btl_vader_backing_directory={scratch}",
                              "OMPI_MCA_btl=self,vader",
                              std::string("OMPI_MCA_mpi_yield_when_idle=") + (spec.oversubscribed() ? "1" : "0")};
  } else if (peer.launch == Launch::mpich) {
    contestant.argv = {"mpirun.mpich", "-n", ranks};
    contestant.environment = {"TMPDIR={scratch}"};
    if (spec.oversubscribed()) contestant.environment.push_back("MPIR_CVAR_POLLS_BEFORE_YIELD=1");
  }
  contestant.argv.push_back(program);
  append(contestant.argv, worker_arguments(spec));
  return contestant;
}

Contestant own(const std::string& program, const WorkerSpec& spec) {
  Contestant contestant{spec.name, {program, "bench", "--worker"}, {}};
  append(contestant.argv, worker_arguments(spec));
  return contestant;
}

std::vector<std::string> own_names(const std::string& operation, const std::vector<std::string>& trees) {
  std::vector<std::string> names = {"smelt"};
  if (operation == "channel") {
    append(names, {"smelt/ump", "smelt/fastforward", flag_name});
    return names;
  }
  for (const auto& tree : trees) {
    if (tree != "best" && runs_along_trees(operation)) names.push_back("smelt/" + tree);  // `smelt` stands for `best`
  }
  if (operation == "barrier") append(names, {"smelt/flat"});
  return names;
}

}  // namespace

const std::vector<std::string>& benchmarks() {
  static const std::vector<std::string> names = {"barrier", "broadcast",        "reduce",   "allreduce",      "scatter",
                                                 "gather",  "allgather",        "alltoall", "reduce-scatter", "scan",
                                                 "exscan",  "two-phase-commit", "channel"};
  return names;
}

bool runs_along_trees(const std::string& operation) {
  static const std::vector<std::string> names = {"barrier", "broadcast", "reduce", "allreduce", "two-phase-commit"};
  return std::find(names.begin(), names.end(), operation) != names.end();
}

bool names_variant(const std::string& name, const std::string& operation) {
  if (operation == "channel") return false;
  std::string algorithm = "smelt/" + operation + "_";
  std::replace(algorithm.begin(), algorithm.end(), '-', '_');
  return name == "smelt/loose" || name == "smelt/strict" || name == "smelt/late" || name.starts_with(algorithm);
}

ContestantList list_contestants(const WorkerSpec& team, const std::vector<std::string>& trees,
                                const std::string& program, const std::vector<std::string>& only) {
  const auto wanted = [&only](const std::string& name) {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
  };
  const auto named = [&team](const std::string& name) {
    WorkerSpec spec = team;
    spec.name = name;
    return spec;
  };

  ContestantList contestant_list;
  contestant_list.contestants.push_back(own(program, named(floor_name)));
  std::vector<std::string> mine = own_names(team.operation, trees);
  for (const auto& name : only) {
    const bool known = std::find(mine.begin(), mine.end(), name) != mine.end();
    if (!known && names_variant(name, team.operation)) mine.push_back(name);
  }
  for (const auto& name : mine) {
    if (wanted(name)) contestant_list.contestants.push_back(own(program, named(name)));
  }
  const auto directory = std::filesystem::path(program).parent_path().parent_path() / "libexec/smelt/peers";
  for (const Peer& peer : peers) {
    if (!takes_part(peer, team) || !wanted(peer.name)) continue;
    const std::string file = (directory / peer.program).string();
    const bool launcher = (peer.launch != Launch::openmpi || in_path("mpirun.openmpi")) &&
                          (peer.launch != Launch::mpich || in_path("mpirun.mpich"));
    if (access(file.c_str(), X_OK) == 0 && launcher) {
      contestant_list.contestants.push_back(launched(peer, file, named(peer.name)));
    } else {
      contestant_list.absent.push_back({peer.name, fmt::format("not installed (Debian: {})", peer.packages)});
    }
  }
  return contestant_list;
}

}  // namespace smelt::bench
