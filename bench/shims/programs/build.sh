#!/bin/bash
set -e
for i in 1 2 3 4; do
  printf '#include <stdio.h>\nint main() { long s = 0;\n#pragma omp parallel for reduction(+:s)\nfor (long i = 0; i < %d; ++i) s += i;\nprintf("%%ld\\n", s); }\n' $((i * 100000)) >p$i.c
done
printf 'all: p1 p2 p3 p4\np%%: p%%.c\n\tgcc -O2 -fopenmp $< -o $@\n' >Makefile
make -s -j2
for i in 1 2 3 4; do ./p$i; done | sort -rn
find . -name 'p?' | sort | xargs -n 1 -P 2 sh -c '"$0" | wc -l'
