// Our own container of graphs (.smg): arrays as they are in memory, to be mapped, checked and used. Little endian.
//
//   0       Header   magic, version, sizes, sections; its own CRC-32C
//   4 KiB   section                   each section starts at a multiple of 4 KiB, and is padded with zeros
//   ...     section
//           CRCs     4 per MiB        CRC-32C of each quarter of each MiB from 4 KiB on up to here; of the last, what is there
//
// A file is complete or absent: it is written under another name and renamed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::graph::container {

constexpr char magic[8] = {'s', 'm', 'e', 'l', 't', 'g', 'r', '\n'};
constexpr std::uint32_t version = 1;
constexpr std::uint32_t byte_order = 0x01020304;
constexpr std::uint64_t alignment = 4u << 10;
constexpr std::uint64_t block_bytes = 1u << 20;
constexpr std::uint32_t most_sections = 60;
constexpr std::size_t name_bytes = 40;

enum class SectionKind : std::uint32_t {
  out_begin = 1,
  out_node_idx,
  in_begin,
  in_node_idx,
  in_edge_ids,
  node_values,
  edge_values
};

struct Section {
  SectionKind kind;
  std::uint32_t type;  ///< for values: a ValueType
  std::uint64_t offset;
  std::uint64_t size_bytes;
  char name[name_bytes];  ///< for values: the name, with a final zero
};
static_assert(sizeof(Section) == 64);

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t byte_order;
  std::uint64_t file_bytes;
  std::uint64_t nodes;
  std::uint64_t edges;
  std::uint32_t node_bytes;
  std::uint32_t edge_bytes;
  std::uint32_t undirected;
  std::uint32_t simple;
  std::uint64_t crcs_offset;
  std::uint32_t sections;
  std::uint32_t crc;  ///< of the header and the used section entries, with 0 in this field
  Section section[most_sections];
};
static_assert(sizeof(Header) <= alignment);

constexpr std::uint64_t aligned(std::uint64_t offset) { return (offset + alignment - 1) / alignment * alignment; }
constexpr std::uint64_t blocks_of(std::uint64_t bytes) { return (bytes + block_bytes - 1) / block_bytes; }

/// Bytes of the header that its CRC covers.
constexpr std::size_t header_bytes(std::uint32_t sections) {
  return offsetof(Header, section) + sections * sizeof(Section);
}

}  // namespace smelt::graph::container
