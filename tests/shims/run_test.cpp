// `smelt run` as a user calls it: what it finds, what it starts, what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "../cli/call.hpp"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string barrier_program = SMELT_BARRIER_PROGRAM;
const std::string clustering_program = SMELT_CLUSTERING_PROGRAM;
const std::string static_program = SMELT_STATIC_PROGRAM;
const std::string library = SMELT_PTHREAD_LIBRARY;

std::string executable(const std::string& name, const std::string& content, mode_t mode = 0755) {
  const auto file = scratch_file(name, content);
  chmod(file.c_str(), mode);
  return file;
}

Json runtime(const Call& call, const std::string& name) {
  const Json document = call.json();
  for (const auto& each : document["libraries"]) {
    if (each["runtime"] == name) return each;
  }
  ADD_FAILURE() << name << " is not in " << call.out;
  return {};
}

void expect_refusal(const Words& words, int exit_code, const std::string& says) {
  Words all = {"run"};
  all.insert(all.end(), words.begin(), words.end());
  const auto call = smelt(all);
  EXPECT_EQ(call.exit_code, exit_code) << call.err;
  EXPECT_EQ(call.out, "");
  EXPECT_THAT(call.err, testing::StartsWith("smelt: run: "));
  EXPECT_THAT(call.err, HasSubstr(says));
  EXPECT_EQ(std::count(call.err.begin(), call.err.end(), '\n'), 1) << call.err;
}

TEST(Run, TakesTheBarriersOver) {
  const auto call = smelt({"run", barrier_program, "2", "0.05"}, "", {"SMELT_VERBOSE=1"});
  EXPECT_EQ(call.exit_code, 0) << call.err;
  EXPECT_EQ(call.json()["threads"], 2);
  EXPECT_THAT(call.err, HasSubstr("run: preloads " + library));
  EXPECT_THAT(call.err, HasSubstr("pthread_barrier_wait: taken over "));
}

TEST(Run, MemoryIsPlacedOnRequest) {
  const auto without = smelt({"run", "--json", barrier_program});
  EXPECT_EQ(runtime(without, "memory")["preload"], false);
  const auto with = smelt({"run", "--memory", "--json", barrier_program});
  EXPECT_EQ(runtime(with, "memory")["preload"], true);
  EXPECT_THAT(with.json()["LD_PRELOAD"].get<std::string>(), HasSubstr("libsmelt_memory.so"));
  EXPECT_EQ(runtime(smelt({"run", "--memory=off", "--json", barrier_program}), "memory")["preload"], false);
  const auto unknown = smelt({"run", "--memory=hug", barrier_program});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'huge'"));
  const auto mode_of = [](const std::string& option, const Words& environment) {
    return smelt({"run", option, "/bin/sh", "-c", "echo $SMELT_MEMORY"}, "", environment);
  };
  EXPECT_EQ(mode_of("--memory", {}).out, "auto\n");
  EXPECT_EQ(mode_of("--memory", {"SMELT_MEMORY=huge"}).out, "huge\n");
  EXPECT_EQ(mode_of("--memory=local", {"SMELT_MEMORY=huge"}).out, "local\n");
  EXPECT_THAT(mode_of("--memory", {"SMELT_MEMORY=hug"}).err, HasSubstr("SMELT_MEMORY=hug: no such mode"));
  const auto call = mode_of("--memory=huge", {"SMELT_VERBOSE=1"});
  EXPECT_EQ(call.exit_code, 0) << call.err;
  EXPECT_EQ(call.out, "huge\n");
  EXPECT_THAT(call.err, HasSubstr("libsmelt_memory.so: --memory=huge"));
  // /bin/sh has no large allocation to report, and ends by _exit().
  EXPECT_THAT(call.err, Not(HasSubstr("smelt: memory in process ")));
  const Words dense = {"run", "--memory=huge", SMELT_MEMORY_PROGRAM, "--gtest_filter=Memory.DenseAllocations*"};
  const auto large = smelt(dense, "", {"SMELT_VERBOSE=1"});
  EXPECT_EQ(large.exit_code, 0) << large.err;
  EXPECT_THAT(large.err, HasSubstr("smelt: memory in process "));
}

