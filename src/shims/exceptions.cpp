// Memory for exceptions, in the place of the C++ library's, which sets some 70 KiB of the program's heap aside for
// times without memory when it is loaded. Every array of the program would lie elsewhere than without the shim, and
// computations that are sensitive to that take up to a tenth longer. What the shims throw they catch. Where the heap
// is at its end, std::bad_alloc and other small exceptions have a few places outside of it.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace {

// What lies before an exception and belongs to the C++ library, on all 64-bit machines: __cxa_refcounted_exception.
constexpr std::size_t header_bytes = 128;

struct Place {
  alignas(16) std::byte bytes[256] = {};
  std::atomic_flag taken = {};  // acquire in take_place(), release in give_back(): the next user comes after the last
};
constinit std::array<Place, 16> places;

std::byte* take_place(std::size_t size) noexcept {
  for (Place& each : places) {
    if (size <= sizeof each.bytes && !each.taken.test_and_set(std::memory_order_acquire)) {
      return static_cast<std::byte*>(std::memset(each.bytes, 0, sizeof each.bytes));
    }
  }
  return nullptr;
}

/// False: it is none of the places.
bool give_back(const std::byte* memory) noexcept {
  for (Place& each : places) {
    if (memory == each.bytes) return each.taken.clear(std::memory_order_release), true;
  }
  return false;
}

}  // namespace

extern "C" {

void* __cxa_allocate_exception(std::size_t bytes) noexcept {
  auto* memory = static_cast<std::byte*>(std::calloc(1, header_bytes + bytes));
  if (memory == nullptr) memory = take_place(header_bytes + bytes);
  if (memory == nullptr) std::terminate();
  return memory + header_bytes;
}

void __cxa_free_exception(void* exception) noexcept {
  std::byte* const memory = static_cast<std::byte*>(exception) - header_bytes;
  if (!give_back(memory)) std::free(memory);
}

}  // extern "C"
