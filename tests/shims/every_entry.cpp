// Calls every function that a preload library exports, in a process without the original of any. No call may reach a
// null pointer; otherwise any outcome is right. Functions that the library hides until there is an original are called,
// too, at the addresses in its file. Arguments: the library and the prefixes of the functions' names. Each call runs in
// a process of its own.
#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

/// Ends by a signal if `function` is null or calls null. Any other end is right.
int outcome(std::uintptr_t function) {
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    alarm(20);
    alignas(64) static char memory[4096];
    auto* const arguments = memory;
    reinterpret_cast<void (*)(void*, long, void*, void*, void*, void*)>(function)(arguments, 0, arguments, arguments,
                                                                                  arguments, arguments);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// As they lie in the file, at `offset`: the part of a library that has them begins both in it and in memory.
std::vector<ElfW(Sym)> symbols_in_file(const char* name, std::uintptr_t offset) {
  std::vector<ElfW(Sym)> symbols;
  std::FILE* const file = std::fopen(name, "rb");
  if (file == nullptr || std::fseek(file, static_cast<long>(offset), SEEK_SET) != 0) return symbols;
  ElfW(Sym) symbol;
  while (symbols.size() < 65536 && std::fread(&symbol, sizeof symbol, 1, file) == 1) symbols.push_back(symbol);
  std::fclose(file);
  return symbols;
}

}  // namespace

int main(int argc, char** argv) {
  void* library = argc > 2 ? dlopen(argv[1], RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  link_map* map = nullptr;
  if (library == nullptr || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return 2;
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* hash = nullptr;
  for (const ElfW(Dyn)* each = map->l_ld; each->d_tag != DT_NULL; ++each) {
    if (each->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(each->d_un.d_ptr);
    if (each->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(each->d_un.d_ptr);
    if (each->d_tag == DT_GNU_HASH) hash = reinterpret_cast<const std::uint32_t*>(each->d_un.d_ptr);
  }
  const std::vector<ElfW(Sym)> in_file =
      symbols_in_file(map->l_name, reinterpret_cast<std::uintptr_t>(symbols) - map->l_addr);
  const auto* bucket = reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const ElfW(Addr)*>(hash + 4) + hash[2]);
  const std::uint32_t* chain = bucket + hash[0];
  int called = 0, broken = 0;
  for (std::uint32_t b = 0; b < hash[0]; ++b) {
    for (std::uint32_t i = bucket[b]; i >= hash[1] && i != 0; ++i) {
      const char* const name = strings + symbols[i].st_name;
      for (int n = 2; n < argc; ++n) {
        if (std::strncmp(name, argv[n], std::strlen(argv[n])) != 0 || symbols[i].st_shndx == SHN_UNDEF) continue;
        ++called;
        const int status = outcome(map->l_addr + (i < in_file.size() ? in_file[i] : symbols[i]).st_value);
        if (!WIFSIGNALED(status)) continue;
        std::printf("%s: signal %d\n", name, WTERMSIG(status));
        ++broken;
      }
      if ((chain[i - hash[1]] & 1) != 0) break;
    }
  }
  std::printf("%d functions called, %d broken\n", called, broken);
  return called > 0 && broken == 0 ? 0 : 1;
}
