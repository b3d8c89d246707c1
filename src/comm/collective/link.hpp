// Link: a rank's state for one peer: the channels in both directions, and access to the peer's memory. Route: the links
// of a rank in a tree.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"
#include "base/cacheline_padded.hpp"
#include "channel/ump.hpp"
#include "comm/collective/work_sharing.hpp"
#include "comm/group/shared_layout.hpp"

namespace smelt::comm {

struct alignas(separation_bytes) Link {
  int peer = 0;
  channel::UmpSender out;
  channel::UmpReceiver in;
  DirectReads* mine_read = nullptr;    ///< of the channel to the peer: how many of my buffers it has read
  DirectReads* theirs_read = nullptr;  ///< of the channel from the peer
  std::uint32_t lent = 0;              ///< my buffers whose addresses the peer has got
  std::uint32_t taken = 0;             ///< the peer's buffers that I have read
  WorkSharing giving, getting;         ///< of what both move: to the peer, and from it
  bool lending = false;                ///< the peer may not have returned all
  pid_t process = 0;                   ///< 0: the same process

  /// Whether the peer is done with all buffers lent so far. Pairs with the store in give_back().
  bool all_returned() const noexcept { return mine_read->count.load(ordering::buffer_reuse) == lent; }
  /// Pairs with the load in all_returned().
  void give_back() noexcept {
    theirs_read->count.store(++taken, ordering::buffer_return);
    unpark(theirs_read->parking);
  }
};

/// One rank's view of a tree.
struct Route {
  CachelinePaddedVector<Link*> flood;           ///< neighbours, most urgent first
  CachelinePaddedVector<std::uint16_t> toward;  ///< per root: index in `flood` of the neighbour on the way to it

  Link* link_toward(int root) const { return flood[toward[static_cast<std::size_t>(root)]]; }
  /// Whether more than one neighbour is left without this one, which may be null.
  bool is_row(const Link* except) const { return flood.size() > (except != nullptr ? 2U : 1U); }
};

}  // namespace smelt::comm
