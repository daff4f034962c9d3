/* test_layer_faults.c - planted faults of mla_query and mla_decode: each edits a copy of the templates and must be
 * found by a run of the whole layer, judged as every other (tools/layer_judge.h), which the unedited templates pass.
 * May call: tests/whole.h, tests/plant.h. */
#include <tests/dead_layer.h>
#include <tests/plant.h>
#include <tests/whole.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What finds it. */
enum finder {
    BY_RESULT,   /* the judge, a device's fault, a box that died */
    BY_BUILD,    /* it never becomes an image: lint or compiler */
    BY_SCHEDULE, /* as BY_RESULT, but only some order of events shows it: one of SEEDS must */
    BY_DEATH,    /* dead_layer_holds, a rank stopping in mla_query */
    BY_MISSING,  /* dead_layer_polls_every_chunk */
    BY_LATER_NAN /* a NaN in the last token's cache row changes an earlier row of its request */
};
enum { SEEDS = 8, UNEDITED_SEEDS = 2 };

struct fault {
    const char *name;
    const char *layer; /* as of whole.h: what shows it */
    enum finder finder;
    struct edit edits[2];
};

#define FUSED "heads=2 dcp=2 form=fused splits=1 context=5,17 steps=2"
#define ONE_ROW "heads=1 dcp=2 form=fused splits=1 context=5 steps=1"
#define ROWS "heads=2 dcp=2 q=2 form=fused splits=1 context=7,34 steps=1"
#define LATER "heads=1 dcp=2 q=2 form=pushed splits=1 interleave=16 page=16 context=7 steps=1"
#define TILES "heads=1 dcp=2 form=fused splits=1 sigma=3 context=300 steps=1"
#define SPLITS "heads=1 dcp=2 form=fused splits=2 sigma=3 context=300,3 steps=1"
#define PADDED "heads=2 dcp=2 form=fused splits=1 context=5,0,17 batch=4 steps=1"
#define PAGES "heads=2 dcp=2 form=fused splits=1 page=16 interleave=16 context=33,64 steps=1"
#define GAPS "heads=2 dcp=2 form=fused splits=1 page=16 gap=64 context=33,70 steps=1"
#define EMPTY "heads=1 dcp=4 form=fused splits=1 interleave=64 context=5,65,0 steps=1"
#define SCALES "heads=2 dcp=2 form=fused splits=1 q_scale=0.5 k_scale=2 context=5,17 steps=1"
#define SCALED_SPLITS "heads=1 dcp=2 form=fused splits=2 q_scale=0.5 k_scale=2 context=150 steps=1"
#define MANY "heads=1 dcp=2 form=fused splits=1 context=5,6,7,8,9,10,11,12 steps=2"
#define FOUR_STEPS "heads=1 dcp=3 form=fused splits=1 context=5,17 steps=4"
#define ROPE "heads=2 dcp=2 form=fused splits=1 rope=interleaved context=5,17 steps=1"
#define ROPE_HALVES "heads=2 dcp=2 form=fused splits=1 rope=half context=5,17 steps=1"
#define READY "heads=2 dcp=2 form=fused splits=1 q_lora=0 gate=0 context=5,17 steps=1"

