// How the readers refuse: the input, the field, the value found, what is accepted, and what to do next.
//
// Every reader has two forms: `hf_config(path)` throws Error, `try_hf_config(path)` returns a Result and throws nothing of
// its own. Nothing is guessed: what is not understood is refused.
#pragma once

#include <kvbudget/core/complaint.hpp>

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace kvbudget::inline v1::read {

struct Refusal {
  std::string input;  // a file, or an argument
  std::string field;  // empty where the input as a whole is refused
  std::string value;
  std::string accepted;
  std::string next;

  /// One line: "config.json: num_hidden_layers is -3; accepted: a whole number from 1 to 512; next: ..."
  std::string message() const {
    std::string text = input;
    if (!field.empty()) text += (text.empty() ? "" : ": ") + field;
    text += " is " + value + "; accepted: " + accepted + "; next: " + next;
    for (auto& character : text)
      if (static_cast<unsigned char>(character) < ' ') character = '?';  // an error stays one line, whatever the input held
    return text;
  }
};

class Error : public std::runtime_error {
 public:
  explicit Error(Refusal refusal) : std::runtime_error{refusal.message()}, refusal_{std::move(refusal)} {}
  Refusal const& refusal() const { return refusal_; }

 private:
  Refusal refusal_;
};

template <class T>
class Result {
 public:
  Result(T value) : held_{std::move(value)} {}
  Result(Refusal refusal) : held_{std::move(refusal)} {}

  explicit operator bool() const { return std::holds_alternative<T>(held_); }
  T const& operator*() const { return std::get<T>(held_); }
  T const* operator->() const { return &std::get<T>(held_); }
  Refusal const& refusal() const { return std::get<Refusal>(held_); }

 private:
  std::variant<T, Refusal> held_;
};

namespace detail {
/// A reader's last step: what it has read is a good spec, or is refused by its first complaint.
inline void refuse_bad(Complaints const& complaints, std::string const& input) {
  if (!complaints.empty()) throw Error{{input, complaints[0].field, std::to_string(complaints[0].value), complaints[0].accepted, complaints[0].next}};
}
}  // namespace detail

/// The non-throwing form of a reader.
template <class Read>
auto attempt(Read read) -> Result<decltype(read())> {
  try {
    return read();
  } catch (Error const& error) {
    return error.refusal();
  }
}

}  // namespace kvbudget::inline v1::read
