#include "smelt/error.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/error.hpp"

namespace smelt {
namespace {

TEST(Status, EachHasANameOfItsOwn) {
  const std::string unknown = status_string(static_cast<Status>(1000));
  std::set<std::string> names{unknown};
  for (const Status status :
       {Status::ok, Status::invalid_argument, Status::not_found, Status::io_error, Status::bad_format,
        Status::out_of_memory, Status::not_supported, Status::permission_denied, Status::timed_out, Status::broken}) {
    EXPECT_TRUE(names.insert(status_string(status)).second) << status_string(status);
  }
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good = 3;
  EXPECT_TRUE(good);
  EXPECT_EQ(*good, 3);
  const Result<int> bad = make_error(Status::not_found, "no {}", "file");
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().status, Status::not_found);
  EXPECT_EQ(bad.error().message, "no file");
  EXPECT_TRUE(Result<void>());
  EXPECT_FALSE(Result<void>(bad.error()));
}

TEST(Shown, IsOneShortPrintableLine) {
  EXPECT_EQ(shown("plain text ~"), "plain text ~");
  EXPECT_EQ(shown("a\nb\x7f\xc3"), "a?b??");
  EXPECT_EQ(shown("12345", 5), "12345");
  EXPECT_EQ(shown("123456", 5), "12345...");
  EXPECT_EQ(shown(std::string(41, 'x')), std::string(40, 'x').append("..."));
  EXPECT_EQ(shown(std::string(40, ' ')), std::string(40, ' '));
}

}  // namespace
}  // namespace smelt
