// What the front ends' shared parts know of a route: keys, priority, log and metrics go by it. The
// handlers are in routes/.
#pragma once

namespace penstock {

// Whose key a route asks for; see RequestPolicy::CheckKey.
enum class RouteFor {
  kUsers,
  kEveryone,  // none, and it answers whatever host is named
  kMonitors,  // kAdmins with --admin-metrics, else kUsers
  kAdmins,    // that of an administrator, where there are such keys, else kUsers
};

struct RouteInfo {
  const char* method;  // "GET" (answers HEAD too) or "POST"
  const char* path;    // ends with '*' = whatever follows, slashes too
  RouteFor who = RouteFor::kUsers;
  bool lines = false;  // answers in lines too (embed_lines.h), where the request asks for it
};

}  // namespace penstock
