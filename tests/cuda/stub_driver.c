/* A libcuda.so.1 that writes down what it is called with. Types are those of the driver's ABI, with
 * handles as integers. `stub_take_log` gives out what was called; `stub_fail` lets one function
 * fail. Memory is the host's, so copies are real. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define CALL(name, format, ...)                                          \
    do {                                                                 \
        write_down(#name "(" format ")", ##__VA_ARGS__);                 \
        if (strcmp(failing, #name) == 0) return failure;                 \
    } while (0)

typedef int CUresult;
typedef uint64_t Handle; /* of contexts, streams, ...: pointers in truth */

static char log_text[1 << 16];
static char failing[128];
static CUresult failure;
static Handle current;
static uint64_t threshold;

static void write_down(const char *format, ...) {
    size_t length = strlen(log_text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(log_text + length, sizeof log_text - length, format, arguments);
    va_end(arguments);
    strncat(log_text, "\n", sizeof log_text - strlen(log_text) - 1);
}

EXPORT void stub_take_log(char *text, size_t size) {
    strncpy(text, log_text, size - 1);
    text[size - 1] = 0;
    log_text[0] = 0;
}

EXPORT void stub_fail(const char *name, CUresult result) {
    strncpy(failing, name, sizeof failing - 1);
    failure = result;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                    uint64_t flags, int *status) {
    *function = dlsym(RTLD_DEFAULT, symbol);
    Dl_info found;
    if (*function != NULL &&
        (!dladdr(*function, &found) || strstr(found.dli_fname, "libcuda") == NULL))
        *function = NULL;
    if (strcmp(symbol, "cuGetProcAddress") == 0) *function = (void *)cuGetProcAddress_v2;
    if (status != NULL) *status = *function == NULL ? 1 : 0;
    return *function == NULL ? 500 : 0;
}

EXPORT CUresult cuInit(unsigned flags) { CALL(cuInit, "%u", flags); return 0; }

EXPORT CUresult cuDriverGetVersion(int *version) {
    CALL(cuDriverGetVersion, "");
    *version = 13000;
    return 0;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
    CALL(cuDeviceGetCount, "");
    *count = 2;
    return 0;
}

EXPORT CUresult cuDeviceGet(int *device, int ordinal) {
    CALL(cuDeviceGet, "%d", ordinal);
    *device = 100 + ordinal;
    return 0;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, int device) {
    CALL(cuDeviceGetName, "%d, %d", length, device);
    snprintf(name, (size_t)length, "stub %d", device);
    return 0;
}

/* Attributes are their own numbers, until told otherwise. */
static int attributes[256], is_set[256];

EXPORT void stub_set_attribute(int attribute, int value) {
    attributes[attribute] = value;
    is_set[attribute] = 1;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    CALL(cuDeviceGetAttribute, "%d, %d", attribute, device);
    *value = is_set[attribute] ? attributes[attribute] : attribute;
    return 0;
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, int device) {
    CALL(cuDeviceTotalMem, "%d", device);
    *bytes = (size_t)1 << 37;
    return 0;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(Handle *context, int device) {
    CALL(cuDevicePrimaryCtxRetain, "%d", device);
    *context = 0xC000 + (Handle)device;
    return 0;
}

EXPORT CUresult cuCtxGetCurrent(Handle *context) { *context = current; return 0; }

EXPORT CUresult cuCtxSetCurrent(Handle context) {
    CALL(cuCtxSetCurrent, "%#lx", context);
    current = context;
    return 0;
}

EXPORT CUresult cuCtxSynchronize(void) { CALL(cuCtxSynchronize, ""); return 0; }

struct PoolProperties {
    int allocation, handles, location, id;
    void *security;
    size_t maximum;
    unsigned short usage;
    unsigned char reserved[54];
};

EXPORT CUresult cuMemPoolCreate(Handle *pool, const struct PoolProperties *wanted) {
    CALL(cuMemPoolCreate, "%d, %d, %d, %d, %zu", wanted->allocation, wanted->handles,
         wanted->location, wanted->id, wanted->maximum);
    *pool = 0xB000 + (Handle)wanted->id;
    return 0;
}

EXPORT CUresult cuMemPoolSetAttribute(Handle pool, int attribute, void *value) {
    memcpy(&threshold, value, sizeof threshold);
    CALL(cuMemPoolSetAttribute, "%#lx, %d, %lu", pool, attribute, threshold);
    return 0;
}

EXPORT CUresult cuMemPoolGetAttribute(Handle pool, int attribute, void *value) {
    CALL(cuMemPoolGetAttribute, "%#lx, %d", pool, attribute);
    uint64_t result = 1000 * (uint64_t)attribute;
    memcpy(value, &result, sizeof result);
    return 0;
}

EXPORT CUresult cuMemPoolTrimTo(Handle pool, size_t keep) {
    CALL(cuMemPoolTrimTo, "%#lx, %zu", pool, keep);
    return 0;
}

EXPORT CUresult cuMemAllocFromPoolAsync(uint64_t *address, size_t bytes, Handle pool,
                                        Handle stream) {
    CALL(cuMemAllocFromPoolAsync, "%zu, %#lx, %#lx", bytes, pool, stream);
    *address = (uint64_t)malloc(bytes);
    return 0;
}

EXPORT CUresult cuMemFreeAsync(uint64_t address, Handle stream) {
    CALL(cuMemFreeAsync, "%s, %#lx", address ? "address" : "null", stream);
    free((void *)address);
    return 0;
}

EXPORT CUresult cuMemGetInfo(size_t *available, size_t *total) {
    CALL(cuMemGetInfo, "");
    *available = 11;
    *total = 22;
    return 0;
}

EXPORT CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    CALL(cuMemHostAlloc, "%zu, %u", bytes, flags);
    *address = malloc(bytes);
    return 0;
}

EXPORT CUresult cuMemcpyHtoDAsync(uint64_t target, const void *source, size_t bytes,
                                  Handle stream) {
    CALL(cuMemcpyHtoDAsync, "%zu, %#lx", bytes, stream);
    memcpy((void *)target, source, bytes);
    return 0;
}

EXPORT CUresult cuMemcpyDtoHAsync(void *target, uint64_t source, size_t bytes, Handle stream) {
    CALL(cuMemcpyDtoHAsync, "%zu, %#lx", bytes, stream);
    memcpy(target, (void *)source, bytes);
    return 0;
}

EXPORT CUresult cuMemcpyDtoDAsync(uint64_t target, uint64_t source, size_t bytes, Handle stream) {
    CALL(cuMemcpyDtoDAsync, "%zu, %#lx", bytes, stream);
    memcpy((void *)target, (void *)source, bytes);
    return 0;
}

EXPORT CUresult cuMemcpyPeerAsync(uint64_t target, Handle target_context, uint64_t source,
                                  Handle source_context, size_t bytes, Handle stream) {
    CALL(cuMemcpyPeerAsync, "%#lx, %#lx, %zu, %#lx", target_context, source_context, bytes, stream);
    memcpy((void *)target, (void *)source, bytes);
    return 0;
}

EXPORT CUresult cuMemsetD8Async(uint64_t target, unsigned char byte, size_t bytes, Handle stream) {
    CALL(cuMemsetD8Async, "%u, %zu, %#lx", byte, bytes, stream);
    memset((void *)target, byte, bytes);
    return 0;
}

EXPORT CUresult cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
    CALL(cuPointerGetAttribute, "%d, %#lx", attribute, address);
    if (address == 0xDEAD) return 1; /* CUDA_ERROR_INVALID_VALUE */
    switch (attribute) {
    case 2: *(int *)value = address == 0x1000 ? 1 : 2; break; /* host or device */
    case 8: *(int *)value = address == 0x3000; break;         /* whether managed */
    case 9: *(int *)value = 1; break;                         /* device */
    default: return 1;
    }
    return 0;
}

