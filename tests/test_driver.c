/* test_driver.c - our own declarations of the driver's binary interface against cuda.h, where there is one, and the
 * table of entry points. */
#include "runtime/driver.h"

#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_include)
#if __has_include(<cuda.h>)
#define HAVE_CUDA_H 1
#include <cuda.h>
#endif
#endif

#if defined(HAVE_CUDA_H)
#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours " is " #theirs)
#define AT(ours, field, theirs, member) SAME(offsetof(ours, field), offsetof(theirs, member))

SAME(sizeof(cu_result), sizeof(CUresult));
SAME(sizeof(cu_device), sizeof(CUdevice));
SAME(sizeof(cu_ptr), sizeof(CUdeviceptr));
SAME(sizeof(cu_mem), sizeof(CUmemGenericAllocationHandle));
SAME(sizeof(cu_context), sizeof(CUcontext));
SAME(DRIVER_OK, CUDA_SUCCESS);
SAME(DRIVER_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(DRIVER_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(DRIVER_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(DRIVER_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(DRIVER_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(DRIVER_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(DRIVER_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(DRIVER_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
SAME(DRIVER_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(DRIVER_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(DRIVER_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(DRIVER_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(DRIVER_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(DRIVER_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(DRIVER_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(DRIVER_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(DRIVER_ATTR_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(DRIVER_ATTR_CC_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(DRIVER_ATTR_CC_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(DRIVER_ATTR_MULTICAST, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);
SAME(DRIVER_FUNC_MAX_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(DRIVER_FUNC_NON_PORTABLE_CLUSTER, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(DRIVER_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME(DRIVER_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(DRIVER_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(DRIVER_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(DRIVER_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(DRIVER_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(DRIVER_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(DRIVER_CAPTURE_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(DRIVER_USER_OBJECT_NO_SYNC, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
SAME(DRIVER_GRAPH_OBJECT_MOVE, CU_GRAPH_USER_OBJECT_MOVE);
SAME(DRIVER_MEM_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(DRIVER_MEM_ON_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(DRIVER_MEM_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(DRIVER_MEM_GRANULARITY_MINIMUM, CU_MULTICAST_GRANULARITY_MINIMUM);
SAME(DRIVER_MEM_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(DRIVER_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(DRIVER_LAUNCH_PDL, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(sizeof(cu_tensor_map), sizeof(CUtensorMap));
_Static_assert(_Alignof(cu_tensor_map) >= _Alignof(CUtensorMap), "64 before CUDA 13, then 128");
SAME(DRIVER_MAP_U8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME(DRIVER_MAP_U16, CU_TENSOR_MAP_DATA_TYPE_UINT16);
SAME(DRIVER_MAP_U32, CU_TENSOR_MAP_DATA_TYPE_UINT32);
SAME(DRIVER_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(DRIVER_MAP_F32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(DRIVER_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(DRIVER_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(DRIVER_SWIZZLE_32, CU_TENSOR_MAP_SWIZZLE_32B);
SAME(DRIVER_SWIZZLE_64, CU_TENSOR_MAP_SWIZZLE_64B);
SAME(DRIVER_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(DRIVER_PROMOTION_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE);
SAME(DRIVER_PROMOTION_128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(sizeof(cu_launch_value), sizeof(CUlaunchAttributeValue));
AT(cu_launch_value, cluster.z, CUlaunchAttributeValue, clusterDim.z);
AT(cu_launch_value, pdl, CUlaunchAttributeValue, programmaticStreamSerializationAllowed);
SAME(sizeof(cu_launch_attribute), sizeof(CUlaunchAttribute));
AT(cu_launch_attribute, value, CUlaunchAttribute, value);
SAME(sizeof(cu_launch_config), sizeof(CUlaunchConfig));
AT(cu_launch_config, block, CUlaunchConfig, blockDimX);
AT(cu_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes);
AT(cu_launch_config, stream, CUlaunchConfig, hStream);
AT(cu_launch_config, attributes, CUlaunchConfig, attrs);
AT(cu_launch_config, attribute_count, CUlaunchConfig, numAttrs);
SAME(sizeof(cu_location), sizeof(CUmemLocation));
AT(cu_location, id, CUmemLocation, id);
SAME(sizeof(cu_mem_properties), sizeof(CUmemAllocationProp));
AT(cu_mem_properties, location, CUmemAllocationProp, location);
AT(cu_mem_properties, win32, CUmemAllocationProp, win32HandleMetaData);
AT(cu_mem_properties, compression, CUmemAllocationProp, allocFlags);
SAME(sizeof(cu_mem_access), sizeof(CUmemAccessDesc));
AT(cu_mem_access, flags, CUmemAccessDesc, flags);
SAME(sizeof(cu_multicast_properties), sizeof(CUmulticastObjectProp));
AT(cu_multicast_properties, bytes, CUmulticastObjectProp, size);
AT(cu_multicast_properties, handle_types, CUmulticastObjectProp, handleTypes);
AT(cu_multicast_properties, flags, CUmulticastObjectProp, flags);
#if CUDA_VERSION >= 12050
SAME(sizeof(cu_green), sizeof(CUgreenCtx));
SAME(sizeof(cu_resource_desc), sizeof(CUdevResourceDesc));
SAME(sizeof(cu_resource), sizeof(CUdevResource));
AT(cu_resource, of.sm.sms, CUdevResource, sm.smCount);
SAME(DRIVER_RESOURCE_SM, CU_DEV_RESOURCE_TYPE_SM);
SAME(DRIVER_GREEN_DEFAULT_STREAM, CU_GREEN_CTX_DEFAULT_STREAM);
#endif
#if CUDA_VERSION >= 13000
AT(cu_resource, of.sm.least, CUdevResource, sm.minSmPartitionSize);
AT(cu_resource, of.sm.unit, CUdevResource, sm.smCoscheduledAlignment);
#endif
#endif

START_TEST(every_entry_point_has_one_versioned_name) {
    for (int i = 0; i < DRIVER_CALL_COUNT; i++) {
        const char *name = dcpk_driver_symbol((enum dcpk_driver_call)i);
        ck_assert_int_eq(strncmp(name, "cu", 2), 0);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(name, dcpk_driver_symbol((enum dcpk_driver_call)j));
    }
    ck_assert_str_eq(dcpk_driver_symbol(DRIVER_CALL_mem_alloc), "cuMemAlloc_v2");
    ck_assert_str_eq(dcpk_driver_symbol(DRIVER_CALL_launch), "cuLaunchKernelEx");
}
END_TEST

START_TEST(missing_library_is_named_with_the_loaders_reason) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct dcpk_driver driver;
    ck_assert_int_eq(dcpk_driver_open(&driver, "libnot-there.so.9", &error), DCPK_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "libnot-there.so.9"));
    ck_assert_ptr_nonnull(strstr(error.text, "cannot open shared object file"));
}
END_TEST

START_TEST(missing_entry_point_is_named) {
    dcpk_error error;
    dcpk_error_init(&error);
    struct dcpk_driver driver;
    memset(&driver, 0, sizeof driver);
    cu_result result = CALL(&driver, func_load, (NULL));
    ck_assert_int_eq(FAILED(&driver, func_load, result, &error, "some kernel"), DCPK_E_DRIVER);
    ck_assert_str_eq(error.text, "some kernel: this driver has no cuFuncLoad: a newer one is needed");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("driver");
    TCase *tests = tcase_create("table");
    tcase_add_test(tests, every_entry_point_has_one_versioned_name);
    tcase_add_test(tests, missing_library_is_named_with_the_loaders_reason);
    tcase_add_test(tests, missing_entry_point_is_named);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
