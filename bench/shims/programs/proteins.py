# Related sequences of amino acids of different lengths, in FASTA.
import random
random.seed(1)
sequences = ["".join(random.choice("ACDEFGHIKLMNPQRSTVWY") for _ in range(300))]
while len(sequences) < 60:
    parent = random.choice(sequences)
    sequences.append("".join(random.choice(["", "A", "G", "LK"]) if random.random() < 0.1 else each for each in parent))
for i, sequence in enumerate(sequences):
    print(f">s{i}\n{sequence}")
