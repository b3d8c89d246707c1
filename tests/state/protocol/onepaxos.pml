/* 1Paxos over shared memory, with take-over, eviction and rejoining: a model for Spin. PROTOCOL.md describes the protocol.
 *
 * A step is one access to shared memory, or several that only its process can tell apart. A process may stop between any
 * two steps for any time, so every suspicion may be wrong. Who acts on a configuration may act on any earlier one, as a
 * process does that was stopped ("view"). A crash ends a process, not its memory.
 *
 * The leader is no process here: it passes requests on. What it and its channels can do to the requests of a client
 * within an epoch is to deliver a prefix of them, in order, or none ("run"). Likewise steps that anybody may take in the
 * same way are taken by one process, `anybody`.
 *
 * Without REUSE the rings are as long as the log, and one replica, any, is watched as it executes: the others' executing
 * has no influence but that clients are answered, which happens at any time after a request was accepted. With REUSE
 * (rings of N slots) the watched replica lags, is evicted and comes back, the dead are evicted, and the others execute at
 * once; with ALL_LAG all of them lag.
 *
 * Sizes: R replicas, E take-overs, CLIENTS with Q requests each, in flight all at once, CRASHES at most, M entries at most.
 */
#ifndef R
#define R 3
#endif
#ifndef E
#define E 2
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef Q
#define Q 1
#endif
#ifndef M
#define M 4
#endif
#define LOG (M + CLIENTS * Q)              /* with what settle() appends */
#ifdef N
#define REUSE
#else
#define N LOG
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#define EPOCHS (E + 3)                     /* 1 .. E + 1, and one for settle() */

#define REQUEST(c, n) (1 + (c) * Q + (n) - 1)
#define CLIENT(request) (((request) - 1) / Q)
#define NUMBER(request) (((request) - 1) % Q + 1)
#define ENTRY(index, request) (1 + (index) * (CLIENTS * Q + 1) + (request))
#define INDEX(entry) (((entry) - 1) / (CLIENTS * Q + 1))
#define COMMAND(entry) (((entry) - 1) % (CLIENTS * Q + 1))

/* Shared memory. */
byte epoch = 1;                            /* the configuration word, with acceptor[epoch], previous[epoch], source[epoch] */
byte acceptor[EPOCHS], previous[EPOCHS], source[EPOCHS];
byte based = 1;                            /* the base word: of this epoch, with base[based] and grew[based] */
byte base[EPOCHS];
bit grew[EPOCHS];
byte accepted_epoch[R], accepted_count[R]; /* the accepted words */
bit accepted_sealed[R];
byte ring[R * N];                          /* slots; 0: never written */
byte executed[R];                          /* the progress words */
byte admission[R];                         /* 0 live; 1 wants to join; 1 + e: granted in epoch e */
bit out[R * R];                            /* out[a * R + r]: r is evicted from a's ring */

/* Processes. */
bit dead[R];
byte crashes;
byte serving[R];                           /* as acceptor: the epoch that it serves, as far as it knows; 0: none */
byte mine[R];                              /* ... the index of its next entry */
byte pending[R];                           /* as acceptor: request that is in the slot, and not accepted yet */
byte copied[R];                            /* as new acceptor: the epoch for which it has copied the source's ring */
byte pulled[R], pulled_from[R];            /* entry read from a ring, not validated yet */
byte last[R * CLIENTS];                    /* the replicated table of clients: last number executed */
byte watched;
byte client_epoch[CLIENTS], answered[CLIENTS];
byte run_next[EPOCHS * CLIENTS], run_end[EPOCHS * CLIENTS];

/* What only the proof knows. */
byte length;                               /* of the log */
byte chosen[LOG];                          /* its requests */
byte applied[CLIENTS];                     /* what a replica that has executed all of it would have as `last` */
#ifdef LEARN_EARLY
byte early[LOG];
#endif
#ifdef SETTLE
bit settled;
#define RUNNING !settled &&
#else
#define RUNNING
#endif

#define SOURCE(e) (grew[e] -> previous[e] : source[e])
#define OPEN(r, e) (accepted_epoch[r] == (e) && !accepted_sealed[r])
#define HAS_OPENED(r, e) (OPEN(r, e) || (accepted_epoch[r] == (e) && accepted_count[r] > base[e]))

inline any_replica(r) {
  if
  :: r = 0 :: r = 1 :: r = 2
#if R > 3
  :: r = 3
#endif
  fi
}

inline any_client(c) {
  if
  :: c = 0
#if CLIENTS > 1
  :: c = 1
#endif
  fi
}

