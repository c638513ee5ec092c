# moh as a library (docs/library.md): the target moh::moh, in this tree and after cmake --install, where find_package(moh)
# makes it. One archive of what the public headers need, and nothing of the program: neither YAML nor a command line.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# The public headers, each of which <moh/moh.h> includes. A new one has a line here.
set(MOH_PUBLIC_HEADERS
  core/allocator.h
  core/device.h
  core/dtype.h
  core/error.h
  core/math_mode.h
  core/parallel.h
  core/random.h
  core/shape.h
  core/tensor.h
  autograd/gradcheck.h
  autograd/node.h
  autograd/recompute.h
  autograd/variable.h
  ops/activation/gelu.h
  ops/activation/relu.h
  ops/activation/silu.h
  ops/activation/swiglu.h
  ops/attention/attention.h
  ops/attention/head_lists.h
  ops/conv/conv2d.h
  ops/dropout/drop_path.h
  ops/dropout/dropout.h
  ops/elementwise/add.h
  ops/elementwise/scale.h
  ops/embedding/embedding.h
  ops/linalg/linear.h
  ops/linalg/matmul.h
  ops/loss/cross_entropy.h
  ops/loss/kl_divergence.h
  ops/loss/loss_divisor.h
  ops/loss/soft_cross_entropy.h
  ops/loss/top1.h
  ops/moh/head_router.h
  ops/moh/head_sequences.h
  ops/moh/router_options.h
  ops/norm/group_norm.h
  ops/norm/layer_norm.h
  ops/norm/rms_norm.h
  ops/rope/rope.h
  ops/rope/rope_scaling.h
  ops/shape/reshape.h
  ops/softmax/softmax.h
  models/diffusion/dit.h
  models/diffusion/dit_config.h
  models/forward_context.h
  models/layers/attention_gate.h
  models/layers/head_routing.h
  models/layers/head_routing_options.h
  models/layers/layer_norm.h
  models/layers/linear.h
  models/layers/moh_attention.h
  models/layers/moh_config.h
  models/layers/output_gate.h
  models/layers/registry.h
  models/layers/rms_norm.h
  models/layers/router.h
  models/layers/routers.h
  models/layers/routing_rule.h
  models/llm/kv_cache.h
  models/llm/llama.h
  models/llm/llama_config.h
  models/llm/llama_presets.h
  models/llm/lora.h
  models/llm/routed_keys.h
  models/model.h
  models/module.h
  models/translation/decoding.h
  models/translation/packed_pairs.h
  models/translation/translation_config.h
  models/translation/translation_model.h
  models/translation/translation_presets.h
  models/vision/transnext.h
  models/vision/transnext_config.h
  models/vision/vit.h
  models/vision/vit_config.h
  train/base/formats/safetensors.h
  train/base/formats/weight_file.h
  train/trainer/optim/adamw.h
  train/trainer/optim/adamw_options.h
  train/trainer/optim/lr_schedule.h
  train/trainer/optim/parameter_groups.h
  train/trainer/optim/precision.h
  train/tokenizers/open_tokenizer.h
  train/tokenizers/token_id.h
  train/tokenizers/tokenizer.h)

# Headers that these include and users do not: installed, without a promise.
set(MOH_HEADERS_BEHIND
  core/function_ref.h
  core/philox.h
  core/reduce_op.h
  core/storage.h
  models/config_faults.h
  models/layers/conv2d.h
  models/layers/head_set.h
  models/layers/per_layer.h
  models/layers/residual_stream.h
  models/layers/shared_masks.h
  models/layers/switch_head.h
  models/layers/switch_head_config.h
  models/llm/llama_layers.h
  models/llm/rotary_embedding.h
  models/recompute_level.h
  models/translation/translation_attention.h
  models/translation/translation_layers.h
  models/translation/translation_stacks.h
  models/vision/image_model.h
  models/vision/per_size.h
  models/vision/relative_positions.h
  models/vision/transnext_attention.h
  models/vision/transnext_layers.h
  ops/attention/aggregated_attention.h
  ops/loss/divisor.h
  ops/norm/residual_branch.h
  ops/optim/adamw.h
  train/comm/communicator.h
  train/base/io/input_file.h
  train/trainer/optim/adamw_update.h
  train/trainer/optim/parameter_shards.h)

