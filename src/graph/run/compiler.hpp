// The machine's C++ compiler and its cache of compiled programs.
#pragma once

#include <memory>
#include <string>

#include "smelt/error.hpp"

namespace smelt::graph {

/// A shared library that is loaded, unloaded with the last owner.
class Library {
 public:
  static Result<std::shared_ptr<Library>> load(const std::string& file);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void* find(const std::string& name) const;

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* handle_;
};

struct Compiler {
  std::string path;
  std::string identity;  ///< changes with the compiler's version
};

/// `wanted`, or $CXX, c++, g++, clang++. Errors: not_found.
Result<Compiler> find_compiler(const std::string& wanted);

/// Compiles C++ to a shared library in `file`. Errors: io_error; not_supported with the first of its messages.
Result<void> compile_library(const Compiler& compiler, const std::string& text, const std::string& file);

/// Compiles C++ and loads it; no file stays.
Result<std::shared_ptr<Library>> load_once(const Compiler& compiler, const std::string& text);

/// The directory of compiled programs; "" if there is none.
std::string program_cache();

/// The file of the cached library for this text; its name is a hash of everything on which the library depends.
std::string cached_name(const Compiler& compiler, const std::string& text);

}  // namespace smelt::graph
