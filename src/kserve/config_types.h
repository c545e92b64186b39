// Types of elements as a ModelConfig names them.
#pragma once

#include <optional>

#include "signature/element_type.h"

namespace inference {
enum DataType : int;  // model_config.pb.h
}

namespace penstock {

// Nothing: TYPE_INVALID, or a number without a name.
std::optional<ElementType> ElementTypeOf(inference::DataType type);
inference::DataType DataTypeOf(ElementType type);

}  // namespace penstock
