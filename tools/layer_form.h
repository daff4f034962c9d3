/* layer_form.h - the forms of a layer's step, as the tools run them. */
#ifndef TOOLS_LAYER_FORM_H
#define TOOLS_LAYER_FORM_H

/* How a step's front runs; the rest is mla_decode, dcp_value. */
enum layer_form {
    LAYER_FUSED,  /* mla_query, which stores q_c and polls where its grid is resident (else query_wait follows) */
    LAYER_WAIT,   /* query_norm, mla_query without polling, query_wait */
    LAYER_PUSHED, /* the engine quantised the rows and filled the cache itself: query_push, query_wait */
    LAYER_CYCLE   /* the three in turn, step by step */
};

#endif
