/* The replicated log as it is built (src/state/log): slots in shared memory, decided by compare-and-swap. A model for Spin;
 * docs/reference/replicated-log.md and replica.hpp describe the protocol, and the names in comments are its functions.
 *
 * A step is one access to shared memory. A process may stop between any two steps, for any time or for ever: so a death
 * is one more way to stop, and every suspicion may be wrong. Anybody who is up to date takes over at any time, and a
 * leader evicts anybody at any time, as often as the sizes below allow.
 *
 * Checked: a slot is decided once, each request once, in the order in which its client issued them, without a gap; what
 * a replica delivers, and what a snapshot counts, is what was decided; nothing that a replica needs is gone unless it was
 * evicted; some replica is always up to date. With SETTLE: whenever all others have
 * stopped, a replica that is up to date can append.
 *
 * Sizes: R replicas, E take-overs, EVICTIONS; CLIENTS (the first replicas) with Q requests each, CELLS of them at a time;
 * N slots, of G requests at most (1 or 2). Each MUTANT leaves out one rule.
 */
#ifndef R
#define R 2
#endif
#ifndef E
#define E 2
#endif
#ifndef EVICTIONS
#define EVICTIONS 1
#endif
#ifndef CLIENTS
#define CLIENTS 1
#endif
#ifndef Q
#define Q 3
#endif
#ifndef CELLS
#define CELLS 1
#endif
#ifndef N
#define N 2
#endif
#ifndef G
#define G 1
#endif
#define M (CLIENTS * Q + 1)                /* entries, with one of settle() */
#define LAP(index) ((index) / N + 1)
#define REQUEST(client, number) (1 + (client) * (Q + 1) + (number) - 1)
#define CLIENT(request) (((request) - 1) / (Q + 1))
#define CELL(client, number) ((client) * CELLS + (number) % CELLS)
#define NOBODY R

/* Shared memory. A word is what is read or changed in one step. */
byte epoch = 1, leader = 0;                          /* the configuration */
byte floor_epoch = 1, floor_index = 0;               /* the floor */
byte slot_lap[N], slot_request[N], slot_seal[N];     /* slots: a request, or the epoch that sealed it */
mtype = { LIVE, OUT, JOINING, GRANTED };
mtype standing[R] = LIVE;                            /* the progress words */
byte generation[R], progress[R];
byte stamp[CLIENTS * CELLS], command[CLIENTS * CELLS];
byte offer_generation[R], offer_index[R];            /* a snapshot for r; 0: none, else generation + 1 */
byte offer_executed[R * CLIENTS];

#if G > 1
byte slot_count[N];                                  /* requests from slot_request on; in the same word */
#define COUNT(i) slot_count[i]
#define FORGET_COUNT count = 0; at = 0; bad = 0;
#else
#define COUNT(i) 1
#define FORGET_COUNT
#endif

/* What the check knows. */
byte decided_at[M];                                  /* the request; 0: not decided */
bit is_decided[CLIENTS * (Q + 1) + 1];
byte take_overs, evictions;
byte alone = NOBODY;                                 /* SETTLE: all others have stopped */

/* `count` requests from `request` on were decided in slot `index`. */
inline decided(index, request, count) {
  assert(index < M && decided_at[index] == 0);
  assert(index == 0 || decided_at[index - 1] != 0);
  assert(!is_decided[request]);
  assert(request == REQUEST(CLIENT(request), 1) || is_decided[request - 1]);
  decided_at[index] = request;
  is_decided[request] = 1;
#if G > 1
  if
  :: count == 2 -> assert(!is_decided[request + 1]); is_decided[request + 1] = 1
  :: else
  fi
#endif
}

/* note() */
inline note(request, count) {
  seen[CLIENT(request)] = seen[CLIENT(request)] + count;
  if
  :: CLIENT(request) == r -> place = learned
  :: else
  fi;
  learned++
}

/* drop_out(), and resign() in steps of its own. */
inline drop_out() { FORGET_COUNT live = 0; leading = 0; resigning = 1; returning = 0; part = 0 }

/* What a replica needs is gone: only if it was evicted. */
inline lost() { assert(generation[r] != gen); drop_out() }

/* learn(): one slot. */
#define CAN_LEARN (live && learned < M && slot_lap[learned % N] == LAP(learned) && slot_seal[learned % N] == 0)
#define IS_LOST (live && slot_lap[learned % N] > LAP(learned))

#ifdef NO_SPARE_SLOT
#define HAS_ROOM (learned < floor + N)
#else
#define HAS_ROOM (learned + 1 < floor + N)
#endif
#define NEXT(client) (seen[client] + 1)
#define IS_ASKED(client) (stamp[CELL(client, NEXT(client))] == NEXT(client))
#define IS_OURS(lap, request, seal) ((lap == LAP(learned) && seal == my_epoch) || (lap + 1 == LAP(learned) && seal == 0))

