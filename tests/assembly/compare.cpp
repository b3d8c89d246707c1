// compare OBJDUMP OBJECT: the functions NAME_array and NAME_plain of the object have the same instructions in the same
// order. Registers, and which operand of a comparison comes first, are the compiler's choice; padding does not count.
#include <cstdio>
#include <string>

#include "disassembly.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto functions = functions_of(argv[1], argv[2]);
  if (functions.empty()) {
    std::printf("SKIPPED: %s shows no functions of %s\n", argv[1], argv[2]);
    return 77;
  }
  int compared = 0, wrong = 0;
  for (const auto& [name, code] : functions) {
    const auto end = name.rfind("_array");
    if (end == std::string::npos || end + 6 != name.size()) continue;
    const auto plain = functions.find(name.substr(0, end) + "_plain");
    if (plain == functions.end()) continue;
    ++compared;
    if (plain->second == code) continue;
    ++wrong;
    std::printf("%s:\n%s\n%s:\n%s\n", name.c_str(), code.c_str(), plain->first.c_str(), plain->second.c_str());
  }
  std::printf("%d pairs of functions compared, %d differ\n", compared, wrong);
  return compared == 4 && wrong == 0 ? 0 : 1;
}
