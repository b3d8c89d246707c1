import time
from pyscf import dft, gto
water = gto.M(atom="O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587", basis="cc-pvtz", verbose=0)
start = time.perf_counter()
energy = dft.RKS(water, xc="b3lyp").kernel()
print("seconds", time.perf_counter() - start)
print(round(energy, 8))
