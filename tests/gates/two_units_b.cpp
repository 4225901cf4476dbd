#include <kvbudget/kvbudget.hpp>
#include <kvbudget/read/hf_config.hpp>
#include <kvbudget/write/format.hpp>
#include <kvbudget/write/json.hpp>

kvbudget::Bytes other_unit(kvbudget::ModelSpec const& model);
kvbudget::Bytes other_unit(kvbudget::ModelSpec const& model) { return bytes_per_token(model); }
