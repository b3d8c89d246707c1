#include "state/over_ranks/member.hpp"

#include "base/error.hpp"
#include "state/maps.hpp"

namespace smelt::state::over_ranks {

Member::Member(std::shared_ptr<Space> space, int rank, LocalTable table)
    : space_(std::move(space)),
      layout_(space_->layout()),
      rank_(rank),
      links_(layout_, rank),
      table_(std::move(table)),
      waiter_(space_->wait_config()),
      guard_(space_->members(), rank, space_) {
  waiter_.set_interrupt([](void* self) { return static_cast<Member*>(self)->needs_attention(); }, this);
}

Member::~Member() {
  links_.flush();
  guard_.release();
  members().leave(rank_);
  ring_all();
}

void Member::ring_all() noexcept {
  for (int rank = 0; rank < ranks(); ++rank) unpark(layout_.part(rank).bell);
}

Status Member::fail(const std::string& why) noexcept {
  if (status_ == Status::ok) {
    status_ = Status::broken;
    failure_ = "map: " + why;
  }
  return status_;
}

int Member::missing() noexcept {
  if (const int dead = members().first_dead(); dead >= 0) return dead;
  for (int rank = 0; rank < ranks(); ++rank) {
    const bool finished = layout_.part(rank).finished.load(std::memory_order_acquire) != 0;
    if (!finished && !members().present(rank)) return rank;
  }
  return -1;
}

bool Member::needs_attention() noexcept {
  space_->look_for_deaths();
  return missing() >= 0;
}

void Member::report_missing(int rank) noexcept {
  const auto& name = map_definitions()[static_cast<std::size_t>(shape().algorithm)].facts.name;
  const bool left = members().state(rank) == comm::MemberState::left;
  fail(fmt::format(
      "{}: rank {} {}", name, rank,
      left ? "has left while others needed it; call finish() on every rank before" : "died, and no death is survived"));
}

bool Member::may_call() noexcept {
  if (status_ != Status::ok) return false;
  if (shape().dedicated == 0 || !shape().serves(rank_)) return true;
  failure_ = fmt::format("map: rank {} serves and issues nothing: call serve() or finish(), or set colocate", rank_);
  return false;
}

MapAnswer Member::call(const GroupCall& call) noexcept {
  if (!may_call()) return {status_ == Status::ok ? Status::invalid_argument : status_};
  const MapAnswer answer = call.operation == Operation::get ? look_up(call) : update(call);
  return status_ == Status::ok ? answer : MapAnswer{status_};
}

void Member::run(std::span<const GroupCall> calls, std::span<MapAnswer> answers) noexcept {
  for (std::size_t i = 0; i < calls.size(); ++i) answers[i] = call(calls[i]);
}

Status Member::snapshot(map_detail::VisitBytes visit, void* context) noexcept {
  if (!may_call()) return status_ == Status::ok ? Status::invalid_argument : status_;
  collect(visit, context);
  return status_;
}

bool Member::collect_from(int rank, map_detail::VisitBytes visit, void* context) noexcept {
  visit_ = visit;
  visit_context_ = context;
  Message list;
  list.kind = Kind::list;
  list.client = rank_;
  links_.post(rank, list);
  return await([this] { return visit_ == nullptr; });
}

void Member::send_cells(int to) noexcept {
  struct Sender {
    Links& links;
    int to;
  } sender{links_, to};
  table_.for_each(
      [](void* context, Bytes key, Bytes value) {
        auto& [links, to] = *static_cast<Sender*>(context);
        Message cell;
        cell.kind = Kind::cell;
        cell.key = key;
        cell.value = value;
        links.post(to, cell);
      },
      &sender);
  Message end;
  end.kind = Kind::listed;
  links_.post(to, end);
}

void Member::take_cell(const Message& message) noexcept {
  if (message.kind == Kind::cell) return visit_(visit_context_, message.key, message.value);
  visit_ = nullptr;
}

Status Member::progress() noexcept {
  step();
  const auto nothing = [] { return false; };
  look_around(nothing);
  return status_;
}

Status Member::serve(bool (*stop)(void* context), void* context) noexcept {
  await([&] { return stop(context); });
  return status_;
}

Status Member::finish() noexcept {
  layout_.part(rank_).finished.store(1, std::memory_order_release);
  ring_all();
  const bool all = await([this] {
    for (int rank = 0; rank < ranks(); ++rank) {
      // Acquire: pairs with the store above. Messages that the rank has sent before are in its channels.
      if (layout_.part(rank).finished.load(std::memory_order_acquire) != 0) continue;
      // Nobody waits for one that is gone, where the algorithm goes on without it.
      if (members().present(rank) || missing() >= 0) return false;
    }
    return true;
  });
  if (all) {
    close();
    ring_all();
    await([this] { return is_closed() && links_.all_sent(); });
  }
  return status_;
}

Result<std::unique_ptr<Member>> make_member(std::shared_ptr<Space> space, int rank, LocalTable table) {
  switch (space->shape().algorithm) {
    case Algorithm::part_simple: return make_part_simple(std::move(space), rank, std::move(table));
    case Algorithm::part_caching: return make_part_caching(std::move(space), rank, std::move(table));
    case Algorithm::rep_remote:
    case Algorithm::rep_local:
    case Algorithm::rep_sc: return make_sequenced(std::move(space), rank, std::move(table));
    case Algorithm::rep_2pc: return make_rep_2pc(std::move(space), rank, std::move(table));
    case Algorithm::kv: return make_kv(std::move(space), rank, std::move(table));
    case Algorithm::shared: break;
  }
  return make_error(Status::invalid_argument, "map: shared has no ranks");
}

}  // namespace smelt::state::over_ranks
