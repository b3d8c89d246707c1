/* PART_CACHING ([Shahmirzadi14] figure 3.13), one key, one server: clients keep copies, the server has them dropped before
 * an update returns. Answers and invalidations come through one channel, in order. While copies are being dropped, lookups
 * of the key wait at the server.
 *
 * OVERTAKE: invalidations come through a channel of their own, as on a TILE-Gx. NO_ACK: an update returns before copies
 * have been dropped. SERVE_MEANWHILE: lookups of the key are answered with the old value while its copies are dropped.
 */
#define CLIENTS 3                          /* 0 writes, all look up */
#define UPDATES 2

mtype = { LOOKUP, UPDATE, VALUE, DROP, DROPPED, DONE };
chan request[CLIENTS] = [3] of { mtype };
chan answer[CLIENTS] = [3] of { mtype, byte };
chan drop[CLIENTS] = [3] of { mtype, byte };
#ifdef OVERTAKE
#define DROPS drop
#else
#define DROPS answer
#endif

byte value;                                /* at the server */
bit holds[CLIENTS];                        /* as the server knows */
byte copy[CLIENTS];                        /* 0: none; else 1 + the value */
byte least;                                /* value that a lookup may return: what was returned, or is over, when it begins */

inline at_least(v) {
  if
  :: v > least -> least = v
  :: else
  fi
}

proctype client(byte c) {
  byte floor, got, updates;
  bit looking, updating;
  do
  :: atomic { !looking && !updating && copy[c] != 0 -> assert(copy[c] - 1 >= least); at_least(copy[c] - 1) }
  :: atomic { !looking && !updating && copy[c] == 0 -> looking = 1; floor = least; request[c] ! LOOKUP }
  :: atomic { c == 0 && !looking && !updating && updates < UPDATES -> updating = 1; updates++; request[c] ! UPDATE }
  :: atomic { answer[c] ? [VALUE, got] -> answer[c] ? VALUE, got; copy[c] = got + 1;
       assert(got >= floor); at_least(got); looking = 0; floor = 0; got = 0 }
  :: atomic { DROPS[c] ? [DROP, got] -> DROPS[c] ? DROP, got; copy[c] = 0; request[c] ! DROPPED; got = 0 }
  :: atomic { answer[c] ? [DONE, got] -> answer[c] ? DONE, got; at_least(got); updating = 0; got = 0 }
  od
}

#ifdef SERVE_MEANWHILE
#define MAY_SERVE true
#else
#define MAY_SERVE !updating
#endif
#ifdef NO_ACK
#define MAY_END true
#else
#define MAY_END (waiting == 0)
#endif

proctype server() {
  byte i, waiting;
  bit updating;
  mtype message;
  do
  :: atomic { i < CLIENTS && request[i] ? [DROPPED] -> request[i] ? DROPPED; waiting--; i = 0 }
  :: atomic { i < CLIENTS && request[i] ? [LOOKUP] && MAY_SERVE -> request[i] ? LOOKUP; holds[i] = 1; answer[i] ! VALUE, value; i = 0 }
  :: atomic { request[0] ? [UPDATE] && !updating -> request[0] ? UPDATE; updating = 1; i = 0;
       do
       :: i < CLIENTS && holds[i] -> DROPS[i] ! DROP, 0; holds[i] = 0; waiting++; i++
       :: i < CLIENTS && !holds[i] -> i++
       :: else -> break
       od;
       i = 0 }
  :: atomic { updating && MAY_END -> updating = 0; value++; answer[0] ! DONE, value }
  :: atomic { i < CLIENTS - 1 -> i++ }
  :: atomic { i == CLIENTS - 1 -> i = 0 }
  od
}

init {
  byte i;
  atomic {
    run server();
    do
    :: i < CLIENTS -> run client(i); i++
    :: else -> break
    od
  }
}
