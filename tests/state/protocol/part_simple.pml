/* PART_SIMPLE ([Shahmirzadi14] figure 3.3) with two keys at two servers. Client 0 writes key 1, then key 0; client 1 reads key
 * 0, then key 1. Who sees the later write must see the earlier one.
 *
 * RETURN_EARLY: an update returns when it has been sent (figure 3.17a). With two servers that is not even sequentially
 * consistent.
 */
bit value[2], sent[2];
bit over[2];                               /* client 0's updates */
byte seen[2];                              /* by client 1: 1 + the value */

#ifdef RETURN_EARLY
#define RETURNED(key) skip
#else
#define RETURNED(key) over[key]
#endif

active proctype writer() {
  sent[1] = 1;
  RETURNED(1);
  sent[0] = 1;
  RETURNED(0)
}

active proctype servers() {
  do
  :: atomic { sent[0] && !over[0] -> value[0] = 1; over[0] = 1 }
  :: atomic { sent[1] && !over[1] -> value[1] = 1; over[1] = 1 }
  :: over[0] && over[1] -> break
  od
}

active proctype reader() {
  atomic { true -> seen[0] = 1 + value[0] }
  atomic { true -> seen[1] = 1 + value[1] }
  assert(!(seen[0] == 2 && seen[1] == 1))
}
