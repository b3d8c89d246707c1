// Included first when the table is compiled for crash tests: each numbered point calls the test.
#pragma once

namespace smelt::map_detail {
void reach_point(int number) noexcept;
}
#define SMELT_MAP_POINT(number) ::smelt::map_detail::reach_point(number)
