// The examples, run as a user runs them: what they print, and how they refuse.
#include "examples.hpp"

// ---- the lesson: claims 1 to 6 ----

TEST_CASE("the lesson shows the formula, its assumptions and the growth") {
  Ran const ran = lesson("");
  REQUIRE(ran.code == 0);
  REQUIRE(has(ran, "bytes = cached tokens x layers x 2 (key and value) x KV heads x head dim x bytes per element"));
  REQUIRE(has(ran, "one token: 32 x 2 x 8 x 128 x 2 = 131,072 B = 128 KiB"));
  REQUIRE(has(ran, "layers              32\nKV heads            8\nhead dim            128\nbytes per element   2\n"));
  REQUIRE(has(ran,
              "          100       12.5 MiB     0.01 GiB     1x\n        1,000      125.0 MiB     0.12 GiB    10x\n        8,000     1000.0 MiB     0.98 GiB   "
              " 80x\n"));
  REQUIRE(has(ran, "eight requests of 8,000 tokens: 7.8 GiB, before allocator overhead and other runtime memory"));
}

TEST_CASE("the lesson's bar moves with the cached tokens") {
  REQUIRE(has(lesson("8000"), "[########################################] 8,000 tokens = 1000 MiB"));
  REQUIRE(has(lesson("4000"), "[####################....................] 4,000 tokens = 500 MiB"));
  REQUIRE(has(lesson("0"), "[........................................] 0 tokens = 0 B"));
  REQUIRE(has(lesson("16000"), "a full bar is 16,000 tokens\n[########################################] 16,000 tokens = 1.95 GiB"));
}

TEST_CASE("the lesson puts requests side by side, each with a cache of its own") {
  REQUIRE(has(lesson(""),
              "A [#.......................................] 100 tokens = 12.5 MiB\nB [########################################] 8,000 tokens = 1000 "
              "MiB\ntogether 1012.5 MiB"));
  REQUIRE(has(lesson("--request 2000 --request 4000 --request 8000"), "together 1.71 GiB"));
}

TEST_CASE("the lesson shows both sides of the trade") {
  REQUIRE(has(lesson(""),
              "           100                        100                  5,050          12.5 MiB\n         1,000                      1,000                "
              "500,500           125 MiB"));
}

TEST_CASE("the lesson takes other assumptions, and refuses impossible ones") {
  REQUIRE(has(lesson("--kv-heads 32"), "= 524,288 B = 512 KiB"));
  REQUIRE(has(lesson("--bytes 1"), "= 65,536 B = 64 KiB"));
  refused(examples + "kvbudget_lesson --layers 0 --kv-heads 0", {"--layers is \"0\"", "1 to 512", "next:"});
  refused(examples + "kvbudget_lesson --bytes 0", {"--bytes is \"0\"", "next:"});
  refused(examples + "kvbudget_lesson -- -5", {"TOKENS is \"-5\"", "a whole number"});
  refused(examples + "kvbudget_lesson --request many", {"--request is \"many\""});
  refused(examples + "kvbudget_lesson 1099511627776 --layers 512 --kv-heads 1024 --head-dim 65536", {"below 2^64 bytes", "next:"});
  REQUIRE(has(lesson("--request 100 8000"), "[########################################] 8,000 tokens = 1000 MiB\n\neach"));  // 8000 is TOKENS
}

// ---- the lab: claims 16 and 19 ----

