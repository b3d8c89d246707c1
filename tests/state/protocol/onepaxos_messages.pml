/* 1Paxos without shared memory (configuration "paxos"): who is dead takes its state along. A configuration utility decides on
 * one configuration per epoch, as configuration_paxos.pml does, and needs a majority for that.
 *
 *   leader change     by anybody: (L', A). L' asks A what it has accepted, which then takes nothing from older epochs, and
 *                     goes on from there. A must live.
 *   acceptor change   by the leader alone, once it knows what A had accepted: (L, A') with all that L has proposed, at the
 *                     same indices, as a part of the configuration. A' begins with that.
 *
 * Both dead: nobody can know what was accepted, and nothing is appended any more.
 *
 * NOT_CARRIED: A' begins empty, and gets the proposals from L. ANYBODY_CHANGES: somebody else than the leader takes another
 * acceptor. UNPREPARED: a new leader does not ask the acceptor. NO_EPOCHS: an acceptor takes proposals of older epochs.
 */
#define R 3
#ifndef E
#define E 2                                /* take-overs */
#endif
#ifndef M
#define M 2                                /* entries */
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#define EPOCHS (E + 2)

byte epoch = 1;
byte leader[EPOCHS], acceptor[EPOCHS];
byte since[EPOCHS];                        /* from which epoch on it is the acceptor: that has what is carried */
bit ready[EPOCHS];                         /* the leader knows what was accepted before */
byte proposed[EPOCHS * M];                 /* by the leader of each epoch, in messages that arrive at any time, in order */
byte carried[EPOCHS * M];                  /* in the configuration */
byte promised[R];                          /* the epoch that an acceptor serves */
byte accepted[R * M];
byte count[R];
byte led[R];                               /* the last epoch that r began as its leader */
bit dead[R];
byte crashes;
byte chosen[M];

#define MAJORITY (crashes < R - 1)
#ifdef ANYBODY_CHANGES
#define MAY_CHANGE_ACCEPTOR true
#define PROPOSED_BEFORE (leader[epoch] == r -> proposed[epoch * M + i] : 0)
#else
#define MAY_CHANGE_ACCEPTOR (leader[epoch] == r && ready[epoch])
#define PROPOSED_BEFORE proposed[epoch * M + i]
#endif
#define EACH_ENTRY i = 0; do :: i < M ->
#define NEXT_ENTRY i++ :: else -> break od; i = 0

inline choose(index, request) {
  assert(chosen[index] == 0 || chosen[index] == request);   /* learners agree on what is at an index */
  chosen[index] = request
}

inline any(one) {
  if
  :: one = 0 :: one = 1 :: one = 2
  fi
}

inline any_view(v) {
  v = 1;
  do
  :: v < epoch -> v++
  :: break
  od
}

inline propose(v) {
  i = 0;
  do
  :: i < M && proposed[v * M + i] != 0 -> i++
  :: else -> break
  od;
  if
  :: i < M ->
    if
    :: proposed[v * M + i] = 1
    :: proposed[v * M + i] = 2
    fi
  :: else
  fi;
  i = 0
}

inline adopt(who) {
  if
  :: carried[v * M + i] != 0 ->
    accepted[who * M + i] = carried[v * M + i];
    choose(i, accepted[who * M + i]);
    count[who]++
  :: else
  fi
}

/* `who` becomes the acceptor of view v. */
inline begin(who) {
  count[who] = 0;
#ifndef NOT_CARRIED
  EACH_ENTRY adopt(who); NEXT_ENTRY
#endif
}

proctype replica(byte r) {
  byte v, i, a;
  do
  :: dead[r] -> break
  :: atomic { !dead[r] && crashes < CRASHES -> dead[r] = 1; crashes++ }
  /* leader, perhaps no longer: it knows of the changes that it has asked for itself */
  :: atomic { !dead[r] && led[r] > 0 && ready[led[r]] -> v = led[r]; propose(v); v = 0 }
  :: atomic { !dead[r] && leader[epoch] == r && !ready[epoch] && !dead[acceptor[epoch]] &&
       promised[acceptor[epoch]] < epoch ->
       v = epoch; a = acceptor[v];
       if
       :: promised[a] < since[v] -> begin(a)                /* it sees the configurations in their order */
       :: else
       fi;
#ifndef UNPREPARED
       EACH_ENTRY proposed[v * M + i] = (i < count[a] -> accepted[a * M + i] : 0); NEXT_ENTRY;
#endif
       promised[a] = v; ready[v] = 1; v = 0; a = 0 }
  /* acceptor */
  :: atomic { !dead[r] && promised[r] > 0 && acceptor[promised[r]] == r && count[r] < M ->
       v = promised[r];
#ifdef NO_EPOCHS
       any_view(v);
#endif
       if
       :: acceptor[v] == r && proposed[v * M + count[r]] != 0 ->
         accepted[r * M + count[r]] = proposed[v * M + count[r]];
         choose(count[r], accepted[r * M + count[r]]);
         count[r]++
       :: else
       fi;
       v = 0 }
  :: atomic { !dead[r] && acceptor[epoch] == r && promised[r] < since[epoch] ->
       v = epoch; begin(r); promised[r] = since[v]; v = 0 }
  /* changes */
  :: atomic { !dead[r] && epoch < E + 1 && MAJORITY && leader[epoch] != r ->
       leader[epoch + 1] = r; acceptor[epoch + 1] = acceptor[epoch]; since[epoch + 1] = since[epoch];
       EACH_ENTRY carried[(epoch + 1) * M + i] = carried[epoch * M + i]; NEXT_ENTRY;
       epoch++; led[r] = epoch }
  :: atomic { !dead[r] && epoch < E + 1 && MAJORITY && MAY_CHANGE_ACCEPTOR -> any(a);
       if
       :: a != acceptor[epoch] && !dead[a] ->
         EACH_ENTRY
           proposed[(epoch + 1) * M + i] = PROPOSED_BEFORE;
           carried[(epoch + 1) * M + i] = proposed[(epoch + 1) * M + i];
         NEXT_ENTRY;
         leader[epoch + 1] = r; acceptor[epoch + 1] = a; since[epoch + 1] = epoch + 1;
         ready[epoch + 1] = 1;
         epoch++; led[r] = epoch
       :: else
       fi;
       a = 0 }
  od
}

init {
  byte i;
  d_step { leader[1] = 0; acceptor[1] = 1; since[1] = 1; promised[1] = 1; ready[1] = 1; led[0] = 1 }
  atomic {
    do
    :: i < R -> run replica(i); i++
    :: else -> break
    od
  }
}
