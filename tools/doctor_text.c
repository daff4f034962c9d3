/* doctor_text.c - the doctor's JSON value as text for people: short lines, no colour. Knows nothing that the value does
 * not say. */
#include "doctor.h"
#include "table.h"

#include <stdio.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static bool is(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

/* Control characters of names, paths and values drive no terminal; a message's further lines are indented. */
static void put_text(const char *text, const char *indent) {
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '\n' && text[1] != '\0')
            printf("\n%s", indent);
        else if (c != '\n')
            putchar(c < 0x20 || c == 0x7F ? '?' : c);
    }
}

static void put_value(const char *name, const char *value) {
    printf("  %-9s ", name);
    put_text(value, "            ");
    putchar('\n');
}

static void print_devices(const json_t *driver) {
    static const struct column columns[] = {{"n", "  device"},         {"name", "name"}, {"cc", "capability"},
                                            {"arch", "arch"},          {"sms", "SMs"},   {"memory", "GiB"},
                                            {"multicast", "multicast"}};
    struct table *table = table_new(columns, 7);
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(driver, "devices"), i, d) {
        json_t *memory = json_object_get(d, "memory_bytes"), *multicast = json_object_get(d, "multicast");
        table_integer(table, json_integer_value(json_object_get(d, "ordinal")));
        table_text(table, text_of(d, "name"));
        table_text(table, text_of(d, "capability"));
        table_text(table, text_of(d, "arch")[0] != '\0' ? text_of(d, "arch") : "none");
        table_integer(table, json_integer_value(json_object_get(d, "sms")));
        if (json_is_integer(memory))
            table_number(table, "%.1f", (double)json_integer_value(memory) / (1 << 30));
        else
            table_none(table);
        table_text(table, json_is_null(multicast) ? "unknown" : json_is_true(multicast) ? "reported" : "no");
    }
    table_print(table, stdout);
    table_free(table);
}

static void print_peers(const json_t *driver) {
    size_t i, k;
    json_t *row, *cell;
    bool all = true;
    const json_t *peers = json_object_get(driver, "peer_access");
    if (json_array_size(peers) < 2) return;
    json_array_foreach(peers, i, row) json_array_foreach(row, k, cell) all = all && json_is_true(cell);
    printf("    peer access: %s\n", all ? "every pair" : "row reaches column (1), does not (0)");
    if (all) return;
    json_array_foreach(peers, i, row) {
        printf("    %4zu:", i);
        json_array_foreach(row, k, cell) printf(" %c", i == k               ? '-'
                                                       : json_is_null(cell) ? '?'
                                                       : json_is_true(cell) ? '1'
                                                                            : '0');
        putchar('\n');
    }
}

static void print_drivers(const json_t *whole) {
    size_t i;
    json_t *driver;
    printf("devices\n");
    json_array_foreach(json_object_get(whole, "drivers"), i, driver) {
        const char *kind = text_of(driver, "kind");
        const json_t *devices = json_object_get(driver, "devices");
        if (!is(driver, "found")) {
            put_value(kind, text_of(driver, "reason"));
        } else if (strcmp(kind, "cpu") == 0) { /* all alike */
            const json_t *first = json_array_get(devices, 0);
            printf("  %-9s %zu emulated devices, capability %s, %lld multiprocessors each\n", kind,
                   json_array_size(devices), text_of(first, "capability"),
                   (long long)json_integer_value(json_object_get(first, "sms")));
        } else {
            printf("  %-9s driver %s%s\n", kind, text_of(driver, "version"), is(driver, "usable") ? "" : ", too old");
            print_devices(driver);
            print_peers(driver);
        }
    }
}

static void print_toolchains(const json_t *whole) {
    size_t i, k;
    json_t *row, *arch;
    printf("toolchains\n");
    json_array_foreach(json_object_get(whole, "toolchains"), i, row) {
        const char *name = text_of(row, "name");
        if (!is(row, "usable")) {
            printf("  %-9s not usable: ", name);
            put_text(text_of(row, "reason"), "            ");
            putchar('\n');
            continue;
        }
        put_value(name, text_of(row, "version"));
        printf("            %s", is(row, "chosen") && strcmp(name, "nvrtc") != 0 ? "in use; " : "");
        put_text(text_of(row, "path"), "");
        printf("\n            builds");
        json_array_foreach(json_object_get(row, "archs"), k, arch) printf(" %s", json_string_value(arch));
        printf("%s\n", json_array_size(json_object_get(row, "archs")) == 0 ? " none of 'dcpk ls arch'" : "");
    }
}

