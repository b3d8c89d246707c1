// What the program's thread does not lose to what is done in its calls.
#pragma once

#include <pthread.h>

#include <cerrno>

namespace smelt::shims {

/// errno stays as it is.
class KeptErrno {
 public:
  KeptErrno() noexcept : errno_(errno) {}
  ~KeptErrno() { errno = errno_; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

  /// What errno is in the end.
  void set_errno(int error) noexcept { errno_ = error; }

 private:
  int errno_;
};

/// errno stays as it is, and no file that is read here is a point to cancel the thread at.
class KeptState : public KeptErrno {
 public:
  KeptState() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelability_); }
  ~KeptState() { pthread_setcancelstate(cancelability_, nullptr); }
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

 private:
  int cancelability_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace smelt::shims
