// Holder: who has an end of a channel, in the channel's memory, and whether it has left.
//
//   process     of the end; 0: nobody yet, or nobody knows
//   namespaces  that give the process its meaning
//   left        1: the end was given up, for good
//
// A forked child has copies of the ends that its parent had, and either may go on with one. So a fork makes the holder
// of all ends of the process unknown, until one is used again in a way that may wait: by that process it is held. Of
// an end whose holder is unknown nobody says that it has left.
//
// Ordering: an end gives up after its last message, or after it has read the last one that it will read; `left` is
// stored with release. Who waits acquires it, looks once more at what it waits for, and only then gives up.
#pragma once

#include <atomic>
#include <cstdint>

namespace smelt::channel {

struct Holder {
  std::atomic<std::uint64_t> process;
  std::atomic<std::uint64_t> namespaces;
  std::atomic<std::uint32_t> left;
};

/// An end that this process has, or has inherited. Knows by itself when it is given up.
class Held {
 public:
  /// The calling process holds the end from now on. `peer`: the other end's.
  Held(Holder& own, Holder& peer);
  Held(const Held&) = delete;
  ~Held();

  /// Before an end that may wait is used.
  void claim() noexcept {
    if (forks_ != forks_so_far().load(std::memory_order_relaxed)) [[unlikely]]
      hold();
  }

  /// Asked time and again by who waits, between looks at what is awaited. True: the other end has left or its process
  /// is dead, and what it did before it left was in sight at the last look.
  bool peer_is_gone() noexcept;

 private:
  friend struct Forks;
  static std::atomic<std::uint32_t>& forks_so_far() noexcept;
  void hold() noexcept;
  bool sees_peer_gone() noexcept;

  Holder& own_;
  Holder& peer_;
  Held* next_ = nullptr;
  Held* before_ = nullptr;
  std::uint32_t forks_ = 0;         ///< of this process when the end was known to be held
  bool seen_gone_ = false;          ///< at the last look
  std::uint64_t next_probe_ns_ = 0; ///< when the peer's process is looked at next
};

}  // namespace smelt::channel
