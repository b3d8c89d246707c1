/* REP_LOCAL ([Shahmirzadi14] figure 3.8), one key: an update takes a number, goes to all, and counts as valid when all have
 * answered; until then lookups wait. All messages between two processes are in order. Updates become visible in the order
 * of their numbers, and a flag is cleared after that.
 *
 * APPLY_AT_ARRIVAL: as ACKALLs arrive (line 19), which may be in another order. CLEAR_FIRST: line 18 before line 19, with a
 * lookup between them. NO_ACKALL: updates are visible as they arrive.
 */
#define R 3
#define UPDATES 2                          /* by replicas 0 and 1 */

mtype = { UPDATE, ACK, VALID };
chan link[R * R] = [4] of { mtype, byte };
byte next_number;                          /* the sequencer's */
byte value[R], delivered[R], applied[R];
bit flag[R * UPDATES], valid[R * UPDATES], announced[R * UPDATES];   /* by number; announced: arrived, perhaps too early */
byte issuer[UPDATES];                      /* of each number */
byte least;                                /* value that a lookup may return now: what has been returned, or is over */
byte over;                                 /* updates */

inline at_least(v) {
  if
  :: v > least -> least = v
  :: else
  fi
}

#define VISIBLE(n) ((n) + 1)

inline deliver(r) {                        /* in the order of numbers */
  do
  :: delivered[r] < UPDATES && announced[r * UPDATES + delivered[r]] ->
    n = delivered[r];
    delivered[r]++;
#ifdef NO_ACKALL
    value[r] = VISIBLE(n);
#else
    flag[r * UPDATES + n] = 1;
#endif
    if
    :: issuer[n] == r -> acks++
    :: else -> link[r * R + issuer[n]] ! ACK, n
    fi
  :: else -> break
  od
}

inline validate(r, number) {
#ifdef NO_ACKALL
  skip
#else
#ifdef APPLY_AT_ARRIVAL
  value[r] = VISIBLE(number);
  flag[r * UPDATES + number] = 0
#else
  valid[r * UPDATES + number] = 1;
#ifdef CLEAR_FIRST
  flag[r * UPDATES + number] = 0
#else
  apply(r)
#endif
#endif
#endif
}

inline apply(r) {
  do
  :: applied[r] < UPDATES && valid[r * UPDATES + applied[r]] ->
    value[r] = VISIBLE(applied[r]);
    flag[r * UPDATES + applied[r]] = 0;
    applied[r]++
  :: else -> break
  od
}

inline send_all(message, number) {
  i = 0;
  do
  :: i < R ->
    if
    :: i != r -> link[r * R + i] ! message, number
    :: else
    fi;
    i++
  :: else -> break
  od;
  i = 0
}

proctype replica(byte r) {
  byte i, n, number, mine, acks;
  bit issued, sent;
  mtype message;
  do
  :: atomic { r < UPDATES && !issued -> issued = 1; mine = next_number; issuer[mine] = r; next_number++ }
  :: atomic { issued && !sent -> sent = 1; announced[r * UPDATES + mine] = 1; deliver(r); send_all(UPDATE, mine); n = 0 }
  :: atomic { sent && acks == R -> acks = R + 1; validate(r, mine); send_all(VALID, mine);
       over++; at_least(VISIBLE(mine)) }
  :: atomic { nempty(link[i * R + r]) -> link[i * R + r] ? message, number;
       if
       :: message == UPDATE -> announced[r * UPDATES + number] = 1; deliver(r)
       :: message == ACK -> acks++
       :: message == VALID -> validate(r, number)
       fi;
       message = 0; number = 0; n = 0; i = 0 }
  :: atomic { i < R - 1 -> i++ }
  :: atomic { i == R - 1 -> i = 0 }
#ifdef CLEAR_FIRST
  :: atomic { applied[r] < UPDATES && valid[r * UPDATES + applied[r]] -> apply(r) }
#endif
  :: atomic { !flag[r * UPDATES] && !flag[r * UPDATES + 1] ->
       assert(value[r] >= least); at_least(value[r]) }
  od
}

active proctype quiet() {
  byte i;
  d_step { over == UPDATES; i = 0 }
  do
  :: atomic { i < R * R && empty(link[i]) -> i++ }
  :: atomic { i == R * R ->
#ifndef CLEAR_FIRST
       assert(value[0] == value[1] && value[1] == value[2]);       /* all replicas end with the same value */
#endif
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
