// GrammarCompiler of a program that was built without XGrammar.
#ifndef PENSTOCK_HAVE_XGRAMMAR
#include "grammar/grammar_compiler.h"

namespace penstock::grammar {

bool HasGrammars() { return false; }

Expected<std::unique_ptr<GrammarCompiler>> MakeGrammarCompiler(
    std::shared_ptr<const GrammarVocabulary>) {
  return Status(StatusCode::kUnsupported,
                "this penstock was built without XGrammar, which holds answers to a schema: "
                "tools/install_xgrammar.py installs it for the next build");
}

}  // namespace penstock::grammar
#endif
