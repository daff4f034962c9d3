/* roofline_draw.c - see roofline.h: the picture. Shades tell the bytes of keys; every point of ours has its shape and
 * times as a title. Colors are classes, so that a dark page gets its own. May call: stdio, math. */
#include <tests/roofline.h>

#include <math.h>

enum { WIDTH = 960, HEIGHT = 1120, LEFT = 72, RIGHT = 730, LEGEND = 756, BESIDE = 11 /* peers, pixels */, TEXT = 256 };

static const double bandwidth = 4.65; /* TB/s, what a kernel can read on an H200 */
static const struct {
    double tflops;
    const char *label;
} roofs[] = {{900, "900 TFLOP/s"}, {1200, "1,200 TFLOP/s"}};
enum { ROOFS = sizeof roofs / sizeof *roofs };

/* By bytes of keys: below the bound. The L2 has 50 MB. */
static const struct {
    double below;
    double radius;
    const char *label;
} sizes[] = {{4e6, 2.7, "less than 4 MB"},
             {40e6, 3.2, "4 to 40 MB"},
             {400e6, 3.8, "40 to 400 MB"},
             {1e300, 4.4, "400 MB and more"}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static const char style[] =
    "<style>\n"
    ".page{fill:#ffffff}.ink{fill:#24292f}.soft{fill:#57606a}.halo{stroke:#ffffff;stroke-width:4;paint-order:stroke}\n"
    ".grid{stroke:#dde3e9}.roof{stroke:#24292f;fill:none;stroke-width:1.6}\n"
    ".fp8{stroke:#2f6f8f;fill:none}.bf16{stroke:#8c959f;fill:none}\n"
    "circle{stroke:#ffffff;stroke-width:.6}.k0{fill:#eda13c}.k1{fill:#d9583f}.k2{fill:#a02c76}.k3{fill:#3d1f80}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".page{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9da7b1}.halo{stroke:#0d1117}\n"
    ".grid{stroke:#262d34}.roof{stroke:#e6edf3}.fp8{stroke:#6cb6d9}.bf16{stroke:#79838d}\n"
    "circle{stroke:#0d1117}.k0{fill:#8f62d0}.k1{fill:#d8589c}.k2{fill:#f58b5c}.k3{fill:#fbe38e}\n"
    "}\n</style>\n";

/* One panel: pixels, where a shape and a time are, and what is shown; both axes logarithmic. */
struct panel {
    FILE *to;
    double top, bottom, beside; /* beside: peers, how far from ours */
    double (*x_of)(const struct roofline_row *row);
    double (*y_of)(const struct roofline_row *row, double us);
    double x[2], y[2];
};

static double at_x(const struct panel *panel, double x) {
    return LEFT + log(x / panel->x[0]) / log(panel->x[1] / panel->x[0]) * (RIGHT - LEFT);
}

static double at_y(const struct panel *panel, double y) {
    return panel->bottom - log(y / panel->y[0]) / log(panel->y[1] / panel->y[0]) * (panel->bottom - panel->top);
}

/* ---- text and axes ---- */
static const double few[] = {1, 2, 5, 0}, many[] = {1, 1.2, 1.5, 2, 3, 5, 7, 0};

static void put_text(FILE *to, const char *text) {
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '&' || c == '<' || c == '>' || c == '"')
            fprintf(to, "&#%d;", c);
        else
            fputc(c < ' ' || c > '~' ? ' ' : c, to);
    }
}

static void put_label(FILE *to, const char *class, double x, double y, const char *more, const char *text) {
    fprintf(to, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\"%s>", class, x, y, more);
    put_text(to, text);
    fputs("</text>\n", to);
}

static void put_tick_x(const struct panel *panel, double x) {
    char text[32];
    snprintf(text, sizeof text, "%.4g", x >= 10 ? floor(x + 0.5) : x);
    fprintf(panel->to, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", at_x(panel, x),
            at_x(panel, x), panel->top, panel->bottom);
    put_label(panel->to, "soft", at_x(panel, x), panel->bottom + 18, " text-anchor=\"middle\"", text);
}

