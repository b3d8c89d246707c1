// EndOwner: the process that owns an end of a channel, and whether the end was given up. In the channel's memory:
//
//   shared      odd: several processes may have copies of the end; changes with every fork and every claim
//   process     the owner while `shared` is even; 0: none yet, or unknown
//   namespaces  that give the process its meaning
//   left        1: the end was given up permanently
//
// A forked child has copies of its parent's ends, and either process may continue to use one. So a fork makes all ends
// of the process shared. The process that uses an end next claims it.
//   A claimed end has left when it was given up, or when its process is dead.
//   A shared end has left when its last copy is gone. All copies share an open file on which the byte of the end is
//   locked (F_OFD_SETLK). The kernel releases the lock with the last copy, whether that is destroyed, killed, or
//   replaced by another program. The file is the channel's, or one that a process makes when it forks with an anonymous
//   channel. Without a file, a shared end never counts as left.
//
// Ordering: an end is given up after its last message was sent or received; `left` is stored with release. A waiting
// peer acquires it, polls once more, and only then gives up. Deaths of processes and releases of locks are ordered by
// the kernel's own locks.
#pragma once

#include <atomic>
#include <cstdint>

namespace smelt::channel {

enum class End : int { sender = 0, receiver = 1 };

struct EndOwner {
  std::atomic<std::uint32_t> shared;
  std::atomic<std::uint32_t> left;
  std::atomic<std::uint64_t> process;
  std::atomic<std::uint64_t> namespaces;
};

class OwnedEnd;

/// The ends of one channel in this process, and the file that holds their locks while they are shared.
class ChannelEnds {
 public:
  ChannelEnds();
  ChannelEnds(const ChannelEnds&) = delete;
  ~ChannelEnds();

  /// `fd`: the channel's memory, which stays open; -1: none.
  void use_file(int fd) noexcept { fd_ = fd; }

 private:
  friend class OwnedEnd;
  friend struct ForkRegistry;
  void share() noexcept;
  /// Locks the byte of an end. Returns the open file that holds the lock; -1: none.
  int lock(End end) const noexcept;
  bool is_locked(End end) const noexcept;

  int fd_ = -1;
  bool made_here_ = false;
  OwnedEnd* held_[2] = {};
  ChannelEnds* next_ = nullptr;
  ChannelEnds* before_ = nullptr;
};

/// An end that this process owns or has inherited. Gives the end up when destroyed.
class OwnedEnd {
 public:
  /// The calling process owns the end from now on. `own`, `peer`: the owners of this end and of the other one.
  OwnedEnd(End end, ChannelEnds& ends, EndOwner& own, EndOwner& peer);
  OwnedEnd(const OwnedEnd&) = delete;
  ~OwnedEnd();

  /// Must be called before each use of the end.
  void claim() noexcept {
    // Relaxed: a concurrent fork in another thread counts as just before or just after.
    if (!claimed_.load(std::memory_order_relaxed)) [[unlikely]]
      hold();
  }

  /// Called repeatedly by a waiting end, between polls. True: the other end has left or its process is dead, and the
  /// last poll was after that, so that it has seen everything that the other end did.
  bool peer_is_gone() noexcept;

 private:
  friend class ChannelEnds;
  void hold() noexcept;
  void share() noexcept;
  void unlock() noexcept;
  bool sees_peer_gone() noexcept;
  bool sees_peer_dead() const noexcept;

  EndOwner& own_;
  EndOwner& peer_;
  ChannelEnds& ends_;
  const End end_;
  std::atomic<bool> claimed_{false};  ///< by this process
  int lock_ = -1;                     ///< open file that holds the lock while the end is shared
  bool seen_gone_ = false;            ///< at the last look
  std::uint64_t next_probe_ns_ = 0;   ///< when the kernel is asked about the peer next
};

}  // namespace smelt::channel
