/* ptx_function.h - device functions (.func) as they are declared: for ptx_function.c, which reads the declarations, and
 * ptx_call.c, which reads calls of them. */
#ifndef DCPK_CPU_PTX_FUNCTION_H
#define DCPK_CPU_PTX_FUNCTION_H

#include <runtime/cpu/ptx.h>

enum { MAX_FORMALS = 64 };

struct formals {
    struct variable *at[MAX_FORMALS];
    unsigned count;
    bool in_registers; /* one of them is */
};

/* "(results) name (arguments) .noreturn" */
struct signature {
    struct text name;
    u32 line;
    struct formals results, arguments;
    enum linkage linkage;
    bool noreturn;
};

struct device_function {
    struct device_function *next;
    struct text name;
    const char *declared;              /* the first time: a call stands behind it */
    const char *body;                  /* behind the ".func" of the one that has a body; NULL: none has */
    u32 line;                          /* of the body */
    const struct signature *signature; /* of the first declaration, once that is read */
    bool defined;                      /* its body has been passed */
    bool active;                       /* a call of it is being read */
};

struct device_function *function_named(const struct loader *l, struct text name);
/* Behind ".func", up to the body or the semicolon. */
struct signature *parse_signature(struct loader *l, struct text name);
void expect_body(struct loader *l, const struct signature *s); /* next */
/* ptx_call.c: a body that nobody calls there, for what is wrong in it. */
void read_alone(struct loader *l, struct device_function *f);
#endif
