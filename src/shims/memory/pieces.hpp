// Memory that is one mapping for the program, and several for the kernel, which moves and extends one at a time.
#pragma once

#include <cstddef>

namespace smelt::shims::memory {

using Remap = void* (*)(void*, std::size_t, std::size_t, int, ...);

/// mremap to a larger size, without a given place, where the kernel has refused because of several mappings. Private
/// memory with the same rights everywhere is extended, or moved piece by piece; null: it is something else, or there is
/// no room, and nothing has changed.
void* remap_pieces(Remap remap, void* address, std::size_t before, std::size_t after, int flags) noexcept;

}  // namespace smelt::shims::memory
