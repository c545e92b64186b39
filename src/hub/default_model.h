// The model that is taken where none is named. tools/get_default_model.py looks in the same places
// in the same order.
#pragma once

#include <string>

#include "common/status.h"

namespace penstock {

inline constexpr char kDefaultModel[] = "sentence-transformers/all-MiniLM-L6-v2";

struct DefaultModel {
  std::string reference;  // for ResolveModel
  std::string name;       // to serve it under; "" = as any reference
};

// The first of: $PENSTOCK_DEFAULT_MODEL; the model in the Hugging Face cache; the folder
// ${XDG_CACHE_HOME:-~/.cache}/penstock/models/OWNER--NAME, which the script fills; the model on the
// hub, for ResolveModel to download.
DefaultModel FindDefaultModel();

// The model that is taken where none is named and text is generated: $PENSTOCK_DEMO_MODEL, else the
// file that tools/get_demo_model.py fetched. kNotFound says how to get it.
Expected<std::string> FindDemoModel();

}  // namespace penstock
