// Memory for exceptions, in the place of the C++ library's, which sets some 70 KiB of the program's heap aside for
// times without memory when it is loaded. Every array of the program would lie elsewhere than without the shim, and
// computations that are sensitive to that take up to a tenth longer. What the shims throw they catch, with nothing but
// the heap.
#include <cstddef>
#include <cstdlib>
#include <exception>

namespace {
// What lies before an exception and belongs to the C++ library, on all 64-bit machines: __cxa_refcounted_exception.
constexpr std::size_t header_bytes = 128;
}  // namespace

extern "C" {

void* __cxa_allocate_exception(std::size_t bytes) noexcept {
  auto* const memory = static_cast<std::byte*>(std::calloc(1, header_bytes + bytes));
  if (memory == nullptr) std::terminate();
  return memory + header_bytes;
}

void __cxa_free_exception(void* exception) noexcept { std::free(static_cast<std::byte*>(exception) - header_bytes); }

}  // extern "C"
