// A short notation of JSON schemas, for the OpenAPI document. A definition after another:
//   Name = {id: string, score?: number(minimum: 0) "What it means", tags: [string]?}
// string, integer, number, boolean, object, array, null: the types of JSON; number/string: either;
// a trailing `?`: or null. `any`: whatever it is. A name with a capital: another definition.
// "a"/"b": one of these texts. [T]: an array of T. {a: T, b?: T, *: T}: an object with the field a,
// maybe b, and others. A | B: one of both, A || B: one or both, A & B: both; parentheses group.
// Behind a type: rules in parentheses, `name: value` as JSON Schema names them, then what it is
// for; texts that stand side by side are one.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

// The definitions as members of a JSON object, without its braces. `text` is part of the program:
// an error in it ends the process.
std::string ExpandSchemas(std::string_view text);

}  // namespace penstock
