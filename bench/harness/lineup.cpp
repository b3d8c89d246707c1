#include "harness/lineup.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"

namespace smelt::bench {
namespace {

enum class Launch { direct, openmpi, mpich };

struct Peer {
  const char* name;
  const char* program;  ///< file in the directory of peers
  bool for_channel;     ///< else for the collectives
  Launch launch;
  const char* packages;  ///< of Debian, needed to build it
};

constexpr Peer peers[] = {
    {"pthread", "pthread", false, Launch::direct, "libc6-dev"},
    {"std-barrier", "std-barrier", false, Launch::direct, "libstdc++-12-dev"},
    {"gomp", "gomp", false, Launch::direct, "g++"},
    {"libomp", "libomp", false, Launch::direct, "clang-14 libomp-14-dev"},
    {"ck-dissemination", "ck", false, Launch::direct, "libck-dev"},
    {"ck-mcs", "ck", false, Launch::direct, "libck-dev"},
    {"ck-tournament", "ck", false, Launch::direct, "libck-dev"},
    {"ck-centralized", "ck", false, Launch::direct, "libck-dev"},
    {"ck-combining", "ck", false, Launch::direct, "libck-dev"},
    {"openmpi", "openmpi", false, Launch::openmpi, "libopenmpi-dev openmpi-bin"},
    {"mpich", "mpich", false, Launch::mpich, "libmpich-dev mpich"},
    {"boost-spsc", "boost-spsc", true, Launch::direct, "libboost-dev"},
    {"moodycamel-spsc", "moodycamel-spsc", true, Launch::direct, "libreaderwriterqueue-dev"},
    {"moodycamel-concurrent", "moodycamel-concurrent", true, Launch::direct, "libconcurrentqueue-dev"},
    {"tbb-bounded", "tbb-bounded", true, Launch::direct, "libtbb-dev"},
};

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
    if (tree != "best") names.push_back("smelt/" + tree);  // `best` is what `smelt` stands for
  }
  if (operation == "barrier") append(names, {"smelt/flat"});
  return names;
}

}  // namespace

const std::vector<std::string>& benchmarks() {
  static const std::vector<std::string> names = {"barrier",   "broadcast",        "reduce",
                                                 "allreduce", "two-phase-commit", "channel"};
  return names;
}

Lineup line_up(const WorkerSpec& team, const std::vector<std::string>& trees, const std::string& program,
               const std::vector<std::string>& only) {
  const auto wanted = [&only](const std::string& name) {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
  };
  const auto named = [&team](const std::string& name) {
    WorkerSpec spec = team;
    spec.name = name;
    return spec;
  };

  Lineup lineup;
  lineup.contestants.push_back(own(program, named(floor_name)));
  for (const auto& name : own_names(team.operation, trees)) {
    if (wanted(name)) lineup.contestants.push_back(own(program, named(name)));
  }
  const auto directory = std::filesystem::path(program).parent_path().parent_path() / "libexec/smelt/peers";
  for (const Peer& peer : peers) {
    if (peer.for_channel != (team.operation == "channel") || !wanted(peer.name)) continue;
    const std::string file = (directory / peer.program).string();
    const bool launcher = (peer.launch != Launch::openmpi || in_path("mpirun.openmpi")) &&
                          (peer.launch != Launch::mpich || in_path("mpirun.mpich"));
    if (access(file.c_str(), X_OK) == 0 && launcher) {
      lineup.contestants.push_back(launched(peer, file, named(peer.name)));
    } else {
      lineup.absent.push_back({peer.name, fmt::format("not installed (Debian: {})", peer.packages)});
    }
  }
  return lineup;
}

}  // namespace smelt::bench