static void put_tick_y(const struct panel *panel, double y) {
    char text[32];
    snprintf(text, sizeof text, "%g", y);
    fprintf(panel->to, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT, RIGHT,
            at_y(panel, y), at_y(panel, y));
    put_label(panel->to, "soft", LEFT - 7, at_y(panel, y) + 4, " text-anchor=\"end\"", text);
}

/* Ticks at these multiples of every power of ten, up to the first that is 0. */
static void put_ticks(const struct panel *panel, void (*put)(const struct panel *panel, double at), const double *shown,
                      const double *digits) {
    for (int power = (int)floor(log10(shown[0])); pow(10, power) <= shown[1]; power++)
        for (const double *digit = digits; *digit > 0; digit++) {
            double tick = *digit * pow(10, power);
            if (tick >= shown[0] && tick <= shown[1]) put(panel, tick);
        }
}

static void put_names(const struct panel *panel, const char *title, const char *x, const char *y) {
    char turned[TEXT];
    double middle = (panel->top + panel->bottom) / 2;
    put_label(panel->to, "ink", LEFT, panel->top - 36, " font-size=\"15\"", title);
    put_label(panel->to, "ink", (LEFT + RIGHT) / 2.0, panel->bottom + 40, " text-anchor=\"middle\"", x);
    snprintf(turned, sizeof turned, " text-anchor=\"middle\" transform=\"rotate(-90 20 %.1f)\"", middle);
    put_label(panel->to, "ink", 20, middle, turned, y);
}

/* ---- points ---- */
static int size_of(const struct roofline_row *row) {
    int size = 0;
    while (roofline_bytes(row) >= sizes[size].below)
        size++;
    return size;
}

/* Subpaths: a diamond for the FP8 peer, a cross for the BF16 peer. */
static void put_diamond(FILE *to, double x, double y, double r) {
    fprintf(to, "M%.1f %.1fl%.1f %.1f-%.1f %.1f-%.1f-%.1fz", x, y - r, r, r, r, r, r, r);
}

static void put_cross(FILE *to, double x, double y, double r) {
    fprintf(to, "M%.1f %.1fl%.1f %.1fm0-%.1fl-%.1f %.1f", x - r, y - r, 2 * r, 2 * r, 2 * r, 2 * r, 2 * r);
}

static void put_title(FILE *to, const struct roofline_row *row) {
    fprintf(to, "<title>%d rows, %d requests of %d keys: %.2f us, floor %.2f", row->heads * row->q, row->requests,
            row->context, row->us, roofline_floor_us(row));
    if (row->fp8_us > 0) fprintf(to, ", FP8 peer %.2f", row->fp8_us);
    if (row->bf16_us > 0) fprintf(to, ", BF16 peer %.2f", row->bf16_us);
    fputs("</title>", to);
}

static void put_ours(const struct panel *panel, const struct roofline *table) {
    for (size_t i = 0; i < table->count; i++) {
        const struct roofline_row *row = &table->rows[i];
        int size = size_of(row);
        fprintf(panel->to, "<circle class=\"k%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", size,
                at_x(panel, panel->x_of(row)), at_y(panel, panel->y_of(row, row->us)), sizes[size].radius);
        put_title(panel->to, row);
        fputs("</circle>\n", panel->to);
    }
}

static void put_peers(const struct panel *panel, const struct roofline *table, bool fp8) {
    fprintf(panel->to, "<path class=\"%s\" d=\"", fp8 ? "fp8" : "bf16");
    for (size_t i = 0; i < table->count; i++) {
        const struct roofline_row *row = &table->rows[i];
        double us = fp8 ? row->fp8_us : row->bf16_us, x = at_x(panel, panel->x_of(row));
        if (us > 0 && fp8) put_diamond(panel->to, x + panel->beside, at_y(panel, panel->y_of(row, us)), 3.2);
        if (us > 0 && !fp8) put_cross(panel->to, x - panel->beside, at_y(panel, panel->y_of(row, us)), 2.3);
    }
    fputs("\"/>\n", panel->to);
}

