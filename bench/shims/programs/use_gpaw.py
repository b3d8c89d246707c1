from ase.build import molecule
from gpaw import GPAW, PW
from gpaw.mpi import rank
water = molecule("H2O")
water.center(vacuum=2.5)
water.calc = GPAW(mode=PW(250), xc="PBE", txt=None)
energy = water.get_potential_energy()
if rank == 0:
    print(round(energy, 6))
