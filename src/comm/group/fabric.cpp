#include "comm/group/fabric.hpp"

namespace smelt::comm {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t whole_pages(std::size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

}  // namespace

Fabric::Fabric(std::byte* memory, int ranks)
    : memory_(memory),
      parts_(memory != nullptr ? memory + whole_pages(sizeof(Control)) : nullptr),
      ranks_(ranks),
      channel_stride_(channel::ump_bytes(channel_lines(ranks)) + sizeof(Consumed)),
      part_bytes_(whole_pages(head_bytes + Stage::bytes + static_cast<std::size_t>(ranks) * channel_stride_)) {}

std::size_t Fabric::bytes(int ranks) {
  return whole_pages(sizeof(Control)) + static_cast<std::size_t>(ranks) * Fabric(nullptr, ranks).part_bytes();
}

std::byte* Fabric::channel(int sender, int receiver) const {
  return part(receiver) + head_bytes + Stage::bytes + static_cast<std::size_t>(sender) * channel_stride_;
}

Consumed& Fabric::consumed(int sender, int receiver) const {
  return *reinterpret_cast<Consumed*>(channel(sender, receiver) + channel::ump_bytes(channel_lines(ranks_)));
}

}  // namespace smelt::comm
