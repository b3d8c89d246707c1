#include "comm/group/shared_layout.hpp"

namespace smelt::comm {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t whole_pages(std::size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

}  // namespace

SharedLayout::SharedLayout(std::byte* memory, int ranks)
    : memory_(memory),
      parts_(memory != nullptr ? memory + whole_pages(sizeof(ControlBlock)) : nullptr),
      ranks_(ranks),
      channel_stride_(channel::ump_bytes(channel_lines(ranks)) + sizeof(DirectReads)),
      part_bytes_(whole_pages(head_bytes + StagingRing::bytes + static_cast<std::size_t>(ranks) * channel_stride_)) {}

std::size_t SharedLayout::bytes(int ranks) {
  return whole_pages(sizeof(ControlBlock)) +
         static_cast<std::size_t>(ranks) * SharedLayout(nullptr, ranks).part_bytes();
}

std::byte* SharedLayout::channel(int sender, int receiver) const {
  return part(receiver) + head_bytes + StagingRing::bytes + static_cast<std::size_t>(sender) * channel_stride_;
}

DirectReads& SharedLayout::consumed(int sender, int receiver) const {
  return *reinterpret_cast<DirectReads*>(channel(sender, receiver) + channel::ump_bytes(channel_lines(ranks_)));
}

}  // namespace smelt::comm
