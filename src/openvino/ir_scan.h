// What an OpenVINO IR says of its operations, without a reader of XML.
#pragma once

#include <string>
#include <string_view>

namespace penstock::openvino {

// The first operation that keeps a state between runs, "ReadValue" or "Assign", that an attribute
// `type` names, as XML may write it: in single quotes, with character references, and in any case,
// as OpenVINO finds operations; "": none. What looks so in a comment counts as well. `xml`: of
// bytes that are ASCII where they are below 128.
std::string StateOperationOf(std::string_view xml);

}  // namespace penstock::openvino
