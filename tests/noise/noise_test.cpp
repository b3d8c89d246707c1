// The rule of base/comparison.hpp on the cases that python/noise.py is held to as well (noise_test.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/comparison.hpp"

namespace smelt {
namespace {

using Json = nlohmann::json;

const Json& cases() {
  static const Json document = Json::parse(std::ifstream(NOISE_CASES));
  return document;
}

VerdictRules rules_of(const Json& named) {
  VerdictRules rules;
  rules.margin = named.value("margin", rules.margin);
  rules.clear = named.value("clear", rules.clear);
  rules.doubt = named.value("doubt", rules.doubt);
  rules.fewest = named.value("fewest", rules.fewest);
  return rules;
}

TEST(Noise, VerdictsAndIntervals) {
  ASSERT_GE(cases()["cases"].size(), 20u);
  for (const auto& each : cases()["cases"]) {
    SCOPED_TRACE(each["why"].get<std::string>());
    const auto finding = judge(each["ratios"].get<std::vector<double>>(), rules_of(each["rules"]));
    EXPECT_EQ(to_string(finding.verdict), each["verdict"].get<std::string>());
    EXPECT_DOUBLE_EQ(finding.ratio.low, each["low"].get<double>());
    EXPECT_DOUBLE_EQ(finding.ratio.median, each["median"].get<double>());
    EXPECT_DOUBLE_EQ(finding.ratio.high, each["high"].get<double>());
    EXPECT_NEAR(finding.ratio.confidence, each["confidence"].get<double>(), 1e-8);
  }
}

TEST(Noise, Looks) {
  for (const auto& each : cases()["looks"]) EXPECT_EQ(next_look(each[0].get<std::size_t>()), each[1]) << each;
}

TEST(Noise, FloorsAndRetakes) {
  for (const auto& each : cases()["floors"]) {
    EXPECT_EQ(floor_moved(each["floors"][0].get<double>(), each["floors"][1].get<double>()), each["moved"]) << each;
  }
  for (const auto& each : cases()["retakes"]) {
    Remeasurements retakes;
    for (std::size_t i = 0; i < each["moved"].size(); ++i) {
      EXPECT_EQ(retakes.again(each["moved"][i].get<bool>()), each["again"][i].get<bool>()) << each << " " << i;
    }
    EXPECT_EQ(retakes.taken_again(), each["taken_again"]) << each;
    EXPECT_EQ(retakes.unsteady(), each["unsteady"]) << each;
  }
}

}  // namespace
}  // namespace smelt
