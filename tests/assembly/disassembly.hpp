// What the functions of an object file are compiled to.
#pragma once

#include <cstdio>
#include <map>
#include <string>

/// By name, what the instructions of each function are, without their operands.
inline std::map<std::string, std::string> functions_of(const std::string& objdump, const std::string& object) {
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
