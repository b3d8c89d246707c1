/* REP_REMOTE ([Shahmirzadi14] figure 3.6) and its variant in which the sequencer broadcasts, one key. A lookup asks the
 * sequencer how many updates there are, and waits until as many are delivered here. Updates are delivered in the order of
 * their numbers.
 *
 * SEQUENCER_BROADCASTS: one channel into each replica in place of one from each client. It counts before it sends, and an
 * update returns when it is delivered at its issuer.
 *
 * READ_EARLY: a lookup does not wait. RETURN_EARLY: an update returns when the sequencer has sent it, and the sequencer
 * counts after that, as the text fears.
 */
#define R 3
#define UPDATES 2                          /* by replicas 0 and 1 */

byte numbers;                              /* given out */
byte counted;                              /* what lookups are told */
byte delivered[R];                         /* updates: the value that r has */
bit sent[UPDATES];                         /* to all, in channels that deliver when they like */
byte least;                                /* value that a lookup may return: what was returned, or is over, when it begins */

inline at_least(v) {
  if
  :: v > least -> least = v
  :: else
  fi
}

#ifdef READ_EARLY
#define MAY_READ true
#else
#define MAY_READ (delivered[r] >= told)
#endif

proctype replica(byte r) {
  byte mine, told, floor;
  bit issued, over, asking;
  do
  :: atomic { r < UPDATES && !issued -> issued = 1; mine = numbers; numbers++;
#ifdef SEQUENCER_BROADCASTS
       sent[mine] = 1;
#endif
#ifndef RETURN_EARLY
       counted = numbers
#endif
     }
  :: atomic { issued && !sent[mine] -> sent[mine] = 1 }
#ifdef RETURN_EARLY
  :: atomic { issued && sent[mine] && counted <= mine -> counted = mine + 1 }
  :: atomic { issued && sent[mine] && !over -> over = 1; at_least(mine + 1) }
#endif
  :: atomic { issued && !over && delivered[r] > mine -> over = 1; at_least(mine + 1) }
  :: atomic { delivered[r] < UPDATES && sent[delivered[r]] -> delivered[r]++ }
  :: atomic { !asking -> asking = 1; floor = least; told = counted }
  :: atomic { asking && MAY_READ -> assert(delivered[r] >= floor); at_least(delivered[r]); asking = 0; told = 0; floor = 0 }
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
