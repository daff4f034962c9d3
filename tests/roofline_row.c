/* roofline_row.c - see roofline.h: what follows from a shape and its times. May call: tools/floor.h. */
#include <tests/roofline.h>

#include <tools/floor.h>

#include <math.h>

static struct kernel_floor least(const struct roofline_row *row) {
    dcpk_spec spec;
    struct kernel_floor floor = {0};
    dcpk_spec_init(&spec, "mla_decode");
    spec.heads = row->heads, spec.q = row->q, spec.dcp = 1;
    spec.batch = row->requests * row->q;
    floor_of(&spec, (double)row->requests * row->context, FLOOR_READ_GBS, &floor);
    return floor;
}

double roofline_query_rows(const struct roofline_row *row) {
    return (double)row->heads * row->q;
}

double roofline_bytes(const struct roofline_row *row) {
    return least(row).bytes;
}

double roofline_flops(const struct roofline_row *row) {
    return least(row).flops;
}

double roofline_floor_us(const struct roofline_row *row) {
    return least(row).us;
}

double roofline_target_us(const struct roofline_row *row) {
    return 1.06 * least(row).us + 2.5;
}

struct roofline_tally roofline_count(const struct roofline *table) {
    struct roofline_tally tally = {0};
    double logs = 0;
    size_t compared = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct roofline_row *row = &table->rows[i];
        tally.on_target += row->us <= roofline_target_us(row);
        tally.slower_bf16 += row->bf16_us > 0 && row->us > row->bf16_us;
        if (row->fp8_us > 0) {
            tally.slower_fp8 += row->us > row->fp8_us;
            logs += log(row->fp8_us / row->us);
            compared++;
        }
    }
    tally.speed = compared > 0 ? exp(logs / (double)compared) : 0;
    return tally;
}
