// Programs that are started from one with smelt inherit its LD_PRELOAD, and some cannot have anything preloaded: those
// of another architecture or C library complain or end, and the runtimes of sanitizers insist on being first. Behind
// chroot, or as another user, smelt's libraries may be out of reach, and the loader complains in every program. What
// starts programs is therefore taken over: in these cases smelt's libraries are left out of the LD_PRELOAD that the
// program gets.
//
// It may be called between vfork and exec, and by signal handlers: it uses the stack, system calls and nothing else.
#include <alloca.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "shims/kept_state.hpp"
#include "shims/next.hpp"

namespace smelt::shims {
namespace {

// ---- files ---------------------------------------------------------------------------------------

#if defined(__x86_64__)
constexpr std::uint16_t own_machine = EM_X86_64;
constexpr char own_loader[] = "ld-linux-x86-64.so.2";
#else
constexpr std::uint16_t own_machine = EM_AARCH64;
constexpr char own_loader[] = "ld-linux-aarch64.so.1";
#endif

const char* base_name(const char* file) noexcept {
  const char* const slash = std::strrchr(file, '/');
  return slash != nullptr ? slash + 1 : file;
}

bool begins_with(const char* text, const char* beginning) noexcept {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

/// A file that is read where it lies; nothing is if it cannot be opened.
class ReadableFile {
 public:
  explicit ReadableFile(const char* name) noexcept
      : descriptor_(open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)), own_(true) {}
  explicit ReadableFile(int descriptor) noexcept : descriptor_(descriptor), own_(false) {}
  ~ReadableFile() {
    if (own_ && descriptor_ >= 0) close(descriptor_);
  }
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;

  explicit operator bool() const noexcept { return descriptor_ >= 0; }

  bool read(void* to, std::size_t bytes, std::uint64_t at) const noexcept {
    return pread(descriptor_, to, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
  }

  /// Up to bytes - 1 of it, zero-terminated.
  void read_text(char* to, std::size_t bytes, std::uint64_t at) const noexcept {
    const ssize_t got = pread(descriptor_, to, bytes - 1, static_cast<off_t>(at));
    to[std::max<ssize_t>(got, 0)] = '\0';
  }

 private:
  int descriptor_;
  bool own_;
};

/// A program of this machine, as far as it says how it is loaded.
class ElfProgram {
 public:
  ElfProgram(const ReadableFile& file, const ElfW(Ehdr) & header) noexcept : file_(file) {
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      ElfW(Phdr) part;
      if (header.e_phentsize != sizeof part || !file.read(&part, sizeof part, header.e_phoff + i * sizeof part)) return;
      if (part.p_type == PT_INTERP) file.read_text(loader_, sizeof loader_, part.p_offset);
      if (part.p_type == PT_DYNAMIC) dynamic_ = part;
      if (part.p_type == PT_LOAD && loads_ < most_loads) load_[loads_++] = part;
    }
    find_tables();
  }

  /// Statically linked ones take no notice.
  bool has_other_loader() const noexcept {
    return loader_[0] != '\0' && std::strcmp(base_name(loader_), own_loader) != 0;
  }

  /// Sanitizers stand between a program and the C library. They are its own, or a library that it needs.
  bool is_sanitized() const noexcept {
    if (defines("pthread_create") && defines("sigaction")) return true;
    bool needed = false;
    each_entry([&](const ElfW(Dyn) & entry) {
      if (entry.d_tag != DT_NEEDED) return;
      char name[32];
      file_.read_text(name, sizeof name, names_ + entry.d_un.d_val);
      for (const char* library : {"libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so", "libclang_rt."}) {
        needed = needed || begins_with(name, library);
      }
    });
    return needed;
  }

 private:
  static constexpr int most_loads = 16;

  template <class Visit>
  void each_entry(const Visit& visit) const noexcept {
    for (std::uint64_t at = 0; at + sizeof(ElfW(Dyn)) <= dynamic_.p_filesz; at += sizeof(ElfW(Dyn))) {
      ElfW(Dyn) entry;
      if (!file_.read(&entry, sizeof entry, dynamic_.p_offset + at) || entry.d_tag == DT_NULL) return;
      visit(entry);
    }
  }

  std::uint64_t place_of(std::uint64_t address) const noexcept {
    for (int i = 0; i < loads_; ++i) {
      if (address - load_[i].p_vaddr < load_[i].p_filesz) return address - load_[i].p_vaddr + load_[i].p_offset;
    }
    return 0;
  }

  void find_tables() noexcept {
    each_entry([this](const ElfW(Dyn) & entry) {
      if (entry.d_tag == DT_STRTAB) names_ = place_of(entry.d_un.d_ptr);
      if (entry.d_tag == DT_SYMTAB) symbols_ = place_of(entry.d_un.d_ptr);
      if (entry.d_tag == DT_GNU_HASH) hash_ = place_of(entry.d_un.d_ptr);
    });
  }

  /// By the hash table, whose filter says of nearly all programs at once that they do not.
  bool defines(const char* name) const noexcept {
    struct {
      std::uint32_t buckets, first, words, shift;
    } head;
    if (hash_ == 0 || !file_.read(&head, sizeof head, hash_) || head.buckets == 0 || head.words == 0) return false;
    std::uint32_t hash = 5381;
    for (const char* each = name; *each != '\0'; ++each) hash = hash * 33 + static_cast<unsigned char>(*each);
    const std::uint64_t filter = hash_ + sizeof head, bucket = filter + std::uint64_t{head.words} * 8;
    const std::uint64_t chain = bucket + std::uint64_t{head.buckets} * 4;
    std::uint64_t bits = 0;
    std::uint32_t index = 0, seen = 0;
    if (!file_.read(&bits, sizeof bits, filter + std::uint64_t{hash / 64 % head.words} * 8)) return false;
    if ((bits >> (hash % 64) & bits >> ((hash >> (head.shift % 32)) % 64) & 1) == 0) return false;
    if (!file_.read(&index, sizeof index, bucket + std::uint64_t{hash % head.buckets} * 4)) return false;
    for (; index >= head.first && (seen & 1) == 0; ++index) {
      if (!file_.read(&seen, sizeof seen, chain + std::uint64_t{index - head.first} * 4)) return false;
      if ((seen | 1) == (hash | 1) && is_named(index, name)) return true;
    }
    return false;
  }

  bool is_named(std::uint32_t index, const char* name) const noexcept {
    ElfW(Sym) symbol;
    char found[32];
    if (!file_.read(&symbol, sizeof symbol, symbols_ + std::uint64_t{index} * sizeof symbol)) return false;
    file_.read_text(found, sizeof found, names_ + symbol.st_name);
    return symbol.st_shndx != SHN_UNDEF && std::strcmp(found, name) == 0;
  }

  const ReadableFile& file_;
  char loader_[128] = {};
  ElfW(Phdr) dynamic_ = {}, load_[most_loads] = {};
  int loads_ = 0;
  std::uint64_t names_ = 0, symbols_ = 0, hash_ = 0;
};

/// Whether something can be preloaded into a program, or into what interprets it. What cannot be read is left to exec.
bool takes_preloads(const ReadableFile& file, int depth = 0) noexcept {
  union {
    char text[256];
    ElfW(Ehdr) elf;
  } start = {};
  file.read_text(start.text, sizeof start.text, 0);
  if (begins_with(start.text, "#!") && depth < 4) {
    char* const interpreter = start.text + 2 + std::strspn(start.text + 2, " \t");
    interpreter[std::strcspn(interpreter, " \t\n")] = '\0';
    return takes_preloads(ReadableFile(interpreter), depth + 1);
  }
  if (std::memcmp(start.elf.e_ident, ELFMAG, SELFMAG) != 0) return true;
  if (start.elf.e_ident[EI_CLASS] != ELFCLASS64 || start.elf.e_machine != own_machine) return false;
  const ElfProgram program(file, start.elf);
  return !program.has_other_loader() && !program.is_sanitized();
}

/// Where execvp finds a program; as it is if that is nowhere.
const char* find_on_path(const char* name, char (&place)[PATH_MAX]) noexcept {
  const char* path = std::getenv("PATH");
  if (path == nullptr) path = "/bin:/usr/bin";
  if (std::strchr(name, '/') != nullptr) return name;
  for (const std::size_t length = std::strlen(name);; ++path) {
    const std::size_t directory = std::strcspn(path, ":");
    if (directory + 1 + length < sizeof place) {
      std::memcpy(place, path, directory);
      place[directory] = '/';
      std::memcpy(place + directory + (directory != 0), name, length + 1);
      if (access(place, X_OK) == 0) return place;
    }
    path += directory;
    if (*path == '\0') return name;
  }
}

// ---- the environment -----------------------------------------------------------------------------

constexpr char variable[] = "LD_PRELOAD=", separators[] = ": ";

bool is_list(const char* definition) noexcept { return begins_with(definition, variable); }

/// Whether the word that ends at `end` is one of smelt's libraries.
bool is_own(const char* word, const char* end) noexcept {
  const char* name = end;
  while (name != word && name[-1] != '/') --name;
  return begins_with(name, "libsmelt_");
}

bool has_own(const char* definition) noexcept { return std::strstr(definition, "libsmelt_") != nullptr; }

/// A definition of the variable without smelt's libraries, as long as it was at most. False: nothing is left.
bool copy_others(char* to, const char* definition) noexcept {
  char* const begin = to = std::copy_n(variable, sizeof variable - 1, to);
  const char* word = definition + sizeof variable - 1;
  for (word += std::strspn(word, separators); *word != '\0'; word += std::strspn(word, separators)) {
    const char* const end = word + std::strcspn(word, separators);
    if (!is_own(word, end)) {
      if (to != begin) *to++ = ':';
      to = std::copy(word, end, to);
    }
    word = end;
  }
  *to = '\0';
  return to != begin;
}

/// Whether smelt's libraries, as far as they are named by paths, can be read: not behind another root, or by another
/// user.
bool can_read_own(const char* definition) noexcept {
  char file[PATH_MAX];
  const char* word = definition + sizeof variable - 1;
  for (word += std::strspn(word, separators); *word != '\0'; word += std::strspn(word, separators)) {
    const char* const end = word + std::strcspn(word, separators);
    if (is_own(word, end) && std::find(word, end, '/') != end && static_cast<std::size_t>(end - word) < sizeof file) {
      *std::copy(word, end, file) = '\0';
      if (!ReadableFile(file)) return false;
    }
    word = end;
  }
  return true;
}

/// call(environment), without smelt's libraries if they are there and takes() says that the program takes none.
template <class Takes, class Call>
int start(char* const* environment, const Takes& takes, const Call& call) noexcept {
  constexpr std::size_t most = 4096;
  const char* list = nullptr;
  std::size_t count = 0;
  for (; environment != nullptr && environment[count] != nullptr; ++count) {
    if (list == nullptr && is_list(environment[count])) list = environment[count];
  }
  if (list == nullptr || !has_own(list) || count > most) return call(environment);
  bool as_it_is = false;
  {
    const KeptState kept;  // exec is no cancellation point, reading is one
    as_it_is = can_read_own(list) && takes();
  }
  if (as_it_is) return call(environment);
  auto** const changed = static_cast<char**>(alloca((count + 1) * sizeof(char*)));
  auto* const text = static_cast<char*>(alloca(std::strlen(list) + 1));
  const bool others = copy_others(text, list);
  char** end = changed;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_list(environment[i])) *end++ = environment[i];
    if (environment[i] == list && others) *end++ = text;
  }
  *end = nullptr;
  return call(changed);
}

