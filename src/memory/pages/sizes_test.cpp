#include "memory/pages/sizes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace smelt::memory {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t mib = std::size_t{1} << 20;

PageSupport with_huge() {
  PageSupport support;
  support.transparent_bytes = 2 * mib;
  support.reserved = {{2 * mib, 10}, {1024 * mib, 0}};
  return support;
}

TEST(Sizes, HugePagesIfEachNodeGetsItsShare) {
  std::vector<std::string> notes;
  EXPECT_EQ(decide_pages(PageSize::best, 16 * mib, 4, false, with_huge(), notes)->kind, PageKind::transparent);
  EXPECT_EQ(decide_pages(PageSize::best, 16 * mib - 1, 4, false, with_huge(), notes)->kind, PageKind::base);
  EXPECT_EQ(decide_pages(PageSize::base, 16 * mib, 1, false, with_huge(), notes)->kind, PageKind::base);
  EXPECT_EQ(decide_pages(PageSize::best, 16 * mib, 1, false, PageSupport{}, notes)->kind, PageKind::base);
  EXPECT_THAT(notes, IsEmpty());
}

TEST(Sizes, ReservedPagesWhileAvailable) {
  std::vector<std::string> notes;
  const auto pages = decide_pages(PageSize::reserved_2mib, 19 * mib, 1, true, with_huge(), notes);
  ASSERT_TRUE(pages);
  EXPECT_EQ(pages->kind, PageKind::reserved);
  EXPECT_EQ(pages->bytes, 2 * mib);
  EXPECT_THAT(notes, IsEmpty());
}

TEST(Sizes, AnUnmetRequestIsANoteOrAnError) {
  std::vector<std::string> notes;
  const auto wished = decide_pages(PageSize::reserved_2mib, 21 * mib, 1, false, with_huge(), notes);
  ASSERT_TRUE(wished);
  EXPECT_EQ(wished->kind, PageKind::transparent);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("10 of 11 pages of 2 MiB")));
  const auto strict = decide_pages(PageSize::reserved_1gib, mib, 1, true, with_huge(), notes);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().status, Status::out_of_memory);
  EXPECT_THAT(strict.error().message, HasSubstr("0 of 1 pages of 1 GiB"));
  const auto no_huge = decide_pages(PageSize::huge, mib, 1, true, PageSupport{}, notes);
  ASSERT_FALSE(no_huge);
  EXPECT_EQ(no_huge.error().status, Status::not_supported);
}

}  // namespace
}  // namespace smelt::memory
