#include "base/error.hpp"

namespace smelt {

const char* status_string(Status status) noexcept {
  switch (status) {
    case Status::ok: return "ok";
    case Status::invalid_argument: return "invalid argument";
    case Status::not_found: return "not found";
    case Status::io_error: return "input/output error";
    case Status::bad_format: return "bad format";
    case Status::out_of_memory: return "out of memory";
    case Status::not_supported: return "not supported";
    case Status::permission_denied: return "permission denied";
    case Status::timed_out: return "timed out";
    case Status::broken: return "communicator is broken";
  }
  return "unknown status";
}

std::string shown(std::string_view text, std::size_t max_bytes) {
  std::string result;
  for (const char byte : text.substr(0, max_bytes)) result += byte >= ' ' && byte <= '~' ? byte : '?';
  return text.size() > max_bytes ? result + "..." : result;
}

}  // namespace smelt