// ---- the originals -------------------------------------------------------------------------------

using Words = char* const*;
using Run = int(const char*, Words words, Words environment);
using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, Words words,
                  Words environment);

struct Original {
  std::atomic<Run*> execve{nullptr}, execvpe{nullptr};
  std::atomic<int (*)(int, Words words, Words environment)> fexecve{nullptr};
  std::atomic<int (*)(int, const char*, Words words, Words environment, int)> execveat{nullptr};
  std::atomic<Spawn*> posix_spawn{nullptr}, posix_spawnp{nullptr};
};
constinit Original originals;

template <class Function>
void find(std::atomic<Function*>& original, const char* name) noexcept {
  original.store(next_definition<Function>(name), std::memory_order_relaxed);
}

/// Looked up at the start, not in a child of vfork.
[[gnu::constructor(101)]] void find_originals() noexcept {
  find(originals.execve, "execve");
  find(originals.execvpe, "execvpe");
  find(originals.fexecve, "fexecve");
  find(originals.execveat, "execveat");
  find(originals.posix_spawn, "posix_spawn");
  find(originals.posix_spawnp, "posix_spawnp");
}

template <class Function>
Function* original(std::atomic<Function*> Original::*name) noexcept {
  if ((originals.*name).load(std::memory_order_relaxed) == nullptr) find_originals();
  return (originals.*name).load(std::memory_order_relaxed);
}

