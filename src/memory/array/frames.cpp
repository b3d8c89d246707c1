// Slots: small pieces of memory on NUMA nodes, all in one mapping.
#include "base/error.hpp"
#include "memory/array/storage.hpp"

namespace smelt::memory {

struct Slots::State {
  PageMapping pages;
};

Slots::Slots() noexcept = default;
Slots::Slots(Slots&&) noexcept = default;
Slots& Slots::operator=(Slots&&) noexcept = default;
Slots::~Slots() = default;

Result<Slots> Slots::create(const std::vector<int>& numa_nodes, std::size_t slot_bytes) {
  const auto page_bytes = static_cast<std::size_t>(read_page_support().base_bytes);
  Slots slots;
  slots.size_ = static_cast<int>(numa_nodes.size());
  slots.stride_ = (slot_bytes + page_bytes - 1) / page_bytes * page_bytes;
  auto pages = PageMapping::map(slots.stride_ * numa_nodes.size(), PageKind::base, page_bytes);
  if (!pages) return pages.error();
  slots.data_ = pages->data();
  for (int i = 0; i < slots.size_; ++i) {
    // If the kernel refuses, the slot is only farther away.
    (void)set_node_policy(slots.slot(i), slots.stride_, numa_nodes[static_cast<std::size_t>(i)]);
  }
  if (auto there = populate(pages->data(), pages->size()); !there) return there.error();
  slots.state_ = std::make_unique<State>(State{*std::move(pages)});
  return slots;
}

}  // namespace smelt::memory
