// All dialects, a row each.
#pragma once

#include "serving/route_table.h"

namespace penstock::dialects {

// The routes of every dialect. A new dialect is a folder, its rows in shared/rows.h and
// a row in list.cc.
const serving::RouteTable& AllRoutes();

}  // namespace penstock::dialects