static const struct fault faults[] = {
    /* mla_decode: who sees what */
    {"the causal bound counts local tokens",
     ROWS,
     BY_RESULT,
     {{"lib/attend.lua",
       "|   add.s32        $(n), $(total), $(j);\n"
       "|   add.s32        $(n), $(n), $(1 - spec.q);\n"
       "        local_keys(dst, n, b and b.rank)\n"
       "|   min.s32        $(dst), $(dst), $(length);\n",
       "|   add.s32        $(n), $(length), $(j);\n"
       "|   add.s32        $(dst), $(n), $(1 - spec.q);\n"
       "|   max.s32        $(dst), $(dst), 0;\n"}}},
    {"a row sees the token after it", ROWS, BY_RESULT, {{"lib/attend.lua", "$(1 - spec.q)", "$(2 - spec.q)"}}},
    {"a row does not see itself", FUSED, BY_RESULT, {{"lib/attend.lua", "$(1 - spec.q)", "$(0 - spec.q)"}}},
    {"a key past the bound is visible",
     FUSED,
     BY_RESULT,
     {{"lib/attend.lua", "setp.lt.u32    $(visible), $(key), $(a.bound[r]);",
       "setp.le.u32    $(visible), $(key), $(a.bound[r]);"}}},
    {"a key past the length exists",
     PAGES,
     BY_RESULT,
     {{"lib/attend.lua", "setp.lt.u32    $(exists), $(key), $(a.most);",
       "setp.le.u32    $(exists), $(key), $(a.most);"}}},
    {"interleave blocks are dealt in the other order",
     PAGES,
     BY_RESULT,
     {{"lib/attend.lua", "mad.lo.s32     $(rest), $(rank), $(-I), $(rest);",
       "sub.u32        $(length), $(D - 1), $(rank);\n|   mad.lo.s32     $(rest), $(length), $(-I), $(rest);\n"
       "|   mul.lo.u32     $(length), $(whole), $(I);"}}},
    {"the tile's rows past the last have no largest bound",
     FUSED,
     BY_RESULT,
     {{"lib/attend.lua", "|   min.u32        $(row), $(row), $(a.rows - 1);\n", ""}}},
    {"V bytes of dead keys reach the product",
     FUSED,
     BY_RESULT,
     {{"lib/attend.lua", "setp.lt.u32    $(here), $(skip), $(a.most);", "mov.pred       $(here), -1;"},
      {"lib/attend.lua", "          for i = 0, 3 do without_nan(w[i]) end\n", ""}}},
    {"V bytes of a later token reach the product",
     LATER,
     BY_LATER_NAN,
     {{"lib/attend.lua", "          for i = 0, 3 do without_nan(w[i]) end\n", ""}}},
    {"table entries past the live pages are dereferenced",
     PAGES,
     BY_RESULT,
     {{"lib/attend.lua", "setp.lt.u32    $(exists), $(key), $(a.most);", "mov.pred       $(exists), -1;"}}},
    {"table entries past the table are read",
     "heads=1 dcp=2 form=fused splits=1 page=16 context=1 steps=1",
     BY_RESULT,
     {{"lib/attend.lua", "| @$(exists) ld.global.u32 $(page), [$(entry)];",
       "|   ld.global.u32  $(page), [$(entry)];"}}},
    {"table rows have no spare entries",
     PAGES,
     BY_RESULT,
     {{"lib/attend.lua", "|   mad.lo.u32     $(page), $(a.request), $(pages), $(page);",
       "|   add.s32        $(pages), $(pages), -2;\n|   mad.lo.u32     $(page), $(a.request), $(pages), $(page);"}}},
    {"mla_decode: page_stride is ignored",
     GAPS,
     BY_RESULT,
     {{"lib/attend.lua", "ld.param.u64   $(stride), [$(param.page_stride)];",
       "mov.u64        $(stride), $(PAGE * 576);"}}},
    /* mla_decode: arithmetic */
    {"sums of P V are not rescaled",
     TILES,
     BY_RESULT,
     {{"lib/attend.lua", "|   mul.rn.f32     $(a.acc[i]), $(a.acc[i]), $(factor[i % 4 // 2]);\n", ""}}},
    {"row sums are not rescaled",
     TILES,
     BY_RESULT,
     {{"lib/attend.lua", "|   mul.rn.f32     $(a.sum[r]), $(a.sum[r]), $(factor[r]);\n", ""}}},
    {"m' is not rounded",
     FUSED,
     BY_RESULT,
     {{"lib/attend.lua", "|   cvt.rpi.f32.f32 $(each[0]), $(each[0]);", "|   mov.f32        $(each[0]), $(each[0]);"}}},
    {"m' is rounded down", FUSED, BY_RESULT, {{"lib/attend.lua", "cvt.rpi.f32.f32", "cvt.rmi.f32.f32"}}},
    {"m' begins at 0",
     "heads=2 dcp=2 form=fused splits=1 sigma=30 context=1,2,3 steps=1",
     BY_RESULT,
     {{"lib/attend.lua", "f32(-1e30)", "f32(0)"}}},
    {"factors of distant maxima wrap",
     "heads=1 dcp=2 form=fused sigma=300 context=300 steps=1 splits=1",
     BY_RESULT,
     {{"lib/attend.lua", "|   max.f32        $(apart), $(apart), $(f32(-127));\n", ""}}},
    {"the row sum adds rounded P",
     FUSED,
     BY_RESULT,
     {{"lib/attend.lua",
       "|   add.rn.f32     $(a.sum[r]), $(a.sum[r]), $(p[e]);\n"
       "        end\n"
       "|   cvt.rn.satfinite.e4m3x2.f32 $(half), $(p[1]), $(p[0]);\n"
       "|   cvt.rn.f16x2.e4m3x2 $(pair), $(half);\n",
       "        end\n"
       "|   cvt.rn.satfinite.e4m3x2.f32 $(half), $(p[1]), $(p[0]);\n"
       "|   cvt.rn.f16x2.e4m3x2 $(pair), $(half);\n"
       "        scope(function()\n"
       "          local h = b16(\"h\", 2)\n"
       "|   mov.b32        {$(h[0]), $(h[1])}, $(pair);\n"
       "          for e = 0, 1 do\n"
       "|   cvt.f32.f16    $(p[e]), $(h[e]);\n"
       "|   add.rn.f32     $(a.sum[r]), $(a.sum[r]), $(p[e]);\n"
       "          end\n"
       "        end)\n"}}},
    {"one warp's row sum is lost",
     TILES,
     BY_RESULT,
     {{"lib/attend.lua", "|   add.rn.f32     $(each[2]), $(each[2]), $(each[3]);\n", ""}}},
    {"scores are natural",
     FUSED,
     BY_RESULT,
     {{"lib/attend.lua", "|   mul.rn.f32     $(scale), $(scale), $(f32(1.4426950408889634));\n", ""}}},
    {"LSE is natural",
     FUSED,
     BY_RESULT,
     {{"lib/attend_out.lua", "|   sub.rn.f32     $(lse), $(lse), $(f32(8));\n",
       "|   sub.rn.f32     $(lse), $(lse), $(f32(8));\n|   mul.rn.f32     $(lse), $(lse), 0f3F317218;\n"}}},
    {"LSE without -8",
     FUSED,
     BY_RESULT,
     {{"lib/attend_out.lua", "|   sub.rn.f32     $(lse), $(lse), $(f32(8));\n", ""}}},
    {"a row that saw no key is closed like any other",
     EMPTY,
     BY_RESULT,
     {{"lib/attend_out.lua",
       "|   setp.gt.u32    $(seen), $(a.bound[r]), 0;\n"
       "|   setp.neu.and.f32 $(seen), $(a.sum[r]), 0f00000000, $(seen);\n",
       "|   mov.pred       $(seen), -1;\n"}}},
    {"a row that saw no key is not stored",
     EMPTY,
     BY_RESULT,
     {{"lib/attend_out.lua", "      output_row(a, r, index, live)\n",
       "      output_row(a, r, index, live)\n|   and.pred       $(live), $(live), $(seen);\n"}}},
    {"splits = 1: output_scale is forgotten",
     SCALES,
     BY_RESULT,
     {{"lib/attend_out.lua", "|   mul.rn.f32     $(x), $(x), $(scale);\n|   mul.rn.f32     $(y), $(y), $(scale);\n",
       ""}}},
    {"splits > 1: output_scale is forgotten",
     SCALED_SPLITS,
     BY_RESULT,
     {{"lib/attend_out.lua", "|   mul.rn.f32     $(inverse), $(inverse), $(scale);\n", ""}}},
    {"a split reads a tile too many",
     SPLITS,
     BY_RESULT,
     {{"lib/attend.lua", "|   add.u32        $(a.last), $(a.first), $(each);\n",
       "|   add.u32        $(a.last), $(a.first), $(each);\n|   add.u32        $(a.last), $(a.last), 1;\n"}}},
    {"splits are a tile too short",
     SPLITS,
     BY_RESULT,
     {{"lib/attend.lua", "|   add.u32        $(each), $(all), $(a.splits - 1);\n",
       "|   mov.u32        $(each), $(all);\n"}}},
    {"the reducer leaves out the last split",
     SPLITS,
     BY_RESULT,
     {{"lib/attend_out.lua", "setp.lt.u32    $(more), $(split), $(splits);",
       "setp.lt.u32    $(more), $(split), $(splits - 1);"}}},
    {"the reducer multiplies empty splits, too",
     "heads=1 dcp=2 form=fused context=1,5 steps=1 splits=2",
     BY_RESULT,
     {{"lib/attend_out.lua", "| @$(real) bra     $(skip);\n", ""}}},
    {"the reducer adds weights of base e",
     SPLITS,
     BY_RESULT,
     {{"lib/attend_out.lua", "|   ex2.approx.f32 $(weight), $(weight);\n",
       "|   mul.rn.f32     $(weight), $(weight), 0f3FB8AA3B;\n|   ex2.approx.f32 $(weight), $(weight);\n"}}},
    {"mla_decode reads the other parity",
     FUSED,
     BY_RESULT,
     {{"lib/attend.lua", "      include(\"lib/mailbox\").q_parity(base, base, b.parity)\n", ""}}},
    {"mla_decode takes query rows to be dcp * heads apart",
     "heads=2 dcp=2 form=fused splits=1 qh=7 context=5,17 steps=2",
     BY_RESULT,
     {{"lib/attend.lua", "$(b and spec.qh or H)", "$(DH)"}}},
    /* mla_query */
    {"NaN query bytes are 0xFF",
     PADDED,
     BY_RESULT,
     {{"lib/fp8.lua", "|   mov.b32        $(word), {$(low), $(high)};\n",
       "|   mov.b32        $(word), {$(low), $(high)};\n"
       "    local nan = b32 \"nan\"\n"
       "|   and.b32        $(nan), $(word), 0x7f7f7f7f;\n"
       "|   add.u32        $(nan), $(nan), 0x01010101;\n"
       "|   and.b32        $(nan), $(nan), 0x80808080;\n"
       "|   or.b32         $(word), $(word), $(nan);\n"}}},
    {"one NaN query byte in four is 0xFF",
     PADDED,
     BY_RESULT,
     {{"lib/fp8.lua", "|   mov.b32        $(word), {$(low), $(high)};\n",
       "|   mov.b32        $(word), {$(low), $(high)};\n"
       "    local nan = b32 \"nan\"\n"
       "|   and.b32        $(nan), $(word), 0x7f7f7f7f;\n"
       "|   add.u32        $(nan), $(nan), 0x01010101;\n"
       "|   and.b32        $(nan), $(nan), 0x00000080;\n"
       "|   or.b32         $(word), $(word), $(nan);\n"}}},
    {"q_scale is forgotten",
     SCALES,
     BY_RESULT,
     {{"mla_query.ptx.lua", "|   mul.rn.f32     $(x[k]), $(x[k]), $(scale);\n", ""}}},
    {"qf is cut off, not rounded",
     FUSED,
     BY_RESULT,
     {{"lib/absorb.lua", "cvt.rn.bf16x2.f32 $(pair), $(acc[4 * n + 2 * r + 1])",
       "cvt.rz.bf16x2.f32 $(pair), $(acc[4 * n + 2 * r + 1])"}}},
    {"q_c is cut off, not rounded", FUSED, BY_RESULT, {{"lib/bf16.lua", "cvt.rn.bf16x2.f32", "cvt.rz.bf16x2.f32"}}},
    {"q_c of rows past the batch is stored",
     ONE_ROW,
     BY_RESULT,
     {{"mla_query.ptx.lua", "setp.eq.and.u32 $(store[2]), $(head), 0, $(live);",
       "setp.eq.u32    $(store[2]), $(head), 0;"}}},
    {"queries of rows past the batch are sent",
     ONE_ROW,
     BY_RESULT,
     {{"mla_query.ptx.lua", "|   setp.lt.u32    $(go), $(row), $(B);\n| @!$(go) bra      $(skip);\n", ""}}},
    {"W_UK of the first half of k only", FUSED, BY_RESULT, {{"lib/absorb.lua", "    add_halves(a, acc, spare)\n", ""}}},
    {"a head's rows go to another of its rank's",
     FUSED,
     BY_RESULT,
     {{"mla_query.ptx.lua", "|   mad.lo.u32     $(own), $(row), $(H), $(head);\n",
       "|   sub.u32        $(own), $(H - 1), $(head);\n|   mad.lo.u32     $(own), $(row), $(H), $(own);\n"}}},
    {"ranks' heads in the other order",
     FUSED,
     BY_RESULT,
     {{"lib/publish.lua", "|   mad.lo.u32     $(chunk), $(b.rank), $(mine), $(chunk);",
       "|   sub.u32        $(token), $(spec.dcp - 1), $(b.rank);\n"
       "|   mad.lo.u32     $(chunk), $(token), $(mine), $(chunk);"}}},
    {"rank 0 gets no query",
     FUSED,
     BY_RESULT,
     {{"lib/publish.lua", "for d = 0, publish.destinations - 1 do", "for d = 1, publish.destinations - 1 do"}}},
    {"multicast goes to parity 0",
     FUSED " publish=multicast",
     BY_RESULT,
     {{"lib/publish.lua", "      mailbox.q_parity(base, base, b.parity)\n", ""}}},
    {"the second tile of rows is the first again",
     "heads=1 dcp=2 form=fused splits=1 batch=18 context=3 steps=1",
     BY_RESULT,
     {{"mla_query.ptx.lua", "|   shl.b32        $(t0), $(t0), 4;\n", "|   mov.u32        $(t0), 0;\n"}}},
    {"ready rows of the first head only",
     READY,
     BY_RESULT,
     {{"mla_query.ptx.lua", "mad.lo.u32     $(place), $(row), $(H), $(head);",
       "mul.lo.u32     $(place), $(row), $(H);"}}},
    {"mla_query does not open the use", FUSED, BY_RESULT, {{"mla_query.ptx.lua", "    box.open_use(b)\n", ""}}},
    {"the ledger is not told",
     FUSED " checked=1",
     BY_RESULT,
     {{"mla_query.ptx.lua", "    if spec.checked == 1 then publish.ledger_to_all(b) end\n", ""}}},
    {"half rope pairs neighbours in the query",
     ROPE_HALVES,
     BY_RESULT,
     {{"mla_query.ptx.lua", "if spec.rope == \"half\" then", "if false then"}}},
    {"the pair of a rotation is swapped",
     ROPE,
     BY_RESULT,
     {{"lib/rope.lua", "mul.rn.f32     $(bs), $(b), $(s);\n|   mul.rn.f32     $(as), $(a), $(s);",
       "mul.rn.f32     $(bs), $(a), $(s);\n|   mul.rn.f32     $(as), $(b), $(s);"}}},
    {"every row has row 0's angles",
     ROPE,
     BY_RESULT,
     {{"lib/rope.lua", "mad.wide.u32   $(address), $(row), 256, $(address);",
       "mad.wide.u32   $(address), $(row), 0, $(address);"}}},
    /* mla_query: the KV row */
    {"half rope pairs neighbours in the cache",
     ROPE_HALVES,
     BY_RESULT,
     {{"lib/kv_row.lua", "[$(at)+$(base + 64)]", "[$(at)+$(base + 2)]"}}},
    {"k_scale is forgotten",
     SCALES,
     BY_RESULT,
     {{"lib/kv_row.lua", "mul.rn.f32     $(x), $(pair), $(scale);", "mov.b32        $(x), $(pair);"}}},
    {"kv norm: gamma of the first half twice",
     FUSED,
     BY_RESULT,
     {{"lib/kv_row.lua",
       "ld.global.nc.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)+$(512 * half)];",
       "ld.global.nc.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)];"}}},
    {"kv norm: eps is forgotten",
     "heads=2 dcp=2 form=fused splits=1 eps=0.5 context=5,17 steps=1",
     BY_RESULT,
     {{"lib/kv_row.lua", "$(f32(1 / 512)), $(eps);", "$(f32(1 / 512)), 0f00000000;"}}},
    {"the KV row is not rounded to BF16",
     MANY,
     BY_RESULT,
     {{"lib/kv_row.lua",
       "|   cvt.rn.bf16x2.f32 $(pair), $(x), $(x);\n|   and.b32        $(pair), $(pair), 0xffff0000;\n",
       "|   and.b32        $(pair), $(x), 0xffff0000;\n"}}},
    {"a NaN is kept in the cache", FUSED " nan=2054", BY_RESULT, {{"lib/kv_row.lua", "    fp8.nan_to_zero(x)\n", ""}}},
    {"slot -1 is slot 0",
     FUSED,
     BY_RESULT,
     {{"lib/kv_row.lua", "|   setp.lt.s64    $(skip), $(slot), 0;\n| @$(skip) bra     $(done);\n",
       "|   max.s64        $(slot), $(slot), 0;\n"}}},
    {"a warp inserts another row",
     FUSED,
     BY_RESULT,
     {{"mla_query.ptx.lua", "|   add.u32        $(row), $(t0), $(wid);\n  kv_row.insert(row, lane)\n",
       "|   add.u32        $(row), $(t0), 0;\n  kv_row.insert(row, lane)\n"}}},
    {"rows past the heads are inserted by nobody",
     "heads=1 dcp=2 form=fused splits=1 context=5,6,7 steps=1",
     BY_RESULT,
     {{"mla_query.ptx.lua", "|   rem.u32        $(row), $(wid), $(H);\n", "|   mov.u32        $(row), $(wid);\n"}}},
    {"mla_query: page_stride is ignored",
     GAPS,
     BY_RESULT,
     {{"lib/kv_row.lua", "ld.param.u64   $(stride), [$(param.page_stride)];",
       "mov.u64        $(stride), $(576 * spec.page);"}}},
    /* order */
    {"warp 3 leaves out its share of the polls",
     MANY,
     BY_MISSING,
     {{"lib/query_poll.lua", "    section \"poll\"\n",
       "    section \"poll\"\n"
       "    local third = b32 \"third\"\n"
       "|   mov.u32        $(third), %tid.x;\n"
       "|   shr.u32        $(third), $(third), 5;\n"
       "|   setp.eq.u32    $(more), $(third), 3;\n"
       "| @$(more) bra     $(done);\n"}}},
    {"the record counts heads within their rank",
     MANY,
     BY_MISSING,
     {{"lib/query_poll.lua", "|   div.u32        $(w.other), $(w.word), $(mailbox.HEAD_CHUNKS);\n",
       "|   mov.u32        $(w.other), 0;\n"}}},
    {"mla_query publishes into a dead box",
     FOUR_STEPS,
     BY_DEATH,
     {{"mla_query.ptx.lua", "  if b then\n| @$(b.dead) bra   $(rows_done);\n  end\n", ""}}},
    {"mla_query does not look at the abort while it polls",
     FOUR_STEPS,
     BY_DEATH,
     {{"lib/lamport.lua", "|   setp.ne.u32    $(b.dead), $(seen), 0;\n", "|   mov.pred       $(b.dead), 0;\n"}}},
    {"qf is read before it is all there",
     READY,
     BY_SCHEDULE,
     {{"mla_query.ptx.lua", "| $(done):\n|   bar.sync       0;\n  end)\nend\n", "| $(done):\n  end)\nend\n"}}},
    {"P is read before it is all there",
     TILES,
     BY_SCHEDULE,
     {{"lib/attend.lua",
       "|   st.shared.b32  [$(at)+$(16 * n + 16 * attend.P_PITCH * r)], $(pair);\n      end\n    end\n|   bar.sync     "
       "  0;\n",
       "|   st.shared.b32  [$(at)+$(16 * n + 16 * attend.P_PITCH * r)], $(pair);\n      end\n    end\n"}}},
    {"wait removed from mla_query",
     FUSED,
     BY_BUILD,
     {{"mla_query.ptx.lua", "pdl.wait()\npdl.launch_dependents()\n", "pdl.launch_dependents()\n"}}},
    {"wait removed from mla_decode",
     FUSED,
     BY_BUILD,
     {{"mla_decode.ptx.lua", "pdl.wait()\npdl.launch_dependents()\nlocal out", "pdl.launch_dependents()\nlocal out"}}},
    {"wait removed from the reducer",
     SPLITS,
     BY_BUILD,
     {{"mla_decode.ptx.lua", "  pdl.wait()\n  pdl.launch_dependents()\n  attend_out",
       "  pdl.launch_dependents()\n  attend_out"}}},
};
enum { FAULTS = sizeof faults / sizeof *faults };

