// The C interface, exact sums: smelt_exact_sum has the bytes of smelt::ExactSum.
#include "smelt/exact_sum.hpp"

#include <cstring>
#include <type_traits>

#include "capi/handles.hpp"

static_assert(sizeof(smelt_exact_sum) == sizeof(smelt::ExactSum));
static_assert(alignof(smelt_exact_sum) == alignof(smelt::ExactSum));
static_assert(std::is_trivially_copyable_v<smelt::ExactSum>);

namespace {

using smelt::capi::fail_argument;
using smelt::capi::guarded;

smelt::ExactSum value_of(const smelt_exact_sum& sum) noexcept {
  smelt::ExactSum value;
  std::memcpy(static_cast<void*>(&value), &sum, sizeof value);
  return value;
}

template <class Float>
void add(smelt_exact_sum& sum, const Float* values, size_t count) noexcept {
  smelt::ExactSum value = value_of(sum);
  value.add(values, count);
  std::memcpy(&sum, &value, sizeof sum);
}

}  // namespace

extern "C" {

void smelt_exact_add(smelt_exact_sum* sum, const double* values, size_t count) { add(*sum, values, count); }

void smelt_exact_add_float(smelt_exact_sum* sum, const float* values, size_t count) { add(*sum, values, count); }

void smelt_exact_combine(void* accumulator, const void* operand, size_t count, void* context) {
  smelt::exact_sum().combine(accumulator, operand, count, context);
}

double smelt_exact_double(const smelt_exact_sum* sum) { return value_of(*sum).to_double(); }

float smelt_exact_float(const smelt_exact_sum* sum) { return value_of(*sum).to_float(); }

int smelt_sum_exactly(smelt_rank* rank, const double* values, size_t count, double* total) {
  if (rank == nullptr || total == nullptr || (values == nullptr && count > 0)) {
    return guarded([] { return fail_argument("smelt_sum_exactly", "rank, values or total is NULL"); });
  }
  return static_cast<int>(smelt::sum_exactly(rank->value, values, count, total));
}

int smelt_allreduce_exactly(smelt_rank* rank, const double* in, double* out, size_t count) {
  if (rank == nullptr || ((in == nullptr || out == nullptr) && count > 0)) {
    return guarded([] { return fail_argument("smelt_allreduce_exactly", "rank, in or out is NULL"); });
  }
  return static_cast<int>(smelt::allreduce_exactly(rank->value, in, out, count));
}

}  // extern "C"
