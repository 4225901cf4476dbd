// The right to hold cache. Move-only: while it lives the room is held, when it ends the room is free.
//
// A lease ends by finish() or its destructor (completed), by cancel(), or because its request was preempted; the request is
// then queued again under the same ticket, and admit_next() gives a new lease for it.
#pragma once

#include <kvbudget/admit/live.hpp>
#include <kvbudget/admit/observer.hpp>

#include <utility>

namespace kvbudget::inline v1 {

template <class Gate>
class [[nodiscard]] Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept { take(other); }
  Lease& operator=(Lease&& other) noexcept {
    if (this == &other) return *this;
    finish();
    take(other);
    return *this;
  }
  ~Lease() { finish(); }

  explicit operator bool() const { return !ended(); }
  bool ended() const { return gate_ == nullptr; }

  // These stay readable after the end.
  Ticket ticket() const { return ticket_; }
  RequestClass request_class() const { return request_class_; }
  std::uint64_t tag() const { return tag_; }

  /// Cached tokens of one branch: prompt + grown. Zero once ended.
  Tokens tokens() const { return gate_ ? live_->length() : Tokens{}; }

  /// Room for `more` tokens of every branch, never past prompt + max_new (past_max_new says so). Afterwards the lease holds
  /// them or has ended: where the room runs out leases are preempted, perhaps this one. With steps in flight it may also have to wait
  /// (Reason::retiring): it holds what it held. On an ended lease, and on one that is arriving or held: nothing.
  Verdict grow(Tokens more) {
    if (!gate_) return {.reason = Reason::ended, .ticket = ticket_};
    return gate_->grow(*live_, ticket_, more);
  }

  /// The request is complete; its room is free at once. Again: nothing.
  void finish() {
    if (gate_) gate_->leave(*live_, ticket_, EventKind::completed);
  }
  /// The request is given up; its room is free at once. Again: nothing.
  void cancel() {
    if (gate_) gate_->leave(*live_, ticket_, EventKind::cancelled);
  }

 private:
  friend Gate;
  Lease(Gate& gate, Ticket ticket, Live& live)
      : gate_{&gate}, live_{&live}, ticket_{ticket}, request_class_{live.request.request_class}, tag_{live.request.tag} {
    gate_->lease_moved_to(*this);
  }

  void take(Lease& other) {
    gate_ = std::exchange(other.gate_, nullptr);
    live_ = other.live_;
    ticket_ = other.ticket_;
    request_class_ = other.request_class_;
    tag_ = other.tag_;
    if (gate_) gate_->lease_moved_to(*this);
  }

  Gate* gate_{};
  Live* live_{};
  Ticket ticket_{};
  RequestClass request_class_{};
  std::uint64_t tag_{};
};

}  // namespace kvbudget::inline v1
