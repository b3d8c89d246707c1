// What the program's thread does not lose to what is done in its calls.
#pragma once

#include <pthread.h>

#include <cerrno>

namespace smelt::shims::memory {

/// Of the program's thread, errno stays as it is, and no file that is read here is a point to cancel it at.
class KeptState {
 public:
  KeptState() noexcept : errno_(errno) { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelability_); }
  ~KeptState() {
    pthread_setcancelstate(cancelability_, nullptr);
    errno = errno_;
  }
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

  /// What errno is in the end.
  void set_errno(int error) noexcept { errno_ = error; }

 private:
  int errno_, cancelability_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace smelt::shims::memory
