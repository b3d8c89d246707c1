/* Configuration "paxos" of the replicated log (src/state/log): a majority of the replicas agrees to another leader, and is
 * up to date whenever one that lives is evicted. A model for Spin of these rules alone; log_slots.pml has what is the same
 * with "cas": slots, the floor, and how a replica is evicted and returns.
 *
 * A replica may stop between any two steps, for any time or for ever. A fault is a death, or a leader that is stopped
 * between its count and its eviction for so long that another one leads.
 *
 * Checked: a leader begins only after a majority has consented to the end of the epoch before; with fewer faults than a
 * majority, a replica that is up to date lives.
 *
 * UNCOUNTED: a leader evicts without a count. ALONE: a replica leads without the consent of others.
 */
#ifndef R
#define R 3
#endif
#ifndef E
#define E 3                                /* epochs */
#endif
#ifndef RETURNS
#define RETURNS 1
#endif
#define MAJORITY (R / 2 + 1)

byte epoch = 1, leader = 0;                /* the configuration */
byte contested;                            /* the epoch that somebody wants to end */
byte consent[R];
bit live[R] = 1;                           /* standing live; 0: evicted */
bit dead[R];
byte faults, returns;

inline count_consents() {
  n = 0; i = 0;
  do
  :: i < R -> n = n + (consent[i] >= epoch); i++
  :: else -> break
  od;
  i = 0
}

/* Dead ones that nobody has noticed count, too. */
inline count_live_without(rank) {
  n = 0; i = 0;
  do
  :: i < R -> n = n + (live[i] && i != rank); i++
  :: else -> break
  od;
  i = 0
}

/* One that is up to date lives, if the faults are those of a minority. */
inline check() {
  i = 0;
  do
  :: i < R && !(live[i] && !dead[i]) -> i++
  :: else -> break
  od;
  assert(i < R || faults >= MAJORITY);
  i = 0
}

proctype replica(byte r) {
  byte seen, victim, n, i;                 /* seen: the epoch in which it leads; 0: it does not */
  bit evicts;
  do
  :: atomic { !dead[r] && epoch < E && contested < epoch && leader != r && live[r] -> contested = epoch }
  :: atomic { !dead[r] && consent[r] < contested -> consent[r] = contested }
  :: atomic { !dead[r] && live[r] && leader != r && epoch < E && contested >= epoch && !evicts ->   /* take_over() */
       count_consents();
#ifdef ALONE
       n = R;
#endif
       if
       :: n >= MAJORITY ->
            n = 0; i = 0;
            do
            :: i < R -> n = n + (consent[i] >= epoch); i++
            :: else -> break
            od;
            assert(n >= MAJORITY);
            epoch++; leader = r; seen = epoch
       :: else
       fi;
       n = 0; i = 0 }
  :: atomic { !dead[r] && live[r] && leader == r && seen != epoch && !evicts -> seen = epoch }

  /* evict(): the count, then the compare-and-swap */
  :: atomic { !dead[r] && live[r] && leader == r && seen == epoch && !evicts ->
       if
       :: victim = 0
       :: victim = 1
       :: victim = 2
#if R > 3
       :: victim = 3
       :: victim = 4
#endif
       fi;
       count_live_without(victim);
       if
#ifdef UNCOUNTED
       :: victim != r && live[victim] -> evicts = 1
#else
       :: victim != r && live[victim] && n >= MAJORITY -> evicts = 1
#endif
       :: else -> victim = 0
       fi;
       n = 0 }
  :: atomic { !dead[r] && evicts ->
       if
       :: epoch != seen -> faults++
       :: else
       fi;
       live[victim] = 0; evicts = 0; victim = 0;
       check() }

  /* the way back: another one that is up to date gives its state */
  :: atomic { !dead[r] && !live[r] && returns < RETURNS && live[leader] && !dead[leader] && !evicts ->
       returns++; live[r] = 1 }

  :: atomic { !dead[r] && faults + 1 < MAJORITY -> dead[r] = 1; faults++; check() }
  :: dead[r] -> break
  od
}

init {
  byte i;
  atomic {
    do
    :: i < R -> run replica(i); i++
    :: else -> break
    od
  }
}