#ifdef BASE_NOT_HELPED
#define INITIATOR 0                        /* does it all, until it dies */
#define MAY_SET_BASE(r) (based < epoch && !dead[INITIATOR] && (r) == INITIATOR)
#else
#define INITIATOR 0
#define MAY_SET_BASE(r) (based < epoch)
#endif

/* Somebody acts on this configuration or on an earlier one. */
inline any_view(v) {
  v = 1;
  do
  :: v < epoch -> v++
  :: break
  od
}

inline execute(r, index, request) {
  assert(index < length && chosen[index] == request);       /* all replicas execute the same log */
#ifdef NO_DEDUPE
  assert(NUMBER(request) == last[r * CLIENTS + CLIENT(request)] + 1);   /* nothing is executed twice */
#endif
  if
  :: NUMBER(request) == last[r * CLIENTS + CLIENT(request)] + 1 -> last[r * CLIENTS + CLIENT(request)]++
  :: else
  fi;
  executed[r]++
}

/* ---- acceptor ---- */

/* Everybody who counts for r's ring has executed what is in the slot. */
inline has_room(r, yes) {
  yes = 1;
  if
  :: mine[r] >= N ->
    i = 0;
    do
    :: i < R ->
      if
      :: !out[r * R + i] && executed[i] <= mine[r] - N -> yes = 0
      :: else
      fi;
      i++
    :: else -> break
    od
  :: else
  fi
}

inline write_slot(r, c, v) {                                /* v: the epoch that the request's message tells */
  if
  :: run_next[v * CLIENTS + c] != 0 && run_next[v * CLIENTS + c] <= run_end[v * CLIENTS + c] ->
    has_room(r, ok);
#ifdef REUSE_EARLY
    ok = 1;
#endif
    if
    :: ok ->
      pending[r] = REQUEST(c, run_next[v * CLIENTS + c]);
      run_next[v * CLIENTS + c]++;
      ring[r * N + mine[r] % N] = ENTRY(mine[r], pending[r])
    :: else
    fi
  :: else
  fi
}

/* A linearizable read looks at one word, and takes its count if it is open. So an open word must count the whole log. */
inline check_words() {
  i = 0;
  do
  :: i < R ->
#ifdef READ_SEALED
    assert(accepted_epoch[i] == 0 || accepted_count[i] == length);
#else
    assert(accepted_epoch[i] == 0 || accepted_sealed[i] || accepted_count[i] == length);
#endif
    i++
  :: else -> break
  od
}

/* Only the watched replica lags, and those that have died. */
inline keep_up() {
#if defined(REUSE) && !defined(ALL_LAG)
  v = 0;
  do
  :: v < R ->
    if
    :: v != watched && !dead[v] -> execute(v, executed[v], chosen[executed[v]])
    :: else
    fi;
    v++
  :: else -> break
  od;
  v = 0
#else
  skip
#endif
}

/* The commit point. */
inline accept(r) {
  if
  :: accepted_epoch[r] == serving[r] && !accepted_sealed[r] ->
    assert(accepted_count[r] == length);                    /* one request per index */
#ifdef LEARN_EARLY
    assert(early[length] == 0 || early[length] == pending[r]);
#endif
    chosen[length] = pending[r];
    length++;
    accepted_count[r]++;
    mine[r]++;
    if
    :: NUMBER(pending[r]) == applied[CLIENT(pending[r])] + 1 -> applied[CLIENT(pending[r])]++
    :: else -> assert(NUMBER(pending[r]) <= applied[CLIENT(pending[r])])   /* no request of a client is left out */
    fi;
    keep_up();
    check_words()
  :: else -> serving[r] = 0                                 /* sealed meanwhile */
  fi;
  pending[r] = 0
}

inline evict(r, a) {
  if
  :: a != r && !out[r * R + a] && mine[r] >= N && executed[a] <= mine[r] - N ->
    out[r * R + a] = 1
  :: else
  fi
}

inline grant(r, a) {
  if
  :: admission[a] == 1 ->
    out[r * R + a] = 0;
    executed[a] = executed[r];
    admission[a] = 1 + serving[r]
  :: else
  fi
}

/* ---- take-over ---- */

inline take_over(r, a) {
  if
  :: !dead[a] ->
    acceptor[epoch + 1] = a;
    previous[epoch + 1] = acceptor[epoch];
    source[epoch + 1] = SOURCE(epoch);
    epoch++
  :: else
  fi
}

