/* front.c - from a spec to linted PTX, whatever language its template is in. Owns the opening of NVRTC: only a CUDA C++
 * template needs it. */
#include "gen/state.h"

#include "runtime/error.h"

#include <stdio.h>

dcpk_status gen_front(struct dcpk_gen *gen, const dcpk_spec *spec, char *text, size_t capacity, dcpk_error *error) {
    enum expansion_language language;
    char options[GEN_FRONT - 2 - sizeof gen->nvrtc.text];
    text[0] = '\0';
    dcpk_status status = expander_language(gen->expander, spec->kernel, &language, NULL, error);
    if (status != DCPK_OK || language == EXPANSION_PTX) return status;
    if (gen->nvrtc.text[0] == '\0') status = nvrtc_open(&gen->nvrtc, &gen->environment, error);
    if (status != DCPK_OK) return status;
    nvrtc_options(spec, options, sizeof options);
    snprintf(text, capacity, "%s %s", gen->nvrtc.text, options);
    return DCPK_OK;
}

dcpk_status gen_expand(struct dcpk_gen *gen, const dcpk_spec *spec, struct expansion *out, dcpk_error *error) {
    char front[GEN_FRONT];
    dcpk_status status = gen_front(gen, spec, front, sizeof front, error);
    if (status == DCPK_OK) status = expander_expand(gen->expander, spec, out, error);
    if (status != DCPK_OK || out->language != EXPANSION_CUDA) return status;
    status = nvrtc_compile(&gen->nvrtc, &gen->notice, gen->compile_timeout_ms, spec, out, error);
    if (status != DCPK_OK) expansion_free(out);
    return status;
}
