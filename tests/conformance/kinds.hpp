// The conformance kinds: each compares what the library says with a file of expected values.
#pragma once

#include "report.hpp"

namespace conformance {

Cases hf_config(Options const& options);
Cases gguf_models(Options const& options);
Cases gguf_parse(Options const& options);
Cases vllm_scheduler(Options const& options);
Cases vllm_sizing(Options const& options);
Cases logs_hybrid(Options const& options);
Cases llama_cpp_gguf(Options const& options);
Cases llama_cpp_log_lines(Options const& options);
Cases llama_cpp_logs(Options const& options);
Cases llama_cpp_sizing(Options const& options);
Cases logs_lines(Options const& options);
Cases logs_uniform(Options const& options);
Cases sglang_admission(Options const& options);
Cases sglang_sizing(Options const& options);

}  // namespace conformance
