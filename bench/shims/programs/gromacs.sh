# A box of water, to be run.
set -e
gmx -quiet solvate -cs spc216 -box 2.2 -o box.gro 2>solvate.log
printf '#include "oplsaa.ff/forcefield.itp"\n#include "oplsaa.ff/spc.itp"\n[ system ]\nwater\n[ molecules ]\nSOL %d\n' \
  "$(grep -c OW box.gro)" >box.top
printf '%s\n' 'integrator = md' 'dt = 0.002' 'nsteps = 400' 'nstlist = 20' 'verlet-buffer-tolerance = -1' 'coulombtype = PME' \
  'cutoff-scheme = Verlet' 'constraints = h-bonds' 'gen-vel = yes' 'gen-seed = 1' 'ld-seed = 1' >run.mdp
gmx -quiet grompp -f run.mdp -c box.gro -p box.top -o run.tpr -maxwarn 5
