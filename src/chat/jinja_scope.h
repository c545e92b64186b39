// Binds the variables of a parsed template to their places, by jinja2's rules: what a loop, a block
// or a macro sets is its own, and is read there with the value from outside until then. Also
// refuses what a template calls that does not exist.
#pragma once

#include "chat/jinja_ast.h"

namespace penstock::chat::jinja {

// Throws Error with the line: kUnsupported where a filter, a test or a function is not known and
// the template does not itself ask whether it is there ('x' is filter, f is defined).
void BindVariables(Template* tree);

}  // namespace penstock::chat::jinja
