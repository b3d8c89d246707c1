// compare OBJDUMP OBJECT: the functions NAME_array and NAME_plain of the object have the same instructions in the same
// order. Registers, and which operand of a comparison comes first, are the compiler's choice; padding does not count.
#include <cstdio>
#include <map>
#include <string>

namespace {

/// By name, what the instructions of each function are, without their operands.
std::map<std::string, std::string> functions_of(const std::string& objdump, const std::string& object) {
  std::map<std::string, std::string> functions;
  const std::string command = objdump + " -d --no-show-raw-insn --no-addresses '" + object + "'";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return functions;
  std::string name;
  char line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    std::string text = line;
    if (text[0] == '<') {
      name = text.substr(1, text.find('>') - 1);
    } else if (!name.empty() && text[0] == '\t') {
      const bool padding = text.find("nop") != std::string::npos || text.find("data16") != std::string::npos ||
                           text.find("xchg   %ax,%ax") != std::string::npos;
      if (!padding) functions[name] += text.substr(1, text.find_first_of(" \n", 1) - 1) + "\n";
    }
  }
  pclose(pipe);
  return functions;
}

}  // namespace

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
