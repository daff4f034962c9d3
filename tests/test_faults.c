/* test_faults.c - planted faults: each edits one place of a copy of templates/ and must be found by the checks that the
 * other suites rely on, which the unedited templates pass. An edit whose text is gone fails its test: it cannot rot.
 * May call: tests/exchange.h, tests/plant.h. */
#include <tests/exchange.h>
#include <tests/plant.h>

#include <check.h>
#include <stdio.h>

/* What finds it. */
enum finder {
    BY_RESULT,  /* a comparison, the scan of the mailboxes, or a box that died */
    BY_BUILD,   /* it never becomes an image: lint or compiler */
    BY_SCHEDULE /* as BY_RESULT, but only some order of events shows it: one of SEEDS must */
};
enum { SEEDS = 40 };

struct fault {
    const char *name;
    const char *file; /* below templates/ */
    const char *text; /* must be there exactly once */
    const char *instead;
    const char *keys; /* of the exchange that shows it */
    enum finder finder;
};

static const struct fault faults[] = {
    {"the query mailbox is not re-armed", "lib/push.lua",
     "mailbox.rearm_chunk(\"q\", address[k], \"@\" .. tostring(inside[k]))", "", "", BY_RESULT},
    {"partial rows are not re-armed", "lib/sources.lua", "mailbox.rearm_chunk(\"partial\", member.address)", "", "",
     BY_RESULT},
    {"LSE words are not re-armed", "lib/sources.lua", "mailbox.rearm_word(\"lse\", at)", "", "", BY_RESULT},
    {"the ledger is not re-armed", "lib/push.lua", "mailbox.rearm_word(\"ledger\", offset)", "", "checked=1",
     BY_RESULT},
    {"re-armed with another sentinel", "lib/mailbox.lua", "  local armed = mailbox.armed[which]\n",
     "  local armed = mailbox.armed.q\n", "", BY_RESULT},
    {"one word of a chunk is not checked", "lib/lamport.lua", "for i = 0, #member.words - 1 do\n      if i == 0 and",
     "for i = 0, max(0, #member.words - 2) do\n      if i == 0 and", "", BY_SCHEDULE},
    {"-0 is kept", "lib/push.lua", "        mailbox.canonical_partial(words[k])\n", "", "", BY_RESULT},
    {"a NaN LSE is passed on", "lib/push.lua", "    mailbox.canonical_lse(value)\n", "", "", BY_RESULT},
    {"query bytes 0xFF are passed on", "query_push.ptx.lua", "      mailbox.canonical_q(words[k])\n", "", "",
     BY_RESULT},
    {"a source of weight 0 is not re-armed", "lib/sources.lua",
     "        mailbox.rearm_chunk(\"partial\", member.address)\n",
     "        scope(function()\n"
     "          local place, scale, weighs = b32 \"scale_place\", f32 \"scale_here\", pred \"weighs\"\n"
     "|   mov.u32        $(place), $(m.scales);\n"
     "|   mad.lo.u32     $(place), $(row), $(4 * D), $(place);\n"
     "|   ld.shared.f32  $(scale), [$(place)+$(4 * (s0 + k - 1))];\n"
     "|   setp.neu.f32   $(weighs), $(scale), 0f00000000;\n"
     "          mailbox.rearm_chunk(\"partial\", member.address, \"@\" .. tostring(weighs))\n"
     "        end)\n",
     "", BY_RESULT},
    {"a source of weight 0 is multiplied", "lib/merge.lua", "|   setp.neu.f32   $(counts), $(scale), 0f00000000;",
     "|   mov.pred       $(counts), -1;", "", BY_RESULT},
    {"wait removed from dcp_value", "dcp_value.ptx.lua", "  merge.weights(m, guard)\n  pdl.wait()\n",
     "  merge.weights(m, guard)\n", "", BY_BUILD},
    {"wait removed from dcp_value's push kernel", "dcp_value.ptx.lua",
     "  pdl.wait()\n  pdl.launch_dependents()\n  box.load(b)\n", "  pdl.launch_dependents()\n  box.load(b)\n",
     "split=1", BY_BUILD},
    {"the parity is stuck", "lib/box.lua", "|   and.b32        $(b.parity), $(b.use), 1;",
     "|   and.b32        $(b.parity), $(b.use), 0;", "", BY_RESULT},
    {"rows go to the wrong owner", "lib/push.lua", "|   div.u32        $(owner), $(inner), $(spec.heads);",
     "|   div.u32        $(owner), $(inner), $(spec.heads);\n|   add.u32        $(owner), $(owner), 1;\n"
     "|   rem.u32        $(owner), $(owner), $(spec.dcp);",
     "", BY_RESULT},
    {"padding rows are not pushed", "lib/push.lua", "|   setp.le.s32    $(empty), $(length[k]), 0;\n",
     "|   setp.le.s32    $(empty), $(length[k]), 0;\n| @$(empty) bra    $(sent);\n", "", BY_RESULT},
    {"pushers are counted one too many", "dcp_value.ptx.lua", "push.open(b, me, THREADS * x * y * pushers)",
     "push.open(b, me, THREADS * x * y * (pushers + 1))", "", BY_RESULT},
    {"contiguous re-arm with qh > dcp*heads", "lib/push.lua", "        mailbox.q_chunk(address[k], base, index[k])\n",
     "|   mad.wide.u32   $(address[k]), $(index[k]), 16, $(base);\n", "qh=9", BY_RESULT},
    {"only the first token row of the query is re-armed", "lib/push.lua",
     "    strided(p, mailbox.q_chunks, push.FLIGHT", "    strided(p, mailbox.token_chunks, push.FLIGHT", "", BY_RESULT},
    {"the use is not closed", "lib/box.lua", "|   st.relaxed.sys.global.u32 [$(b.control)], $(after);", "", "",
     BY_RESULT},
    {"weights are powers of e", "lib/merge.lua", "|   sub.rn.f32     $(weight), $(lse), $(top);",
     "|   sub.rn.f32     $(weight), $(lse), $(top);\n|   mul.rn.f32     $(weight), $(weight), 0f3FB8AA3B;", "",
     BY_RESULT},
    {"odd latents are lost on the way to W_UV", "lib/merge.lua",
     "for i = 0, 3 do bf16.pack(word[i], merged[2 * i], merged[2 * i + 1]) end",
     "for i = 0, 3 do bf16.pack(word[i], merged[2 * i], merged[2 * i]) end", "", BY_RESULT},
    {"padding's gate reaches the output", "lib/merge.lua",
     "|   selp.b32       $(pair), $(pair), 0, $(m.active[r]);   // padding: +0, whatever its gate", "", "", BY_RESULT},
    {"empty shards are read from their LSE", "lib/push.lua",
     "|   selp.f32       $(value), 0fff800000, $(value), $(empty);", "", "", BY_RESULT},
    {"the head's own rank is forgotten in the query", "lib/publish.lua",
     "|   mad.lo.u32     $(chunk), $(b.rank), $(mine), $(chunk);", "", "", BY_RESULT},
    {"query_wait polls all but the last rank", "lib/query_poll.lua", "local chunks = mailbox.q_chunks\n",
     "local chunks = mailbox.q_chunks - spec.heads * mailbox.HEAD_CHUNKS\n", "", BY_SCHEDULE},
    {"merge polls only seven of eight in flight", "lib/lamport.lua",
     "for k, member in ipairs(group) do any_missing(watch.missing",
     "for k, member in ipairs({ group[1] }) do any_missing(watch.missing", "", BY_SCHEDULE},
    {"norm: eps forgotten", "lib/norm.lua", "$(f32(1 / 1536)), $(eps);", "$(f32(1 / 1536)), 0f00000000;", "",
     BY_RESULT},
};