TEST_CASE("the lab admits in order what fits in what is left") {
  Json const out = json_of(lab(""));
  REQUIRE(out["admitted"] == Json{"a", "b", "c", "d"});
  REQUIRE(out["queued"] == Json{{{"id", "e"}, {"why", "no_room"}, {"needed", 4'000}, {"free", 500}}});
  REQUIRE(out["free_tokens"] == 500);
  REQUIRE(json_of(lab(data + "lab.json")) == out);
  REQUIRE(json_of(lab("--set a=8000 " + data + "lab.json")) == json_of(lab(data + "lab.json --set a=8000")));
}

TEST_CASE("changing only a changes the admission set: b waits, and later and smaller requests still start") {
  Json const out = json_of(lab("--set a=8000"));
  REQUIRE(out["admitted"] == Json{"a", "c", "d"});
  REQUIRE(out["queued"][0] == Json{{"id", "b"}, {"why", "no_room"}, {"needed", 5'000}, {"free", 500}});
  REQUIRE(out["free_tokens"] == 500);
}

TEST_CASE("in strict order the head that waits holds back those behind it") {
  Json const out = json_of(lab("--set a=8000 --order strict"));
  REQUIRE(out["admitted"] == Json{"a"});
  REQUIRE(out["free_tokens"] == 4'000);
  REQUIRE(out["queued"][0]["why"] == "no_room");
  REQUIRE(out["queued"][1] == Json{{"id", "c"}, {"why", "behind_head"}, {"needed", 2'000}, {"free", 4'000}});
}

TEST_CASE("headroom is kept free") {
  Json const out = json_of(lab("--headroom 600"));
  REQUIRE(out["admitted"] == Json{"a", "b", "c"});
  REQUIRE(out["queued"][0] == Json{{"id", "d"}, {"why", "headroom"}, {"needed", 1'500}, {"free", 2'000}});
  REQUIRE(json_of(lab("--headroom 5%"))["admitted"] == Json{"a", "b", "c"});
}

TEST_CASE("what can never fit is rejected, not queued") {
  Json const out = json_of(lab("--set a=12001"));
  REQUIRE(out["rejected"] == Json{{{"id", "a"}, {"why", "exceeds_capacity"}, {"needed", 12'001}, {"limit", 12'000}}});
  REQUIRE(json_of(lab("--set a=12000"))["admitted"] == Json{"a"});
}

TEST_CASE("twice the context admits about half, and larger weights leave less room") {
  auto const admitted = [](std::string const& arguments) { return json_of(lab(data + "equal24.json " + arguments))["admitted"].size(); };
  REQUIRE(admitted("") == 24);
  REQUIRE(admitted("--scale-context 2") == 12);
  std::string const device = "--model " + data + "llama-3.1-8b.json --gpu-memory 80GiB ";
  REQUIRE(json_of(lab(data + "equal24.json " + device + "--weights 16GiB"))["budget_tokens"] == 524'288);
  REQUIRE(admitted(device + "--weights 16GiB") == 24);
  REQUIRE(admitted(device + "--weights 16GiB --scale-context 2") == 13);
  REQUIRE(admitted(device + "--weights 40GiB") == 16);
  REQUIRE(admitted(device + "--weights 40GiB --scale-context 2") == 8);
}

TEST_CASE("the lab accounts by class where the scenario has classes") {
  std::string const path = scratch("classes.json", R"({"budget_tokens": 100, "classes": ["interactive", "document"],
    "requests": [{"id": "x", "cached_tokens": 60, "class": "document"}, {"id": "y", "cached_tokens": 10, "class": "interactive"}]})");
  REQUIRE(json_of(lab(path))["active_tokens_by_class"] == Json{{"interactive", 10}, {"document", 60}});
}

TEST_CASE("the lab refuses bad scenarios by field, value, range and next step") {
  auto const scenario = [](std::string const& text) { return examples + "kvbudget_lab " + scratch("bad.json", text); };
  refused(scenario(R"({"requests": []})"), {"budget_tokens is missing or null", "a whole number", "next:"});
  refused(scenario(R"({"budget_tokens": null, "requests": []})"), {"budget_tokens is missing or null"});
  refused(scenario(R"({"budget_tokens": "12000", "requests": []})"), {"budget_tokens is \"12000\"", "a whole number"});
  refused(scenario(R"({"budget_tokens": -5, "requests": []})"), {"budget_tokens is -5"});
  refused(scenario(R"({"budget_tokens": 1e30, "requests": []})"), {"budget_tokens is 1e+30"});
  refused(scenario(R"({"budget_tokens": 0, "requests": []})"), {"budget_tokens is 0", "accepted:", "next:"});
  refused(scenario(R"({"budget_tokens": 10})"), {"requests is missing or null"});
  refused(scenario(R"({"budget_tokens": 10, "requests": [{"id": "a"}]})"), {"requests[0].cached_tokens is missing or null"});
  refused(scenario(R"({"budget_tokens": 10, "requests": [{"id": "a", "cached_tokens": 0}]})"), {"requests[0].cached_tokens is 0", "from 1"});
  refused(scenario(R"({"budget_tokens": 10, "requests": [{"id": 7, "cached_tokens": 1}]})"), {"requests[0].id is 7", "a text"});
  refused(scenario(R"({"budget_tokens": 10, "requests": [{"id": "a", "cached_tokens": 1}, {"id": "a", "cached_tokens": 1}]})"),
          {"requests[1].id is \"a\"", "rename"});
  refused(scenario(R"({"budget_tokens": 10, "requests": [{"id": "a", "cached_token": 1}]})"), {"requests[0].cached_token is 1", "id, cached_tokens, class"});
  refused(scenario(R"({"budget_tokens": 10, "classes": ["interactive"], "requests": [{"id": "a", "cached_tokens": 1, "class": "bulk"}]})"),
          {"requests[0].class is \"bulk\"", "accepted: interactive", "next:"});
  refused(scenario(R"({"budget_tokens": 10, "classes": ["a", "a"], "requests": []})"), {"classes is \"a\"", "each once"});
  refused(scenario(R"({"budget_tokens": 10, "classes": [], "requests": []})"), {"classes is 0", "1 to 65536"});
  refused(scenario(R"({"budget_tokens": 10, "requests": [], "two\nlines": 1})"), {"two?lines is 1"});
  refused(scenario(R"({"budget_tokens": 1e999, "requests": []})"), {"budget_tokens is missing or null"});
  refused(scenario("[]"), {"a JSON object"});
  refused(scenario(""), {"is empty"});
  refused(scenario("{"), {"not JSON"});
  refused(examples + "kvbudget_lab " + data, {"is a directory"});
  refused(examples + "kvbudget_lab absent.json", {"is not there"});
}

TEST_CASE("the lab refuses bad arguments") {
  refused(examples + "kvbudget_lab --set z=1", {"--set is \"z=1\"", "a, b, c, d, e", "next:"});
  refused(examples + "kvbudget_lab --set a", {"--set is \"a\"", "ID=TOKENS"});
  refused(examples + "kvbudget_lab --set a=-1", {"--set a is \"-1\"", "a whole number"});
  refused(examples + "kvbudget_lab --set a=many", {"--set a is \"many\""});
  refused(examples + "kvbudget_lab --headroom 12000", {"--headroom is 12000", "less than the budget of 12,000 tokens", "next:"});
  refused(examples + "kvbudget_lab --headroom 100%", {"--headroom is 100%"});
  for (std::string const bad : {"some", "0.05", "-5", "101%"})
    refused(examples + "kvbudget_lab --headroom " + bad, {"--headroom is \"" + bad + "\"", "or a percentage"});
  refused(examples + "kvbudget_lab --order random", {"--order"});
  refused(examples + "kvbudget_lab --scale-context 0", {"--scale-context"});
  refused(examples + "kvbudget_lab --gpu-memory 80GiB", {"--model is missing"});
  refused(examples + "kvbudget_lab --model " + data + "llama-3.1-8b.json", {"--gpu-memory is missing"});
  refused(examples + "kvbudget_lab --model " + data + "llama-3.1-8b.json --gpu-memory 80GiB", {"--weights is missing"});
  refused(examples + "kvbudget_lab --model " + data + "llama-3.1-8b.json --gpu-memory 80 --weights 16GiB", {"--gpu-memory is \"80\""});
  refused(examples + "kvbudget_lab --model " + data + "llama-3.1-8b.json --gpu-memory 8GiB --weights 16GiB", {"--weights is 16 GiB", "8 GiB", "next:"});
  refused(examples + "kvbudget_lab --frobnicate", {"--help"});
}

// ---- the estimate: claims 7 and 8 ----

namespace {
std::string const llama = data + "llama-3.1-8b.json ";
std::string const llama_on_80 = llama + "--gpu-memory 80GiB --weights 16GiB --context 8192 ";
}  // namespace

TEST_CASE("the estimate gives each step, per rank and in total, and what it leaves out") {
  Ran const ran = estimate(llama_on_80 + "--tp 2");
  REQUIRE(ran.code == 0);
  for (auto const* text :
       {"131,072 B a token (128 KiB)", "65,536 B a token (64 KiB)", "device memory                             80 GiB",
        "weights                                 - 8 GiB            = 72 GiB", "/ 1 MiB            = 73,728 blocks", "/ 512 blocks       = 144 requests",
        "x 8,192 tokens     = 1,179,648 tokens", "tokens per block                        / 16 tokens        = 512 blocks (up)", "in total, 2 ranks",
        "device memory                             160.00 GiB", "bytes for the cache                       144.00 GiB",
        "KV heads       8 for 32 query heads; with a KV head each, 512 KiB a token", "in fp8, 65,536 B a token (64 KiB)",
        "512 MiB on the one that binds, 1 GiB on all", "left out       allocator fragmentation, the runtime's metadata, and prefix sharing",
        "--blocks N --block-size B"})
    REQUIRE(has(ran, text));
}

TEST_CASE("the estimate's JSON has the bytes per token, whole and per rank") {
  Json const out = json_of(estimate(llama_on_80 + "--json"));
  REQUIRE(out["bytes_per_token"] == 131'072);
  REQUIRE(out["requests"] == 64);
  REQUIRE(out["tokens"] == 524'288);
  REQUIRE(out["per_rank"]["plan"]["blocks"] == 32'768);
  Json const two = json_of(estimate(llama_on_80 + "--tp 2 --json"));
  REQUIRE(two["bytes_per_token"] == 131'072);
  REQUIRE(two["per_rank"]["bytes_per_token"] == 65'536);
  REQUIRE(two["pool_bytes_total"].get<std::uint64_t>() == 2 * two["per_rank"]["plan"]["pool_bytes"].get<std::uint64_t>());
  REQUIRE(json_of(estimate(llama_on_80 + "--dtype fp8 --json"))["bytes_per_token"] == 65'536);
  REQUIRE(json_of(estimate(llama_on_80 + "--dtype nvfp4 --json"))["bytes_per_token"] == 36'864);
  REQUIRE(json_of(estimate(llama_on_80 + "--pp 2 --json"))["requests"] == 144);
  Json const shared = json_of(estimate(llama_on_80 + "--tp 2 --dcp 2 --json"));
  REQUIRE(shared["ranks"] == 2);
  REQUIRE(shared["requests"] == 288);
}

TEST_CASE("a model with windows has no bytes per token: null, and its parts") {
  std::string const path =
      scratch("mistral.json", R"({"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "max_position_embeddings": 32768, "sliding_window": 4096, "torch_dtype": "bfloat16"})");
  Json const out = json_of(estimate(path + " --gpu-memory 80GiB --weights 16GiB --json"));
  REQUIRE(out["bytes_per_token"] == nullptr);
  REQUIRE(out["growing_bytes"] == 0);
  REQUIRE(out["windowed_bytes_per_token"] == 131'072);
  REQUIRE(out["context"] == 32'768);
  REQUIRE(out["per_rank"]["plan"]["longest_request_tokens"] == nullptr);
  REQUIRE(has(estimate(path + " --gpu-memory 80GiB --weights 16GiB"), "longest request: any, the cache stops growing"));
  refused(examples + "kvbudget_estimate " + path + " --blocks 1000 --block-size 16", {"--blocks is given for a hybrid", "next:"});
}

TEST_CASE("the estimate says how a number came about, and what is uncertain") {
  REQUIRE(has(estimate(llama + "--gpu-memory 80GiB --weights 160GiB --context 8192"),
              "weights                                 - 160 GiB          = 0 B, short by 80 GiB"));
  REQUIRE(has(estimate(llama + "--gpu-memory 80GiB --weights 16GiB --context 200000"), "note: a context of 200,000 tokens is more than the 131,072 tokens"));
  std::string const path = scratch(
      "float32.json",
      R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "torch_dtype": "float32"})");
  Ran const two_bytes = estimate(path + " --gpu-memory 80GiB --weights 16GiB --context 8192");
  REQUIRE(has(two_bytes, "cache dtype 2 bytes an element"));
  REQUIRE(has(two_bytes, "131,072 B a token"));
  Ran const four_bytes = estimate(path + " --gpu-memory 80GiB --weights 16GiB --context 8192 --dtype float32");
  REQUIRE(has(four_bytes, "cache dtype float32"));
  REQUIRE(has(four_bytes, "262,144 B a token"));
}

TEST_CASE("the estimate takes a GGUF file, a folder and a catalog name") {
  std::string const seeds = KVBUDGET_SOURCE_DIR "/tests/data/seeds/gguf/";
  std::string const device = " --gpu-memory 1GiB --weights 0B --context 4096 --json";
  REQUIRE(json_of(estimate(seeds + "llama.gguf" + device))["bytes_per_token"] == 4 * 2 * 2 * 16 * 2);
  REQUIRE(json_of(estimate(seeds + "llama.gguf --gpu-memory 1GiB --context 4096 --json"))["requests"] ==
          ((1ULL << 30) - 32 * 2 * 2) / (512 * 4'096));  // weights from its tensors
  REQUIRE(json_of(estimate("gemma-3-27b" + device))["windowed_bytes_per_token"] == 425'984);
  REQUIRE(json_of(estimate("llama-3.1-8b" + device))["bytes_per_token"] == 131'072);
  REQUIRE(json_of(estimate(seeds + "mla.gguf" + device))["bytes_per_token"] == 3 * 48 * 2);
  REQUIRE(json_of(estimate(seeds + "mla.gguf" + device + " --speculative"))["bytes_per_token"] == 4 * 48 * 2);
  auto const folder = std::filesystem::temp_directory_path() / ("kvbudget_folder_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(data + "llama-3.1-8b.json", folder / "config.json", std::filesystem::copy_options::overwrite_existing);
  REQUIRE(json_of(estimate(folder.string() + device))["bytes_per_token"] == 131'072);
  std::filesystem::remove_all(folder);
}

TEST_CASE("the two fractions of the field are two options") {
  auto const pool = [](std::string const& arguments) {
    return json_of(estimate(llama + "--context 8192 --gpu-memory 80GiB --weights 20GiB --json " + arguments))["pool_bytes_total"].get<std::uint64_t>() >> 30;
  };
  REQUIRE(pool("") == 60);
  REQUIRE(pool("--of-total 0.9") == 52);
  REQUIRE(pool("--of-free 0.9") == 54);
  REQUIRE(pool("--of-total 90% --activations 2GiB --graphs 1GiB --adapters 512MiB --reserve 512MiB") == 48);
}

TEST_CASE("weights come from the index beside the config") {
  std::filesystem::create_directories(std::filesystem::temp_directory_path() / ("kvbudget_examples_" + std::to_string(::getpid())));
  std::ifstream in{data + "llama-3.1-8b.json"};
  std::string const config = scratch("config.json", {std::istreambuf_iterator<char>{in}, {}});
  scratch("model.safetensors.index.json", R"({"metadata": {"total_size": 17179869184}})");
  REQUIRE(json_of(estimate(config + " --gpu-memory 80GiB --context 8192 --json"))["requests"] == 64);
  std::filesystem::remove(std::filesystem::temp_directory_path() / ("kvbudget_examples_" + std::to_string(::getpid())) / "model.safetensors.index.json");
}

TEST_CASE("a server's printed blocks replace the estimate") {
  Json const out = json_of(estimate(llama + "--context 8192 --blocks 27441 --block-size 16 --json"));
  REQUIRE(out["measured"] == true);
  REQUIRE(out["per_rank"]["plan"]["blocks"] == 27'441);
  REQUIRE(out["requests"] == 27'441 / 512);
  REQUIRE(estimate(llama + "--context 8192 --blocks 27441 --block-size 16").code == 0);
  // 405B on four stages of 31, 32, 32 and 31 layers: 1,000 blocks are 1,000 blocks on each.
  std::string const path = scratch(
      "405b.json",
      R"({"model_type": "llama", "num_hidden_layers": 126, "hidden_size": 16384, "num_attention_heads": 128, "num_key_value_heads": 8, "torch_dtype": "bfloat16"})");
  Json const pipeline = json_of(estimate(path + " --pp 4 --context 16000 --blocks 1000 --block-size 16 --json"));
  REQUIRE(pipeline["per_rank"]["plan"]["blocks"] == 1'000);
  REQUIRE(pipeline["requests"] == 1);
  REQUIRE(pipeline["pool_bytes_total"].get<std::uint64_t>() == 1'000ULL * 16 * 126 * 4'096);
}

TEST_CASE("a user's CI fails when fewer requests fit than it requires") {
  REQUIRE(estimate(llama_on_80 + "--require-requests 64").code == 0);
  Ran const ran = estimate(llama_on_80 + "--require-requests 65");
  REQUIRE(ran.code == 1);
  REQUIRE(has(ran, "64 requests of 8,192 tokens fit, --require-requests 65; the cache would need 65 GiB a rank and has 64 GiB"));
}

TEST_CASE("the estimate refuses bad input") {
  std::string const program = examples + "kvbudget_estimate ";
  refused(program, {"MODEL"});
  refused(program + data, {"a directory without a model", "config.json"});
  refused(program + "no-such-model", {"the model is \"no-such-model\"", "llama-3.1-8b"});
  refused(program + llama_on_80 + "--speculative", {"--speculative is given", "next:"});
  refused(program + "absent.json", {"is not there"});
  refused(program + llama + "--context 8192", {"--gpu-memory is missing", "next:"});
  refused(program + llama + "--context 8192 --gpu-memory 80GiB", {"--weights is missing", "model.safetensors.index.json"});
  refused(program + llama + "--gpu-memory eighty --weights 16GiB", {"--gpu-memory is \"eighty\"", "next:"});
  refused(program + llama_on_80 + "--dtype q9_0", {"--dtype is \"q9_0\"", "q8_0"});
  refused(program + llama_on_80 + "--tp 3", {"--tp is 3", "next:"});
  refused(program + llama_on_80 + "--tp 0", {"--tp is \"0\""});
  refused(program + llama_on_80 + "--dcp 2", {"--dcp is 2", "a divisor"});
  refused(program + llama_on_80 + "--pp 33", {"--pp is 33"});
  for (std::string const bad : {"-1", "1e3", "0x10", "-18446744073709551608", ""})
    refused(program + llama + "--gpu-memory 80GiB --weights 16GiB --context \"" + bad + "\"", {"--context is \"" + bad + "\""});
  REQUIRE(json_of(estimate(llama + "--gpu-memory 80GiB --weights 16GiB --context 010000 --json"))["context"] == 10'000);
  refused(program + llama_on_80 + "--of-total 92", {"--of-total is \"92\""});
  refused(program + llama_on_80 + "--of-total 0", {"--of-total is 0", "more than 0", "next:"});
  refused(program + llama_on_80 + "--of-total 0.9 --of-free 0.9", {"--of-free is given beside --of-total"});
  refused(program + llama_on_80 + "--block 0", {"--block"});
  refused(program + llama + "--blocks 100", {"--block-size is missing"});
  refused(program + llama + "--blocks 100 --block-size 16 --gpu-memory 80GiB", {"--blocks", "--gpu-memory"});
  refused(program + llama + "--blocks 100 --block-size 16 --block 16", {"--block"});
  refused(program + llama + "--gpu-memory 0B --weights 16GiB", {"--gpu-memory is 0"});
  refused(program +
              scratch("fp8.json",
                      R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 1, "torch_dtype": "float8_e4m3fn"})") +
              " --gpu-memory 80GiB --weights 16GiB --context 8",
          {"torch_dtype is \"float8_e4m3fn\"", "--dtype"});
  REQUIRE(estimate(scratch("fp8.json",
                           R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 1, "torch_dtype": "float8_e4m3fn"})") +
                   " --gpu-memory 80GiB --weights 16GiB --context 8 --dtype bf16")
              .code == 0);
  refused(program + scratch("unknown.json", R"({"model_type": "unheard_of", "kv_lora_rank": 512})") + " --gpu-memory 80GiB --weights 16GiB",
          {"model_type is \"unheard_of\"", "kv_lora_rank"});
  refused(program + scratch("hidden.json", R"({"model_type": "llama", "num_attention_heads": 32, "hidden_size": 4096, "num_hidden_layers": "32"})") +
              " --gpu-memory 80GiB --weights 16GiB",
          {"num_hidden_layers is \"32\"", "a whole number from 1 to 512"});
}

TEST_CASE("the published config of Llama-3.1-8B takes 131,072 bytes a token") {
  std::filesystem::path const config = std::filesystem::path{KVBUDGET_SHARED_DIR} / "hf_configs/configs/meta-llama__Llama-3.1-8B.json";
  if (!std::filesystem::exists(config)) {
    std::puts("not run: ../shared is not here");
    return;
  }
  Json const out = json_of(estimate(config.string() + " --gpu-memory 80GiB --weights 16GiB --context 8192 --json"));
  REQUIRE(out["bytes_per_token"] == 131'072);
  REQUIRE(out["requests"] == 64);
}