/* Widened to all points. */
static void set_frame(struct panel *panel, const struct roofline *table) {
    for (size_t i = 0; i < table->count; i++) {
        const struct roofline_row *row = &table->rows[i];
        const double times[] = {row->us, row->fp8_us, row->bf16_us};
        panel->x[0] = fmin(panel->x[0], panel->x_of(row) / 1.15);
        panel->x[1] = fmax(panel->x[1], panel->x_of(row) * 1.15);
        for (int k = 0; k < 3; k++) {
            if (!(times[k] > 0)) continue;
            panel->y[0] = fmin(panel->y[0], panel->y_of(row, times[k]) / 1.15);
            panel->y[1] = fmax(panel->y[1], panel->y_of(row, times[k]) * 1.15);
        }
    }
}

/* ---- TFLOP/s over FLOP a byte ---- */
static double intensity_of(const struct roofline_row *row) {
    return roofline_flops(row) / roofline_bytes(row);
}

static double rate_of(const struct roofline_row *row, double us) {
    return roofline_flops(row) / us / 1e6;
}

/* The rows of a request make the FLOP a byte: a line for each, named below and above. */
static void put_rows(const struct panel *panel, const struct roofline *table) {
    for (size_t i = 0; i < table->count; i++) {
        char text[32];
        double rows = roofline_query_rows(&table->rows[i]), x = intensity_of(&table->rows[i]);
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || roofline_query_rows(&table->rows[k]) == rows;
        if (seen) continue;
        put_tick_x(panel, x);
        snprintf(text, sizeof text, "%g", rows);
        put_label(panel->to, "ink", at_x(panel, x), panel->top - 7, " text-anchor=\"middle\"", text);
    }
    put_label(panel->to, "ink", RIGHT + 8, panel->top - 7, "", "query rows of a request");
}

/* The slope of the memory up to the highest roof, each roof from there on. */
static void put_roofs(const struct panel *panel) {
    char turned[TEXT];
    double from = fmax(panel->x[0], panel->y[0] / bandwidth), corner = roofs[ROOFS - 1].tflops / bandwidth;
    double x = at_x(panel, from), y = at_y(panel, from * bandwidth), end = at_x(panel, corner),
           top = at_y(panel, corner * bandwidth), middle = sqrt(from * roofs[0].tflops / bandwidth);
    fprintf(panel->to, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x, y, end, top);
    snprintf(turned, sizeof turned, " text-anchor=\"middle\" transform=\"translate(%.1f %.1f) rotate(%.1f)\"",
             at_x(panel, middle), at_y(panel, middle * bandwidth), -atan2(y - top, end - x) * 180 / acos(-1));
    put_label(panel->to, "ink halo", 0, -8, turned, "4.65 TB/s");
    for (int i = 0; i < ROOFS; i++) {
        double level = at_y(panel, roofs[i].tflops);
        fprintf(panel->to, "<path class=\"roof\"%s d=\"M%.1f %.1fH%d\"/>\n",
                i + 1 < ROOFS ? " stroke-dasharray=\"6 4\"" : "", at_x(panel, roofs[i].tflops / bandwidth), level,
                RIGHT);
        put_label(panel->to, "ink", RIGHT + 8, level + 4, "", roofs[i].label);
    }
}

/* Shown at least: some of the slope, and the corners of the roofs. */
static void draw_rates(FILE *to, const struct roofline *table) {
    struct panel panel = {to, 112, 590, BESIDE, intensity_of, rate_of, {48, 512}, {100, 1800}};
    set_frame(&panel, table);
    put_names(&panel, "Throughput", "FLOP per byte of e4m3 keys, each byte read once", "TFLOP/s of both products");
    put_ticks(&panel, put_tick_y, panel.y, few);
    put_rows(&panel, table);
    put_peers(&panel, table, false);
    put_peers(&panel, table, true);
    put_roofs(&panel);
    put_ours(&panel, table);
}

