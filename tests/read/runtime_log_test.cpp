#include "catch.hpp"

#include <kvbudget/read/runtime_log.hpp>
#include <kvbudget/write/llama_cpp.hpp>
#include <kvbudget/write/tensorrt_llm.hpp>

#include <chrono>
#include <sstream>

using namespace kvbudget;
using namespace kvbudget::literals;
using read::Quantity;
using read::Runtime;

namespace {

std::vector<std::uint64_t> counts(read::RuntimeLog const& log, Quantity quantity) {
  std::vector<std::uint64_t> found;
  for (auto const& figure : log.all(quantity)) found.push_back(figure.low);
  return found;
}
using Counts = std::vector<std::uint64_t>;

std::string printed(read::RuntimeLog const& log, Quantity quantity) {
  auto const figure = log.last(quantity);
  return figure ? figure->printed : "none";
}

std::filesystem::path written(std::string const& name, std::string const& text) {
  auto const path = std::filesystem::temp_directory_path() / name;
  std::ofstream{path, std::ios::binary} << text;
  return path;
}

/// A number is what it prints as, at any place inside its interval, and at no place beside it.
bool prints_as(std::uint64_t bytes, double unit, std::string const& text) { return fmt::format("{:.2f}", static_cast<double>(bytes) / unit) == text; }

}  // namespace