TEST(Run, TellsProcessesOfMpiTheHardware) {
  const Words command = {"/bin/sh", "-c", "echo $SMELT_HARDWARE ${HWLOC_PLUGINS_PATH-no path}"};
  const auto run = [&](Words options, const Words& environment = {}) {
    options.insert(options.begin(), "run");
    options.insert(options.end(), command.begin(), command.end());
    return smelt(options, "", environment).out;
  };
  if (access("/sys/devices/system/cpu/online", R_OK) == 0 && access("/proc/sys/kernel/random/boot_id", R_OK) == 0) {
    const std::string hardware = run({});
    EXPECT_THAT(hardware, testing::MatchesRegex("[0-9a-f]{16}@[0-9a-f]{16}@[0-9a-f]{16} no path\n"));
    EXPECT_EQ(run({}, {"SMELT_HARDWARE=of a former start"}), hardware);
  }
  // A machine that has not been measured is kept for them, once.
  const std::string cache = scratch() + "/kept", empty = "SMELT_CACHE_DIR=" + cache;
  std::filesystem::create_directory(cache);
  const auto kept = [&] {
    return std::distance(std::filesystem::directory_iterator(cache), std::filesystem::directory_iterator());
  };
  run({"--without", "mpi"}, {empty});
  EXPECT_EQ(kept(), 0);
  for (int i = 0; i < 2; ++i) {
    const std::string note = run({}, {empty});
    EXPECT_EQ(kept(), note.find('@') == std::string::npos ? 0 : 1);
  }
  EXPECT_THAT(run({}, {"HWLOC_PLUGINS_PATH=/there"}), testing::EndsWith(" /there\n"));
  EXPECT_EQ(run({"--without", "mpi"}), "no path\n");
}

TEST(Run, TellsProcessesOfMpiWhetherItStartsEachOfThem) {
  const auto ranks = [](const Words& environment) {
    return smelt({"run", "/bin/sh", "-c", "echo ${SMELT_MPI_RANKS-not told}"}, "", environment).out;
  };
  EXPECT_EQ(ranks({}), "here\n");
  EXPECT_EQ(ranks({"SMELT_MPI_RANKS=all"}), "all\n");
  for (const char* rank : {"PMI_RANK=0", "PMIX_RANK=1", "OMPI_COMM_WORLD_RANK=0"}) {
    EXPECT_EQ(ranks({rank}), "not told\n") << rank;
    EXPECT_EQ(ranks({rank, "SMELT_MPI_RANKS=here"}), "not told\n") << "the launcher was started under smelt, too";
    EXPECT_EQ(ranks({rank, "SMELT_MPI_RANKS=all"}), "all\n");
  }
  EXPECT_EQ(smelt({"run", "--without", "mpi", "/bin/sh", "-c", "echo ${SMELT_MPI_RANKS-not told}"}).out, "not told\n");
}

TEST(Run, IsSilentByDefault) {
  const auto call = smelt({"run", "--", barrier_program, "2", "0.05"});
  EXPECT_EQ(call.exit_code, 0);
  EXPECT_EQ(call.err, "");
}

TEST(Run, SameClustersToTheBit) {
  const Words arguments = {clustering_program, "--points", "1500", "--chunk", "100", "--dimensions", "8"};
  std::string clusters;
  for (const char* threads : {"1", "2", "5"}) {
    for (const bool with : {false, true}) {
      Words words = {"run"};
      if (!with) words.insert(words.end(), {"--without", "pthread"});
      words.insert(words.end(), arguments.begin(), arguments.end());
      words.insert(words.end(), {"--threads", threads});
      const auto call = smelt(words);
      ASSERT_EQ(call.exit_code, 0) << call.err;
      const auto found = call.out.substr(0, call.out.find(", cost"));
      if (clusters.empty()) clusters = found;
      EXPECT_EQ(found, clusters) << threads << " threads" << (with ? " with smelt" : "");
    }
  }
}

