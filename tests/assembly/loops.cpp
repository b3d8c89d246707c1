// The same loops over smelt's arrays and over plain memory. compare.cpp compares what they are compiled to: functions
// whose names differ in "array" and "plain" alone.
#include "smelt/array.hpp"

extern "C" {

double sum_array(const std::span<const double>& local) {
  double sum = 0;
  for (const double value : local) sum += value;
  return sum;
}
double sum_plain(const std::span<const double>& local) {
  double sum = 0;
  for (const double *at = local.data(), *end = at + local.size(); at != end; ++at) sum += *at;
  return sum;
}

/// Where an Array keeps the pointer to its elements, as a plain structure.
struct Plain {
  void* storage;
  float* data;
};
void scale_array(smelt::Array<float>& array, std::size_t first, std::size_t last) {
  float* const values = array.data();
  for (std::size_t i = first; i < last; ++i) values[i] *= 3;
}
void scale_plain(Plain& array, std::size_t first, std::size_t last) {
  float* const values = array.data;
  for (std::size_t i = first; i < last; ++i) values[i] *= 3;
}

void view_array(const smelt::View<int, 2>& view, std::size_t row, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) view(row, i) = 7;
}
struct PlainView {
  int* data;
  std::size_t rows, columns;
};
void view_plain(const PlainView& view, std::size_t row, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) *(view.data + (row * view.columns + i)) = 7;
}

std::uint64_t gather_array(std::span<std::uint64_t> local, const std::uint32_t* index, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += local[index[i]];
  return sum;
}
std::uint64_t gather_plain(std::uint64_t* local, std::size_t, const std::uint32_t* index, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += local[index[i]];
  return sum;
}

}  // extern "C"
