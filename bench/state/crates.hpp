// Peers that are Rust crates: functions of the library that bench/state/run.py builds from bench/state/peers, loaded
// when its path is given.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace bench {

class Crates {
 public:
  /// `path` null: none.
  explicit Crates(const char* path) {
    if (path == nullptr) return;
    library_ = dlopen(path, RTLD_NOW);
    if (library_ != nullptr) return;
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(2);
  }
  explicit operator bool() const { return library_ != nullptr; }

  template <class Function>
  Function* get(const char* name) const {
    auto* found = reinterpret_cast<Function*>(dlsym(library_, name));
    if (found != nullptr) return found;
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(2);
  }

 private:
  void* library_ = nullptr;
};

}  // namespace bench
