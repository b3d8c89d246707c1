/* One entry of the configuration without shared memory: single-decree Paxos among R replicas, by messages that arrive at any
 * time, or never. A crash is a replica that does nothing more, so every step is optional.
 *
 * IGNORE_VALUES: a proposer proposes its own value, whatever the promises say. NO_PROMISE: an acceptor takes ballots below
 * the one that it has promised.
 */
#define R 3
#define MAJORITY 2
#define PROPOSERS 2                        /* proposer p has value p + 1 and the ballots p + 1, p + 1 + PROPOSERS, ... */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define BALLOTS (PROPOSERS * ROUNDS)

byte promised[R], taken_ballot[R], taken_value[R];
byte proposed[BALLOTS + 1];                /* value of each ballot's accept messages; 0: none yet */
byte taken[BALLOTS + 1];                   /* how many replicas took it */
byte decided;

proctype proposer(byte p) {
  byte ballot = p + 1, promises, best_ballot, value, i;
  bit asked[R];
  value = p + 1;
  do
  :: atomic { proposed[ballot] == 0 && promises < MAJORITY ->   /* a prepare message, and the promise */
       if
       :: i = 0 :: i = 1 :: i = 2
       fi;
       if
       :: !asked[i] && promised[i] < ballot ->
         promised[i] = ballot; asked[i] = 1; promises++;
#ifndef IGNORE_VALUES
         if
         :: taken_ballot[i] > best_ballot -> best_ballot = taken_ballot[i]; value = taken_value[i]
         :: else
         fi
#endif
       :: else
       fi;
       i = 0 }
  :: atomic { promises == MAJORITY && proposed[ballot] == 0 -> proposed[ballot] = value }
  :: atomic { ballot + PROPOSERS <= BALLOTS ->              /* a time-out, at any moment */
       ballot = ballot + PROPOSERS; promises = 0; best_ballot = 0; value = p + 1;
       asked[0] = 0; asked[1] = 0; asked[2] = 0 }
  :: break
  od
}

proctype replica(byte r) {
  byte ballot;
  do
  :: atomic { true -> ballot = 1;
       do
       :: ballot < BALLOTS -> ballot++
       :: break
       od;
       if
#ifdef NO_PROMISE
       :: proposed[ballot] != 0 && taken_ballot[r] != ballot ->
#else
       :: proposed[ballot] != 0 && promised[r] <= ballot && taken_ballot[r] < ballot ->
#endif
         promised[r] = (promised[r] > ballot -> promised[r] : ballot);
         taken_ballot[r] = ballot; taken_value[r] = proposed[ballot];
         taken[ballot]++;
         if
         :: taken[ballot] == MAJORITY ->
           assert(decided == 0 || decided == proposed[ballot]);   /* one value is chosen */
           decided = proposed[ballot]
         :: else
         fi
       :: else
       fi;
       ballot = 0 }
  od
}

init {
  byte i;
  atomic {
    do
    :: i < R -> run replica(i); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < PROPOSERS -> run proposer(i); i++
    :: else -> break
    od
  }
}
