/* test_aot_command.c - dcpk aot and dcpk pack as their users meet them: which kernels a pack gets, what is skipped and
 * what is refused, bytes that depend on the request alone, failures that leave no pack. */
#include "tests/shell.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The suite's builds share a cache, so that each kernel is compiled once; tests about caches say where theirs is. */
#define SHARED "DCPK_CACHE_DIR=$shared "

static void setup(void) {
    shell_setup();
    unsetenv("DCPK_AOT_PATH");
}

static bool skip(void) {
    sh(SHARED "$dcpk build query_norm heads=2 batch=2");
    if (last.code == 3)
        fprintf(stderr, "skipped: nothing here assembles PTX\n");
    else
        expect_code(0);
    return last.code == 3;
}

/* The kernels of a pack, "KERNEL batch=N dcp=N ..." as `keep` of each spec's words, sorted, one a line. */
static void kernels_of(const char *pack, const char *keep) {
    sh("$dcpk pack ls %s --json | python3 -c 'import json, sys\n"
       "for row in json.load(sys.stdin): print(*[w for w in row[\"spec\"].split() if w.split(\"=\")[0] in "
       "\"%s\".split() "
       "or \"=\" not in w])' | sort",
       pack, keep);
    expect_code(0);
}

START_TEST(a_pack_of_any_name_is_reported) {
    if (skip()) return;
    sh(SHARED "name=$(printf 'a\\377.dcpk'); $dcpk aot heads=2 --batch 2 --form norm -o \"$name\" --json && "
              "test -s \"$name\"");
    expect_code(0);
    json_t *all = shell_json();
    ck_assert_str_eq(json_string_value(json_object_get(all, "pack")), "a\uFFFD.dcpk");
    json_decref(all);
    sh(SHARED "name=$(printf 'a\\377.dcpk'); $dcpk pack ls \"$name\" --json");
    expect_code(0);
    json_decref(shell_json());
    sh("name=$(printf '\\377'); DCPK_CACHE_DIR=$PWD/$name $dcpk cache path --json");
    expect_code(0);
    json_t *cache = shell_json();
    expect_in(json_string_value(json_object_get(cache, "path")), "/\uFFFD");
    json_decref(cache);
}
END_TEST

/* ---- which kernels ------------------------------------------------------------------------------- */
START_TEST(pack_has_what_layers_of_both_forms_need_and_the_norm) {
    if (skip()) return;
    sh(SHARED "$dcpk aot heads=2 --dcp 1,2 --batch 2 -o a.dcpk");
    expect_code(0);
    expect_in(last.out, "a.dcpk: 9 kernels");
    kernels_of("a.dcpk", "dcp poll");
    ck_assert_str_eq(last.out, "dcp_value dcp=1\ndcp_value dcp=2\nmla_decode dcp=1\nmla_decode dcp=2\n"
                               "mla_query dcp=1 poll=0\nmla_query dcp=2 poll=1\nquery_norm\nquery_push dcp=2\n"
                               "query_wait dcp=2\n");
    /* Where the fused front cannot wait itself, query_wait follows it. */
    sh(SHARED "$dcpk aot heads=2 sms=1 --dcp 2 --batch 2 --form fused -o b.dcpk");
    expect_code(0);
    kernels_of("b.dcpk", "poll split");
    ck_assert_str_eq(last.out, "dcp_value split=1\nmla_decode\nmla_query poll=0\nquery_wait\n");
    sh(SHARED "$dcpk aot heads=2 --dcp 2 --batch 2 --form fused -o c.dcpk");
    expect_code(0);
    kernels_of("c.dcpk", "poll");
    ck_assert_str_eq(last.out, "dcp_value\nmla_decode\nmla_query poll=1\n");
    sh(SHARED "$dcpk aot heads=2 --batch 2 --form norm -o d.dcpk");
    expect_code(0);
    kernels_of("d.dcpk", "batch");
    ck_assert_str_eq(last.out, "query_norm batch=2\n");
}
END_TEST