TEST(Run, ExplainsWithoutStarting) {
  const auto call = smelt({"run", "--json", barrier_program, "no number"});
  EXPECT_EQ(call.exit_code, 0) << call.err;
  EXPECT_EQ(runtime(call, "pthread")["preload"], true);
  EXPECT_THAT(runtime(call, "pthread")["because"].get<std::string>(), HasSubstr("pthread_barrier_wait"));
  EXPECT_EQ(runtime(call, "mpi")["preload"], false);
  EXPECT_EQ(call.json()["LD_PRELOAD"], library);
  EXPECT_THAT(smelt({"run", "--explain", barrier_program}).out, HasSubstr("smelt"));
}

TEST(Run, LeavesOthersAlone) {
  const auto call = smelt({"run", "--json", "/bin/true"});
  EXPECT_EQ(call.json()["LD_PRELOAD"], "");
  EXPECT_EQ(smelt({"run", "/bin/true"}).exit_code, 0);
}

TEST(Run, ChoosesByName) {
  EXPECT_EQ(smelt({"run", "--without", "pthread", "--json", barrier_program}).json()["LD_PRELOAD"], "");
  EXPECT_EQ(smelt({"run", "--only", "openmp,mpi", "--without", "openmp,mpich", "--json", barrier_program})
                .json()["LD_PRELOAD"],
            "");
  EXPECT_EQ(smelt({"run", "--only", "pthread", "--json", "/bin/true"}).json()["LD_PRELOAD"], library);
  expect_refusal({"--only", "pthraed", barrier_program}, 2, "did you mean 'pthread'?");
}

TEST(Run, KeepsExistingPreloads) {
  const auto call = smelt({"run", "--json", barrier_program}, "", {"LD_PRELOAD=libm.so.6"});
  EXPECT_EQ(call.json()["LD_PRELOAD"], "libm.so.6:" + library);
  const auto again = smelt({"run", "--json", barrier_program}, "", {"LD_PRELOAD=" + library});
  EXPECT_EQ(again.json()["LD_PRELOAD"], library);
}

TEST(Run, IsTheProgramFromThenOn) {
  EXPECT_EQ(smelt({"run", "sh", "-c", "exit 7"}).exit_code, 7);
  EXPECT_EQ(smelt({"run", "sh", "-c", "kill -TERM $$"}).exit_code, 128 + 15);
  EXPECT_EQ(smelt({"run", "cat"}, "through and through").out, "through and through");
  EXPECT_EQ(smelt({"run", "echo", "--json", "--", "--help"}).out, "--json -- --help\n");
  EXPECT_EQ(smelt({"run", "--", "sh", "-c", "echo \"$1\"", "sh", "two words"}).out, "two words\n");
}

// The shell that writes to a closed pipe dies of the signal, as without smelt.
TEST(Run, HandsSignalDispositionsOn) {
  for (const std::string options : {"", "--"}) {  // before the command's parser is there, and by it
    const auto kill = "$SMELT run " + options + " sh -c 'kill -PIPE $$; echo survived'; echo $?";
    EXPECT_EQ(shell(kill).out, "141\n");
    EXPECT_EQ(shell("trap '' PIPE; " + kill).out, "survived\n0\n");
  }
}

TEST(Run, StartsTheSameWithOptionsAndWithout) {
  const auto show = "sh -c 'env | grep -v ^_= | sort; echo $0 $*' -- --explain 'a b'";
  const auto plain = shell(std::string("SMELT_WAIT=spin $SMELT run ") + show);
  EXPECT_EQ(plain.out, shell(std::string("SMELT_WAIT=spin $SMELT run -- ") + show).out);
  EXPECT_THAT(plain.out, HasSubstr("LD_PRELOAD=" + library));
  EXPECT_THAT(plain.out, HasSubstr("-- --explain a b\n"));
}

const std::string starts = SMELT_STARTS;

TEST(Run, LeavesForeignLoadersAndSanitizersAlone) {
  for (const char* kind : {"other_loader", "sanitized", "intercepting"}) {
    const auto call = smelt({"run", "--only", "pthread", starts + kind}, "", {"SMELT_VERBOSE=1"});
    EXPECT_EQ(call.out, "nothing\n") << kind;
    EXPECT_THAT(call.err, HasSubstr("run: preloads nothing: ")) << kind;
  }
}

