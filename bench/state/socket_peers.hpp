// memcached and Redis on UNIX sockets, spoken to as their clients do: one request, then its answer. A server is started
// for a map and ends with it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace bench::maps {

/// A server that this process has started, and a connection of each client.
class Server {
 public:
  /// `arguments`: the program first. Nothing is started where there is no such program: running() is false.
  Server(std::vector<std::string> arguments, std::string socket);
  Server(const Server&) = delete;
  ~Server();

  /// Whether a program of this name can be found.
  static bool is_installed(const std::string& program);
  static std::string socket_path(const std::string& program);

  /// Of the calling process: threads do not share it.
  void connect();
  void disconnect();
  void send(std::string_view request);
  /// The answer as far as a line end. Valid until the next call.
  std::string_view line();
  /// The next `count` bytes, and the line end behind them.
  std::string_view block(std::size_t count);

 private:
  void receive();

  pid_t owner_, server_ = -1;
  std::string socket_;
  int connection_ = -1;
  std::string buffer_;
  std::size_t at_ = 0;
};

/// `get` fills in the values found, in the order of the keys; the others stay empty.
class Memcached {
 public:
  explicit Memcached(std::size_t megabytes);
  static bool is_installed() { return Server::is_installed("memcached"); }
  void enter() { server_.connect(); }
  void leave() { server_.disconnect(); }
  /// Calls `found(index, value)` for those of the keys that are there.
  void get(const std::vector<std::string_view>& keys, const std::function<void(std::size_t, std::string_view)>& found);
  void put(std::string_view key, std::string_view value);

 private:
  Server server_;
  std::string request_;
};

class Redis {
 public:
  Redis();
  static bool is_installed() { return Server::is_installed("redis-server"); }
  void enter() { server_.connect(); }
  void leave() { server_.disconnect(); }
  void get(const std::vector<std::string_view>& keys, const std::function<void(std::size_t, std::string_view)>& found);
  void put(std::string_view key, std::string_view value);

 private:
  void add(std::string_view word);

  Server server_;
  std::string request_;
};

}  // namespace bench::maps
