// Nemotron-H spells its layers as a text of letters, hybrid_override_pattern, or as a list of words, layers_block_type: "M*E" is
// mamba, attention, moe.
#pragma once

#include <string_view>

namespace kvbudget::inline v1::read {

/// The word of a letter; empty where there is none.
constexpr std::string_view nemotron_word(char letter) {
  switch (letter) {
    case 'M':
      return "mamba";
    case '*':
      return "attention";
    case '-':
      return "mlp";
    case 'E':
      return "moe";
    default:
      return "";
  }
}

}  // namespace kvbudget::inline v1::read
