#include <stdio.h>
static long total;
__attribute__((noinline)) void last(long sum) { printf("%ld\n", sum); }
int main() {
  for (int round = 0; round < 2000; ++round) {
    long sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 1000; ++i) sum += i % (round + 1);
    total += sum;
  }
  last(total);
}
