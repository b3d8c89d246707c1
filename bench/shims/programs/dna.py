# Related sequences of bases, in FASTA: how many, and how long.
import random
import sys

count, length = map(int, sys.argv[1:])
random.seed(1)
sequences = ["".join(random.choice("ACGT") for _ in range(length))]
while len(sequences) < count:
    parent = random.choice(sequences)
    sequences.append("".join(random.choice("ACGT") if random.random() < 0.06 else each for each in parent))
for i, sequence in enumerate(sequences):
    print(f">s{i}\n{sequence}")
