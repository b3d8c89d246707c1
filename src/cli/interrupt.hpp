// What Ctrl-C does: while something is being written it waits; otherwise it ends the command with
// one line that says what that means for the user. And the other signals whose disposition this command changes.
#pragma once

#include <csignal>

namespace smelt::cli {

/// Ctrl-C and SIGTERM end the process after `message` (static text, one line with its newline) on
/// stderr; the process then dies of the signal, as a shell expects.
void on_interrupt(const char* message);

/// A closed pipe is a failed write from now on, seen in print(), no signal.
void ignore_closed_pipes();

/// Takes that back, before this process becomes another program.
void restore_signals();

/// Holds SIGINT and SIGTERM back on this thread while it lives.
class HoldSignals {
 public:
  HoldSignals();
  ~HoldSignals();
  HoldSignals(const HoldSignals&) = delete;
  HoldSignals& operator=(const HoldSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace smelt::cli
