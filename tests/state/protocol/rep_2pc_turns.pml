/* REP_2PC as it is built, one key: updates take turns in the order of (stamp, rank) in place of votes against each other.
 * A replica votes for an update at once, unless its own one is earlier: then when all have applied its own.
 *
 * RANKS_ALONE: turns by rank, without stamps; VOTES_FOR_HIGHER: an issuer has its vote for higher numbers at once
 * (figure 3.11, line 20); ENDS_OTHERS: a commit ends the waiting for all updates (line 26); ENDS_EARLY: an issuer
 * does not wait until all have applied its update; WAITS_FOR_NONE: lookups do not wait; NO_LATE_VOTES: those who have
 * waited do not get their votes.
 */
#ifndef R
#define R 3
#endif
#ifndef FIRST
#define FIRST 0                            /* FIRST and FIRST + 1 write */
#endif
#ifndef W
#define W 2                                /* updates of each writer */
#endif
#ifndef LOOKUPS
#define LOOKUPS 1                          /* of each replica */
#endif

mtype = { VOTE_REQUEST, VOTE, COMMIT, COMMITTED };
chan link[R * R] = [4] of { mtype, byte }; /* link[from * R + to]: kind; stamp or value */
byte value[R];                             /* 1 + writer * W + number of its update */
bit pending[R * R];                        /* pending[at * R + issuer]: lookups wait */
bit waits[R * R];                          /* the vote for it does, too */
byte running = 2 * W;                      /* updates that are not over */
bit issuing[R];
byte answers[R];                           /* votes, or answers to the commit */

/* A lookup waits for the updates that are pending when it begins, not for later ones. It returns no value that is older,
 * in the order of the turns, than what was known when it began: returned by a lookup, or written by an update that is over.
 */
byte position[2 * W + 1];                  /* of a value, in the order of the turns */
byte turns;
byte known;                                /* the latest such position */
bit looking[R];
bit awaited[R * R];                        /* awaited[at * R + issuer] */
byte oldest[R];                            /* what was known when the lookup began */

inline learn(seen) {
  if
  :: position[seen] > known -> known = position[seen]
  :: else
  fi
}

#ifdef RANKS_ALONE
#define OWN_IS_FIRST (r < other)
#else
#define OWN_IS_FIRST (stamp < argument || (stamp == argument && r < other))
#endif
#ifdef VOTES_FOR_HIGHER
#define MUST_WAIT (stamp != 0 && OWN_IS_FIRST && other < r)
#else
#define MUST_WAIT (stamp != 0 && OWN_IS_FIRST)
#endif

inline send_all(message, what) {
  i = 0;
  do
  :: i < R ->
    if
    :: i != r -> link[r * R + i] ! message(what)
    :: else
    fi;
    i++
  :: else -> break
  od;
  i = 0
}

inline end_turn() {
  stamp = 0;
  i = 0;
  do
  :: i < R ->
    if
#ifdef NO_LATE_VOTES
    :: waits[r * R + i] -> waits[r * R + i] = 0
#else
    :: waits[r * R + i] -> waits[r * R + i] = 0; link[r * R + i] ! VOTE(0)
#endif
    :: else
    fi;
    i++
  :: else -> break
  od;
  i = 0
}

inline apply(issuer, what) {
  value[r] = what;
#ifdef ENDS_OTHERS
  i = 0;
  do
  :: i < R -> pending[r * R + i] = 0; awaited[r * R + i] = 0; i++
  :: else -> break
  od;
  i = 0
#else
  pending[r * R + issuer] = 0;
  awaited[r * R + issuer] = 0
#endif
}

inline begin_lookup() {
  looking[r] = 1;
  oldest[r] = known;
#ifndef WAITS_FOR_NONE
  do
  :: i < R -> awaited[r * R + i] = pending[r * R + i]; i++
  :: else -> break
  od;
  i = 0
#endif
}

proctype replica(byte r) {
  byte other, i, stamp, last, done, argument, lookups;
  bit voting, committing;
  mtype message;
  do
  :: atomic { (r == FIRST || r == FIRST + 1) && !issuing[r] && !looking[r] && done < W ->
       last++; stamp = last; issuing[r] = 1; voting = 1; answers[r] = 0; send_all(VOTE_REQUEST, stamp) }
  :: atomic { voting && answers[r] == R - 1 ->
       voting = 0; answers[r] = 0; committing = 1; value[r] = 1 + (r - FIRST) * W + done;
       turns++; position[value[r]] = turns; send_all(COMMIT, value[r]);
#ifdef ENDS_EARLY
       end_turn();
#endif
     }
  :: atomic { committing && answers[r] == R - 1 ->
       issuing[r] = 0; committing = 0; answers[r] = 0; learn(value[r]); done++; running--;
       end_turn() }
  :: atomic { other < R && nempty(link[other * R + r]) -> link[other * R + r] ? message(argument);
       if
       :: message == VOTE_REQUEST ->
         pending[r * R + other] = 1;
         if
         :: last < argument -> last = argument
         :: else
         fi;
         if
         :: MUST_WAIT -> waits[r * R + other] = 1
         :: else -> link[r * R + other] ! VOTE(0)
         fi
       :: message == VOTE || message == COMMITTED -> answers[r]++
       :: message == COMMIT -> apply(other, argument); link[r * R + other] ! COMMITTED(0)
       fi;
       message = 0; argument = 0; other = 0 }
  :: atomic { other < R - 1 -> other++ }
  :: atomic { other == R - 1 -> other = 0 }
  :: atomic { !looking[r] && !issuing[r] && lookups < LOOKUPS -> begin_lookup(); lookups++ }
  :: atomic { looking[r] && !awaited[r * R] && !awaited[r * R + 1] && !awaited[r * R + 2] ->
       assert(position[value[r]] >= oldest[r]); learn(value[r]); looking[r] = 0; oldest[r] = 0 }
  od
}

#define NO_MESSAGE \
  (empty(link[1]) && empty(link[2]) && empty(link[3]) && empty(link[5]) && empty(link[6]) && empty(link[7]))
#define STUCK(who) (!issuing[who] || answers[who] < R - 1)

active proctype quiet() {
  byte i;
  do
  :: atomic { NO_MESSAGE && (issuing[FIRST] || issuing[FIRST + 1]) && STUCK(FIRST) && STUCK(FIRST + 1) -> assert(false) }
  :: atomic { running == 0 && NO_MESSAGE && _nr_pr == R + 1 ->
       do
       :: i < R * R -> assert(!pending[i] && !waits[i]); i++       /* nobody waits for ever */
       :: else -> break
       od;
       assert(value[0] == value[1] && value[1] == value[2]);       /* all replicas end with the same value */
       break }
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
