// Signals. Ctrl-C is deferred while a file is written; otherwise it ends the command with one line for the user.
// SIGPIPE is ignored.
#pragma once

#include <csignal>
#include <string>

namespace smelt::cli {

/// Ctrl-C, SIGTERM and SIGHUP end the process after `message` (static text, one line with its newline) on
/// stderr; the process then dies of the signal, as a shell expects.
void on_interrupt(const char* message);

/// Calls `handler` for Ctrl-C, SIGTERM and SIGHUP. Signals that were ignored when this process began, as in the
/// background of a script, stay ignored.
void on_interrupt(void (*handler)(int));

/// Makes writes to a closed pipe fail instead of raising a signal; print() handles the failure.
void ignore_closed_pipes();

/// Restores the former disposition, before this process executes another program.
void restore_signals();

/// Blocks SIGINT, SIGTERM and SIGHUP on this thread during its lifetime, in which `file` is written. Does not if that
/// is a pipe or a device, since writing to it may take for ever.
class HoldSignals {
 public:
  explicit HoldSignals(const std::string& file);
  ~HoldSignals();
  HoldSignals(const HoldSignals&) = delete;
  HoldSignals& operator=(const HoldSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace smelt::cli
