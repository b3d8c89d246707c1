add_executable(plan_quality ${CMAKE_CURRENT_LIST_DIR}/plan_quality.cpp)
target_link_libraries(plan_quality PRIVATE room_plan room_machine room_base smelt_flags fmt::fmt-header-only)
