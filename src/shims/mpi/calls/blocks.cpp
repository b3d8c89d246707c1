#include "shims/mpi/calls/blocks.hpp"

#include <algorithm>
#include <iterator>

namespace smelt::shims::mpi {
namespace {

using Array = const size_t* smelt_call::*;
constexpr Array arrays[] = {&smelt_call::in_counts, &smelt_call::in_offsets, &smelt_call::out_counts,
                            &smelt_call::out_offsets};

}  // namespace

void keep_blocks(smelt_call& call, int ranks, std::vector<std::size_t>& blocks) {
  if (call.in_counts == nullptr && call.out_counts == nullptr) return;
  const auto size = static_cast<std::size_t>(ranks);
  blocks.resize(std::size(arrays) * size);
  std::size_t* copy = blocks.data();
  for (const Array array : arrays) {
    if (call.*array == nullptr) continue;
    std::copy_n(call.*array, size, copy);
    call.*array = copy;
    copy += size;
  }
}

bool same_blocks(const smelt_call& a, const smelt_call& b, int ranks) noexcept {
  return std::all_of(std::begin(arrays), std::end(arrays), [&](const Array array) {
    if (a.*array == nullptr || b.*array == nullptr) return a.*array == b.*array;
    return std::equal(a.*array, a.*array + ranks, b.*array);
  });
}

}  // namespace smelt::shims::mpi
