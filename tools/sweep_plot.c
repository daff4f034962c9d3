/* sweep_plot.c - a sweep on hardware as one picture: how many times its floor each timed kernel takes, over the
 * context. Self-contained SVG, both axes logarithmic. May call: jansson, stdio. Must not: run anything. */
#include <tools/sweep.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 800, HEIGHT = 480, LEFT = 60, RIGHT = 180, TOP = 30, BOTTOM = 50 };
static const struct {
    const char *kernel, *color;
} series[] = {{"query_norm", "#7f7f7f"}, {"mla_query", "#1f77b4"}, {"mla_decode", "#d62728"}, {"dcp_value", "#2ca02c"}};
enum { SERIES = sizeof series / sizeof *series };

/* One timed kernel of one point. */
struct dot {
    int kernel;
    double x, y;
    const struct sweep_point *point;
};

struct plot {
    struct dot *dots;
    size_t count;
    int x[2], y[2]; /* shown: from exponent to exponent, of 2 and of 10 */
};

static void add_row(struct plot *plot, const struct sweep_point *point, const json_t *row) {
    size_t i;
    json_t *kernel;
    json_array_foreach(json_object_get(row, "kernels"), i, kernel) {
        const char *name = json_string_value(json_object_get(kernel, "kernel"));
        double ratio = json_number_value(json_object_get(kernel, "ratio"));
        for (int s = 0; s < SERIES && name != NULL && ratio > 0; s++) {
            if (strcmp(name, series[s].kernel) != 0) continue;
            plot->dots = must(realloc(plot->dots, (plot->count + 1) * sizeof *plot->dots));
            plot->dots[plot->count++] = (struct dot){s, log2(point->context), log10(ratio), point};
        }
    }
}

static int least(int a, int b) {
    return a < b ? a : b;
}

static int most(int a, int b) {
    return a > b ? a : b;
}

static void set_range(struct plot *plot) {
    plot->x[0] = (int)floor(plot->dots[0].x);
    plot->x[1] = plot->x[0] + 1;
    plot->y[0] = 0;
    plot->y[1] = 1;
    for (size_t i = 0; i < plot->count; i++) {
        const struct dot *dot = &plot->dots[i];
        plot->x[0] = least(plot->x[0], (int)floor(dot->x));
        plot->x[1] = most(plot->x[1], (int)ceil(dot->x));
        plot->y[0] = least(plot->y[0], (int)floor(dot->y));
        plot->y[1] = most(plot->y[1], (int)ceil(dot->y));
    }
}

static double at_x(const struct plot *plot, double x) {
    return LEFT + (x - plot->x[0]) / (plot->x[1] - plot->x[0]) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct plot *plot, double y) {
    return HEIGHT - BOTTOM - (y - plot->y[0]) / (plot->y[1] - plot->y[0]) * (HEIGHT - TOP - BOTTOM);
}

/* Text between tags: a device names itself. */
static void put_text(FILE *to, const char *text) {
    for (; *text != '\0'; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", to);
            break;
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? ' ' : *text, to);
        }
}

static void put_axes(FILE *to, const struct plot *plot, const char *device) {
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"18\">",
            WIDTH, HEIGHT, LEFT);
    put_text(to, device);
    fputs(": time of a launch over its floor</text>\n", to);
    for (int x = plot->x[0]; x <= plot->x[1]; x++)
        fprintf(to,
                "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%.0f</text>\n",
                at_x(plot, x), at_x(plot, x), TOP, HEIGHT - BOTTOM, at_x(plot, x), HEIGHT - BOTTOM + 18, exp2(x));
    for (int y = plot->y[0]; y <= plot->y[1]; y++) {
        for (int digit = 1; digit <= 5 && y + log10(digit) <= plot->y[1] + 1e-9; digit += digit == 1 ? 1 : 3) {
            double line = at_y(plot, y + log10(digit));
            fprintf(to,
                    "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" "
                    "text-anchor=\"end\">%g</text>\n",
                    LEFT, WIDTH - RIGHT, line, line, LEFT - 6, line + 4, digit * pow(10, y));
        }
    }
    fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">context, tokens of a request</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
}

/* The same kernel of the same shape at the next context that there is. */
static const struct dot *next_of(const struct plot *plot, const struct dot *dot) {
    const struct dot *best = NULL;
    const struct sweep_point *a = dot->point;
    for (size_t i = 0; i < plot->count; i++) {
        const struct dot *other = &plot->dots[i];
        const struct sweep_point *b = other->point;
        if (other->kernel == dot->kernel && other->x > dot->x && (best == NULL || other->x < best->x) &&
            strcmp(a->model, b->model) == 0 && a->tp == b->tp && a->dcp == b->dcp && a->batch == b->batch &&
            a->q == b->q)
            best = other;
    }
    return best;
}

static void put_dots(FILE *to, const struct plot *plot) {
    for (size_t i = 0; i < plot->count; i++) {
        const struct dot *dot = &plot->dots[i], *next = next_of(plot, dot);
        char text[POINT_TEXT];
        sweep_point_text(dot->point, text);
        double x = at_x(plot, dot->x), y = at_y(plot, dot->y);
        if (next != NULL)
            fprintf(to, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" opacity=\"0.5\"/>\n", x, y,
                    at_x(plot, next->x), at_y(plot, next->y), series[dot->kernel].color);
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s ", x, y, series[dot->kernel].color,
                series[dot->kernel].kernel);
        put_text(to, text); /* a model names itself, too */
        fprintf(to, ": %.2f floors</title></circle>\n", pow(10, dot->y));
    }
    for (int s = 0; s < SERIES; s++)
        fprintf(to, "<circle cx=\"%d\" cy=\"%d\" r=\"4\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
                WIDTH - RIGHT + 20, TOP + 20 * s, series[s].color, WIDTH - RIGHT + 32, TOP + 4 + 20 * s,
                series[s].kernel);
}

char *sweep_plot(const struct sweep_store *store, const struct sweep_points *points) {
    struct plot plot = {0};
    char *text = NULL;
    size_t size = 0;
    for (size_t i = 0; i < points->count; i++) {
        char name[POINT_TEXT];
        sweep_point_text(&points->at[i], name);
        if (points->at[i].context > 0) add_row(&plot, &points->at[i], json_object_get(store->rows, name));
    }
    if (plot.count > 0) {
        const char *device = json_string_value(json_object_get(json_object_get(store->sweep, "device"), "name"));
        FILE *to = must(open_memstream(&text, &size));
        set_range(&plot);
        put_axes(to, &plot, device != NULL ? device : "GPU");
        put_dots(to, &plot);
        fputs("</svg>\n", to);
        fclose(to);
    }
    free(plot.dots);
    return text;
}