/* ---- the exchange that must notice --------------------------------------------------------------- */

enum outcome { RIGHT, WRONG, REFUSED };

/* D = 3 so that a wrong owner, an off-by-one and a lost source differ; batches change; every nasty input. */
static enum outcome run_exchange(dcpk_gen *gen, const char *keys, int32_t schedule, uint64_t seed, char *what,
                                 size_t capacity) {
    struct exchange_case shape = {2, 3, {5, 18, 18, 5}, keys, NASTY_ALL & ~(uint32_t)NASTY_NONFINITE, 0};
    struct scenario_options options;
    dcpkcpu_options cpu;
    struct scenario *scenario = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    exchange_options(&options, &cpu, gen, &shape, schedule, seed);
    if (scenario_open(&options, &scenario, &error) != DCPK_OK) {
        snprintf(what, capacity, "%s: %s", dcpk_status_name(error.code), error.text);
        return error.code == DCPK_E_LINT || error.code == DCPK_E_TEMPLATE || error.code == DCPK_E_TOOLCHAIN ? REFUSED
                                                                                                            : WRONG;
    }
    dcpk_status status = scenario_run(scenario, &error);
    bool wrong = status != DCPK_OK || scenario_wrong(scenario) > 0;
    snprintf(what, capacity, "%s", status != DCPK_OK ? error.text : scenario_first_wrong(scenario));
    scenario_close(scenario);
    return wrong ? WRONG : RIGHT;
}

