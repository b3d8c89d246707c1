/* REP_2PC ([Shahmirzadi14] figure 3.11), one key: votes of all, then commit or abort. A replica votes YES ("another update
 * is executing here") while it has a flag, whoever's; an issuer begins when it has none itself; COMMIT and ABORT clear the
 * issuer's flag alone.
 *
 * PRINTED: line 20 lets a higher number have its vote while a lower one is about to commit; line 26 clears any flag.
 */
#ifndef R
#define R 3
#endif
#ifndef FIRST
#define FIRST 0                            /* FIRST and FIRST + 1 write */
#endif

mtype = { VOTE_REQUEST, YES, NO, COMMIT, ABORT, ACK };
chan link[R * R] = [3] of { mtype };       /* link[from * R + to] */
byte flag[R];                              /* 0: none; else 1 + the issuer */
byte value[R];                             /* 1 + the issuer that wrote it last */
#ifdef PRINTED
#define MAY_BEGIN (r == FIRST || r == FIRST + 1)
#else
#define MAY_BEGIN ((r == FIRST || r == FIRST + 1) && flag[r] == 0)
#endif
byte running = 2;                          /* updates that are not over */

/* What lookups may return, as they follow each other in time; a lookup is one step. */
bit superseded[4];                         /* a later value has been returned, or written by an update that is over */
byte returned;                             /* by the last lookup */

inline looked_up(seen) {
  assert(!superseded[seen]);
  if
  :: returned != seen -> superseded[returned] = 1; returned = seen
  :: else
  fi
}

inline clear(at, who) {
  if
  :: flag[at] == who + 1 -> flag[at] = 0
  :: else
  fi
}

inline vote(at, who, yes) {
#ifdef PRINTED
  yes = (flag[at] >= who + 1);
#else
  yes = (flag[at] != 0);
#endif
  if
  :: !yes -> flag[at] = who + 1
  :: else
  fi
}

inline commit(at, who) {
#ifdef PRINTED
  flag[at] = 0;
#else
  if
  :: flag[at] == who + 1 -> flag[at] = 0
  :: else
  fi;
#endif
  value[at] = who + 1
}

inline send_all(message) {
  other = 0;
  do
  :: other < R ->
    if
    :: other != r -> link[r * R + other] ! message
    :: else
    fi;
    other++
  :: else -> break
  od;
  other = 0
}

proctype replica(byte r) {
  byte other, answers;
  bit busy, refused, voting, yes;
  mtype message;
  do
  :: atomic { MAY_BEGIN && !busy && !voting && answers == 0 -> vote(r, r, yes); refused = yes; yes = 0; busy = 1; voting = 1; send_all(VOTE_REQUEST) }
  :: atomic { voting && answers == R - 1 ->
       voting = 0; answers = 0;
       if
       :: !refused -> commit(r, r); send_all(COMMIT)
       :: else -> clear(r, r); send_all(ABORT); busy = 0; running--; answers = R
       fi }
  :: atomic { busy && !voting && answers == R - 1 -> busy = 0; answers = R; running--; superseded[0] = 1 }
  :: atomic { other < R && nempty(link[other * R + r]) -> link[other * R + r] ? message;
       if
       :: message == VOTE_REQUEST -> vote(r, other, yes);
         if
         :: yes -> link[r * R + other] ! YES
         :: else -> link[r * R + other] ! NO
         fi;
         yes = 0
       :: message == YES -> refused = 1; answers++
       :: message == NO -> answers++
       :: message == COMMIT -> commit(r, other); link[r * R + other] ! ACK
       :: message == ABORT -> clear(r, other)
       :: message == ACK -> answers++
       fi;
       message = 0; other = 0 }
  :: atomic { other < R - 1 -> other++ }
  :: atomic { other == R - 1 -> other = 0 }
  :: atomic { flag[r] == 0 -> looked_up(value[r]) }
  od
}

active proctype quiet() {
  byte i;
  d_step { running == 0 && _nr_pr == R + 1; i = 0 }
  do
  :: atomic { i < R * R && empty(link[i]) -> i++ }
  :: atomic { i == R * R ->
       assert(value[0] == value[1] && value[1] == value[2]);       /* all replicas end with the same value */
       assert(flag[0] == 0 && flag[1] == 0 && flag[2] == 0);       /* nobody waits for ever */
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