/// A C library without the function has no users of it.
template <class Function, class... Arguments>
int call_original(std::atomic<Function*> Original::*name, Arguments... arguments) noexcept {
  Function* const function = original(name);
  if (function != nullptr) return function(arguments...);
  errno = ENOSYS;
  constexpr bool tells_by_errno = (std::is_same_v<Arguments, pid_t*> || ...) == false;
  return tells_by_errno ? -1 : ENOSYS;
}

int run_file(const char* file, char* const* words, char* const* environment) noexcept {
  return start(
      environment, [&] { return takes_preloads(ReadableFile(file)); },
      [&](char* const* now) { return call_original(&Original::execve, file, words, now); });
}

int run_found(const char* name, char* const* words, char* const* environment) noexcept {
  char place[PATH_MAX];
  return start(
      environment, [&] { return takes_preloads(ReadableFile(find_on_path(name, place))); },
      [&](char* const* now) { return call_original(&Original::execvpe, name, words, now); });
}

/// call(words): `first` and those of a list up to null, behind which the list is left.
template <class Call>
int with_words(const char* first, va_list& list, const Call& call) noexcept {
  std::size_t count = 1;
  if (first != nullptr) {
    va_list counted;
    va_copy(counted, list);
    while (va_arg(counted, const char*) != nullptr) ++count;
    va_end(counted);
  }
  auto** const words = static_cast<char**>(alloca((count + 1) * sizeof(char*)));
  words[0] = const_cast<char*>(first);
  for (std::size_t i = 1; i <= count; ++i) words[i] = first != nullptr ? va_arg(list, char*) : nullptr;
  return call(words);
}

}  // namespace
}  // namespace smelt::shims