// Whoever starts them, and however.
TEST(Run, LeavesThemAloneInOtherPrograms) {
  for (const char* way : {"execve", "execv", "execl", "execle", "execvp", "execvpe", "execlp", "fexecve", "execveat",
                          "posix_spawn", "posix_spawnp", "system", "vfork"}) {
    const auto started = [&](const std::string& kind, const Words& environment = {}) {
      return smelt({"run", "--only", "pthread,openmp", starts + "plain", way, starts + kind}, "", environment);
    };
    EXPECT_THAT(started("plain").out, testing::StartsWith(library)) << way;
    for (const char* kind : {"other_loader", "sanitized", "intercepting"}) {
      EXPECT_EQ(started(kind).out, "nothing\n") << way << " " << kind;
      EXPECT_EQ(started(kind, {"LD_PRELOAD=libm.so.6"}).out, "libm.so.6\n") << way << " " << kind;
    }
    const bool spawns = std::string(way).rfind("posix_spawn", 0) == 0;  // the error is the exit code
    EXPECT_EQ(started("which_is_not_there").exit_code, spawns ? ENOENT : 127) << way;
  }
}

// As behind chroot.
TEST(Run, LeavesProgramsAloneThatCannotReadIt) {
  const auto copy = std::filesystem::path(scratch_file("place", "")).parent_path() / "libsmelt_pthread.so";
  std::filesystem::copy_file(library, copy);
  const Words words = {"run", "--only", "pthread",
                       "sh",  "-c",     starts + "plain; rm " + copy.string() + "; " + starts + "plain"};
  const auto call = smelt(words, "", {"LD_PRELOAD=" + copy.string()});
  EXPECT_EQ(call.out, copy.string() + "\nnothing\n");
  EXPECT_EQ(call.err, "");
}

TEST(Run, LeavesThemAloneInScripts) {
  const auto script = executable("starts", "#!/bin/sh\n" + starts + "sanitized\n" + starts + "plain\n");
  EXPECT_THAT(smelt({"run", script}).out, testing::StartsWith("nothing\n" + library));
  const auto indirect = executable("indirect", "#! " + starts + "sanitized\n");
  EXPECT_EQ(smelt({"run", starts + "plain", "execv", indirect}).out, "nothing\n");
}

TEST(Run, FollowsScriptsToTheirInterpreter) {
  const auto script = executable("script", "#!/bin/sh\necho \"$0 $1\"\n");
  EXPECT_EQ(smelt({"run", script, "word"}).out, script + " word\n");
  const auto call = smelt({"run", "--json", script});
  EXPECT_THAT(call.json()["programs"], ElementsAre("/bin/sh"));
  EXPECT_EQ(call.json()["loads_later"], true);
  EXPECT_EQ(call.json()["LD_PRELOAD"].get<std::string>().rfind(library, 0), 0u);
  EXPECT_EQ(smelt({"run", executable("plain", "echo plain\n")}).out, "plain\n");
  expect_refusal({executable("broken", "#!/no/such/interpreter\n")}, 126, "/no/such/interpreter, which is not there");
  // `env -S` splits the rest of the line, which is one word for the kernel.
  const auto splitting = executable("splitting", "#!/usr/bin/env -S sh -e\necho \"$0 $1 $-\"\n");
  EXPECT_EQ(smelt({"run", splitting, "word"}).out, splitting + " word e\n");
  EXPECT_THAT(smelt({"run", "--json", splitting}).json()["programs"], ElementsAre(testing::EndsWith("/sh")));
  const auto itself = scratch() + "/itself";
  executable("itself", "#!" + itself + "\n");
  expect_refusal({itself}, 126, "without an end");
}

TEST(Run, LooksThroughLaunchers) {
  for (const Words& launcher : {Words{"env", "A=b"}, Words{"nice", "-n", "1"}, Words{"timeout", "10"},
                                Words{"env", "nice", "-n", "1"}, Words{"taskset", "-c", "0"}}) {
    Words words = {"run", "--json"};
    words.insert(words.end(), launcher.begin(), launcher.end());
    words.push_back(barrier_program);
    EXPECT_THAT(smelt(words).json()["programs"], ElementsAre(barrier_program)) << launcher.front();
  }
}