/* What a pack holds is checked where nothing can be built: every form of a run, with an empty cache. */
START_TEST(a_pack_of_form_check_is_run_and_compared_without_a_compiler) {
    if (skip()) return;
    static const char *const shapes[][2] = {
        {"heads=2 --dcp 2 --batch 2", "heads=2 dcp=2 batch=2"},
        {"heads=2 --dcp 1 --batch 2", "heads=2 dcp=1 batch=2"},
        {"--model kimi-linear --tp 32 --dcp 2 --batch 1 splits=1", "model=kimi-linear tp=32 dcp=2 batch=1 splits=1"},
        {"heads=1 poll=0 split=1 --dcp 2 --batch 1", "--event-ordered heads=1 dcp=2 batch=1"}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        sh(SHARED "$dcpk aot %s --form check -o a.dcpk", shapes[i][0]);
        expect_code(0);
        sh("mkdir -p empty && DCPK_CACHE_DIR=$PWD/empty DCPK_PTXAS=/none/ptxas DCPK_NVJITLINK=/none/nvjitlink "
           "DCPK_JIT=never DCPK_AOT_PATH=a.dcpk $dcpk run context=5 %s",
           shapes[i][1]);
        expect_code(0);
        expect_in(last.out, ": 3 steps on ");
        expect_in(last.out, "compilers started: 0;");
        ck_assert_str_eq(last.err, ""); /* not "made otherwise", either */
    }
    /* To an engine, whose generator has no folder of checks, it is as any pack. */
    sh(SHARED "$dcpk aot heads=2 --batch 2 --form check -o a.dcpk && DCPK_CACHE_DIR=$PWD/none DCPK_JIT=never "
              "DCPK_AOT_PATH=a.dcpk $dcpk build dcp_value heads=2 batch=2");
    expect_code(0);
    ck_assert_str_eq(last.err, "");
    /* And a pack without it does not do. */
    sh(SHARED "$dcpk aot heads=2 --dcp 2 --batch 2 -o b.dcpk");
    expect_code(0);
    sh("DCPK_CACHE_DIR=$PWD/empty DCPK_JIT=never DCPK_AOT_PATH=b.dcpk $dcpk run context=5 heads=2 dcp=2 batch=2");
    expect_failure(1, "no image of 'mla_query");
}
END_TEST

START_TEST(lists_have_ranges_steps_and_forget_repetitions) {
    if (skip()) return;
    sh(SHARED "$dcpk aot heads=2 --batch 8-24/8,1-3,2,16 --form norm -o a.dcpk && $dcpk pack ls --manifest a.dcpk");
    expect_code(0);
    expect_in(last.out, "\nbatch 1-3,8,16,24\n");
    kernels_of("a.dcpk", "batch");
    ck_assert_str_eq(last.out, "query_norm batch=1\nquery_norm batch=16\nquery_norm batch=2\nquery_norm batch=24\n"
                               "query_norm batch=3\nquery_norm batch=8\n");
}
END_TEST

