#include "serving/docs_page.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "serving/route.h"

namespace penstock::serving {
namespace {

void AppendText(std::string_view text, std::string* out) {
  for (const char c : text) {
    if (c == '&') {
      out->append("&amp;");
    } else if (c == '<') {
      out->append("&lt;");
    } else if (c == '>') {
      out->append("&gt;");
    } else {
      out->push_back(c);
    }
  }
}

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Penstock: the HTTP API</title>
<meta name="viewport" content="width=device-width">
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .25rem .75rem .25rem 0; vertical-align: top; }
tr + tr { border-top: 1px solid #8884; }
code { overflow-wrap: anywhere; }
</style></head><body>
<h1>Penstock )";
constexpr std::string_view kTable = R"(</h1>
<p>Requests, answers and errors of each route are described by <a href="openapi.json">openapi.json</a>
(OpenAPI 3.1). <a href="ui">The web page</a> shows the models and has a playground.</p>
<table><thead><tr><th>Method</th><th>Path</th><th>What it is for</th></tr></thead><tbody>
)";

}  // namespace

std::string PrintDocsPage(std::span<const Route> routes) {
  std::vector<const Route*> sorted;
  for (const Route& route : routes) sorted.push_back(&route);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Route* a, const Route* b) {
    return std::string_view(a->path) < b->path;
  });
  std::string out(kHead);
  out.append(PENSTOCK_VERSION).append(kTable);
  for (const Route* const route : sorted) {
    out.append("<tr><td>").append(route->method).append("</td><td><code>");
    AppendText(route->path, &out);
    out.append("</code></td><td>");
    AppendText(route->about.summary, &out);
    out.append("</td></tr>\n");
  }
  return out.append("</tbody></table></body></html>\n");
}

}  // namespace penstock::serving
