/* Every kind of barrier of an OpenMP runtime; fails if a thread gets past one too early. */
int main(void) {
  int passed = 0, wrong = 0, sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    for (int round = 1; round <= 100; ++round) {
#pragma omp single
      ++passed;
      if (passed != round) wrong = 1;
#pragma omp barrier
    }
    sum += 1;
  }
  return wrong || sum < 1;
}