enum outcome { RIGHT, WRONG, REFUSED };

/* Making a layer takes longer than running it: each is made once, before the tests' processes part. */
static struct whole *layers[FAULTS];

static void make_layers(void) {
    for (int i = 0; i < FAULTS; i++) {
        for (int k = 0; k < i && !layers[i]; k++) {
            layers[i] = strcmp(faults[k].layer, faults[i].layer) == 0 ? layers[k] : NULL;
        }
        if (!layers[i]) {
            layers[i] = calloc(1, sizeof *layers[i]);
            ck_assert_ptr_nonnull(layers[i]);
            whole_make(layers[i], NULL, faults[i].layer);
        }
    }
}

static void free_layers(void) {
    for (int i = 0; i < FAULTS; i++) {
        struct whole *whole = layers[i];
        for (int k = i; k < FAULTS; k++) {
            layers[k] = layers[k] == whole ? NULL : layers[k];
        }
        if (whole) {
            whole_close(whole);
            free(whole);
        }
    }
}

static enum outcome outcome_of(struct whole *whole, dcpk_status status, const dcpk_error *error, char *what) {
    if (status != DCPK_OK) {
        snprintf(what, DEAD_SENTENCE, "%s: %s", dcpk_status_name(status), error->text);
        return status == DCPK_E_LINT || status == DCPK_E_TEMPLATE || status == DCPK_E_TOOLCHAIN ? REFUSED : WRONG;
    }
    snprintf(what, DEAD_SENTENCE, "%s", whole->judged.wrong ? whole->judged.first : "judged right");
    return whole->judged.wrong ? WRONG : RIGHT;
}

