// Helpers of this room's tests: environment variables and directories that end with the scope,
// and where the published machine tables lie.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "smelt/machine.hpp"

namespace smelt::test {

/// Sets or (with a null value) clears an environment variable until the end of the scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    assign(value);
  }
  ~ScopedEnv() { assign(before_ ? before_->c_str() : nullptr); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  void assign(const char* value) {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

/// Whether the kernel says what known_hardware.hpp asks for.
inline bool kernel_tells_what_is_online() {
  return access("/proc/sys/kernel/random/boot_id", R_OK) == 0 && access("/sys/devices/system/cpu/online", R_OK) == 0;
}

/// The machine with made-up costs of copies: all different, own data cheapest, far data dearest.
inline Machine with_copies(Machine machine) {
  const auto n = machine.size();
  CopyCosts copy;
  copy.chunk_bytes = 16384;
  copy.cached_bytes = 262144;
  copy.shared_bytes = 4194304;
  copy.memory_bytes = 67108864;
  copy.startup_ns = copy.chunk_ns_per_kib = copy.cached_ns_per_kib = Matrix(n);
  copy.shared_ns_per_kib = copy.memory_ns_per_kib = Matrix(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double apart = i == j ? 0.0 : machine.pus[i].package == machine.pus[j].package ? 1.0 : 2.0;
      const double base = 1.0 + apart + 0.01 * static_cast<double>(i * n + j) / static_cast<double>(n * n);
      copy.startup_ns(i, j) = 50.1 * base;
      copy.chunk_ns_per_kib(i, j) = 20.7 * base;
      copy.cached_ns_per_kib(i, j) = 30.3 * base;
      copy.shared_ns_per_kib(i, j) = 70.9 * base;
      copy.memory_ns_per_kib(i, j) = 150.01 * base;
    }
  }
  for (std::size_t copiers = 1, level = 0;; copiers *= 2, ++level) {
    const double slower = static_cast<double>(level);
    copy.cached_contention.push_back(1.0 + 0.1 * slower);
    copy.shared_contention.push_back(1.0 + 0.3 * slower);
    copy.memory_contention.push_back(1.0 + 0.7 * slower);
    if (copiers >= n) break;
  }
  copy.add_ns_per_kib = 45.6;
  copy.process = ProcessCopyCosts{812.3, 51.7};
  machine.copy = std::move(copy);
  return machine;
}

/// A fresh directory, removed at the end of the scope.
class ScopedDirectory {
 public:
  ScopedDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "smelt-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~ScopedDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScopedDirectory(const ScopedDirectory&) = delete;
  ScopedDirectory& operator=(const ScopedDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace smelt::test
