// Calls the smelt command as a shell does, with pipes or on a terminal, and keeps what it said.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using Json = nlohmann::json;

struct Call {
  int exit_code = -1;  ///< 128 + signal if it died of one
  std::string out;
  std::string err;

  Json json() const;  ///< stdout; fails the test and is null if it is no JSON
};

/// Nothing on stdout, and on stderr one line that `says` this.
void expect_one_line(const Call& call, int exit_code, const std::string& says);

using Words = std::vector<std::string>;

/// `smelt WORDS...` with pipes, an empty cache directory and no SMELT_* variables but those given
/// as NAME=value.
Call smelt(const Words& words, const std::string& input = "", const Words& environment = {});

/// The same with a terminal as stdout and stderr, 100 columns wide; all of it is in `out`.
Call smelt_on_terminal(const Words& words, const Words& environment = {});

/// The same through `sh -c`, where $SMELT is the command.
Call shell(const std::string& script);

/// A directory of this test program, removed at its end.
const std::string& scratch();
std::string scratch_file(const std::string& name, const std::string& content);

/// Machine file of a synthetic machine: 2 packages x 4 cores x 2 PUs, made once.
const std::string& two_packages();
