/* nvrtc.h - CUDA C++ templates: an expansion's CUDA C++ to linted PTX, by NVIDIA's libnvrtc in this process. */
#ifndef DCPK_GEN_NVRTC_H
#define DCPK_GEN_NVRTC_H

#include "gen/cache.h"
#include "gen/expand.h"
#include "gen/library.h"

struct nvrtc_functions {
#define N(field, symbol, parameters) int(*field) parameters;
#include "gen/nvrtc.def"
#undef N
};

/* Zero it before opening. */
struct nvrtc {
    struct library library;
    struct nvrtc_functions f;
    char text[128]; /* "NVRTC 13.0 (build 65be0db3...)", "" while it is not open */
};

dcpk_status nvrtc_open(struct nvrtc *nvrtc, const struct environment *environment, dcpk_error *error);
void nvrtc_close(struct nvrtc *nvrtc);

/* The options that a spec's CUDA C++ is compiled with, as one line of text: part of the keys. */
void nvrtc_options(const dcpk_spec *spec, char *text, size_t capacity);

/* Turns an expansion of language CUDA into one of language COMPILED: its PTX, its line map (each PTX line leads to the
 * template line of the C++ that it was made of), its target; linted. The expansion stays whole when this fails. */
dcpk_status nvrtc_compile(struct nvrtc *nvrtc, const struct notice *notice, uint32_t timeout_ms, const dcpk_spec *spec,
                          struct expansion *expansion, dcpk_error *error);

/* nvrtc_lines.c: NVRTC's PTX in place of the expansion's CUDA C++, .loc lines read into the line map and taken out. */
dcpk_status nvrtc_take_ptx(struct expansion *expansion, const dcpk_spec *spec, const char *ptx, dcpk_error *error);

/* nvrtc_params.c: whether each entry of NVRTC's PTX takes the parameters that kernel{} said: as many, in their order,
 * of their sizes. LINT otherwise: a launch would pass other bytes than the kernel reads. */
dcpk_status nvrtc_check_params(const struct expansion *expansion, dcpk_error *error);

#endif
