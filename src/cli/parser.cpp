// The parser around CLI11, and the wording of usage errors.
#include "cli/parser.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <map>
#include <new>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"

namespace smelt::cli {
namespace {

constexpr const char* overview =
    "smelt measures the communication costs between the cores of a machine, and plans broadcast trees,\n"
    "reductions and barriers that are fast on it.";

constexpr const char* footer =
    "Start here:\n"
    "  smelt measure          measure this machine (30 s)\n"
    "  smelt show             show the results\n"
    "  smelt plan             the best broadcast tree, and why\n"
    "  smelt tune             race all algorithms, keep the winners (60 s)\n"
    "  smelt explain          what a collective runs, and why\n"
    "  smelt bench all        compare smelt with other implementations on this machine\n"
    "  smelt run ./app        run an unchanged pthread, OpenMP or MPI program with smelt\n"
    "  smelt graph run        a Green-Marl program on a graph\n\n"
    "`smelt COMMAND --help` explains a command and gives examples. Errors: one line on stderr.\n"
    "Exit code: 0 done, 1 failed, 2 called wrongly. All that print results have --json.\n";

// "plan", or "graph run" for a command below another one.
std::string full_name(const CLI::App& command) {
  const auto* parent = command.get_parent();
  const bool below = parent != nullptr && parent->get_parent() != nullptr;
  return below ? full_name(*parent) + " " + command.get_name() : command.get_name();
}

// Widens the column of options, and omits "TEXT" where a name says more.
class HelpFormat : public CLI::Formatter {
 public:
  /// The usage of `app` ends with another program's command line.
  void add_rest(const CLI::App* app, const std::string& type) { rest_[app] = type; }

  HelpFormat() {
    column_width(32);
    label("OPTIONS", "[OPTIONS]");
    label("SUBCOMMAND", "COMMAND");
    label("REQUIRED", "");
  }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    if (const auto comma = name.find(','); comma != std::string::npos) name.insert(comma + 1, " ");
    return name;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string text = "Usage: " + (app->get_parent() == nullptr ? name : "smelt " + full_name(*app)) + " [OPTIONS]";
    if (!app->get_subcommands([](const CLI::App*) { return true; }).empty()) text += " COMMAND";
    for (const auto* option : app->get_options([](const CLI::Option* each) { return each->get_positional(); })) {
      text += " [" + option->get_type_name() + "]";
    }
    if (const auto rest = rest_.find(app); rest != rest_.end()) text += " [--] " + rest->second;
    return text + "\n";
  }
  std::string make_description(const CLI::App* app) const override { return app->get_description() + "\n\n"; }
  std::string make_footer(const CLI::App* app) const override { return "\n" + app->get_footer(); }

 private:
  std::map<const CLI::App*, std::string> rest_;
};

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// The subcommand that the words name, as a prefix of an error; null if they name none.
const CLI::App* called_command(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      if (command->get_name() != argv[i]) continue;
      const auto* below = called_command(*command, argc - i, argv + i);
      return below != nullptr ? below : command;
    }
  }
  return nullptr;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names = {"--help"};
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The parser's complaint in one line.
std::string describe(const CLI::App& app, const CLI::App* command, const CLI::ParseError& error) {
  const auto extras = app.remaining(true);
  const bool lacks_command = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && command != nullptr &&
                             !command_names(*command).empty();
  if ((dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr && !lacks_command) || extras.empty()) {
    return std::string(error.what()) + (command != nullptr ? "; see `smelt " + full_name(*command) + " --help`" : "");
  }
  const std::string& word = extras.front();
  if (command == nullptr && word[0] != '-') {
    const auto names = command_names(app);
    return fmt::format("{}: no such command{} (one of {})", word, suggestion(word, names), fmt::join(names, ", "));
  }
  const std::string name = word.substr(0, word.find('='));
  const std::string near = word[0] == '-' ? suggestion(name, option_names(command != nullptr ? *command : app)) : "";
  if (command != nullptr && word[0] != '-' && !command_names(*command).empty()) {
    const auto names = command_names(*command);
    return fmt::format("{}: no such command{} (one of {})", word, suggestion(word, names), fmt::join(names, ", "));
  }
  const std::string where = command != nullptr ? " " + full_name(*command) : "";
  return fmt::format("{}: not understood{}; see `smelt{} --help`", word, near, where);
}

// The first long name of "-n,--rounds" or "--numa,--numa-per-package".
std::string shown_name(const std::string& names) {
  const auto dashes = names.find("--"), first = dashes == std::string::npos ? 0 : dashes;
  return names.substr(first, names.find(',', first) - first);
}

}  // namespace

Command& Command::flag(const std::string& names, bool& target, const std::string& description) {
  app_->add_flag(names, target, description);
  return *this;
}

Command& Command::text(const std::string& names, std::string& target, const std::string& type,
                       const std::string& description) {
  const auto read = [&target, option = shown_name(names)](const std::string& text) {
    if (text.empty()) fail_usage("{} '': empty; give a value, or leave it out", option);
    target = text;
  };
  return value(names, type, read, description);
}

Command& Command::optional_text(const std::string& name, std::string& target, const std::string& bare,
                                const std::string& description) {
  app_->add_flag(name + "{" + bare + "}", target, description);
  return *this;
}

