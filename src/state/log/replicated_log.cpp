// The public interface, over a Space and its replicas.
#include "smelt/replicated_log.hpp"

#include <utility>

#include "base/error.hpp"
#include "comm/collective/tuner_access.hpp"
#include "state/log/replica.hpp"
#include "state/log/space.hpp"

namespace smelt {

Replica::Replica(std::unique_ptr<state::log::Replica> replica) : replica_(std::move(replica)) {}
Replica::Replica(Replica&&) noexcept = default;
Replica& Replica::operator=(Replica&&) noexcept = default;
Replica::~Replica() = default;

int Replica::rank() const noexcept { return replica_->rank(); }

Status Replica::append(const void* command, std::size_t bytes, std::uint64_t* index) noexcept {
  std::uint64_t request = 0;
  const Status status = replica_->start(command, bytes, &request);
  return status == Status::ok ? replica_->wait(request, index) : status;
}

Status Replica::start(const void* command, std::size_t bytes, Ticket* ticket) noexcept {
  return replica_->start(command, bytes, &ticket->request);
}

Status Replica::test(Ticket ticket, bool* done, std::uint64_t* index) noexcept {
  return replica_->test(ticket.request, done, index);
}

Status Replica::wait(Ticket ticket, std::uint64_t* index) noexcept { return replica_->wait(ticket.request, index); }
Status Replica::next(Entry* entry, bool* there) noexcept { return replica_->next(entry, there); }
Status Replica::next(Entry* entry) noexcept { return replica_->next(entry); }
Status Replica::read_point(std::uint64_t* index) noexcept { return replica_->read_point(index); }
Status Replica::catch_up(std::uint64_t index) noexcept { return replica_->catch_up(index); }
std::uint64_t Replica::delivered() const noexcept { return replica_->delivered(); }
Status Replica::progress() noexcept { return replica_->progress(); }
Status Replica::serve(bool (*stop)(void*), void* context) noexcept { return replica_->serve(stop, context); }
Status Replica::serve(const std::atomic<bool>& stop) noexcept {
  const auto is_set = [](void* flag) {
    return static_cast<const std::atomic<bool>*>(flag)->load(std::memory_order_acquire);
  };
  return replica_->serve(is_set, const_cast<std::atomic<bool>*>(&stop));
}
LogConfiguration Replica::configuration() const { return replica_->configuration(); }
std::uint64_t Replica::started() const noexcept { return replica_->started(); }
std::string Replica::failure() const { return replica_->failure(); }

ReplicatedLog::ReplicatedLog(std::shared_ptr<state::log::Space> space) : space_(std::move(space)) {}
ReplicatedLog::ReplicatedLog(ReplicatedLog&&) noexcept = default;
ReplicatedLog& ReplicatedLog::operator=(ReplicatedLog&&) noexcept = default;
ReplicatedLog::~ReplicatedLog() = default;

Result<ReplicatedLog> ReplicatedLog::create(const Communicator& communicator, const LogOptions& options) {
  auto space = state::log::Space::create(comm::TunerAccess::state(communicator), options);
  if (!space) return space.error();
  return ReplicatedLog(std::move(*space));
}

Result<ReplicatedLog> ReplicatedLog::create_shared(const std::string& name, int size, std::span<const int> ranks,
                                                   const LogOptions& options, double timeout_s) {
  auto space = state::log::Space::create_shared(name, size, ranks, options, timeout_s);
  if (!space) return space.error();
  return ReplicatedLog(std::move(*space));
}

int ReplicatedLog::size() const noexcept { return space_->size(); }

Result<Replica> ReplicatedLog::attach(int rank, const StateMachine& machine) {
  const auto refuse = [&](const char* why) {
    return make_error(Status::invalid_argument, "replicated log: attach: rank {} {}", rank, why);
  };
  if (rank < 0 || rank >= size()) return refuse("is not in the log");
  if (!space_->own(rank)) return refuse("belongs to another process");
  if (!space_->shape().is_replica(rank)) return refuse("is not among LogOptions::replicas");
  if ((machine.save == nullptr) != (machine.load == nullptr))
    return refuse("has one of save and load without the other");
  if (space_->kept() != nullptr && (machine.apply == nullptr || machine.save == nullptr)) {
    return refuse("needs apply, save and load: the log is kept, and its state with it");
  }
  if (space_->layout().part(rank).attached.exchange(1, std::memory_order_acq_rel) != 0) {
    return refuse("has been attached before; each can be once");
  }
  return Replica(std::make_unique<state::log::Replica>(space_, rank, machine));
}

}  // namespace smelt
