#include "base/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Settings, ParsesSeconds) {
  EXPECT_EQ(parse_seconds("1.5"), 1.5);
  EXPECT_EQ(parse_seconds("0"), 0.0);
  for (const char* text : {"", "-1", "nan", "1e10", "3s"}) EXPECT_EQ(parse_seconds(text), std::nullopt) << text;
}

}  // namespace
}  // namespace smelt
