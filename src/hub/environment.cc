#include "hub/environment.h"

#include <algorithm>
#include <cstdlib>

#include "base/regular_file.h"
#include "log/log.h"

namespace penstock::hub {
namespace {

constexpr size_t kTokenBytesMax = 4096;

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

bool FitsHeader(const std::string& token) {
  return token.size() <= kTokenBytesMax &&
         std::all_of(token.begin(), token.end(), [](char c) { return c > 32 && c < 127; });
}

std::string GivenToken() {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (std::string token = Trimmed(EnvText(name)); !token.empty()) return token;
  }
  if (EnvIsTrue("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return "";
  const std::string path = EnvPath("HF_TOKEN_PATH");
  const auto file = ReadRegularFile(path.empty() ? HubHome() + "/token" : path, kTokenBytesMax);
  return file.ok() ? Trimmed(*file) : "";
}

}  // namespace

std::string EnvText(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string EnvPath(const char* name) {
  std::string path = EnvText(name);
  const std::string home = EnvText("HOME");
  return path.starts_with("~/") && !home.empty() ? home + path.substr(1) : path;
}

bool EnvIsTrue(const char* name) {
  std::string value = EnvText(name);
  std::transform(value.begin(), value.end(), value.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string HubHome() {
  if (std::string home = EnvPath("HF_HOME"); !home.empty()) return home;
  const std::string xdg = EnvPath("XDG_CACHE_HOME");
  return (xdg.empty() ? EnvText("HOME") + "/.cache" : xdg) + "/huggingface";
}

std::string HubEndpoint() {
  std::string endpoint = EnvText("HF_ENDPOINT");
  while (endpoint.ends_with("/")) endpoint.pop_back();
  return endpoint.empty() ? "https://huggingface.co" : endpoint;
}

std::string HubToken() {
  std::string token = GivenToken();
  if (FitsHeader(token)) return token;
  LogWarn("the hub's token is not used: it has characters that no token has");
  return "";
}

bool HubIsOffline() { return EnvIsTrue("HF_HUB_OFFLINE") || EnvIsTrue("TRANSFORMERS_OFFLINE"); }

}  // namespace penstock::hub
