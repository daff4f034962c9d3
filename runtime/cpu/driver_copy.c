/* driver_copy.c - copies and fills: operations of a stream, or of the default stream followed by a wait.
 *
 * A pageable source is read during the call (the driver stages it), a pageable destination is written before the call
 * returns; pinned and device memory is touched when the stream comes to it. In a captured graph all of it is touched as
 * the node runs. Ranges are checked at the call. */
#include "runtime/cpu/driver.h"

#include <stdlib.h>
#include <string.h>

/* Device, pinned or registered bytes. */
static bool tracked_span(struct call *call, uint64_t address, size_t bytes, struct span *span) {
    const struct mapping *mapping = memory_range(call->world, address, bytes);
    if (!mapping || !mapping->home) {
        call->result = R_CUDA_ERROR_INVALID_VALUE;
        return false;
    }
    *span = (struct span){.at = mapping->home + (address - mapping->start), .backing = mapping->backing};
    return true;
}

/* Host bytes: tracked ones where they are known, else pageable. Device addresses are no host addresses. */
static bool host_span(struct call *call, const void *host, size_t bytes, struct span *span) {
    uint64_t address = (uint64_t)(uintptr_t)host;
    if (host && !memory_at(call->world, address)) {
        *span = (struct span){.at = (uint8_t *)(uintptr_t)address};
        return true;
    }
    return tracked_span(call, address, bytes, span);
}

void transfer_to_op(struct op *op, const struct transfer *transfer) {
    op->to = transfer->to;
    op->from = transfer->from;
    op->bytes = transfer->bytes;
    op->value = transfer->value;
    op->width = transfer->width;
}

static void enqueue(struct call *call, struct stream *stream, const struct transfer *transfer) {
    uint8_t *staged = NULL;
    if (transfer->from.at && !transfer->from.backing) {
        staged = malloc(transfer->bytes);
        if (staged) memcpy(staged, transfer->from.at, transfer->bytes);
    }
    bool short_of_memory = transfer->from.at && !transfer->from.backing && !staged;
    struct op *op = short_of_memory ? NULL : stream_op(stream, transfer->from.at ? OP_COPY : OP_FILL);
    if (!op) {
        free(staged);
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return;
    }
    transfer_to_op(op, transfer);
    if (staged) op->from.at = staged;
    op->staged = staged;
}

/* wait: the caller's form is synchronous. */
static void transfer_on(struct call *call, cu_stream handle, const struct transfer *transfer, bool wait) {
    struct stream *stream = stream_of(call, handle);
    enum taking takes = stream ? capture_takes(call, stream) : TAKES_NOTHING;
    if (takes == TAKES_NOTHING || (wait && !capture_allows_unsafe(call))) return;
    if (takes == TAKES_NODES) {
        capture_transfer(call, stream, transfer);
        return;
    }
    enqueue(call, stream, transfer);
    if (call->result || (!wait && transfer->to.backing)) return;
    struct work work = stream_work(stream);
    call_run(call, work_done, &work);
}

static cu_result copy(uint64_t to, uint64_t from, size_t bytes, int host_side, cu_stream stream, bool wait) {
    enum { HOST_FROM = 1, HOST_TO = 2 };
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    struct transfer transfer = {.bytes = bytes};
    if (bytes == 0) return call_end(&call);
    bool good = host_side == HOST_TO ? host_span(&call, (void *)(uintptr_t)to, bytes, &transfer.to)
                                     : tracked_span(&call, to, bytes, &transfer.to);
    good = good && (host_side == HOST_FROM ? host_span(&call, (const void *)(uintptr_t)from, bytes, &transfer.from)
                                           : tracked_span(&call, from, bytes, &transfer.from));
    if (good) transfer_on(&call, stream, &transfer, wait);
    return call_end(&call);
}

enum { ON_DEVICE = 0, FROM_HOST = 1, TO_HOST = 2 };

cu_result cpu_copy_to_device(cu_ptr to, const void *from, size_t bytes) {
    return copy(to, (uint64_t)(uintptr_t)from, bytes, FROM_HOST, NULL, true);
}

cu_result cpu_copy_to_host(void *to, cu_ptr from, size_t bytes) {
    return copy((uint64_t)(uintptr_t)to, from, bytes, TO_HOST, NULL, true);
}

cu_result cpu_copy_on_device(cu_ptr to, cu_ptr from, size_t bytes) {
    return copy(to, from, bytes, ON_DEVICE, NULL, true);
}

cu_result cpu_copy_to_device_async(cu_ptr to, const void *from, size_t bytes, cu_stream stream) {
    return copy(to, (uint64_t)(uintptr_t)from, bytes, FROM_HOST, stream, false);
}

cu_result cpu_copy_to_host_async(void *to, cu_ptr from, size_t bytes, cu_stream stream) {
    return copy((uint64_t)(uintptr_t)to, from, bytes, TO_HOST, stream, false);
}

cu_result cpu_copy_on_device_async(cu_ptr to, cu_ptr from, size_t bytes, cu_stream stream) {
    return copy(to, from, bytes, ON_DEVICE, stream, false);
}

static cu_result fill(cu_ptr to, uint32_t value, unsigned width, size_t elements, cu_stream stream, bool wait) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    struct transfer transfer = {.value = value, .width = width};
    if (to % width || elements > SIZE_MAX / width) call.result = R_CUDA_ERROR_INVALID_VALUE;
    if (call.result || elements == 0) return call_end(&call);
    transfer.bytes = elements * width;
    if (tracked_span(&call, to, transfer.bytes, &transfer.to)) transfer_on(&call, stream, &transfer, wait);
    return call_end(&call);
}

cu_result cpu_fill32(cu_ptr to, unsigned value, size_t words) {
    return fill(to, value, 4, words, NULL, true);
}

cu_result cpu_fill32_async(cu_ptr to, unsigned value, size_t words, cu_stream stream) {
    return fill(to, value, 4, words, stream, false);
}

cu_result cpu_fill8(cu_ptr to, unsigned char value, size_t bytes) {
    return fill(to, value, 1, bytes, NULL, true);
}

cu_result cpu_fill8_async(cu_ptr to, unsigned char value, size_t bytes, cu_stream stream) {
    return fill(to, value, 1, bytes, stream, false);
}