/* The engine fills the cache itself (form=pushed): once as it should, then with NaN bytes in the place of the second
 * token of request 0, on the rank that owns it. Row 0, the first token's, does not see it. */
static enum outcome later_nan(struct whole *whole, char *what) {
    size_t heads = (size_t)(whole->make.dcp * whole->make.heads), bytes = heads * REF_LATENT * 2;
    uint32_t nans[LAYER_TOKEN / 4];
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = whole_try(whole, &error);
    if (status != DCPK_OK || whole->judged.wrong) {
        return outcome_of(whole, status, &error, what);
    }
    enum outcome outcome = RIGHT;
    memset(nans, 0x7F, sizeof nans);
    for (int32_t r = 0; r < whole->make.dcp; r++) {
        int64_t slot = whole->layer->steps[0].rank[r].slots[1];
        uint16_t *rows = slot < 0 ? NULL : malloc(bytes);
        if (!rows) {
            continue;
        }
        memcpy(rows, layer_run_outcome(whole->run, 0, r)->rows, bytes);
        MUST(dcpk_mem_write(layer_run_group(whole->run)->rank[r].device, layer_run_slot(whole->run, r, slot), nans,
                            sizeof nans, &error));
        MUST(layer_run_steps(whole->run, 0, 1, &error));
        MUST(layer_run_read(whole->run, &error));
        const uint16_t *again = layer_run_outcome(whole->run, 0, r)->rows;
        ck_assert_msg((again[bytes / 2] & 0x7FFF) > 0x7F80, "row 1 sees NaN bytes and is %04x", again[bytes / 2]);
        outcome = memcmp(rows, again, bytes) != 0 ? WRONG : outcome;
        snprintf(what, DEAD_SENTENCE, "rank %d: row 0 begins with %04x, before the NaN with %04x", r, again[0],
                 rows[0]);
        free(rows);
    }
    return outcome;
}

