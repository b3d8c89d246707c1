/* In place of hwloc, of which the building machine has no AArch64 library: discovery fails as on
 * an unknown system; nothing else of it is called then. */
#include <stdlib.h>

int hwloc_topology_init(void* topology) {
  (void)topology;
  return -1;
}

#define NEVER_CALLED(name) \
  void name(void) { abort(); }
NEVER_CALLED(hwloc_bitmap_alloc)
NEVER_CALLED(hwloc_bitmap_free)
NEVER_CALLED(hwloc_bitmap_isset)
NEVER_CALLED(hwloc_bitmap_next)
NEVER_CALLED(hwloc_bitmap_weight)
NEVER_CALLED(hwloc_cpukinds_get_info)
NEVER_CALLED(hwloc_cpukinds_get_nr)
NEVER_CALLED(hwloc_get_obj_by_depth)
NEVER_CALLED(hwloc_get_type_depth)
NEVER_CALLED(hwloc_topology_destroy)
NEVER_CALLED(hwloc_topology_is_thissystem)
NEVER_CALLED(hwloc_topology_load)
NEVER_CALLED(hwloc_topology_set_flags)