using namespace smelt::shims;

#define SMELT_SHOWN [[gnu::visibility("default")]]

extern "C" {

SMELT_SHOWN int execve(const char* file, char* const words[], char* const environment[]) noexcept {
  return run_file(file, words, environment);
}
SMELT_SHOWN int execv(const char* file, char* const words[]) noexcept { return run_file(file, words, environ); }
SMELT_SHOWN int execvpe(const char* name, char* const words[], char* const environment[]) noexcept {
  return run_found(name, words, environment);
}
SMELT_SHOWN int execvp(const char* name, char* const words[]) noexcept { return run_found(name, words, environ); }

SMELT_SHOWN int execl(const char* file, const char* first, ...) noexcept {
  va_list list;
  va_start(list, first);
  const int code = with_words(first, list, [&](char* const* words) { return run_file(file, words, environ); });
  va_end(list);
  return code;
}
SMELT_SHOWN int execle(const char* file, const char* first, ...) noexcept {
  va_list list;
  va_start(list, first);
  const int code =
      with_words(first, list, [&](char* const* words) { return run_file(file, words, va_arg(list, char* const*)); });
  va_end(list);
  return code;
}
SMELT_SHOWN int execlp(const char* name, const char* first, ...) noexcept {
  va_list list;
  va_start(list, first);
  const int code = with_words(first, list, [&](char* const* words) { return run_found(name, words, environ); });
  va_end(list);
  return code;
}

SMELT_SHOWN int fexecve(int file, char* const words[], char* const environment[]) noexcept {
  return start(
      environment, [&] { return takes_preloads(ReadableFile(file)); },
      [&](char* const* now) { return call_original(&Original::fexecve, file, words, now); });
}
SMELT_SHOWN int execveat(int directory, const char* name, char* const words[], char* const environment[],
                         int flags) noexcept {
  const auto takes = [&] {
    const int file = *name == '\0' ? directory : openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool taken = takes_preloads(ReadableFile(file));
    if (file != directory && file >= 0) close(file);
    return taken;
  };
  return start(environment, takes, [&](char* const* now) {
    return call_original(&Original::execveat, directory, name, words, now, flags);
  });
}

SMELT_SHOWN int posix_spawn(pid_t* process, const char* file, const posix_spawn_file_actions_t* actions,
                            const posix_spawnattr_t* attributes, char* const words[], char* const environment[]) {
  return start(
      environment, [&] { return takes_preloads(ReadableFile(file)); },
      [&](char* const* now) {
        return call_original(&Original::posix_spawn, process, file, actions, attributes, words, now);
      });
}
SMELT_SHOWN int posix_spawnp(pid_t* process, const char* name, const posix_spawn_file_actions_t* actions,
                             const posix_spawnattr_t* attributes, char* const words[], char* const environment[]) {
  char place[PATH_MAX];
  return start(
      environment, [&] { return takes_preloads(ReadableFile(find_on_path(name, place))); },
      [&](char* const* now) {
        return call_original(&Original::posix_spawnp, process, name, actions, attributes, words, now);
      });
}

}  // extern "C"
