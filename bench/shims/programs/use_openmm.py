import time
import openmm
count, side = 1000, 5.0
system, forces = openmm.System(), openmm.NonbondedForce()
for _ in range(count):
    system.addParticle(39.9)
    forces.addParticle(0, 0.34, 1)
forces.setNonbondedMethod(forces.CutoffPeriodic)
system.addForce(forces)
system.setDefaultPeriodicBoxVectors(openmm.Vec3(side, 0, 0), openmm.Vec3(0, side, 0), openmm.Vec3(0, 0, side))
platform = openmm.Platform.getPlatformByName("CPU")
context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform, {"Threads": "2", "DeterministicForces": "true"})
context.setPositions([openmm.Vec3(i % 10, i // 10 % 10, i // 100) * 0.5 for i in range(count)])
start = time.perf_counter()
context.getIntegrator().step(500)
print("seconds", time.perf_counter() - start)
print(round(context.getState(getEnergy=True).getPotentialEnergy()._value, 2))
