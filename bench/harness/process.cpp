#include "harness/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>

#include "base/error.hpp"

extern char** environ;

namespace smelt::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t longest_line = std::size_t{1} << 20;

volatile sig_atomic_t caught_signal = 0;
constexpr int interrupts[] = {SIGINT, SIGTERM, SIGHUP};
struct sigaction saved_interrupts[std::size(interrupts)], saved_pipe;

void close_fd(int& file) {
  if (file >= 0) close(file);
  file = -1;
}

/// Parent of a process by /proc, or 0.
pid_t parent_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');  // the name may hold anything
  int parent = 0;
  char state = 0;
  if (name_end == std::string::npos || std::sscanf(text.c_str() + name_end + 1, " %c %d", &state, &parent) != 2)
    return 0;
  return parent;
}

bool descends_from(pid_t pid, pid_t ancestor) {
  for (int depth = 0; depth < 16 && pid > 1; ++depth) {
    if (pid == ancestor) return true;
    pid = parent_of(pid);
  }
  return false;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& additions) {
  std::vector<std::string> merged = additions;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string key = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const auto& addition : additions) replaced |= addition.starts_with(key);
    if (!replaced) merged.push_back(text);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// In the child, after fork: only async-signal-safe calls.
[[noreturn]] void become(char** argv, char** environment, const int (&files)[3], pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGINT, SIGTERM, SIGPIPE}) ::signal(signal, SIG_DFL);
  for (int f = 0; f < 3; ++f) dup2(files[f], f);
  execvpe(argv[0], argv, environment);
  const char* reason = strerrorname_np(errno);
  dprintf(STDERR_FILENO, "cannot start %s: %s\n", argv[0], reason != nullptr ? reason : "unknown error");
  _exit(127);
}

}  // namespace

// ---------------------------------------------------------------- signals, scratch directory

SignalGuard::SignalGuard() {
  caught_signal = 0;
  struct sigaction note = {};
  note.sa_handler = [](int signal) { caught_signal = signal; };
  for (std::size_t i = 0; i < std::size(interrupts); ++i) {
    sigaction(interrupts[i], nullptr, &saved_interrupts[i]);
    // What is ignored stays so: under nohup, and in the background of scripts.
    if (saved_interrupts[i].sa_handler != SIG_IGN) sigaction(interrupts[i], &note, nullptr);
  }
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &saved_pipe);
}

SignalGuard::~SignalGuard() {
  for (std::size_t i = 0; i < std::size(interrupts); ++i) sigaction(interrupts[i], &saved_interrupts[i], nullptr);
  sigaction(SIGPIPE, &saved_pipe, nullptr);
  if (caught_signal != 0) raise(caught_signal);
}

bool SignalGuard::interrupted() noexcept { return caught_signal != 0; }

namespace {

constexpr std::string_view scratch_prefix = "smelt-bench-";

/// Directories of runs that were killed: smelt-bench-PID-XXXXXX of a process that is no more.
void sweep_scratch(const std::string& base) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(base, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(scratch_prefix)) continue;
    const int pid = std::atoi(name.c_str() + scratch_prefix.size());
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) std::filesystem::remove_all(entry.path(), ignored);
  }
}

}  // namespace

ScratchDirectory::ScratchDirectory() {
  for (const char* base : {"/dev/shm", "/tmp"}) {
    sweep_scratch(base);
    std::string name = fmt::format("{}/{}{}-XXXXXX", base, scratch_prefix, getpid());
    if (mkdtemp(name.data()) != nullptr) {
      path_ = name;
      return;
    }
  }
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

// ---------------------------------------------------------------- the process

Result<WorkerProcess> WorkerProcess::start(const Contestant& contestant) {
  WorkerProcess worker;
  int in[2] = {-1, -1};
  int out[2] = {-1, -1};
  worker.complaints_ = memfd_create("smelt-bench-stderr", MFD_CLOEXEC);
  const bool piped = pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0;
  worker.input_ = in[1];
  worker.output_ = out[0];
  std::vector<std::string> arguments = contestant.argv;
  std::vector<std::string> environment = merged_environment(contestant.environment);
  std::vector<char*> argv = pointers(arguments);
  std::vector<char*> envp = pointers(environment);
  const int files[3] = {in[0], out[1], worker.complaints_};
  const pid_t parent = getpid();
  if (piped && worker.complaints_ >= 0) {
    worker.pid_ = fork();
    if (worker.pid_ == 0) become(argv.data(), envp.data(), files, parent);
  }
  const int reason = errno;
  close_fd(in[0]);
  close_fd(out[1]);
  if (worker.pid_ < 0) return make_error(Status::io_error, "cannot start a process: {}", std::strerror(reason));
  setpgid(worker.pid_, worker.pid_);  // also here: whoever comes first
  return worker;
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)),
      complaints_(std::exchange(other.complaints_, -1)),
      status_(other.status_),
      team_(std::exchange(other.team_, {})),
      pending_(std::move(other.pending_)) {}

