// The white space of JSON (RFC 8259, section 2).
#pragma once

namespace penstock::reply {

inline bool IsJsonSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace penstock::reply
