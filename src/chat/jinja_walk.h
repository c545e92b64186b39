// Walks over the tree of a template: its parts in their order, and what can be told from them.
#pragma once

#include <set>
#include <string>

#include "chat/jinja_ast.h"

namespace penstock::chat::jinja {

// The expressions right below this one: operands, then the arguments of a call.
template <typename Visit>
void ForEachKid(const Expr& expr, Visit&& visit) {
  for (const ExprPtr& kid : expr.kids) {
    if (kid != nullptr) visit(*kid);
  }
  if (expr.call == nullptr) return;
  for (const ExprPtr& argument : expr.call->positional) visit(*argument);
  for (const auto& named : expr.call->named) visit(*named.second);
  if (expr.call->star != nullptr) visit(*expr.call->star);
  if (expr.call->star_star != nullptr) visit(*expr.call->star_star);
}

// Of `names`, those that the body reads before it stores them, in the order of the text, macros and
// loops inside it included.
std::set<std::string> Undeclared(const Body& body, std::set<std::string> names);

// Refuses filters, tests and functions that are not known; see BindVariables.
void CheckNames(const Template& tree);

// A copy of a target: names and tuples.
ExprPtr CopyTarget(const Expr& target);

}  // namespace penstock::chat::jinja
