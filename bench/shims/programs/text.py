# Text that can be compressed.
import random
random.seed(1)
words = ["".join(random.choice("abcdefghijklmnop") for _ in range(random.randint(2, 9))) for _ in range(3000)]
for _ in range(240000):
    print(" ".join(random.choice(words) for _ in range(10)))