/* By anybody, in any view. `a`: the acceptor of the epoch before. */
inline seal(v, a) {
#ifdef NO_SEAL
  skip
#else
#ifdef EPOCH_OUTSIDE
  accepted_sealed[a] = 1
#else
  if
  :: accepted_epoch[a] == v - 1 -> accepted_sealed[a] = 1
  :: accepted_epoch[a] < v - 1 && based >= v - 1 ->         /* it never opened its epoch, and never will */
    accepted_epoch[a] = v - 1;
    accepted_sealed[a] = 1;
    accepted_count[a] = base[v - 1]
  :: else
  fi
#endif
#endif
}

/* Nobody accepts their messages any more. */
inline forget_runs(v) {
#ifndef NO_EPOCH_CHECK
  i = 0;
  do
  :: i < CLIENTS -> run_next[v * CLIENTS + i] = 0; run_end[v * CLIENTS + i] = 0; i++
  :: else -> break
  od
#else
  skip
#endif
}

inline set_base(v, a) {
  if
#ifdef NO_SEAL
  :: based == v - 1 && accepted_epoch[a] == v - 1 ->
#else
#ifdef EPOCH_OUTSIDE
  :: based == v - 1 && accepted_sealed[a] ->
#else
  :: based == v - 1 && accepted_epoch[a] == v - 1 && accepted_sealed[a] ->
#endif
#endif
    base[v] = (accepted_epoch[a] == v - 1 -> accepted_count[a] : base[v - 1]);
    grew[v] = (base[v] > base[v - 1]);
    based = v;
    forget_runs(v - 1)
  :: else
  fi
}

/* The new acceptor makes its ring and its table those of the source. */
inline copy_ring(r, v) {
  serving[r] = 0;
  a = SOURCE(v);
#ifndef NO_COPY
  if
  :: a != r ->
    i = 0;
    do
    :: i < N ->
      ring[r * N + i] = (ring[a * N + i] != 0 && INDEX(ring[a * N + i]) < base[v] -> ring[a * N + i] : 0);
      i++
    :: else -> break
    od
  :: else
  fi;
#endif
#ifdef REUSE
  if
  :: a != r && (out[a * R + r] || admission[r] != 0) ->     /* too far behind: it takes the source's table, too */
    executed[r] = executed[a];
    i = 0;
    do
    :: i < CLIENTS -> last[r * CLIENTS + i] = last[a * CLIENTS + i]; i++
    :: else -> break
    od;
    admission[r] = 0
  :: else
  fi;
#endif
  pulled[r] = 0;
  copied[r] = v
}

inline open_epoch(r, v) {
  a = SOURCE(v);
  if
#ifdef EPOCH_OUTSIDE
  :: accepted_epoch[r] < v ->
#else
  :: accepted_epoch[r] < v && (a == r || !out[a * R + r] || executed[r] >= executed[a]) ->
#endif
    if
    :: a != r ->
      i = 0;
      do
      :: i < R ->
        out[r * R + i] = (i != r && i != a && (out[a * R + i] || admission[i] == 1));
#ifdef FORGET_EVICTED
        out[r * R + i] = 0;
#endif
        i++
      :: else -> break
      od
    :: else
    fi;
    accepted_epoch[r] = v;
    accepted_sealed[r] = 0;
    accepted_count[r] = base[v];
    serving[r] = v;
    mine[r] = base[v];
    check_words()
  :: else
  fi
}

/* ---- learner ---- */

#ifdef LEARN_EARLY
inline learn_early(r) {
  a = acceptor[epoch];
  if
  :: pending[a] != 0 && accepted_count[a] == length -> early[length] = pending[a]
  :: else
  fi
}
#endif

inline learn(r) {
  if
  :: executed[r] < length -> execute(r, executed[r], chosen[executed[r]])
  :: else
  fi
}

inline pull(r, v) {
  if
  :: based >= v ->
    a = acceptor[v];
    if
    :: executed[r] < base[v] && !HAS_OPENED(a, v) -> a = SOURCE(v)
    :: else
    fi;
    if
#ifdef PULL_FROM_LATER
    :: executed[r] < (executed[r] < base[v] -> base[v] : accepted_count[a]) ->
#else
    :: executed[r] < base[v] || (accepted_epoch[a] == v && executed[r] < accepted_count[a]) ->
#endif
      pulled[r] = ring[a * N + executed[r] % N];
      if
      :: pulled[r] == 0 -> pulled[r] = 255                  /* no entry */
      :: else
      fi;
      pulled_from[r] = a
    :: else
    fi
  :: else
  fi
}

