// fetches OBJDUMP OBJECT...: the library's graph programs, compiled, contain the instructions that fetch ahead. A
// compiler may drop calls of functions that do nothing else.
#include <cstdio>
#include <map>
#include <string>

#include "disassembly.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  // For each fetch in the source there is at least one instruction; copies of loops may have more.
  const std::map<std::string, int> expected = {
      {"triangles_program", 3},  // the place of a list, and two lines of a list
      {"pagerank_program", 2},   // neighbours, and what belongs to them
      {"pagerank_exact_program", 2}, {"hits_program", 2},
      {"components_program", 2},  // the first neighbours' list, and what belongs to the first one
  };
  std::map<std::string, int> found;
  bool any = false;
  for (int object = 2; object < argc; ++object) {
    for (const auto& [function, code] : functions_of(argv[1], argv[object])) {
      any = true;
      for (const auto& [program, count] : expected) {
        if (function.find(program) == std::string::npos) continue;
        for (auto at = code.find("prefetch"); at != std::string::npos; at = code.find("prefetch", at + 1))
          ++found[program];
      }
    }
  }
  if (!any) {
    std::printf("SKIPPED: %s shows no functions\n", argv[1]);
    return 77;
  }
  bool all = true;
  for (const auto& [program, count] : expected) {
    std::printf("%s: %d fetches, at least %d expected\n", program.c_str(), found[program], count);
    all = all && found[program] >= count;
  }
  return all ? 0 : 1;
}
