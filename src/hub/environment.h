// The variables of the hub, read as huggingface_hub reads them.
#pragma once

#include <string>

namespace penstock::hub {

// "" if the variable is not set.
std::string EnvText(const char* name);
// With the home folder for a leading "~/".
std::string EnvPath(const char* name);
// 1, ON, YES or TRUE, in either case.
bool EnvIsTrue(const char* name);

// HF_HOME, else XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface.
std::string HubHome();
// HF_ENDPOINT without a slash at its end, else https://huggingface.co.
std::string HubEndpoint();
// HF_TOKEN, else HUGGING_FACE_HUB_TOKEN, else the contents of HF_TOKEN_PATH, else of the file
// HF_HOME/token, which `hf auth login` writes. "" = none, or one that no header can carry. The
// files are not read if HF_HUB_DISABLE_IMPLICIT_TOKEN is set.
std::string HubToken();
// HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE.
bool HubIsOffline();

}  // namespace penstock::hub
