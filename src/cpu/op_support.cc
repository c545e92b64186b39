#include "cpu/op_support.h"

#include <variant>

namespace penstock::cpu {

Status CheckSupport(const program::Program& program) {
  const bool cached = program::UsesCache(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const program::Op& op = program.ops[i];
    const char* const what =
        std::visit([cached](const auto& one) { return RefusalOf(one, cached); }, op);
    if (what == nullptr) continue;
    return Status::Unsupported("op " + std::to_string(i) + " (" + program::OpName(op) +
                               "): the CPU does not run " + what + " in a program with" +
                               (cached ? " a cache" : "out a cache"));
  }
  return Status::Ok();
}

}  // namespace penstock::cpu
