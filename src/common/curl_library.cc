#include "common/curl_library.h"

#include <dlfcn.h>

#include <string>

namespace penstock {
namespace {

constexpr const char* kFile = "libcurl.so.4";

CurlLibrary g_curl;

Status Load() {
  // Never closed: threads of a resolver may outlive the last request.
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return Status::Unsupported(std::string("requests to other hosts need ") + kFile +
                               " (Debian: libcurl4): " + (why != nullptr ? why : "not found"));
  }
  std::string missing;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    if (*function == nullptr) missing = name;
  };
  decltype(&curl_global_init) global_init = nullptr;
  find("curl_global_init", &global_init);
  find("curl_free", &g_curl.free);
  find("curl_easy_init", &g_curl.easy_init);
  find("curl_easy_reset", &g_curl.easy_reset);
  find("curl_easy_cleanup", &g_curl.easy_cleanup);
  find("curl_easy_setopt", &g_curl.easy_setopt);
  find("curl_easy_getinfo", &g_curl.easy_getinfo);
  find("curl_easy_perform", &g_curl.easy_perform);
  find("curl_easy_strerror", &g_curl.easy_strerror);
  find("curl_multi_init", &g_curl.multi_init);
  find("curl_multi_cleanup", &g_curl.multi_cleanup);
  find("curl_multi_add_handle", &g_curl.multi_add_handle);
  find("curl_multi_remove_handle", &g_curl.multi_remove_handle);
  find("curl_multi_perform", &g_curl.multi_perform);
  find("curl_multi_poll", &g_curl.multi_poll);
  find("curl_multi_info_read", &g_curl.multi_info_read);
  find("curl_slist_append", &g_curl.slist_append);
  find("curl_slist_free_all", &g_curl.slist_free_all);
  find("curl_url", &g_curl.url);
  find("curl_url_cleanup", &g_curl.url_cleanup);
  find("curl_url_get", &g_curl.url_get);
  find("curl_url_set", &g_curl.url_set);
  if (!missing.empty()) {
    return Status::Unsupported(std::string(kFile) + " is too old: it lacks " + missing);
  }
  if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return Status::Internal(std::string(kFile) + " cannot be initialized");
  }
  return Status::Ok();
}

}  // namespace

Status LoadCurl() {
  static const Status loaded = Load();
  return loaded;
}

const CurlLibrary& Curl() { return g_curl; }

}  // namespace penstock
