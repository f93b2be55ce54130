# CPU kernels are compiled once per instruction-set level and dispatched at start (model/ops/cpu/kernels).
# A source's name ends in its level: *_baseline.cpp, *_avx2.cpp, *_avx512.cpp, *_amx.cpp.
set(weft_kernel_flags_baseline "")
set(weft_kernel_flags_avx2 -mavx2 -mfma -mf16c)
set(weft_kernel_flags_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl)
set(weft_kernel_flags_amx ${weft_kernel_flags_avx512} -mamx-tile -mamx-bf16)

# Inlined lanes are thousands of scopes: watching each of them makes a build with ASan three times as long.
set(weft_kernel_sanitizer_flags "")
if(WEFT_SANITIZE MATCHES address)
  set(weft_kernel_sanitizer_flags -fno-sanitize-address-use-after-scope)
endif()

foreach(level baseline avx2 avx512 amx)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/model/ops/cpu/kernels/*_${level}.cpp)
  if(sources)
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS
      "${weft_kernel_flags_${level}};${weft_kernel_sanitizer_flags}")
    target_sources(weft_model PRIVATE ${sources})
  endif()
endforeach()
