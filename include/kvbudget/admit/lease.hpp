// The right to hold cache. Move-only: while it lives the room is held, when it ends the room is free.
//
// A lease ends by finish() or its destructor (completed), by cancel(), or because its request was preempted; the request is
// then queued again under the same ticket, and admit_next() gives a new lease for it.
#pragma once

#include <kvbudget/admit/verdict.hpp>

#include <utility>

namespace kvbudget::inline v1 {

template <class Gate>
class [[nodiscard]] Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept : gate_{std::exchange(other.gate_, nullptr)}, ticket_{other.ticket_}, request_class_{other.request_class_}, tag_{other.tag_} {
    if (gate_) gate_->lease_moved_to(*this);
  }
  Lease& operator=(Lease&& other) noexcept {
    if (this == &other) return *this;
    finish();
    gate_ = std::exchange(other.gate_, nullptr);
    ticket_ = other.ticket_;
    request_class_ = other.request_class_;
    tag_ = other.tag_;
    if (gate_) gate_->lease_moved_to(*this);
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
  Tokens tokens() const { return gate_ ? gate_->cached(ticket_) : Tokens{}; }

  /// Room for `more` tokens of every branch, never past prompt + max_new (past_max_new says so). Afterwards the lease holds
  /// them or has ended: where the room runs out the newest lease is preempted, perhaps this one. On an ended lease: nothing.
  Verdict grow(Tokens more) { return gate_ ? gate_->grow(ticket_, more) : Verdict{.reason = Reason::ended, .ticket = ticket_}; }

  /// The request is complete; its room is free at once. Again: nothing.
  void finish() {
    if (gate_) gate_->finish(ticket_);
  }
  /// The request is given up; its room is free at once. Again: nothing.
  void cancel() {
    if (gate_) gate_->cancel(ticket_);
  }

 private:
  friend Gate;
  Lease(Gate& gate, Ticket ticket, Request const& request) : gate_{&gate}, ticket_{ticket}, request_class_{request.request_class}, tag_{request.tag} {
    gate_->lease_moved_to(*this);
  }

  Gate* gate_{};
  Ticket ticket_{};
  RequestClass request_class_{};
  std::uint64_t tag_{};
};

}  // namespace kvbudget::inline v1
