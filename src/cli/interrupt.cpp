#include "cli/interrupt.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

namespace smelt::cli {
namespace {

constexpr int interrupts[] = {SIGINT, SIGTERM, SIGHUP};

const char* interrupt_message = nullptr;
std::size_t interrupt_bytes = 0;
void (*closed_pipe_before)(int) = SIG_ERR;  ///< SIG_ERR: nothing has been changed

// Only what is allowed in a signal handler: write, signal, raise.
void end_by_signal(int number) {
  if (isatty(STDERR_FILENO) == 1) (void)!write(STDERR_FILENO, "\r\x1b[K", 4);
  (void)!write(STDERR_FILENO, interrupt_message, interrupt_bytes);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

void on_interrupt(const char* message) {
  interrupt_message = message;
  interrupt_bytes = std::strlen(message);
  on_interrupt(end_by_signal);
}

void on_interrupt(void (*handler)(int)) {
  for (const int number : interrupts) {
    struct sigaction before = {};
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) std::signal(number, handler);
  }
}

void ignore_closed_pipes() { closed_pipe_before = std::signal(SIGPIPE, SIG_IGN); }

void restore_signals() {
  if (closed_pipe_before != SIG_ERR) std::signal(SIGPIPE, closed_pipe_before);
}

HoldSignals::HoldSignals(const std::string& file) {
  std::error_code ignored;
  sigset_t held;
  sigemptyset(&held);
  if (!std::filesystem::exists(file, ignored) || std::filesystem::is_regular_file(file, ignored)) {
    for (const int number : interrupts) sigaddset(&held, number);
  }
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HoldSignals::~HoldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace smelt::cli