/// A copy of a file, executable, under a name that makes it something else.
std::string disguised(const std::string& file, const std::string& name) {
  const auto copy = executable(name, "");
  std::ifstream in(file, std::ios::binary);
  std::ofstream(copy, std::ios::binary) << in.rdbuf();
  return copy;
}

TEST(Run, FindsPrivateRuntimesOfWheels) {
  ASSERT_EQ(std::system(("mkdir -p " + scratch() + "/site/package.libs").c_str()), 0);
  const auto private_library = scratch_file("site/package.libs/libgomp-a34b3233.so.1.0.0", "");
  const auto python = disguised("/bin/true", "python3");
  const auto call = smelt({"run", "--json", python}, "", {"PYTHONPATH=" + scratch() + "/site"});
  const auto notes = call.json()["notes"].get<std::vector<std::string>>();
  EXPECT_THAT(notes, testing::Contains(HasSubstr(private_library)));
}

#ifdef SMELT_MPI_LIBRARY
TEST(Run, RecognizesMpiByItsCalls) {
#ifdef SMELT_MPI_PROGRAM
  const auto call = smelt({"run", "--json", "mpirun", "-n", "2", SMELT_MPI_PROGRAM});
  EXPECT_EQ(runtime(call, "mpi")["preload"], true);
  EXPECT_THAT(runtime(call, "mpi")["because"].get<std::string>(), HasSubstr(SMELT_MPI_PROGRAM " calls MPI_"));
#endif
  // What an interpreter loads is not known: the library does nothing where there is no MPI.
  const auto python = disguised("/bin/true", "python3");
  EXPECT_EQ(runtime(smelt({"run", "--json", python, "app.py"}), "mpi")["preload"], true);
  EXPECT_EQ(smelt({"run", "--only", "openmpi", "--json", "/bin/true"}).json()["LD_PRELOAD"], SMELT_MPI_LIBRARY);
}
#endif

TEST(Run, RefusesFilesThatCannotRun) {
  expect_refusal({"no-such-program"}, 127, "no such program on the PATH");
  expect_refusal({"./no-such-program"}, 127, "no such program");
  expect_refusal({scratch()}, 126, "is a directory");
  expect_refusal({executable("locked", "#!/bin/sh\n", 0644)}, 126, "chmod +x");
  expect_refusal({static_program}, 126, "statically linked");
  expect_refusal({"env", static_program}, 126, "statically linked");
  expect_refusal({library}, 126, "is a library");
  expect_refusal({}, 2, "run what?");
  expect_refusal({"--nothing", "/bin/true"}, 2, "not understood");
}

TEST(Run, RefusesOtherArchitectures) {
  std::string header(64, '\0');
  header.replace(0, 7,
                 "\x7f"
                 "ELF\x02\x01\x01",
                 7);
  header[16] = 2;       // ET_EXEC
  header[18] = '\xf3';  // RISC-V
  header[52] = 64;
  expect_refusal({executable("foreign", header)}, 126, "is for RISC-V");
}

// Whatever the bytes, an answer: files are read within their bounds.
TEST(Run, SurvivesBrokenFiles) {
  std::ifstream in(barrier_program, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  for (const std::size_t size : {5u, 63u, 64u, 100u, 400u, 900u, 3000u}) {
    const auto call = smelt({"run", "--json", executable("cut", whole.substr(0, size))});
    EXPECT_LT(call.exit_code, 128) << size << call.err;
  }
  unsigned state = 1;
  for (int i = 0; i < 40; ++i) {
    std::string damaged = whole;
    for (int j = 0; j < 30; ++j) {
      state = state * 1664525u + 1013904223u;
      damaged[4 + (state >> 8) % 1500] = static_cast<char>(state >> 20);
    }
    const auto call = smelt({"run", "--json", executable("damaged", damaged)});
    EXPECT_LT(call.exit_code, 128) << i << call.err;
  }
}

}  // namespace
