// GrammarCompiler: from what a request asks for to a Grammar for one vocabulary, by XGrammar
// (https://github.com/mlc-ai/xgrammar, Dong et al., arXiv 2411.15100), or not at all where Penstock
// was built without it.
#pragma once

#include <memory>

#include "base/status.h"
#include "grammar/constraint.h"
#include "grammar/grammar_spec.h"

namespace penstock::grammar {

// Any thread; calls of Compile take turns.
class GrammarCompiler {
 public:
  virtual ~GrammarCompiler() = default;
  // `spec` has passed CheckSpec. Takes milliseconds, or seconds for large schemas.
  // kInvalidArgument with the spec's field: what it asks for is broken, or cannot be enforced.
  virtual Expected<std::shared_ptr<const Grammar>> Compile(const GrammarSpec& spec) = 0;
};

// Whether this program can compile grammars.
bool HasGrammars();

// Sorts the vocabulary, which takes some 100 ms. kUnsupported: built without XGrammar; the message
// says what to install.
Expected<std::unique_ptr<GrammarCompiler>> MakeGrammarCompiler(
    std::shared_ptr<const GrammarVocabulary> vocabulary);

}  // namespace penstock::grammar
