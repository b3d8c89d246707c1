// Error values of set-up calls. Nothing in smelt's public C++ interface throws on purpose;
// a call that can fail returns Result<T>, and its Error says what was wrong, where, and what to do.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace smelt {

/// Status codes, shared with the C interface (the same numbers as SMELT_* in smelt.h).
enum class Status : int {
  ok = 0,
  invalid_argument = -1,  ///< an argument is out of its range or contradicts another one
  not_found = -2,         ///< a file, PU, topology or library is not there
  io_error = -3,          ///< the operating system refused a read, write, map or thread
  bad_format = -4,        ///< a file was read, but its content is not what it must be
  out_of_memory = -5,
  not_supported = -6,
  permission_denied = -7,
  timed_out = -8,  ///< a rank did not arrive within the communicator's timeout
  broken = -9,     ///< the communicator failed in an earlier call and cannot be used any more
};

/// A short English name of a status, such as "bad format". Never null.
const char* status_string(Status status) noexcept;

struct Error {
  Status status = Status::ok;
  std::string message;  ///< one line: what, where, what to do; no trailing newline
};

/// Either a value or an Error. Test it with `if (result)` before `*result`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const noexcept { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const noexcept { return error_.status == Status::ok; }
  const Error& error() const { return error_; }

 private:
  Error error_;
};

}  // namespace smelt
