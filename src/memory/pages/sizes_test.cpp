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
  EXPECT_EQ(decide_pages(PageSize::best, {.bytes = 16 * mib, .nodes = 4}, false, with_huge(), notes)->kind,
            PageKind::transparent);
  EXPECT_EQ(decide_pages(PageSize::best, {.bytes = 16 * mib - 1, .nodes = 4}, false, with_huge(), notes)->kind,
            PageKind::base);
  EXPECT_EQ(decide_pages(PageSize::base, {.bytes = 16 * mib}, false, with_huge(), notes)->kind, PageKind::base);
  EXPECT_EQ(decide_pages(PageSize::best, {.bytes = 16 * mib}, false, PageSupport{}, notes)->kind, PageKind::base);
  EXPECT_THAT(notes, IsEmpty());
}

TEST(Sizes, ReservedPagesWhileAvailable) {
  std::vector<std::string> notes;
  const auto pages = decide_pages(PageSize::reserved_2mib, {.bytes = 19 * mib}, true, with_huge(), notes);
  ASSERT_TRUE(pages);
  EXPECT_EQ(pages->kind, PageKind::reserved);
  EXPECT_EQ(pages->bytes, 2 * mib);
  EXPECT_THAT(notes, IsEmpty());
}

TEST(Sizes, AnUnmetRequestIsANoteOrAnError) {
  std::vector<std::string> notes;
  const auto wished = decide_pages(PageSize::reserved_2mib, {.bytes = 21 * mib}, false, with_huge(), notes);
  ASSERT_TRUE(wished);
  EXPECT_EQ(wished->kind, PageKind::transparent);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("10 of 11 pages of 2 MiB")));
  const auto copies =
      decide_pages(PageSize::reserved_2mib, {.bytes = 11 * mib, .copies = 2}, false, with_huge(), notes);
  ASSERT_TRUE(copies);
  EXPECT_EQ(copies->kind, PageKind::transparent);
  EXPECT_THAT(notes.back(), HasSubstr("10 of 12 pages of 2 MiB"));
  const auto strict = decide_pages(PageSize::reserved_1gib, {.bytes = mib}, true, with_huge(), notes);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().status, Status::out_of_memory);
  EXPECT_THAT(strict.error().message, HasSubstr("0 of 1 pages of 1 GiB"));
  const auto no_huge = decide_pages(PageSize::huge, {.bytes = mib}, true, PageSupport{}, notes);
  ASSERT_FALSE(no_huge);
  EXPECT_EQ(no_huge.error().status, Status::not_supported);
}

}  // namespace
}  // namespace smelt::memory