/* ---- time over floor ---- */
static double floors_of(const struct roofline_row *row, double us) {
    return us / roofline_floor_us(row);
}

/* The floor itself, and the target above it, which bends with the time. */
static void put_target(const struct panel *panel) {
    enum { PIECES = 48 };
    fprintf(panel->to, "<path class=\"roof\" d=\"M%d %.1fH%d\"/>\n<path class=\"roof\" stroke-dasharray=\"6 4\" d=\"",
            LEFT, at_y(panel, 1), RIGHT);
    for (int i = 0; i <= PIECES; i++) {
        double x = panel->x[0] * pow(panel->x[1] / panel->x[0], (double)i / PIECES);
        fprintf(panel->to, "%c%.1f %.1f", i == 0 ? 'M' : 'L', at_x(panel, x),
                at_y(panel, fmin(1.06 + 2.5 / x, panel->y[1])));
    }
    fputs("\"/>\n", panel->to);
    put_label(panel->to, "ink", RIGHT + 8, at_y(panel, 1) + 12, "", "floor");
    put_label(panel->to, "ink", RIGHT + 8, at_y(panel, 1.06) - 4, "", "target: 1.06 floors + 2.5 us");
}

static void draw_floors(FILE *to, const struct roofline *table) {
    struct panel panel = {to, 700, 1064, 0, roofline_floor_us, floors_of, {2, 10}, {0.7, 5}};
    set_frame(&panel, table);
    put_names(&panel, "Time against the floor",
              "floor, us: the greater of 2 us + bytes of keys / 4.65 TB/s and FLOP / 900 TFLOP/s", "time / floor");
    put_ticks(&panel, put_tick_x, panel.x, few);
    put_ticks(&panel, put_tick_y, panel.y, many);
    put_peers(&panel, table, false);
    put_peers(&panel, table, true);
    put_target(&panel);
    put_ours(&panel, table);
}

/* ---- legend and page ---- */
static void put_legend(FILE *to, double y, bool beside) {
    put_label(to, "ink", LEGEND - 5, y, "", "ours, by bytes of keys");
    for (int i = 0; i < SIZES; i++) {
        double r = sizes[i].radius;
        y += 20;
        fprintf(to, "<path class=\"k%d\" d=\"M%.1f %.1fa%.1f %.1f 0 1 0 %.1f 0a%.1f %.1f 0 1 0 -%.1f 0z\"/>", i,
                LEGEND - r, y - 4, r, r, 2 * r, r, r, 2 * r);
        put_label(to, "soft", LEGEND + 14, y, "", sizes[i].label);
    }
    y += 28;
    fputs("<path class=\"fp8\" d=\"", to);
    put_diamond(to, LEGEND, y - 4, 3.2);
    fputs("\"/>", to);
    put_label(to, "ink", LEGEND + 14, y, "", beside ? "FP8 peer, at the right" : "FP8 peer");
    y += 20;
    fputs("<path class=\"bf16\" d=\"", to);
    put_cross(to, LEGEND, y - 4, 2.3);
    fputs("\"/>", to);
    put_label(to, "ink", LEGEND + 14, y, "", beside ? "BF16 peer, at the left" : "BF16 peer, same floor");
}

void roofline_draw(FILE *to, const struct roofline *table) {
    char line[TEXT];
    struct roofline_tally tally = roofline_count(table);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n%s<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, style);
    put_label(to, "ink", LEFT, 28, " font-size=\"17\"", table->title[0] != '\0' ? table->title : "mla_decode");
    snprintf(
        line, sizeof line,
        "%zu shapes: %zu on target, %zu slower than the FP8 peer, %zu than the BF16 peer; geometric mean %.2f times "
        "the FP8 peer's speed",
        table->count, tally.on_target, tally.slower_fp8, tally.slower_bf16, tally.speed);
    put_label(to, "soft", LEFT, 48, "", line);
    draw_rates(to, table);
    put_legend(to, 320, true);
    draw_floors(to, table);
    put_legend(to, 730, false);
    fputs("</svg>\n", to);
}
