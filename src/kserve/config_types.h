// Types of elements as a ModelConfig names them.
#pragma once

#include <optional>

#include "signature/element_type.h"

namespace inference {
enum DataType : int;  // model_config.pb.h
}

namespace penstock::kserve {

// Nothing: TYPE_INVALID, or a number without a name.
std::optional<signature::ElementType> ElementTypeOf(inference::DataType type);
inference::DataType DataTypeOf(signature::ElementType type);

}  // namespace penstock::kserve
