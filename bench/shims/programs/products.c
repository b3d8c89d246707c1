// Products of sparse matrices by SuiteSparse:GraphBLAS.
#include <GraphBLAS.h>
#include <stdio.h>
#include <stdlib.h>

enum { rows = 3000, entries = 60000, products = 20 };

int main(void) {
  static GrB_Index row[entries], column[entries];
  static double value[entries];
  srand(1);
  for (int i = 0; i < entries; i++) {
    row[i] = rand() % rows;
    column[i] = rand() % rows;
    value[i] = rand() % 8;
  }
  GrB_init(GrB_BLOCKING);
  GrB_Matrix a, product;
  GrB_Matrix_new(&a, GrB_FP64, rows, rows);
  GrB_Matrix_build_FP64(a, row, column, value, entries, GrB_PLUS_FP64);
  GrB_Matrix_new(&product, GrB_FP64, rows, rows);
  for (int i = 0; i < products; i++) GrB_mxm(product, NULL, NULL, GrB_PLUS_TIMES_SEMIRING_FP64, a, a, NULL);
  double sum;
  GrB_Matrix_reduce_FP64(&sum, NULL, GrB_PLUS_MONOID_FP64, product, NULL);
  GrB_Index stored;
  GrB_Matrix_nvals(&stored, product);
  printf("%g %lu\n", sum, (unsigned long)stored);
  GrB_finalize();
}
