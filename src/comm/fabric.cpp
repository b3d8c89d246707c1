#include "comm/fabric.hpp"

namespace smelt::comm {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t whole_pages(std::size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

}  // namespace

std::size_t Fabric::channel_stride() const { return channel::ump_bytes(channel_lines(ranks_)) + sizeof(Consumed); }

std::size_t Fabric::part_bytes() const {
  return whole_pages(head_bytes + static_cast<std::size_t>(slots) * slot_bytes +
                     static_cast<std::size_t>(ranks_) * channel_stride());
}

std::size_t Fabric::bytes(int ranks) {
  return whole_pages(sizeof(Control)) + static_cast<std::size_t>(ranks) * Fabric(nullptr, ranks).part_bytes();
}

std::byte* Fabric::part(int rank) const {
  return memory_ + whole_pages(sizeof(Control)) + static_cast<std::size_t>(rank) * part_bytes();
}

std::byte* Fabric::channel(int sender, int receiver) const {
  return part(receiver) + head_bytes + static_cast<std::size_t>(slots) * slot_bytes +
         static_cast<std::size_t>(sender) * channel_stride();
}

Consumed& Fabric::consumed(int sender, int receiver) const {
  return *reinterpret_cast<Consumed*>(channel(sender, receiver) + channel::ump_bytes(channel_lines(ranks_)));
}

}  // namespace smelt::comm