TEST_CASE("a log of vLLM says blocks, tokens, concurrency and memory, in its old and its present forms") {
  auto const v0 = read::runtime_log_text(
      "INFO 02-10 worker.py:267] model weights take 14.96GiB; the rest of the memory reserved for KV Cache is 11.12GiB.\n"
      "INFO 02-10 executor_base.py:110] # CUDA blocks: no such line\n"
      "INFO 02-10 executor_base.py:110] # GPU blocks: 5691, # CPU blocks: 2048\n"
      "INFO 02-10 executor_base.py:115] Maximum concurrency for 8192 tokens per request: 11.12x\n");
  REQUIRE(v0.runtime() == Runtime::vllm_v0);
  REQUIRE(counts(v0, Quantity::blocks) == Counts{5'691});
  REQUIRE(counts(v0, Quantity::cpu_blocks) == Counts{2'048});
  REQUIRE(counts(v0, Quantity::concurrency_length) == Counts{8'192});
  REQUIRE(v0.last(Quantity::concurrency)->low == 11'115'000);
  REQUIRE(v0.last(Quantity::concurrency)->high == 11'125'000);
  REQUIRE(printed(v0, Quantity::available) == "11.12GiB");
  REQUIRE(v0.unread.empty());

  auto const two_lines = read::runtime_log_text("GPU KV cache size: 456,816 tokens\nMaximum concurrency for 131,072 tokens per request: 3.49x\n");
  auto const one_line = read::runtime_log_text("GPU KV cache size: 456,816 tokens, Maximum concurrency for 131,072 tokens per request: 3.49x\n");
  for (auto const& log : {two_lines, one_line}) {
    REQUIRE(log.runtime() == Runtime::vllm_v1);
    REQUIRE(counts(log, Quantity::tokens) == Counts{456'816});
    REQUIRE(counts(log, Quantity::concurrency_length) == Counts{131'072});
    REQUIRE(printed(log, Quantity::concurrency) == "3.49");
  }
}

TEST_CASE("vLLM's errors say what was needed, what there was and what would fit") {
  auto const with_estimate = read::runtime_log_text(
      "ValueError: To serve at least one request with the models's max seq len (1048576), 22.5 GiB KV cache is needed, which is larger than the available KV "
      "cache memory (17.39 GiB). Based on the available memory, the estimated maximum model length is 810208. Try increasing `gpu_memory_utilization`\n");
  REQUIRE(counts(with_estimate, Quantity::needed_length) == Counts{1'048'576});
  REQUIRE(printed(with_estimate, Quantity::needed) == "22.5 GiB");
  REQUIRE(printed(with_estimate, Quantity::available) == "17.39 GiB");
  REQUIRE(counts(with_estimate, Quantity::estimated_length) == Counts{810'208});
  auto const without =
      read::runtime_log_text("max seq len (32768), (8.00 GiB KV cache is needed, which is larger than the available KV cache memory (4.46 GiB).\n");
  REQUIRE(printed(without, Quantity::needed) == "8.00 GiB");
  REQUIRE_FALSE(without.last(Quantity::estimated_length));
  auto const profile = read::runtime_log_text("the current vLLM instance can use total_gpu_memory (23.65GiB) x gpu_memory_utilization (0.90) = 21.28GiB\n");
  REQUIRE(printed(profile, Quantity::device_total) == "23.65GiB");
  REQUIRE(profile.last(Quantity::fraction)->low == 895'000);
  auto const old = read::runtime_log_text("max seq len (29000) is larger than the maximum number of tokens that can be stored in KV cache (23648)\n");
  REQUIRE(counts(old, Quantity::tokens) == Counts{23'648});
}

TEST_CASE("a printed number is the interval of all that print so") {
  for (std::string const text : {"12.20", "0.00", "35.65", "0.34", "109.86"}) {
    auto const figure = *read::runtime_log_text("Available KV cache memory: " + text + " GiB").last(Quantity::available);
    INFO(text);
    REQUIRE(prints_as(figure.low, 0x1p30, text));
    REQUIRE(prints_as(figure.high, 0x1p30, text));
    if (figure.low != 0) REQUIRE_FALSE(prints_as(figure.low - 1, 0x1p30, text));
    REQUIRE_FALSE(prints_as(figure.high + 1, 0x1p30, text));
  }
  // rounded to two decimals, of which the zeros are not printed: 64.9 GiB is 64.90
  auto const short_form = *read::runtime_log_text("Available KV cache memory: 64.9 GiB").last(Quantity::available);
  auto const long_form = *read::runtime_log_text("Available KV cache memory: 64.90 GiB").last(Quantity::available);
  REQUIRE(short_form.low == long_form.low);
  REQUIRE(short_form.high == long_form.high);
  auto const one_decimal = *read::runtime_log_text("memory.required.kv=\"19.5 GiB\"").last(Quantity::total_bytes);
  REQUIRE(one_decimal.high - one_decimal.low == (1U << 30) / 10);
}

TEST_CASE("where less than nothing is left for the cache, it is nothing") {
  auto const log = read::runtime_log_text("Available KV cache memory: -1.26 GiB");
  REQUIRE(printed(log, Quantity::available) == "-1.26 GiB");
  REQUIRE(log.last(Quantity::available)->high == 0);
}

TEST_CASE("ranks, processes, colours, timestamps and CRLF are read through") {
  auto const log = read::runtime_log_text(
      "\x1b[1;36m(VllmWorker rank=0 pid=775158)\x1b[0;0m INFO 08-16 02:14:35 [gpu_worker.py:255] Available KV cache memory: 35.74 GiB\r\n"
      "\x1b(VllmWorker rank=7 pid=775165)\x1b[0;0m INFO 08-16 02:14:35 [gpu_worker.py:255] Available KV cache memory: \x1b[32m35.65\x1b[0m GiB\r\n"
      "402.6s 396 noise\r\n"
      "[2026-01-12 05:00:28 DP0 TP0 EP0] KV Cache is allocated. #tokens: 75904, KV size: 4.98 GB");
  REQUIRE(log.line_count == 4);
  REQUIRE(log.lines.size() == 3);
  REQUIRE(log.lines[0].process == "VllmWorker rank=0 pid=775158");
  REQUIRE(log.lines[1].process == "VllmWorker rank=7 pid=775165");
  REQUIRE(log.lines[1].number == 2);
  REQUIRE(log.lines[2].process == "DP0 TP0 EP0");
  REQUIRE(log.least(Quantity::available)->printed == "35.65 GiB");
  REQUIRE(log.unread.empty());
}

TEST_CASE("SGLang's pools are read, each with its figures") {
  auto const log = read::runtime_log_text(
      "Use Sliding window memory pool. full_layer_tokens=999553, swa_layer_tokens=799642\n"
      "Mamba Cache is allocated. max_mamba_cache_size: 124, conv_state size: 0.34GB, ssm_state size: 17.58GB \n"
      "SWAKVPool mem usage: 19.45 GB, swa size: 799642, full size: 999553\n"
      "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 330323, K size: 10.08 GB, V size: 10.08 GB\n"
      "KV Cache is allocated. K size: 1.50 GB, V size: 1.50 GB.\n"
      "max_total_num_tokens=330323, chunked_prefill_size=-1, max_prefill_tokens=1500, max_running_requests=16, context_len=163840, available_gpu_mem=5.41 GB\n"
      "DSV4 memory calculation: bytes_per_full_token=7705.45, available_bytes=6.16 GB, c128_state_fixed=0.04 GB\n"
      "DSV4 pool sizes: full=852992, swa=85248, c4=213248, c128=6664, c4_state=5328, c128_state=0\n");
  REQUIRE(log.runtime() == Runtime::sglang);
  REQUIRE(log.lines.size() == 8);
  REQUIRE(log.lines[0].find(Quantity::swa_tokens)->low == 799'642);
  REQUIRE(log.lines[1].find(Quantity::slots)->low == 124);
  REQUIRE(log.lines[1].find(Quantity::state_bytes)->printed == "17.58GB");
  REQUIRE(log.lines[2].find(Quantity::swa_tokens)->low == 799'642);
  REQUIRE(log.lines[3].find(Quantity::dtype)->printed == "torch.bfloat16");
  REQUIRE(log.lines[3].find(Quantity::value_bytes)->printed == "10.08 GB");
  REQUIRE(log.lines[4].find(Quantity::tokens) == nullptr);
  REQUIRE(log.lines[5].find(Quantity::max_requests)->low == 16);
  REQUIRE(log.lines[5].find(Quantity::max_length)->low == 163'840);
  REQUIRE(log.lines[6].find(Quantity::token_bytes)->printed == "7705.45");
  REQUIRE(log.lines[7].find(Quantity::c128_states)->low == 0);
}

TEST_CASE("llama.cpp's caches, buffers and resolved parameters are read, old and new") {
  auto const log = read::runtime_log_text(
      "llama_context: n_seq_max     = 4\n"
      "llama_context: n_ctx         = 16384\n"
      "llama_context: kv_unified    = false\n"
      "llama_kv_cache: size =  512.00 MiB (  4096 cells,  32 layers,  4/1 seqs), K (q8_0):  256.00 MiB, V (f16):  256.00 MiB\n"
      "llama_kv_cache:        CPU KV buffer size =   512.00 MiB\n"
      "llama_kv_cache_unified: size = 1536.00 MiB ( 16384 cells,  48 layers,  1 seqs), K (f16):  768.00 MiB, V (f16):  768.00 MiB\n"
      "llama_memory_recurrent: size =   50.25 MiB (     1 cells,  32 layers,  1 seqs), R (f32):    2.25 MiB, S (f32):   48.00 MiB\n"
      "llama_memory_recurrent: size =   42.81 MiB (     1 cells,  27 layers,  1 seqs  0 rs_seq), R (f32):    2.81 MiB, S (f32):   40.00 MiB, P (f32):    0.00 "
      "MiB\n"
      "llama_dsv4_comp_state: csa ratio = 4, state = 8 x 1024, streams = 4, rs_seq = 0, layers = 21, size =    5.25 MiB\n"
      "llama_new_context_with_model: KV self size  = 2440.00 MiB, K (f16): 1464.00 MiB, V (f16):  976.00 MiB\n"
      "llama_init_from_file: kv self size  =  400.00 MB\n"
      "slot load_model: id  0 | task -1 | new slot, n_ctx = 4096\n");
  REQUIRE(log.runtime() == Runtime::llama_cpp);
  REQUIRE(log.unread.empty());
  REQUIRE(counts(log, Quantity::n_ctx) == Counts{16'384});
  REQUIRE(printed(log, Quantity::kv_unified) == "false");
  REQUIRE(counts(log, Quantity::cells) == Counts{4'096, 16'384, 1, 1});
  REQUIRE(counts(log, Quantity::streams) == Counts{1, 4});
  auto const& cache = log.lines[3];
  REQUIRE(cache.find(Quantity::key_type)->printed == "q8_0");
  REQUIRE(cache.find(Quantity::value_type)->printed == "f16");
  REQUIRE(cache.find(Quantity::sequences)->low == 4);
  REQUIRE(log.lines[4].find(Quantity::device)->printed == "CPU");
  REQUIRE(printed(log, Quantity::total_bytes) == "400.00 MB");
  REQUIRE(log.last(Quantity::total_bytes)->low < 400U << 20);

  auto const mla = read::runtime_log_text("KV self size  = 72.91 MiB, c^KV (q8_0):   72.91 MiB, kv^T: not used");
  REQUIRE(mla.runtime() == Runtime::ik_llama_cpp);
  REQUIRE(printed(mla, Quantity::latent_bytes) == "72.91 MiB");
}

TEST_CASE("the other servers' lines name their server") {
  std::pair<char const*, Runtime> const lines[]{
      {"[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 4607", Runtime::tensorrt_llm},
      {"[TM][INFO] [BlockManager] max_block_count = 159", Runtime::lmdeploy},
      {"Estimated KVCacheConfig \"max_total_sequence_length\": 18267.", Runtime::mlc_llm},
      {"Using KV-cache blocks: 121517", Runtime::tgi},
      {"kv cache capacity: 12.50 GB, blocks: 1024, slot_size: 4096, index_slot_size: 0", Runtime::xllm},
      {"kv cache block nums is 512, allows storing 32768 tokens", Runtime::rtp_llm},
      {"INFO 1203441 is the profiled max_total_token_num with the mem_fraction 0.9", Runtime::lightllm},
      {"KVBM Leader block allocation: G1 (GPU)=199892 blocks, G2 (Host)=22756 blocks, G3 (Disk)=0 blocks, bytes_per_block=2359296", Runtime::dynamo},
      {"KV budget (same 2.90 GiB): bf16 27,142 tok, fp8_e4m3 54,284 tok (2.00x)", Runtime::freetoken},
      {"level=INFO msg=\"kv cache\" device=CUDA0 size=\"224.0 MiB\"", Runtime::ollama}};
  for (auto const& [line, runtime] : lines) {
    INFO(line);
    auto const log = read::runtime_log_text(line);
    REQUIRE(log.runtime() == runtime);
    REQUIRE(log.unread.empty());
  }
  REQUIRE(counts(read::runtime_log_text(lines[6].first), Quantity::tokens) == Counts{1'203'441});
  REQUIRE(counts(read::runtime_log_text(lines[8].first), Quantity::tokens) == Counts{27'142, 54'284});
  REQUIRE(counts(read::runtime_log_text("Total memory usage with a 4K KV cache: 2702.16 MB"), Quantity::tokens) == Counts{4'096});
}

TEST_CASE("a program that embeds a runtime is what the log is of") {
  auto const log = read::runtime_log_text("llama_context: n_ctx = 4096\nlevel=INFO msg=\"kv cache\" device=CUDA0 size=\"224.0 MiB\"\n");
  REQUIRE(log.runtime() == Runtime::ollama);
  REQUIRE(read::runtime_log_text("nothing here").runtime() == Runtime::unknown);
}

TEST_CASE("what the library prints as TensorRT-LLM's lines is read back") {
  ModelSpec const model{.layers = 48, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
  auto const plan =
      tensorrt_llm::plan(model, 12_GiB, {.max_sequence_length = 8'192_tokens, .host_cache = 1_GiB, .attention_windows = {8'192_tokens, 512_tokens}});
  std::string text;
  for (auto const& line : log_lines(plan)) text += "[TensorRT-LLM][INFO] " + line + "\n";
  auto const log = read::runtime_log_text(text);
  REQUIRE(log.unread.empty());
  REQUIRE(log.runtime() == Runtime::tensorrt_llm);
  REQUIRE(log.last(Quantity::tokens)->low == plan.printed_tokens.count);
  REQUIRE(log.last(Quantity::total_bytes)->low <= plan.printed_bytes.count);
  REQUIRE(log.last(Quantity::total_bytes)->high >= plan.printed_bytes.count);
  REQUIRE(counts(log, Quantity::window) == Counts{512, 8'192, 512, 8'192});
  auto const small = plan.windows[1], large = plan.windows[0];
  REQUIRE(counts(log, Quantity::blocks) == Counts{small.primary.count, large.primary.count, small.primary.count, large.primary.count});
  REQUIRE(counts(log, Quantity::cpu_blocks) == Counts{small.secondary.count, large.secondary.count});
}

TEST_CASE("vLLM's blocks are read of any device, and of a GPU alone") {
  for (std::string const device : {"CUDA", "cuda", "HPU", "gaudi", "OPENVINO", "xpu", "cpu"}) {
    auto const log = read::runtime_log_text("INFO executor_base.py:111] # " + device + " blocks: 2283, # CPU blocks: 2048");
    INFO(device);
    REQUIRE(counts(log, Quantity::blocks) == Counts{2'283});
    REQUIRE(counts(log, Quantity::cpu_blocks) == Counts{2'048});
    REQUIRE(printed(log, Quantity::device) == device);
  }
  auto const alone = read::runtime_log_text("# GPU blocks: 7,216\n# CPU blocks: 512\n");
  REQUIRE(counts(alone, Quantity::blocks) == Counts{7'216});
  REQUIRE(counts(alone, Quantity::cpu_blocks) == Counts{512});
  REQUIRE(alone.unread.empty());
}

TEST_CASE("an optional figure is not taken from the next reading on the same line") {
  auto const log = read::runtime_log_text("max_total_num_tokens=10, max_prefill_tokens=5 | max_total_num_tokens=20, max_running_requests=16, context_len=32");
  REQUIRE(log.lines.size() == 2);
  REQUIRE(log.lines[0].find(Quantity::max_requests) == nullptr);
  REQUIRE(log.lines[1].find(Quantity::max_requests)->low == 16);
  REQUIRE(counts(log, Quantity::tokens) == Counts{10, 20});
}

TEST_CASE("SGLang's states are read behind a field that is not known") {
  auto const log = read::runtime_log_text(
      "Mamba Cache is allocated. mamba_layer_num: 30, max_mamba_cache_size: 124, conv_state size: 0.34GB, ssm_state size: 17.58GB\n"
      "Mamba Cache is allocated. mamba_layer_num: 30, conv_state size: 0.34GB, ssm_state size: 1.00GB\n");
  REQUIRE(log.unread.empty());
  REQUIRE(counts(log, Quantity::slots) == Counts{124});
  REQUIRE(log.all(Quantity::conv_bytes).size() == 2);
  REQUIRE(printed(log, Quantity::state_bytes) == "1.00GB");
}

TEST_CASE("a rank is named by its number, not by a word") {
  auto const process = [](std::string const& before) { return read::runtime_log_text(before + " GPU KV cache size: 7 tokens").lines.at(0).process; };
  REQUIRE(process("(frank TP for all) [rank0]") == "rank0");
  REQUIRE(process("(VllmWorker rank=3)") == "VllmWorker rank=3");
  REQUIRE(process("[2025-05-05 10:00:00 TP3]") == "TP3");
  REQUIRE(process("(ranked PPO)").empty());
}

TEST_CASE("a server's starts are told apart, and ranks of one start are not") {
  std::string const start =
      "(Worker_TP0 pid=1) Available KV cache memory: 10.00 GiB\n(Worker_TP1 pid=2) Available KV cache memory: 12.00 GiB\n"
      "(EngineCore pid=3) GPU KV cache size: 7 tokens\n(EngineCore pid=3) Maximum concurrency for 7 tokens per request: 1.00x\n"
      "(EngineCore pid=3) GPU KV cache size: 9 tokens\n(EngineCore pid=3) Maximum concurrency for 7 tokens per request: 1.29x\n";
  auto const once = read::runtime_log_text(start);
  REQUIRE(once.runs() == 1);
  REQUIRE(once.least(Quantity::available)->printed == "10.00 GiB");
  REQUIRE(once.least(Quantity::tokens)->low == 7);
  auto const again = read::runtime_log_text(start +
                                            "(Worker_TP1 pid=8) Available KV cache memory: 20.00 GiB\n(Worker_TP0 pid=9) Available KV cache memory: 30.00 GiB\n"
                                            "(EngineCore pid=7) GPU KV cache size: 90 tokens\n");
  REQUIRE(again.runs() == 2);
  REQUIRE(again.least(Quantity::available)->printed == "20.00 GiB");
  REQUIRE(again.least(Quantity::tokens)->low == 90);
  REQUIRE(again.least(Quantity::concurrency)->printed == "1.00");  // of the last start that printed one
  REQUIRE(again.lines.back().run == 1);

  std::string const engines =
      "(EngineCore_DP0 pid=1) Available KV cache memory: 10.00 GiB\n(EngineCore_DP0 pid=1) GPU KV cache size: 7 tokens\n"
      "(EngineCore_DP1 pid=2) Available KV cache memory: 9.00 GiB\n(EngineCore_DP1 pid=2) GPU KV cache size: 6 tokens\n";
  REQUIRE(read::runtime_log_text(engines).runs() == 1);
  REQUIRE(read::runtime_log_text(engines + engines).runs() == 2);
  std::string const sglang =
      "[2026 TP0] KV Cache is allocated. #tokens: 5, KV size: 1.00 GB\n[2026 TP0] KV Cache is allocated. #tokens: 9, KV size: 2.00 GB\n"
      "[2026 TP0] max_total_num_tokens=9, max_running_requests=16, context_len=32\n";
  REQUIRE(read::runtime_log_text(sglang).runs() == 1);
  REQUIRE(read::runtime_log_text(sglang + sglang + sglang).runs() == 3);
  REQUIRE(read::runtime_log_text("nothing").runs() == 0);
  std::string const contexts = "llama_context: n_ctx = 4096\nllama_kv_cache: size =  512.00 MiB (  4096 cells,  32 layers,  1/1 seqs)\n";
  REQUIRE(read::runtime_log_text(contexts + contexts).runs() == 1);  // a draft's context, or another start: not told
}

TEST_CASE("what the library prints as llama.cpp's lines is read back, a buffer for each cache and device") {
  llama_cpp::Model model{.layers = std::vector<llama_cpp::Layer>(6, {.kv_heads = 8, .head_k = 128, .head_v = 128}), .trained = {4'096}, .window = 256};
  model.layers[1].slides = model.layers[2].slides = true;
  for (std::size_t i = 4; i < 6; ++i) model.layers[i] = {.attends = false, .recurs = true, .r = 65'536, .s = 262'144};
  model.recurrent = true;
  auto const plan = llama_cpp::plan(model, {.n_ctx = 4'096, .swa_full = false});
  std::string text;
  for (auto const& line : log_lines(plan, {.splits = {24_GiB, 24_GiB}, .gpu_layers = 5})) text += "0.00.123 I " + line + "\n";
  INFO(text);
  auto const log = read::runtime_log_text(text);
  REQUIRE(log.unread.empty());
  REQUIRE(log.runtime() == Runtime::llama_cpp);
  std::uint64_t low = 0, high = 0;
  for (auto const& figure : log.all(Quantity::device_bytes)) low += figure.low, high += figure.high;
  REQUIRE((low <= plan.pool.count && plan.pool.count <= high));
  REQUIRE(log.all(Quantity::device_bytes).size() == log.all(Quantity::device).size());
  REQUIRE(counts(log, Quantity::layers) == Counts{2, 2, 6});
}

TEST_CASE("a known line that cannot be read is reported with its number, never skipped") {
  for (std::string const line :
       {"GPU KV cache size: many tokens", "GPU KV cache size: 12,34 tokens", "GPU KV cache size: 1,2345 tokens", "Available KV cache memory: 12.20 furlongs",
        "Available KV cache memory: - GiB", "Available KV cache memory: 0.0001 KiB", "# GPU blocks: 507, # CPU blocks: x", "KV Cache is allocated. #tokens: none, K size: 1.00 GB, V size: 1.00 GB",
        "Number of tokens per block: 3.5", "max_total_num_tokens=10, max_running_requests=16, context_len=None"}) {
    INFO(line);
    auto const log = read::runtime_log_text("noise\n" + line + "\nnoise\n");
    REQUIRE(log.lines.empty());
    REQUIRE(log.unread.size() == 1);
    REQUIRE(log.unread[0].number == 2);
    REQUIRE(log.unread[0].refusal("server.log").message().find("server.log: line 2 is \"") == 0);
  }
}

TEST_CASE("a number that does not fit is refused with its line, in a form's optional part, too") {
  for (std::string const line : {"GPU KV cache size: 99,999,999,999,999,999,999 tokens", "GPU KV cache size: 18446744073709551615 tokens",
                                 "Available KV cache memory: 9999999999.00 GiB", "max_total_num_tokens=10, max_running_requests=99999999999999999999",
                                 "Total memory usage with a 18446744073709551614K KV cache: 1.00 MB"}) {
    INFO(line);
    auto const log = read::runtime_log_text(line);
    REQUIRE(log.lines.empty());
    REQUIRE(log.unread.size() == 1);
    REQUIRE(log.unread[0].why == "a number below 2^63");
  }
}

TEST_CASE("separators stand between groups of three digits, and nowhere else") {
  REQUIRE(counts(read::runtime_log_text("# GPU blocks: 1,507, # CPU blocks: 102"), Quantity::blocks) == Counts{1'507});
  REQUIRE(counts(read::runtime_log_text("max_total_num_tokens=405784,123"), Quantity::tokens) == Counts{405'784});
  REQUIRE(counts(read::runtime_log_text("GPU KV cache size: 1,234,567 tokens"), Quantity::tokens) == Counts{1'234'567});
  REQUIRE(read::runtime_log_text("1,23 is the profiled max_total_token_num with the mem_fraction 0.9").lines.empty());
}

TEST_CASE("a file is read like a text, and one that says nothing is refused") {
  auto const log = read::try_runtime_log(written("kvbudget_server.log", "noise\r\nGPU KV cache size: 456,816 tokens\r\n"));
  REQUIRE(log);
  REQUIRE(counts(*log, Quantity::tokens) == Counts{456'816});
  REQUIRE_FALSE(read::try_runtime_log("/no/such/file"));
  REQUIRE(read::try_runtime_log(std::filesystem::temp_directory_path()).refusal().value == "a directory");
  auto const silent = read::try_runtime_log(written("kvbudget_silent.log", "noise\nnoise\n"));
  REQUIRE_FALSE(silent);
  REQUIRE(silent.refusal().value == "a text of 2 lines without a figure of a cache");
  auto const broken = read::try_runtime_log(written("kvbudget_broken.log", "noise\nGPU KV cache size: x tokens\n"));
  REQUIRE(broken.refusal().field == "line 2");
  REQUIRE_THROWS_AS(read::runtime_log(written("kvbudget_silent.log", "")), read::Error);
}

TEST_CASE("a hostile log costs what it holds: long lines are cut, readings are bounded") {
  std::string const long_line = "GPU KV cache size: 456,816 tokens " + std::string(1'000'000, ':') + "\n";
  std::istringstream in{long_line + "GPU KV cache size: 7 tokens\n"};
  auto const cut = read::runtime_log(in);
  REQUIRE(counts(cut, Quantity::tokens) == Counts{456'816, 7});
  REQUIRE(cut.unread.size() == 1);
  REQUIRE(cut.line_count == 2);
  REQUIRE(counts(read::runtime_log_text(long_line), Quantity::tokens) == Counts{456'816});

  std::string many;
  for (int i = 0; i < 70'000; ++i) many += "GPU KV cache size: 7 tokens\n";
  auto const log = read::runtime_log_text(many);
  REQUIRE(log.lines.size() == 65'536);
  REQUIRE(log.lost == 70'000 - 65'536);
  std::string starred;
  for (int i = 0; i < 3'000; ++i) starred += "KV cache is needed ";
  REQUIRE_FALSE(read::runtime_log_text(starred).unread.empty());
  REQUIRE(read::runtime_log_text(std::string("\0\x1b[\x1b", 4)).lines.empty());
}

TEST_CASE("repeated beginnings cost what they hold, however many there are") {
  for (std::string const part : {"max_total_num_tokens=1 ", "Mamba Cache is allocated. ", "KV cache is needed ", "KV self size = 5.00 MiB"}) {
    std::string text(320, '(');
    while (text.size() < 64'000) text += part;
    text += '\n';
    std::string log;
    for (int i = 0; i < 16; ++i) log += text;
    auto const began = std::chrono::steady_clock::now();
    auto const read = read::runtime_log_text(log);
    INFO(part);
    REQUIRE(read.lines.size() + read.unread.size() > 16);
    REQUIRE(std::chrono::steady_clock::now() - began < std::chrono::seconds{20});  // far from it, even in a debug build with sanitizers
  }
}