inline validate(r) {
#ifdef NO_VALIDATION
  if
  :: true ->
#else
  if
  :: out[pulled_from[r] * R + r] -> skip                    /* the slot may have been used again */
  :: else ->
#endif
    assert(pulled[r] != 255 && INDEX(pulled[r]) == executed[r]);
    execute(r, executed[r], COMMAND(pulled[r]))
  fi;
  pulled[r] = 0;
  pulled_from[r] = 0
}

/* r finds itself evicted by an acceptor, which is the last one as long as its word is open. */
inline ask_to_join(r, v) {
  if
  :: OPEN(acceptor[v], v) && out[acceptor[v] * R + r] -> admission[r] = 1; pulled[r] = 0
  :: else
  fi
}

inline join(r, a) {                                         /* a: whose table it copies; a dead one's will do */
  v = admission[r] - 1;
  if
  :: !OPEN(acceptor[v], v) -> admission[r] = 1              /* granted too late */
  :: else ->
    if
    :: a != r && admission[a] == 0 && executed[a] >= executed[r] ->
      executed[r] = executed[a];
      i = 0;
      do
      :: i < CLIENTS -> last[r * CLIENTS + i] = last[a * CLIENTS + i]; i++
      :: else -> break
      od;
      admission[r] = 0
    :: else
    fi
  fi
}

/* ---- processes ---- */

#define CLEAR a = 0; v = 0; i = 0; c = 0; ok = 0
#ifdef ALL_LAG
#define LAGS(r) true
#else
#define LAGS(r) (r == watched)
#endif

proctype replica(byte r) {
  byte a, v, i, c;
  bit ok;
  do
  :: RUNNING dead[r] -> break
  :: atomic { RUNNING !dead[r] && crashes < CRASHES ->
       dead[r] = 1; crashes++; serving[r] = 0; mine[r] = 0; pending[r] = 0; pulled[r] = 0;
       pulled_from[r] = 0; copied[r] = 0 }
  :: atomic { RUNNING !dead[r] && serving[r] > 0 && pending[r] == 0 && mine[r] < M ->
       any_client(c); v = serving[r];
#ifdef NO_EPOCH_CHECK
       any_view(v);
#endif
       write_slot(r, c, v); CLEAR }
  :: atomic { RUNNING !dead[r] && pending[r] != 0 -> accept(r); CLEAR }
#ifndef PRINTED
  :: atomic { RUNNING !dead[r] && based == epoch && acceptor[epoch] == r && copied[r] < epoch && pending[r] == 0 ->
       v = epoch; copy_ring(r, v); CLEAR }
  :: atomic { RUNNING !dead[r] && copied[r] > 0 && accepted_epoch[r] < copied[r] ->
       v = copied[r]; open_epoch(r, v); CLEAR }
#endif
#ifdef REUSE
  :: atomic { RUNNING !dead[r] && serving[r] > 0 && mine[r] >= N -> any_replica(a); evict(r, a); CLEAR }
  :: atomic { RUNNING !dead[r] && serving[r] > 0 && pending[r] == 0 -> any_replica(a); grant(r, a); CLEAR }
  :: atomic { RUNNING LAGS(r) && !dead[r] && admission[r] == 0 -> any_view(v); ask_to_join(r, v); CLEAR }
  :: atomic { RUNNING LAGS(r) && !dead[r] && admission[r] > 1 -> any_replica(a); join(r, a); CLEAR }
  :: atomic { RUNNING LAGS(r) && !dead[r] && admission[r] == 0 && pulled[r] == 0 -> any_view(v); pull(r, v); CLEAR }
  :: atomic { RUNNING LAGS(r) && !dead[r] && pulled[r] != 0 -> validate(r) }
#else
  :: atomic { RUNNING r == watched && !dead[r] -> any_view(v); pull(r, v);
       if
       :: pulled[r] != 0 -> validate(r)
       :: else
       fi;
       CLEAR }
#endif
#ifdef LEARN_EARLY
  :: atomic { RUNNING !dead[r] -> learn_early(r); CLEAR }
#endif
  od
}

/* Whoever lives suspects, seals and sets bases. */
proctype anybody() {
  byte a, v, i;
  do
#ifndef PRINTED
  :: atomic { RUNNING epoch < E + 1 && based == epoch -> any_replica(a); take_over(INITIATOR, a); a = 0 }
  :: atomic { RUNNING epoch > 1 -> any_view(v);
       if
       :: v > 1 -> seal(v, previous[v])
       :: else
       fi;
       v = 0 }
  :: atomic { RUNNING MAY_SET_BASE(INITIATOR) -> v = epoch; set_base(v, previous[v]); v = 0; i = 0 }
#endif
  :: RUNNING false
  od
}