EXPORT CUresult cuStreamCreateWithPriority(Handle *stream, unsigned flags, int priority) {
    CALL(cuStreamCreateWithPriority, "%u, %d", flags, priority);
    *stream = 0x5000;
    return 0;
}

EXPORT CUresult cuStreamDestroy(Handle stream) { CALL(cuStreamDestroy, "%#lx", stream); return 0; }

EXPORT CUresult cuStreamSynchronize(Handle stream) {
    CALL(cuStreamSynchronize, "%#lx", stream);
    return 0;
}

EXPORT CUresult cuStreamQuery(Handle stream) { CALL(cuStreamQuery, "%#lx", stream); return 0; }

EXPORT CUresult cuEventCreate(Handle *event, unsigned flags) {
    CALL(cuEventCreate, "%u", flags);
    *event = 0xE000;
    return 0;
}

EXPORT CUresult cuEventDestroy(Handle event) { CALL(cuEventDestroy, "%#lx", event); return 0; }

EXPORT CUresult cuEventRecord(Handle event, Handle stream) {
    CALL(cuEventRecord, "%#lx, %#lx", event, stream);
    return 0;
}

EXPORT CUresult cuStreamWaitEvent(Handle stream, Handle event, unsigned flags) {
    CALL(cuStreamWaitEvent, "%#lx, %#lx, %u", stream, event, flags);
    return 0;
}

EXPORT CUresult cuEventSynchronize(Handle event) {
    CALL(cuEventSynchronize, "%#lx", event);
    return 0;
}

EXPORT CUresult cuEventQuery(Handle event) { CALL(cuEventQuery, "%#lx", event); return 0; }

EXPORT CUresult cuEventElapsedTime(float *milliseconds, Handle start, Handle stop) {
    CALL(cuEventElapsedTime, "%#lx, %#lx", start, stop);
    *milliseconds = 1.5f;
    return 0;
}

EXPORT CUresult cuModuleLoadData(Handle *module, const void *image) {
    CALL(cuModuleLoadData, "%.12s", (const char *)image);
    *module = 0x4000;
    return 0;
}