static void print_places(const json_t *whole) {
    size_t i;
    json_t *row;
    const json_t *cache = json_object_get(whole, "cache"), *templates = json_object_get(whole, "templates");
    printf("files\n");
    if (templates != NULL) put_value("templates", text_of(templates, "path"));
    if (cache != NULL && text_of(cache, "reason")[0] != '\0')
        put_value("cache", text_of(cache, "reason"));
    else if (cache != NULL) {
        put_value("cache", text_of(cache, "path")[0] != '\0' ? text_of(cache, "path") : "none: memory only");
        printf("            %lld entries, %.1f MiB, %lld bad\n",
               (long long)json_integer_value(json_object_get(cache, "entries")),
               (double)json_integer_value(json_object_get(cache, "bytes")) / (1 << 20),
               (long long)json_integer_value(json_object_get(cache, "bad")));
    }
    json_array_foreach(json_object_get(whole, "packs"), i, row) {
        put_value("pack", text_of(row, "path"));
        if (is(row, "usable"))
            printf("            %lld %s, %.1f MiB, %lld bad\n",
                   (long long)json_integer_value(json_object_get(row, "entries")),
                   json_integer_value(json_object_get(row, "entries")) == 1 ? "kernel" : "kernels",
                   (double)json_integer_value(json_object_get(row, "bytes")) / (1 << 20),
                   (long long)json_integer_value(json_object_get(row, "bad")));
        else {
            printf("            ");
            put_text(text_of(row, "reason"), "            ");
            putchar('\n');
        }
    }
}

/* Without what every shell has set. */
static void print_environment(const json_t *whole) {
    size_t i;
    json_t *row;
    printf("environment\n");
    json_array_foreach(json_object_get(whole, "environment"), i, row) {
        const char *name = text_of(row, "name");
        if (strcmp(name, "HOME") == 0 || strcmp(name, "PATH") == 0 || strcmp(name, "LD_LIBRARY_PATH") == 0) continue;
        printf("  %s=", text_of(row, "name"));
        put_text(text_of(row, "value"), "?");
        printf("%s\n", is(row, "understood") ? "" : "   (not understood)");
    }
}

/* What was chosen for the batch that decides how fast the kernel is. */
static void print_choice(const json_t *row, const char *kernel) {
    static const struct {
        const char *kernel, *key;
    } choices[] = {{"mla_query", "poll"}, {"mla_decode", "pv"}, {"dcp_value", "split"}};
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const json_t *value = json_object_get(row, choices[i].key);
        if (strcmp(kernel, choices[i].kernel) != 0 || value == NULL) continue;
        if (json_is_string(value))
            printf(", %s=%s", choices[i].key, json_string_value(value));
        else
            printf(", %s=%lld", choices[i].key, (long long)json_integer_value(value));
    }
}

static void print_serve(const json_t *whole) {
    size_t i, k;
    json_t *row, *kernel;
    const json_t *serve = json_object_get(whole, "serve");
    if (!json_is_object(serve)) return;
    printf("serve %s tp=%lld dcp=%lld q=%lld: %s", text_of(serve, "model"),
           (long long)json_integer_value(json_object_get(serve, "tp")),
           (long long)json_integer_value(json_object_get(serve, "dcp")),
           (long long)json_integer_value(json_object_get(serve, "q")), is(serve, "servable") ? "yes" : "no");
    printf(" (%s", text_of(serve, "device"));
    if (text_of(serve, "arch")[0] != '\0')
        printf(", arch=%s, %lld multiprocessors", text_of(serve, "arch"),
               (long long)json_integer_value(json_object_get(serve, "sms")));
    printf(")\n");
    json_array_foreach(json_object_get(serve, "batches"), i, row) {
        printf("  batch %-3lld %s", (long long)json_integer_value(json_object_get(row, "batch")),
               is(row, "servable") ? "yes" : "no");
        json_array_foreach(json_object_get(row, "kernels"), k, kernel) {
            const char *from = text_of(kernel, "from");
            printf("%s%s (%s", k == 0 ? "   " : ", ", text_of(kernel, "kernel"), from[0] != '\0' ? from : "nowhere");
            print_choice(row, text_of(kernel, "kernel"));
            putchar(')');
        }
        putchar('\n');
    }
}

static void print_list(const json_t *whole, const char *key, const char *word) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(whole, key), i, row) {
        printf("%s: ", word);
        put_text(json_string_value(row), "    ");
        putchar('\n');
    }
}

void doctor_print(const struct doctor *doctor) {
    const json_t *whole = doctor->whole;
    printf("dcpk %s\n", text_of(whole, "version"));
    print_drivers(whole);
    print_toolchains(whole);
    print_places(whole);
    if (json_array_size(json_object_get(whole, "environment")) > 0) print_environment(whole);
    print_serve(whole);
    print_list(whole, "notes", "note");
    print_list(whole, "problems", "problem");
    if (json_array_size(json_object_get(whole, "problems")) == 0) printf("no problem found\n");
}
