/* test_install.c - `make install` into a folder of its own, and what its users do there: sample projects, the program
 * of the README, manual pages, completion. Sources are copied out of the tree, so that only what is installed is found.
 *
 * Run from the source folder. What needs a compiler of PTX is skipped, with a line, where there is none. */
#include "tests/shell.h"

#include <check.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define SANITIZE "-fsanitize=address,undefined"
#else
#define SANITIZE ""
#endif

/* For shell lines: $source, $build (a BUILD for make), $samples, and `installed` as a function of its arguments. */
static void setup(void) {
    char folder[4096], build[4096];
    ck_assert_ptr_nonnull(getcwd(folder, sizeof folder));
    ck_assert_msg(access("README.md", F_OK) == 0, "run this from the source folder");
    shell_setup();
    const char *program = getenv("dcpk");
    ck_assert_ptr_nonnull(program);
    snprintf(build, sizeof build, "%.*s", (int)(strlen(program) - strlen("/dcpk")), program);
    size_t above = strlen(folder);
    bool inside = strncmp(build, folder, above) == 0 && build[above] == '/';
    setenv("source", folder, 1);
    setenv("build", inside ? build + above + 1 : build, 1);
    setenv("make",
           "env -u PKG_CONFIG_LIBDIR make -s --no-print-directory -C \"$source\" BUILD=\"$build\" OPT='-O2 -g " SANITIZE
           "'",
           1);
    for (const char *const *name = (const char *const[]){"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DESTDIR", "CFLAGS", NULL};
         *name != NULL; name++)
        unsetenv(*name);
    setenv("DCPK_DEVICE", "cpu", 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* programs that end without closing are no matter here */
}

static void teardown(void) {
    unsetenv("DCPK_DEVICE");
    shell_teardown();
}

static void good(const char *line) {
    sh("%s", line);
    ck_assert_msg(last.code == 0, "%s: exit code %d\n%s\n%s", line, last.code, last.out, last.err);
}

/* Below "$PWD/usr", and found by pkg-config and CMake. */
static void install(void) {
    good("eval $make install PREFIX=$PWD/usr");
    char path[256];
    snprintf(path, sizeof path, "%s/usr/lib/pkgconfig", shell_folder);
    setenv("PKG_CONFIG_LIBDIR", path, 1);
    snprintf(path, sizeof path, "%s/usr", shell_folder);
    setenv("CMAKE_PREFIX_PATH", path, 1);
}

static bool can_build(const char *what) {
    sh("\"$dcpk\" build query_norm heads=1 batch=1");
    if (last.code == 3) printf("skipped: %s: no compiler of PTX here\n", what);
    return last.code != 3;
}

/* ---- putting and removing ------------------------------------------------------------------------------------------
 */

START_TEST(uninstall_removes_what_install_put_and_nothing_else) {
    good("mkdir -p stage/opt/own/lib stage/opt/own/include/dcpk stage/opt/own/share/man; echo x > "
         "stage/opt/own/lib/theirs; find stage | sort > before");
    good("eval $make install DESTDIR=$PWD/stage PREFIX=/opt/own");
    good("find stage | sort > between; test $(wc -l < between) -gt 60; test -x stage/opt/own/bin/dcpk");
    good("eval $make uninstall DESTDIR=$PWD/stage PREFIX=/opt/own; find stage | sort | cmp - before");
    good("eval $make install DESTDIR=$PWD/fresh PREFIX=/opt/own/deep; eval $make uninstall DESTDIR=$PWD/fresh "
         "PREFIX=/opt/own/deep; test -z \"$(find fresh -mindepth 1)\"");
    sh("eval $make uninstall DESTDIR=$PWD/fresh PREFIX=/opt/own/deep");
    ck_assert_int_ne(last.code, 0);
    expect_in(last.err, "uninstall: nothing to remove");
}
END_TEST

START_TEST(files_of_others_in_our_folders_stay) {
    install();
    good("echo x > usr/share/dcpk/templates/mine.ptx.lua; eval $make uninstall PREFIX=$PWD/usr; find usr -type f > "
         "left");
    good("test \"$(cat left)\" = usr/share/dcpk/templates/mine.ptx.lua");
}
END_TEST

START_TEST(a_new_version_takes_away_what_the_old_one_had_put) {
    install();
    good("echo x > usr/share/dcpk/templates/gone.lua; printf 'file\\tshare/dcpk/templates/gone.lua\\n' >> "
         "usr/share/dcpk/manifest; eval $make install PREFIX=$PWD/usr; ! test -e usr/share/dcpk/templates/gone.lua; ! "
         "grep -q gone usr/share/dcpk/manifest");
    good("eval $make install PREFIX=$PWD/usr LIBDIR=$PWD/usr/lib64; ! test -e usr/lib/libdcpk.so; test -e "
         "usr/lib64/libdcpk.so; eval $make uninstall PREFIX=$PWD/usr; ! test -e usr");
}
END_TEST

START_TEST(a_folder_outside_the_prefix_is_refused) {
    sh("eval $make install PREFIX=$PWD/usr LIBDIR=$PWD/lib");
    ck_assert_int_ne(last.code, 0);
    expect_in(last.err, "a folder below PREFIX");
    sh("eval $make install PREFIX=usr");
    ck_assert_int_ne(last.code, 0);
    expect_in(last.err, "install: PREFIX=usr: an absolute folder");
    sh("eval $make install PREFIX=$PWD/usr LIBDIR=\"\\\"$PWD/usr/l|b\\\"\"");
    ck_assert_int_ne(last.code, 0);
    expect_in(last.err, "below PREFIX only letters, digits");
    sh("eval $make uninstall PREFIX=usr");
    ck_assert_int_ne(last.code, 0);
    expect_in(last.err, "uninstall: PREFIX=usr: an absolute folder");
    good("! test -e usr");
}
END_TEST

START_TEST(folders_may_have_any_name) {
    good("put() { eval $make '\"$@\"'; }; put install DESTDIR=\"$PWD/de:s't\" PREFIX=\"/opt/it's \\\"c:d\\\" \\\\e\"");
    good("\"$PWD/de:s't/opt/it's \\\"c:d\\\" \\\\e/bin/dcpk\" gen query_norm heads=1 batch=1 | grep -q '^.version'");
    good("mkdir 'x\\'; mv \"$PWD/de:s't/opt/it's \\\"c:d\\\" \\\\e\" 'x\\/:y\\'; echo '-- own' > own.ptx.lua; for t in "
         "\"\" "
         "'--templates .'; do 'x\\/:y\\/bin/dcpk' gen query_norm heads=1 batch=1 $t | grep -q '^.version' || exit 1; "
         "done");
    good("mv 'x\\/:y\\' \"$PWD/de:s't/opt/it's \\\"c:d\\\" \\\\e\"; put() { eval $make '\"$@\"'; }; put uninstall "
         "DESTDIR=\"$PWD/de:s't\" PREFIX=\"/opt/it's \\\"c:d\\\" \\\\e\"; test -z \"$(find \"$PWD/de:s't\" -mindepth "
         "1)\"");
}
END_TEST

/* ---- libraries -----------------------------------------------------------------------------------------------------
 */

START_TEST(the_libraries_export_what_the_headers_declare) {
    install();
    /* By the compiler's eyes: names of functions with default visibility. */
    good("for h in usr/include/dcpk/*.h; do echo \"#include <dcpk/${h##*/}>\"; done | cc -std=c11 -E -P -Iusr/include "
         "- | tr '\\n' ' ' | grep -oE 'visibility\\(\"default\"\\)\\)\\) [^(;]*\\(' | grep -oE '[a-z0-9_]+\\($' | tr "
         "-d '(' | sort -u > declared; test $(wc -l < declared) -gt 90");
    good("nm -D --defined-only usr/lib/libdcpk.so usr/lib/libdcpkgen.so | sed -n 's/.* T \\(.*\\)@@DCPK_0$/\\1/p' | "
         "sort > exported; nm -D --defined-only usr/lib/libdcpkcpu.so | sed -n 's/.* T \\(dcpkcpu_.*\\)/\\1/p' >> "
         "exported; sort exported | diff declared -");
    /* Beside them only what gen may use of runtime, and the driver's interface. */
    good("nm -D --defined-only usr/lib/libdcpk.so | grep -vE '@@DCPK_0$|@@DCPK_PRIVATE_0\\.1\\.0$| A DCPK_' > more; nm "
         "-D --defined-only usr/lib/libdcpkgen.so | grep -vE '@@DCPK_0$| A DCPK_' >> more; nm -D --defined-only "
         "usr/lib/libdcpkcpu.so | grep -vE ' T (cu[A-Z]|dcpkcpu_)' >> more; cat more; grep -vE 'asan|ubsan|lsan' more "
         "| test ! -s /dev/stdin");
    good("readelf -V usr/lib/libdcpkgen.so | grep -q 'Name: DCPK_PRIVATE_0.1.0'");
    /* A program that links the static ones keeps every name that does not begin with dcpk_ for itself. */
    good("nm -g --defined-only usr/lib/libdcpk.a usr/lib/libdcpkgen.a | sed -n 's/.* [A-Z] //p' | sort -u > static; "
         "grep -vxF -f static declared | grep -v ^dcpkcpu_ | test ! -s /dev/stdin; "
         "grep -vE '^dcpk_|asan|ubsan|lsan' static | test ! -s /dev/stdin");
}
END_TEST

START_TEST(the_runtime_needs_the_c_library_alone) {
    install();
    const char *needed = "readelf -d usr/lib/%s | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p' | grep -vE "
                         "'^(libc|libm|libdl|libpthread|ld-linux.*)\\.so\\.[0-9]+$|^lib(a|ub)san'";
    char line[512];
    for (const char *const *name = (const char *const[]){"libdcpk.so", "libdcpkcpu.so", NULL}; *name != NULL; name++) {
        snprintf(line, sizeof line, needed, *name); /* NOLINT: our own words */
        sh("%s", line);
        ck_assert_msg(last.out[0] == '\0', "%s needs %s", *name, last.out);
    }
    snprintf(line, sizeof line, needed, "libdcpkgen.so"); /* NOLINT: our own words */
    sh("%s | grep -vE '^libdcpk\\.so\\.0$|^liblua5\\.4'", line);
    ck_assert_msg(last.out[0] == '\0', "libdcpkgen.so needs %s", last.out);
    good("for n in dcpk dcpkgen; do readelf -d usr/lib/lib$n.so | grep -q \"(SONAME).*\\[lib$n.so.0\\]\" || exit 1; "
         "done");
    good("test \"$(readlink usr/lib/libdcpk.so.0)\" = libdcpk.so.0.1.0");
}
END_TEST

/* ---- using it ------------------------------------------------------------------------------------------------------
 */

START_TEST(the_tree_may_be_moved) {
    good("eval $make install DESTDIR=$PWD/stage PREFIX=/opt/own LIBDIR=/opt/own/lib/deep/er; mv stage/opt/own moved; "
         "rm -r stage; test \"$(moved/bin/dcpk ls kernels --plain | cut -f2 | sort -u)\" = yes");
    if (!can_build("the_tree_may_be_moved")) return;
    good("moved/bin/dcpk run steps=1 heads=1 batch=1");
    good("cp -r \"$source/tests/samples/make\" sample; cd sample; export "
         "PKG_CONFIG_LIBDIR=$PWD/../moved/lib/deep/er/pkgconfig; CFLAGS='-O1 " SANITIZE "' make >&2; ./double");
    ck_assert_str_eq(last.out, "100 numbers doubled, 0 wrong\n");
    good("cd sample; cc " SANITIZE
         " $(PKG_CONFIG_LIBDIR=$PWD/../moved/lib/deep/er/pkgconfig:$(pkg-config --variable pc_path pkg-config) "
         "pkg-config --cflags dcpkgen) double.c ../moved/lib/deep/er/libdcpkgen.a ../moved/lib/deep/er/libdcpk.a "
         "$(pkg-config --libs lua5.4) -lm -o ../moved/bin/alone; ../moved/bin/alone");
    ck_assert_str_eq(last.out, "100 numbers doubled, 0 wrong\n");
}
END_TEST

START_TEST(a_make_project_builds_against_it) {
    if (!can_build("a_make_project_builds_against_it")) return;
    install();
    good("cp -r \"$source/tests/samples/make\" sample; cd sample; CFLAGS='-O1 -Werror " SANITIZE
         "' make >&2; ./double");
    ck_assert_str_eq(last.out, "100 numbers doubled, 0 wrong\n");
}
END_TEST

START_TEST(a_cmake_project_builds_its_kernels_and_the_runtime_loads_them) {
    if (!can_build("a_cmake_project_builds_its_kernels_and_the_runtime_loads_them")) return;
    install();
    good("cp -r \"$source/tests/samples/cmake\" sample; cmake -S sample -B tree -DCMAKE_C_FLAGS='-Werror " SANITIZE
         "' >&2; cmake --build tree >&2; tree/value");
    ck_assert_str_eq(last.out, "6144 values, 0 wrong\n");
    good("! readelf -d tree/value | grep -E 'lua|dcpkgen'");
    good("cmake --build tree 2>&1 | grep -c 'Kernels' | grep -qx 0"); /* nothing changed: nothing is made again */
    sh("sed -i 's/find_package(dcpk 0.1 /find_package(dcpk 0.2 /' sample/CMakeLists.txt; cmake -S sample -B other");
    ck_assert_int_ne(last.code, 0);
    expect_in(last.err, "0.1.0");
}
END_TEST

START_TEST(cmake_has_static_libraries_and_packs_of_own_templates) {
    if (!can_build("cmake_has_static_libraries_and_packs_of_own_templates")) return;
    install();
    good("cp -r \"$source/tests/samples/make\" usr/mine; cd usr/mine; rm Makefile; echo 'double batch=3' > shapes.txt; "
         "printf '%s\\n' 'cmake_minimum_required(VERSION 3.13)' 'project(double C)' 'find_package(dcpk 0.1.0 EXACT "
         "REQUIRED)' "
         "'dcpk_add_kernels(own SHAPES shapes.txt TEMPLATES templates OUTPUT \"out dir/deep/own.dcpk\")' "
         "'dcpk_add_kernels(more BATCH 1 DCP 1 2 KEYS heads=2 store_qc=0 FORM norm)' "
         "'add_executable(double double.c)' 'target_link_libraries(double dcpk::dcpkgen_static)' > CMakeLists.txt; "
         "cmake -S . -B tree -DCMAKE_C_FLAGS='" SANITIZE "' >&2; DCPK_TEMPLATE_PATH=/nowhere cmake --build tree >&2; "
         "../bin/dcpk pack ls \"tree/out dir/deep/own.dcpk\" >&2; ../bin/dcpk pack ls tree/more.dcpk >&2; "
         "LD_LIBRARY_PATH=$PWD/../lib tree/double");
    ck_assert_str_eq(last.out, "100 numbers doubled, 0 wrong\n");
    good("grep -q 'double arch=sm_90a batch=3' err; grep -q 'query_norm arch=sm_90a heads=2' err; ! ldd "
         "usr/mine/tree/double | grep dcpk");
}
END_TEST

START_TEST(a_program_that_is_static_as_a_whole_is_told_so) {
    install();
    good("printf '%s\n' '#include <dcpk/gen.h>' '#include <dcpk/runtime.h>' '#include <stdio.h>' 'int main(void) {' "
         "'dcpk_device *device = NULL; dcpk_error error; dcpk_error_init(&error);' "
         "'int status = dcpk_device_open(NULL, &device, &error); puts(error.text); dcpk_device_close(device);' "
         "'dcpk_gen *gen = NULL; dcpk_spec spec; dcpk_text ptx; dcpk_spec_parse(&spec, \"query_norm heads=1 batch=1\", "
         "NULL);' "
         "'dcpk_spec_resolve(&spec, NULL); dcpk_gen_open(NULL, &gen, NULL);' "
         "'if (dcpk_gen_expand(gen, &spec, &ptx, &error) == DCPK_OK) puts(\"expands\"); else puts(error.text);' "
         "'return status == DCPK_E_NOT_FOUND ? 7 : status != DCPK_OK; }' > a.c");
    const char *build = "cc -Iusr/include %s a.c usr/lib/libdcpkgen.a usr/lib/libdcpk.a $(pkg-config --variable libdir "
                        "lua5.4)/liblua5.4.a -lm -ldl -lpthread -o a";
    char line[512];
    if (SANITIZE[0] == '\0') {
        for (const char *const *how = (const char *const[]){"-static", "-static-pie", NULL}; *how != NULL; how++) {
            snprintf(line, sizeof line, build, *how); /* NOLINT: our own words */
            sh("env PKG_CONFIG_LIBDIR= true; unset PKG_CONFIG_LIBDIR; %s", line);
            if (last.code != 0) continue; /* a system without static libraries */
            sh("DCPK_TEMPLATE_PATH=$PWD/usr/share/dcpk/templates ./a");
            expect_code(7);
            expect_in(last.out, "linked statically as a whole");
            expect_in(last.out, "\nexpands\n");
        }
    }
    snprintf(line, sizeof line, build, SANITIZE); /* NOLINT: our own words */
    sh("unset PKG_CONFIG_LIBDIR; %s", line);
    expect_code(0);
    sh("./a");
    expect_code(7);
    expect_in(last.out, "LD_LIBRARY_PATH");
    expect_in(last.out, "there is no folder");
    expect_in(last.out, "DCPK_TEMPLATE_PATH");
    sh("export LD_LIBRARY_PATH=$PWD/usr/lib DCPK_TEMPLATE_PATH=$PWD/usr/share/dcpk/templates; ./a && "
       "$(readelf -l a | sed -n 's/.*interpreter: \\(.*\\)\\]/\\1/p') ./a");
    expect_code(0);
    expect_in(last.out, "expands\n");
}
END_TEST

START_TEST(the_program_of_the_readme_runs) {
    install();
    good("awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' \"$source/README.md\" > value.c; test $(wc "
         "-l < value.c) -le 60; cc -std=c11 -Wall -Wextra -Werror " SANITIZE
         " value.c $(pkg-config --cflags --libs dcpkgen) -Wl,-rpath,$PWD/usr/lib -o value");
    if (!can_build("the_program_of_the_readme_runs")) return;
    good("./value");
    expect_in(last.out, "output[7] is 8\n");
    good("echo 'dcp_value heads=1 batch=1 gate=0 arch=sm_90a' > shapes; usr/bin/dcpk aot --shapes shapes -o one.dcpk "
         ">&2; "
         "rm -rf \"$DCPK_CACHE_DIR\"; DCPK_PTXAS=/nonexistent ./value one.dcpk");
    expect_in(last.out, "output[7] is 8\n");
    sh("./value nothing.dcpk");
    expect_code(1);
    expect_in(last.err, "nothing.dcpk");
}
END_TEST

/* ---- what the command says of itself -------------------------------------------------------------------------------
 */

/* docs/writing-templates.md: with what it says is needed, and nothing else, its program is built and runs. */
START_TEST(the_guide_needs_what_it_says) {
    if (!can_build("the program of the guide")) return;
    good("mkdir my bad && awk '/^```/ { file = inside ? \"\" : $2; inside = !inside; if (file != \"\") { close(file); "
         "printf \"\" > file }; next } inside && file != \"\" { print > file }' \"$source/docs/writing-templates.md\"");
    good("grep '^    export ' \"$source/docs/writing-templates.md\" >settings; test $(wc -l <settings) -eq 3");
    good("mkdir home && HOME=$PWD/home && eval \"$make\" $(sed -n 's/^    make \\(install .*\\)/\\1/p' "
         "\"$source/docs/writing-templates.md\")");
    good("HOME=$PWD/home && . ./settings && test $(command -v dcpk) = $PWD/home/dcpk/bin/dcpk && "
         "cc -std=c11 " SANITIZE " run.c -o run $(pkg-config --cflags --libs dcpkgen dcpk) -lm && ./run");
    expect_in(last.out, "2 launches, 2 of them with PDL");
}
END_TEST

START_TEST(manual_pages_hold_every_row_of_the_tables) {
    install();
    static const char *const lists[][2] = {
        {"commands", "man1/dcpk.1"},      {"options", "man1/dcpk.1"},      {"env", "man1/dcpk.1"},
        {"errors", "man1/dcpk.1"},        {"exits", "man1/dcpk.1"},        {"models", "man1/dcpk.1"},
        {"keys", "man5/dcpk-spec.5"},     {"kernels", "man5/dcpk-spec.5"}, {"arch", "man5/dcpk-spec.5"},
        {"args", "man5/dcpk-template.5"}, {"box", "man5/dcpk-template.5"}, {"errors", "man5/dcpk-template.5"}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        sh("sed 's/\\\\-/-/g; s/\\\\&//g' usr/share/man/%s > page; usr/bin/dcpk ls %s --plain | cut -f1 | while read "
           "-r w; do grep -qF -e \"\\fB$w\" -e \"\\fBdcpk $w\" page || echo \"$w\"; done",
           lists[i][1], lists[i][0]);
        ck_assert_msg(last.out[0] == '\0' && last.code == 0, "%s has nothing of: %s%s", lists[i][1], last.out,
                      last.err);
    }
    good("! grep -nE '\\?[\\\\]?[&]?\\.' usr/share/man/man1/dcpk.1 | grep -F '?\\&.'"); /* a question ends as one */
    good("sed -n '/^.SS dcpk doctor/,/^.nf/p' usr/share/man/man1/dcpk.1 > page; grep -qx '.fBdcpk doctor.fR .options.' "
         "page; "
         "grep -q '^what is here.*with it.*[.]' page");
    good("! grep -l '@[a-z]*@' usr/share/man/man*/* usr/lib/pkgconfig/* usr/lib/cmake/dcpk/*; ! grep -l '@[A-Z]*@' "
         "usr/lib/pkgconfig/* usr/lib/cmake/dcpk/*");
}
END_TEST

/* What bash would offer for a line; words are separated as readline does. */
static void complete(const char *words) {
    sh("PATH=$PWD/usr/bin:$PATH bash -c 'source usr/share/bash-completion/completions/dcpk; COMP_WORDS=(%s); "
       "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=\"${COMP_WORDS[*]}\"; COMP_LINE=${COMP_LINE// =/=}; "
       "COMP_LINE=${COMP_LINE//= /=}; COMP_POINT=${#COMP_LINE}; _dcpk dcpk; printf \"%%s\\n\" \"${COMPREPLY[@]}\"'",
       words);
    expect_code(0);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The words of a text in the order of letters. */
static void sorted(const char *text, char *out, size_t capacity) {
    char copy[256], *words[64] = {NULL}, *rest = copy;
    size_t count = 0, length = 0;
    ck_assert_uint_lt((size_t)snprintf(copy, sizeof copy, "%s", text), sizeof copy);
    for (char *word; count < 64 && (word = strtok_r(rest, " ", &rest)) != NULL;)
        words[count++] = word;
    qsort(words, count, sizeof *words, by_text);
    out[0] = '\0';
    for (size_t i = 0; i < count; i++)
        length += (size_t)snprintf(out + length, capacity - length, "%s%s", i > 0 ? " " : "", words[i]);
}

START_TEST(completion_offers_what_the_command_knows) {
    install();
    complete("dcpk expl");
    ck_assert_str_eq(last.out, "explain\n");
    complete("dcpk ls arc");
    ck_assert_str_eq(last.out, "arch\n");
    complete("dcpk build dcp_");
    ck_assert_str_eq(last.out, "dcp_value\n");
    complete("dcpk build dcp_value inter");
    ck_assert_str_eq(last.out, "interleave=\n");
    complete("dcpk build dcp_value publish = mul");
    ck_assert_str_eq(last.out, "multicast\n");
    complete("dcpk run model = kimi-k3");
    ck_assert_str_eq(last.out, "kimi-k3\n");
    complete("dcpk run --event");
    ck_assert_str_eq(last.out, "--event-ordered\n");
    complete("dcpk cache ver");
    ck_assert_str_eq(last.out, "verify\n");
    complete("dcpk help expl");
    ck_assert_str_eq(last.out, "explain\n");
}
END_TEST

/* One table: what is typed, and all that is offered. "" is the empty word at the cursor. */
START_TEST(completion_knows_the_values_of_options_and_what_actions_take) {
    install();
    good("mkdir dir; touch one.dcpk 'one more.dcpk' other");
    static const char *const rows[][2] = {
        {"dcpk pack \"\"", "ls verify extract"},
        {"dcpk pack ls one", "one.dcpk one more.dcpk"},
        {"dcpk pack verify --json one.dcpk oth", "other"},
        {"dcpk pack extract one.", "one.dcpk"},
        {"dcpk pack extract -o dir one.", "one.dcpk"},
        {"dcpk pack extract other mla_q", "mla_query"},
        {"dcpk pack extract other mla_query split", "splits= split="},
        {"dcpk pack extract other mla_query pv = f", "f16 fp8"},
        {"dcpk pack --man", "--manifest"},
        {"dcpk pack extract other mla_query -o oth", "other"},
        {"dcpk cache \"\"", "path ls verify extract clear"},
        {"dcpk cache ls \"\"", ""},
        {"dcpk run --device \"\"", "cpu cuda auto"},
        {"dcpk run --device = cu", "cuda"},
        {"dcpk run --device =", "cpu cuda auto"},
        {"dcpk run -d cp", "cpu"},
        {"dcpk run --schedule = r", "random"},
        {"dcpk replay --schedule \"\"", "fair random"},
        {"dcpk run --form wa", "wait"},
        {"dcpk run --inject = ta", "table"},
        {"dcpk run --save oth", "other"},
        {"dcpk run --json --templates di", "dir"},
        {"dcpk sweep --model kimi-k3,kimi-k3", "kimi-k3,kimi-k3"},
        {"dcpk aot --form push,n", "push,norm"},
        {"dcpk aot --arch = sm_120", "sm_120 sm_120a"},
        {"dcpk aot --batch \"\"", ""},
        {"dcpk doctor --model = kimi-k3", "kimi-k3"},
        {"dcpk build -o dir mla_q", "mla_query"},
        {"dcpk build mla_query query_", ""},
        {"dcpk exec --arg u", "u8: u16: u32: u64:"},
        {"dcpk exec --arg \"\"", "u8: u16: u32: u64: f32: f64: bytes: in: out: inout:"},
        {"dcpk exec --arg u32 : 5", ""},
        {"dcpk exec --arg u32 : 5 -a in : oth", "other"},
        {"dcpk exec --arg = inout : oth", "other"},
        {"dcpk exec -a out : 16 : oth", "other"},
        {"dcpk exec -a out : 16", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        complete(rows[i][0]);
        for (char *at = last.out; *at != '\0'; at++)
            if (*at == '\n') *at = at[1] == '\0' ? '\0' : ' ';
        char wanted[256], got[256];
        sorted(rows[i][1], wanted, sizeof wanted);
        sorted(last.out, got, sizeof got);
        ck_assert_msg(strcmp(got, wanted) == 0, "%s: '%s', wanted '%s'", rows[i][0], got, wanted);
    }
    if (!can_build("completion of keys")) return;
    good("\"$dcpk\" cache ls | sed -n 's/^\\([0-9a-f]\\{32\\}\\) .*/\\1/p' > key; test $(wc -c < key) = 33");
    complete("dcpk cache extract \"\"");
    char key[40];
    snprintf(key, sizeof key, "%s", last.out);
    good("cat key");
    ck_assert_str_eq(last.out, key);
    good("echo 'query_norm heads=1 batch=1' > shapes; \"$dcpk\" aot --shapes shapes -o own.dcpk");
    complete("dcpk pack extract own.dcpk \"\"");
    expect_in(last.out, "\nquery_norm\n");
    ck_assert_uint_eq(strspn(last.out, "0123456789abcdef"), 32);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("install");
    TCase *tests = tcase_create("install");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, uninstall_removes_what_install_put_and_nothing_else);
    tcase_add_test(tests, files_of_others_in_our_folders_stay);
    tcase_add_test(tests, a_new_version_takes_away_what_the_old_one_had_put);
    tcase_add_test(tests, a_folder_outside_the_prefix_is_refused);
    tcase_add_test(tests, folders_may_have_any_name);
    tcase_add_test(tests, a_program_that_is_static_as_a_whole_is_told_so);
    tcase_add_test(tests, the_libraries_export_what_the_headers_declare);
    tcase_add_test(tests, the_runtime_needs_the_c_library_alone);
    tcase_add_test(tests, the_tree_may_be_moved);
    tcase_add_test(tests, a_make_project_builds_against_it);
    tcase_add_test(tests, a_cmake_project_builds_its_kernels_and_the_runtime_loads_them);
    tcase_add_test(tests, cmake_has_static_libraries_and_packs_of_own_templates);
    tcase_add_test(tests, the_program_of_the_readme_runs);
    tcase_add_test(tests, the_guide_needs_what_it_says);
    tcase_add_test(tests, manual_pages_hold_every_row_of_the_tables);
    tcase_add_test(tests, completion_offers_what_the_command_knows);
    tcase_add_test(tests, completion_knows_the_values_of_options_and_what_actions_take);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