WorkerProcess::~WorkerProcess() {
  end(false);
  close_fd(input_);
  close_fd(output_);
  close_fd(complaints_);
}

Result<std::string> WorkerProcess::read_line(Deadline deadline) {
  for (;;) {
    if (const auto newline = pending_.find('\n'); newline != std::string::npos) {
      std::string line = pending_.substr(0, newline);
      pending_.erase(0, newline + 1);
      return line;
    }
    if (pending_.size() > longest_line) return make_error(Status::broken, "answered nonsense: an endless line");
    if (SignalGuard::interrupted()) return make_error(Status::broken, "interrupted");
    if (steady_clock::now() >= deadline) return make_error(Status::timed_out, "no answer in time");
    pollfd waiting = {output_, POLLIN, 0};
    if (poll(&waiting, 1, 50) <= 0) continue;  // short, so that a signal is noticed
    char buffer[65536];
    const ssize_t got = read(output_, buffer, sizeof buffer);
    if (got > 0) pending_.append(buffer, static_cast<std::size_t>(got));
    if (got == 0) return make_error(Status::broken, "{}", describe_exit());
  }
}

bool WorkerProcess::write_line(const std::string& line) {
  const std::string text = line + "\n";  // far below what a pipe takes at once
  return input_ >= 0 && write(input_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool WorkerProcess::adopt(const std::vector<pid_t>& team) {
  for (pid_t pid : team) {
    if (!descends_from(pid, pid_)) return false;
    const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (handle >= 0) team_.push_back(handle);
  }
  return true;
}

bool WorkerProcess::wait_until(Deadline deadline) {
  while (pid_ > 0) {
    const pid_t ended = waitpid(pid_, &status_, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno == ECHILD)) pid_ = -1;
    if (pid_ < 0 || steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return pid_ < 0;
}

void WorkerProcess::end(bool politely) {
  if (pid_ > 0) {
    const pid_t group = pid_;
    bool gone = false;
    if (politely && write_line("quit")) gone = wait_until(steady_clock::now() + milliseconds(5000));
    // A launcher cleans up and ends its ranks on SIGTERM; a worker itself dies of it.
    if (!gone && kill(-group, SIGTERM) == 0) gone = wait_until(steady_clock::now() + milliseconds(2000));
    if (!gone) {
      kill(-group, SIGKILL);
      wait_until(steady_clock::now() + milliseconds(5000));
    }
  }
  for (int handle : team_) {
    syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
    close(handle);
  }
  team_.clear();
}

std::string WorkerProcess::first_complaint() const {
  char buffer[4096];
  const ssize_t got = pread(complaints_, buffer, sizeof buffer, 0);
  std::string text(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
  std::size_t at = 0;
  while (at < text.size()) {  // the first line with a letter in it: launchers draw frames
    const std::size_t newline = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, newline - at);
    for (char c : line) {
      if (isalnum(static_cast<unsigned char>(c))) return line;
    }
    at = newline + 1;
  }
  return {};
}

std::string WorkerProcess::describe_exit() {
  wait_until(steady_clock::now() + milliseconds(500));
  std::string what = "closed its output";
  if (pid_ < 0 && WIFEXITED(status_)) what = fmt::format("exited with status {}", WEXITSTATUS(status_));
  if (pid_ < 0 && WIFSIGNALED(status_)) what = fmt::format("killed by signal {}", WTERMSIG(status_));
  const std::string complaint = first_complaint();
  return complaint.empty() ? what : what + ": " + complaint;
}

}  // namespace smelt::bench
