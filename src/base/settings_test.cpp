#include "base/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>

#include "smelt/settings.hpp"

namespace smelt {
namespace {

TEST(Settings, TableIsSortedAndDocumented) {
  const auto& table = settings();
  ASSERT_FALSE(table.empty());
  for (const auto& setting : table) {
    EXPECT_EQ(std::string(setting.name).rfind("SMELT_", 0), 0u);
    EXPECT_FALSE(std::string(setting.description).empty());
  }
  const auto by_name = [](const Setting& a, const Setting& b) { return std::string(a.name) < b.name; };
  EXPECT_TRUE(std::is_sorted(table.begin(), table.end(), by_name));
}

TEST(Settings, EnvironmentWinsOverDefault) {
  unsetenv("SMELT_TIMEOUT");
  EXPECT_EQ(setting_value("SMELT_TIMEOUT"), "0");
  setenv("SMELT_TIMEOUT", "2.5", 1);
  EXPECT_EQ(setting_value("SMELT_TIMEOUT"), "2.5");
  setenv("SMELT_TIMEOUT", "", 1);
  EXPECT_EQ(setting_value("SMELT_TIMEOUT"), "0") << "empty is as not set";
  unsetenv("SMELT_TIMEOUT");
  EXPECT_EQ(setting_value("SMELT_NO_SUCH_SETTING"), "");
}

TEST(Settings, ReportsUnknownNamesAndBadValues) {
  const auto before = check_settings().size();
  setenv("SMELT_WIAT", "spin", 1);
  setenv("SMELT_WAIT", "sometimes", 1);
  setenv("SMELT_TIMEOUT", "-1", 1);
  EXPECT_EQ(check_settings().size(), before + 3);
  for (const char* name : {"SMELT_WIAT", "SMELT_WAIT", "SMELT_TIMEOUT"}) unsetenv(name);
}

TEST(Settings, ChecksTheValueOfEachSetting) {
  const auto before = check_settings().size();
  const auto problems_of = [&](const char* name, const char* value) {
    setenv(name, value, 1);
    const auto problems = check_settings();
    unsetenv(name);
    if (problems.size() != before && problems.back().find(name) == std::string::npos) return 99;
    return static_cast<int>(problems.size() - before);
  };
  for (const char* name : {"SMELT_MPI", "SMELT_OPENMP", "SMELT_PTHREAD", "SMELT_REVALIDATE", "SMELT_VERBOSE"}) {
    for (const char* good : {"0", "1", ""}) EXPECT_EQ(problems_of(name, good), 0) << name << "=" << good;
    for (const char* bad : {"2", "yes", "0|1", "|", "01"}) EXPECT_EQ(problems_of(name, bad), 1) << name << "=" << bad;
  }
  for (const char* good : {"spin", "yield", "sleep", "auto"}) EXPECT_EQ(problems_of("SMELT_WAIT", good), 0) << good;
  for (const char* bad : {"spi", "spin|yield", "aut", "o"}) EXPECT_EQ(problems_of("SMELT_WAIT", bad), 1) << bad;
  for (const char* name : {"SMELT_MPI_AFTER", "SMELT_MPI_RACE"}) {
    for (const char* good : {"1", "64", "2147483647", ""}) EXPECT_EQ(problems_of(name, good), 0) << name << good;
    for (const char* bad : {"abc", "1e3", "-1", "1.5", " 1", "2147483648"}) EXPECT_EQ(problems_of(name, bad), 1) << bad;
  }
  setenv("SMELT_MPI_AFTER", "2147483648", 1);
  EXPECT_EQ(check_settings().back(), "SMELT_MPI_AFTER=2147483648: not a whole number from 1 to 2147483647");
  unsetenv("SMELT_MPI_AFTER");
  EXPECT_EQ(problems_of("SMELT_MPI_RACE", "0"), 0);
  EXPECT_EQ(problems_of("SMELT_MPI_AFTER", "0"), 1);
  for (const char* good : {"here", "all", ""}) EXPECT_EQ(problems_of("SMELT_MPI_RANKS", good), 0) << good;
  for (const char* bad : {"hre", "her", "2"}) EXPECT_EQ(problems_of("SMELT_MPI_RANKS", bad), 1) << bad;
  for (const char* any : {"x", "/"}) EXPECT_EQ(problems_of("SMELT_CACHE_DIR", any), 0) << any;
  EXPECT_EQ(problems_of("SMELT", "1"), 0) << "another program's";
}

TEST(Settings, ParsesSeconds) {
  EXPECT_EQ(parse_seconds("1.5"), 1.5);
  EXPECT_EQ(parse_seconds("0"), 0.0);
  EXPECT_EQ(parse_seconds("1e9"), 1e9);
  for (const char* text : {"", "-1", "nan", "1e10", "1000000001", "3s", "s", " 1", "0x10"})
    EXPECT_EQ(parse_seconds(text), std::nullopt) << text;
}

TEST(Settings, SecondsHaveADecimalPointInAllLocales) {
  bool found = false;
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "tr_TR.UTF-8"}) {
    found = found || std::setlocale(LC_NUMERIC, name) != nullptr;
  }
  if (!found) GTEST_SKIP() << "no locale with a decimal comma is installed";
  const auto seconds = parse_seconds("1.5");
  std::setlocale(LC_NUMERIC, "C");
  EXPECT_EQ(seconds, 1.5);
}

}  // namespace
}  // namespace smelt