# moh_library_parts(PARTS LIBRARIES): the targets of the layers, of the rooms that hold public headers and of what these
# depend on; and the libraries of others that they are linked with.
function(moh_library_parts parts libraries)
  set(todo moh_core moh_autograd moh_ops moh_models)
  get_property(rooms GLOBAL PROPERTY MOH_TRAIN_ROOMS)
  foreach(room IN LISTS rooms)
    if(";${MOH_PUBLIC_HEADERS}" MATCHES ";train/${room}/")
      string(REPLACE "/" "_" word ${room})
      list(APPEND todo moh_train_${word})
    endif()
  endforeach()
  set(found "")
  set(others "")
  while(todo)
    list(POP_FRONT todo part)
    if(part IN_LIST found)
      continue()
    endif()
    list(APPEND found ${part})
    get_target_property(links ${part} LINK_LIBRARIES)
    foreach(link IN LISTS links)
      if(link MATCHES "^moh_(core|autograd|ops|models|train_.*)$")
        list(APPEND todo ${link})
      elseif(NOT link MATCHES "^moh_compile_options$|^(nlohmann_json|Eigen3|Boost|CLI11)::") # the latter are headers alone
        list(APPEND others ${link})
      endif()
    endforeach()
  endwhile()
  list(REMOVE_DUPLICATES others)
  set(${parts} ${found} PARENT_SCOPE)
  set(${libraries} ${others} PARENT_SCOPE)
endfunction()

moh_library_parts(parts libraries)
set(objects "")
foreach(part IN LISTS parts)
  # A library's objects do not include those that it takes from others: kernels are named once more.
  get_target_property(kernels ${part} MOH_KERNEL_OBJECTS)
  list(APPEND objects $<TARGET_OBJECTS:${part}>)
  if(kernels)
    list(APPEND objects ${kernels})
  endif()
endforeach()
add_library(moh_library STATIC ${objects})
add_library(moh::moh ALIAS moh_library)
set_target_properties(moh_library PROPERTIES OUTPUT_NAME moh EXPORT_NAME moh LINKER_LANGUAGE CXX)
target_compile_features(moh_library PUBLIC cxx_std_20)
target_link_libraries(moh_library PRIVATE ${libraries} ${CMAKE_DL_LIBS})

# The headers as users see them: below moh/, and including each other from there, so that a user's own core/tensor.h is not
# taken for ours. They see no header but these, so a public one that includes another does not compile.
set(include ${PROJECT_BINARY_DIR}/include)
set(script ${PROJECT_SOURCE_DIR}/cmake/MohPublicHeaders.cmake)
set(names ${MOH_PUBLIC_HEADERS} ${MOH_HEADERS_BEHIND})
list(TRANSFORM names PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE from)
list(TRANSFORM names PREPEND ${include}/moh/ OUTPUT_VARIABLE headers)
list(JOIN names "," names)
set(copy ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DINCLUDE=${include} -DHEADERS=${names} -P ${script})
add_custom_command(OUTPUT ${headers} DEPENDS ${from} ${script} COMMAND ${copy} VERBATIM COMMENT "Headers of the library")
execute_process(COMMAND ${copy} COMMAND_ERROR_IS_FATAL ANY) # for clang-tidy, which looks at examples before anything is built
list(TRANSFORM MOH_PUBLIC_HEADERS REPLACE "(.+)" "#include \"moh/\\1\"\n" OUTPUT_VARIABLE includes)
list(JOIN includes "" includes)
file(CONFIGURE OUTPUT ${include}/moh/moh.h @ONLY CONTENT
  "#pragma once\n\n// All that is public of moh ${PROJECT_VERSION}; docs/library.md is its page.\n\n@includes@")
target_sources(moh_library PUBLIC FILE_SET HEADERS BASE_DIRS ${include} FILES ${include}/moh/moh.h ${headers})

# The package: the component `library` of an installation.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/moh)
set(packages ${libraries})
list(FILTER packages INCLUDE REGEX "::|^yaml-cpp$")
list(TRANSFORM packages REPLACE "::.*" "")
list(TRANSFORM packages REPLACE "^CUDA$" CUDAToolkit)
configure_package_config_file(cmake/moh-config.cmake.in moh-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(moh-config-version.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS moh_library EXPORT moh-targets COMPONENT library ARCHIVE FILE_SET HEADERS)
install(EXPORT moh-targets NAMESPACE moh:: DESTINATION ${package} COMPONENT library)
install(FILES ${PROJECT_BINARY_DIR}/moh-config.cmake ${PROJECT_BINARY_DIR}/moh-config-version.cmake
              cmake/MohPlainLibraries.cmake DESTINATION ${package} COMPONENT library)