START_TEST(planted_fault_is_found) {
    const struct fault *fault = &faults[_i];
    char what[4608];
    enum outcome outcome = RIGHT;
    plant(&(struct edit){fault->file, fault->text, fault->instead});
    dcpk_gen *gen = exchange_gen(plant_folder());
    if (fault->finder == BY_SCHEDULE) {
        for (uint64_t seed = 0; seed < SEEDS && outcome == RIGHT; seed++) {
            outcome = run_exchange(gen, fault->keys, DCPKCPU_RANDOM, seed, what, sizeof what);
        }
    } else {
        outcome = run_exchange(gen, fault->keys, DCPKCPU_FAIR, 1, what, sizeof what);
    }
    dcpk_gen_close(gen);
    ck_assert_msg(outcome == (fault->finder == BY_BUILD ? REFUSED : WRONG), "\"%s\" %s: %s", fault->name,
                  outcome == RIGHT ? "went unnoticed" : "was found otherwise", what);
}
END_TEST

/* What the re-arm and the next publish of a word owe their order to (F1 and F2 of the protocol): without it the memory
 * model lets a publish come before the re-arm, and the word is lost. */
static const struct {
    const char *name;
    struct edit edits[2];
} unfenced[] = {
    {"no fence before a thread's first mailbox store",
     {{"lib/publish.lua", "|   fence.acq_rel.sys;\n", ""},
      {"lib/push.lua", "|   fence.acq_rel.sys;                                  // F1\n", ""}}},
    {"no fence behind a thread's last poll",
     {{"lib/query_poll.lua",
       "|   fence.acq_rel.sys;                                  // F2: the polls before all that follows this grid\n",
       ""},
      {"dcp_value.ptx.lua", "|   fence.acq_rel.sys;                                  // F2\n", ""}}},
};

START_TEST(a_missing_fence_is_found) {
    char what[4608];
    enum outcome outcome = RIGHT;
    plant(&unfenced[_i].edits[0]);
    plant(&unfenced[_i].edits[1]);
    dcpk_gen *gen = exchange_gen(plant_folder());
    for (uint64_t seed = 0; seed < SEEDS && outcome == RIGHT; seed++) {
        outcome = run_exchange(gen, "", DCPKCPU_RANDOM, seed, what, sizeof what);
    }
    dcpk_gen_close(gen);
    ck_assert_msg(outcome == WRONG, "\"%s\" %s: %s", unfenced[_i].name,
                  outcome == RIGHT ? "went unnoticed" : "was found otherwise", what);
}
END_TEST

static const char *const unedited[] = {"", "checked=1", "split=1", "qh=9"};

/* The same exchanges on the same path with nothing edited: what the faults are told apart from. */
START_TEST(unedited_templates_pass_the_same_exchange) {
    char what[4608];
    dcpk_gen *gen = exchange_gen(plant_folder());
    enum outcome outcome = run_exchange(gen, unedited[_i], DCPKCPU_FAIR, 1, what, sizeof what);
    ck_assert_msg(outcome == RIGHT, "%s", what);
    for (uint64_t seed = 0; seed < 4; seed++) {
        outcome = run_exchange(gen, unedited[_i], DCPKCPU_RANDOM, seed, what, sizeof what);
        ck_assert_msg(outcome == RIGHT, "seed %llu: %s", (unsigned long long)seed, what);
    }
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("faults");
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, plant_folder_make, plant_folder_remove);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, planted_fault_is_found, 0, sizeof faults / sizeof *faults);
    tcase_add_loop_test(tests, a_missing_fence_is_found, 0, sizeof unfenced / sizeof *unfenced);
    tcase_add_loop_test(tests, unedited_templates_pass_the_same_exchange, 0, sizeof unedited / sizeof *unedited);
    return exchange_main(suite);
}
