// Kinds gguf-parse EXPECTED.jsonl and gguf-models MODELS.jsonl GGUF_DIR.
#include "kinds.hpp"

#include <kvbudget/read/gguf_model.hpp>

#include <algorithm>
#include <set>

namespace conformance {

/// The real parser's verdict on each file, and what it found. A file that only an overflow of its own lets it accept is refused here.
Cases gguf_parse(Options const& options) {
  static std::set<std::string> const not_facts{"file", "messages"};
  return each_file(options, [&](std::string const& file, Json& expected, Case& one) {
    one.name = expected.at("file").get<std::string>();
    auto const path = std::filesystem::path{file}.parent_path() / one.name;
    if (!std::filesystem::exists(path)) throw std::runtime_error{path.string() + " is not there"};
    if (options.self_test) perturb(expected, not_facts);
    auto const parsed = kvbudget::read::try_gguf(path);
    bool const stricter = !parsed && expected.at("real_parser") == "accept" && parsed.refusal().value == "of more than 2^63 elements";
    if (stricter) {
      one.refusal = "stricter than the real parser, which accepts by an overflow: " + parsed.refusal().message();
      return;
    }
    Json facts{{"bytes", std::filesystem::file_size(path)}, {"real_parser", parsed ? "accept" : "reject"}};
    if (parsed)
      facts["info"] = "version=" + std::to_string(parsed->version) + " n_kv=" + std::to_string(parsed->keys) + " n_tensors=" + std::to_string(parsed->tensors) +
                      " alignment=" + std::to_string(parsed->alignment) + " data_offset=" + std::to_string(parsed->data_offset);
    one.compare_all(expected, facts, not_facts);
  });
}

/// One number where all layers agree, else a list, as llama.cpp prints it.
namespace {

std::string printed(std::vector<std::uint64_t> const& values) {
  bool const alike = std::all_of(values.begin(), values.end(), [&](auto value) { return value == values.front(); });
  if (alike && !values.empty()) return std::to_string(values.front());
  std::string text;
  for (auto const value : values) text += (text.empty() ? "[" : ", ") + std::to_string(value);
  return text + "]";
}

Json gguf_facts(kvbudget::read::GgufModel const& model) {
  Json facts;
  auto const say = [&](char const* name, std::uint64_t value) { facts[name] = std::to_string(value); };
  say("n_ctx_train", model.context.count);
  say("n_layer", model.layers);
  say("n_layer_all", model.blocks);
  facts["n_head_kv"] = printed(model.kv_heads);
  say("n_swa", model.window);
  say("is_swa_any", std::find(model.slides.begin(), model.slides.end(), true) != model.slides.end());
  say("n_embd_head_k", model.head_k);
  say("n_embd_head_v", model.head_v);
  say("n_embd_head_k_swa", model.head_k_swa);
  say("n_embd_head_v_swa", model.head_v_swa);
  std::vector<std::uint64_t> k, v;
  for (std::size_t i = 0; i < model.kv_heads.size(); ++i) {
    k.push_back(model.kv_heads[i] * (model.slides[i] ? model.head_k_swa : model.head_k));
    v.push_back(model.kv_heads[i] * (model.slides[i] ? model.head_v_swa : model.head_v));
  }
  facts["n_embd_k_gqa"] = printed(k);
  facts["n_embd_v_gqa"] = printed(v);
  say("ssm_d_conv", model.ssm_conv_kernel);
  say("ssm_d_inner", model.ssm_inner);
  say("ssm_d_state", model.ssm_state);
  say("ssm_n_group", model.ssm_groups);
  return facts;
}

}  // namespace

Cases gguf_models(Options const& options) {
  if (options.files.size() != 2) throw std::runtime_error{"gguf-models takes MODELS.jsonl and GGUF_DIR"};
  static std::set<std::string> const known{"model", "arch", "gguf", "print_info", "note"};
  static std::set<std::string> const not_facts{"arch", "n_embd", "n_head", "n_rot", "ssm_dt_rank"};
  return each_row(options.files[0], options, [&](Json& row, Case& one) {
    one.name = row.at("model").get<std::string>();
    for (auto const& item : row.items())
      if (!known.contains(item.key())) one.wrong(item.key(), "a field that is not compared");
    Json expected = row.at("print_info");
    if (options.self_test) expected["n_layer"] = std::to_string(std::stoull(expected.at("n_layer").get<std::string>()) + 1);
    auto const path = std::filesystem::path{options.files[1]} / (one.name + ".gguf");
    if (!std::filesystem::exists(path)) throw std::runtime_error{path.string() + " is not there"};
    auto const model = kvbudget::read::try_gguf_model(path);
    if (!model)
      one.refusal = model.refusal().message();
    else
      one.compare_all(expected, gguf_facts(*model), not_facts);
  });
}

}  // namespace conformance
