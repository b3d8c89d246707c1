// Link: what a rank knows about a peer: both channels, and how to read its memory.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"
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
  std::uint32_t lent = 0;           ///< my buffers that the peer has been told of
  std::uint32_t taken = 0;          ///< the peer's buffers that I have read
  WorkSharing giving, getting;      ///< of what both move: to the peer, and from it
  bool lending = false;             ///< the peer may not have returned all
  pid_t process = 0;                ///< 0: the same process

  /// Partner: the store of give_back(): the peer is done with all buffers lent so far.
  bool all_returned() const noexcept { return mine_read->count.load(ordering::buffer_reuse) == lent; }
  /// Pairs with the load in all_returned().
  void give_back() noexcept {
    theirs_read->count.store(++taken, ordering::buffer_return);
    unpark(theirs_read->parking);
  }
};

}  // namespace smelt::comm