/* All that a replica that runs alone has to do until its own command is appended; the others, being stopped, are evicted.
 * Deliveries are as take() does them. */
inline settle() {
  epoch++; leader = r; my_epoch = epoch; generation[r]++; gen = generation[r];
  do
  :: CAN_LEARN -> note(slot_request[learned % N], COUNT(learned % N))
  :: else -> break
  od;
  assert(slot_lap[learned % N] <= LAP(learned));
  slot_lap[learned % N] = LAP(learned); slot_request[learned % N] = 0; slot_seal[learned % N] = my_epoch;
  assert(floor_epoch <= my_epoch);
  progress[r] = learned; delivered = learned;
  floor_epoch = my_epoch; floor_index = learned; floor = learned;
  assert(HAS_ROOM);
  decided(learned, REQUEST(r, seen[r] + 1), 1);
  alone = R + 1
}

proctype replica(byte r) {
  byte learned, delivered, seen[CLIENTS], executed[CLIENTS];
  byte gen, epoch_seen = 1, leader_seen = 0, my_epoch, floor;
  bit live = 1, leading, resigning;
  byte started, place;                     /* client: place of its request before, where CELLS is 1 */
  byte part;                               /* of take(), establish(), raise_floor(), start(): the next step; 0: none */
  byte index, request, lap, seal, least, other, victim, number, copy;
  mtype state;
  byte returning, asked_epoch;             /* 1: asking, 2: receiving */
#if G > 1
  byte count, at;                          /* of take(), decide(): requests in the slot; those before `number` */
  bit bad;                                 /* of take(): a copy before is of another command */
#endif
  {
  do
  /* ---- learner */
  :: atomic { part == 0 && CAN_LEARN -> note(slot_request[learned % N], COUNT(learned % N)) }
  :: atomic { part == 0 && IS_LOST -> lost() }
  :: atomic { part == 0 && live && delivered < learned ->          /* take() */
       if
       :: slot_lap[delivered % N] != LAP(delivered) || slot_seal[delivered % N] != 0 -> lost()
       :: else ->
            request = slot_request[delivered % N]; part = 1;
#if G > 1
            count = COUNT(delivered % N)
#endif
       fi }
  :: atomic { part == 1 ->
#if G > 1
       number = executed[CLIENT(request)] + 1 + at;
#else
       number = executed[CLIENT(request)] + 1;
#endif
       if
       :: stamp[CELL(CLIENT(request), number)] != number -> lost()
       :: else -> part = 2
       fi }
  :: atomic { part == 2 -> copy = command[CELL(CLIENT(request), number)]; part = 3;
#if G > 1
       if
       :: at + 1 < count -> bad = (copy != number); at++; copy = 0; part = 1
       :: else
       fi
#endif
     }
  :: atomic { part == 3 ->
       if
#ifdef NO_VALIDATION
       :: true ->
#else
       :: generation[r] == gen && standing[r] == LIVE && progress[r] == delivered ->
#endif
            progress[r] = delivered + 1;
#if G > 1
            assert(decided_at[delivered] == REQUEST(CLIENT(request), number - at) && copy == number && !bad);
#else
            assert(decided_at[delivered] == REQUEST(CLIENT(request), number) && copy == number);
#endif
            executed[CLIENT(request)] = number;
            FORGET_COUNT
            delivered++; request = 0; number = 0; copy = 0; part = 0
#ifndef NO_VALIDATION
       :: else -> FORGET_COUNT drop_out(); request = 0; number = 0; copy = 0
#endif
       fi }

  /* ---- client: start() */
  :: atomic { part == 0 && r < CLIENTS && started < Q && (started < CELLS || (seen[r] == started && place < floor_index)) ->
       part = 4 }
  :: atomic { part == 4 -> command[CELL(r, started + 1)] = started + 1; part = 5 }
  :: atomic { part == 5 -> stamp[CELL(r, started + 1)] = started + 1; started++; part = 0 }

  /* ---- configuration, take_over() */
  :: atomic { part == 0 && live && (epoch_seen != epoch || leader_seen != leader) ->
       epoch_seen = epoch; leader_seen = leader; leading = 0 }
  :: atomic { part == 0 && live && leader != r && take_overs < E ->
       take_overs++; epoch++; leader = r; part = 6 }
  :: atomic { part == 6 ->
       if
       :: generation[r] == gen && standing[r] == LIVE && progress[r] == delivered ->
#ifndef SAME_GENERATION
            generation[r]++; gen = generation[r];
#endif
            epoch_seen = epoch; leader_seen = leader; leading = 0; part = 0
       :: else -> drop_out()
       fi }
  :: atomic { resigning && part == 0 ->
       resigning = 0;
       if
       :: leader == r -> epoch++; leader = NOBODY
       :: else
       fi }

  /* ---- leader: establish() */
  :: atomic { part == 0 && live && !leading && leader_seen == r && !CAN_LEARN && !IS_LOST ->
       my_epoch = epoch_seen;
       if
       :: my_epoch > 1 -> part = 7
       :: else -> part = 9
       fi }
  :: atomic { part == 7 ->
       lap = slot_lap[learned % N]; request = slot_request[learned % N]; seal = slot_seal[learned % N];
       if
       :: lap == LAP(learned) && (seal == 0 || seal > my_epoch) -> part = 0
#ifndef SEAL_LATER_LAPS
       :: lap > LAP(learned) -> lost()
#endif
       :: else -> part = 8
       fi;
       if
       :: part != 8 -> lap = 0; request = 0; seal = 0
       :: else
       fi }
  :: atomic { part == 8 ->
       if
       :: slot_lap[learned % N] == lap && slot_request[learned % N] == request && slot_seal[learned % N] == seal ->
#ifndef NO_SEAL
            slot_lap[learned % N] = LAP(learned); slot_request[learned % N] = 0; slot_seal[learned % N] = my_epoch;
#endif
            part = 9
       :: else -> part = 0
       fi;
       lap = 0; request = 0; seal = 0 }
  :: atomic { part == 9 ->
       if
       :: floor_epoch > my_epoch
       :: else -> floor_epoch = my_epoch; floor = floor_index; leading = 1
       fi;
       part = 0 }

  /* ---- leader: decide() */
  :: atomic { part == 0 && live && leading && !CAN_LEARN && !IS_LOST && HAS_ROOM && learned < M ->
       if
       :: IS_ASKED(0) -> request = REQUEST(0, NEXT(0))
#if CLIENTS > 1
       :: IS_ASKED(1) -> request = REQUEST(1, NEXT(1))
#endif
       fi;
       part = 10;
#if G > 1
       count = 1; part = 21
#endif
     }
#if G > 1
  :: atomic { part == 21 ->                                         /* count_requests() */
       if
       :: stamp[CELL(CLIENT(request), NEXT(CLIENT(request)) + 1)] == NEXT(CLIENT(request)) + 1 -> count = 2
#ifdef UNSEEN
       :: REQUEST(CLIENT(request), NEXT(CLIENT(request))) < REQUEST(CLIENT(request), Q) -> count = 2
#endif
       :: true
       fi;
       part = 10 }
#endif
  :: atomic { part == 10 ->
       lap = slot_lap[learned % N]; number = slot_request[learned % N]; seal = slot_seal[learned % N];
       if
#ifdef NO_SEAL
       :: lap < LAP(learned) -> part = 11
#else
       :: IS_OURS(lap, number, seal) -> part = 11
#endif
       :: else -> leading = 0; part = 0
       fi;
       if
       :: part == 0 -> FORGET_COUNT lap = 0; number = 0; seal = 0; request = 0
       :: else
       fi }
  :: atomic { part == 11 ->
       if
       :: slot_lap[learned % N] == lap && slot_request[learned % N] == number && slot_seal[learned % N] == seal ->
#if G > 1
            decided(learned, request, count);
            slot_count[learned % N] = count;
#else
            decided(learned, request, 1);
#endif
            slot_lap[learned % N] = LAP(learned); slot_request[learned % N] = request; slot_seal[learned % N] = 0;
#if G > 1
            note(request, count)
#else
            note(request, 1)
#endif
       :: else -> leading = 0
       fi;
       FORGET_COUNT
       lap = 0; number = 0; seal = 0; request = 0; part = 0 }

  /* ---- leader: raise_floor() */
  :: atomic { part == 0 && live && leading && floor < learned -> least = learned; other = 0; part = 12 }
  :: atomic { part == 12 ->
       if
       :: other == R -> other = 0; part = (least > floor -> 15 : 16)
       :: else ->
            state = standing[other]; number = generation[other]; index = progress[other];
            if
            :: (state == LIVE || state == GRANTED) && index >= floor ->
                 if
                 :: other != r && evictions < EVICTIONS -> victim = other; part = 13
                 :: true -> least = (index < least -> index : least); other++
                 fi
            :: else -> other++
            fi;
            if
            :: part == 12 -> state = 0; number = 0; index = 0
            :: else
            fi
       fi }
  :: atomic { part == 13 ->                                         /* evict() */
       if
#ifndef EVICT_UNCHECKED
       :: epoch != epoch_seen || leader != leader_seen -> leading = 0; part = 0; least = 0; other = 0; victim = 0
#endif
       :: else -> part = 14
       fi;
       if
       :: part == 0 -> state = 0; number = 0; index = 0
       :: else
       fi }
  :: atomic { part == 14 ->
       if
       :: standing[other] == state && generation[other] == number && progress[other] == index && evictions < EVICTIONS ->
            evictions++; standing[other] = OUT; generation[other]++; progress[other] = 0; other = 0;
            do
            :: standing[other] != LIVE -> other++; assert(other < R)   /* the state lives on */
            :: else -> break
            od;
            other = victim + 1; victim = 0
       :: else -> least = (index < least -> index : least); other++; victim = 0
       fi;
       state = 0; number = 0; index = 0; part = 12 }
  :: atomic { part == 15 ->
       if
       :: floor_epoch == my_epoch && floor_index == floor -> floor_index = least; floor = least; part = 16
#ifdef FLOOR_WITHOUT_EPOCH
       :: floor_epoch != my_epoch -> floor_index = least; floor = least; part = 16
#else
       :: else -> leading = 0; part = 0
#endif
       fi;
       least = 0 }
  :: atomic { part == 16 -> least = 0; part = 0 }

  :: atomic { part == 0 && live && leading ->                       /* grants */
       other = 0;
       do
       :: other < R && !(standing[other] == JOINING && progress[other] == my_epoch) -> other++
       :: else -> break
       od;
       if
       :: other < R -> number = generation[other]; part = 17
       :: else -> other = 0
       fi }
  :: atomic { part == 17 ->
       if
       :: standing[other] == JOINING && generation[other] == number && progress[other] == my_epoch ->
            standing[other] = GRANTED; progress[other] = floor
       :: else
       fi;
       number = 0; other = 0; part = 0 }

  /* ---- the way back: ask(), check_grant(), finish_return() */
  :: atomic { part == 0 && !live && !resigning && returning == 0 && leader != NOBODY ->
       asked_epoch = epoch; other = leader; part = 18 }
  :: atomic { part == 18 ->
       generation[r]++; gen = generation[r]; standing[r] = JOINING; progress[r] = asked_epoch; other = 0;
       returning = 1; part = 0 }
  :: atomic { part == 0 && returning == 1 && standing[r] == GRANTED && generation[r] == gen -> part = 19 }
  :: atomic { part == 19 ->
       if
#ifdef GRANT_UNCHECKED
       :: true -> returning = 2
#else
       :: epoch == asked_epoch -> returning = 2
       :: else -> returning = 0
#endif
       fi;
       part = 0 }
  :: atomic { part == 0 && returning == 1 && (epoch != asked_epoch || generation[r] != gen) -> returning = 0 }
  :: atomic { part == 0 && returning == 2 && (generation[r] != gen || standing[r] != GRANTED) -> returning = 0 }
  :: atomic { part == 0 && returning == 2 && offer_generation[r] == gen + 1 ->
       if
       :: generation[r] == gen && standing[r] == GRANTED ->
            standing[r] = LIVE; progress[r] = offer_index[r]; live = 1;
            learned = offer_index[r]; delivered = learned;
            other = 0;
            do
            :: other < CLIENTS -> seen[other] = offer_executed[r * CLIENTS + other]; executed[other] = seen[other]; other++
            :: else -> break
            od;
            other = 0; place = (learned > 0 -> learned - 1 : 0);
            epoch_seen = 0; leader_seen = NOBODY
       :: else
       fi;
       returning = 0 }

  /* ---- snapshots for others: claim_receiver(), send_chunk() */
  :: atomic { part == 0 && live ->
       other = 0;
       do
       :: other < R && !(other != r && standing[other] == GRANTED && offer_generation[other] != generation[other] + 1
#ifndef OLD_SNAPSHOTS
                         && progress[other] <= delivered
#endif
                        ) -> other++
       :: else -> break
       od;
       if
       :: other < R -> number = generation[other] + 1; part = 20
       :: else -> other = 0
       fi }
  :: atomic { part == 20 ->
       if
       :: offer_generation[other] < number ->
            offer_generation[other] = number; offer_index[other] = delivered;
            index = 0;
            do
            :: index < CLIENTS -> offer_executed[other * CLIENTS + index] = executed[index]; index++
            :: else -> break
            od
       :: else
       fi;
       index = 0; number = 0; other = 0; part = 0 }
#ifdef SETTLE
  :: atomic { part == 0 && live && generation[r] == gen && standing[r] == LIVE && r < CLIENTS && alone == NOBODY ->
       alone = r; settle() }
#endif
  od
  } unless { alone != NOBODY }
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
