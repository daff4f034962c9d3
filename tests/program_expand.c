/* program_expand.c - prints the PTX of one spec, or the error: `expand TEMPLATE_PATH "dcp_value heads=12 batch=17"`.
 * With a third argument, a count, it expands that often and prints the milliseconds of one expansion instead. */
#include "gen/expand.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int fail(const dcpk_error *error) {
    fprintf(stderr, "%s: %s\n", dcpk_status_name(error->code), error->text);
    return 1;
}

int main(int count, char **words) {
    dcpk_error error;
    dcpk_spec spec;
    struct expander *expander;
    struct expansion expansion;
    dcpk_error_init(&error);
    if (count < 3) {
        fprintf(stderr, "usage: expand TEMPLATE_PATH \"KERNEL key=value ...\" [TIMES]\n");
        return 2;
    }
    if (dcpk_spec_parse(&spec, words[2], &error) != DCPK_OK || dcpk_spec_resolve(&spec, &error) != DCPK_OK)
        return fail(&error);
    if (expander_open(words[1], &expander, &error) != DCPK_OK) return fail(&error);
    int times = count > 3 ? atoi(words[3]) : 0, code = 0;
    double start = now_ms();
    for (int i = 0; i < times && code == 0; i++) {
        code = expander_expand(expander, &spec, &expansion, &error) != DCPK_OK ? fail(&error) : 0;
        if (code == 0) expansion_free(&expansion);
    }
    if (times > 0)
        printf("%.3f ms\n", (now_ms() - start) / times);
    else if (expander_expand(expander, &spec, &expansion, &error) != DCPK_OK)
        code = fail(&error);
    else {
        fwrite(expansion.ptx, 1, expansion.ptx_length, stdout);
        expansion_free(&expansion);
    }
    expander_close(expander);
    return code;
}
