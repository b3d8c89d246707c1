#include "memory/pages/sizes.hpp"

#include "base/error.hpp"

namespace smelt::memory {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::size_t free_pages(const PageSupport& support, std::size_t page_bytes) {
  for (const auto& [bytes, free] : support.reserved) {
    if (bytes == page_bytes) return free;
  }
  return 0;
}

Result<Pages> decide_huge(bool strict, const PageSupport& support, std::vector<std::string>& notes) {
  if (support.transparent_bytes > 0) return Pages{PageKind::transparent, support.transparent_bytes};
  constexpr const char* reason =
      "transparent huge pages are switched off; see /sys/kernel/mm/transparent_hugepage/enabled";
  if (strict) return make_error(Status::not_supported, "huge pages: {}", reason);
  notes.push_back(fmt::format("small pages: {}", reason));
  return Pages{PageKind::base, support.base_bytes};
}

}  // namespace

Result<Pages> decide_pages(PageSize wish, const PagedMemory& memory, bool strict, const PageSupport& support,
                           std::vector<std::string>& notes) {
  const Pages base{PageKind::base, support.base_bytes};
  switch (wish) {
    case PageSize::base: return base;
    case PageSize::huge: return decide_huge(strict, support, notes);
    case PageSize::best:
      if (support.transparent_bytes == 0) return base;
      if (memory.bytes < memory.nodes * least_huge_pages_per_node * support.transparent_bytes) return base;
      return Pages{PageKind::transparent, support.transparent_bytes};
    case PageSize::reserved_2mib:
    case PageSize::reserved_1gib: break;
  }
  const std::size_t page_bytes = wish == PageSize::reserved_1gib ? 1024 * mib : 2 * mib;
  const std::size_t wanted = memory.copies * ((memory.bytes + page_bytes - 1) / page_bytes);
  const std::size_t free = free_pages(support, page_bytes);
  if (free >= wanted) return Pages{PageKind::reserved, page_bytes};
  const auto reason = fmt::format("{} of {} pages of {} are reserved and free (/sys/kernel/mm/hugepages)", free, wanted,
                                  page_size_name(page_bytes));
  if (strict) return make_error(Status::out_of_memory, "reserved pages: {}", reason);
  notes.push_back("transparent huge pages: " + reason);
  return decide_huge(false, support, notes);
}

}  // namespace smelt::memory