START_TEST(presets_and_files_of_shapes_come_together) {
    if (skip()) return;
    sh("printf '# engine shapes\\n\\n  query_norm heads=2 batch=5 # one\\nquery_norm batch=3 model=kimi-k2 tp=64\\n"
       "query_norm heads=1 batch=2\\n' >shapes && " SHARED
       "$dcpk aot --model kimi-k2 --tp 32,64 --batch 2 --form norm --shapes shapes -o a.dcpk");
    expect_code(0);
    kernels_of("a.dcpk", "heads batch");
    ck_assert_str_eq(last.out, "query_norm heads=1 batch=2\nquery_norm heads=1 batch=3\nquery_norm heads=2 batch=2\n"
                               "query_norm heads=2 batch=5\n");
    sh("$dcpk pack ls --manifest a.dcpk");
    expect_in(last.out, "\nmodel kimi-k2\ntp 32,64\ndcp 1\nbatch 2\nq 1\narch sm_90a\nform norm\nshapes 3\n");
    /* A file alone is enough. */
    sh(SHARED "$dcpk aot --shapes shapes -o b.dcpk");
    expect_code(0);
    expect_in(last.out, "b.dcpk: 3 kernels");
    ck_assert_ptr_null(strstr(last.out, "skipped"));
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------------ */
START_TEST(combinations_that_a_rule_refuses_are_named_and_the_others_built) {
    if (skip()) return;
    sh(SHARED "$dcpk aot heads=2 --dcp 2 --batch 2,3 --q 2 --form push,fused,norm -o a.dcpk --json");
    expect_code(0);
    expect_in(last.err, "dcpk: aot: skipped: dcp=2 batch=3 q=2 arch=sm_90a form=push,fused: q must divide batch");
    ck_assert_ptr_null(strstr(last.err, "batch=2 "));
    json_t *json = shell_json(), *skipped = json_object_get(json, "skipped");
    ck_assert_uint_eq(json_array_size(skipped), 2); /* each form for itself */
    expect_in(json_string_value(json_object_get(json_array_get(skipped, 0), "reason")), "q must divide batch");
    ck_assert_uint_eq(json_array_size(json_object_get(json, "kernels")), 7);
    ck_assert(json_is_true(json_object_get(json, "written")));
    json_decref(json);
    sh(SHARED "$dcpk aot --model kimi-k2 --tp 3,64 --dcp 1,3 --batch 2 --form norm -o b.dcpk");
    expect_code(0);
    expect_in(last.err,
              "model=kimi-k2 tp=3 dcp=1 batch=2 q=1 arch=sm_90a form=norm: model kimi-k2 has 64 heads: tp=3 does");
    expect_in(last.err, "model=kimi-k2 tp=64 dcp=3 batch=2 q=1 arch=sm_90a form=norm: dcp must divide tp");
}
END_TEST

START_TEST(lists_of_which_nothing_is_left_are_refused_with_the_rule) {
    sh("$dcpk aot heads=2 --dcp 2 --batch 3,5 --q 2 --form push -o a.dcpk");
    expect_failure(2, "skipped: dcp=2 batch=5 q=2 arch=sm_90a form=push: q must divide batch");
    expect_in(last.err, "every shape that the lists ask for is refused");
    ck_assert(!shell_exists("a.dcpk"));
}
END_TEST

START_TEST(every_wrong_line_of_a_file_is_named_with_file_and_line) {
    sh("printf 'query_norm heads=2 batch=1\\nquery_norm heads=2 batch=0\\n\\nquery_push heads=2 batch=1 # dcp=1\\n"
       "query_norm batch=1 tp=8\\nNo heads=2\\nquery_norm heads=2 batch=1 model=none\\n' >shapes");
    sh("$dcpk aot --shapes shapes -o a.dcpk");
    expect_failure(2, "aot: shapes:2: query_norm: batch=0 is not allowed");
    expect_in(last.err, "aot: shapes:4: query_push: there is no box at dcp=1");
    expect_in(last.err, "aot: shapes:5: tp= goes with model=NAME");
    expect_in(last.err, "aot: shapes:6: ");
    expect_in(last.err, "aot: shapes:7: there is no model 'none'");
    ck_assert_ptr_null(strstr(last.err, "shapes:1:"));
    ck_assert(!shell_exists("a.dcpk"));
}
END_TEST

START_TEST(words_that_make_no_sense_are_usage_errors) {
    static const struct {
        const char *words, *says;
    } rows[] = {
        {"heads=2 -o a.dcpk", "which batches?"},
        {"--batch 1 -o a.dcpk", "how many heads?"},
        {"--batch 1 heads=2", "-o FILE"},
        {"--batch 0 heads=2 -o a.dcpk", "--batch 0: numbers from 1 to 512"},
        {"--batch 513 heads=2 -o a.dcpk", "--batch 513"},
        {"--batch 3-1 heads=2 -o a.dcpk", "--batch 3-1"},
        {"--batch 1,,2 heads=2 -o a.dcpk", "--batch 1,,2"},
        {"--batch 1-5/0 heads=2 -o a.dcpk", "--batch 1-5/0"},
        {"--batch '' heads=2 -o a.dcpk", "--batch "},
        {"--batch 1 --dcp 33 heads=2 -o a.dcpk", "--dcp 33: numbers from 1 to 32"},
        {"--batch 1 --arch sm_1 heads=2 -o a.dcpk", "'sm_1' is none of: sm_90 sm_90a"},
        {"--batch 1 --form fuse heads=2 -o a.dcpk", "'fuse' is none of: push fused norm check"},
        {"--batch 1 --model none -o a.dcpk", "there is no model 'none'"},
        {"--batch 1 heads=2 batch=3 -o a.dcpk", "--batch takes the list"},
        {"--batch 1 heads=2 model=kimi-k2 -o a.dcpk", "--model takes the list"},
        {"--batch 1 heads=2 --tp 8 -o a.dcpk", "--tp goes with --model"},
        {"--batch 1 heads=2 frob=3 -o a.dcpk", "there is no key 'frob'"},
        {"--batch 1 heads=2 -j 0 -o a.dcpk", "-j 0"},
        {"--shapes missing -o a.dcpk", "cannot read 'missing'"},
        {"--shapes /dev/null -o a.dcpk", "no spec in it"},
        {"--shapes /dev/zero -o a.dcpk", "'/dev/zero' is longer than the 16 MiB"},
        {"--batch 1 heads=2 frob=3 -o a.dcpk", "dcpk: aot: there is no key 'frob'"},
        {"--shapes /dev/null --q 2 -o a.dcpk", "lists and keys go with --batch"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sh("$dcpk aot %s", rows[i].words);
        expect_failure(2, rows[i].says);
        ck_assert(!shell_exists("a.dcpk"));
    }
}
END_TEST

/* ---- bytes --------------------------------------------------------------------------------------- */
START_TEST(same_request_gives_the_same_bytes_whatever_order_jobs_cache_or_folder) {
    if (skip()) return;
    sh("export DCPK_CACHE_DIR=$PWD/cold; $dcpk aot heads=2 --dcp 1,2 --batch 2,4 --form push,norm -j1 -o a.dcpk");
    expect_code(0);
    expect_in(last.out, "0 found");
    sh("export DCPK_CACHE_DIR=$PWD/cold; $dcpk aot heads=2 --q 1,1 --dcp 2,1 --batch 4,2 --form norm,push -j4 "
       "-o b.dcpk && cmp a.dcpk b.dcpk");
    expect_code(0);
    expect_in(last.out, "0 compiled");
    sh("mkdir deep && cd deep && TZ=Asia/Tokyo LC_ALL=C umask 077 && DCPK_CACHE_DIR=$PWD/other $dcpk aot heads=2 "
       "--dcp 1,2 --batch 2,4 --form push,norm -j4 -o c.dcpk && cmp ../a.dcpk c.dcpk");
    expect_code(0);
    expect_in(last.out, "0 found");
    sh("grep -c -a -e \"$PWD\" -e \"$(hostname)\" a.dcpk");
    ck_assert_str_eq(last.out, "0\n");
}
END_TEST

START_TEST(manifest_names_version_generator_templates_format_toolchain_and_request) {
    if (skip()) return;
    sh(SHARED "$dcpk aot heads=2 pv=fp8 --batch 2 --form norm -o a.dcpk && $dcpk pack ls --manifest a.dcpk");
    expect_code(0);
    static const char *const lines[] = {
        "dcpk 0.",     "\ngenerator ",  "\ntemplates ",           "\nimage-format 1\n", "\ntoolchain ptxas ",
        "\nbatch 2\n", "\nform norm\n", "\nkeys heads=2 pv=fp8\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        expect_in(last.out, lines[i]);
}
END_TEST

START_TEST(digest_of_templates_is_of_names_and_contents_alone) {
    if (skip()) return;
    const char *digest = "| sed -n 's/.*: dcpk .*//;s/^templates //p'";
    char first[64] = "", again[64] = "", edited[64] = "";
    char *const into[] = {first, again, edited};
    sh("mkdir t u && printf -- '-- x\\n' >t/extra.lua && cp t/extra.lua u/ && mkdir -p u/lib");
    for (int i = 0; i < 3; i++) {
        if (i == 2) sh("printf -- '-- y\\n' >u/extra.lua");
        sh(SHARED
           "$dcpk aot heads=2 --batch 2 --form norm --templates %s -o a.dcpk >log && $dcpk pack ls --manifest a.dcpk "
           "%s",
           i == 0 ? "t" : "u", digest);
        expect_code(0);
        snprintf(into[i], sizeof first, "%s", last.out);
        ck_assert_uint_eq(strlen(into[i]), 33);
    }
    ck_assert_str_eq(first, again);
    ck_assert_str_ne(first, edited);
}
END_TEST

/* ---- failures ------------------------------------------------------------------------------------ */
START_TEST(a_pack_goes_to_a_file_and_takes_no_place_of_what_it_is_made_of) {
    sh("$dcpk aot heads=2 --batch 2 -o -");
    expect_failure(2, "a pack is not written to stdout");
    ck_assert(!shell_exists("-"));
    sh("printf 'query_norm heads=2 batch=2\n' >shapes && ln -s shapes link");
    sh("$dcpk aot --shapes shapes -o link");
    expect_failure(2, "-o link is the file of --shapes");
    char *shapes = shell_read_file("shapes", NULL);
    ck_assert_str_eq(shapes, "query_norm heads=2 batch=2\n");
    free(shapes);
}
END_TEST

START_TEST(parts_of_a_pack_or_of_the_cache_take_no_place_of_the_whole) {
    if (skip()) return;
    sh("$dcpk aot heads=2 --batch 2 --form norm -o a.dcpk && cp a.dcpk b.dcpk && ln -s a.dcpk link");
    expect_code(0);
    ck_assert_ptr_nonnull(strstr(last.out, "a.dcpk: 1 kernel, "));
    static const char *const names[] = {"a.dcpk", "./a.dcpk", "link"};
    for (size_t i = 0; i < 3; i++) {
        sh("$dcpk pack extract a.dcpk query_norm heads=2 batch=2 -o %s", names[i]);
        expect_failure(2, "is the pack itself");
        sh("cmp a.dcpk b.dcpk");
        expect_code(0);
    }
    sh("key=$($dcpk cache ls --json | grep -o '[0-9a-f]\\{32\\}' | head -1); file=$(find $DCPK_CACHE_DIR -type f -size "
       "+1k | head -1); ln -s $file entry; cp $file before; $dcpk cache extract $key --ptx -o $file; echo $?; $dcpk "
       "cache "
       "extract $key --ptx -o entry; echo $?; $dcpk cache extract $key --ptx -o $DCPK_CACHE_DIR/new; echo $?; cmp "
       "$file "
       "before; $dcpk cache extract $key --ptx -o outside.ptx; echo $?; $dcpk cache verify");
    ck_assert_msg(strncmp(last.out, "2\n2\n2\n0\n", 8) == 0, "%s%s", last.out, last.err);
    expect_in(last.out, ", 0 bad");
    expect_in(last.err, "is in the cache, whose files are its own");
}
END_TEST

START_TEST(any_build_failure_is_named_and_leaves_the_old_pack) {
    if (skip()) return;
    sh("mkdir t && for k in bad worse; do printf 'kernel { grid = { 1 }, block = { 32 }, params = {} }\\n"
       "|   nonsense.%%s;\\n|   ret;\\n' $k >t/$k.ptx.lua; done; printf 'worse batch=1\\nquery_norm heads=2 batch=1\\n"
       "bad batch=2\\n' >shapes; echo old >a.dcpk");
    sh(SHARED "$dcpk aot --templates t --shapes shapes -o a.dcpk --json");
    expect_failure(1, "shapes:1: worse arch=sm_90a batch=1");
    expect_in(last.err, "shapes:3: bad arch=sm_90a batch=2");
    expect_in(last.err, "2 of 3 kernels failed: no pack is written");
    json_t *json = shell_json();
    ck_assert_uint_eq(json_array_size(json_object_get(json, "failed")), 2);
    ck_assert_uint_eq(json_array_size(json_object_get(json, "kernels")), 1);
    ck_assert(json_is_false(json_object_get(json, "written")));
    json_decref(json);
    char *old = shell_read_file("a.dcpk", NULL);
    ck_assert_str_eq(old, "old\n");
    free(old);
    sh("ls -A | grep -c 'a.dcpk'");
    ck_assert_str_eq(last.out, "1\n");
}
END_TEST

START_TEST(a_missing_compiler_is_code_3_and_a_place_that_cannot_be_written_is_known_at_once) {
    sh("DCPK_PTXAS=/none/ptxas $dcpk aot heads=2 --batch 2 --form norm -o a.dcpk");
    expect_failure(3, "/none/ptxas");
    ck_assert(!shell_exists("a.dcpk"));
    sh("DCPK_PTXAS=/none/ptxas $dcpk aot heads=2 --batch 2 --form norm -o missing/a.dcpk");
    expect_failure(1, "cannot write 'missing/a.dcpk'");
    sh("mkdir folder && DCPK_PTXAS=/none/ptxas $dcpk aot heads=2 --batch 2 --form norm -o folder");
    expect_failure(1, "not a regular file");
}
END_TEST

START_TEST(progress_is_for_terminals) {
    if (skip()) return;
    sh(SHARED "$dcpk aot heads=2 --batch 2 --form norm -o a.dcpk");
    expect_code(0);
    ck_assert_str_eq(last.err, "");
    sh("command -v script");
    if (last.code != 0) return;
    sh(SHARED "script -qec \"$dcpk aot heads=2 --batch 2 --form norm -o a.dcpk\" /dev/null");
    expect_code(0);
    expect_in(last.out, "\r1 of 1  query_norm arch=");
    /* As wide as the terminal: a narrow one gets a narrow line, so that nothing is left of the one before. */
    static const int columns[] = {30, 132};
    for (int i = 0; i < 2; i++) {
        sh(SHARED "script -qec \"stty cols %d; $dcpk aot heads=2 --batch 2 --form norm -o a.dcpk\" /dev/null",
           columns[i]);
        expect_code(0);
        const char *line = strstr(last.out, "\r1 of 1  query_norm");
        ck_assert_ptr_nonnull(line);
        size_t length = strcspn(line + 1, "\r");
        ck_assert_uint_lt(length, (size_t)columns[i]);
        ck_assert_uint_ge(length, columns[i] == 30 ? 29 : 80);
    }
}
END_TEST

/* ---- dcpk pack ----------------------------------------------------------------------------------- */
START_TEST(pack_command_lists_verifies_and_takes_apart) {
    if (skip()) return;
    sh(SHARED "$dcpk aot heads=2 --batch 2,3 --form norm -o a.dcpk");
    expect_code(0);
    sh("$dcpk pack ls a.dcpk");
    expect_code(0);
    expect_in(last.out, "registers");
    expect_in(last.out, "2 entries, ");
    expect_in(last.out, "query_norm arch=sm_90a heads=2 batch=3 ");
    sh("$dcpk pack ls a.dcpk --json");
    json_t *json = shell_json(), *row = json_array_get(json, 1);
    char key[33] = "";
    snprintf(key, sizeof key, "%s", json_string_value(json_object_get(row, "key")));
    ck_assert_int_gt(json_integer_value(json_object_get(row, "registers")), 0);
    ck_assert_str_eq(json_string_value(json_object_get(row, "state")), "good");
    json_decref(json);
    sh("$dcpk pack extract a.dcpk query_norm heads=2 batch=3 --ptx -o k.ptx && $dcpk gen query_norm heads=2 batch=3 -o "
       "g.ptx && cmp k.ptx g.ptx");
    expect_code(0);
    sh("$dcpk pack extract a.dcpk %.8s --image -o k.image && " SHARED
       "$dcpk build query_norm heads=2 batch=3 -o b.image "
       "&& cmp k.image b.image && $dcpk pack extract a.dcpk %s --cubin -o - | head -c 4",
       key, key);
    expect_code(0);
    ck_assert_ptr_nonnull(strstr(last.out, "\177ELF"));
    sh("$dcpk pack extract a.dcpk query_norm heads=2 batch=4 --ptx -o x");
    expect_failure(1, "batch=3, not batch=4");
    ck_assert(!shell_exists("x"));
}
END_TEST

START_TEST(pack_verify_finds_damage_and_says_where) {
    if (skip()) return;
    sh(SHARED "$dcpk aot heads=2 --batch 2,3 --form norm -o a.dcpk");
    expect_code(0);
    sh("$dcpk pack verify a.dcpk");
    expect_code(0);
    expect_in(last.out, ", 0 bad");
    sh("cp a.dcpk b.dcpk; printf X | dd of=b.dcpk bs=1 seek=$(($(stat -c %%s b.dcpk) - 100)) conv=notrunc; $dcpk pack "
       "verify b.dcpk");
    expect_code(1);
    expect_in(last.out, "2 entries, ");
    expect_in(last.out, ", 1 bad");
    expect_in(last.out, "checksum");
    sh("$dcpk pack ls b.dcpk");
    expect_code(1);
    static const char *const actions[] = {"ls", "verify"};
    for (size_t i = 0; i < 2; i++) { /* of several, a row says of which it is */
        sh("$dcpk pack %s a.dcpk b.dcpk", actions[i]);
        expect_code(1);
        ck_assert_int_eq(strncmp(last.out, "pack ", 5), 0);
        expect_in(last.out, "\na.dcpk  ");
        expect_in(last.out, "\nb.dcpk  ");
    }
    sh("cp a.dcpk c.dcpk; printf X | dd of=c.dcpk bs=1 seek=140 conv=notrunc 2>dd; $dcpk pack verify c.dcpk a.dcpk");
    expect_failure(1, "c.dcpk: the pack is damaged");
    expect_in(last.out, "2 entries, "); /* the other one is looked at all the same */
    sh("chmod 0666 a.dcpk; $dcpk pack verify a.dcpk");
    expect_failure(1, "chmod go-w 'a.dcpk'");
}
END_TEST

START_TEST(pack_command_takes_only_the_options_of_its_action) {
    static const struct {
        const char *words, *says;
    } rows[] = {
        {"", "ls, verify or extract?"},
        {"frob a", "no action 'frob'"},
        {"ls", "ls which pack?"},
        {"verify --ptx a", "verify takes no --ptx"},
        {"ls -o x a", "ls takes no --output"},
        {"extract a --json", "extract takes no --json"},
        {"extract a", "extract FILE KEY"},
        {"extract a abcd", "-o FILE"},
        {"extract a abcd -o x --ptx --cubin", "one of --ptx, --cubin, --image"},
        {"ls a:b", "may not hold ':'"},
        {"ls --manifest --json a", "--manifest or --json"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sh("$dcpk pack %s", rows[i].words);
        expect_failure(2, rows[i].says);
    }
    sh("$dcpk pack ls missing.dcpk");
    expect_failure(1, "there is no pack missing.dcpk");
}
END_TEST

int main(void) {
    char shared[] = "/tmp/dcpk-aot-XXXXXX", line[64];
    if (mkdtemp(shared) == NULL || setenv("shared", shared, 1) != 0) return 1;
    Suite *suite = suite_create("aot_command");
    TCase *tests = tcase_create("aot_command");
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, setup, shell_teardown);
    tcase_add_test(tests, a_pack_of_any_name_is_reported);
    tcase_add_test(tests, pack_has_what_layers_of_both_forms_need_and_the_norm);
    tcase_add_test(tests, a_pack_of_form_check_is_run_and_compared_without_a_compiler);
    tcase_add_test(tests, lists_have_ranges_steps_and_forget_repetitions);
    tcase_add_test(tests, presets_and_files_of_shapes_come_together);
    tcase_add_test(tests, combinations_that_a_rule_refuses_are_named_and_the_others_built);
    tcase_add_test(tests, lists_of_which_nothing_is_left_are_refused_with_the_rule);
    tcase_add_test(tests, every_wrong_line_of_a_file_is_named_with_file_and_line);
    tcase_add_test(tests, words_that_make_no_sense_are_usage_errors);
    tcase_add_test(tests, same_request_gives_the_same_bytes_whatever_order_jobs_cache_or_folder);
    tcase_add_test(tests, manifest_names_version_generator_templates_format_toolchain_and_request);
    tcase_add_test(tests, digest_of_templates_is_of_names_and_contents_alone);
    tcase_add_test(tests, a_pack_goes_to_a_file_and_takes_no_place_of_what_it_is_made_of);
    tcase_add_test(tests, parts_of_a_pack_or_of_the_cache_take_no_place_of_the_whole);
    tcase_add_test(tests, any_build_failure_is_named_and_leaves_the_old_pack);
    tcase_add_test(tests, a_missing_compiler_is_code_3_and_a_place_that_cannot_be_written_is_known_at_once);
    tcase_add_test(tests, progress_is_for_terminals);
    tcase_add_test(tests, pack_command_lists_verifies_and_takes_apart);
    tcase_add_test(tests, pack_verify_finds_damage_and_says_where);
    tcase_add_test(tests, pack_command_takes_only_the_options_of_its_action);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    snprintf(line, sizeof line, "rm -rf '%s'", shared);
    if (system(line) != 0) return 1; /* NOLINT: our own words */
    return failed == 0 ? 0 : 1;
}
