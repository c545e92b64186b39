// Reads numbers back out of the Prometheus text format. Pure functions.
#pragma once

#include <initializer_list>
#include <string_view>

namespace penstock::load {

// The sum of all series of `name` whose labels hold every one of `labels` (`code="200"`); 0 if
// there is none.
double SumOfSeries(std::string_view text, std::string_view name,
                   std::initializer_list<std::string_view> labels = {});

}  // namespace penstock::load
