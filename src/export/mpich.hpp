// MPICH's selection of algorithms, in the terms of its selection files.
#pragma once

#include <string_view>
#include <vector>

namespace smelt::plan {

struct MpichCase {
  std::string_view collective;
  std::string_view conditions;  ///< separated by spaces, all must hold: "comm_type=intra comm_size<8"
  std::string_view algorithm;   ///< without "MPIR_"
};
const std::vector<MpichCase>& mpich_defaults();

}  // namespace smelt::plan
