// The command line: commands with options and help, from argv to values. Hides the parsing library, whose headers are
// slow to compile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace smelt::cli {

/// One subcommand while it is being described. A handle: copies describe the same subcommand. Targets must outlive the
/// parsing; they keep their value if the option is absent. A value out of range is a Failure with exit code 2.
class Command {
 public:
  using Reader = std::function<void(const std::string& text)>;

  /// Names such as "-o,--output", or without dashes for a word in its place.
  Command& flag(const std::string& names, bool& target, const std::string& description);
  Command& text(const std::string& names, std::string& target, const std::string& type, const std::string& description);
  /// An option whose value, after "=", may be omitted. It is `bare` then.
  Command& optional_text(const std::string& name, std::string& target, const std::string& bare,
                         const std::string& description);
  Command& words(const std::string& name, std::vector<std::string>& target, const std::string& type,
                 const std::string& description);
  Command& number(const std::string& names, double& target, double low, double high, const std::string& description);
  Command& integer(const std::string& names, int& target, int low, int high, const std::string& description);
  Command& duration(const std::string& names, double& target_s, const std::string& description);
  Command& value(const std::string& names, const std::string& type, Reader read, const std::string& description);
  /// The same for an option that may be repeated.
  Command& values(const std::string& names, const std::string& type, Reader read, const std::string& description);

  /// Stores another program's command line in `target`: everything from the first word on that is neither an option nor
  /// an option's value, or everything after "--".
  Command& rest(std::vector<std::string>& target, const std::string& type);

  /// Adds a subcommand, as in `smelt graph run`. If there are subcommands, one must be called.
  Command add(const std::string& name, const std::string& description);

  /// Text below the options in --help: examples and remarks.
  Command& footer(const std::string& text);

  /// The action of this command.
  void action(std::function<void()> run);

  /// Whether the option was given. After parsing.
  bool given(const std::string& name) const;

 private:
  friend class Parser;
  struct TrailingArguments {
    const CLI::App* app;
    std::vector<std::string>* target;
  };
  Command(CLI::App& app, std::function<void()>& chosen, std::vector<TrailingArguments>& trailing)
      : app_(&app), chosen_(&chosen), trailing_(&trailing) {}
  CLI::App* app_;
  std::function<void()>* chosen_;
  std::vector<TrailingArguments>* trailing_;
};

class Parser {
 public:
  Parser();
  ~Parser();

  Command add(const std::string& name, const std::string& description);

  /// The command of that name, to which other files add their own subcommands.
  Command add_or_find(const std::string& name, const std::string& description);

  /// Parses argv and runs the command, or prints help, version or an error. Returns the exit code.
  int run(int argc, char** argv);

 private:
  int split_rest(int argc, char** argv) const;
  int act(const CLI::App* command, int argc, char** argv);

  std::unique_ptr<CLI::App> app_;
  std::function<void()> chosen_;
  std::vector<Command::TrailingArguments> trailing_;
};

}  // namespace smelt::cli