Command& Command::words(const std::string& name, std::vector<std::string>& target, const std::string& type,
                        const std::string& description) {
  app_->add_option(name, target, description)->type_name(type);
  return *this;
}

Command& Command::value(const std::string& names, const std::string& type, Reader read,
                        const std::string& description) {
  app_->add_option_function<std::string>(names, read, description)->type_name(type);
  return *this;
}

Command& Command::values(const std::string& names, const std::string& type, Reader read,
                         const std::string& description) {
  app_->add_option_function<std::string>(names, read, description)->type_name(type)->trigger_on_parse();
  return *this;
}

Command& Command::number(const std::string& names, double& target, double low, double high,
                         const std::string& description) {
  const auto read = [&target, option = shown_name(names), low, high](const std::string& text) {
    target = parse_number(option, text, low, high);
  };
  return value(names, "NUMBER", read, description);
}

Command& Command::integer(const std::string& names, int& target, int low, int high, const std::string& description) {
  const auto read = [&target, option = shown_name(names), low, high](const std::string& text) {
    target = parse_integer(option, text, low, high);
  };
  return value(names, "N", read, description);
}

Command& Command::duration(const std::string& names, double& target_s, const std::string& description) {
  const auto read = [&target_s, option = shown_name(names)](const std::string& text) {
    target_s = parse_duration_s(option, text);
  };
  return value(names, "TIME", read, description);
}

Command& Command::rest(std::vector<std::string>& target, const std::string& type) {
  trailing_->push_back({app_, &target});
  static_cast<HelpFormat&>(*app_->get_formatter()).add_rest(app_, type);
  return *this;
}

Command& Command::footer(const std::string& text) {
  app_->footer(text);
  return *this;
}

void Command::action(std::function<void()> run) {
  app_->callback([chosen = chosen_, run = std::move(run)] { *chosen = run; });
}

bool Command::given(const std::string& name) const { return app_->count(name) > 0; }

Parser::Parser() : app_(std::make_unique<CLI::App>(overview, "smelt")) {
  app_->formatter(std::make_shared<HelpFormat>());
  app_->set_help_flag("-h,--help", "print this help");
  app_->set_version_flag("--version", "", "print version and commit");
  app_->footer(footer);
  app_->require_subcommand(0, 1);
}

Parser::~Parser() = default;

Command Parser::add(const std::string& name, const std::string& description) {
  return {*app_->add_subcommand(name, description)->group("Commands"), chosen_, trailing_};
}

Command Parser::add_or_find(const std::string& name, const std::string& description) {
  for (CLI::App* each : app_->get_subcommands([&](const CLI::App* command) { return command->get_name() == name; })) {
    return {*each, chosen_, trailing_};
  }
  return add(name, description);
}

Command Command::add(const std::string& name, const std::string& description) {
  app_->require_subcommand(1);
  return {*app_->add_subcommand(name, description)->group("Commands"), *chosen_, *trailing_};
}

/// Moves another program's words out of the way. Returns how many words of argv remain.
int Parser::split_rest(int argc, char** argv) const {
  const auto* command = called_command(*app_, argc, argv);
  const auto rest =
      std::find_if(trailing_.begin(), trailing_.end(), [&](const auto& each) { return each.app == command; });
  if (command == nullptr || rest == trailing_.end()) return argc;
  int own = 1;
  while (command->get_name() != argv[own]) ++own;
  for (++own; own < argc; ++own) {
    const std::string word = argv[own];
    if (word[0] != '-' || word == "--") break;
    const auto* option = command->get_option_no_throw(word);
    if (option != nullptr && option->get_items_expected_min() > 0) ++own;
  }
  own = std::min(own, argc);
  const int first = own < argc && std::string(argv[own]) == "--" ? own + 1 : own;
  rest->target->assign(argv + first, argv + argc);
  return own;
}

/// Does what the words ask for.
int Parser::act(const CLI::App* command, int argc, char** argv) {
  CLI::App& app = *app_;
  try {
    app.parse(split_rest(argc, argv), argv);
  } catch (const CLI::CallForHelp&) {
    chosen_ = [&] { print(command != nullptr ? command->help() : app.help()); };
  } catch (const CLI::CallForVersion&) {
    chosen_ = [] { print(fmt::format("smelt {} ({})\n", version, commit)); };
  }
  if (chosen_) {
    chosen_();
    flush_output();
    return exit_ok;
  }
  print(app.help());
  flush_output();
  print_error("no command: choose one of the above");
  return exit_usage;
}

int Parser::run(int argc, char** argv) {
  const CLI::App& app = *app_;
  const auto* command = called_command(app, argc, argv);
  const std::string where = command != nullptr ? full_name(*command) + ": " : "";
  try {
    return act(command, argc, argv);
  } catch (const CLI::ParseError& error) {
    print_error(where + describe(app, command, error));
    return exit_usage;
  } catch (const Failure& failure) {
    print_error(where + failure.message);
    return failure.exit_code;
  } catch (const OutputClosed&) {
    return exit_ok;
  } catch (const std::bad_alloc&) {
    print_error(where + "out of memory");
  } catch (const std::exception& error) {
    print_error(where + error.what());
  }
  return exit_failure;
}

}  // namespace smelt::cli
