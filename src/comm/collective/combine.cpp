// The built-in reductions: plain loops, which the compiler vectorizes for several instruction sets; the loader
// picks the one for this CPU.
#include <cstddef>
#include <functional>

#include "base/clones.hpp"
#include "smelt/collective.hpp"

namespace smelt::detail {
namespace {

template <class T, class Op>
inline __attribute__((always_inline)) void loop(T* to, const T* a, const T* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(Op()(a[i], b[i]));
}

}  // namespace

// Function clones cannot be instantiations of templates, so there is one function for each type and operator.
#define SMELT_LOOPS(name, T, Op)                                                                                       \
  SMELT_VECTOR_CLONES static void name##_merge(void* result, const void* first, const void* second, std::size_t count, \
                                               void*) {                                                                \
    loop<T, Op>(static_cast<T*>(result), static_cast<const T*>(first), static_cast<const T*>(second), count);          \
  }                                                                                                                    \
  static void name##_combine(void* accumulator, const void* operand, std::size_t count, void* context) {               \
    name##_merge(accumulator, accumulator, operand, count, context);                                                   \
  }

#define SMELT_NUMBERS(type, T)                       \
  SMELT_LOOPS(type##_sum, T, std::plus<T>)           \
  SMELT_LOOPS(type##_product, T, std::multiplies<T>) \
  SMELT_LOOPS(type##_minimum, T, Smaller<T>)         \
  SMELT_LOOPS(type##_maximum, T, Larger<T>)
#define SMELT_BITS(type, T)                       \
  SMELT_LOOPS(type##_bit_and, T, std::bit_and<T>) \
  SMELT_LOOPS(type##_bit_or, T, std::bit_or<T>)   \
  SMELT_LOOPS(type##_bit_xor, T, std::bit_xor<T>)

#define SMELT_ENTRY(type, T, op) \
  Reduction { sizeof(T), type##_##op##_combine, nullptr, true, type##_##op##_merge, false }
#define SMELT_TABLE(type, T, ...)                                                                                \
  template <>                                                                                                    \
  Reduction builtin_reduction<T>(BuiltinOp op) {                                                                 \
    static const Reduction table[] = {SMELT_ENTRY(type, T, sum), SMELT_ENTRY(type, T, product),                  \
                                      SMELT_ENTRY(type, T, minimum), SMELT_ENTRY(type, T, maximum) __VA_ARGS__}; \
    return table[static_cast<int>(op)];                                                                          \
  }
#define SMELT_INTEGER(type, T) \
  SMELT_NUMBERS(type, T)       \
  SMELT_BITS(type, T)          \
  SMELT_TABLE(type, T, , SMELT_ENTRY(type, T, bit_and), SMELT_ENTRY(type, T, bit_or), SMELT_ENTRY(type, T, bit_xor))
#define SMELT_FLOATING(type, T) \
  SMELT_NUMBERS(type, T)        \
  SMELT_TABLE(type, T, )

using uchar = unsigned char;
using ushort_type = unsigned short;
using uint_type = unsigned int;
using llong = long long;
using ullong = unsigned long long;

SMELT_INTEGER(i8, signed char)
SMELT_INTEGER(i16, short)
SMELT_INTEGER(i32, int)
SMELT_INTEGER(i64, llong)
SMELT_INTEGER(u8, uchar)
SMELT_INTEGER(u16, ushort_type)
SMELT_INTEGER(u32, uint_type)
SMELT_INTEGER(u64, ullong)
SMELT_FLOATING(f32, float)
SMELT_FLOATING(f64, double)

}  // namespace smelt::detail
