// What SGLang's scheduler remembers from pass to pass, and what it said in the last one.
//
// Its running batch is a list of its own: in the order in which requests joined it or a retraction left them, and with those that left since
// the last decode (S10). They hold no block any more.
#pragma once

#include <kvbudget/admit/live.hpp>

#include <vector>

namespace kvbudget::inline v1::policies::sglang {

constexpr double as_double(Tokens tokens) { return static_cast<double>(tokens.count); }

/// The most tokens to come that admission counts of one request.
inline constexpr Tokens most_counted{4'096};

/// A request as the rules see it.
struct Member {
  Ticket ticket{};
  Tokens prompt{};
  Tokens max_new{};
  Tokens out{};  // generated; while it runs the last one is not cached yet
  bool ignore_eos{};
  bool left{};

  constexpr Tokens to_come() const { return min(max_new - out, most_counted); }
};

constexpr Member member_of(Ticket ticket, Live const& live) {
  return {.ticket = ticket,
          .prompt = live.request.prompt,
          .max_new = live.request.max_new,
          .out = live.grown() + live.pending,
          .ignore_eos = live.request.ignore_eos};
}

enum class Result : std::uint8_t { go_on, no_token, other, chunk_goes_on };

/// What was said of a request that a prefill looked at. The first of a pass may be the rest of a prompt, or its next chunk.
struct Decision {
  Ticket ticket{};
  Result result{};
  bool added{};
  bool chunked{};  // more of its prompt is left
  Tokens extend{};
  double before{};  // rem_total: tokens free, less what running and admitted requests are taken to need (S10, S12)
  double after{};
};

/// S21: the requests of the plan's `preempt` from `first` on made room for the others' next token; one that is refused, too, was aborted.
struct Retraction {
  bool happened{};
  std::size_t first{};
  Tokens need{};  // before it
  Tokens available{};
};

struct Memory {
  double ratio{};                   // S20
  bool batch_is_full{};             // S13
  Ticket chunked{};                 // whose prompt is computed in part
  std::vector<Member> running{};    // the running batch
  std::vector<Ticket> prefilled{};  // the last pass's prefill; it joins the running batch in the next pass

  // of the last pass
  std::vector<Decision> decisions{};
  Retraction retraction{};
  bool sorted{};  // the queue was looked at: from here on a list of it is in the order of S30, but for who comes later
};

}  // namespace kvbudget::inline v1::policies::sglang
