// The protocols of memcached (text) and Redis (RESP2), as much of them as lookups and updates need.
#include "state/socket_peers.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace bench::maps {

namespace {

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  _exit(1);
}

std::string path_of(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string all = std::string(path == nullptr ? "" : path) + ":/usr/sbin:";
  for (std::size_t at = 0, end; (end = all.find(':', at)) != std::string::npos; at = end + 1) {
    const std::string file = all.substr(at, end - at) + "/" + program;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

std::size_t number(std::string_view digits) {
  std::size_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

pid_t start(const std::vector<std::string>& arguments) {
  const std::string file = path_of(arguments[0]);
  const pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  std::vector<char*> words;
  for (const auto& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, 1);
  execv(file.c_str(), words.data());
  _exit(127);
}

}  // namespace

Server::Server(std::vector<std::string> arguments, std::string socket) : owner_(getpid()), socket_(std::move(socket)) {
  server_ = start(arguments);
  for (int i = 0; i < 500 && access(socket_.c_str(), F_OK) != 0; ++i) usleep(10'000);
}

Server::~Server() {
  disconnect();
  if (getpid() != owner_) return;
  kill(server_, SIGKILL);
  waitpid(server_, nullptr, 0);
  std::remove(socket_.c_str());
}

bool Server::is_installed(const std::string& program) { return !path_of(program).empty(); }

std::string Server::socket_path(const std::string& program) {
  return "/tmp/bench-" + program + "-" + std::to_string(getpid());
}

void Server::connect() {
  connection_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_.c_str());
  for (int i = 0; i < 100; ++i) {
    if (::connect(connection_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return;
    usleep(10'000);
  }
  fail(socket_ + ": the server does not answer");
}

void Server::disconnect() {
  if (connection_ >= 0) close(connection_);
  connection_ = -1;
  buffer_.clear();
  at_ = 0;
}

void Server::send(std::string_view request) {
  buffer_.erase(0, at_);
  at_ = 0;
  while (!request.empty()) {
    const ssize_t sent = write(connection_, request.data(), request.size());
    if (sent <= 0) fail(socket_ + ": the server is gone");
    request.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Server::receive() {
  char part[1 << 16];
  const ssize_t got = read(connection_, part, sizeof part);
  if (got <= 0) fail(socket_ + ": the server is gone");
  buffer_.append(part, static_cast<std::size_t>(got));
}

std::string_view Server::line() {
  std::size_t end;
  while ((end = buffer_.find("\r\n", at_)) == std::string::npos) receive();
  const std::string_view found = std::string_view(buffer_).substr(at_, end - at_);
  at_ = end + 2;
  return found;
}

std::string_view Server::block(std::size_t count) {
  while (buffer_.size() - at_ < count + 2) receive();
  const std::string_view found = std::string_view(buffer_).substr(at_, count);
  at_ += count + 2;
  return found;
}

Memcached::Memcached(std::size_t megabytes)
    : server_({"memcached", "-s", Server::socket_path("memcached"), "-m", std::to_string(megabytes), "-u", "root"},
              Server::socket_path("memcached")) {}

void Memcached::get(const std::vector<std::string_view>& keys,
                    const std::function<void(std::size_t, std::string_view)>& found) {
  request_ = "get";
  for (const auto key : keys) request_.append(" ").append(key);
  server_.send(request_.append("\r\n"));
  // VALUE key flags bytes; the keys that there are, in order.
  for (std::size_t i = 0;;) {
    const std::string line(server_.line());
    if (line == "END") return;
    const std::size_t name = line.find(' ') + 1, flags = line.find(' ', name);
    if (line.compare(0, 6, "VALUE ") != 0) fail("memcached answers: " + line);
    while (i < keys.size() && line.compare(name, flags - name, keys[i]) != 0) ++i;
    found(i, server_.block(number(std::string_view(line).substr(line.rfind(' ') + 1))));
  }
}

void Memcached::put(std::string_view key, std::string_view value) {
  request_ = "set ";
  request_.append(key).append(" 0 0 ").append(std::to_string(value.size())).append("\r\n");
  server_.send(request_.append(value).append("\r\n"));
  if (const auto line = server_.line(); line != "STORED") fail("memcached answers: " + std::string(line));
}

Redis::Redis()
    : server_({"redis-server", "--port", "0", "--unixsocket", Server::socket_path("redis-server"), "--save", "",
               "--appendonly", "no", "--daemonize", "no"},
              Server::socket_path("redis-server")) {}

void Redis::add(std::string_view word) {
  request_.append("$").append(std::to_string(word.size())).append("\r\n").append(word).append("\r\n");
}

void Redis::get(const std::vector<std::string_view>& keys,
                const std::function<void(std::size_t, std::string_view)>& found) {
  const bool many = keys.size() != 1;
  request_.assign("*").append(std::to_string(keys.size() + 1)).append("\r\n");
  add(many ? "MGET" : "GET");
  for (const auto key : keys) add(key);
  server_.send(request_);
  if (many && server_.line().substr(0, 1) != "*") fail("Redis does not answer as it should");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto line = server_.line();
    if (line != "$-1") found(i, server_.block(number(line.substr(1))));
  }
}

void Redis::put(std::string_view key, std::string_view value) {
  request_ = "*3\r\n";
  add("SET");
  add(key);
  add(value);
  server_.send(request_);
  if (const auto line = server_.line(); line != "+OK") fail("Redis answers: " + std::string(line));
}

}  // namespace bench::maps
