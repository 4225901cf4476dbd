// A model, however a user names it: a config.json, a GGUF file, a folder that holds one, or a name of the catalog.
#pragma once

#include <kvbudget/model/catalog.hpp>
#include <kvbudget/read/gguf_model.hpp>
#include <kvbudget/read/hf_config.hpp>

namespace kvbudget::inline v1::read {

struct Model {
  CacheSpec spec{};
  LayerList draft_layers{};    // MTP and NextN blocks: append them when speculative decoding is on
  std::string source{};        // the model type, architecture and kind of file, in words
  std::string architecture{};  // its class, of a catalog model
  std::optional<Tokens> context{};
  std::uint32_t attention_heads{};  // 0 where the source does not say
  std::string dtype{};              // of the cache, in words
  std::filesystem::path file{};     // the file it was read from; empty for a catalog name
  std::optional<Bytes> weights{};   // where the file itself describes them all (GGUF)
  std::vector<std::string> notes{};
};

namespace detail {

inline Model from_hf(std::filesystem::path const& path, HfOptions const& options, std::string const& told) {
  auto const found = hf_config(path, options);
  std::string dtype = found.dtype == "bfloat16" || found.dtype == "float16" ? found.dtype : "2 bytes an element";
  if (found.declares_cache_dtype) dtype = "as the checkpoint declares its cache";
  return {.spec = found.spec,
          .draft_layers = found.draft_layers,
          .source = found.model_type,
          .context = found.context,
          .attention_heads = found.attention_heads,
          .dtype = told.empty() ? dtype : told,
          .file = path,
          .notes = found.notes};
}

inline Model from_gguf(std::filesystem::path const& path, std::optional<DType> dtype, std::string const& told) {
  auto const found = gguf_model(path);
  Model model{.spec = found.spec,
              .draft_layers = found.draft_layers,
              .source = found.architecture + ", GGUF",
              .context = found.context,
              .dtype = told.empty() ? "f16" : told,
              .file = path,
              .weights = found.weights};
  if (dtype) model.spec.dtype = *dtype;
  return model;
}

inline bool is_gguf(std::filesystem::path const& path) {
  char magic[4]{};
  std::ifstream{path, std::ios::binary}.read(magic, 4);
  return std::string_view{magic, 4} == "GGUF" || path.extension() == ".gguf";
}

/// In a folder: config.json, else the one GGUF file, or the first shard of a split one.
inline std::filesystem::path model_in(std::filesystem::path const& folder) {
  if (std::filesystem::exists(folder / "config.json")) return folder / "config.json";
  std::vector<std::filesystem::path> found;
  for (auto const& entry : std::filesystem::directory_iterator{folder}) {
    std::string const name = entry.path().filename().string();
    bool const later_shard = name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
    if (entry.path().extension() == ".gguf" && !later_shard) found.push_back(entry.path());
  }
  if (found.size() == 1) return found[0];
  throw Error{{folder.string(), "", found.empty() ? "a directory without a model" : "a directory of several GGUF files",
               "a directory with a config.json or one GGUF model", "name the file, for example " + (folder / "config.json").string()}};
}

}  // namespace detail

/// Bytes of all weights, where the model's file or the index beside it says. Throws Error for an index that does not.
inline std::optional<Bytes> weights_of(Model const& model) {
  if (model.weights || model.file.empty()) return model.weights;
  return weights_beside(model.file);
}

/// `what` is a path or a catalog name; `dtype` the cache's, by the name a runtime gives it, or empty. Throws Error.
inline Model model(std::string const& what, std::string const& dtype_name = "", HfOptions options = {}) {
  if (!dtype_name.empty()) options.cache_dtype = dtype(dtype_name, "--dtype");
  std::filesystem::path path{what};
  bool const named = !std::filesystem::exists(path) && what.find('/') == std::string::npos && path.extension() != ".json" && path.extension() != ".gguf";
  if (named) {
    std::string accepted = "a path";
    for (auto const& entry : catalog::entries) accepted += ", " + std::string{entry.name};
    auto const* entry = catalog::find(what);
    if (!entry) throw Error{{"", "the model", "\"" + what + "\"", accepted, "check the path, or choose one of the names"}};
    Model model{.spec = entry->spec,
                .source = "catalog",
                .architecture = std::string{entry->architecture},
                .context = entry->context,
                .dtype = dtype_name.empty() ? "bfloat16" : dtype_name};
    if (options.cache_dtype) model.spec.dtype = *options.cache_dtype;
    return model;
  }
  if (std::filesystem::is_directory(path)) path = detail::model_in(path);
  return detail::is_gguf(path) ? detail::from_gguf(path, options.cache_dtype, dtype_name) : detail::from_hf(path, options, dtype_name);
}

}  // namespace kvbudget::inline v1::read