/* seed: of the adversary; 0: fair. */
static enum outcome run(struct whole *whole, enum finder finder, uint64_t seed, char *what) {
    static const struct dead_stop stop = {"mla_query", "dcpk_mla_query", 0, true, false, true};
    char folders[128];
    enum outcome outcome;
    dcpk_error error;
    dcpk_error_init(&error);
    snprintf(folders, sizeof folders, "%s:templates/checks", plant_folder());
    dcpk_gen *gen = exchange_gen(folders);
    whole->options.gen = gen;
    whole->cpu.seed = seed;
    whole->cpu.schedule = seed ? DCPKCPU_RANDOM : DCPKCPU_FAIR;
    if (finder == BY_DEATH) {
        outcome = dead_layer_holds(whole, &stop, what) ? RIGHT : WRONG;
    } else if (finder == BY_MISSING) {
        outcome = dead_layer_polls_every_chunk(whole, what) ? RIGHT : WRONG;
    } else if (finder == BY_LATER_NAN) {
        outcome = later_nan(whole, what);
    } else {
        dcpk_status status = whole_try(whole, &error);
        outcome = outcome_of(whole, status, &error, what);
    }
    layer_run_close(whole->run);
    whole->run = NULL;
    dcpk_gen_close(gen);
    return outcome;
}

