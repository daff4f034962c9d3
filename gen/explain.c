/* explain.c - the texts that both keys of a spec are made of, for people. Looks into no layer and compiles nothing but
 * a CUDA C++ template's way to PTX. */
#include "gen/build.h"

#include "runtime/buffer.h"
#include "runtime/error.h"

dcpk_status dcpk_gen_explain(dcpk_gen *gen, const dcpk_spec *spec, dcpk_text *out, dcpk_error *error) {
    struct build b;
    if (out) *out = (dcpk_text){0};
    if (!out) return dcpk_error_set(error, DCPK_E_ARG, "out may not be NULL");
    dcpk_status status = build_begin(&b, gen, spec, error);
    if (status == DCPK_OK) status = build_request(&b, error);
    if (status == DCPK_OK) status = build_expand(&b, error);
    if (status == DCPK_OK) {
        struct buffer text = {0};
        buffer_format(&text, "direct %s\n%s", b.direct.hex, b.direct.text);
        for (uint32_t i = 0; i < b.expansion.file_count; i++)
            buffer_format(&text, "reads: %s %s\n", b.expansion.files[i].digest, b.expansion.files[i].name);
        buffer_format(&text, "\ncontent %s\n%s", b.content.hex, b.content.text);
        *out = (dcpk_text){text.data, text.length};
        if (text.failed) {
            dcpk_text_free(out);
            status = dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the preimages");
        }
    }
    build_end(&b);
    return status;
}
