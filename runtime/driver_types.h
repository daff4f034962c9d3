/* driver_types.h - the driver's binary interface as far as dcpk speaks it: handles, structs and constants.
 *
 * Ours, so that nothing needs cuda.h to build; tests/test_driver.c asserts sizes, offsets and values against
 * cuda.h where there is one. Only plain C types; shared by the runtime and by every driver library of this
 * project. Names begin with cu_ and DRIVER_, so cuda.h can be included beside it. */
#ifndef DCPK_RUNTIME_DRIVER_TYPES_H
#define DCPK_RUNTIME_DRIVER_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int cu_result;             /* CUresult */
typedef int cu_device;             /* CUdevice */
typedef unsigned long long cu_ptr; /* CUdeviceptr */
typedef unsigned long long cu_mem; /* CUmemGenericAllocationHandle */
typedef void *cu_context;          /* handles of the driver: opaque pointers */
typedef void *cu_stream;
typedef void *cu_event;
typedef void *cu_library;
typedef void *cu_kernel;
typedef void *cu_function;
typedef void *cu_graph;
typedef void *cu_graph_node;
typedef void *cu_graph_exec;
typedef void *cu_user_object;
typedef void *cu_green;         /* CUgreenCtx */
typedef void *cu_resource_desc; /* CUdevResourceDesc */
typedef void cu_host_fn(void *self);

enum { /* CUresult */
       DRIVER_OK = 0,
       DRIVER_INVALID_VALUE = 1,
       DRIVER_OUT_OF_MEMORY = 2,
       DRIVER_NOT_INITIALIZED = 3,
       DRIVER_STUB_LIBRARY = 34, /* the toolkit's libcuda for linking: it gives this for every call */
       DRIVER_NO_DEVICE = 100,
       DRIVER_INVALID_DEVICE = 101,
       DRIVER_INVALID_IMAGE = 200,
       DRIVER_INVALID_CONTEXT = 201,
       DRIVER_INVALID_PTX = 218,
       DRIVER_INVALID_HANDLE = 400,
       DRIVER_NOT_FOUND = 500,
       DRIVER_NOT_READY = 600,
       DRIVER_ILLEGAL_ADDRESS = 700,
       DRIVER_OUT_OF_RESOURCES = 701,
       DRIVER_PEER_ACCESS_ALREADY_ENABLED = 704,
       DRIVER_LAUNCH_FAILED = 719,
       DRIVER_NOT_SUPPORTED = 801,
       DRIVER_CAPTURE_IMPLICIT = 906
};

enum { /* CUdevice_attribute */
       DRIVER_ATTR_MULTIPROCESSORS = 16,
       DRIVER_ATTR_CC_MAJOR = 75,
       DRIVER_ATTR_CC_MINOR = 76,
       DRIVER_ATTR_SHARED_OF_CTA = 97, /* the most that a kernel may opt in to */
       DRIVER_ATTR_MULTICAST = 132
};

enum { /* CUfunction_attribute */
       DRIVER_FUNC_MAX_DYNAMIC_SHARED = 8,
       DRIVER_FUNC_NON_PORTABLE_CLUSTER = 14
};

enum { /* CUjit_option; values travel as void * */
       DRIVER_JIT_ERROR_LOG = 5,
       DRIVER_JIT_ERROR_LOG_BYTES = 6
};

enum { /* flags and small enums */
       DRIVER_STREAM_NON_BLOCKING = 1,
       DRIVER_HOST_PORTABLE = 1,
       DRIVER_HOST_MAPPED = 2,
       DRIVER_CAPTURE_NONE = 0,
       DRIVER_CAPTURE_ACTIVE = 1,
       DRIVER_CAPTURE_INVALIDATED = 2,
       DRIVER_CAPTURE_GLOBAL = 0, /* CUstreamCaptureMode */
       DRIVER_CAPTURE_THREAD_LOCAL = 1,
       DRIVER_CAPTURE_RELAXED = 2,
       DRIVER_EVENT_EXTERNAL = 1,    /* of a record or wait: a node of the captured graph */
       DRIVER_EDGE_PROGRAMMATIC = 1, /* CUgraphDependencyType, and the port of a kernel node */
       DRIVER_USER_OBJECT_NO_SYNC = 1,
       DRIVER_GRAPH_OBJECT_MOVE = 1,
       DRIVER_MEM_PINNED = 1,
       DRIVER_MEM_ON_DEVICE = 1,
       DRIVER_MEM_GRANULARITY_MINIMUM = 0,
       DRIVER_MEM_READ_WRITE = 3,
       DRIVER_RESOURCE_SM = 1,         /* CUdevResourceType */
       DRIVER_GREEN_DEFAULT_STREAM = 1 /* CUgreenCtxCreate_flags: required */
};

enum { /* CUlaunchAttributeID */
       DRIVER_LAUNCH_CLUSTER = 4,
       DRIVER_LAUNCH_PDL = 6 /* programmatic stream serialization */
};

enum { /* CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion: those that dcpk uses */
       DRIVER_MAP_U8 = 0,
       DRIVER_MAP_U16 = 1,
       DRIVER_MAP_U32 = 2,
       DRIVER_MAP_F16 = 6,
       DRIVER_MAP_F32 = 7,
       DRIVER_MAP_BF16 = 9,
       DRIVER_SWIZZLE_NONE = 0,
       DRIVER_SWIZZLE_32 = 1,
       DRIVER_SWIZZLE_64 = 2,
       DRIVER_SWIZZLE_128 = 3,
       DRIVER_PROMOTION_NONE = 0,
       DRIVER_PROMOTION_128 = 2
};

typedef struct cu_tensor_map { /* CUtensorMap: the driver's own */
    _Alignas(128) unsigned char inside[128];
} cu_tensor_map;

typedef union cu_launch_value { /* CUlaunchAttributeValue */
    char pad[64];
    struct {
        unsigned x, y, z;
    } cluster;
    int pdl;
} cu_launch_value;

typedef struct cu_launch_attribute { /* CUlaunchAttribute */
    int id;
    char pad[4];
    cu_launch_value value;
} cu_launch_attribute;

typedef struct cu_launch_config { /* CUlaunchConfig */
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    cu_stream stream;
    cu_launch_attribute *attributes;
    unsigned attribute_count;
} cu_launch_config;

typedef struct cu_location { /* CUmemLocation */
    int type, id;
} cu_location;

typedef struct cu_mem_properties { /* CUmemAllocationProp */
    int type, handle_types;
    cu_location location;
    void *win32;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
} cu_mem_properties;

typedef struct cu_mem_access { /* CUmemAccessDesc */
    cu_location location;
    int flags;
} cu_mem_access;

typedef struct cu_multicast_properties { /* CUmulticastObjectProp */
    unsigned devices;
    size_t bytes;
    unsigned long long handle_types, flags;
} cu_multicast_properties;

typedef struct cu_edge { /* CUgraphEdgeData */
    unsigned char from_port, to_port, type, reserved[5];
} cu_edge;

typedef struct cu_instantiate { /* CUDA_GRAPH_INSTANTIATE_PARAMS */
    unsigned long long flags;
    cu_stream upload;
    cu_graph_node wrong_node;
    int result;
} cu_instantiate;

typedef struct cu_resource { /* CUdevResource, of type DRIVER_RESOURCE_SM */
    int type;
    unsigned char inside[92]; /* the driver's own: a split's result is copied whole */
    union {
        struct {
            unsigned sms, least, unit; /* multiprocessors; a partition has at least `least`, a multiple of `unit` */
        } sm;
        unsigned char pad[48];
    } of;
} cu_resource;

#endif
