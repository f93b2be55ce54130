# The program `weft`.
if(TARGET weft_launch AND EXISTS ${CMAKE_SOURCE_DIR}/launch/main.cpp)
  target_compile_definitions(weft_launch PRIVATE WEFT_VERSION="${PROJECT_VERSION}")
  add_executable(weft_program launch/main.cpp)
  set_target_properties(weft_program PROPERTIES OUTPUT_NAME weft)
  target_link_libraries(weft_program PRIVATE weft_options weft::launch)
endif()
