// EndOwner: who has an end of a channel, in the channel's memory, and whether it has left.
//
//   shared      odd: copies of the end may be in several processes; changes with every fork and every claim
//   process     that has the end while `shared` is even; 0: nobody yet, or nobody knows
//   namespaces  that give the process its meaning
//   left        1: the end was given up, for good
//
// A forked child has copies of the ends that its parent had, and either may go on with one. So a fork makes all ends of
// the process shared, until one is used: the process that uses it claims it.
//   A claimed end has left when it says so, or when its process is dead.
//   A shared end has left when its last copy is gone. All copies have an open file in common on which the byte of the end is
//   locked (F_OFD_SETLK): the kernel gives the lock up with the last of them, be it destroyed, killed or replaced by
//   another program. The file is the channel's, or one that a process makes when it forks with an anonymous channel. Where
//   there can be none, nobody says of a shared end that it has left.
//
// Ordering: an end gives up after its last message, or after it has read the last one that it will read; `left` is
// stored with release. Who waits acquires it, looks once more at what it waits for, and only then gives up. The death of
// a process and the end of a lock are learnt from the kernel, whose own locks order them.
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

/// The ends of one channel in this process, and the file on which they are locked while they are shared.
class ChannelEnds {
 public:
  ChannelEnds();
  ChannelEnds(const ChannelEnds&) = delete;
  ~ChannelEnds();

  /// `fd`: of the channel's memory, which stays open; -1: it has none.
  void use_file(int fd) noexcept { fd_ = fd; }

 private:
  friend class OwnedEnd;
  friend struct ForkRegistry;
  void share() noexcept;
  /// The open file that has the lock from now on; -1: there is none.
  int lock(End end) const noexcept;
  bool is_locked(End end) const noexcept;

  int fd_ = -1;
  bool made_here_ = false;
  OwnedEnd* held_[2] = {};
  ChannelEnds* next_ = nullptr;
  ChannelEnds* before_ = nullptr;
};

/// An end that this process has, or has inherited. Knows by itself when it is given up.
class OwnedEnd {
 public:
  /// The calling process has the end from now on. `own`, `peer`: who has this end and the other one.
  OwnedEnd(End end, ChannelEnds& ends, EndOwner& own, EndOwner& peer);
  OwnedEnd(const OwnedEnd&) = delete;
  ~OwnedEnd();

  /// Before each use of the end.
  void claim() noexcept {
    // Relaxed: as if the fork that another thread is in came just before or just after.
    if (!claimed_.load(std::memory_order_relaxed)) [[unlikely]]
      hold();
  }

  /// Asked time and again by who waits, between looks at what is awaited. True: the other end has left or its process
  /// is dead, and what it did before it left was in sight at the last look.
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
  int lock_ = -1;                     ///< open file that has the lock while the end is shared
  bool seen_gone_ = false;            ///< at the last look
  std::uint64_t next_probe_ns_ = 0;   ///< when the kernel is asked about the peer next
};

}  // namespace smelt::channel
