#include "kinds.hpp"
namespace conformance {
Cases llama_cpp_logs(Options const&) { return {}; }
}  // namespace conformance