EXPORT CUresult cuModuleGetFunction(Handle *function, Handle module, const char *name) {
    CALL(cuModuleGetFunction, "%#lx, %s", module, name);
    *function = 0xF000;
    return 0;
}


EXPORT CUresult cuFuncSetAttribute(Handle function, int attribute, int value) {
    CALL(cuFuncSetAttribute, "%#lx, %d, %d", function, attribute, value);
    return 0;
}

EXPORT CUresult cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, Handle stream,
                               void **parameters, void **extra) {
    char words[256] = "";
    if (extra[0] == (void *)1 && extra[2] == (void *)2 && extra[4] == NULL) {
        const int64_t *buffer = extra[1];
        size_t bytes = *(size_t *)extra[3];
        for (size_t k = 0; k < bytes / 8; k++)
            sprintf(words + strlen(words), " %ld", buffer[k]);
    }
    CALL(cuLaunchKernel, "%#lx, %u %u %u, %u %u %u, %u, %#lx, %s,%s", function, gx, gy, gz, bx, by,
         bz, shared, stream, parameters == NULL ? "null" : "parameters", words);
    return 0;
}

EXPORT CUresult cuStreamBeginCapture(Handle stream, int mode) {
    CALL(cuStreamBeginCapture, "%#lx, %d", stream, mode);
    return 0;
}

EXPORT CUresult cuStreamEndCapture(Handle stream, Handle *graph) {
    CALL(cuStreamEndCapture, "%#lx", stream);
    *graph = 0x6000;
    return 0;
}

EXPORT CUresult cuStreamBeginCaptureToGraph(Handle stream, Handle graph, const Handle *after,
                                             const void *edges, size_t count, int mode) {
    CALL(cuStreamBeginCaptureToGraph, "%#lx, %#lx, %s, %s, %zu, %d", stream, graph,
         after == NULL ? "null" : "nodes", edges == NULL ? "null" : "edges", count, mode);
    return 0;
}

EXPORT CUresult cuStreamGetCaptureInfo(Handle stream, int *status, uint64_t *number,
                                       Handle *graph, const Handle **nodes, const void **edges,
                                       size_t *count) {
    static const Handle last = 0x6100;
    static const char edge[8];
    CALL(cuStreamGetCaptureInfo, "%#lx", stream);
    *status = 1;
    if (number != NULL) *number = 7;
    if (graph != NULL) *graph = 0x6000;
    if (nodes != NULL) *nodes = &last;
    if (edges != NULL) *edges = edge;
    if (count != NULL) *count = 1;
    return 0;
}

EXPORT CUresult cuStreamUpdateCaptureDependencies(Handle stream, const Handle *nodes,
                                                  const void *edges, size_t count,
                                                  unsigned flags) {
    CALL(cuStreamUpdateCaptureDependencies, "%#lx, %#lx, %s, %zu, %u", stream, nodes[0],
         edges == NULL ? "null" : "edges", count, flags);
    return 0;
}

EXPORT CUresult cuGraphConditionalHandleCreate(Handle *handle, Handle graph, Handle context,
                                               unsigned value, unsigned flags) {
    CALL(cuGraphConditionalHandleCreate, "%#lx, %#lx, %u, %u", graph, context, value, flags);
    *handle = 0x6300;
    return 0;
}

/* Of a conditional node, the one kind that is made so. */
struct node {
    int type, reserved[3];
    Handle handle;
    int kind;
    unsigned size;
    Handle *bodies; /* the driver's own, which it tells */
    Handle context;
};

EXPORT CUresult cuGraphAddNode(Handle *node, Handle graph, const Handle *after, const void *edges,
                               size_t count, struct node *wanted) {
    static Handle bodies[] = {0x6400, 0x6401, 0x6402};
    CALL(cuGraphAddNode, "%#lx, %#lx, %s, %zu, type %d: %#lx, %d, %u, %#lx", graph, after[0],
         edges == NULL ? "null" : "edges", count, wanted->type, wanted->handle, wanted->kind,
         wanted->size, wanted->context);
    wanted->bodies = bodies;
    *node = 0x6200;
    return 0;
}

EXPORT CUresult cuGraphInstantiateWithFlags(Handle *executable, Handle graph,
                                            unsigned long long flags) {
    CALL(cuGraphInstantiate, "%#lx, %llu", graph, flags);
    *executable = 0x7000;
    return 0;
}

EXPORT CUresult cuGraphExecUpdate(Handle executable, Handle graph, void *result) {
    CALL(cuGraphExecUpdate, "%#lx, %#lx", executable, graph);
    memset(result, 0, 24);
    return 0;
}

EXPORT CUresult cuGraphLaunch(Handle executable, Handle stream) {
    CALL(cuGraphLaunch, "%#lx, %#lx", executable, stream);
    return 0;
}

EXPORT CUresult cuGraphDestroy(Handle graph) { CALL(cuGraphDestroy, "%#lx", graph); return 0; }

EXPORT CUresult cuGraphExecDestroy(Handle executable) {
    CALL(cuGraphExecDestroy, "%#lx", executable);
    return 0;
}
