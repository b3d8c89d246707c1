// Defects that tests put into the algorithms to check that they are found: those of the published figures, and some
// others. They exist only if SMELT_MAP_MUTANTS is defined.
#pragma once

namespace smelt::state::over_ranks {

enum class Mutant {
  none,
  part_simple_returns_early,           ///< a put returns before it is answered: [Shahmirzadi14] figure 3.17a
  part_caching_applies_at_once,        ///< without waiting until copies are dropped
  part_caching_copies_while_changing,  ///< a value overtakes the invalidation of its key
  rep_remote_does_not_ask,             ///< how many updates there are
  rep_sc_returns_early,                ///< a put returns before it is applied at its client
  rep_local_applies_on_arrival,        ///< without waiting until all have the update
  rep_local_does_not_wait,             ///< the flag of a key is cleared before the value is there
  rep_2pc_votes_for_higher,            ///< line 20 of figure 3.11, and its issuers do not wait
  rep_2pc_frees_others,                ///< line 26 of figure 3.11
  part_snapshot_does_not_freeze,       ///< servers go on while the cells of others are collected
  rep_local_snapshot_does_not_wait,    ///< for updates that others may have seen, nor takes messages
  rep_2pc_snapshot_does_not_wait,      ///< the same
};

#ifdef SMELT_MAP_MUTANTS
extern Mutant mutant;
inline bool is_mutant(Mutant which) noexcept { return mutant == which; }
#else
constexpr bool is_mutant(Mutant) noexcept { return false; }
#endif

}  // namespace smelt::state::over_ranks
