// smelt settings: the environment variables that the library reads, and their present values.
#include "smelt/settings.hpp"

#include <cstdlib>
#include <memory>

#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

bool is_set(const Setting& setting) {
  const char* value = std::getenv(setting.name);
  return value != nullptr && *value != '\0';
}

void print_document() {
  Json list = Json::array();
  for (const auto& setting : settings()) {
    list.push_back({{"name", setting.name},
                    {"value", setting_value(setting.name)},
                    {"default", setting.default_value},
                    {"set", is_set(setting)},
                    {"description", setting.description}});
  }
  print(format_json({{"settings", list}, {"problems", check_settings()}}));
}

void print_table() {
  Table table("llll", 0);
  table.header({"setting", "value", "from", ""});
  for (const auto& setting : settings()) {
    const auto value = setting_value(setting.name);
    table.row({{setting.name, Style::strong},
               {value.empty() ? "-" : value, is_set(setting) ? Style::accent : Style::plain},
               {is_set(setting) ? "environment" : "default", Style::faint},
               setting.description});
  }
  print(table.text());
}

void run(bool json) {
  json ? print_document() : print_table();
  const auto problems = check_settings();
  flush_output();
  if (!problems.empty() && !json) {
    for (std::size_t i = 0; i + 1 < problems.size(); ++i) print_error("settings: " + problems[i]);
    fail("{}", problems.back());
  }
}

}  // namespace

void add_settings(Parser& parser) {
  auto json = std::make_shared<bool>(false);
  Command command = parser.add("settings", "List the environment variables that smelt reads");
  command.flag("--json", *json, "print JSON");
  command.footer(
      "A wrong value or an unknown SMELT_* variable is reported, with exit code 1.\n\n"
      "Examples:\n"
      "  smelt settings\n"
      "  SMELT_WAIT=spin smelt settings --json\n");
  command.action([json] { run(*json); });
}

}  // namespace smelt::cli