/* A client sends its requests one after the other to the leader of the last epoch that it knows; in a new epoch it begins
 * again with the first that nobody has answered. Any replica may answer, even one that has died since.
 */
proctype client(byte c) {
  do
  :: RUNNING answered[c] == Q -> break
  :: atomic { RUNNING client_epoch[c] < epoch ->
       client_epoch[c] = epoch;
       run_next[epoch * CLIENTS + c] = answered[c] + 1;
       run_end[epoch * CLIENTS + c] = answered[c] }
  :: atomic { RUNNING client_epoch[c] > 0 && client_epoch[c] >= based &&
       run_end[client_epoch[c] * CLIENTS + c] < Q -> run_end[client_epoch[c] * CLIENTS + c]++ }
  :: atomic { RUNNING applied[c] > answered[c] -> answered[c]++ }
  od
}

#ifdef SETTLE
/* From here on nobody else fails and all who live take turns: everything must come to an end. Whatever a process that
 * died or stopped left half done, others finish.
 */
inline settle() {
  round = 0;
  do
  :: round < 12 ->
    r = 0;
    do
    :: r < R ->
      if
      :: !dead[r] ->
#ifndef PRINTED
        if
        :: dead[acceptor[epoch]] && based == epoch && epoch < E + 2 -> a = r; take_over(r, a)
        :: else
        fi;
        if
        :: MAY_SET_BASE(r) -> v = epoch; seal(v, previous[v]); set_base(v, previous[v])
        :: else
        fi;
        if
        :: pending[r] != 0 -> accept(r)
        :: else
        fi;
        if
        :: based == epoch && acceptor[epoch] == r && accepted_epoch[r] < epoch -> v = epoch; copy_ring(r, v); open_epoch(r, v)
        :: else
        fi;
#endif
        if
        :: acceptor[epoch] == r && OPEN(r, epoch) ->
          c = 0;
          do
          :: c < CLIENTS ->
            if
            :: client_epoch[c] < epoch ->
              client_epoch[c] = epoch;
              run_next[epoch * CLIENTS + c] = answered[c] + 1
            :: else
            fi;
            run_end[epoch * CLIENTS + c] = Q;
            v = epoch;
            if
            :: run_next[v * CLIENTS + c] <= Q && pending[r] == 0 ->    /* somebody waits for room */
              a = 0;
              do
              :: a < R -> evict(r, a); a++
              :: else -> break
              od
            :: else
            fi;
            if
            :: pending[r] == 0 && length < LOG -> write_slot(r, c, v)
            :: else
            fi;
            if
            :: pending[r] != 0 -> accept(r)
            :: else
            fi;
            c++
          :: else -> break
          od;
          a = 0;
          do
          :: a < R -> grant(r, a); a++
          :: else -> break
          od
        :: else
        fi;
#ifndef PRINTED
        if
        :: admission[r] == 0 && pulled[r] == 0 -> v = epoch; pull(r, v)
        :: else
        fi;
        if
        :: pulled[r] != 0 -> validate(r)
        :: else
        fi;
        v = epoch;
        ask_to_join(r, v);
        if
        :: admission[r] > 1 -> a = acceptor[epoch]; join(r, a)
        :: else
        fi
#else
        learn(r)
#endif
      :: else
      fi;
      r++
    :: else -> break
    od;
    round++
  :: else -> break
  od;
  r = 0;
  do
  :: r < R ->
    c = 0;
    do
    :: c < CLIENTS -> assert(dead[r] || (executed[r] == length && last[r * CLIENTS + c] == Q)); c++
    :: else -> break
    od;
    r++
  :: else -> break
  od
}

proctype calm() {
  byte a, v, i, c, r, round;
  bit ok;
  d_step { !settled -> settle(); CLEAR; r = 0; round = 0; settled = 1 }
}
#endif

init {
  byte i;
  d_step {
    acceptor[1] = 1;
    previous[1] = 1;
    source[1] = 1;
    accepted_epoch[1] = 1;
    serving[1] = 1;
    copied[1] = 1
  }
  atomic {
    any_replica(watched);
    run anybody();
#ifdef SETTLE
    run calm();
#endif
    do
    :: i < R -> run replica(i); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < CLIENTS -> run client(i); i++
    :: else -> break
    od;
    i = 0
  }
}
