// RouteInfo: the properties of a route that keys, priority, log and metrics depend on. The handlers
// are in dialects/.
#pragma once

namespace penstock::frontend {

// Whose key a route asks for; see RequestPolicy::CheckKey.
enum class RouteFor {
  kUsers,
  kEveryone,  // no key; and requests may name any host
  kVisitors,  // no key
  kMonitors,  // kAdmins with --admin-metrics, else kUsers
  kAdmins,    // an administrator's where there are such keys, else kUsers
};

struct RouteInfo {
  const char* method;  // "GET" (answers HEAD too), "POST" or "DELETE"
  const char* path;    // a path, or a pattern of serving/path_pattern.h
  RouteFor who = RouteFor::kUsers;
  bool lines = false;  // answers in lines too (embed_lines.h), where the request asks for it
  // Its answer goes on until the client leaves: not counted as a failure, nor as slow.
  bool endless = false;
};

}  // namespace penstock::frontend