START_TEST(planted_fault_is_found) {
    const struct fault *fault = &faults[_i];
    char what[DEAD_SENTENCE] = "";
    bool random = fault->finder == BY_SCHEDULE;
    enum outcome outcome = RIGHT;
    for (size_t i = 0; i < 2 && fault->edits[i].file; i++) {
        plant(&fault->edits[i]);
    }
    for (uint64_t seed = random; outcome == RIGHT && seed <= (random ? SEEDS : 0); seed++) {
        outcome = run(layers[_i], fault->finder, seed, what);
    }
    ck_assert_msg(outcome == (fault->finder == BY_BUILD ? REFUSED : WRONG), "\"%s\" %s: %s", fault->name,
                  outcome == RIGHT ? "went unnoticed" : "was found otherwise", what);
}
END_TEST

/* What the faults are told apart from: every layer of the table, with nothing edited. */
START_TEST(unedited_templates_pass_the_same_layer) {
    char what[DEAD_SENTENCE] = "";
    enum finder finder = faults[_i].finder == BY_BUILD ? BY_RESULT : faults[_i].finder;
    bool random = finder == BY_SCHEDULE;
    for (int i = 0; i < _i; i++) {
        if (layers[i] == layers[_i] && (faults[i].finder == BY_BUILD ? BY_RESULT : faults[i].finder) == finder) {
            return;
        }
    }
    for (uint64_t seed = random; seed <= (random ? UNEDITED_SEEDS : 0); seed++) {
        ck_assert_msg(run(layers[_i], finder, seed, what) == RIGHT, "%s: %s", faults[_i].layer, what);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("layer_faults");
    TCase *tests = tcase_create("layer_faults");
    tcase_set_timeout(tests, 60);
    tcase_add_unchecked_fixture(tests, make_layers, free_layers);
    tcase_add_checked_fixture(tests, plant_folder_make, plant_folder_remove);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, planted_fault_is_found, 0, FAULTS);
    tcase_add_loop_test(tests, unedited_templates_pass_the_same_layer, 0, FAULTS);
    return exchange_main(suite);
}
